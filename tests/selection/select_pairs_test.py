"""Selection of the best sentence pairs of a corpus."""

import dataclasses
import gzip
import importlib
import math
import os
import warnings

import numpy as np
import pytest
from hybrid_toys import hybrid
from interrupted import interrupted
from toy_models import save_model

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.progress_state import ProgressRecord
from keras_encdec.scoring import TextScorer
from keras_encdec.selection import (
    NgramEntropies,
    SelectionOptions,
    TranslationEntropies,
    bilingual_difference,
    cross_entropy_difference,
    dual_conditional_cross_entropy,
    select_pairs,
)
from keras_encdec.smt import NgramModel, estimate_ngrams
from keras_encdec.text import Vocabulary

PAIRS = [
    ("le chat", "the cat"),
    ("la maison", "the cat house"),
    ("", "the"),
    ("le chat", "the cat"),
    ("été", "summer"),
    ("le le le", "the the the the"),
    ("un deux", "one two"),
]


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "source").write_text("".join(f"{source}\n" for source, _ in PAIRS), "utf-8")
    (tmp_path / "target").write_bytes(gzip.compress("".join(f"{target}\n" for _, target in PAIRS).encode()))
    (tmp_path / "tsv").write_text("".join(f"{source}\t{target}\tmore\n" for source, target in PAIRS), "utf-8")
    return tmp_path


@pytest.fixture
def dual(forward_scorer, reverse_scorer):
    return {"model_dir": forward_scorer, "reverse_model_dir": reverse_scorer}


@pytest.fixture(scope="module")
def language_models(tmp_path_factory):
    """Language models, a TextScorer each."""
    folder = tmp_path_factory.mktemp("language_models")
    for name, words, seed in (
        ("in_domain", ["le", "chat"], 1),
        ("general", ["le", "chat"], 2),
        ("other", ["le", "chien"], 3),
    ):
        save_model(folder / name, [], words, language_model=True, seed=seed)
    return {path.name: TextScorer(path) for path in folder.iterdir()}


def write_ngram_model(path, log10):
    """Writes an ARPA file that gives every word and the end of every sentence this log10 p."""
    unigrams = f"{log10}\t<unk>\n-99\t<s>\t0\n{log10}\t</s>\n"
    path.write_text(
        f"\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n{unigrams}\n\\2-grams:\n{log10}\t<s> </s>\n\n\\end\\\n"
    )


def scores(path):
    return [[float(value) for value in line.split("\t")[-3:]] for line in path.read_text("utf-8").split("\n")[:-1]]


def test_pairs_on_which_two_translation_models_agree_are_selected(corpus, out, dual, forward_scorer, reverse_scorer):
    files = {"source": corpus / "source", "source_output": out / "source", "scores": out / "scores"}
    summary = select_pairs(corpus / "target", out / "target", dual, top=3, max_unknown_in_pair=1, **files)
    expected = []
    for source, target in PAIRS:
        words = [(source.split(), target.split())]
        forward = -forward_scorer.score(words)[0] / (len(target.split()) + 1)
        reverse = -reverse_scorer.score(words)[0] / (len(source.split()) + 1)
        score = math.exp(-abs(forward - reverse) - 0.5 * forward - 0.5 * reverse)
        expected.append([score, forward, reverse] if source else [-math.inf, math.nan, math.nan])
    np.testing.assert_allclose(scores(out / "scores"), expected, rtol=1e-5)
    ranked = sorted(range(len(PAIRS)), key=lambda i: -expected[i][0])
    best = sorted(ranked[:3])
    assert (out / "source").read_text("utf-8") == "".join(f"{PAIRS[i][0]}\n" for i in best)
    assert (out / "target").read_text("utf-8") == "".join(f"{PAIRS[i][1]}\n" for i in best)
    assert (summary.lines, summary.pairs, summary.without_score) == (3, 7, 1)
    assert summary.lowest == pytest.approx(expected[ranked[2]][0], rel=1e-5)
    left_out = "left out: 1 empty, too long or with too many unknown words"
    assert str(summary).startswith("3 of 7 pairs in ") and str(summary).endswith(left_out)
    # The first of equal pairs is the better one; with `deduplicate`, only the first counts.
    place = ranked.index(0)
    tsv = {"format": "tsv", "max_unknown_in_pair": 1}
    select_pairs(corpus / "tsv", out / "tsv", dual, top=place + 1, **tsv)
    found = (out / "tsv").read_text("utf-8").splitlines()
    assert found == ["\t".join([*PAIRS[i], "more"]) for i in sorted(ranked[: place + 1])]
    threshold = sorted(row[0] for row in expected)[1] - 1e-6
    every = select_pairs(corpus / "tsv", out / "tsv", dual, threshold=threshold, **tsv)
    distinct = select_pairs(
        corpus / "tsv", out / "unique", dual, threshold=threshold, deduplicate=True, max_tokens=3, **tsv
    )
    assert (every.lines, distinct.lines, distinct.duplicates, distinct.without_score) == (6, 4, 1, 2)
    assert (out / "unique").read_text("utf-8").count("chat") == 1


