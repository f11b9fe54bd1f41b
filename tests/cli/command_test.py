"""How commands start and report errors, in this process."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import warnings

import pytest
from absl import flags
from commands import fail
from in_process import in_process

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.report import COMMAND as REPORT
from keras_encdec.cli.rerank import COMMAND as RERANK
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.runtime.workers import STOP_SIGNALS


def define_flags(flag_values):
    flags.DEFINE_string("input", None, "What is read.", flag_values=flag_values)
    flags.DEFINE_integer("times", 1, "How often.", lower_bound=1, flag_values=flag_values)
    flags.DEFINE_float("seconds", 1.0, "How long.", lower_bound=0.0, flag_values=flag_values)


def command(work, required=()):
    return Command("encdec-some", define_flags, work, required)


def test_a_working_directory_that_was_removed_is_named(monkeypatch, tmp_path):
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    fail(in_process(command(lambda flag_values: None)), 1, "the working directory has been removed; change to another")
    assert in_process(command(lambda flag_values: None), "--help").returncode == 0


def test_flags_are_parsed_anew_for_every_run():
    seen = []

    def work(flag_values):
        seen.append((flag_values.input, flag_values.times))

    for arguments in (["--input=a", "--times=2"], [], ["--times", "3"]):
        assert in_process(command(work), *arguments).returncode == 0
    assert seen == [("a", 2), (None, 1), (None, 3)]
    assert "times" not in flags.FLAGS


def test_the_home_directory_may_be_given_as_the_shell_leaves_it(monkeypatch):
    """A shell replaces ~/ only at the start of an argument, not in --input=~/pairs.tsv."""
    monkeypatch.setenv("HOME", "/home/me")
    seen = []

    def define_several(flag_values):
        define_flags(flag_values)
        flags.DEFINE_multi_string("named", [], "Files.", flag_values=flag_values)
        flags.DEFINE_list("pair", None, "Two files.", flag_values=flag_values)
        flags.DEFINE_string("phrase", None, "Text.", flag_values=flag_values)

    job = Command(
        "encdec-some", define_several, lambda values: seen.append(values.flag_values_dict()), texts=["phrase"]
    )
    arguments = [
        "--input=~/a",
        "--named=~/b",
        "--named=rnn=~/c",
        "--named=~d/~/e",
        "--pair=~/f,s3://g?h=~/i",
        "--phrase=~/j",
    ]
    assert in_process(job, *arguments).returncode == 0
    assert seen[0]["input"] == "/home/me/a" and seen[0]["phrase"] == "~/j"
    assert seen[0]["named"] == ["/home/me/b", "rnn=/home/me/c", "~d/~/e"]
    assert seen[0]["pair"] == ["/home/me/f", "s3://g?h=~/i"]
    assert REPORT.texts == ["phrase"] and RERANK.texts == ["weight"]  # of a feature, such as wt_=~/


def test_flags_may_come_from_a_file(tmp_path):
    (tmp_path / "flags").write_text("# mine\n--input=a\n--times=2\n")
    seen = []
    job = command(lambda values: seen.append((values.input, values.times)))
    in_process(job, f"--flagfile={tmp_path}/flags", "--times=5")
    assert seen == [("a", 5)]


def test_a_flag_that_is_given_again_is_not_ignored_silently(tmp_path):
    def define_several(flag_values):
        define_flags(flag_values)
        flags.DEFINE_multi_string("named", [], "Files.", flag_values=flag_values)

    seen = []
    job = Command("encdec-some", define_several, lambda values: seen.append((values.input, values.named)))
    again = in_process(job, "--input=a", "--named=b", "--named=c", "--input", "d")
    assert again.stderr == "encdec-some: found --input more than once; only the last counts, d.\n"
    (tmp_path / "flags").write_text("--input=e\n")
    assert in_process(job, f"--flagfile={tmp_path}/flags", "--input=f").stderr == ""
    assert seen == [("d", ["b", "c"]), ("f", [])]


def test_flags_are_read_from_a_url(tmp_path):
    pytest.importorskip("fsspec", reason="the extra remote is not installed")
    (tmp_path / "flags").write_text(f"# mine\n--input=a\n\n--flagfile=file://{tmp_path}/more\n//--input=b\n")
    (tmp_path / "more").write_text("--times=2\n")
    seen = []
    job = command(lambda values: seen.append((values.input, values.times)))
    in_process(job, "--times=5", f"--flagfile=file://{tmp_path}/flags")
    in_process(job, f"--flagfile=file://{tmp_path}/flags", "--times=5")
    assert seen == [("a", 2), ("a", 5)]
    fail(in_process(job, f"--flagfile=file://{tmp_path}/none"), 1, f"file://{tmp_path}/none: ")


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--tims=2"], "Unknown command line flag 'tims'. Did you mean: times. encdec-some --help"),
        (["--times=0"], "flag --times=0: 0 is not a positive integer"),
        (["--help=train"], "encdec-some: flag --help=train: expected true or false. encdec-some --help"),
        (["--flagfile=none"], "encdec-some: --flagfile=none cannot be read: No such file or directory. encdec-some"),
        (["--seconds=nan"], "flag --seconds=nan: expected a finite number."),
        (["--seconds=1e400"], "flag --seconds=inf: expected a finite number."),
        (["table.gz"], "found the argument 'table.gz', expected flags only."),
        (["--flagfile=/none"], "/none"),
        ([], "--input is missing"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(arguments, expected):
    arguments = [*arguments, "--input=a"] if arguments else []
    hint = "encdec-some --help lists the flags."
    fail(in_process(command(lambda values: None, ["input"]), *arguments), 2, "encdec-some: ", expected, hint)


def test_a_flag_may_not_be_empty():
    for required in (["input"], []):
        refused = in_process(command(lambda values: None, required), "--input=")
        fail(refused, 2, "encdec-some: found an empty --input, expected a value. encdec-some --help lists the flags.")


@pytest.mark.parametrize(
    "error, status, expected",
    [
        (UsageError("found a, expected b."), 2, "encdec-some: found a, expected b. encdec-some --help lists"),
        (ConfigurationError("found {units}=%s", 3), 2, "encdec-some: found --units=3. encdec-some --help lists"),
        (InputError("found a", "expected b", "do c", "table.gz", 7), 1, "encdec-some: table.gz, line 7: found a, exp"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out.gz"), 1, "out.gz: No space left on device; free space"),
        (ImportError("install tensorflow_text."), 1, "encdec-some: install tensorflow_text."),
        (ModuleNotFoundError("No module named 'h5py'"), 1, "(No module named 'h5py'); install keras-encdec again"),
        (FileNotFoundError(2, "No usable temporary directory found in []"), 1, "set TMPDIR to the path of one."),
        (MemoryError(), 1, "encdec-some: found too little memory; free some, or raise its limit (ulimit -v)."),
        (MemoryError("Unable to allocate 9 GiB"), 1, "found too little memory (Unable to allocate 9 GiB); free some"),
        (KeyboardInterrupt(), 130, "encdec-some: interrupted; no unfinished output is left."),
        (SystemExit("found no usable backend."), 1, "found no usable backend."),
    ],
)
def test_an_error_is_one_sentence(error, status, expected):
    def work(flag_values):
        raise error

    fail(in_process(command(work)), status, expected)


def test_an_error_that_is_not_the_users_is_raised():
    def work(flag_values):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        command(work).main([])


def test_the_exit_status_of_the_work_is_returned():
    assert command(lambda values: 143).main([]) == 143
    assert command(lambda values: None).main([]) == 0


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_ends_the_work_even_if_its_exception_is_replaced_by_another(number, signals_obeyed):
    def work(flag_values):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise ImportError("as in the middle of an import") from None

    before = signal.getsignal(number)
    fail(in_process(command(work)), 128 + number, "encdec-some: interrupted; no unfinished output is left.")
    assert signal.getsignal(number) is before


def test_a_signal_before_the_work_begins_ends_the_command_in_one_sentence(monkeypatch, signals_obeyed):
    @contextlib.contextmanager
    def interrupted(command):
        signal.raise_signal(signal.SIGTERM)
        yield

    monkeypatch.setattr("keras_encdec.cli.command.quiet_libraries", interrupted)
    fail(in_process(command(lambda flag_values: None)), 143, "encdec-some: interrupted; no unfinished output is left.")


def test_it_runs_in_any_thread():
    statuses = []
    thread = threading.Thread(target=lambda: statuses.append(command(lambda values: None).main([])))
    thread.start()
    thread.join()
    assert statuses == [0]


def test_help_shows_the_description_and_the_flags_of_the_command():
    process = in_process(command(lambda values: 1 / 0, ["input"]), "--help")
    assert process.returncode == 0 and process.stderr == ""
    for text in ("How commands start", "--input: What is read.\n", "--times: How often.\n    (default: 1)\n"):
        assert text in process.stdout
    assert "verbosity" not in process.stdout
    assert in_process(command(lambda values: 1 / 0), "--version").stdout.startswith("encdec-some (keras-encdec ")


def test_help_has_no_description_where_python_removes_docstrings(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "__doc__", None)
    assert in_process(command(lambda values: 0), "--help").stdout.startswith("usage: encdec-some [flags]\n")


@pytest.mark.parametrize("action", ["default", "ignore", "error"])  # as PYTHONWARNINGS may set them
def test_a_warning_of_the_package_is_one_sentence(action):
    def work(flag_values):
        warnings.warn("float16 gains nothing here; compute in float32.", EncdecWarning, stacklevel=1)

    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        done = in_process(command(work))
    assert done.stderr == "encdec-some: warning: float16 gains nothing here; compute in float32.\n"
    assert done.returncode == 0 and warnings.showwarning is before


@pytest.mark.parametrize("serves", [False, True])
def test_only_a_server_collects_cycles_as_often_as_python_does(serves):
    program = (
        "import gc\nfrom keras_encdec.cli.command import Command\nbefore = gc.get_threshold()\n"
        "def work(flag_values): print(gc.get_threshold() == before)\n"
        f"Command('some', lambda flag_values: None, work, serves={serves}).run()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{serves}\n" and done.stderr == ""


PRINTING = """
import os, sys
from keras_encdec.cli.command import Command
from keras_encdec.formats import open_output

