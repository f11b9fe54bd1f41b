"""Repeated calls to a server that is unavailable."""

import pytest

from keras_encdec.export.client.server_error import Retries, ServerError


def test_pauses_between_calls_grow_until_patience_is_over(monkeypatch):
    clock, pauses = [0.0], []
    monkeypatch.setattr("keras_encdec.export.client.server_error.time.monotonic", lambda: clock[0])
    retries = Retries(30)

    def wait(seconds):
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(retries._closed, "wait", wait)

    def unavailable(code):
        raise ServerError(code, "")

    with pytest.raises(ServerError, match="UNAVAILABLE"):
        retries(unavailable, "UNAVAILABLE")
    assert clock[0] == pytest.approx(30), "it did not wait for all of its patience"
    assert 0.05 <= pauses[0] <= 0.1 and 0.4 <= pauses[3] <= 0.8 and max(pauses) <= 5
    doubled = [seconds / (0.1 * 2**i) for i, seconds in enumerate(pauses[:6])]
    assert len(set(doubled)) == 6, "no jitter"
    pauses.clear()
    with pytest.raises(ServerError, match="INTERNAL"):
        retries(unavailable, "INTERNAL")
    assert pauses == []
