"""How signals end a command, in processes that import no heavy library."""

import os
import select
import signal
import subprocess
import sys

import pytest

from keras_encdec.cli.process import reader_closed_pipe
from keras_encdec.runtime.workers import STOP_SIGNALS

pytestmark = pytest.mark.usefixtures("signals_obeyed")

# A command with an output half written and something to do.
SCRIPT = """
import hashlib, sys, time
from absl import flags
from keras_encdec.cli import process
from keras_encdec.cli.command import Command
from keras_encdec.formats import open_output
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.runtime.workers import handle_stop_signals, restore_handlers

process.GRACE = 0.05
folder = sys.argv.pop()

def sleep():
    print("ready", flush=True)
    time.sleep(600)

def call_a_library(rounds=10**10):  # which Python cannot interrupt
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", min(rounds, 2**31 - 1))

def wait_for_a_thread():
    with threads(1) as executor:
        list(in_order(executor, call_a_library, [10**10], 1))

def import_a_module():
    sys.path.insert(0, f"{folder}/..")
    import slow

def train():
    before = handle_stop_signals(lambda number, frame: None)
    call_a_library(2_000_000)
    restore_handlers(before)
    return 128 + 15

def main(flag_values):
    with open_output(f"{folder}/out") as file:
        file.write(b"half")
        return globals()[flag_values.job]()

def define_flags(flag_values):
    flags.DEFINE_string("job", None, "What to do.", flag_values=flag_values)

Command("encdec-some", define_flags, main, interrupted="interrupted; no half is left.").run()
"""
LINE = "encdec-some: interrupted; no half is left.\n"


def stopped(folder, job, *numbers, command=()):
    """Exit status, standard error and files of a job that got signals while it was working."""
    (folder / "slow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    out = folder / "outputs"
    out.mkdir()
    arguments = [*command, sys.executable, "-c", SCRIPT, f"--job={job}", str(out)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    for number in numbers:
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors, os.listdir(out)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_each_signal_ends_a_job_with_one_line(tmp_path, number):
    assert stopped(tmp_path, "sleep", number) == (128 + number, LINE, [])


@pytest.mark.parametrize("job", ["call_a_library", "wait_for_a_thread", "import_a_module"])
def test_a_job_that_cannot_be_interrupted_is_ended(tmp_path, job):
    assert stopped(tmp_path, job, signal.SIGTERM) == (143, LINE, [])


def test_several_signals_in_a_moment_count_as_one(tmp_path):
    assert stopped(tmp_path, "sleep", *[signal.SIGHUP] * 3) == (129, LINE, [])


def test_a_hangup_is_ignored_under_nohup(tmp_path):
    status, errors, files = stopped(tmp_path, "sleep", signal.SIGHUP, signal.SIGTERM, command=["nohup"])
    assert (status, errors.splitlines(keepends=True)[-1], files) == (143, LINE, [])


def test_training_ends_after_the_current_batch_and_says_so(tmp_path):
    notice = "stopping after the current batch, with a checkpoint; another signal ends the training at once."
    assert stopped(tmp_path, "train", signal.SIGTERM) == (143, f"encdec-some: {notice}\n", ["out"])


class _PollOfMacOS:
    """Finds that the reader of every descriptor has closed it, if it is asked about writing."""

    def register(self, descriptor, events):
        self._found = [(descriptor, select.POLLHUP)] if events & select.POLLOUT else []

    def poll(self, timeout):
        return self._found


def test_a_closed_pipe_is_noticed_on_macos(monkeypatch):
    monkeypatch.setattr(select, "poll", _PollOfMacOS)
    assert reader_closed_pipe(BrokenPipeError())
