"""Unique pairs on disk, in random order, read by position."""

import json
import os
import pathlib

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.parsed_files import read_parsed

IDS, LENGTHS, STARTS, SUMMARY = "ids.i32", "lengths.u16", "starts.i64", "prepared.json"


class PreparedPairs:
    """A prepared set: pairs of id sequences in files that are mapped, not loaded.

    `ids.i32` holds all ids, source and then target of each pair, each closed by the end of sequence;
    `lengths.u16` the two lengths of each pair; `starts.i64` where each pair begins. Made by `prepare`.

    Args:
        folder: path.

    Attributes:
        summary: dict, the counts of the preparation.

    Raises:
        InputError: when the folder holds no complete prepared set.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = pathlib.Path(folder)
        try:
            self.summary = read_parsed(self.folder / SUMMARY, json.loads)
            self.lengths = self._mapped(LENGTHS, np.uint16).reshape(-1, 2)
            self._starts, self._ids = self._mapped(STARTS, np.int64), self._mapped(IDS, np.int32)
            self._check_sizes()
        except (OSError, ValueError) as error:
            raise InputError(
                "found no complete prepared set", remedy="remove the folder and prepare it again", path=folder
            ) from error

    def _mapped(self, name, dtype):
        path = self.folder / name
        # An empty file cannot be mapped.
        return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)

    def _check_sizes(self):
        """Raises ValueError where files do not fit one another, as after a copy that was cut short."""
        pairs = len(self._starts)
        if not pairs or len(self.lengths) != pairs or self.summary.get("unique", pairs) != pairs:
            raise ValueError("another number of pairs in each file")
        if self._starts[0] != 0 or self._starts[-1] + int(self.lengths[-1].sum(dtype=np.int64)) != len(self._ids):
            raise ValueError("another number of ids than the pairs have")

    def __len__(self) -> int:
        return len(self._starts)

    def padded(
        self, indices: np.ndarray, source_width: int | None = None, target_width: int | None = None
    ) -> dict[str, np.ndarray]:
        """The pairs at the given indices, padded with 0.

        Args:
            indices: integer array `(n,)`.
            source_width, target_width: int. Default to the longest of the pairs.

        Returns:
            dict: "source" `(n, source_width)` and "target" `(n, target_width)`, int32.
        """
        lengths = self.lengths[indices].astype(np.int64)
        starts = self._starts[indices]
        source = self._rows(starts, lengths[:, 0], source_width)
        return {"source": source, "target": self._rows(starts + lengths[:, 0], lengths[:, 1], target_width)}

    def _rows(self, starts, lengths, width):
        columns = np.arange(width or lengths.max(initial=1))
        present = columns < lengths[:, None]
        rows = np.zeros(present.shape, np.int32)
        rows[present] = self._ids[(starts[:, None] + columns)[present]]
        return rows
