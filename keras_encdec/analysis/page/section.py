"""One part of the report."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_encdec.analysis.page.elements import Table


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the report: what stands in the page, and the files beside it.

    Attributes:
        name: str. The anchor in the page.
        title: str. Plain text.
        body: str. HTML.
        tables: dict from names of files, without ".tsv", to Table.
        pictures: dict from names of files, without an ending, to `Drawing`.
        files: dict from further names, relative to the report, to their bytes.
    """

    name: str
    title: str
    body: str
    tables: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    pictures: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
