"""Evaluation of systems against a baseline."""

import json
import re
import sys

import numpy as np
import pytest
import sacrebleu

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.smt.evaluation import evaluate
from keras_encdec.smt.evaluation.evaluate import text_table

REFERENCE = ["the cat sat on the mat", "a dog runs here today &amp; now", "it was l &apos; été"]
SYSTEMS = {
    "base.1": ["the cat sat on a mat", "dog runs here today &amp; then", "it is l &apos; été"],
    "base.2": ["the cat sat on a mat", "a dog runs here today &amp; then", "it is l &apos; été"],
    "ours.1": ["the cat sat on the mat", "a dog runs here today &amp; then", "it was l &apos; été"],
    "ours.2": ["the cat sat on the mat", "a dog runs here", "it was l &apos; été"],
}
QUICK = {"bootstrap_samples": 100, "trials": 200, "tokenize": "none"}


@pytest.fixture
def files(tmp_path):
    for name, lines in {"ref": REFERENCE, **SYSTEMS}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def bleu(name, **options):
    return sacrebleu.corpus_bleu(SYSTEMS[name], [REFERENCE], force=True, **{"tokenize": "none", **options}).score


def test_runs_of_a_system_are_one_system(files):
    ours = {"ours": [files / "ours.1", files / "ours.2"]}
    (result,) = evaluate([files / "ref"], ours, [files / "base.1", files / "base.2"], **QUICK)
    base, system = result.systems
    assert base.scores == (bleu("base.1"), bleu("base.2")) and system.scores == (bleu("ours.1"), bleu("ours.2"))
    assert (base.system, system.system, base.comparison) == ("baseline", "ours", None)
    assert system.mean == pytest.approx(np.mean(system.scores))
    assert system.deviation == pytest.approx(np.std(system.scores, ddof=1))
    assert system.comparison.difference == pytest.approx(system.mean - base.mean)
    assert 0 < system.comparison.p_randomization <= 1 and 0 < system.comparison.p_bootstrap <= 1
    signature, head, *rows = str(result).splitlines()
    assert signature == f"BLEU|{result.signature}" and "|tok:none|" in signature
    assert re.split(r"  +", head) == [
        "system",
        "runs",
        "BLEU",
        "deviation",
        "95 %",
        "difference",
        "p bootstrap",
        "p randomization",
    ]
    assert re.fullmatch(rf"baseline +2 +{base.mean:.2f} +{base.deviation:.2f} +± [\d.]+", rows[0])
    difference = f"{system.mean - base.mean:.2f}"
    assert re.fullmatch(rf"ours +2 +{system.mean:.2f} .* \+{difference}( +[01]\.\d{{4}}){{2}}", rows[1])
    assert json.loads(json.dumps(result.to_dict()))["systems"][1]["comparison"]["difference"] > 0


def test_every_metric_is_sacrebleus(files):
    result = evaluate([files / "ref"], {"x": [files / "base.1"]}, metrics=["bleu", "chrf", "ter"], **QUICK)
    texts = SYSTEMS["base.1"], [REFERENCE]
    scores = [bleu("base.1"), sacrebleu.corpus_chrf(*texts).score, sacrebleu.corpus_ter(*texts).score]
    assert [evaluation.systems[0].scores for evaluation in result] == [(score,) for score in scores]
    assert [evaluation.metric for evaluation in result] == ["BLEU", "chrF2", "TER"]
    assert all(
        evaluation.systems[0].comparison is None and evaluation.systems[0].deviation is None for evaluation in result
    )


