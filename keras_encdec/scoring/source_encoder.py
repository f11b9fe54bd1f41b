"""Encoding of many sources: the first states and the memory of the decoder, for any encoder."""

import functools
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import LayerFunction, compiled_call, compiles_shapes, power_of_two
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.operations import store_rows, take_rows
from keras_encdec.backend.types import Memory, State, Tensor
from keras_encdec.data.rare_word_batches import local_sources
from keras_encdec.models.contract import TensorSpec, check_specs
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.models.word_tables import NO_TABLES, WordTables, looking_up, tables_of
from keras_encdec.scoring.prefix_tree import NodeBatches, PrefixTree, largest_batch
from keras_encdec.text.vocabulary import FIRST_WORD

# Tokens in a batch, padding included, and in the smaller batches of the sources that are left at the end.
TOKENS, REST_TOKENS = 2048, 256
MIN_WIDTH = 8
# For at most this number of sources, smaller tables save more time than compiling another shape costs.
FEW_SOURCES = 64


class BatchEncoder:
    """Encodes the sources of a group in batches of similar length. The interface is that of `PrefixTreeEncoder`."""

    def __init__(self, model: TranslationModel) -> None:
        self._call = compiled_call(LayerFunction(functools.partial(_started, model), model))
        self._specs = model.decoder.state_spec, model.decoder.memory_spec
        self._first_rare_id = None if model.encoder.reader is None else model.source_words + FIRST_WORD

    def start(
        self,
        sources: np.ndarray,
        lengths: np.ndarray,
        rows: int,
        spellings: np.ndarray | None = None,
        tables: WordTables = NO_TABLES,
    ) -> tuple[State, Memory]:
        """See `PrefixTreeEncoder.start`. The results are NumPy arrays; bfloat16 and float16 become float32.

        States and memory with a source time axis may be large: for few sources they get fewer rows.
        """
        steps = padded_width(int(lengths.max()))
        if len(lengths) <= FEW_SOURCES and any(spec.time_axis for specs in self._specs for spec in specs.values()):
            rows = min(rows, FEW_SOURCES)
        state, memory = (_tables(specs, rows, steps) for specs in self._specs)
        for indices, size, width in _batches(lengths):
            ids = np.zeros((size, width), np.int32)
            ids[: len(indices), : sources.shape[1]] = sources[indices, :width]
            characters: list[np.ndarray] = []
            if self._first_rare_id is not None and spellings is not None:
                ids, characters = local_sources(ids, self._first_rare_id, spellings)
            started = keras.tree.map_structure(ops.convert_to_numpy, self._call(ids, characters, tables))
            for table, tensors, specs in zip((state, memory), started, self._specs, strict=True):
                for name, tensor in tensors.items():
                    axis = specs[name].time_axis
                    padding = [(0, steps - width if i == axis else 0) for i in range(tensor.ndim)]
                    table[name][indices] = np.pad(tensor, padding)[: len(indices)]
        return state, memory


def _started(
    model: TranslationModel, source: Tensor, characters: list[Tensor], tables: WordTables
) -> tuple[State, Memory]:
    with looking_up(model.encoder, tables_of(tables, 0, "encoder")):
        state, memory = model.start(source, characters)
    return _for_numpy(state, model.decoder.state_spec), _for_numpy(memory, model.decoder.memory_spec)


def _tables(specs: dict[str, TensorSpec], rows: int, steps: int) -> dict[str, np.ndarray]:
    """Returns empty tables for tensors in the dtypes of `_for_numpy`."""
    return {name: np.zeros((rows, *spec.with_time(steps)), spec.dtype or "float32") for name, spec in specs.items()}


def _for_numpy(tensors: dict[str, Tensor], specs: dict[str, TensorSpec]) -> dict[str, Tensor]:
    """Casts floats to float32, as NumPy has no bfloat16."""
    return {name: tensors[name] if spec.dtype else ops.cast(tensors[name], "float32") for name, spec in specs.items()}


def padded_width(length: int) -> int:
    """Returns the width that sources of this length are padded to: a power of two, so that few shapes are compiled."""
    return power_of_two(length, MIN_WIDTH)


