"""Tables of what a model computes from each word alone: in long texts, looking it up is faster than computing it."""

import contextlib
import contextvars
import functools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import LayerFunction, compiled_call
from keras_encdec.backend.operations import take_rows
from keras_encdec.backend.types import Tensor

if TYPE_CHECKING:
    from keras_encdec.models.translation_model import TranslationModel

#: The tables of a model: from "encoder" and "decoder" to a list of tensors `(vocabulary_size, width)`.
ModelTables: TypeAlias = dict[str, list[Tensor]]
#: The tables of several models, by the number of the model: "0", "1", and so on; empty if nothing is looked up.
WordTables: TypeAlias = Mapping[str, ModelTables]
NO_TABLES: WordTables = {}

# Maximum number of elements of all tables of a model or an ensemble: 256 MB in float32. Larger ones are not computed.
MAX_ELEMENTS = 1 << 26

# The tables in use, by the id of the encoder or decoder. Each thread has its own: threads compute side by side.
_IN_USE: contextvars.ContextVar[Mapping[int, list[Tensor]]] = contextvars.ContextVar("word_tables")


@contextlib.contextmanager
def looking_up(side: keras.layers.Layer, tables: list[Tensor]) -> Iterator[None]:
    """Makes an encoder or a decoder look words up in its tables within the context.

    Args:
        side: `Encoder` or `Decoder`.
        tables: list of tensors, from `WordTableCache`; empty if the side is to compute instead.
    """
    token = _IN_USE.set({**_IN_USE.get({}), id(side): tables})
    try:
        yield
    finally:
        _IN_USE.reset(token)


def tables_in_use(side: keras.layers.Layer) -> list[Tensor]:
    """Returns the tables that an encoder or a decoder looks words up in; an empty list if it computes instead."""
    return _IN_USE.get({}).get(id(side), [])


def tables_of(tables: WordTables, number: int, side: str) -> list[Tensor]:
    """Returns the tables of the "encoder" or "decoder" of a model by its number; an empty list without tables."""
    return tables[str(number)][side] if tables else []


def looked_up(table: Tensor, words: Tensor) -> Tensor:
    """Returns the rows of a table for words of any shape: `(..., width)`."""
    rows = take_rows(table, ops.reshape(ops.cast(words, "int32"), (-1,)))
    return ops.reshape(rows, (*ops.shape(words), table.shape[-1]))


class WordTableCache:
    """Computes the word tables of models once there are enough words to read, and again when the weights have changed.

    `benchmarks/translation.py` measures the benefit: a third of the products of a translation.
    """

    def __init__(self, models: Sequence["TranslationModel"]) -> None:
        self._compute = compiled_call(LayerFunction(functools.partial(_all_tables, models), *models))
        sides = [side for model in models for side in (model.encoder, model.decoder) if side.word_table_size]
        self._weights = [weight for side in sides for layer in side.word_layers() for weight in layer.weights]
        # A table costs as much as reading this number of words.
        self._words = max(max(model.source_words, model.target_words) for model in models)
        self._is_used = 0 < sum(side.word_table_size for side in sides) <= MAX_ELEMENTS
        self._values: list[np.ndarray] = []
        self._tables, self._computing = NO_TABLES, threading.Lock()

    def tables(self, sequences: Iterable[Sequence[int]]) -> WordTables:
        """Returns the tables, or none if computing them costs more than they save. Several threads may call it.

        Args:
            sequences: iterable of the sequences of ids to be read.
        """
        if not self._is_used or not self._tables and sum(map(len, sequences)) < self._words:
            return NO_TABLES
        with self._computing:  # no thread may get the tables of old weights while another computes new ones
            values = [ops.convert_to_numpy(weight) for weight in self._weights]
            if not self._tables or not all(map(np.array_equal, values, self._values)):
                self._values = [np.array(value) for value in values]
                self._tables = self._compute(np.int32(0))
            return self._tables


# Keras does not call a layer without an argument.
def _all_tables(models: Sequence["TranslationModel"], unused: Tensor) -> WordTables:
    sides = [{"encoder": model.encoder, "decoder": model.decoder} for model in models]
    return {
        str(number): {name: side.word_tables() if side.word_table_size else [] for name, side in each.items()}
        for number, each in enumerate(sides)
    }
