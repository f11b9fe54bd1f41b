"""The engine that processes shards on a Ray cluster, see `keras_encdec.runtime.engines`."""

import collections
import contextlib
import logging
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from keras_encdec.errors import InputError
from keras_encdec.runtime.engines import RETRIES, Work, WorkOpener, died
from keras_encdec.runtime.imports import check_extra
from keras_encdec.runtime.shards import Shard, ShardResult
from keras_encdec.runtime.workers import THREAD_VARIABLES, collect_cycles_rarely

if TYPE_CHECKING:
    import ray

# Seconds to wait for a cluster to answer.
PATIENCE = 10.0
# Shards that an actor has at a time: it begins the second while the result of the first is sent and written.
QUEUED = 2


class RayActors:
    """Engine that works in actors of a Ray cluster, each with its own models.

    If the process or node of an actor dies, another actor takes its place as soon as the cluster has room, and the
    next free actor gets its shard. This process sends the shards to the actors and receives their results, so the nodes
    need not see the input or the output. They need the package, and the models under the same paths.

    Args:
        number: int. Number of actors. Defaults to `None`: as many as the cluster has processors and GPUs for.
        address: str. Address of the cluster, such as "auto". Defaults to `None`: Ray starts on this machine.
        num_cpus: float. Processors that an actor needs. Defaults to `1`.
        num_gpus: float. GPUs that an actor needs. Defaults to `0`.

    Raises:
        ImportError: if Ray is not installed.
    """

    def __init__(
        self, number: int | None = None, address: str | None = None, num_cpus: float = 1.0, num_gpus: float = 0.0
    ) -> None:
        check_extra("ray", "The engine ray")
        self._number, self._address = number, address
        self._num_cpus, self._num_gpus = num_cpus, num_gpus

    def run(self, opener: WorkOpener, shards: Iterable[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """See `Engine`.

        Raises:
            InputError: also if there is no cluster at the address, if the cluster is too small for an actor, or if Ray
                cannot start on this machine because Python's path has a space.
        """
        import ray

        with contextlib.ExitStack() as stack:
            if not ray.is_initialized():
                stack.callback(ray.shutdown)
                self._connect()
            number = self._number or self._actors_that_fit(ray.cluster_resources())
            factory = ray.remote(num_cpus=self._num_cpus, num_gpus=self._num_gpus)(_Actor)
            new_actor = factory.options(runtime_env={"env_vars": self._environment()}).remote
            yield from _Actors(new_actor, ray.put(pickle.dumps(opener)), shards).results(number)

    def _environment(self) -> dict[str, str]:
        """Returns the environment of the actors: this process's backend, and a thread for each of their processors."""
        environment = {name: os.environ[name] for name in ("KERAS_BACKEND",) if name in os.environ}
        return environment | dict.fromkeys(THREAD_VARIABLES, f"{max(1, int(self._num_cpus))}")

    def _connect(self) -> None:
        import ray

        if not self._address and " " in sys.executable:  # its workers would never start
            raise InputError(
                f"found Python at {sys.executable}",
                "expected a path without spaces, for Ray to start workers on this machine",
                "install the package under another path, or give --processes without --engine=ray",
            )
        handler = signal.getsignal(signal.SIGTERM)
        try:
            if self._address and ":" in self._address:  # Ray itself would try to connect for minutes
                host, _, port = self._address.rpartition("//")[2].rpartition(":")
                socket.create_connection((host, int(port)), timeout=PATIENCE).close()
            ray.init(
                self._address or "local", log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False
            )
        except (OSError, ValueError, RuntimeError) as error:
            found = f"found no Ray cluster {f'at {self._address}' if self._address else 'on this machine'} ({error})"
            expected = "expected one to work on"
            raise InputError(found, expected, "start one with ray start --head, or check --ray_address") from error
        finally:
            # Ray sets a handler of its own, which would end a command without its message and status.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

    def _actors_that_fit(self, resources: dict[str, float]) -> int:
        fitting = [
            int(resources.get(name, 0) / needed + 1e-9)  # 1 // 0.2 is 4
            for name, needed in (("CPU", self._num_cpus), ("GPU", self._num_gpus))
            if needed
        ]
        if not fitting or not min(fitting):
            raise InputError(
                f"found a Ray cluster of {resources.get('CPU', 0):g} processors and {resources.get('GPU', 0):g} GPUs",
                f"expected at least {self._num_cpus:g} and {self._num_gpus:g} for each worker",
                "add nodes, or lower --num_cpus and --num_gpus",
            )
        return min(fitting)


class _Actors:
    """Actors at work on shards; the pickled WorkOpener is in Ray's object store."""

    def __init__(self, new_actor: Callable[[], Any], opener: "ray.ObjectRef", shards: Iterable[Shard]) -> None:
        self._new_actor, self._opener = new_actor, opener
        self._more, self._again = iter(shards), list[Shard]()
        # The shard and the actor of each call; no shard while an actor starts.
        self._pending: dict[ray.ObjectRef, tuple[Shard | None, ray.actor.ActorHandle]] = {}
        # The calls that each started actor has been given, in order; it works on the first of them.
        self._queues: dict[ray.actor.ActorHandle, list[ray.ObjectRef]] = {}
        # The deaths of actors, by the number of the lost shard, until the shard has a result.
        self._deaths: collections.Counter[int] = collections.Counter()
        self._failed_starts = 0

    def results(self, number: int) -> Iterator[tuple[Shard, ShardResult]]:
        """Starts a number of actors, and yields each shard with its result."""
        import ray

        for _ in range(number):
            self._start()
        while True:
            self._assign()
            if self._queues and not any(self._queues.values()):
                return
            [done], _ = ray.wait(list(self._pending), num_returns=1)
            shard, actor = self._pending[done]
            try:
                result = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error from None
            except ray.exceptions.RayError as error:  # its process or node has died
                self._replace(actor, done, error)
                continue
            del self._pending[done]
            if shard is None:
                self._queues[actor] = []
            else:
                self._queues[actor].remove(done)
                self._deaths.pop(shard.number, None)
                yield shard, result

    def _start(self) -> None:
        actor = self._new_actor()
        self._pending[actor.ready.remote()] = None, actor

    def _assign(self) -> None:
        """Gives shards to the actors: every actor gets one shard before any gets two."""
        # While lost shards are done again, each actor gets only one, so that another death shows which shard caused it.
        limit, queues = 1 if self._deaths else QUEUED, self._queues
        while queues and len(queues[actor := min(queues, key=lambda each: len(queues[each]))]) < limit:
            shard = self._again.pop() if self._again else next(self._more, None)
            if shard is None:
                return
            queues[actor].append(actor.work.remote(self._opener, shard))
            self._pending[queues[actor][-1]] = shard, actor

    def _replace(self, actor: "ray.actor.ActorHandle", failed: "ray.ObjectRef", error: Exception) -> None:
        """Starts an actor in place of one that has died, whose shards will be processed again.

        Raises InputError if actors died repeatedly at the same shard, or before they started.
        """
        # Any of its shards may be the cause: it may have finished the first and died before it sent the result.
        calls = self._queues.pop(actor, [failed])
        lost = [shard for call in calls if (shard := self._pending.pop(call)[0])]
        for shard in lost:
            self._deaths[shard.number] += 1
            if self._deaths[shard.number] > RETRIES:
                raise died(shard) from error
        if not lost:
            self._failed_starts += 1
            if self._failed_starts > RETRIES:
                raise _not_started(error) from error
        self._again += reversed(lost)
        self._start()


def _not_started(error: Exception) -> InputError:
    found = f"found a Ray worker that does not start ({f'{error}'.strip().splitlines()[-1]})"
    expected = "expected the same versions of the package and of Python on all nodes"
    return InputError(found, expected, "look at Ray's log")


class _Actor:
    """Processes shards. It opens the work, such as loading models, when the first shard arrives."""

    _work: Work | None = None

    def __init__(self) -> None:
        collect_cycles_rarely()

    def ready(self) -> None:
        """Does nothing: a call returns when the actor has started."""

    def work(self, opener: bytes, shard: Shard) -> ShardResult:
        self._work = self._work or pickle.loads(opener)()
        return self._work(shard)