def test_a_pair_of_words_that_a_model_does_not_know_is_not_selected(corpus, out, dual):
    summary = select_pairs(corpus / "tsv", out / "best", dual, format="tsv", top=7, scores=out / "scores")
    found = scores(out / "scores")
    assert [score > -math.inf for score, *_ in found] == [True, True, False, True, True, True, False]
    assert np.isnan(found[6]).tolist() == [False, True, True] and summary.without_score == 2
    pairs = [("le un", "the"), ("le", "the one"), ("le un deux", "the"), ("le", "the one two"), ("un", "one")]
    for limit, without_score in ((0.5, [2, 3, 4]), (0, range(5)), (1, [])):
        entropies = TranslationEntropies(dual["model_dir"], max_unknown_in_pair=limit)(pairs)
        assert np.flatnonzero(np.isnan(entropies)).tolist() == list(without_score)


def test_words_that_a_model_reads_or_spells_by_their_characters_are_not_unknown(tmp_path):
    for characters, without_score in (("source", [False, True]), ("target", [True, False]), ("both", [False, False])):
        read, spelled = (Vocabulary("abc") if characters != side else None for side in ("target", "source"))
        vocabularies = Vocabulary(["a", "b", "c"], characters=read), Vocabulary(["a", "b", "c"], characters=spelled)
        directory = ModelDirectory(tmp_path, *vocabularies)
        directory.model = hybrid(characters)
        assert np.isnan(TranslationEntropies(directory)([("x y", "a"), ("a", "x y")])).tolist() == without_score


def test_a_carriage_return_stays_at_the_end_of_a_line_with_scores(corpus, out, dual):
    lines = (corpus / "tsv").read_bytes()
    (out / "crlf").write_bytes(lines.replace(b"\n", b"\r\n"))
    for name, text in (("lf", corpus / "tsv"), ("crlf", out / "crlf")):
        select_pairs(text, out / f"{name}.best", dual, format="tsv", top=2, scores=out / f"{name}.scores")
        assert (out / f"{name}.scores").read_bytes() != lines
    assert (out / "crlf.scores").read_bytes() == (out / "lf.scores").read_bytes().replace(b"\n", b"\r\n")


@pytest.mark.parametrize("end_weight", [0.5, 4.0])
def test_the_end_of_a_sentence_counts_as_several_tokens(corpus, out, dual, end_weight):
    options = SelectionOptions(top=3, end_weight=end_weight, max_unknown_in_pair=1)
    select_pairs(corpus / "tsv", out / "best", dual, options, format="tsv", scores=out / "scores")
    for (source, target), (score, *found) in zip(PAIRS, scores(out / "scores"), strict=True):
        if not source:
            assert score == -math.inf and np.isnan(found).all()
            continue
        expected = []
        for scorer in dual.values():
            *words, end = -scorer.token_scores([(source.split(), target.split())])[0]
            expected.append((sum(words) + end_weight * end) / (len(words) + end_weight))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert score == pytest.approx(dual_conditional_cross_entropy(*expected), rel=1e-4)


