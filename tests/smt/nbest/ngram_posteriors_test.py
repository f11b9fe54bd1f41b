"""Posterior probabilities of n-grams, against the definition."""

import gzip
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import parse_nbest_line
from keras_encdec.formats.nbest_line import parse_features
from keras_encdec.smt import add_ngram_posteriors

HYPOTHESES = st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=4)
SENTENCES = st.lists(HYPOTHESES, min_size=1, max_size=3)
TOTALS = st.floats(-50, 50)


def nbest(sentences, totals):
    lines = [(number, " ".join(words)) for number, hypotheses in enumerate(sentences) for words in hypotheses]
    return "".join(
        f"{number} ||| {text}  ||| LM0= -1 ||| {total:.6f}\n"
        for (number, text), total in zip(lines, totals, strict=True)
    )


def added(folder, input, translations, **options):
    (folder / "input").write_bytes(input.encode())
    (folder / "translations").write_bytes(translations.encode())
    return add_ngram_posteriors(folder / "input", folder / "translations", folder / "out", **options)


def by_definition(words, translations, scale, order):
    """The sum over the hypothesis's n-grams of the probability of the translations that have them."""
    weights = [math.exp(scale * (total - max(total for _, total in translations))) for _, total in translations]
    value = 0.0
    for start in range(len(words) - order + 1):
        ngram = f" {' '.join(words[start : start + order])} "
        value += sum(w for w, (other, _) in zip(weights, translations, strict=True) if ngram in f" {' '.join(other)} ")
    return value / sum(weights)


@given(lists=SENTENCES, data=st.data(), scale=st.floats(0, 2))
def test_values_are_those_of_the_definition(tmp_path_factory, lists, data, scale):
    folder = tmp_path_factory.mktemp("lists")
    others = [data.draw(HYPOTHESES) for _ in lists]
    totals = [[round(data.draw(TOTALS), 6) for _ in translations] for translations in others]
    text = nbest(lists, [0.0] * sum(map(len, lists)))
    summary = added(folder, text, nbest(others, sum(totals, [])), scale=scale)
    assert summary.lines == text.count("\n") and summary.translations == sum(map(len, others))
    written = (folder / "out").read_text().splitlines()
    for line, before in zip(written, text.splitlines(), strict=True):
        parsed = parse_nbest_line(line.encode())
        assert re.sub(r" NgramPosterior0= [^|]*? \|\|\|", " |||", line) == before
        translations = list(zip(others[parsed.id], totals[parsed.id], strict=True))
        words = parsed.hypothesis.decode().split()
        expected = [by_definition(words, translations, scale, order) for order in (1, 2, 3, 4)]
        assert parse_features(parsed.features)["NgramPosterior0"] == pytest.approx(expected, abs=2e-6)


def test_words_are_compared_without_escapes_and_bytes_are_kept(tmp_path):
    input = "0 ||| l&apos; x  ||| LM0= -1 ||| 0 ||| 0=0\r\n3 ||| y ||| LM0= 2 ||| 0"
    translations = "0 ||| l' x ||| R= 0 ||| 0\n1 ||| no ||| R= 0 ||| 0\n3 ||| y z ||| R= 0 ||| 0\n"
    added(tmp_path, input, translations, feature_name="P")
    assert (tmp_path / "out").read_bytes().decode() == (
        "0 ||| l&apos; x  ||| LM0= -1 P= 2.000000 1.000000 0.000000 0.000000 ||| 0 ||| 0=0\r\n"
        "3 ||| y ||| LM0= 2 P= 1.000000 0.000000 0.000000 0.000000 ||| 0"
    )
    lines = "0 ||| a ||| R= 0 ||| 0\n1 ||| a ||| R= 0 ||| 0\n"
    added(tmp_path, "\ufeff" + lines, lines)
    first, second = (tmp_path / "out").read_text().splitlines()
    assert first.startswith("\ufeff0 ||| a ||| R= 0 NgramPosterior0= 1") and second.startswith("1 ||| a ")


