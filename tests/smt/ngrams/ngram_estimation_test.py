"""Estimation of n-gram models: modified Kneser-Ney."""

import collections
import itertools
import math
import random

import pytest
from kneser_ney_oracle import KneserNeyOracle

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.smt import NgramModel, estimate_ngrams
from keras_encdec.smt.ngrams.ngram_estimation import NgramSummary


def zipfian_text(sentences, vocabulary=60):
    """Sentences of few frequent words and many rare ones, so that the discounts of all orders can be estimated."""
    generator = random.Random(1)
    words = [f"w{number}" for number in range(vocabulary)]
    shares = [1 / (rank + 1) for rank in range(vocabulary)]
    return [generator.choices(words, shares, k=generator.randrange(7)) for _ in range(sentences)]


def estimated(folder, sentences, order):
    (folder / "text").write_text("".join(" ".join(words) + "\n" for words in sentences))
    summary = estimate_ngrams(folder / "text", folder / "arpa", order=order)
    return NgramModel(folder / "arpa"), summary


def state_after(model, context):
    """The state after a context of words, which begins a sentence if its first word is <s>."""
    state = model.begin if context[:1] == ("<s>",) else model.empty
    for word in context[context[:1] == ("<s>",) :]:
        state = model.advance(state, word)[1]
    return state


def probability(model, context, word):
    return 10 ** model.advance(state_after(model, context), word)[0]


@pytest.mark.parametrize(
    ("sentences", "order", "fallback"),
    [(200, 3, ()), (200, 2, ()), (5, 4, (1, 2, 3, 4))],
    ids=["3", "2", "little text"],
)
def test_probabilities_are_those_of_the_definition(tmp_path, sentences, order, fallback):
    text = zipfian_text(sentences)
    oracle = KneserNeyOracle(text, order)
    model, summary = estimated(tmp_path, text, order)
    assert (model.order, summary.fallback) == (order, fallback)
    contexts = {("<s>", *words)[:-1][-length:] if length else () for words in text for length in range(order)}
    for context in sorted(contexts)[:40]:
        for word in sorted(oracle.words)[::3]:
            expected = oracle.probability(context, word)
            assert probability(model, context, word) == pytest.approx(expected, rel=1e-5), (context, word)


@pytest.mark.parametrize("order", [2, 5])
def test_probabilities_of_all_words_add_up_to_1_after_any_context(tmp_path, order):
    model, _ = estimated(tmp_path, zipfian_text(60), order)
    words = [word for word, _ in unigrams(tmp_path / "arpa") if word != "<s>"]
    for first, second in itertools.product(["<s>", "w0", "w7", "<unk>"], ["w0", "w3", "<unk>"]):
        state = state_after(model, (first, second))
        assert sum(10 ** model.advance(state, word)[0] for word in words) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("of_another_text", [False, True])
def test_words_outside_the_vocabulary_are_the_unknown_word(tmp_path, of_another_text):
    text = zipfian_text(200)
    of_words = zipfian_text(40) if of_another_text else text
    for name, sentences in (("text", text), ("words", [*of_words, ["absent", "absent"]])):
        (tmp_path / name).write_text("".join(" ".join(words) + "\n" for words in sentences))
    counts = collections.Counter(itertools.chain.from_iterable(of_words))
    known = {word for word, count in counts.items() if count >= 3}
    replaced = [[word if word in known else "<unk>" for word in words] for words in text]
    assert any("<unk>" in words for words in replaced)
    given = {"vocabulary": tmp_path / "words"} if of_another_text else {}
    estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=3, min_count=3 if not of_another_text else 2, **given)
    if of_another_text:
        known = {word for word, count in counts.items() if count >= 2} | {"absent"}
        replaced = [[word if word in known else "<unk>" for word in words] for words in text]
    words = {word for word, _ in unigrams(tmp_path / "arpa")} - {"<s>", "</s>", "<unk>"}
    assert words == known
    model, oracle = NgramModel(tmp_path / "arpa"), KneserNeyOracle(replaced, 3)
    oracle.words |= known
    for context in [(), ("<s>",), ("<unk>",), ("w0", "<unk>"), ("<s>", "w1"), ("w1", "w0")]:
        for word in sorted(oracle.words):
            expected = oracle.probability(context, word)
            assert probability(model, context, word) == pytest.approx(expected, rel=1e-5), (context, word)


