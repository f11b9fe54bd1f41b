"""The command that adds scores of a phrase table to n-best lists; what it does is tested with its function."""

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.phrase_features import COMMAND


@pytest.fixture
def given(tmp_path):
    (tmp_path / "nbest").write_text("0 ||| le  ||| TM= -1 ||| 0\n")
    (tmp_path / "source").write_text("the\n")
    (tmp_path / "table").write_text("the ||| le ||| 0.367879 1 1 1 0.5 0.25\n")
    names = {"input": "nbest", "source": "source", "phrase_table": "table", "output": "out"}
    return [f"--{flag}={tmp_path}/{name}" for flag, name in names.items()] + ["--moses_feature=TM"]


def test_flags_are_passed_on(given, tmp_path):
    done = succeed(in_process(COMMAND, *given, "--encoding=utf-8", "--on_error=keep"))
    assert (tmp_path / "out").read_text() == "0 ||| le  ||| TM= -1 RNN0= -0.693147 ||| 0\n"
    assert done.stderr.startswith("1 line in ") and "does not contain the phrases of 1 of 1 hypotheses" in done.stderr
    succeed(in_process(COMMAND, *given, "--feature=A=5,6", "--feature=B=1"))
    assert " TM= -1 A= -0.693147 -1.386294 B= -1.000001 |||" in (tmp_path / "out").read_text()


def test_wrong_use_is_an_error_before_any_work(given, tmp_path):
    fail(in_process(COMMAND), 2, "--input, --source, --phrase_table and --output are missing")
    for feature in ("RNN0", "RNN0=x", "RNN0=5,", "5", "RNN0=-5"):
        fail(in_process(COMMAND, *given, f"--feature={feature}"), 2, f"--feature: found '{feature}', expected Name=n")
    fail(in_process(COMMAND, *given, "--feature=A=5", "--feature=A=6"), 2, "--feature: found A twice, expected")
    fail(in_process(COMMAND, *given, "--feature=A_B=5"), 2, "found --feature='A_B', expected a name without")
    fail(in_process(COMMAND, *given, "--feature=A=7"), 1, f"{tmp_path}/table, line 1: found 6 scores, expected at")
    assert not (tmp_path / "out").exists()