@pytest.mark.parametrize(
    "translations, message",
    [
        ("0 ||| a ||| R= 0 ||| 0\n2 ||| a ||| R= 0 ||| 0\n", "input, line 2: found the id 1, expected one with transl"),
        ("0 ||| a ||| R= 0 ||| 0\n", "input, line 2: found the id 1, expected one with translations in .*translations"),
        ("0 ||| a ||| R= 0 ||| 0\n1 ||| a |||\n", "translations, line 2: found 3 fields"),
    ],
)
def test_a_sentence_without_translations_is_reported(tmp_path, translations, message):
    with pytest.raises(InputError, match=message):
        added(tmp_path, "0 ||| a ||| L= 1 ||| 0\n1 ||| b ||| L= 1 ||| 0\n", translations)
    assert not (tmp_path / "out").exists()


def test_bytes_of_another_encoding_are_reported_unless_the_encoding_is_given(tmp_path):
    for name in ("input", "translations"):
        (tmp_path / name).write_bytes(b"0 ||| caf\xe9 ||| R= 0 ||| 0\n")
    files = tmp_path / "input", tmp_path / "translations", tmp_path / "out"
    with pytest.raises(InputError, match="line 1: found bytes that are not UTF-8"):
        add_ngram_posteriors(*files)
    add_ngram_posteriors(*files, encoding="latin-1")
    assert b"caf\xe9 ||| R= 0 NgramPosterior0= 1.000000" in (tmp_path / "out").read_bytes()


def test_the_probabilities_may_be_those_of_the_list_itself(tmp_path):
    list_ = "0 ||| a ||| L= 1 ||| 0\n0 ||| b b ||| L= 1 ||| 0\n"
    added(tmp_path, list_, list_)
    expected = (tmp_path / "out").read_bytes()
    add_ngram_posteriors(tmp_path / "input", tmp_path / "input", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == expected and b"= 1.000000 0.500000 0" in expected


def test_unusable_arguments_are_refused(tmp_path):
    for options, message in (({"scale": -1.0}, "scale=-1.0, expected a number, 0"), ({"feature_name": "a_b"}, "'a_b'")):
        with pytest.raises(ConfigurationError, match=message):
            added(tmp_path, "0 ||| a ||| L= 1 ||| 0\n", "0 ||| a ||| L= 1 ||| 0\n", **options)
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        add_ngram_posteriors(tmp_path / "input", tmp_path / "translations", tmp_path / "input")
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        add_ngram_posteriors(tmp_path / "input", tmp_path / "translations", tmp_path / "translations")


def test_a_feature_that_the_list_already_has_is_refused(tmp_path):
    list_ = "0 ||| a ||| L= 1 ||| 0\n"
    with pytest.raises(InputError, match="input, line 1: found the feature L, expected it to be new; rename"):
        added(tmp_path, list_, list_, feature_name="L")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e308])
def test_totals_of_any_size_give_probabilities(tmp_path, scale):
    lines = [f"0 ||| {word} ||| R= 0 ||| {total}\n" for word, total in (("a", 1e308), ("b", -1e308), ("c", -1.1e308))]
    added(tmp_path, lines[0], "".join(lines[1:]).replace(" b ", " a "), scale=scale)
    value = "0.500000" if scale == 0 else "1.000000"
    assert f"NgramPosterior0= {value} 0.000000" in (tmp_path / "out").read_text()
    added(tmp_path, lines[0], "".join(lines), scale=scale)
    assert f"NgramPosterior0= {'0.333333' if scale == 0 else value} 0" in (tmp_path / "out").read_text()


def test_translations_are_read_to_the_end(tmp_path):
    list_ = "0 ||| a ||| L= 1 ||| 0\n"
    translations = gzip.compress((list_ + "1 ||| b ||| L= 1 ||| 0\n").encode())[:-3]
    (tmp_path / "input").write_text(list_)
    (tmp_path / "translations").write_bytes(translations)
    with pytest.raises(InputError, match="translations, line .: found the end of the file inside gzipped data"):
        add_ngram_posteriors(tmp_path / "input", tmp_path / "translations", tmp_path / "out")