def test_escapes_and_several_references(files):
    system = {"x": [files / "base.1"]}
    (files / "ref2").write_text((files / "base.1").read_text())
    (result,) = evaluate([files / "ref", files / "ref2"], system, **QUICK)
    assert result.systems[0].scores == (pytest.approx(100),) and result.signature.startswith("nrefs:2")
    plain = [line.replace("&amp;", "&").replace("&apos;", "'") for line in SYSTEMS["base.1"]]
    reference = [line.replace("&amp;", "&").replace("&apos;", "'") for line in REFERENCE]
    (result,) = evaluate([files / "ref"], system, metrics=["chrf"], unescape=True, **QUICK)
    assert result.systems[0].scores == (sacrebleu.corpus_chrf(plain, [reference]).score,)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "is_unlike"),
    [
        ("l'eau", "l &apos; eau", True),
        ("l &apos;eau", "l ' eau", True),
        ("l &apos;eau", "l &quot; eau", False),
        ("l'eau", "l eau", False),
        ("R & D", "R &amp; D", True),
        ("l eau", "l&apos;eau", False),
    ],
)
def test_escapes_on_one_side_only_are_reported(tmp_path, reference, hypothesis, is_unlike):
    """Moses escapes what it writes; references are often plain."""
    for name, text in (("ref", reference), ("ours", hypothesis), ("same", reference)):
        (tmp_path / name).write_text(f"{text}\na b c\n")
    systems = {"ours": [tmp_path / "ours"], "same": [tmp_path / "same"]}
    (result,) = evaluate([tmp_path / "ref"], systems, **QUICK)
    assert result.unlike_references == (str(tmp_path / "ours"),) * is_unlike
    (result,) = evaluate([tmp_path / "ref"], systems, unescape=True, **QUICK)
    assert result.unlike_references == ()


def test_without_sacrebleu_the_error_says_what_to_install(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"needs sacrebleu, .*: pip install .keras-encdec\[smt\].\.$"):
        evaluate([files / "ref"], {"x": [files / "base.1"]})


def test_files_of_other_lengths_and_wrong_arguments_are_refused(files):
    (files / "short").write_text("a\n")
    expected = re.escape(f"{files}/short: found 1 line, expected 3, the number in {files}/ref; give files of the same")
    for arguments in (
        ([files / "ref", files / "short"], {"x": [files / "base.1"]}),
        ([files / "ref"], {"x": [files / "base.1", files / "short"]}),
        ([files / "ref"], {"x": [files / "base.1"]}, [files / "short"]),
    ):
        with pytest.raises(InputError, match=expected):
            evaluate(*arguments)
    for arguments, found in (
        ((str(files / "ref"), {"x": [files / "base.1"]}), "references='/.*, expected a list of paths"),
        (([files / "ref"], {"x": files / "base.1"}), "x=.*, expected a list of paths"),
        (([], {"x": [files / "base.1"]}), "an empty list of references, expected one path or more"),
        (([files / "ref"], {"x": []}), "an empty list of x, expected one path or more"),
        (([files / "ref"], [files / "base.1"]), "systems=.*, expected a dict from the name of each system to"),
        (([files / "ref"], None, [files / "base.1"]), "systems=None, expected a dict"),
    ):
        with pytest.raises(ConfigurationError, match=f"found {found}"):
            evaluate(*arguments)
    given = [files / "ref"], {"x": [files / "base.1"]}
    with pytest.raises(ConfigurationError, match="found tokenize=zh with metrics=chrf and ter, expected it with bleu"):
        evaluate(*given, metrics=["chrf", "ter"], tokenize="zh")
    assert len(evaluate(*given, metrics=["bleu", "ter"], tokenize="zh", bootstrap_samples=1)) == 2
    with pytest.raises(ConfigurationError, match="found trials=0, expected a whole number, 1 or more"):
        evaluate([files / "ref"], {}, [files / "base.1"], trials=0)
    for baseline in ([files / "base.1"], []):
        systems = {"x": [files / "base.1"], "baseline": [files / "ours.1"]}
        with pytest.raises(ConfigurationError, match="found a system named baseline, expected this name for baseline "):
            evaluate([files / "ref"], systems, baseline)


def test_columns_are_aligned_after_wide_characters_and_accents():
    table = text_table([("baseline", "1"), ("\u57fa\u7ebf", "2"), ("e\u0301te\u0301", "3")])
    assert table == "baseline  1\n\u57fa\u7ebf      2\ne\u0301te\u0301       3"
