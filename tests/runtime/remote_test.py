"""Tests of remote files, with an object store on this machine that fails as networks do."""

import contextlib
import errno
import gzip
import http.server
import importlib
import os
import pathlib
import random
import sys
import threading

import pytest
from object_store import moto_port, store  # noqa: F401  # fixtures

from keras_encdec.errors import InputError
from keras_encdec.runtime import remote
from keras_encdec.runtime.files import (
    check_distinct_files,
    check_readable,
    file_checksum,
    is_url,
    joined,
    read_contents,
    resolved,
)
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.remote import check_remote_writable
from keras_encdec.runtime.unfinished import directory_lock

pytest.importorskip("s3fs", reason="the extra remote is not installed")
fsspec = pytest.importorskip("fsspec")
LINES = [b"%d %s" % (i, random.Random(i).randbytes(40).hex().encode()) for i in range(3000)]
TEXT = b"\n".join(LINES) + b"\n"
needs_store = pytest.mark.usefixtures("store")


def write(url, data=TEXT):
    with open_output(url) as file:
        file.write(data)


@pytest.mark.parametrize("name", ["text", "text.gz"])
@pytest.mark.parametrize("place", ["s3://bucket/a b/", "memory://place/", "file://{folder}/"])
def test_a_written_file_can_be_read(store, tmp_path, place, name):  # noqa: F811
    url = place.format(folder=tmp_path) + name
    write(url)
    with InputLines(url) as lines:
        assert list(lines) == LINES and lines.size_done == lines.size > 0
    check_readable(url)
    stored = read_contents(url)
    assert (gzip.decompress(stored) if name.endswith(".gz") else stored) == TEXT
    write(tmp_path / f"local{name}")
    assert file_checksum(url) == file_checksum(tmp_path / f"local{name}"), "the same bytes as in a local file"


@pytest.mark.parametrize(
    ("protocol", "library", "install"),
    [
        ("s3", "s3fs", '"keras-encdec[remote]"'),
        ("gs", "gcsfs", '"keras-encdec[remote]"'),
        ("hf", "huggingface_hub", '"keras-encdec[remote]"'),
        ("az", "adlfs", "adlfs"),  # which the extra does not install
    ],
)
def test_a_missing_library_of_a_store_is_named_with_how_to_install_it(protocol, library, install, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(importlib.import_module("fsspec.registry")._registry, protocol, raising=False)
    with pytest.raises(ImportError) as raised:
        check_readable(f"{protocol}://place/text")
    needed = f"needs {library}, which is not installed: pip install {install}."
    assert str(raised.value) == f"{protocol}://place/text: {protocol}:// {needed}"


@pytest.mark.parametrize("root", ["memory://", "memory:///"])
def test_a_file_in_the_root_of_a_store_leaves_nothing_on_this_machine(tmp_path, monkeypatch, root):
    monkeypatch.chdir(tmp_path)
    url = joined(root, "text")
    assert resolved(f"{root}tasks.toml", "text") == f"{root}text"
    write(url)
    assert read_contents(url) == TEXT and list(tmp_path.iterdir()) == []


def test_uploads_carry_a_checksum_for_the_store(store):  # noqa: F811
    write("s3://bucket/text")
    [head] = [head for method, target, head in store.requests if method == "PUT" and target.endswith("/text")]
    assert b"x-amz-checksum" in head.lower() or b"x-amz-trailer" in head.lower()


@pytest.mark.parametrize("place", ["s3://bucket/", "memory://place2/"])
def test_an_unfinished_output_is_never_seen(store, place):  # noqa: F811
    url = f"{place}text"
    write(url, b"before\n")
    with contextlib.suppress(KeyError), open_output(url) as file:
        file.write(TEXT)
        file.flush()
        assert read_contents(url) == b"before\n"
        raise KeyError
    with open_output(url, keep=False) as file:
        file.write(TEXT)
    assert read_contents(url) == b"before\n"
    files, path = remote._store(place.rstrip("/"))
    assert [name.rpartition("/")[2] for name in files.find(path)] == ["text"]


@needs_store
def test_a_large_output_is_uploaded_in_parts(monkeypatch):
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "default_block_size", 5 << 20)
    data = random.Random(0).randbytes(12 << 20)
    write("s3://bucket/large", data)
    assert read_contents("s3://bucket/large") == data
    with contextlib.suppress(KeyError), open_output("s3://bucket/large") as file:
        file.write(b"x" * (12 << 20))
        raise KeyError
    assert read_contents("s3://bucket/large") == data


@pytest.mark.parametrize("failure", ["503", "cut", "cut request", "slow"])
def test_a_temporary_failure_is_retried(store, failure):  # noqa: F811
    write("s3://bucket/first")
    store.failures += [("PUT", "/text", failure)]
    write("s3://bucket/text")
    store.failures += [("GET", "/text", failure)]
    with InputLines("s3://bucket/text") as lines:
        assert list(lines) == LINES
    assert not store.failures