def test_language_models_of_the_domain_are_compared(corpus, out, language_models):
    write_ngram_model(corpus / "likely", -0.25)
    write_ngram_model(corpus / "unlikely", -1)
    of_target = {"in_domain_target": str(corpus / "likely"), "general_target": corpus / "unlikely"}
    of_source = {"in_domain_source": language_models["in_domain"], "general_source": language_models["general"]}
    given = {"share": 0.5, "format": "tsv", "scores": out / "scores"}
    select_pairs(corpus / "tsv", out / "selected", of_target, method="moore_lewis", **given)
    # All are equally good: half of seven pairs is four, the first that have a score.
    assert (out / "selected").read_text("utf-8").splitlines() == ["\t".join([*PAIRS[i], "more"]) for i in (0, 1, 3, 4)]
    values = scores(out / "scores")
    np.testing.assert_allclose(values[0], [0.75 * math.log(10), 0.25 * math.log(10), math.log(10)], rtol=1e-5)
    select_pairs(corpus / "tsv", out / "selected", of_source, method="moore_lewis", **given)
    of_sources = scores(out / "scores")
    assert of_sources[0][0] == pytest.approx(of_sources[0][2] - of_sources[0][1], abs=1e-4)
    assert len({row[0] for row in of_sources}) == 5  # two sentences of unknown words, two the same
    select_pairs(corpus / "tsv", out / "selected", {**of_source, **of_target}, method="bilingual", **given)
    both = [float(line.split("\t")[3]) for line in (out / "scores").read_text("utf-8").splitlines()]
    np.testing.assert_allclose(both, [row[0] + 0.75 * math.log(10) for row in of_sources], rtol=1e-4)
    given_threshold = {"format": "tsv", "method": "moore_lewis", "threshold": -0.1}
    assert select_pairs(corpus / "tsv", out / "selected", of_source, **given_threshold).lines == 1
    other = {**of_source, "general_source": language_models["other"]}
    with pytest.raises(InputError, match="other: found a vocabulary that differs from that of --in_domain"):
        select_pairs(corpus / "tsv", out / "selected", other, method="moore_lewis", **given)
    (corpus / "broken").write_text("no model")
    with pytest.raises(InputError, match=r"broken: found a file that KenLM cannot read"):
        NgramEntropies(corpus / "broken", "source")


def test_an_n_gram_model_has_the_encoding_of_the_corpus(tmp_path):
    (tmp_path / "text").write_bytes("été\nun été\n".encode("latin-1"))
    (tmp_path / "tsv").write_bytes("x\tété\nx\tun été\n".encode("latin-1"))
    estimate_ngrams(tmp_path / "text", tmp_path / "model", order=2, encoding="latin-1")
    models = {"in_domain_target": tmp_path / "model", "general_target": tmp_path / "model"}
    given = {"format": "tsv", "method": "moore_lewis", "top": 1, "encoding": "latin-1"}
    select_pairs(tmp_path / "tsv", tmp_path / "out", models, scores=tmp_path / "scores", **given)
    first = float((tmp_path / "scores").read_text("latin-1").split("\n")[0].split("\t")[3])
    expected = -NgramModel(tmp_path / "model", "latin-1").score(["été"]) * math.log(10) / 2
    assert first == pytest.approx(expected, rel=1e-5)


def test_models_of_different_words_cause_a_warning(tmp_path, language_models):
    (tmp_path / "domain").write_text("a b a b\nb c\n")
    (tmp_path / "all").write_text("a b d e\nd e\n")
    (tmp_path / "tsv").write_text("x\ta b d e\nx\td e\n")
    estimate_ngrams(tmp_path / "domain", tmp_path / "in", order=2)
    estimate_ngrams(tmp_path / "all", tmp_path / "general", order=2)
    models = {"in_domain_target": tmp_path / "in", "general_target": tmp_path / "general"}
    given = {"format": "tsv", "method": "moore_lewis", "top": 1}
    with pytest.warns(EncdecWarning, match="found different words in the models --in_domain_target and"):
        select_pairs(tmp_path / "tsv", tmp_path / "out", models, **given)
    neural = {"in_domain_target": language_models["in_domain"], "general_target": tmp_path / "neural's words"}
    with pytest.warns(EncdecWarning, match="found different words in the models --in_domain_target and"):
        select_pairs(tmp_path / "tsv", tmp_path / "out", {**neural, "general_target": tmp_path / "in"}, **given)
    estimate_ngrams(tmp_path / "all", tmp_path / "general", order=2, vocabulary=tmp_path / "domain")
    vocabulary = language_models["in_domain"].directory.path / "target.vocab"
    estimate_ngrams(tmp_path / "all", neural["general_target"], order=2, vocabulary=vocabulary)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EncdecWarning)
        for compared in (models, neural):
            select_pairs(tmp_path / "tsv", tmp_path / "out", compared, **given)


