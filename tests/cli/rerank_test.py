"""Tests of the re-ranking command; what it does is tested with `keras_encdec.smt.nbest.rerank`."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.rerank import COMMAND

LIST = "0 ||| a  ||| LM0= -4 TM0= 1 1 ||| 9\n0 ||| b  ||| LM0= -4 TM0= 0 2 ||| 9\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nbest").write_text(LIST)
    (tmp_path / "weights").write_text("LM0= 0.5\nTM0= 0 0\n")
    return tmp_path


def flags(folder, **changed):
    values = {"input": folder / "nbest", "output": folder / "best", "weights": folder / "weights"}
    return [f"--{name}={value}" for name, value in (values | changed).items()]


def test_flags_are_passed_on(files):
    done = succeed(in_process(COMMAND, *flags(files, format="text"), "--weight=TM0= 1 2", "--weight=TM0=0 1"))
    assert done.stderr.startswith("1 sentence in ") and done.stderr.endswith(f" sentences/s: {files}/best\n")
    assert (files / "best").read_text() == "b\n"


def test_missing_sentences_are_reported(files):
    (files / "nbest").write_text(LIST.replace("0 |||", "2 |||", 1).replace("0 |||", "5 |||"))
    _, gaps = succeed(in_process(COMMAND, *flags(files, format="text"))).stderr.splitlines()
    assert gaps.startswith("4 sentences without hypotheses, written as empty lines; check that the ids in the list")
    assert (files / "best").read_text() == "\n\na\n\n\nb\n"
    assert len(succeed(in_process(COMMAND, *flags(files))).stderr.splitlines()) == 1


def test_the_installed_command_reads_and_writes_the_standard_streams(files):
    script = pathlib.Path(sys.executable).with_name("encdec-rerank")
    command = [script, "--input=-", "--output=-", "--weight=LM0=1", "--weight=TM0=1 0"]
    done = subprocess.run(command, input=LIST, capture_output=True, text=True, check=True)
    assert done.stdout == LIST.replace("||| 9", "||| -3", 1).replace("||| 9", "||| -4")
    assert len(done.stderr.splitlines()) == 1 and done.stderr.endswith(" lines/s: standard output\n")


def test_a_reader_that_closes_the_output_ends_the_command_by_sigpipe(files):
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = in_process(COMMAND, *flags(files, output=f"/dev/fd/{write_end}"))
    os.close(write_end)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_wrong_use_is_an_error_before_any_work(files):
    fail(in_process(COMMAND), 2, "--input and --output are missing", "encdec-rerank --help lists the flags.")
    neither = "found neither --weights nor --weight, expected the weights to rank by."
    fail(in_process(COMMAND, *flags(files)[:2]), 2, neither)
    for extra, sentence in {
        "--weight=R": '--weight: found "R", expected "Name= w [w ...]" with numbers from -1e+30 to 1e+30 for w.',
        "--weight=R=much": '--weight: found "R=much", expected',
        "--format=xml": "flag --format=xml: expected one of nbest, text",
    }.items():
        fail(in_process(COMMAND, *flags(files), extra), 2, sentence)
    fail(in_process(COMMAND, *flags(files, output=files / "weights")), 2, "found one file for two purposes")
    (files / "weights").write_text("LM0= x")
    sentence = f'encdec-rerank: {files}/weights, line 1: found "LM0= x", expected'
    fail(in_process(COMMAND, *flags(files)), 1, sentence, "or give another file with --weights.")
    fail(in_process(COMMAND, *flags(files, weights="/none")), 1, "/none: found no such file", "--weights.")
    (files / "weights").write_text("LM0= 1 2")
    fail(in_process(COMMAND, *flags(files)), 1, f"{files}/nbest, line 1: found 1 value of LM0", "give the --weights")
    assert not (files / "best").exists()


@pytest.mark.parametrize("closed, status, best", [("2>&-", 0, "b\n"), ("<&- 2>&-", 1, None)])
def test_no_file_gets_the_descriptor_of_a_closed_standard_stream(files, closed, status, best):
    given = "-" if "<" in closed else files / "nbest"
    program = pathlib.Path(sys.executable).with_name("encdec-rerank")
    command = [program, *flags(files, input=given, format="text"), "--weight=TM0= 1 2"]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run([*shell, *command], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (status, "")
    assert ((files / "best").read_text() if (files / "best").exists() else None) == best
