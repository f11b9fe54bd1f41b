"""The command that adds n-gram posteriors; what it does is tested with its function."""

from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.ngram_posteriors import COMMAND


def test_flags_are_passed_on(tmp_path):
    (tmp_path / "in").write_text("0 ||| a b  ||| LM0= -1 ||| 0\n")
    (tmp_path / "other").write_text("0 ||| a b ||| R= -1 ||| 9\n0 ||| b ||| R= -1 ||| 1\n")
    files = [f"--input={tmp_path}/in", f"--translations={tmp_path}/other", f"--output={tmp_path}/out"]
    done = succeed(in_process(COMMAND, *files, "--scale=0", "--feature_name=P0", "--encoding=utf-8"))
    assert done.stderr.startswith("1 line in ")
    text = (tmp_path / "out").read_text()
    assert text == "0 ||| a b  ||| LM0= -1 P0= 1.500000 0.500000 0.000000 0.000000 ||| 0\n"
    fail(in_process(COMMAND, *files[:2]), 2, "--output is missing")
    fail(in_process(COMMAND, *files, "--scale=-1"), 2, "--scale")
