"""`generate_file`: targets written into files."""

import gzip
import importlib
import json

import keras
import numpy as np
import pytest
import toy_models
from close_texts import assert_close_texts
from hybrid_toys import hybrid

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import (
    BeamSampler,
    GreedySampler,
    RandomSampler,
    TextGenerator,
    generate_file,
    search_batches,
)
from keras_encdec.decoding.text_generator import UnknownReplacement
from keras_encdec.errors import InputError
from keras_encdec.formats import escape
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.shard_folder import ShardFolder
from keras_encdec.scoring import TextScorer
from keras_encdec.text import Vocabulary
from keras_encdec.text.lexical_shortlist import LexicalShortlist, RareTranslations
from keras_encdec.text.tokenizer import SUBWORD_JOINERS
from keras_encdec.text.vocabulary import END, UNKNOWN

SOURCE_WORDS = [f"s{i}" for i in range(9)]
TARGET_WORDS = [f"t{i}" for i in range(10)] + ['"']
LINES = ["s1 s2 s3", "", "s4 &quot; s5", "s8", "s0 other s0 s7 s7 s7 s7"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy_models.save_model(tmp_path_factory.mktemp("model") / "0", SOURCE_WORDS, TARGET_WORDS)


@pytest.fixture(scope="module")
def generator(model):
    """A generator for several tests, which is compiled once."""
    return TextGenerator([model])


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def generated(source, tmp_path):
    """Runs `generate_file`, and returns the text that it wrote."""

    def generated(model, sampler, format="text", input=source, **options):
        summary = generate_file(model, input, tmp_path / "out", sampler, format=format, **options)
        assert summary.output == tmp_path / "out" and summary.seconds > 0
        return (tmp_path / "out").read_bytes().decode()

    return generated


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


def test_a_line_gets_the_best_target(generated, generator, source, tmp_path):
    expected = [best.words for best, *_ in generator.generate(LINES, BeamSampler(4))]
    assert generated(generator, BeamSampler(4)).splitlines() == [" ".join(words) for words in expected]
    summary = generate_file(generator, source, tmp_path / "out.gz", "greedy")
    assert summary.lines == 5 and str(summary).startswith("5 lines in ")
    greedy = [" ".join(best.words) for best, *_ in generator.generate(LINES, GreedySampler())]
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode().splitlines() == greedy


def test_the_best_hypotheses_have_their_scores(generated, model, generator):
    found = rows(generated(generator, BeamSampler(4, num_best=3), "tsv"))
    scorer = TextScorer(model)
    assert [row[0] for row in found] == [line for line in LINES for _ in range(3 if line else 1)]
    expected = scorer.score([scorer.words(text, target) for text, target, _ in found])
    np.testing.assert_allclose([float(row[2]) for row in found], expected, atol=1e-4)


def test_distinct_samples_are_counted_and_ranked(generated, generator):
    sampler = RandomSampler(30, temperature=0.5, seed=7)
    expected = generator.generate(LINES, sampler)
    text = generated(generator, sampler, "tsv", most=4)
    found = rows(text)
    lines = [
        f"{line}\t{' '.join(each.words)}\t{each.log_prob:.6f}\t{each.count}\n"
        for line, hypotheses in zip(LINES, expected, strict=True)
        for each in hypotheses[:4]
    ]
    assert_close_texts(text, "".join(lines))
    assert any(int(row[3]) > 1 for row in found if row[0])
    assert all(sum(each.count for each in hypotheses) == 30 for hypotheses in expected)
    assert rows(generated(generator, sampler.replace(seed=8), "tsv", most=4)) != found


def test_a_moses_list_has_a_feature_a_total_and_escapes(generated, generator):
    lines = generated(generator, BeamSampler(4, num_best=4), "moses_nbest", feature_name="Rnn").splitlines()
    assert [line.split(" ||| ")[0] for line in lines] == [n for n in "01234" for _ in range(1 if n == "1" else 4)]
    for line in lines:
        number, target, feature, total = line.split(" ||| ")
        assert target.endswith(" ") and '"' not in target
        name, value = feature.split()
        assert name == "Rnn=" and float(value) == pytest.approx(float(total), rel=1e-4)
    sampler = RandomSampler(30, temperature=5)
    text = generated(generator, sampler, "moses_nbest")
    assert "&quot;" in text and '"' not in text and " RNN0= -" in text
    plain, escaped = (generated(generator, sampler, "tsv", escape=value) for value in (False, True))
    targets = [[row[1] for row in rows(text)] for text in (plain, escaped)]
    assert any('"' in target for target in targets[0]) and targets[1] == [escape(target) for target in targets[0]]


@pytest.mark.usefixtures("uncompiled")
def test_an_ensemble_differs_from_each_of_its_models(generated, model, tmp_path):
    models = [model, toy_models.save_model(tmp_path / "1", SOURCE_WORDS, TARGET_WORDS, seed=1)]
    alone = [generated(each, "greedy", "tsv") for each in models]
    together = [
        generated(models, "greedy", "tsv", average=average, weights=[1, 3], max_length=4)
        for average in ("arithmetic", "geometric")
    ]
    assert len({*alone, *together}) == 4
    expected = TextGenerator(models, [1, 3], "geometric").generate(LINES, max_length=4)
    log_probs = [float(row[2]) for row in rows(together[1])]
    np.testing.assert_allclose(log_probs, [best.log_prob for best, *_ in expected], atol=1e-5)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("dtype, computed", [("float32", "float32"), ("bfloat16", "bfloat16"), (None, "bfloat16")])
def test_a_model_of_a_mixed_policy_computes_in_the_given_dtype(generated, tmp_path, monkeypatch, dtype, computed):
    model = toy_models.save_model(tmp_path / "0", SOURCE_WORDS, TARGET_WORDS, dtype="mixed_bfloat16")
    dtypes = []
    monkeypatch.setattr("keras_encdec.models.translation_model.warn_if_slow", dtypes.append)
    texts = rows(generated(model, "greedy", "tsv", dtype=dtype))
    log_probs = [float(log_prob) for *_, log_prob in texts]
    assert dtypes == [computed], "the user is warned where it is slow"

    scorer = TextScorer(model, "float32")
    scores = scorer.score([scorer.words(source, target) for source, target, _ in texts])
    assert (np.abs(scores - log_probs).max() < 1e-4) == (computed == "float32")


def test_more_lines_than_are_decoded_together_keep_their_order(generated, generator, tmp_path):
    path = tmp_path / "many"
    path.write_text("".join(f"s{i % 9} s{i % 7}\n" for i in range(2500)))
    found = rows(generated(generator, "greedy", "tsv", input=path))
    assert [row[0] for row in found] == path.read_text().splitlines()
    for row in (found[0], found[2100], found[2499]):
        first = next(other for other in found if other[0] == row[0])
        assert_close_texts("\t".join(row), "\t".join(first))


def test_a_language_model_generates_without_a_source(generated, tmp_path):
    path = toy_models.save_model(tmp_path / "lm", [], TARGET_WORDS, language_model=True)
    language_model = TextGenerator([path])
    sampler = RandomSampler(9)
    text = generated(language_model, sampler, "tsv", input=None)
    [expected] = language_model.generate([""], sampler, max_length=50)
    lines = [f"{' '.join(each.words)}\t{each.log_prob:.6f}\t{each.count}\n" for each in expected]
    assert_close_texts(text, "".join(lines))
    for arguments, message in (
        ({"input": tmp_path / "lm" / "config.json"}, "found input with a language model"),
        ({"input": None, "max_unknown": 0.5}, "max_unknown with a language model"),
        ({"input": None, "max_length_factor": 2.0}, "max_length_factor with a language model"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            generated(language_model, sampler, **arguments)


def test_another_encoding_is_read_and_written(tmp_path):
    model = toy_models.save_model(tmp_path / "model", ["é"], ["ç", "œ"], seed=4)
    path, out, sampler = tmp_path / "source", tmp_path / "out", BeamSampler(12, num_best=9)
    path.write_bytes("é\n".encode("latin-1") * 2)
    generator = TextGenerator([model])
    with pytest.raises(InputError, match="line 1.*--encoding=latin-1"):
        generate_file(generator, path, out, sampler)
    with pytest.raises(InputError, match="'œ'.*leave --encoding out"):
        generate_file(generator, path, out, sampler, format="tsv", encoding="latin-1")
    assert not out.exists()
    generate_file(generator, path, out, sampler, format="tsv", encoding="cp1252")
    assert "é\tç" in out.read_bytes().decode("cp1252")


def test_models_of_different_vocabularies_or_directions_are_refused_as_an_ensemble(generated, model, tmp_path):
    other = toy_models.save_model(tmp_path / "other", SOURCE_WORDS, [*TARGET_WORDS[:-1], "t10"])
    with pytest.raises(InputError, match="found a different target vocabulary"):
        generated([model, other], "greedy")
    back = toy_models.save_model(tmp_path / "back", SOURCE_WORDS, TARGET_WORDS, reverse=True)
    with pytest.raises(InputError, match="found a different direction"):
        generated([model, back], "greedy")


@pytest.fixture(scope="module")
def attentive(tmp_path_factory):
    """A generator with attention, of a model that knows few words and therefore generates unknown ones."""
    path = tmp_path_factory.mktemp("attention") / "0"
    words = ["t0", "unkpos_0", "unkpos_1", "unkpos_null"]
    return TextGenerator([toy_models.save_model(path, SOURCE_WORDS, words, cell="rnn", layers=1, attention="global")])


def test_alignments_are_written_for_each_target(generated, attentive, tmp_path):
    arguments = {"format": "tsv", "alignments": tmp_path / "alignments"}
    text = generated(attentive, BeamSampler(3, num_best=2), **arguments)
    expected = attentive.generate(LINES, BeamSampler(3, num_best=2), with_attention=True)
    links = (tmp_path / "alignments").read_text().splitlines()
    assert len(links) == len(rows(text)) > len(LINES)
    assert generated(attentive, BeamSampler(3, num_best=2), alignment_format="weights", **arguments) == text
    weights = [json.loads(line) for line in (tmp_path / "alignments").read_text().splitlines()]
    hypotheses = [hypothesis for hypotheses in expected for hypothesis in hypotheses]
    for hypothesis, link, weight in zip(hypotheses, links, weights, strict=True):
        assert weight["source"] == [*hypothesis.source_words, "</s>"]
        assert weight["target"] == [*hypothesis.words, "</s>"]
        np.testing.assert_allclose(weight["weights"], hypothesis.attention, atol=1e-5)
        most = [row.argmax() for row in hypothesis.attention[:-1]]
        assert link.split() == [f"{i}-{j}" for j, i in enumerate(most) if i < len(hypothesis.source_words)]
    assert any(links)


def test_unknown_words_are_replaced_from_the_source(generated, attentive, tmp_path):
    (tmp_path / "words.tsv").write_text("other\tautre\t7\ns7\tS7\n")
    plain = attentive.generate(LINES, "greedy", with_attention=True)
    replacement = UnknownReplacement({"other": "autre", "s7": "S7"})
    expected = [" ".join(replacement.replaced(best.words, best.source_words, best.attention)) for best, *_ in plain]
    text = generated(attentive, "greedy", replace_unknown=True, dictionary=tmp_path / "words.tsv")
    assert text.splitlines() == expected
    assert {"S7", "s8"} <= set(text.split()), "translated, and copied"


def test_alignments_count_each_word_that_replaces_an_unknown_word(generated, attentive, tmp_path):
    (tmp_path / "words.tsv").write_text("other\tautre\ns7\tle sept\n")
    given = {"replace_unknown": True, "dictionary": tmp_path / "words.tsv", "alignments": tmp_path / "alignments"}
    text = generated(attentive, "greedy", alignment_format="weights", **given)
    lines = (tmp_path / "alignments").read_text().splitlines()
    repeated = 0
    for target, line in zip(text.splitlines(), lines, strict=True):
        found = json.loads(line)
        assert found["target"] == [*target.split(), "</s>"]
        rows_of = dict(zip(found["target"], found["weights"], strict=True))
        repeated += "sept" in rows_of and rows_of["le"] == rows_of["sept"]
    assert repeated and "le sept" in text


@pytest.mark.usefixtures("uncompiled")
def test_translations_compete_with_spellings(generated, source, tmp_path):
    model = hybrid("target")
    bias = keras.ops.convert_to_numpy(model.decoder.output_matrix.bias).copy()
    bias[[0, UNKNOWN, END]] = -40, 1.5, 0.5
    model.decoder.output_matrix.bias.assign(bias)
    vocabularies = Vocabulary(["s1", "s2", "s3"]), Vocabulary(["a", "ba", "b"], characters=Vocabulary("ab7"))
    directory = ModelDirectory(tmp_path / "model", *vocabularies)
    directory.model = model
    table = {"s1": {"abab": 0.5, "a": 0.5}, "s2": {"bb": 0.25}, "s3": {"aab": 1.0}, "s7": {"7": 1.0}}
    lines = [f"{word}\t{other}\t{p}\n" for word, targets in table.items() for other, p in targets.items()]
    (tmp_path / "table").write_text("".join(lines))
    options = {"word_translations": str(tmp_path / "table"), "max_length": 4}
    generator = TextGenerator([directory])
    rare = RareTranslations(table, vocabularies[1])
    expected = generator.generate(LINES, "greedy", word_translations=rare, translation_weight=1.0, max_length=4)
    text = generated(generator, "greedy", translation_weight=1.0, **options)
    assert text.splitlines() == [" ".join(best.words) for best, *_ in expected]
    first, *_, last = text.splitlines()
    assert {"abab", "bb", "aab"} & set(first.split()) <= set(first.split()) <= {"abab", "bb", "aab", "a", "ba", "b"}
    assert "7" in last.split()
    assert generated(generator, "greedy", translation_weight=0.0, **options) != text
    shortlist = {"lexical_shortlist": options["word_translations"]}  # the same file, which has all words of the model
    assert generated(generator, "greedy", translation_weight=1.0, **shortlist, **options) == text
    again = TextScorer(directory).score([(best.source_words, best.words) for best, *_ in expected])
    np.testing.assert_allclose([best.log_prob for best, *_ in expected], again, atol=1e-4)


def test_a_moses_list_has_the_replaced_words_with_escapes(generated, attentive, tmp_path):
    translations = {"other": "autre", "s7": "S|7"}
    (tmp_path / "words.tsv").write_text("".join(f"{word}\t{other}\n" for word, other in translations.items()))
    sampler, replacement = BeamSampler(4, num_best=4), UnknownReplacement(translations)
    plain = attentive.generate(LINES, sampler, with_attention=True)
    expected = [
        f"{number} ||| {escape(' '.join(replacement.replaced(one.words, one.source_words, one.attention)))}  ||| "
        f"RNN0= {one.log_prob:.6f} ||| {one.score:.6g}\n"
        for number, hypotheses in enumerate(plain)
        for one in hypotheses
    ]
    given = {"replace_unknown": True, "dictionary": tmp_path / "words.tsv"}
    text = generated(attentive, sampler, "moses_nbest", **given)
    assert_close_texts(text, "".join(expected))
    assert {"S&#124;7", "s8"} <= set(text.split()), "translated, and copied"


def test_pieces_are_joined(generated, tmp_path):
    for style, words in (("bpe", ["a@@", "b"]), ("sentencepiece", ["\u2581a", "b"])):
        model = toy_models.save_model(tmp_path / style, SOURCE_WORDS, words)
        generator = TextGenerator([model])
        pieces = [best.words for best, *_ in generator.generate(LINES, "greedy")]
        joined = generated(generator, "greedy", join_subwords=style).splitlines()
        assert joined == [SUBWORD_JOINERS[style](words) for words in pieces]
        assert max(map(len, pieces)) > 1 and not any(mark in text for text in joined for mark in ("@@ ", "\u2581"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"format": "xml"}, "format='xml', expected one of text, tsv, moses_nbest"),
        ({"most": 0, "format": "tsv"}, "found most=0, expected a whole number, 1 or more"),
        ({"most": 2}, "most with format=text"),
        ({"feature_name": "LM0"}, "feature_name with format=text"),
        ({"format": "moses_nbest", "feature_name": "a_b"}, "feature_name='a_b', expected a name"),
        ({"max_length_factor": float("inf")}, "max_length_factor=inf"),
        ({"max_length": -1}, "max_length=-1"),
        ({"max_length": 3, "max_length_factor": 2.0}, "max_length_factor with max_length, expected one of them"),
        ({"average": "geometric"}, "average with a TextGenerator, expected it as an argument of the TextGenerator"),
        ({"dtype": "bfloat16"}, "dtype with a TextGenerator, expected it as an argument of the TextGenerator"),
        ({"dtype": "float16"}, "dtype='float16', expected one of float32, bfloat16"),
        ({"beams": 3}, "unknown hyper-parameter 'beams', expected one of encoding, max_unknown"),
        ({"input": None}, "found no input"),
        ({"alignments": "links"}, "found alignments with a model that has no attention"),
        ({"alignment_format": "links"}, "alignment_format without alignments"),
        ({"alignments": "links", "alignment_format": "xml"}, "alignment_format='xml', expected one of links, weights"),
        ({"replace_unknown": True}, "replace_unknown with a model that has neither attention nor position words"),
        ({"dictionary": "words.tsv"}, "dictionary without replace_unknown"),
        ({"shortlist_words": 5}, "shortlist_words without lexical_shortlist"),
        ({"frequent_words": 0}, "frequent_words without lexical_shortlist"),
        ({"full_scores": True}, "full_scores without lexical_shortlist"),
        ({"join_subwords": "morfessor"}, "join_subwords='morfessor', expected one of bpe, sentencepiece"),
    ],
)
def test_options_that_contradict_are_refused(generated, generator, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        generated(generator, "greedy", **arguments)


def test_unknown_words_that_are_never_generated_cannot_be_replaced(generated, generator):
    with pytest.raises(ConfigurationError, match="found replace_unknown with suppress_unknown, which never generates"):
        generated(generator, BeamSampler(2, suppress_unknown=True), replace_unknown=True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"weights": [1, 2]}, "2 weights for 1 model_dirs"),
        ({"weights": [float("nan")]}, r"weights=\[nan\], expected numbers in a list, above 0"),
        ({"average": "geometric"}, "average with one model_dirs, expected several"),
    ],
)
def test_wrong_options_of_an_ensemble_are_refused(generated, model, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        generated(model, "greedy", **arguments)


@pytest.mark.parametrize("sampler", [BeamSampler(3, num_best=3), RandomSampler(4, seed=7)], ids=["beam", "random"])
@pytest.mark.parametrize("format", ["text", "tsv", "moses_nbest"])
def test_an_interrupted_job_in_shards_continues_to_the_same_targets(
    generated, generator, model, source, tmp_path, monkeypatch, sampler, format
):
    monkeypatch.setattr(importlib.import_module("keras_encdec.decoding.generate_file"), "WINDOW", 2)
    whole = generated(generator, sampler, format)
    keep = ShardFolder.keep

    def keep_first(self, shard, result):
        if shard.number == 0:  # shards may end in any order
            keep(self, shard, result)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ShardFolder, "keep", keep_first)
        generate_file(generator, source, tmp_path / "out", sampler, format=format, shard_lines=1)
    other = TextGenerator([model], average="geometric")
    with pytest.raises(InputError, match="found the settings average"):
        generate_file(other, source, tmp_path / "out", sampler, format=format, shard_lines=1)
    summary = generate_file(generator, source, tmp_path / "out", sampler, format=format, shard_lines=1)
    assert (tmp_path / "out").read_bytes().decode() == whole
    assert (summary.lines, summary.before) == (len(LINES), 2)
    unknown, before = summary.notices
    assert unknown == "input: 14.29 % of the 14 words are unknown to the model."
    assert before == "An interrupted command had already generated targets for 2 lines."


