"""Tests of tasks whose models, inputs and outputs are all in an object store: they give what local ones give."""

import os

import pytest
from object_store import moto_port, store  # noqa: F401  # fixtures
from plain_or_gzipped import write

from keras_encdec.decoding import generate_file
from keras_encdec.errors import InputError
from keras_encdec.runtime.files import read_contents
from keras_encdec.runtime.remote_folders import local_copy
from keras_encdec.runtime.shard_folder import ShardFolder
from keras_encdec.scoring import record_scorer, score_file, sharded_scoring

LINES = [f"le chat {'noir ' * (i % 4)}||| the cat {i % 7} {'house ' * (i % 3)}||| 0.5 0.25" for i in range(40)]
INI = b"""[feature]
PhraseDictionaryMemory name=TM num-features=2 path=table.gz

[weight]
TM= 0.2 0.3
"""


@pytest.fixture
def bucket(store, model_dirs, tmp_path, monkeypatch):  # noqa: F811
    """The store, with the model `forward`, a table and its moses.ini."""
    monkeypatch.setattr(record_scorer, "WINDOW_LINES", 4)
    monkeypatch.setattr(sharded_scoring, "WINDOW_LINES", 4)
    local_copy.cache_clear()
    store.files.put(os.fspath(model_dirs / "forward"), "bucket/model", recursive=True)
    write(tmp_path / "table.gz", "\n".join(LINES).encode())
    (tmp_path / "moses.ini").write_bytes(INI)
    for name in ("table.gz", "moses.ini"):
        store.files.put(os.fspath(tmp_path / name), f"bucket/{name}")
    return store


class Killed(BaseException):
    pass


def test_an_interrupted_job_in_a_bucket_continues_to_the_local_output(bucket, model_dirs, tmp_path, monkeypatch):
    options = {"length": True}
    score_file(model_dirs / "forward", tmp_path / "table.gz", tmp_path / "scored.gz", **options)
    options |= {"shard_lines": 8, "moses_ini": "s3://bucket/moses.ini", "moses_ini_out": "s3://bucket/scored.ini"}
    job = ("s3://bucket/model", "s3://bucket/table.gz", "s3://bucket/scored.gz")
    keep, left = ShardFolder.keep, [2]

    def keep_two(self, shard, result):
        if not left[0]:
            raise Killed
        left[0] -= 1
        keep(self, shard, result)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(ShardFolder, "keep", keep_two)
        score_file(*job, **options)
    assert not bucket.files.exists("bucket/scored.gz") and bucket.files.exists("bucket/scored.gz.shards")
    with pytest.raises(InputError, match="s3://bucket/scored.gz.shards: found the settings length false, expected"):
        score_file(*job, **options | {"length": False})
    bucket.failures += [("GET", "/table.gz", "cut"), ("PUT", ".done.json", "503"), ("PUT", "/scored.gz", "cut request")]
    summary = score_file(*job, **options, show=(said := []).append)
    assert read_contents("s3://bucket/scored.gz") == (tmp_path / "scored.gz").read_bytes()
    assert summary.before == 16 and not bucket.failures and "object store" in said[0]
    assert b"path=s3://bucket/scored.gz" in read_contents("s3://bucket/scored.ini")
    names = {"model", "moses.ini", "scored.gz", "scored.ini", "table.gz"}
    assert {name.split("/")[1] for name in bucket.files.find("bucket")} == names


def test_targets_are_generated_from_a_bucket_into_it(bucket, model_dirs, tmp_path):
    write(tmp_path / "source", b"le chat\nle chat noir\n")
    bucket.files.put(os.fspath(tmp_path / "source"), "bucket/source")
    generate_file(model_dirs / "forward", tmp_path / "source", tmp_path / "target.gz", "greedy")
    generate_file("s3://bucket/model", "s3://bucket/source", "s3://bucket/target.gz", "greedy", shard_lines=1)
    assert read_contents("s3://bucket/target.gz") == (tmp_path / "target.gz").read_bytes()


def test_a_damaged_model_is_named_by_its_url(bucket):
    bucket.files.pipe("bucket/model/source.vocab", b"le\nchat\n")
    with pytest.raises(InputError, match="^s3://bucket/model/source.vocab: found a file that has changed since"):
        score_file("s3://bucket/model", "s3://bucket/table.gz", "s3://bucket/scored.gz")
    local_copy.cache_clear()
    bucket.files.rm("bucket/model/config.json")
    with pytest.raises(InputError, match="s3://bucket/model: found no config.json in it"):
        score_file("s3://bucket/model", "s3://bucket/table.gz", "s3://bucket/scored.gz")
