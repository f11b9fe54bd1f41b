"""Runs the peer of TensorFlow Serving for tests, in a separate process."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

_PROGRAM = pathlib.Path(__file__).with_name("serving_peer.py")


class ServingProcess:
    """A running peer. It ends at `close`, at the end of its `with` block, or with the process that started it.

    Args:
        flags: flags of the peer by name, such as `model_base_path` and `rest_api_port`; `True` for no value.

    Raises:
        RuntimeError: if it does not start, with what it wrote to standard error.

    Example:

        with ServingProcess(model_base_path=path, model_name="encdec", rest_api_port=0) as peer:
            channel = grpc.insecure_channel(peer.grpc_address)
    """

    def __init__(self, **flags):
        arguments = [f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items()]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, `close` closes it
        # However this process ends, the peer's standard input closes, and the peer then ends, too.
        self._process = subprocess.Popen(
            [sys.executable, _PROGRAM, *arguments, "--stop_at_end_of_input"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            message = self.log()
            self.close()
            raise RuntimeError(message)
        ports = json.loads(line)
        self.grpc_address = f"127.0.0.1:{ports['grpc_port']}"
        self.rest_address = f"http://127.0.0.1:{ports['rest_api_port']}" if "rest_api_port" in ports else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def log(self):
        """Returns what the peer has written to standard error so far."""
        return os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0).decode(errors="replace")

    def rss(self):
        """Returns the resident memory of the process, in bytes."""
        pages = pathlib.Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def alive(self):
        return self._process.poll() is None

    def kill(self):
        """Ends the process at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()
        self._errors.close()
