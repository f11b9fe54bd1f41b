"""Makes served models without the signatures of samplers, which take longest to trace."""

from unittest import mock


def searchless():
    """A context in which exports have no signatures that search, for tests that are not about search."""
    return mock.patch("keras_encdec.export.served_model.registered_samplers", dict)
