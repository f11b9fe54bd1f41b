"""The command that tunes; what it does is tested with `keras_encdec.smt.tuning.tune`."""

import importlib
import json

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.tune import COMMAND

NBEST = """0 ||| a b c d e ||| LM0= -1 R0= -2 ||| 9
0 ||| a b c d f ||| LM0= -2 R0= -1 ||| 8
2 ||| b c d e g ||| LM0= -1 R0= -2 ||| 9
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nbest").write_text(NBEST)
    (tmp_path / "ref").write_text("a b c d f\nx\nb c d e g\n")
    (tmp_path / "moses.ini").write_text("[weight]\nLM0= 1\nR0= 0\n")
    return tmp_path


def flags(folder, **changed):
    values = {"nbest": folder / "nbest", "reference": folder / "ref", "weights": folder / "moses.ini"} | changed
    return [f"--{name}={value}" for name, value in values.items()]


def test_flags_are_passed_on(files):
    outputs = {f"{name}_out": files / name for name in ("weights", "moses_ini", "all_weights", "json")}
    test = {"test_nbest": files / "nbest", "test_reference": files / "ref"}
    done = succeed(
        in_process(
            COMMAND,
            *flags(files, seeds=2, algorithm="mira", **test),
            *[f"--{name}={path}" for name, path in outputs.items()],
            "--weight=R0=0.5",
        )
    )
    signature, head, before, *_, best = done.stdout.splitlines()
    assert signature.startswith("BLEU|nrefs:1|") and head.split() == ["BLEU", "test"] and best.startswith("best: seed ")
    first, second, gap = done.stderr.splitlines()
    assert first.startswith("seed 1: ") and second.startswith("seed 2: ") and ", test " in first
    assert gap.startswith("1 sentence without hypotheses, counted as empty translations; check that")
    found = json.loads((files / "json").read_text())
    assert found["algorithm"] == "mira" and [tuned["seed"] for tuned in found["tuned"]] == [1, 2]
    assert (files / "moses_ini").read_text().startswith("[weight]\nLM0= ") and (files / "weights").exists()
    assert (files / "all_weights" / "weights.2").exists()


def test_a_list_with_one_hypothesis_per_sentence_is_reported(files):
    (files / "nbest").write_text(NBEST.replace("0 ||| a b c d f", "1 ||| a b c d f"))
    done = succeed(in_process(COMMAND, *flags(files), "--weights_out=-"))
    assert done.stderr.endswith("Every sentence has only one hypothesis, so all weights give the same result.\n")


def test_wrong_use_is_an_error_before_any_work(files):
    fail(in_process(COMMAND), 2, "--nbest and --reference are missing")
    fail(in_process(COMMAND, *flags(files)), 2, "found no file for the weights, expected one of --weights_out, --moses")
    for extra, sentence in {
        "--weight=R": '--weight: found "R", expected "Name= w [w ...]"',
        "--algorithm=grid": "flag --algorithm=grid: expected one of mert, mira, pro",
        f"--json_out={files}/nbest": "found one file for two purposes",
        f"--json_out={files}/moses.ini": "found one file for two purposes",
        f"--test_nbest={files}/nbest": "found --test_nbest or --test_reference alone, expected both or neither",
    }.items():
        fail(in_process(COMMAND, *flags(files), "--weights_out=/dev/null", extra), 2, sentence)
    assert (files / "nbest").read_text() == NBEST
    (files / "ref").write_text("a\n")
    fail(in_process(COMMAND, *flags(files, weights_out=files / "w")), 1, f"{files}/nbest, line 3: found the id 2")
    assert not (files / "w").exists()


def test_a_file_that_cannot_be_written_is_reported_before_the_search(files, monkeypatch):
    module = importlib.import_module("keras_encdec.smt.tuning.tune")
    monkeypatch.setattr(module, "tune", lambda *given, **options: pytest.fail("searched in vain"))
    fail(in_process(COMMAND, *flags(files), f"--json_out={files}/none/out"), 1, f"{files}/none/out")
    both = in_process(COMMAND, *flags(files), "--weights_out=-", "--json_out=-")
    fail(both, 2, "found - as the name of two outputs, expected a file for one of them")