def test_a_no_break_space_is_part_of_a_token(tmp_path):
    """As KenLM and the models have it, so that the cross-entropy is divided by what the probability is made of."""
    write_ngram_model(tmp_path / "likely", -0.25)
    write_ngram_model(tmp_path / "unlikely", -1)
    models = {"in_domain_target": tmp_path / "likely", "general_target": tmp_path / "unlikely"}
    (tmp_path / "tsv").write_text("a\t10\u00a0000 x\na\t10 000 x\n\u3000\t\u2028\u0085\n", "utf-8")
    given = {"scores": tmp_path / "scores", "max_tokens": 2, "top": 3}
    summary = select_pairs(tmp_path / "tsv", tmp_path / "out", models, method="moore_lewis", format="tsv", **given)
    assert (summary.lines, summary.without_score) == (2, 1)
    found, expected = [row[0] for row in scores(tmp_path / "scores")], 0.75 * math.log(10)
    np.testing.assert_allclose(found, [expected, -math.inf, expected], rtol=1e-5)


def test_a_vertical_tab_is_part_of_a_token(tmp_path):
    """KenLM would split there, and the models of this package do not."""
    write_ngram_model(tmp_path / "model", -1)
    entropies = NgramEntropies(tmp_path / "model", "target")
    np.testing.assert_allclose(entropies([("", "a\vb c\fd"), ("", "a b"), ("", "")]), [math.log(10)] * 3)


def test_raw_text_without_words_has_no_score(tmp_path, dual, language_models, monkeypatch):
    # Like the tokenizer of raw text, `str.split` separates at white space of any kind.
    monkeypatch.setattr(ModelDirectory, "words", lambda self, lines, factored: [line.split() for line in lines])
    (tmp_path / "tsv").write_text("\u00a0\tthe\nle chat\tthe cat\nle\t\u2003\n", "utf-8")
    of_target = {"in_domain_target": language_models["in_domain"], "general_target": language_models["general"]}
    given = {"format": "tsv", "scores": tmp_path / "scores", "share": 1.0}
    for method, models, left_out in (("dual", dual, [0, 2]), ("moore_lewis", of_target, [2])):
        summary = select_pairs(tmp_path / "tsv", tmp_path / "out", models, method=method, **given)
        assert (summary.lines, summary.without_score) == (3 - len(left_out), len(left_out))
        without = [i for i, row in enumerate(scores(tmp_path / "scores")) if row[0] == -math.inf]
        assert without == left_out


def test_the_length_of_raw_text_is_that_of_its_words(tmp_path, dual, language_models, monkeypatch):
    # Like the tokenizer of raw text, this makes a token of every dash.
    words = "words", lambda self, lines, factored: [line.replace("-", " - ").split() for line in lines]
    monkeypatch.setattr(ModelDirectory, *words)
    (tmp_path / "tsv").write_text("le\tthe\nle\t-----\n----\tthe\nle\tthe----\n", "utf-8")
    of_target = {"in_domain_target": language_models["in_domain"], "general_target": language_models["general"]}
    given = {"format": "tsv", "scores": tmp_path / "scores", "share": 1.0, "max_tokens": 3}
    unlimited = {"max_unknown_in_pair": 1.0}
    for method, models, limit, left_out in (
        ("dual", dual, unlimited, [1, 2, 3]),
        ("moore_lewis", of_target, {}, [1, 3]),
    ):
        select_pairs(tmp_path / "tsv", tmp_path / "out", models, method=method, **limit, **given)
        without = [i for i, row in enumerate(scores(tmp_path / "scores")) if row[0] == -math.inf]
        assert without == left_out
    entropies = TranslationEntropies(dual["model_dir"], max_tokens=3, **unlimited)
    assert np.isnan(entropies([("le", "-----"), ("le", "---")])).tolist() == [True, False]


def test_the_scores_follow_the_papers_equations():
    a, b, c, d = np.random.default_rng(0).uniform(1, 5, (4, 6))
    np.testing.assert_allclose(dual_conditional_cross_entropy(a, b), np.exp(-np.abs(a - b)) * np.exp(-(a + b) / 2))
    np.testing.assert_allclose(cross_entropy_difference(a, b), -(a - b))
    np.testing.assert_allclose(bilingual_difference(a, b, c, d), -((a - b) + (c - d)))


