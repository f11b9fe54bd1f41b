"""Tests of executors, and of results in order."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker

import pytest

from keras_encdec.errors import InputError
from keras_encdec.runtime import control_groups
from keras_encdec.runtime.workers import available_processors, child_processes, in_order, processes, threads

WITH_KILLED_TRACKER = """
import os, signal
from multiprocessing import resource_tracker
from keras_encdec.runtime.workers import processes

with processes(2) as executor:
    executor.submit(os.getpid).result()
    os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)
    os.waitpid(resource_tracker._resource_tracker._pid, 0)
    print(executor.submit(abs, -1).result())
del executor
resource_tracker._resource_tracker._stop()  # waits until it has read all
"""

WITH_SIGNALLED_TRACKER = """
import os
from multiprocessing import resource_tracker
from keras_encdec.runtime.workers import STOP_SIGNALS, processes

with processes(2) as executor:
    executor.submit(os.getpid).result()
del executor
tracker = resource_tracker._resource_tracker
for number in STOP_SIGNALS:
    os.kill(tracker._pid, number)
os.close(tracker._fd)  # ends it
print(os.waitstatus_to_exitcode(os.waitpid(tracker._pid, 0)[1]))
"""


@pytest.mark.parametrize(("limit", "number"), [("max 100000", 8), ("150000 100000", 2), ("20000 100000", 1)])
def test_no_more_processors_are_used_than_the_control_group_allows(limit, number, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(control_groups, "_CGROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "_PROC", tmp_path)
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert available_processors() == number


def test_results_are_in_the_order_of_the_items():
    second = threading.Event()

    def work(item):
        assert item != 0 or second.wait(30)  # the first is done after the second
        if item == 1:
            second.set()
        return item * 10

    with ThreadPoolExecutor(2) as executor:
        assert list(in_order(executor, work, range(5), 2)) == [0, 10, 20, 30, 40]


def test_no_more_items_are_read_than_requested():
    read = []

    def items():
        for item in range(100):
            read.append(item)
            yield item

    with ThreadPoolExecutor(2) as executor:
        results = in_order(executor, abs, items(), 3)
        assert next(results) == 0
        assert len(read) == 4
        results.close()


def test_an_error_is_raised_in_order_and_later_items_are_cancelled():
    done, failed = [], threading.Event()

    def work(item):
        if item == 1:
            failed.set()
            raise ValueError("one")
        done.append(item)

    with ThreadPoolExecutor(1) as executor:
        results = in_order(executor, work, range(100), 5)
        assert next(results) is None
        with pytest.raises(ValueError, match="one"):
            next(results)
    assert failed.is_set() and max(done) < 10


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_does_not_wait_for_threads_but_other_errors_do(error):
    ended, go_on = threading.Event(), threading.Event()

    def work(item):
        assert go_on.wait(30)
        ended.set()

    with pytest.raises(error), threads(1) as executor:
        executor.submit(work, 0)
        if error is ValueError:
            go_on.set()
        raise error
    assert ended.is_set() == (error is ValueError)
    go_on.set()


def test_a_killed_process_is_reported_and_one_process_means_this_one():
    with processes(1) as executor:
        assert executor.submit(os.getpid).result() == os.getpid()
    with pytest.raises(InputError, match="found that a process of this job was killed.*use fewer processes"):
        with processes(2) as executor:
            assert executor.submit(os.getpid).result() != os.getpid()
            executor.submit(os._exit, 1).result()


def test_nothing_is_printed_where_pythons_resource_tracker_was_killed():
    # In a separate process: in this one, locks that other tests and libraries have left would be reported, too.
    command = [sys.executable, "-W", "ignore:resource_tracker", "-c", WITH_KILLED_TRACKER]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_signals_of_a_terminal_do_not_end_pythons_resource_tracker():
    done = subprocess.run([sys.executable, "-c", WITH_SIGNALLED_TRACKER], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_threads_that_start_processes_at_the_same_time_leave_the_environment_as_it_was(monkeypatch):
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    monkeypatch.setattr(resource_tracker, "ensure_running", lambda: time.sleep(0.1))

    def start(number):
        with child_processes(1):
            return number

    with threads(2) as executor:
        assert list(executor.map(start, range(2))) == [0, 1]
    assert "PYTHONWARNINGS" not in os.environ