def test_a_summary_says_how_many_words_of_the_input_are_unknown(generator, source, tmp_path):
    summary = generate_file(generator, source, tmp_path / "out", "greedy")
    assert summary.notices == ["input: 14.29 % of the 14 words are unknown to the model."]
    (tmp_path / "other").write_text("das ist s1\n")
    summary = generate_file(generator, tmp_path / "other", tmp_path / "out", "greedy")
    share, warning = summary.notices
    assert share.startswith("input: 66.67 %") and warning.startswith("warning: most of the input words are unknown")
    (tmp_path / "other").write_text("S1 s2\nS3 s2\nx s2\n")
    _, warning = generate_file(generator, tmp_path / "other", tmp_path / "out", "greedy").notices
    assert warning.startswith("warning: most of the input words that the model does not know have capital letters")
    (tmp_path / "other").write_text("s1 s2\n")
    assert not generate_file(generator, tmp_path / "other", tmp_path / "out", "greedy").notices


@pytest.mark.parametrize("shards", [{}, {"shard_lines": 1}])
def test_a_summary_warns_of_empty_targets(generator, source, tmp_path, monkeypatch, shards):
    monkeypatch.setattr(search_batches, "target_limit", lambda *_: 1)
    summary = generate_file(generator, source, tmp_path / "out", "greedy", **shards)
    assert summary.empty == 4, "the empty source does not count"
    assert summary.notices[-1].startswith("warning: most targets are empty (4 of 5), because the model finds their end")


