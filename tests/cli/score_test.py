"""Tests of the scoring command; what it does is tested with `keras_encdec.scoring.score_file`."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.score import COMMAND
from keras_encdec.scoring import score_file

SCRIPT = pathlib.Path(sys.executable).with_name("encdec-score")
TABLE = b"le chat ||| the cat ||| 0.5 0.25 ||| 0-0 1-1\nle ||| the ||| 0.5 1\n"
INI = """[feature]
PhraseDictionaryCompact name=TranslationModel0 num-features=2 path=/old/table input-factor=0 output-factor=0
[weight]
TranslationModel0= 0.25 0.35
"""


@pytest.fixture
def table(tmp_path):
    (tmp_path / "table").write_bytes(TABLE)
    return tmp_path / "table"


def test_flags_are_passed_on(model_dirs, forward_scorer, reverse_scorer, tmp_path, table, out):
    (tmp_path / "ini").write_text(INI)
    (tmp_path / "table").write_bytes(TABLE + b"bad\n")
    done = in_process(
        COMMAND,
        f"--model_dir={model_dirs}/forward",
        f"--reverse_model_dir={model_dirs}/reverse",
        f"--input={table}",
        f"--output={out}/table",
        "--unknown_count",
        "--on_error=keep",
        f"--moses_ini={tmp_path}/ini",
        f"--moses_ini_out={out}/ini",
        "--encoding=latin-1",
        "--moses_feature=TranslationModel0",
    )
    summary, notice, words, malformed = succeed(done).stderr.splitlines()
    assert notice.startswith(f"{out}/ini: TranslationModel0 was a PhraseDictionaryCompact")
    assert summary.startswith("3 lines in ") and summary.endswith(f" lines/s: {out}/table")
    assert words.startswith("source: 0.00 % of the 3 words are unknown to the model; target: 0.00 % of the 3 words")
    assert malformed == "1 malformed line got a neutral score; a line without a field for it stays unchanged."
    assert "num-features=5" in (out / "ini").read_text()
    models = {"model_dir": forward_scorer, "reverse_model_dir": reverse_scorer}
    score_file(input=table, output=tmp_path / "expected", **models, unknown_count=True, on_error="keep")
    assert (out / "table").read_bytes() == (tmp_path / "expected").read_bytes()


def test_a_dry_run_of_an_nbest_list(model_dirs, tmp_path, out):
    (tmp_path / "nbest").write_text("0 ||| the cat ||| LM0= 1 ||| 1\nbad\n")
    (tmp_path / "source").write_text("le chat\n")
    flags = [f"--model_dir={model_dirs}/forward", f"--input={tmp_path}/nbest", f"--source={tmp_path}/source"]
    flags += [f"--output={out}/nbest", "--format=nbest", "--feature_name=X", "--length", "--on_error=keep", "--dry_run"]
    summary, _, malformed = succeed(in_process(COMMAND, *flags)).stderr.splitlines()
    assert summary.endswith("a dry run, nothing was written") and os.listdir(out) == []
    assert malformed == "1 malformed line would get a neutral score; a line without a field for it stays unchanged."


def test_wrong_use_is_an_error_before_any_work(model_dirs, table, out):
    flags = [f"--model_dir={model_dirs}/forward", f"--input={table}", f"--output={out}/table"]
    hint = "encdec-score --help lists the flags."
    fail(in_process(COMMAND), 2, "--model_dir, --input and --output are missing", hint)
    for extra, sentence in {
        "--modeldir=x": "Unknown command line flag 'modeldir'. Did you mean: model_dir",
        "--format=xml": "expected one of phrase_table, tsv, parallel, nbest",
        "table.gz": "found the argument 'table.gz', expected flags only.",
        "--moses_ini=x": "found one of --moses_ini and --moses_ini_out, expected both.",
        "--token_scores": "found --token_scores with --format=phrase_table, expected it with --format=tsv or parallel.",
        "--source=x": "found --source with --format=phrase_table, expected it with --format=parallel or nbest.",
        "--feature_name=RNN0": "found --feature_name with --format=phrase_table, expected it with --format=nbest.",
        "--flagfile=/none": "/none",
    }.items():
        fail(in_process(COMMAND, *flags, extra), 2, sentence, hint)
    sentence = f"found one file for two purposes ({table}), expected a different file for each"
    fail(in_process(COMMAND, *flags[:2], f"--output={table}"), 2, sentence, hint)
    assert os.listdir(out) == [] and table.read_bytes() == TABLE


def test_failed_work_is_reported_in_a_sentence(model_dirs, tmp_path, out):
    flags = [f"--model_dir={model_dirs}/forward", f"--input={tmp_path}/none", f"--output={out}/table"]
    fail(in_process(COMMAND, *flags), 1, f"encdec-score: {tmp_path}/none: found no such file", "check the path")


def test_help_lists_the_flags():
    done = succeed(in_process(COMMAND, "--help"))
    assert "adds a model's scores to a phrase table, pairs of text or an n-best list" in done.stdout
    assert "--model_dir: Directory of the model" in done.stdout and "--[no]unknown_count" in done.stdout
    assert done.stderr == ""


def test_the_installed_command_shows_its_progress_on_a_terminal(model_dirs, forward_scorer, table, out):
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [SCRIPT, f"--model_dir={model_dirs}/forward", f"--input={table}", "--output=-"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=True)
    os.close(terminal)
    # A read returns what the terminal has passed on so far, and raises at its end.
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(controller, 1 << 16):
            parts.append(part)
    shown = b"".join(parts).decode()
    os.close(controller)
    # On a busy machine, scoring three lines takes seconds.
    assert re.search(r"100%.*( lines/s| s each)\]", shown)
    assert shown.replace("\r", "").splitlines()[-2].endswith(" lines/s: standard output")
    score_file(forward_scorer, table, out / "table")
    assert done.stdout == (out / "table").read_bytes()


def test_an_unusable_backend_is_reported_in_a_sentence(model_dirs, table):
    command = [SCRIPT, f"--model_dir={model_dirs}/forward", f"--input={table}", "--output=-"]
    done = subprocess.run(command, env={**os.environ, "KERAS_BACKEND": "abacus"}, capture_output=True, text=True)
    fail(done, 1, "found no usable backend of Keras", "abacus", 'pip install "keras-encdec[jax]"')


def test_a_stopped_command_leaves_no_unfinished_files(model_dirs, tmp_path, out):
    words = [f"w{i}" for i in range(300)]
    lines = (f"{a} {b} ||| {b} {a} {c} ||| 0.5\n" for a in words for b in words for c in words[:5])
    (tmp_path / "table").write_text("".join(lines))
    flags = [f"--model_dir={model_dirs}/forward", f"--input={tmp_path}/table", f"--output={out}/table"]
    process = subprocess.Popen([SCRIPT, *flags], stderr=subprocess.PIPE, text=True)
    while not os.listdir(out):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(2)  # among the scores
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert errors == "encdec-score: interrupted; no unfinished output is left.\n"
    assert os.listdir(out) == []
