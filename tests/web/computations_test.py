import asyncio
import threading

import pytest

from keras_encdec.web.computations import MAX_WAITING, BusyError, Computations, ReplacedError


def computed(questions):
    """The results of requests, `(key, function)`, that arrive together while another one is computed."""
    computations, begun, go_on = Computations(), threading.Event(), threading.Event()

    async def all_of_them():
        first = asyncio.ensure_future(computations.run(lambda: (begun.set(), go_on.wait())))
        await asyncio.to_thread(begun.wait)
        others = []
        for key, function in questions:
            others.append(asyncio.ensure_future(computations.run(function, key)))
            await asyncio.sleep(0)
        go_on.set()
        await first
        return await asyncio.gather(*others, return_exceptions=True)

    try:
        return asyncio.run(all_of_them())
    finally:
        computations.close()


def test_a_newer_request_replaces_the_waiting_one():
    ran = []
    questions = [
        ("mine", lambda: ran.append(1)),
        ("yours", lambda: ran.append(2)),
        ("mine", lambda: ran.append(3)),
        (None, lambda: ran.append(4)),
        (None, lambda: ran.append(5)),
    ]
    results = computed(questions)
    assert ran == [2, 3, 4, 5] and isinstance(results[0], ReplacedError) and results[1:] == [None] * 4


def test_functions_run_one_at_a_time_and_a_failure_affects_no_other():
    busy = threading.Lock()

    def alone(number):
        assert busy.acquire(blocking=False)
        busy.release()
        return 1 // number

    results = computed([(None, lambda number=number: alone(number)) for number in (1, 0, 1)])
    assert results[0] == results[2] == 1 and isinstance(results[1], ZeroDivisionError)


def test_too_many_waiting_requests_are_refused():
    results = computed([(key, lambda: 0) for key in range(MAX_WAITING + 1)])
    assert [type(result) for result in results[-3:]] == [int, BusyError, BusyError]


def test_a_cancelled_request_does_not_count_as_replaced():
    computations = Computations()

    async def given_up():
        begun, go_on = threading.Event(), threading.Event()
        first = asyncio.ensure_future(computations.run(lambda: (begun.set(), go_on.wait())))
        await asyncio.to_thread(begun.wait)
        second = asyncio.ensure_future(computations.run(lambda: 0, "mine"))
        await asyncio.sleep(0)
        second.cancel()
        go_on.set()
        await first
        await second

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(given_up())
    computations.close()
