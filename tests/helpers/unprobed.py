"""Runs `encdec-doctor` without starting backends, each of which takes seconds."""

import contextlib
from unittest import mock

from keras_encdec.diagnosis import BackendProbe


def probe(name):
    return BackendProbe(name, 1.5, ("CPU",), {"float32": 50.0, "bfloat16": 100.0}, ())


@contextlib.contextmanager
def unprobed():
    """Every backend is reported to work."""
    with mock.patch("keras_encdec.diagnosis.diagnosis.probe_backend", probe):
        yield