def long(flag_values):
    with open_output("half") as file, open_output("-") as out:
        for _ in range(100_000):
            file.write(b"a line\\n")
            out.write(b"a line\\n")

def short(flag_values):
    print("a line")

def accented(flag_values):
    print("12.30 ± 0.45")

def wrong(flag_values):
    raise OSError("no disk")

def within(flag_values):
    received, sent = os.pipe()
    os.close(received)
    os.write(sent, b"to a process that has ended")

work = globals()[sys.argv.pop()]
Command("encdec-some", lambda flag_values: None, work).run()
"""


@pytest.mark.parametrize(
    ("work", "reader", "status", "errors"),
    [
        ("long", "head -1", 141, ""),
        ("long", "true", 141, ""),
        ("long", "cat >all", 0, ""),
        ("short", "(exec <&-; echo >>gone)", 141, ""),
        ("short", "cat >all", 0, ""),
        ("wrong", "true", 1, "encdec-some: no disk; free space, or check the path and its permissions.\n"),
        ("within", "cat", 1, "encdec-some: Broken pipe; free space, or check the path and its permissions.\n"),
    ],
)
def test_a_command_ends_by_sigpipe_if_its_output_is_not_read(tmp_path, work, reader, status, errors):
    wait = "while [ ! -e gone ]; do sleep 0.01; done; " if "gone" in reader else ""
    shell = f'set -o pipefail; ({wait}exec "$0" -c "$1" {work}) | {reader}'
    shell = ["bash", "-c", shell, sys.executable, PRINTING]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (status, errors)
    assert (tmp_path / "half").exists() == (work == "long" and status == 0)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_error_message_that_cannot_be_written_causes_no_other_error(tmp_path):
    failing = 'while [ ! -e gone ]; do sleep 0.01; done; exec "$0" -c "$1" wrong 2>&1'
    shell = ["bash", "-c", f"set -o pipefail; ({failing}) | (exec <&-; >gone)", sys.executable, PRINTING]
    done = subprocess.run(shell, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 141


def test_output_that_cannot_be_written_at_the_end_is_an_error(tmp_path):
    shell = ["bash", "-c", '"$0" -c "$1" short >/dev/full', sys.executable, PRINTING]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stderr.startswith("encdec-some: No space left on device")
    assert len(done.stderr.splitlines()) == 1


def test_a_result_is_printed_where_the_encoding_lacks_its_characters():
    program = [sys.executable, "-c", PRINTING, "accented"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12.30 \\xb1 0.45\n", "")
