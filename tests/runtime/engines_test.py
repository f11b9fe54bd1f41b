"""Tests of the engines: every shard is processed once, whatever dies."""

import os
import pathlib
import threading
import warnings

import pytest
from shard_work import WORDS, Uppercase, shards

from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.runtime.engines import LocalProcesses, ThisProcess
from keras_encdec.runtime.progress import CountedWork, Progress
from keras_encdec.runtime.shard_folder import ShardFolder
from keras_encdec.runtime.sharded_job import ShardedJob, do_missing, run_in_shards
from keras_encdec.runtime.shards import ShardResult

ENGINES = [ThisProcess(), LocalProcesses(1), LocalProcesses(3)]


@pytest.mark.parametrize("engine", ENGINES, ids=["this", "one", "three"])
def test_missing_shards_are_done_once_and_kept(engine, tmp_path):
    pathlib.Path(tmp_path / "output.shards").mkdir()
    folder = ShardFolder(tmp_path / "output", {}, [False])
    opener, written = Uppercase(tmp_path / "deaths"), Progress(CountedWork(0))
    assert do_missing(folder, engine, opener, list(shards())[:2], written) == 2
    assert do_missing(folder, engine, opener, shards(), written) == 6
    with open(tmp_path / "output", "wb") as file:
        folder.join([file], 6)
    assert (tmp_path / "output").read_text().split() == [word.upper() for word in WORDS]
    assert (written.count, written.before) == (8, 2)
    assert len(list((tmp_path / "output.shards").glob("*.done.json"))) == 6


def test_shards_before_a_damaged_place_of_the_input_are_kept(tmp_path):
    def damaged():
        yield from shards(["one", "two"])
        raise InputError("found a damaged line", "expected none", path="input", line=3)

    pathlib.Path(tmp_path / "output.shards").mkdir()
    folder, written = ShardFolder(tmp_path / "output", {}, [False]), Progress(CountedWork(0))
    with pytest.raises(InputError, match="input, line 3: found a damaged line"):
        do_missing(folder, ThisProcess(), Uppercase(tmp_path / "deaths"), damaged(), written)
    assert (written.count, sorted(folder.done)) == (2, [0, 1])


def test_lines_that_have_changed_are_not_processed_after_shards_that_are_all_done(tmp_path):
    pathlib.Path(tmp_path / "output.shards").mkdir()
    folder, opener = ShardFolder(tmp_path / "output", {}, [False]), Uppercase(tmp_path / "deaths")
    written = Progress(CountedWork(0))
    do_missing(folder, ThisProcess(), opener, shards(["one", "two"]), written)
    again = ShardFolder(tmp_path / "output", {}, [False])
    with pytest.raises(InputError, match="input: found that lines 2 to 2 have changed"):
        do_missing(again, ThisProcess(), opener, shards(["one", "changed", "three"]), written)
    assert sorted(again.done) == [0, 1]


def test_lines_that_have_changed_after_a_missing_shard_are_processed_again(tmp_path):
    """As those after a malformed line that was removed."""
    pathlib.Path(tmp_path / "output.shards").mkdir()
    folder, opener = ShardFolder(tmp_path / "output", {}, [False]), Uppercase(tmp_path / "deaths")
    written = Progress(CountedWork(0))
    do_missing(folder, ThisProcess(), opener, list(shards(["malformed", "one", "two"]))[1:], written)
    assert do_missing(folder, ThisProcess(), opener, shards(["one", "two", "three"]), written) == 3
    assert [folder.read(shard, 0) for shard in range(3)] == [b"ONE\n", b"TWO\n", b"THREE\n"]


@pytest.mark.parametrize("engine", ENGINES, ids=["this", "one", "three"])
def test_an_error_of_the_work_ends_the_job(engine, tmp_path):
    with pytest.raises(InputError, match="input, line 3: found a wrong line"):
        list(engine.run(Uppercase(tmp_path / "deaths"), shards(["one", "two", "wrong", *WORDS])))


def test_only_a_few_shards_are_read_ahead(tmp_path):
    read = []

    def counted():
        for shard in shards(WORDS * 20):
            read.append(shard)
            yield shard

    for done, _ in enumerate(LocalProcesses(2).run(Uppercase(tmp_path / "deaths"), counted())):
        assert len(read) <= done + 4


def test_a_process_that_dies_is_replaced_and_its_shard_done_again(tmp_path):
    opener = Uppercase(tmp_path / "deaths", times=2)
    results = dict(LocalProcesses(2).run(opener, shards(["one", "deadly", "two"])))
    assert sorted(result.outputs[0] for result in results.values()) == [b"DEADLY\n", b"ONE\n", b"TWO\n"]
    assert (tmp_path / "deaths").read_bytes() == b"..."


def test_a_process_collects_cycles_rarely(tmp_path):
    [(_, result)] = LocalProcesses(1).run(Uppercase(tmp_path / "deaths"), shards(["one"]))
    assert result.counts["cycles"] == 1 << 20


def test_a_shard_that_kills_every_process_is_named(tmp_path):
    with pytest.raises(InputError, match="input: found that the process at work on lines 2 to 2 was killed 3 times"):
        list(LocalProcesses(2).run(Uppercase(tmp_path / "deaths", times=99), shards(["one", "deadly", "two"])))


def test_a_warning_of_all_processes_is_shown_once(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")  # which only this process may heed
    opener = Uppercase(tmp_path / "deaths", notice="found another language")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert len(list(LocalProcesses(2).run(opener, shards(WORDS * 5)))) == 30
    assert [(str(each.message), each.category) for each in caught] == [("found another language", EncdecWarning)]
    assert "found another language" not in capfd.readouterr().err


def test_the_disk_space_is_estimated_from_the_files_if_one_input_is_a_pipe(tmp_path):
    class Copying:
        def run(self, opener, shards):
            return ((shard, ShardResult((shard.parts[0].data,), {})) for shard in shards)

    source, target, pipe = (tmp_path / name for name in ("source", "target", "pipe"))
    for path in (source, target):
        path.write_text(("word " * 1000 + "\n") * 800)
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(target.read_bytes()))
    writer.start()
    said = []
    for other in (target, pipe):
        job = ShardedJob("scoring", [source, other], [tmp_path / "output"], {}, 100)
        run_in_shards(job, Copying(), None, show=lambda sentence: said.append(sentence.partition(";")[0]))
    writer.join()
    assert "will need about" in said[0] and said[0] == said[1]