@pytest.mark.parametrize("shards", [{}, {"shard_lines": 1}])
def test_too_many_unknown_words_stop_the_work_before_the_search(generator, tmp_path, monkeypatch, shards):
    (tmp_path / "other").write_text("das ist s1\n")

    def generate(most):
        return generate_file(generator, tmp_path / "other", tmp_path / "out", "greedy", max_unknown=most, **shards)

    with monkeypatch.context() as patch, pytest.raises(InputError) as caught:
        patch.setattr(generator, "generate", lambda *_, **__: pytest.fail("the search began"))
        generate(0.66)
    assert "found 66.7 % of the 3 source words so far outside the vocabulary of the model, expected 66 %" in str(
        caught.value
    )
    assert not (tmp_path / "out").exists()
    assert generate(0.67).lines == 1


def test_the_share_of_unknown_words_is_that_of_the_whole_file(generator, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("keras_encdec.decoding.generate_file"), "WINDOW", 1)
    (tmp_path / "in").write_text("s1 s2\ndas ist\ns1 s2\n")
    options = {"shard_lines": 1, "max_unknown": 0.5}
    assert generate_file(generator, tmp_path / "in", tmp_path / "out", "greedy", **options).lines == 3
    (tmp_path / "in").write_text("s1 s2\ndas ist\ndas ist\n")
    with pytest.raises(InputError, match="found 66.7 % of the 6 source words so far outside the vocabulary"):
        generate_file(generator, tmp_path / "in", tmp_path / "out", "greedy", **options)


