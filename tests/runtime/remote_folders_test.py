"""Local copies of remote folders, and uploads of what has changed."""

import fcntl
import os
import pathlib
import random
import re
import shutil

import pytest
from object_store import moto_port, store  # noqa: F401  # fixtures

from keras_encdec.errors import InputError
from keras_encdec.runtime import remote, remote_folders
from keras_encdec.runtime.files import read_contents
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.remote_folders import LocalFiles, StagedFolder, local_copy

pytest.importorskip("s3fs", reason="the extra remote is not installed")
fsspec = pytest.importorskip("fsspec")
LINES = [b"%d %s" % (i, random.Random(i).randbytes(40).hex().encode()) for i in range(3000)]
TEXT = b"\n".join(LINES) + b"\n"
needs_store = pytest.mark.usefixtures("store")


def test_a_folder_may_be_uploaded_first(monkeypatch):
    written = []

    def output(url):
        written.append(url)
        return remote.RemoteOutput(url)

    monkeypatch.setattr(remote_folders, "RemoteOutput", output)
    with StagedFolder("memory://first/folder", first="records") as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an export locks its folder
        os.close(descriptor)
        for name in ("a", "records/b", "z"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(b"x")
    assert written == [f"memory://first/folder/{name}" for name in ("records/b", "a", "z")]


@needs_store
def test_folders_are_copied_both_ways(tmp_path):
    with StagedFolder("s3://bucket/folder", last=["index"]) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "part").write_bytes(TEXT)
        for name in ("index", "last.keras"):
            (folder / name).write_bytes(name.encode())
    local_copy.cache_clear()
    copy = local_copy("s3://bucket/folder")
    assert [path.name for path in copy.iterdir()] == ["index"]
    with pytest.raises(InputError, match="^s3://bucket/folder/none: found no such"):
        InputLines(copy / "none")
    with StagedFolder("s3://bucket/folder", existing=True) as folder:
        assert (folder / "sub" / "part").read_bytes() == TEXT
    with pytest.raises(InputError, match="s3://bucket/none: found no such file or folder"):
        local_copy("s3://bucket/none")


def test_files_that_cannot_be_uploaded_are_kept(monkeypatch):
    def refuse(self):
        raise InputError("found a full store", "expected room", "make some", "memory://full/folder/a")

    remedy = "found a full store, expected room; copy the files to memory://full/folder: they are kept in '"
    with pytest.raises(InputError, match=remedy) as caught:
        with StagedFolder("memory://full/folder") as folder:
            (folder / "a").write_bytes(TEXT)
            monkeypatch.setattr(remote.RemoteOutput, "commit", refuse)
    kept = pathlib.Path(re.search("kept in '(.*)'", str(caught.value))[1])
    assert (kept / "a").read_bytes() == TEXT and not folder.exists()
    shutil.rmtree(kept)


def test_an_incomplete_copy_is_named(monkeypatch):
    with StagedFolder("memory://short/folder") as folder:
        (folder / "a").write_bytes(TEXT)
    memory = type(fsspec.filesystem("memory"))
    monkeypatch.setattr(memory, "get_file", lambda self, path, to: pathlib.Path(to).write_bytes(TEXT[:9]))
    with pytest.raises(InputError, match=f"memory://short/folder/a: .*9 bytes arrived of {len(TEXT):,}"):
        local_copy("memory://short/folder")


def test_an_upload_after_a_failed_one_removes_nothing_from_the_store(monkeypatch):
    def refuse(output):
        raise InputError("found no network")

    staged = StagedFolder("memory://refused/folder", after_errors=True)
    with pytest.raises(InputError, match="found no network"), staged as folder:
        (folder / "a").write_bytes(TEXT)
        staged.upload()
        (folder / "b").write_bytes(TEXT)
        with monkeypatch.context() as patch:
            patch.setattr(remote.RemoteOutput, "commit", refuse)
            staged.upload()
    assert list(remote.remote_sizes("memory://refused/folder")) == ["a"]


def test_a_file_is_not_a_folder():
    with StagedFolder("memory://one/folder") as folder:
        (folder / "a").write_bytes(TEXT)
    with pytest.raises(InputError, match="memory://one/folder/a: found a file when trying to read it; name a folder"):
        local_copy("memory://one/folder/a")


def test_changes_are_uploaded_before_the_end(store, monkeypatch):  # noqa: F811
    staged = StagedFolder("s3://bucket/work", last=["last"], after_errors=True)
    with pytest.raises(KeyError), staged as folder:
        for name in ("last", "first", "removed", ".hidden"):
            (folder / name).write_bytes(name.encode())
        staged.upload()
        assert [target for method, target, _ in store.requests if method == "PUT"][-1].endswith("/last")
        store.requests.clear()
        (folder / "new").write_bytes(b"new")
        os.replace(folder / "new", folder / "first")
        (folder / "removed").unlink()
        staged.upload_in_background()
        staged.upload()
        changed = [(method, target) for method, target, _ in store.requests if method in ("PUT", "DELETE", "POST")]
        assert [target for method, target in changed if method == "PUT"] == ["/bucket/work/first"]
        (folder / "first").write_bytes(b"at the end")
        raise KeyError
    assert sorted(store.files.find("bucket/work")) == ["bucket/work/first", "bucket/work/last"]
    assert store.files.cat("bucket/work/first") == b"at the end"
    with staged.__class__("s3://bucket/work", existing=True) as folder:
        store.requests.clear()
    assert not [target for method, target, _ in store.requests if method == "PUT" and "tmp" not in target]


def test_an_upload_in_the_background_that_fails_is_tried_again(monkeypatch):
    staged, commit = StagedFolder("memory://again"), remote.RemoteOutput.commit
    failures = [1]

    def fail_once(self):
        if "part" in self._path and failures and failures.pop():
            raise InputError("found a store that does not answer", remedy="run again", path="memory://again/part")
        commit(self)

    monkeypatch.setattr(remote.RemoteOutput, "commit", fail_once)
    with pytest.warns(UserWarning, match="does not answer; the next upload tries again"), staged as folder:
        (folder / "part").write_bytes(TEXT)
        staged.upload_in_background()
        staged._running.result()
        assert not remote.remote_exists("memory://again/part")
    assert read_contents("memory://again/part") == TEXT


@needs_store
def test_programs_get_copies_of_remote_files(tmp_path, monkeypatch):
    with StagedFolder("s3://bucket/table") as folder:
        (folder / "part").write_bytes(TEXT)
    with LocalFiles() as local:
        assert local.path(tmp_path / "here") == str(tmp_path / "here")
        path = local.path("s3://bucket/table/part")
        assert pathlib.Path(path).read_bytes() == TEXT and local.path("s3://bucket/table/part") == path
        with pytest.raises(InputError, match="^s3://bucket/table: found a folder when trying to read it; name a file"):
            local.path("s3://bucket/table")
        with pytest.raises(InputError, match="^s3://bucket/none: found no such file or folder"):
            local.path("s3://bucket/none")
    assert not pathlib.Path(path).exists()
    monkeypatch.setattr(remote, "_file_size", lambda *of: len(TEXT) + 1)
    with LocalFiles() as local:
        with pytest.raises(InputError, match=f"{len(TEXT):,} bytes arrived of {len(TEXT) + 1:,}"):
            local.path("s3://bucket/table/part")
