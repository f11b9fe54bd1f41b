"""Tests of writing copies of n-best lists with a model's scores."""

import gzip
import os
import re

import numpy as np
import pytest
from toy_models import TARGET_WORDS, save_model

from keras_encdec.errors import InputError
from keras_encdec.formats import parse_features, parse_nbest_line
from keras_encdec.scoring import TextScorer, score_file
from keras_encdec.text.lexical_shortlist import LexicalShortlist

SENTENCES = ["le chat", "l&apos; été  |", "", "la|DET|la maison|NOM|maison", "le " * 80]
# Lines of every form, the number of the sentence, and the words of the hypothesis as the model reads them.
LINES = {
    "0 ||| the cat  ||| LM0= -4.5 TM0= -1 -2 ||| -3.25 ||| 0=0 1=1 ||| 0-0 1-1 ": (0, "the cat"),
    "0 ||| cat  ||| LM0= -2.5 TM0= -1 -2 ||| -3.5": (0, "cat"),
    "0 ||| the cat  ||| LM0= -4.5 TM0= -1 -3 ||| -3.75 ||| 0=0 1=1": (0, "the cat"),
    "1|||&apos;s summer|||LM0= 0 TM0= 1E-05 .5|||7": (1, "'s summer"),
    "  1 |||\tdog  of the\t&quot; ||| LM0= 0\tTM0= 0 0  ||| -103.662 ||| ||| ": (1, 'dog of the "'),
    "2 |||  |||  ||| 0": (2, ""),
    "3 ||| the|DT house|NN dog|NN  ||| sparse_feature= 1 ||| -1e+10": (3, "the house dog"),
    f"4 ||| {'the ' * 70} ||| LM0= -1 ||| -2": (4, "the " * 70),
}
WORDS = ["le chat", "l' été |", "", "la maison", "le " * 80]
PAIRS = [(WORDS[number].split(), hypothesis.split()) for number, hypothesis in LINES.values()]


@pytest.fixture
def files(out, tmp_path):
    """A folder with a list and its sources, and an empty folder `out`."""
    (tmp_path / "nbest").write_text("\n".join(LINES) + "\n")
    (tmp_path / "source").write_text("\n".join(SENTENCES) + "\n")
    return tmp_path


@pytest.fixture
def score(forward_scorer, files):
    """Scores the list of the folder; returns the summary."""

    def run(**changed):
        arguments = {"model_dir": forward_scorer, "input": files / "nbest", "source": files / "source"}
        return score_file(**(arguments | {"output": files / "out" / "nbest", "format": "nbest"} | changed))

    return run


def refused(sentence):
    """Checks that scoring raises an InputError that begins with the sentence."""
    return pytest.raises(InputError, match="^" + re.escape(str(sentence)))


def added(before, after):
    """The features added to each line, a list of dicts; asserts that nothing else changed, in any line."""
    features = []
    for old, new in zip(before.split(b"\n"), after.split(b"\n"), strict=True):
        head = b"|||".join(old.split(b"|||")[:3]).rstrip()
        tail = old[len(head) :]
        assert new.startswith(head) and new.endswith(tail), (old, new)
        middle = new[len(head) : len(new) - len(tail)]
        assert not middle or middle.startswith(b" ")
        features.append({name: values[0] for name, values in parse_features(middle).items()})
    return features


