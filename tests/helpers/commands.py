"""Runs a command of the package as its users do: in a separate process."""

import json
import pathlib
import subprocess
import sys
import tempfile

# Importing Keras and its backend takes seconds, so most runs are forks of one process that has imported
# the command and done nothing else.
SERVER = """
import gc, importlib, json, os, sys
module = importlib.import_module(sys.argv[1])
gc.freeze()  # else every fork looks through, and so copies, all that was imported when it ends
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if not child:
        for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(os.open(request[name], os.O_RDWR | os.O_CREAT), descriptor)
        sys.argv = request["arguments"]
        module.COMMAND.run()
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Command:
    """A command, run as often as wanted, each time in a new process.

    Args:
        module: str. Where its `COMMAND` is, such as "keras_encdec.cli.score".
        program: str. Its name, such as "encdec-score".
    """

    def __init__(self, module, program):
        self._module, self._program = module, program
        self._server = None

    def __call__(self, *arguments):
        """Runs the command with some flags; returns a `subprocess.CompletedProcess` with text."""
        arguments = [self._program, *map(str, arguments)]
        if self._server is None:
            command = [sys.executable, "-c", SERVER, self._module]
            self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            request = {"arguments": arguments, "stdin": "/dev/null"}
            request |= {stream: str(folder / stream) for stream in ("stdout", "stderr")}
            print(json.dumps(request), file=self._server.stdin, flush=True)
            status = int(self._server.stdout.readline())
            outputs = [(folder / stream).read_bytes().decode(errors="replace") for stream in ("stdout", "stderr")]
        return subprocess.CompletedProcess(arguments, status, *outputs)

    def installed(self, *arguments, **kwargs):
        """Starts the console script that is installed beside Python; returns a `subprocess.Popen`."""
        script = pathlib.Path(sys.executable).with_name(self._program)
        pipe = subprocess.PIPE
        return subprocess.Popen([script, *map(str, arguments)], stdout=pipe, stderr=pipe, text=True, **kwargs)

    def close(self):
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()


def succeed(process):
    """Asserts that a command succeeded, and returns what it wrote."""
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    return process


def fail(process, status, *expected):
    """Asserts that a command failed with one sentence on standard error that contains the expected texts."""
    assert "Traceback" not in process.stderr, process.stderr
    assert process.returncode == status, process.stderr
    lines = process.stderr.splitlines()
    assert len(lines) == 1 and lines[0].endswith("."), process.stderr
    for text in expected:
        assert str(text) in lines[0], (text, lines[0])
