"""Fixtures that the tests of scoring share."""

import pytest
from plain_or_gzipped import write
from scored_tables import LINES


@pytest.fixture
def table(tmp_path):
    """A phrase table of the lines of `scored_tables`."""
    return write(tmp_path / "table", "\n".join(LINES).encode())
