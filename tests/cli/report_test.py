"""The command that writes reports; what it writes is tested with `keras_encdec.analysis.report`."""

import pytest
from commands import fail, succeed
from in_process import in_process
from toy_report import write_table

from keras_encdec.cli.report import COMMAND


@pytest.mark.usefixtures("uncompiled")
def test_flags_are_passed_on(model_dirs, tmp_path):
    table, output = write_table(tmp_path / "table"), tmp_path / "out"
    given = "--phrase=le chat", "--phrase=la maison <b> été", "--samples=2", "--pairs=7", "--seed=3", "--encoding=utf-8"
    flags = f"--model_dir={model_dirs}/forward", f"--output={output}", f"--phrase_table={table}"
    done = succeed(in_process(COMMAND, *flags, *given))
    assert "Scoring 7 pairs." in done.stderr and done.stderr.endswith(f"MB: {output}/index.html\n")
    samples = (output / "tables" / "samples.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert {line.split("\t")[0] for line in samples} == {"le chat", "la maison <b> été"}


def test_wrong_use_is_told(model_dirs, tmp_path):
    fail(in_process(COMMAND), 2, "--model_dir must have a value")
    fail(in_process(COMMAND, "--model_dir=m", "--output=o", "--samples=0"), 2, "samples=0")
    fail(in_process(COMMAND, "--model_dir=/none", f"--output={tmp_path}"), 1, "/none: found no such directory")
