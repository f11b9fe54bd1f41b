"""A job in shards that fails before its end."""

import contextlib
from unittest import mock

import pytest

from keras_encdec.runtime.shard_folder import ShardFolder


class Killed(BaseException):
    pass


@contextlib.contextmanager
def interrupted(shards, error=None):
    """A context whose job fails after this many more shards: with an error, or by default as if it were killed."""
    error, keep, left = error or Killed(), ShardFolder.keep, [shards]

    def keep_a_few(self, shard, result):
        if not left[0]:
            raise error
        left[0] -= 1
        keep(self, shard, result)

    with mock.patch.object(ShardFolder, "keep", keep_a_few), pytest.raises(type(error)) as raised:
        yield
    assert raised.value is error