def _batches(lengths: np.ndarray) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yields indices of sources of similar length, and the number of rows and the width of their batch.

    There are few different numbers of rows and widths where every shape is compiled.
    """
    widths = np.array([padded_width(int(length)) for length in lengths])
    for width in np.unique(widths):
        indices, start = np.flatnonzero(widths == width), 0
        many, few = max(1, TOKENS // width), max(1, REST_TOKENS // width)
        while start < len(indices):
            left = len(indices) - start
            size = (many if left > many // 2 else few) if compiles_shapes() else min(left, many)
            yield indices[start : start + size], size, width
            start += size


class PrefixTreeEncoder:
    """Encodes the sources of a group with an incremental encoder, such as that of `RNNEncoderDecoder`.

    Args:
        model: TranslationModel whose `encoder.is_incremental`.
        slots: int. Slots for states; more if a source is longer.
    """

    def __init__(self, model: TranslationModel, slots: int) -> None:
        self._call = compiled_call(_PrefixTreeCall(model))
        self._slots = slots

    def start(
        self,
        sources: np.ndarray,
        lengths: np.ndarray,
        rows: int,
        spellings: np.ndarray | None = None,
        tables: WordTables = NO_TABLES,
    ) -> tuple[State, Memory]:
        """Computes the first state and the memory of each source.

        Args:
            sources: int array `(m, width)`, ids padded with 0.
            lengths: int array `(m,)`.
            rows: int. Rows of the results, at least m.
            spellings: int array `(words, 51)`, the spellings of the words outside the shortlist, whose ids follow those
                of the shortlist. Only a `BatchEncoder` of a model that reads characters uses them. Defaults to `None`:
                there are no such words.
            tables: word tables of the model, see `WordTableCache`, which an incremental encoder does not use. Defaults
                to none.

        Returns:
            tuple: state and memory, dicts of tensors `(rows, ...)`, the first m rows for the sources.
        """
        started: tuple[State, Memory] = self._call(*call_arguments(sources, lengths, self._slots, rows))
        return started


def call_arguments(
    sources: np.ndarray, lengths: np.ndarray, slots: int, rows: int
) -> tuple[np.ndarray | np.int32, ...]:
    """Makes the arguments of the compiled call for a group of sources; see `PrefixTreeEncoder.start`."""
    tree = PrefixTree(sources, lengths)
    batches = NodeBatches(tree, int(largest_batch(lengths.max())), slots)
    # Batches of whole sources are not larger than the number of rows.
    size = min(batches.size, rows)
    lasts = np.zeros(rows, np.int32)
    lasts[: len(sources)] = batches.slots[tree.paths[np.arange(len(sources)), lengths - 1]]
    return (
        batches.filled(tree.ids),
        batches.parents,
        np.int32(batches.used),
        lasts.reshape(-1, size),
        np.int32(-(-len(sources) // size)),
    )


class _PrefixTreeCall(keras.layers.Layer):
    """Computes the states of the tree of source prefixes, batch by batch, and starts the decoder from whole sources.

    Call arguments:
        ids: int32 tensor `(batches, size)`, the last id of each source prefix. Each prefix is in a later batch than its
            parent.
        parents: int32 tensor `(batches, size)`: the slot of the parent, that is batch * size + column, or -1.
        batches: int32 scalar, how many of the batches are in use.
        lasts: int32 tensor `(groups, size)`, the slots of whole sources.
        last_batches: int32 scalar, how many of these groups are in use.
    """

    def __init__(self, model: TranslationModel) -> None:
        super().__init__(name="prefix_tree_encoder", dtype=model.dtype_policy)
        self.encoder, self.decoder = model.encoder, model.decoder
        self.built = True

    def call(
        self, ids: Tensor, parents: Tensor, batches: Tensor, lasts: Tensor, last_batches: Tensor
    ) -> tuple[State, Memory]:
        states, size = self._states(ids, parents, batches), lasts.shape[1]

        def body(batch: Tensor, *tables: State) -> list[State]:
            state = {name: ops.take(table, lasts[batch] + 1, axis=0) for name, table in states.items()}
            started = self.decoder.checked_start(self.encoder.finish(state))
            return [
                {name: store_rows(rows, batch * size, new[name]) for name, rows in table.items()}
                for table, new in zip(tables, started, strict=True)
            ]

        rows = lasts.shape[0] * size
        tables = self._zeros(rows, self.decoder.state_spec), self._zeros(rows, self.decoder.memory_spec)
        state, memory = counted_loop(body, last_batches, *tables)
        return state, memory

    def _states(self, ids: Tensor, parents: Tensor, batches: Tensor) -> State:
        """Tables of the encoder's states, `(1 + slots, ...)`; the first row is zero, the state of an empty prefix."""
        size, specs = ids.shape[1], self.encoder.state_spec

        def body(batch: Tensor, tables: State) -> list[State]:
            state = {name: take_rows(table, parents[batch] + 1) for name, table in tables.items()}
            state = self.encoder.step(ids[batch], state)
            check_specs("state", state, specs)
            return [{name: store_rows(table, 1 + batch * size, state[name]) for name, table in tables.items()}]

        tables = self._zeros(1 + ids.shape[0] * size, specs)
        states: list[State] = counted_loop(body, batches, tables)
        return states[0]

    def _zeros(self, rows: int, specs: dict[str, TensorSpec]) -> dict[str, Tensor]:
        return {
            name: ops.zeros((rows, *spec.shape), dtype=spec.dtype or self.compute_dtype) for name, spec in specs.items()
        }