def unigrams(path):
    """The words of an ARPA file with log10 p."""
    lines = path.read_text().split("\\1-grams:\n")[1].split("\n\n")[0].splitlines()
    return [(fields[1], float(fields[0])) for fields in map(str.split, lines)]


def test_the_file_is_a_standard_arpa_file(tmp_path):
    (tmp_path / "text").write_bytes("\ufeffa b a\r\n\nb\xe9 a\n".encode())
    summary = estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
    lines = (tmp_path / "arpa").read_text().split("\n")
    assert lines[:3] == ["\\data\\", "ngram 1=6", "ngram 2=7"] and lines[-3:] == ["", "\\end\\", ""]
    fields = [line.split("\t") for line in lines if "\t" in line]
    assert [line[1] for line in fields] == [
        "<unk>",
        "<s>",
        "</s>",
        "a",
        "b",
        "b\xe9",
        "<s> </s>",
        "<s> a",
        "<s> b\xe9",
        "a </s>",
        "a b",
        "b a",
        "b\xe9 a",
    ]
    assert [len(line) for line in fields] == [3] * 6 + [2] * 7
    assert fields[1][0] == "-99" and fields[2][2] == "0"  # nothing predicts <s>, nothing follows </s>
    assert summary.fallback == (2,) and summary.ngrams == (6, 7) and summary.lines == 3
    expected = "n-grams of order 1 to 2: 6, 7, from 3 sentences (default discounts for order 2: too little text) in "
    assert str(summary).startswith(expected)


def test_unusable_text_leaves_the_output_unchanged(tmp_path):
    (tmp_path / "arpa").write_text("before")
    (tmp_path / "text").write_text("a\nb <unk> c\n")
    with pytest.raises(InputError, match="line 2: found the word <unk>, expected .*, or escape it as &lt;unk&gt;"):
        estimate_ngrams(tmp_path / "text", tmp_path / "arpa")
    with pytest.raises(ConfigurationError, match="found order=1, expected a whole number, 2 or more"):
        estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=1)
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        estimate_ngrams(tmp_path / "text", tmp_path / "arpa", vocabulary=tmp_path / "arpa")
    for line in (b"a b\r\r\n", b"a\rb\n"):
        (tmp_path / "returns").write_bytes(b"a\r\n" + line)
        with pytest.raises(InputError, match="returns, line 2: found a carriage return in the word "):
            estimate_ngrams(tmp_path / "returns", tmp_path / "arpa")
    (tmp_path / "nul").write_bytes(b"a\nb a\0b\n")
    with pytest.raises(InputError, match=r"nul, line 2: found a NUL character in the word .*; .* tr -d '\\000'"):
        estimate_ngrams(tmp_path / "nul", tmp_path / "arpa")
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        estimate_ngrams(tmp_path / "text", tmp_path / "text")
    (tmp_path / "text").write_text("a a b\n")
    (tmp_path / "list").write_text("a\nb\n")
    for name, given in (("list", {"vocabulary": tmp_path / "list", "min_count": 2}), ("text", {"min_count": 3})):
        number = given["min_count"]
        with pytest.raises(InputError, match=f"/{name}: found no word that occurs at least {number} times, expected"):
            estimate_ngrams(tmp_path / "text", tmp_path / "arpa", **given)
    assert (tmp_path / "arpa").read_text() == "before"


def test_text_without_words_or_long_sentences_gives_a_model(tmp_path):
    model, summary = estimated(tmp_path, [[], []], 5)
    assert model.order == len(summary.ngrams) == 2
    assert -0.3 < model.score([]) < 0 and math.isfinite(model.score(["w"]))


def test_the_extra_that_reads_the_file_is_named_where_it_is_missing(monkeypatch):
    summary = NgramSummary(lines=1, seconds=1.0, output="lm.arpa", ngrams=(3,))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert summary.notices == [
        'Commands read this file with kenlm, which is not installed: pip install "keras-encdec[ngram]".'
    ]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert summary.notices == []