@pytest.mark.parametrize(("end", "last", "zipped"), [("\n", "\n", True), ("\n", "", False), ("\r\n", "\r\n", False)])
def test_every_line_gets_the_score_of_its_pair(score, forward_scorer, files, end, last, zipped):
    data = (end.join(LINES) + last).encode()
    source = (end.join(SENTENCES) + last).encode()
    (files / "nbest").write_bytes(gzip.compress(data) if zipped else data)
    (files / "source").write_bytes(gzip.compress(source) if zipped else source)
    output = files / "out" / ("nbest.gz" if zipped else "nbest")
    assert score(output=output).lines == len(LINES)
    written = output.read_bytes()
    written = gzip.decompress(written) if zipped else written
    features = added(data, written)
    assert not last or features.pop() == {}
    expected = [forward_scorer.score([pair])[0] for pair in PAIRS]
    assert [list(line) for line in features] == [["RNN0"]] * len(LINES)
    np.testing.assert_allclose([line["RNN0"] for line in features], expected, rtol=1e-5, atol=1e-4)
    assert len(re.findall(rb" RNN0= -\d+\.\d{6}(?![^ |])", written)) == len(LINES), "as Moses's tools read numbers"
    for line in written.splitlines():
        assert parse_nbest_line(line)


def test_all_features_together(score, forward_scorer, reverse_scorer, files):
    score(reverse_model_dir=reverse_scorer, feature_name="Enc9", unknown_count=True, length=True)
    *features, last = added((files / "nbest").read_bytes(), (files / "out" / "nbest").read_bytes())
    assert last == {}
    columns = {name: [line[name] for line in features] for name in features[0]}
    assert list(columns) == ["Enc9", "Enc10", "Unknown0", "Length0"]
    for name, scorer in {"Enc9": forward_scorer, "Enc10": reverse_scorer}.items():
        expected = [scorer.score([pair])[0] for pair in PAIRS]
        np.testing.assert_allclose(columns[name], expected, rtol=1e-5, atol=1e-4)
    assert columns["Unknown0"] == [sum(word not in TARGET_WORDS for word in target) for _, target in PAIRS]
    assert columns["Length0"] == [len(target) + 1 for _, target in PAIRS] and sum(columns["Unknown0"]) == 3


def test_the_second_feature_of_a_name_without_a_number_gets_the_number_1(score, reverse_scorer, files):
    score(reverse_model_dir=reverse_scorer, feature_name="Enc", dry_run=True)
    score(reverse_model_dir=reverse_scorer, feature_name="Enc")
    features = added((files / "nbest").read_bytes(), (files / "out" / "nbest").read_bytes())
    assert list(features[0]) == ["Enc", "Enc1"]


def test_raw_text_is_tokenized_as_the_model_was_trained(score, files):
    pytest.importorskip("tensorflow_text")
    save_model(files / "raw", ["le", "chat", "'"], ["the", "cat", ".", "'"], tokenization={"lowercase": True})
    (files / "source").write_text("Le chat&apos;\n")
    hypotheses = "The CAT.", "a|b", "the&apos; &#124;"
    (files / "nbest").write_text("".join(f"0 ||| {hypothesis} ||| LM0= 0 ||| 0\n" for hypothesis in hypotheses))
    scorer = TextScorer(files / "raw")
    score(model_dir=scorer, length=True)
    *features, _ = added((files / "nbest").read_bytes(), (files / "out" / "nbest").read_bytes())
    pairs = [(["le", "chat", "'"], target) for target in (["the", "cat", "."], ["a", "|", "b"], ["the", "'", "|"])]
    expected = scorer.score(pairs)
    np.testing.assert_allclose([line["RNN0"] for line in features], expected, atol=1e-4)
    assert [line["Length0"] for line in features] == [4, 4, 4]


def test_a_list_that_is_not_utf8_needs_its_encoding(score, forward_scorer, files):
    data = b"0 ||| the caf\xe9  ||| LM0= 0 ||| 0\n"
    (files / "nbest").write_bytes(data)
    (files / "source").write_bytes(b"l' \xe9t\xe9\n")
    with refused(f"{files}/source, line 1: found bytes that are not UTF-8") as caught:
        score()
    assert "--encoding" in str(caught.value)
    (files / "source").write_text("l' été\n")
    with refused(f"{files}/nbest, line 1: found bytes that are not UTF-8"):
        score()
    assert os.listdir(files / "out") == []
    (files / "source").write_bytes(b"l' \xe9t\xe9\n")
    for encoding, source, target in (("latin-1", "été", "café"), ("utf-8", "\udce9t\udce9", "caf\udce9")):
        score(encoding=encoding)
        features = added(data, (files / "out" / "nbest").read_bytes())
        expected = forward_scorer.score([(["l'", source], ["the", target])])[0]
        np.testing.assert_allclose(features[0]["RNN0"], expected, atol=1e-4)