def test_malformed_lines_stop_the_selection_or_are_left_out(corpus, out, dual):
    (corpus / "tsv").write_bytes(b"le chat\tthe cat\nno tab\nla\tthe\nla\tcat\n")
    summary = select_pairs(corpus / "tsv", out / "best", dual, format="tsv", share=0.5, on_error="keep")
    assert (summary.lines, summary.malformed) == (2, 1) and "1 malformed" in str(summary)
    assert "no tab" not in (out / "best").read_text()
    with pytest.raises(InputError, match="tsv, line 2: found no tab"):
        select_pairs(corpus / "tsv", out / "best2", dual, format="tsv", share=0.5)
    (corpus / "source").write_text("le\n")
    files = {"source": corpus / "source", "source_output": out / "source"}
    with pytest.raises(InputError, match="source: found 1 line, and 7 lines in .*target"):
        select_pairs(corpus / "target", out / "target", dual, top=3, **files)
    assert [path.name for path in out.iterdir()] == ["best"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "none of top, share and threshold, expected one"),
        ({"top": 1, "share": 0.5}, "found top and share, expected one"),
        ({"top": 0}, "top=0, expected a whole number, 1 or more"),
        ({"share": 1.5}, "share=1.5, expected a number, above 0, 1 or less"),
        ({"threshold": math.nan}, "threshold=nan"),
        ({"top": 1, "max_tokens": 0}, "max_tokens=0"),
        ({"top": 1, "end_weight": 0.0}, "end_weight=0.0, expected a number, above 0, 1000 or less"),
        ({"top": 1, "end_weight": math.inf}, "end_weight=inf, expected a number, above 0"),
        ({"top": 1, "end_weight": math.nan}, "end_weight=nan, expected a number, above 0"),
        ({"top": 1, "end_weight": 2.0, "method": "bilingual"}, "end_weight with method=bilingual, expected it with"),
        ({"top": 1, "max_unknown_in_pair": 1.5}, "max_unknown_in_pair=1.5, expected a number, 0 to 1"),
        (
            {"top": 1, "max_unknown_in_pair": 1, "method": "bilingual"},
            "found max_unknown_in_pair with method=bilingual",
        ),
        ({"top": 1, "method": "best"}, "method='best', expected one of dual"),
        ({"top": 1, "format": "sentences"}, "format='sentences', expected one of parallel, tsv"),
        ({"top": 1, "format": "parallel"}, "parallel text without source"),
        ({"top": 1, "source": "x"}, "found source with tsv pairs"),
        ({"top": 1, "method": "bilingual", "max_unknown": 0.5}, "found max_unknown with method=bilingual"),
        ({"top": 1, "output": "-", "scores": "-"}, "found output=- and scores=-, expected a file for one of them"),
        (
            {"top": 1, "method": "moore_lewis"},
            "found model_dir with method=moore_lewis, expected in_domain_source and general_source, or .* and "
            "general_target; model_dir is for method=dual",
        ),
        ({"top": 1, "models": {"in_domain_target": "x"}, "output": "x"}, "one file for two purposes"),
        ({"top": 1, "models": {"in_domain_target": "x"}}, "; in_domain_target is for method=moore_lewis or bilingual"),
        ({"top": 1}, "found model_dir with method=dual, expected model_dir and reverse_model_dir"),
    ],
)
def test_arguments_that_contradict_one_another_are_refused(corpus, out, arguments, message):
    given = {"input": corpus / "tsv", "output": out / "best", "method": "dual", "models": {"model_dir": "x"}}
    with pytest.raises(ConfigurationError, match=message):
        select_pairs(**{**given, "format": "tsv", **arguments})
    assert not list(out.iterdir())


