"""A model directory in a repository of the Hugging Face Hub, which a server on this machine stands in for."""

import functools
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import urllib.parse

import pytest

from keras_encdec.model_config import PACKAGED, STARTER

pytest.importorskip("huggingface_hub", reason="the extra remote is not installed")
COMMIT = "a" * 40


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers what the Hub's own library asks in order to read the repository me/model.

    Args:
        folder: pathlib.Path of the files in the repository.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, folder, *connection):
        self._folder = folder
        super().__init__(*connection)

    def do_GET(self):
        path = urllib.parse.urlparse(self.path).path
        if path == "/api/models/me/model":
            about = {"_id": "1", "id": "me/model", "sha": COMMIT, "private": False, "siblings": [], "tags": []}
            self._send(200, json.dumps(about).encode())
        elif path.startswith("/api/models/me/model/tree/main"):
            self._send(200, json.dumps([self._entry(each) for each in self._folder.iterdir()]).encode())
        elif path.startswith("/me/model/resolve/main/"):
            self._send_file((self._folder / path.rpartition("/")[2]).read_bytes())
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        names = json.loads(body)["paths"] if body.startswith("{") else urllib.parse.parse_qs(body)["paths"]
        found = [self._entry(self._folder / name) for name in names if (self._folder / name).exists()]
        self._send(200, json.dumps(found).encode())

    def _entry(self, path):
        return {"type": "file", "oid": "0" * 40, "size": path.stat().st_size, "path": path.name}

    def _send_file(self, data):
        if not (given := self.headers.get("Range")):
            self._send(200, data)
            return
        first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", given).groups()
        part = data[int(first) : int(last) + 1 if last else None]
        shown = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        self._send(206, part, {"Content-Range": shown})

    def _send(self, status, data, headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), "ETag": '"0"', **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *message):
        pass


@pytest.fixture
def endpoint():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Hub, PACKAGED / STARTER)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_model_and_a_file_are_read_from_the_hub(endpoint, tmp_path):
    code = """
from keras_encdec.errors import InputError
from keras_encdec.model_config import check_model_directory, model_path
from keras_encdec.runtime.files import check_readable
from keras_encdec.runtime.input_lines import InputLines

check_model_directory("hf://me/model")
print(model_path("hf://me/model"))
with InputLines("hf://me/model/target.vocab") as lines:
    print(sum(1 for line in lines))
for wrong in ("hf://me/other/target.vocab", "hf://me/model/nothing"):
    try:
        check_readable(wrong)
    except InputError as error:
        print(error)
"""
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **settings}, check=False
    )
    assert done.returncode == 0, done.stderr
    copy, words, *errors = done.stdout.splitlines()
    assert not pathlib.Path(copy).exists()  # it goes with the process
    assert int(words) == (PACKAGED / STARTER / "target.vocab").read_bytes().count(b"\n")
    assert [error.partition(" when")[0] for error in errors] == [
        "hf://me/other/target.vocab: found no such file or folder",
        "hf://me/model/nothing: found no such file or folder",
    ]