def test_an_id_outside_the_source_file_stops(score, files):
    (files / "source").write_text("\n".join(SENTENCES[:3]) + "\n")
    with refused(f"{files}/nbest, line 7: found the id 3, expected at most 2, as {files}/source has 3 lines"):
        score(on_error="keep")
    assert os.listdir(files / "out") == []


def test_a_feature_name_that_the_list_has_stops(score, files):
    with refused(f"{files}/nbest, line 1: found the feature TM0, expected it to be new; rename the new one with --f"):
        score(feature_name="TM0")
    lines = [*LINES, "0 ||| the ||| LM0= 0 Length0= 2 ||| 0"]
    (files / "nbest").write_text("\n".join(lines))
    remedy = "leave out the flag that adds it, or give a list without the feature"
    with refused(f"{files}/nbest, line {len(lines)}: found the feature Length0, expected it to be new; {remedy}"):
        score(length=True)
    assert os.listdir(files / "out") == []


# Lines that have features get neutral ones.
MALFORMED = {
    "": ("", "found a blank line"),
    "0 ||| the": ("0 ||| the", "found 2 fields, expected 4 to 6"),
    "0 ||| the ||| LM0= 0": ("0 ||| the ||| LM0= 0 RNN0= 0 Unknown0= 0 Length0= 0", "found 3 fields, expected 4 to 6"),
    "x ||| the ||| LM0= 0 ||| 0": ("x ||| the ||| LM0= 0 RNN0= 0 Unknown0= 0 Length0= 0 ||| 0", 'found the id "x"'),
    "0 ||| the ||| LM0= x ||| 0": (
        "0 ||| the ||| LM0= x RNN0= 0 Unknown0= 0 Length0= 0 ||| 0",
        'found the value of LM0, "x", expected a fin',
    ),
    "0 ||| the ||| LM0= 0 ||| -": ("0 ||| the ||| LM0= 0 RNN0= 0 Unknown0= 0 Length0= 0 ||| -", 'found the total "-"'),
}


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_stops_and_leaves_nothing(score, files, line):
    good = next(iter(LINES))
    (files / "nbest").write_text("\n".join([good, line, good]))
    with refused(f"{files}/nbest, line 2: {MALFORMED[line][1]}") as caught:
        score()
    assert "give --on_error=keep to write such lines with a neutral score" in str(caught.value)
    assert os.listdir(files / "out") == []