def test_models_of_another_kind_pipes_and_empty_paths_are_refused(corpus, out, dual, language_models):
    with pytest.raises(ConfigurationError, match="found '' in place of the path of a file to write"):
        select_pairs(corpus / "tsv", "", dual, format="tsv", top=1)
    both = {"model_dir": dual["reverse_model_dir"], "reverse_model_dir": dual["model_dir"]}
    os.mkfifo(corpus / "pipe")
    for pipe in (corpus / "pipe", "-"):
        with pytest.raises(InputError, match=f"{pipe}: found a pipe, expected a file, because it is read more"):
            select_pairs(pipe, out / "best", dual, format="tsv", top=1)
    with pytest.raises(InputError, match=r"found a model of p\(source \| target\).* check --model_dir"):
        select_pairs(corpus / "tsv", out / "best", both, format="tsv", top=1)
    with pytest.raises(InputError, match="found a language model.* check --model_dir"):
        given = {**dual, "model_dir": language_models["general"]}
        select_pairs(corpus / "tsv", out / "best", given, format="tsv", top=1)
    with pytest.raises(InputError, match="found a translation model.* check --in_domain_source"):
        given = {"in_domain_source": dual["model_dir"], "general_source": dual["model_dir"]}
        select_pairs(corpus / "tsv", out / "best", given, method="moore_lewis", format="tsv", top=1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_leaves_none_of_the_outputs(corpus, out, dual):
    files = {"input": corpus / "target", "source": corpus / "source"}
    with pytest.raises(InputError, match="/dev/full: found the disk full"):
        select_pairs(output="/dev/full", source_output=out / "best", scores=out / "s", models=dual, top=1, **files)
    assert not list(out.iterdir())


def test_too_many_unknown_words_stop_the_selection(corpus, out, dual):
    lines = [f"{target}\t{source}\n" for source, target in PAIRS]
    (corpus / "swapped").write_text("".join(lines), "utf-8")
    sentence = r"found [\d.]+ % of the \d+ (source|target) words so far outside the vocabulary of .+, expected 50 %"
    with pytest.raises(InputError, match=sentence):
        select_pairs(corpus / "swapped", out / "best", dual, format="tsv", share=1, max_unknown=0.5)
    assert not list(out.iterdir())
    assert select_pairs(corpus / "swapped", out / "best", dual, format="tsv", share=1, max_unknown=1).lines == 0


@pytest.mark.parametrize("shards", [{}, {"shard_lines": 2}])
@pytest.mark.parametrize("lines", [2, 9])
def test_a_corpus_with_another_length_when_it_is_read_again_is_an_error(corpus, out, dual, shards, lines):
    class Changing(Progress):
        def add(self, count):
            super().add(count)
            if self.count == len(PAIRS):  # all are scored
                (corpus / "tsv").write_text("le chat\tthe cat\n" * lines)

    arguments = {"format": "tsv", "top": 2, "progress": Changing, **shards}
    with pytest.raises(InputError, match="tsv: found a different number of lines than when the pairs were scored"):
        select_pairs(corpus / "tsv", out / "best", dual, **arguments)
    assert not (out / "best").exists()


def test_a_tab_may_be_on_either_side_of_different_pairs(tmp_path, dual):
    (tmp_path / "source").write_text("le\tle\nle\nle\n")
    (tmp_path / "target").write_text("the\nle\tthe\nle\tthe\n")
    files = {"source": tmp_path / "source", "source_output": tmp_path / "best_source"}
    summary = select_pairs(tmp_path / "target", tmp_path / "best", dual, top=3, deduplicate=True, **files)
    assert (summary.lines, summary.duplicates) == (2, 1)
    assert (tmp_path / "best_source").read_text() == "le\tle\nle\n"


def test_progress_counts_each_malformed_line_that_is_left_out_once(tmp_path, dual):
    (tmp_path / "tsv").write_text("le chat\tthe cat\nle chat\nla maison\tthe house\n", "utf-8")
    for shards in ({}, {"shard_lines": 2}):
        with ProgressRecord("selection") as record:
            arguments = {"format": "tsv", "top": 1, "on_error": "keep", **shards}
            select_pairs(tmp_path / "tsv", tmp_path / "best", dual, **arguments)
        assert record.state.errors == 1


def test_an_interrupted_selection_in_shards_continues(corpus, out, dual, monkeypatch):
    for name in ("corpus_entropies", "select_pairs"):
        monkeypatch.setattr(importlib.import_module(f"keras_encdec.selection.{name}"), "WINDOW", 2)
    job = {"input": corpus / "target", "source": corpus / "source", "models": dual, "deduplicate": True}
    whole = select_pairs(
        output=out / "whole", source_output=out / "whole.source", scores=out / "whole.scores", share=0.5, **job
    )
    outputs = {"output": out / "best", "source_output": out / "best.source", "scores": out / "best.scores"}
    with interrupted(shards=1):
        select_pairs(**outputs, top=1, shard_lines=2, **job)
    assert not (out / "best").exists()
    with pytest.raises(InputError, match=r"found the settings end_weight 4.0, expected 1.0"):
        select_pairs(**outputs, top=1, end_weight=4, shard_lines=2, **job)
    summary = select_pairs(**outputs, share=0.5, shard_lines=2, **job)  # another amount than before
    assert summary.before == 2 and summary.notices == ["An interrupted command had already scored 2 pairs."]
    assert dataclasses.replace(summary, before=0, seconds=0, output="", lowest=0) == dataclasses.replace(
        whole, seconds=0, output="", lowest=0
    )
    for name in ("", ".source"):
        assert (out / f"best{name}").read_bytes() == (out / f"whole{name}").read_bytes()
    np.testing.assert_allclose(scores(out / "best.scores"), scores(out / "whole.scores"), rtol=1e-4)