def test_a_lasting_failure_is_reported_in_a_sentence(store, monkeypatch):  # noqa: F811
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)
    write("s3://bucket/text")
    store.failures += [("GET", "/text", "503")] * 20
    with pytest.raises(
        InputError, match=r"s3://bucket/text: found that the store does not answer or refuses the .*again"
    ):
        InputLines("s3://bucket/text")
    store.failures[:] = [("PUT", "/text", "503")] * 20
    with pytest.raises(InputError, match=r"s3://bucket/text: found that the store does not answer or refuses"):
        write("s3://bucket/text", b"other\n")
    store.failures.clear()
    assert read_contents("s3://bucket/text") == TEXT


@needs_store
@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("s3://bucket/none", "s3://bucket/none: found no such file or folder when trying to read it; check the URL."),
        ("s3://no-bucket/none", "s3://no-bucket/none: found no such bucket"),
        ("s3://bucket", "s3://bucket: found a folder when trying to read it; name a file."),
        ("nothing://bucket/x", "found the unknown protocol nothing"),
    ],
)
def test_an_error_names_the_url_that_cannot_be_read(url, sentence):
    for call in (InputLines, check_readable, file_checksum, read_contents):
        with pytest.raises(InputError) as error:
            call(url)
        assert sentence in str(error.value)


@needs_store
def test_an_error_names_the_url_that_cannot_be_written():
    for url, sentence in (
        ("s3://no-bucket/x", "s3://no-bucket/.*: found no such bucket when trying to write it"),
        ("https://a.org/x", "^https://a.org/x: found a URL that can only be read, expected a place to write to"),
    ):
        with pytest.raises(InputError, match=sentence):
            write(url)
        with pytest.raises(InputError, match=sentence):
            check_remote_writable(url)


def test_a_refusal_is_named(monkeypatch):
    import fsspec.implementations.memory as memory

    def refuse(*arguments, **options):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(memory.MemoryFileSystem, "info", refuse)
    with pytest.raises(InputError, match=r"memory://a: found that permission is denied \(Access Denied\).*credentials"):
        InputLines("memory://a")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(importlib.import_module("fsspec.registry")._registry, "s3", raising=False)
    with pytest.raises(ImportError, match=r's3://.* s3fs.*pip install "keras-encdec\[remote\]"'):
        InputLines("s3://bucket/x")


def test_a_web_server_is_read(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress(TEXT))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=tmp_path)

        def log_message(self, *arguments):
            pass

        def send_head(self):
            if (status := self.path.rpartition("/")[2]).isdecimal():
                self.send_error(int(status))
                return None
            return super().send_head()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with InputLines(f"http://127.0.0.1:{server.server_address[1]}/text.gz") as lines:
            assert list(lines) == LINES
        for status, sentence in ((404, "found no such file"), (503, "not answer or .*503"), (403, "refuses .*403")):
            with pytest.raises(InputError, match=sentence):
                InputLines(f"http://127.0.0.1:{server.server_address[1]}/{status}")
        server.shutdown()


def test_errors_of_the_disk_are_reported(tmp_path, monkeypatch):
    import fsspec.implementations.local as local

    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder: found a folder when trying to write it; name a file"):
        write(f"file://{tmp_path}/folder")
    assert not any((tmp_path / "folder").iterdir())

    def refuse(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local.LocalFileSystem, "open", refuse)
    with pytest.raises(InputError, match="found the disk full when trying to write it; free space"):
        write(f"file://{tmp_path}/text")


def test_a_file_that_changes_while_it_is_read_is_named(store, monkeypatch):  # noqa: F811
    monkeypatch.setattr(remote, "_READ_BLOCK", 1 << 14)
    write("s3://bucket/text", os.urandom(1 << 19))
    with pytest.raises(InputError, match="s3://bucket/text.*changed while it was read|does not answer"):
        with contextlib.closing(remote.RemoteInput("s3://bucket/text")) as file:
            file.read(10)
            store.files.pipe("bucket/text", os.urandom(1 << 19))
            while file.read(1 << 14):
                pass


def test_a_url_is_not_a_local_path(tmp_path):
    assert is_url("s3://bucket/x") and not is_url("s3/x") and not is_url(tmp_path) and not is_url("-")
    with pytest.raises(InputError, match="s3:/bucket/x: found a URL in a pathlib.Path, which removes a slash"):
        is_url(pathlib.Path("s3://bucket/x"))
    with pytest.raises(InputError, match="s3://bucket/x: found a URL, expected a path on this machine for --output"):
        with directory_lock("s3://bucket/x", "report", "--output"):
            pass
    with pytest.raises(ValueError, match="one file for two purposes"):
        check_distinct_files("s3://bucket/x", "local", "s3://bucket/x")
