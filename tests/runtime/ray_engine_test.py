"""Tests of the engine on Ray: every shard is processed once, whatever dies. The cluster has two nodes."""

import itertools
import pathlib
import signal
import sys
import time

import pytest
from shard_work import WORDS, Uppercase, shards

from keras_encdec.errors import InputError
from keras_encdec.runtime.progress import CountedWork, Progress
from keras_encdec.runtime.ray_engine import RayActors
from keras_encdec.runtime.shard_folder import ShardFolder
from keras_encdec.runtime.sharded_job import do_missing

pytest.importorskip("ray")
if " " in sys.executable:
    pytest.skip("Ray cannot start a Python whose path has a space", allow_module_level=True)
HELPERS = pathlib.Path(__file__).parents[1] / "helpers"


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HELPERS))
        patch.setenv("RAY_gcs_server_port_wait_time_s", "300")  # on a busy machine, Ray's 30 seconds may be too few
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        yield started
        started.shutdown()


@pytest.fixture
def second_node(cluster):
    node = cluster.add_node(num_cpus=1)
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node)


def test_an_output_is_the_same_although_a_worker_and_a_node_die(cluster, second_node, tmp_path):
    pathlib.Path(tmp_path / "output.shards").mkdir()
    words = [*WORDS, "deadly", *WORDS * 10]

    def slowly():
        for shard in shards(words):
            time.sleep(0.02)
            if shard.number == 30:
                cluster.remove_node(second_node, allow_graceful=False)
            yield shard

    folder = ShardFolder(tmp_path / "output", {}, [False])
    opener, written = Uppercase(tmp_path / "deaths", times=1), Progress(CountedWork(0))
    engine = RayActors(2, cluster.address, num_cpus=0.5)
    assert do_missing(folder, engine, opener, slowly(), written) == len(words)
    with open(tmp_path / "output", "wb") as file:
        folder.join([file], len(words))
    assert (tmp_path / "output").read_text().split() == [word.upper() for word in words]
    assert (tmp_path / "deaths").read_bytes() == b".."


@pytest.mark.parametrize("word", ["one", "before"])  # the result of a shard before may be lost, too
def test_a_shard_that_kills_every_worker_is_named(cluster, word, tmp_path):
    opener = Uppercase(tmp_path / "deaths", times=99)
    with pytest.raises(InputError, match="input: found that the process at work on lines 2 to 2 was killed 3 times"):
        list(RayActors(1, cluster.address).run(opener, shards([word, "deadly", "two"])))
    assert len((tmp_path / "deaths").read_bytes()) == 3


def test_an_actor_collects_cycles_rarely(cluster, tmp_path):
    [(_, result)] = RayActors(1, cluster.address).run(Uppercase(tmp_path / "deaths"), shards(["one"]))
    assert result.counts["cycles"] == 1 << 20


def test_an_error_of_the_work_ends_the_job(cluster, tmp_path):
    with pytest.raises(InputError, match="input, line 3: found a wrong line"):
        list(RayActors(1, cluster.address).run(Uppercase(tmp_path / "deaths"), shards(["one", "two", "wrong"])))


def test_only_a_few_shards_are_read_ahead(cluster, tmp_path):
    read = []

    def counted():
        for shard in shards(itertools.islice(itertools.cycle(WORDS), 40)):
            read.append(shard)
            yield shard

    for done, _ in enumerate(RayActors(None, cluster.address).run(Uppercase(tmp_path / "deaths"), counted())):
        assert len(read) <= done + 3


def test_without_an_address_no_running_cluster_is_joined_and_signals_stay_handled(monkeypatch):
    def init(address, **options):
        signal.signal(signal.SIGTERM, lambda *arguments: None)  # as Ray does
        raise ValueError(address)

    before = signal.getsignal(signal.SIGTERM)
    # With the address `None`, Ray joins the cluster that RAY_ADDRESS names, or one that runs on this machine.
    monkeypatch.setattr("ray.init", init)
    with pytest.raises(InputError, match=r"found no Ray cluster on this machine \(local\)"):
        list(RayActors(1).run(Uppercase("deaths"), shards()))
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_missing_cluster_or_gpu_is_named(cluster):
    with pytest.raises(InputError, match="found no Ray cluster at 127.0.0.1:1 .*check --ray_address"):
        list(RayActors(1, "127.0.0.1:1").run(Uppercase("deaths"), shards()))
    with pytest.raises(InputError, match="found a Ray cluster of . processors and 0 GPUs, expected at least 1 and 1"):
        list(RayActors(None, cluster.address, num_gpus=1).run(Uppercase("deaths"), shards()))


@pytest.mark.parametrize("needed, fitting", [(0.1, 10), (0.2, 5), (0.25, 4), (0.3, 3)])
def test_as_many_workers_share_a_gpu_as_fit(needed, fitting):
    assert RayActors(num_cpus=0, num_gpus=needed)._actors_that_fit({"CPU": 4.0, "GPU": 1.0}) == fitting


def test_a_python_that_ray_cannot_start_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/my files/python")
    with pytest.raises(InputError, match=r"^found Python at /my files/python, expected a path without spaces"):
        next(RayActors(1).run(Uppercase(None), iter([])))
