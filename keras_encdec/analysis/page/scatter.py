"""A figure of many points for the page: what the script draws from, and the element that it draws in."""

import base64
import dataclasses
import gzip
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_encdec.analysis.page.elements import escaped, utf8

# Characters of a label that are kept.
LONGEST_LABEL = 100


@dataclasses.dataclass(frozen=True)
class Scatter:
    """Points with labels, to be looked at closely in the page.

    Attributes:
        name: str. Distinct in the page.
        label: str. What the figure shows, for people who do not see it.
        caption: str. Plain text.
        points: float array `(n, 2)`.
        columns: list of lists of n str: the parts of each point's label, such as source and target.
        unit: str. What the points are, such as "phrases".
        axes: pair of pairs `(label, short label)`, of both axes; `None` for a map, whose coordinates mean nothing.
        neighbours: pair of arrays `(n, k)`, indices and similarities of each point's neighbours. Optional.
        regions: dict from names to boxes `(left, bottom, right, top)` that buttons zoom to. Optional.
    """

    name: str
    label: str
    caption: str
    points: np.ndarray
    columns: Sequence[Sequence[str]]
    unit: str
    axes: Sequence[tuple[str, str]] | None = None
    neighbours: tuple[np.ndarray, np.ndarray] | None = None
    regions: dict[str, Sequence[float]] = dataclasses.field(default_factory=dict)

    def to_html(self) -> str:
        """The figure's element, and the data that its script reads."""
        caption = f"<figcaption>{escaped(self.caption)}</figcaption>"
        no_script = "<noscript><p>This figure needs JavaScript; the folder figures has it as a picture.</p></noscript>"
        source, label = f"data-{self.name}", escaped(self.label)
        return (
            f'<figure class="scatter" id="scatter-{self.name}" data-source="{source}" aria-label="{label}">'
            f'{no_script}{caption}</figure><script type="application/gzip" id="{source}">{self._data()}</script>'
        )

    def _data(self) -> str:
        data: dict[str, Any] = {
            "x": packed(self.points[:, 0], np.float32),
            "y": packed(self.points[:, 1], np.float32),
            "columns": [_column(column) for column in self.columns],
            "unit": self.unit,
            "regions": [{"name": name, "box": [float(side) for side in box]} for name, box in self.regions.items()],
        }
        if self.axes:
            data["axes"] = {
                axis: {"label": label, "short": short} for axis, (label, short) in zip("xy", self.axes, strict=True)
            }
        if self.neighbours is not None:
            data["neighbours"] = packed(self.neighbours[0], np.int32)
            data["similarities"] = packed(self.neighbours[1], np.float32)
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()  # nothing in it that could be HTML


def _column(labels):
    """Each distinct label once, and which of them each point has."""
    places: dict[str, int] = {}
    index = [places.setdefault(_line(label), len(places)) for label in labels]
    distinct = len(places) == len(labels)
    return {"strings": "\n".join(places), "index": None if distinct else packed(np.array(index), np.int32)}


def _line(label):
    label = " ".join(utf8(label).decode().split())
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def packed(numbers: np.ndarray, dtype: type) -> str:
    """Numbers as base64 of their little-endian bytes."""
    return base64.b64encode(np.ascontiguousarray(numbers, np.dtype(dtype).newbyteorder("<")).tobytes()).decode()
