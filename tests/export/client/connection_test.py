"""Repeated calls to a server that is unavailable."""

import threading
import time

import pytest

from keras_encdec.errors import EncdecWarning
from keras_encdec.export.client.connection import retrying
from keras_encdec.export.client.model_server import ServerError


def fails(code, calls):
    calls.append(code)
    raise ServerError(code, "")


def test_pauses_between_calls_grow_until_patience_is_over(monkeypatch):
    clock, pauses, calls = [0.0], [], []
    monkeypatch.setattr("tenacity.time.monotonic", lambda: clock[0])
    closed = threading.Event()

    def wait(seconds):
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(closed, "wait", wait)
    retries = retrying(30, closed, "server:1")
    with pytest.raises(ServerError, match="UNAVAILABLE"), pytest.warns(EncdecWarning) as warned:
        retries(fails, "UNAVAILABLE", calls)
    [waiting] = warned
    assert str(waiting.message) == "the server at server:1 is not available; trying again for up to 30 s."
    assert clock[0] == pytest.approx(30), "it did not wait for all of its patience"
    assert len(calls) == len(pauses) + 1, "no last call when the patience was over"
    assert 0.05 <= pauses[0] <= 0.1 and 0.4 <= pauses[3] <= 0.8 and max(pauses) <= 5
    doubled = [seconds / (0.1 * 2**i) for i, seconds in enumerate(pauses[:6])]
    assert all(0.5 <= share <= 1 for share in doubled) and len(set(doubled)) == 6, "no jitter"


@pytest.mark.parametrize("code", ["INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND", "DEADLINE_EXCEEDED"])
def test_other_errors_are_raised_at_once(code):
    calls = []
    with pytest.raises(ServerError, match=code):
        retrying(30)(fails, code, calls)
    assert calls == [code]


def test_without_patience_there_is_one_call():
    calls = []
    with pytest.raises(ServerError, match="UNAVAILABLE"):
        retrying(0)(fails, "UNAVAILABLE", calls)
    assert calls == ["UNAVAILABLE"]


def test_closing_ends_a_pause():
    closed, calls, start = threading.Event(), [], time.monotonic()

    def fails_and_closes():
        if len(calls) == 5:
            threading.Timer(0.1, closed.set).start()
        fails("UNAVAILABLE", calls)

    with pytest.raises(ServerError, match="CANCELLED"):
        retrying(60, closed)(fails_and_closes)
    assert len(calls) in (6, 7) and time.monotonic() - start < 20
