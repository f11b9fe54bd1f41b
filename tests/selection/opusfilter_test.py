"""The filters for OpusFilter, in OpusFilter itself."""

import itertools
import pathlib
import re
import shutil

import numpy as np
import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.selection import TranslationEntropies, dual_conditional_cross_entropy

opusfilter = pytest.importorskip("opusfilter")
yaml = pytest.importorskip("ruamel.yaml")

PAIRS = [("le chat", "the cat"), ("la maison", "cat cat cat cat"), ("le", ""), ("", "the"), ("été un", "the the cat")]
GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "data-selection.md"


@pytest.fixture(scope="module")
def filters():
    return pytest.importorskip("keras_encdec.selection.opusfilter")


@pytest.fixture(scope="module")
def forward(filters, model_dirs):
    return filters.TranslationEntropyFilter(str(model_dirs / "forward"))


def entropies_of(model_dirs):
    """The cross-entropies of PAIRS by the models of both directions; infinite if a side is empty."""
    values = [TranslationEntropies(model_dirs / name, name == "reverse")(PAIRS) for name in ("forward", "reverse")]
    for each in values:
        each[[not (source and target) for source, target in PAIRS]] = np.inf
    return values


def test_the_guides_configuration_runs_in_opusfilter(model_dirs, tmp_path):
    """As `opusfilter filter.yaml` does, with the scores of TranslationEntropies."""
    from opusfilter.opusfilter import OpusFilter

    (block,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    config = yaml.YAML(typ="safe").load(block)
    config["common"] = {"output_directory": str(tmp_path)}
    for name in ("forward", "reverse"):
        shutil.copytree(model_dirs / name, tmp_path / name)
    for name, side in zip(("noisy.en", "noisy.fr"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in side), encoding="utf-8")
    names = [next(iter(entry)) for step in config["steps"] for entry in step["parameters"]["filters"]]
    assert sorted(names) == ["DualEntropyFilter", "TranslationEntropyFilter"] * (len(names) // 2)

    entropies = entropies_of(model_dirs)
    middle = [float(np.median(entropies[0])), 0.0]
    for step in config["steps"]:
        for entry, threshold in zip(step["parameters"]["filters"], middle, strict=True):
            entry[next(key for key in entry if key != "module")]["threshold"] = threshold + 1e-6
    OpusFilter(config).execute_steps()
    kept = (tmp_path / "selected.en").read_text(encoding="utf-8").splitlines()
    assert kept == [source for (source, _), value in zip(PAIRS, entropies[0], strict=True) if value <= middle[0] + 1e-6]
    assert 0 < len(kept) < len(PAIRS)


def test_scores_are_the_cross_entropies_of_both_models(filters, forward, model_dirs):
    dual = filters.DualEntropyFilter("forward", "reverse", workdir=str(model_dirs), threshold=0.0)
    entropies = entropies_of(model_dirs)
    np.testing.assert_allclose(list(forward.score(PAIRS)), entropies[0], rtol=1e-6)
    scored = np.isfinite(entropies[0])
    expected = np.full(len(PAIRS), -np.inf)  # the score of encdec-select
    expected[scored] = dual_conditional_cross_entropy(*(each[scored] for each in entropies))
    np.testing.assert_allclose(list(dual.score(PAIRS)), expected, rtol=1e-5)


def test_a_pair_with_an_empty_or_a_too_long_side_is_rejected(filters, forward, model_dirs, monkeypatch):
    dual = filters.DualEntropyFilter("forward", "reverse", workdir=str(model_dirs), threshold=0.0)
    monkeypatch.setattr(forward, "threshold", 1e9)
    for each in (forward, dual):
        assert list(each.decisions(PAIRS)) == [True, True, False, False, True]
        assert list(each.decisions([("", ""), (" ", "\t")])) == [False, False]
        assert list(each.decisions([("le " * 1001, "the"), ("le " * 1000, "the")])) == [False, True]
    unlimited = filters.TranslationEntropyFilter("forward", 1e9, max_tokens=None, workdir=str(model_dirs))
    assert list(unlimited.decisions([("le " * 1001, "the")])) == [True]
    # Like the tokenizer of raw text, `str.split` finds no word in white space of any kind.
    monkeypatch.setattr(ModelDirectory, "words", lambda self, lines, factored: [line.split() for line in lines])
    for each in (forward, dual):
        assert list(each.decisions([("le", "the"), ("\u00a0", "the")])) == [True, False]


def test_decisions_agree_however_pairs_are_filtered(filters, forward, monkeypatch):
    monkeypatch.setattr(filters, "_BATCH", 2)
    scores = list(forward.score(PAIRS))
    monkeypatch.setattr(forward, "threshold", sorted(scores)[2])
    expected = [score <= forward.threshold for score in scores]
    assert list(forward.decisions(PAIRS)) == expected and sum(expected) == 3
    assert list(forward.filter(PAIRS)) == [pair for pair, kept in zip(PAIRS, expected, strict=True) if kept]
    assert list(forward.filterfalse(PAIRS)) == [pair for pair, kept in zip(PAIRS, expected, strict=True) if not kept]
    # Pairs are read as they are needed.
    endless = itertools.cycle(PAIRS)
    assert list(itertools.islice(forward.score(endless), 7)) == pytest.approx((scores * 2)[:7])
    assert list(forward.score([])) == []


def test_thresholds_that_accept_or_reject_everything(filters, forward, model_dirs):
    dual = filters.DualEntropyFilter("forward", "reverse", workdir=str(model_dirs))
    for each, clean in ((forward, opusfilter.CLEAN_LOW), (dual, opusfilter.CLEAN_HIGH)):
        assert each.score_direction == clean
        for threshold, accepted in ((each.accept_threshold, True), (each.reject_threshold, False)):
            each.threshold = threshold
            assert set(each.decisions(PAIRS)) == {accepted}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("threshold", "4.6", "a number"),
        ("threshold", float("nan"), "a number"),
        ("end_weight", "1", "a number, above 0, 1000 or less"),
        ("max_tokens", "9", "a whole number, 1 or more"),
        ("max_unknown_in_pair", "1", "a number, 0 to 1"),
        ("reverse", "false", "true or false"),
    ],
)
def test_a_value_of_a_wrong_type_is_an_error_before_any_scoring(filters, model_dirs, name, value, expected):
    kinds = [(filters.TranslationEntropyFilter, ["forward"]), (filters.DualEntropyFilter, ["forward", "reverse"])]
    for kind, models in kinds[: 1 if name == "reverse" else 2]:
        with pytest.raises(ConfigurationError, match=f"found {name}={value!r}, expected {expected}"):
            kind(*models, workdir=str(model_dirs), **{name: value})


def test_wrong_models_and_files_are_explained(filters, forward, model_dirs):
    with pytest.raises(InputError, match="check reverse_model_dir|reverse_model_dir"):
        filters.DualEntropyFilter(str(model_dirs / "forward"), str(model_dirs / "forward"))
    with pytest.raises(ConfigurationError, match="found 3 files, expected 2"):
        list(forward.score([("a", "b", "c")]))