def test_processes_generate_the_same_targets(generated, generator, model, source, monkeypatch):
    whole = generated(generator, GreedySampler(), "tsv")
    assert_close_texts(generated(model, GreedySampler(), "tsv", number_of_processes=2), whole)
    with pytest.raises(
        ConfigurationError, match="found a TextGenerator, which other processes cannot use, expected the paths"
    ):
        generated(generator, GreedySampler(), number_of_processes=2)
    with pytest.raises(ConfigurationError, match="found work in shards without input"):
        generated(generator, GreedySampler(), input=None, shard_lines=5)


def test_all_shards_share_the_tables_of_word_translations(generator, source, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("keras_encdec.decoding.generate_file"), "WINDOW", 1)
    read, tables = LexicalShortlist.read, []
    monkeypatch.setattr(LexicalShortlist, "read", lambda *given: tables.append(read(*given)) or tables[-1])
    table = tmp_path / "table"
    table.write_text("".join(f"s1\tt{i}\t0.1\n" for i in range(9)))
    options = {"lexical_shortlist": table, "shard_lines": 1}
    assert generate_file(generator, source, tmp_path / "out", "greedy", **options).lines == len(LINES)
    assert len(tables) == 1


def test_a_lexical_shortlist_limits_the_words_of_each_target(generated, generator, tmp_path):
    table = tmp_path / "table"
    table.write_text("s1\tt4\t0.9\ns1\tt5\t0.1\ns2\tt6\t1\nother\tt7\t1\ns8\tgone\t1\n")
    options = {"lexical_shortlist": table, "shortlist_words": 1, "frequent_words": 1}
    for sampler in ("greedy", BeamSampler(4)):
        words = [set(line.split()) for line in generated(generator, sampler, **options).splitlines()]
        common = {"t0", "<unk>"}
        assert words[0] <= common | {"t4", "t6"} and words[1] == set() and words[2] <= common
        assert words[3] <= common and words[4] <= common | {"t7"}
    short = rows(generated(generator, BeamSampler(4, num_best=2), "tsv", **options))
    full = rows(generated(generator, BeamSampler(4, num_best=2), "tsv", full_scores=True, **options))
    scorer = TextScorer.open(generator.directories[0])
    for source, target, log_prob in full:
        [words] = scorer.all_words([(source, target)])
        [expected] = scorer.score_pairs([words]).log_prob
        np.testing.assert_allclose(float(log_prob), expected, atol=1e-4)
    assert {tuple(row[:2]) for row in short} == {tuple(row[:2]) for row in full}
    assert all(float(row[2]) < 0 for row in full) and short != full
