"""Makes served models without the signatures of samplers, which take longest to trace."""

from unittest import mock


def searchless():
    """A context in which exports have no signatures that search, for what is not about those."""
    return mock.patch("keras_encdec.export.served_model.registered_samplers", dict)
