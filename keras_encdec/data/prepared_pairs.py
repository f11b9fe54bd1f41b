"""Prepared pairs: pairs of id sequences on disk, which are read at any indices."""

import json
import pathlib

import numpy as np
import numpy.typing as npt

from keras_encdec.errors import FilePath, InputError
from keras_encdec.runtime.settings_files import read_parsed
from keras_encdec.text import FIRST_WORD, UNKNOWN

Ids = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
IDS, LENGTHS, STARTS, SUMMARY = "ids.i32", "lengths.u16", "starts.i64", "prepared.json"
# The spellings of each side's words outside the shortlist, if the model reads or spells them by their characters.
SPELLINGS = {"source": "source_spellings.npy", "target": "target_spellings.npy"}
SHORTLISTS = {"source": "source_shortlist", "target": "target_shortlist"}


class PreparedPairs:
    """A prepared set: pairs of id sequences in memory-mapped files, which `prepare` writes.

    `ids.i32` has the ids of all pairs: the source and then the target, each with the end of sequence. `lengths.u16` has
    the two lengths of each pair, and `starts.i64` the position of its first id.

    On a side with characters, each word outside the shortlist has its own id: the number of the shortlist's ids, plus
    the row of its spelling in `source_spellings.npy` or `target_spellings.npy`.

    Args:
        folder: path.

    Attributes:
        folder: path.
        summary: dict of int. The counts of the preparation.
        lengths: uint16 array `(pairs, 2)`. The number of ids of source and target, with the end of sequence.
        spellings: dict from "source" and "target", the sides with characters, to uint16 arrays `(words, 51)`.

    Raises:
        InputError: if the folder holds no complete prepared set.
    """

    def __init__(self, folder: FilePath) -> None:
        self.folder = pathlib.Path(folder)
        try:
            self.summary = read_parsed(self.folder / SUMMARY, json.loads)
            # For an empty file, which a complete set does not have, `memmap` raises a ValueError.
            self.lengths = np.memmap(self.folder / LENGTHS, np.uint16, "r").reshape(-1, 2)
            self._starts = np.memmap(self.folder / STARTS, np.int64, "r")
            self._ids = np.memmap(self.folder / IDS, np.int32, "r")
            self.spellings = {
                side: np.load(self.folder / SPELLINGS[side]) for side in SPELLINGS if SHORTLISTS[side] in self.summary
            }
            self._check_sizes()
        except (OSError, ValueError) as error:
            raise InputError(
                "found no complete prepared set", remedy="remove the folder and prepare it again", path=folder
            ) from error

    def _check_sizes(self) -> None:
        """Raises ValueError if the sizes of the files do not fit one another, as after an incomplete copy."""
        pairs = len(self._starts)
        if len(self.lengths) != pairs or self.summary.get("unique", pairs) != pairs:
            raise ValueError("the files have different numbers of pairs")
        if self._starts[0] != 0 or self._starts[-1] + int(self.lengths[-1].sum(dtype=np.int64)) != len(self._ids):
            raise ValueError("the number of ids differs from the sum of the lengths")

    def __len__(self) -> int:
        return len(self._starts)

    def first_rare_id(self, side: str) -> int:
        """Returns the id of the first word outside the shortlist, on a side with characters."""
        return FIRST_WORD + int(self.summary[SHORTLISTS[side]])

    def padded(
        self,
        indices: Indices,
        source_width: int | None = None,
        target_width: int | None = None,
        with_rare_ids: bool = False,
    ) -> dict[str, Ids]:
        """Reads the pairs at the given indices, padded with 0.

        Args:
            indices: integer array `(n,)`.
            source_width, target_width: int. Default to the lengths of the longest source and target.
            with_rare_ids: bool. Whether words outside the shortlist have their own ids, on a side with characters.
                Defaults to `False`: they have the id of the unknown word.

        Returns:
            dict: "source" `(n, source_width)` and "target" `(n, target_width)`, int32.
        """
        lengths = self.lengths[indices].astype(np.int64)
        starts = self._starts[indices]
        source = self._rows(starts, lengths[:, 0], source_width)
        rows = {"source": source, "target": self._rows(starts + lengths[:, 0], lengths[:, 1], target_width)}
        if not with_rare_ids:
            for side in self.spellings:
                rows[side][rows[side] >= self.first_rare_id(side)] = UNKNOWN
        return rows

    def _rows(self, starts: Indices, lengths: Indices, width: int | None) -> Ids:
        columns = np.arange(width or lengths.max(initial=1))
        present = columns < lengths[:, None]
        rows = np.zeros(present.shape, np.int32)
        rows[present] = self._ids[(starts[:, None] + columns)[present]]
        return rows
