"""The phrase-based decoder."""

import gzip
import math
import os
import re
import tracemalloc

import pytest
from brute_force_decoder import derivations, floored
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interrupted import interrupted

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import parse_features, parse_nbest_line
from keras_encdec.smt import NgramModel, add_phrase_features, decode_nbest, estimate_ngrams, initial_weights
from keras_encdec.smt.decoder.decoding_options import DecoderWeights
from keras_encdec.smt.decoder.phrase_options import TranslationOptionFinder

NAMES = ("Distortion0", "LM0", "WordPenalty0", "PhrasePenalty0", "TranslationModel0")
TARGETS = ["x y z", "z y", "x x y", "y z x x", "z z", "w x"]
TABLE = {
    "a": [("x", (0.5, 0.25)), ("y", (0.25, 0.125))],
    "b": [("y", (0.5, 0.5)), ("z z", (0.0, 1.0))],
    "a b": [("x y", (0.25, 0.75)), ("z", (0.125, 0.5))],
    "d": [("&apos;", (1.0, 1.0))],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a language model, arpa, and the table."""
    folder = tmp_path_factory.mktemp("decoder")
    (folder / "text").write_text("".join(f"{line}\n" for line in TARGETS))
    estimate_ngrams(folder / "text", folder / "arpa", order=3)
    write_table(folder / "table", TABLE)
    return folder


def write_table(path, table):
    path.write_text(
        "".join(
            f"{source} ||| {target} ||| {' '.join(map(str, scores))} ||| ||| |||\n"
            for source, targets in table.items()
            for target, scores in targets
        )
    )


def weights_of(values):
    """Weights of the decoder from a list: those of the four features, then those of the table."""
    return dict(zip(NAMES, [[value] for value in values[:4]] + [values[4:]], strict=True))


WEIGHTS = weights_of([0.3, 0.5, -0.25, 0.125, 0.2, 0.1])


def decode(folder, sentences, weights=WEIGHTS, **options):
    """The lines of the n-best list, as `(NBestLine, segmentation)`."""
    (folder / "source").write_text("".join(f"{sentence}\n" for sentence in sentences))
    given = {"number_of_processes": 1, "nbest_size": 1000, "pop_limit": 10_000, "table_limit": 0, **options}
    decode_nbest(folder / "source", folder / "table", folder / "arpa", folder / "nbest", weights, **given)
    lines = (folder / "nbest").read_bytes().splitlines()
    return [(parse_nbest_line(line), (line + b" ").split(b"|||")[4].decode().split()) for line in lines]


def values(line):
    """The features of a line as a list of float."""
    features = parse_features(line.features)
    assert tuple(features) == NAMES
    return [value for feature in features.values() for value in feature]


def total(features, weights, unknown):
    flat = [weight for name in NAMES for weight in weights[name]]
    return math.fsum(map(lambda pair: pair[0] * pair[1], zip(features, flat, strict=True))) - 100 * unknown


scores = st.sampled_from([0.0, 1e-50, 0.125, 0.5, 0.75, 1.0])
phrases = st.lists(st.sampled_from("xyz"), max_size=2).map(" ".join)  # without words, the source is deleted
tables = st.dictionaries(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2).map(" ".join),
    st.lists(st.tuples(phrases, st.tuples(scores, scores)), min_size=1, max_size=2, unique_by=lambda item: item[0]),
    min_size=1,
    max_size=5,
)
weight = st.floats(-1, 1).map(lambda value: round(value, 3))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=tables,
    words=st.lists(st.sampled_from("abcd"), min_size=1, max_size=4),
    values_of_weights=st.lists(weight, min_size=6, max_size=6),
    distortion_limit=st.sampled_from([-1, 0, 1, 2, 6]),
)
def test_the_list_has_the_best_of_all_derivations(folder, tmp_path, table, words, values_of_weights, distortion_limit):
    write_table(tmp_path / "table", {**table, "e": [("x", (1.0, 1.0))]})
    (tmp_path / "arpa").write_bytes((folder / "arpa").read_bytes())
    weights, model = weights_of(values_of_weights), NgramModel(tmp_path / "arpa")
    best = {}
    for derivation in derivations(words, table, 2, distortion_limit):
        value = total(derivation.features(model), weights, derivation.unknown)
        best[derivation.text] = max(value, best.get(derivation.text, -math.inf))
    lines = decode(tmp_path, [" ".join(words), "e"], weights, distortion_limit=distortion_limit)
    result = {line.hypothesis.decode(): line.total for line, _ in lines if line.id == 0}
    assert result == pytest.approx(best, rel=1e-4, abs=1e-4)


def test_a_phrase_may_be_deleted(folder, tmp_path):
    (tmp_path / "arpa").write_bytes((folder / "arpa").read_bytes())
    write_table(tmp_path / "table", {"a": [("", (0.5, 0.25))], "b": [("y", (1.0, 1.0))]})
    lines = decode(tmp_path, ["a b a", "a"], nbest_size=1)
    assert [(line.hypothesis.decode(), segmentation) for line, segmentation in lines] == [
        ("y", ["0=0", "1=0", "2=1"]),
        ("", ["0=0"]),
    ]
    assert parse_features(lines[0][0].features)["TranslationModel0"] == pytest.approx(
        [2 * math.log(0.5), 2 * math.log(0.25)], rel=1e-5
    )
    given = tmp_path / "nbest", tmp_path / "source", tmp_path / "table", tmp_path / "out"
    add_phrase_features(*given, {"Deletions0": [2]})
    sums = [parse_features(line.split(b"|||")[2])["Deletions0"] for line in given[-1].read_bytes().splitlines()]
    assert sums == [pytest.approx([2 * math.log(0.25)], rel=1e-5), pytest.approx([math.log(0.25)], rel=1e-5)]


@pytest.mark.parametrize("word", ["<s>", "</s>", "<unk>"])
def test_an_escaped_name_of_a_boundary_is_an_unknown_word(folder, tmp_path, word):
    (tmp_path / "arpa").write_bytes((folder / "arpa").read_bytes())
    write_table(tmp_path / "table", TABLE)
    escaped = word.replace("<", "&lt;").replace(">", "&gt;")
    (found, _), (expected, _) = decode(tmp_path, [f"d {escaped} d", "d unknown d"], nbest_size=1)
    assert found.hypothesis.decode() == f"&apos; {escaped} &apos;" and values(found) == values(expected)


@pytest.mark.parametrize(("distortion_limit", "orders"), [(0, 1), (1, 1), (2, 13), (3, 53), (-1, 720)])
def test_the_distortion_limit_allows_the_orders_that_moses_allows(folder, tmp_path, distortion_limit, orders):
    """No jump is longer, and from each phrase that leaves a gap one can get back."""
    (tmp_path / "arpa").write_bytes((folder / "arpa").read_bytes())
    words = list("abcdef")
    table = {word: [(word, (1.0, 1.0))] for word in words} | {"b c": [("b c", (1.0, 1.0))]}
    write_table(tmp_path / "table", table)
    lines = decode(tmp_path, [" ".join(words)], distortion_limit=distortion_limit)
    expected = {derivation.text for derivation in derivations(words, table, 2, distortion_limit)}
    assert {line.hypothesis.decode() for line, _ in lines} == expected
    assert len(expected) == orders


def test_features_and_segmentation_are_those_of_the_phrases(folder):
    sentences = ["a b c a b", "b a d", "c", "a b a b"]
    lines = decode(folder, sentences, distortion_limit=3, nbest_size=100)
    model = NgramModel(folder / "arpa")
    assert len(lines) > 100
    for line, segmentation in lines:
        source, target = sentences[line.id].split(), line.hypothesis.decode().split()
        covered, source_end, target_end, jumps, sums, unknown = set(), 0, 0, 0, [0.0, 0.0], 0
        for pair in segmentation:
            sides = [side.split("-") for side in pair.split("=")]
            (s, s_end), (t, t_end) = ((int(side[0]), int(side[-1]) + 1) for side in sides)
            assert not covered & set(range(s, s_end)) and t == target_end
            jumps, source_end, target_end = jumps + abs(s - source_end), s_end, t_end
            covered |= set(range(s, s_end))
            phrase, translation = " ".join(source[s:s_end]), " ".join(target[t:t_end])
            if phrase in TABLE:
                of_phrase = [floored(score) for score in dict(TABLE[phrase])[translation]]
                sums = [first + second for first, second in zip(sums, of_phrase, strict=True)]
            else:
                assert phrase == translation == "c"
                unknown += 1
        assert covered == set(range(len(source))) and target_end == len(target)
        log_prob = model.score(target) * math.log(10)
        expected = [-jumps, log_prob, -len(target), len(segmentation), *sums]
        assert values(line) == pytest.approx(expected, rel=1e-5)
        assert line.total == pytest.approx(total(values(line), WEIGHTS, unknown), rel=1e-4, abs=1e-4)


def test_a_list_is_sorted_and_has_each_hypothesis_once(folder):
    lines = decode(folder, ["a b a b", "b b", "a a a"], nbest_size=7)
    for number in range(3):
        sentence = [line for line, _ in lines if line.id == number]
        assert len({line.hypothesis for line in sentence}) == len(sentence) <= 7
        assert [line.total for line in sentence] == sorted((line.total for line in sentence), reverse=True)
    assert sum(line.id == 0 for line, _ in lines) == 7
    assert [line.id for line, _ in lines] == sorted(line.id for line, _ in lines)


def test_the_64_segmentations_of_a_text_take_the_place_of_no_other_text(folder, tmp_path):
    (tmp_path / "arpa").write_bytes((folder / "arpa").read_bytes())
    phrases = [" ".join("abcdefg"[i:j]) for i in range(7) for j in range(i + 1, 8)]
    table = {phrase: [(phrase, (1.0, 1.0))] for phrase in phrases}
    table["g"].append(("h", (1e-30, 1e-30)))
    write_table(tmp_path / "table", table)
    lines = decode(tmp_path, ["a b c d e f g"], nbest_size=2, distortion_limit=0)
    assert [line.hypothesis for line, _ in lines] == [b"a b c d e f g", b"a b c d e f h"]


def test_a_line_is_as_moses_writes_it(folder):
    decode(folder, ["b a", ""], nbest_size=1)
    first, second = (folder / "nbest").read_text().splitlines()
    assert first == (
        "0 ||| x y  ||| Distortion0= -3 LM0= -3.0558 WordPenalty0= -2 PhrasePenalty0= 2 "
        "TranslationModel0= -1.38629 -2.07944 ||| -2.1631 ||| 1=0 0=1"
    )
    assert second.startswith("1 |||   ||| Distortion0= 0 LM0= -")
    assert " WordPenalty0= 0 PhrasePenalty0= 0 TranslationModel0= 0 0 ||| -" in second and second.endswith(" |||")


def test_a_small_pop_limit_and_a_table_limit_try_fewer_options(folder):
    everything = decode(folder, ["a b a b"], nbest_size=100)
    few = decode(folder, ["a b a b"], nbest_size=100, pop_limit=5)
    assert 0 < len(few) < len(everything)
    assert few[0][0].total <= everything[0][0].total
    limited = decode(folder, ["a", "b"], table_limit=1)
    assert [line.hypothesis for line, _ in limited] == [b"x", b"y"]  # z z has the score 0, and the lower sum


def test_escapes_make_no_difference(folder, tmp_path):
    """Escapes of the text, of the table and of the language model."""
    (tmp_path / "text").write_text("l' x\nl' y\n")
    escaped = {"'s": [("l'", (0.5,))], "[": [("x", (0.5,))]}
    for source, table in (("'s [ |", escaped), ("&apos;s &#91; &#124;", escaped)):
        for text in ("l' x |\nl' y\n", "l&apos; x &#124;\nl&apos; y\n"):
            for mark in ("'", "&apos;"):
                write_table(tmp_path / "table", table)
                written = (tmp_path / "table").read_text()
                (tmp_path / "table").write_text(written.replace("'", mark))
                (tmp_path / "text").write_text(text)
                estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
                ((line, _),) = decode(tmp_path, [source], weights_of([0.3, 0.5, -1, 0.2, 0.2]), nbest_size=1)
                assert line.hypothesis == b"l&apos; x &#124;"
                assert parse_features(line.features)["LM0"] == pytest.approx([-2.29], abs=0.5)


def test_several_processes_write_the_same_list(folder, tmp_path):
    sentences = ["a b", "b a c", "d", "a"] * 5
    decode(folder, sentences, nbest_size=3)
    expected = (folder / "nbest").read_bytes()
    summary = decode_nbest(
        folder / "source",
        folder / "table",
        folder / "arpa",
        tmp_path / "nbest.gz",
        WEIGHTS,
        nbest_size=3,
        pop_limit=10_000,
        table_limit=0,
        number_of_processes=2,
    )
    assert gzip.decompress((tmp_path / "nbest.gz").read_bytes()) == expected
    assert (summary.sentences, summary.unknown_words, summary.lines) == (20, 5, expected.count(b"\n"))
    assert " hypotheses of 20 sentences, 5 words copied because the table lacks them, in " in str(summary)
    assert [path.name for path in tmp_path.iterdir()] == ["nbest.gz"]


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ({**WEIGHTS, "LM0": [0.5, 0.5]}, 'found 2 weights of LM0, expected 1; give it, such as --weight="LM0= 0.5"'),
        (initial_weights(4), "found 4 weights of TranslationModel0, expected 2, one for each score of the table"),
        ({name: WEIGHTS[name] for name in NAMES[1:]}, "found no weight of Distortion0, expected weights"),
        (
            {**WEIGHTS, "RNN0": [0, 0.5], "LM1": [0], "LM2": [1]},
            'found weights of RNN0, LM2, expected weights of .* --weight="RNN0= 0 0" --weight="LM2= 0"',
        ),
        (
            {**WEIGHTS, "tm_a": [1.0], "tm_b": [2.0]},
            r"found weights of 2 sparse features, .*; leave them out; in a moses.ini, remove \[weight-file\]",
        ),
    ],
)
def test_weights_that_do_not_fit_are_reported(folder, weights, sentence):
    with pytest.raises(InputError, match=sentence):
        decode(folder, ["a"], weights)


def test_weights_of_0_and_of_unknown_words_are_accepted(folder):
    extra = {"LexicalReordering0": [0.0] * 6, "UnknownWordPenalty0": [0.5]}
    *_, (line, _) = decode(folder, ["a", "c"])
    *_, (other, _) = decode(folder, ["a", "c"], {**WEIGHTS, **extra})
    assert other.total == pytest.approx(line.total + 50, abs=1e-3)


def test_unusable_input_leaves_the_output_unchanged(folder):
    (folder / "nbest").write_text("before")
    with pytest.raises(InputError, match="source, line 2: found 3 words, expected at most 2; raise --max"):
        decode(folder, ["a", "a b c"], max_sentence_length=2)
    with pytest.raises(InputError, match="line 1: found 501 words, expected at most 500; shorten the sentence"):
        decode(folder, ["a " * 501], max_sentence_length=500)
    with pytest.raises(InputError, match="none: found no such file"):
        decode_nbest(folder / "source", folder / "table", folder / "none", folder / "nbest")
    with pytest.raises(ConfigurationError, match="found pop_limit=0, expected a whole number, 1 or more"):
        decode(folder, ["a"], pop_limit=0)
    with pytest.raises(ConfigurationError, match="found max_sentence_length=501, expected a whole number, 1 to 500"):
        decode(folder, ["a"], max_sentence_length=501)
    assert (folder / "nbest").read_text() == "before"


def test_a_malformed_table_is_reported_with_its_line(folder, tmp_path):
    (tmp_path / "arpa").write_bytes((folder / "arpa").read_bytes())
    for line, sentence in {
        "b ||| y ||| 0.5": "line 2: found 1 score, expected 2 as on line 1",
        "b ||| y ||| 0.5 -0.5": "line 2: found the score -0.5, expected probabilities",
    }.items():
        (tmp_path / "table").write_text(f"a ||| x ||| 0.5 0.5\n{line}\n")
        with pytest.raises(InputError, match=f"table, {sentence}") as caught:
            decode(tmp_path, ["b a"])
        assert "--on_error" not in str(caught.value)  # a flag that the command does not have


def test_words_that_the_table_lacks_are_copied(folder):
    decode(folder, ["v", "w &amp;"], distortion_limit=0)
    lines = (folder / "nbest").read_text().splitlines()
    assert [line.split(" ||| ")[1].strip() for line in lines] == ["v", "w &amp;"]


def test_phrases_that_the_table_lacks_take_no_memory(folder):
    finder = TranslationOptionFinder({}, NgramModel(folder / "arpa"), DecoderWeights.of_features(WEIGHTS, 2), 0)
    tracemalloc.start()
    for number in range(10):
        finder.of_sentence([f"{number}-{word}" for word in range(30)])
    assert tracemalloc.get_traced_memory()[0] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize("words, is_reported", [("v w a b", False), ("v w v a b", True), ("v w", True)])
def test_a_table_that_lacks_most_words_is_reported(folder, tmp_path, words, is_reported):
    (tmp_path / "source").write_text(f"{words}\n\n")
    inputs = tmp_path / "source", folder / "table", folder / "arpa"
    notices = decode_nbest(*inputs, tmp_path / "nbest", WEIGHTS, number_of_processes=1).notices
    assert [notice.partition(" were")[0] for notice in notices] == ["warning: most words"] * is_reported


def test_weights_are_bounded(folder):
    for weight in (1e31, float("inf"), float("nan")):
        with pytest.raises(InputError, match=re.escape(f"found the weight {weight} of LM0, expected a number from ")):
            decode(folder, ["a"], other_weights={"LM0": [weight]})


def test_with_one_process_no_other_is_started(folder, monkeypatch):
    monkeypatch.setattr("keras_encdec.runtime.workers.child_processes", None)
    assert [line.id for line, _ in decode(folder, ["e"] * 20)] == list(range(20))


def test_an_interrupted_job_in_shards_continues_to_the_same_list(folder, tmp_path):
    (folder / "source").write_text("".join(f"{'a b ' * (i % 4)} d\n" for i in range(40)) + "a e")
    files = folder / "source", folder / "table", folder / "arpa"
    whole = decode_nbest(*files, tmp_path / "whole", WEIGHTS, number_of_processes=1, nbest_size=5)
    options = {"number_of_processes": 1, "nbest_size": 5, "shard_lines": 16}
    with interrupted(shards=1):
        decode_nbest(*files, tmp_path / "list", WEIGHTS, **options)
    assert not (tmp_path / "list").exists()
    with pytest.raises(InputError, match="found the settings nbest_size 6, expected 5"):
        decode_nbest(*files, tmp_path / "list", WEIGHTS, **{**options, "nbest_size": 6})
    summary = decode_nbest(*files, tmp_path / "list", WEIGHTS, **options)
    assert (tmp_path / "list").read_bytes() == (tmp_path / "whole").read_bytes()
    assert "An interrupted command had already translated 16 sentences." in summary.notices
    assert f" s, {(summary.sentences - 16) / summary.seconds:,.1f} sentences/s: " in str(summary)
    assert (summary.lines, summary.sentences, summary.words, summary.unknown_words) == (
        whole.lines,
        whole.sentences,
        whole.words,
        whole.unknown_words,
    )


def test_shards_of_what_can_be_read_only_once_are_refused_before_the_table_is_read(folder, tmp_path):
    (folder / "source").write_text("a b\n")
    files = {"source": folder / "source", "phrase_table": folder / "table", "output": tmp_path / "list"}
    options = {"language_model": folder / "arpa", "shard_lines": 8, "number_of_processes": 1}
    for name in ("source", "phrase_table"):
        reading, writing = os.pipe()
        with open(reading), open(writing, "wb") as pipe:
            pipe.write(files[name].read_bytes())
            pipe.close()
            path = f"/dev/fd/{reading}"
            with pytest.raises(InputError, match=f"^{path}: found a pipe, expected a file, because it is read more"):
                decode_nbest(**{**files, name: path}, **options, progress=pytest.fail)
    with pytest.raises(ConfigurationError, match="found the output - with shards, expected a file"):
        decode_nbest(**{**files, "output": "-"}, **options, progress=pytest.fail)


def test_a_full_folder_for_temporary_files_is_named(tmp_path, folder, full_temporary_folder):
    write_table(tmp_path / "table", {"a": [("x" * length, (0.5, 0.5)) for length in range(200)]})
    (tmp_path / "source").write_text("a\n")
    with pytest.raises(InputError, match=full_temporary_folder):
        decode_nbest(tmp_path / "source", tmp_path / "table", folder / "arpa", tmp_path / "nbest", WEIGHTS)