def test_malformed_lines_are_kept_on_request(score, files):
    good = next(iter(LINES))
    (files / "nbest").write_text("\n".join([*MALFORMED, good]))
    assert score(on_error="keep", unknown_count=True, length=True).malformed == len(MALFORMED)
    *kept, scored = (files / "out" / "nbest").read_text().split("\n")
    assert kept == [written for written, _ in MALFORMED.values()]
    assert " RNN0= -" in scored and scored.startswith(good.split(" |||")[0])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"token_scores": True}, "found token_scores with format=nbest, expected it with format=tsv or parallel"),
        ({"source": None}, "found format=nbest without source, expected the file of sources"),
        ({"feature_name": "RNN_0"}, "found feature_name='RNN_0', expected a name without white space, _, = and |"),
        ({"feature_name": "RNN0="}, "found feature_name='RNN0='"),
        ({"feature_name": "R NN"}, "found feature_name='R NN'"),
        ({"feature_name": ""}, "found feature_name=''"),
        ({"feature_name": "Length0", "length": True}, "found the names Length0, Length0 of new features"),
        ({"format": "tsv"}, "found source with format=tsv, expected it with format=parallel or nbest"),
        (
            {"moses_ini": "ini", "moses_ini_out": "out"},
            "found moses_ini with format=nbest, expected it with a phrase table",
        ),
    ],
)
def test_arguments_that_contradict_are_refused(score, files, arguments, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        score(**arguments)
    assert os.listdir(files / "out") == []


def test_sources_that_cannot_be_read_are_named(score, files):
    with refused(f"{files}/none: found no such file"):
        score(source=files / "none")
    assert os.listdir(files / "out") == []


def test_a_model_of_limited_context_scores_each_ngram_once_and_says_so(score, files):
    scorer = TextScorer(save_model(files / "cslm", [], TARGET_WORDS, ngram_order=3))
    for _ in range(2):  # the counts are those of one file
        summary = score(model_dir=scorer)
        features = added((files / "nbest").read_bytes(), (files / "out" / "nbest").read_bytes())
        expected = [scorer.score([pair])[0] for pair in PAIRS]
        np.testing.assert_allclose([row["RNN0"] for row in features[:-1]], expected, atol=1e-4)
        [counts] = summary.ngrams
        assert counts.ngrams == sum(len(target) + 1 for _, target in PAIRS) > 4 * counts.distinct
        assert f"{counts}." in summary.notices and " n-grams, of which " in str(counts)
    assert score().ngrams == ()


@pytest.mark.usefixtures("uncompiled")
def test_a_lexical_shortlist_makes_each_hypothesis_more_probable(score, forward_scorer, files):
    table = files / "shortlist"
    table.write_text("le\tthe\t0.75\nle\tcat\t0.25\nchat\tcat\t1\nmaison\thouse\t1\nété\tsummer\t1\n")
    options = {"lexical_shortlist": table, "shortlist_words": 1, "frequent_words": 0}
    shortlist = LexicalShortlist.read(table, forward_scorer.directory.target_vocabulary, 1, 0)
    expected = TextScorer(forward_scorer.directory, lexical_shortlist=shortlist).score(PAIRS)
    assert (expected > forward_scorer.score(PAIRS) + 0.1).all()
    score(**options)
    whole = (files / "out" / "nbest").read_bytes()
    features = added((files / "nbest").read_bytes(), whole)[:-1]
    np.testing.assert_allclose([float(line["RNN0"]) for line in features], expected, atol=1e-4)
    read = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LexicalShortlist, "read", lambda *given: read.append(given) or shortlist)
        score(shard_lines=2, output=files / "out" / "sharded", **options)
    assert (files / "out" / "sharded").read_bytes() == whole
    assert len(read) == 1, "the table is read once, not for each shard"
    # The scorer that was lent keeps using all words.
    score(output=files / "out" / "full")
    features = added((files / "nbest").read_bytes(), (files / "out" / "full").read_bytes())[:-1]
    np.testing.assert_allclose([float(line["RNN0"]) for line in features], forward_scorer.score(PAIRS), atol=1e-4)


def test_a_lexical_shortlist_is_refused_where_it_cannot_be_used(score, files, tmp_path):
    with pytest.raises(ValueError, match="found shortlist_words without lexical_shortlist"):
        score(shortlist_words=5)
    table = files / "shortlist"
    table.write_text("le the\n")
    for further in ({}, {"dry_run": True}):
        with pytest.raises(InputError, match=f'{table}, line 1: found "le the", expected a source word, a target word'):
            score(lexical_shortlist=table, **further)
    model = save_model(tmp_path / "language_model", [], TARGET_WORDS, language_model=True)
    with pytest.raises(ValueError, match="found lexical_shortlist with a language model, which has no source; drop it"):
        score(model_dir=model, lexical_shortlist=table)
    assert os.listdir(files / "out") == []
