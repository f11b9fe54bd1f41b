"""The contract of encoders and decoders, which search, scoring and export rely on."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.gradients import product
from keras_encdec.backend.operations import in_row_order, matmul, take_rows
from keras_encdec.backend.types import Encoded, Memory, Shape, State, Tensor
from keras_encdec.errors import not_defined
from keras_encdec.layers.recurrence import run_recurrence
from keras_encdec.models.log_probs import next_log_probs

if TYPE_CHECKING:
    from keras_encdec.models.characters import CharacterReader, Speller


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype and time axis of a tensor, without its leading dimension (rows or sources).

    Attributes:
        shape: tuple of int; `None` stands for the number of source positions.
        dtype: str, such as "int32" or "bool"; `None` for the compute dtype of the layer that makes the tensor.
        time_axis: int. The axis of the whole tensor (the leading axis is 0) that runs along the source; `None` if no
            axis does. Padding along it is zero, or false.

    Example:

    >>> TensorSpec((None, 512), time_axis=1).with_time(7)
    (7, 512)
    """

    shape: Shape
    dtype: str | None = None
    time_axis: int | None = None

    def __post_init__(self) -> None:
        unknown = [axis for axis, size in enumerate(self.shape, start=1) if size is None]
        if unknown != ([] if self.time_axis is None else [self.time_axis]):
            raise ValueError(
                f"found the shape {self.shape} with time_axis={self.time_axis}, expected None at that axis and "
                "nowhere else"
            )

    def with_time(self, steps: int) -> tuple[int, ...]:
        """Returns the shape for a number of source positions."""
        return tuple(steps if size is None else size for size in self.shape)


def check_specs(part: str, tensors: Mapping[str, Tensor], specs: Mapping[str, TensorSpec]) -> None:
    """Raises ValueError unless tensors have the names, shapes and dtypes that an encoder or a decoder declares.

    Code that keeps tensors in tables, such as the scorer, would cast them to the declared dtype without a warning.

    Args:
        part: str. What they are: "encoded", "state" or "memory", which the property `{part}_spec` declares.
        tensors: dict of tensors, one row per source or hypothesis.
        specs: dict of TensorSpec.
    """
    if not isinstance(tensors, Mapping) or tensors.keys() != specs.keys():
        found = [*tensors] if isinstance(tensors, Mapping) else type(tensors)
        raise ValueError(f"found {found} as {part}, expected a dict of {[*specs]}, the names in {part}_spec")
    for name, spec in specs.items():
        shape, dtype = tuple(tensors[name].shape), keras.backend.standardize_dtype(tensors[name].dtype)
        sizes = zip(shape[1:], spec.shape, strict=False)
        fits = len(shape) == len(spec.shape) + 1 and all(None in pair or len({*pair}) == 1 for pair in sizes)
        if not fits or dtype != (spec.dtype or dtype) or not spec.dtype and "float" not in dtype:
            raise ValueError(
                f"found {name!r} in {part} of shape {shape} and dtype {dtype}, expected {(None, *spec.shape)} and "
                f"{spec.dtype or 'a float'}, as {part}_spec declares"
            )


class ModelSide(keras.layers.Layer):
    """Base of encoders and decoders: what they compute from each word alone, and the names of their weights."""

    @property
    def word_table_size(self) -> int:
        """Number of elements of `word_tables`, see `WordTableCache`. Defaults to 0: there are no tables."""
        return 0

    def word_layers(self) -> list[keras.layers.Layer]:
        """Returns the layers whose weights `word_tables` depends on."""
        raise not_defined(self, "word_layers")

    def word_tables(self) -> list[Tensor]:
        """Computes what depends on a word alone, for all words: tensors `(vocabulary_size, ...)`."""
        raise not_defined(self, "word_tables")

    def weight_classes(self) -> dict[str, list[keras.Variable]]:
        """Names the classes of the weights for pruning, such as "decoder layer 1".

        `keras_encdec.pruning.pruning_masks` names the classes of all other weights after their layers.

        Returns:
            dict from name to weights; biases among them are not pruned.
        """
        return {}

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        """Returns the weights by the symbols of the equations, see `to_symbols`.

        Returns:
            dict from symbol, such as "encoder.U_r", to a variable and its columns.
        """
        raise NotImplementedError(f"{type(self).__name__} has no symbols for its weights; define its method symbols()")


class Decoder(ModelSide):
    """Base of decoders, which predict a target word by word.

    A decoder has a `state`, which changes with every word, and a `memory` of the source, which does not:

        state_0, memory = start(encoded)
        state_t         = advance(y_{t-1}, state_{t-1}, memory)
        features_t      = features(y_{t-1}, state_t, memory)
        logits_t        = features_t W + b,   W and b the `output_weights`

    Both are dicts of named tensors of any rank and dtype, described by `state_spec` and `memory_spec`. The memory has
    one row per SOURCE and is never copied for the hypotheses of a source. `source_of_row`, int32 `(rows,)`, maps each
    row of a state to its source. `None` means that every source has the same number of rows, in the order of the
    sources: of `k * sources` rows, row i belongs to source `i // k`. `take_memory` fetches the memory of each row.
    Attention multiplies the `k` rows of a source with its memory in one product instead.

    The scorer, the samplers, the ensemble and the served graph know this contract and nothing else about a model.

    A subclass defines `vocabulary_size`, `state_spec`, `memory_spec`, `output_weights`, `start`, `advance` and
    `features`. It may override `call`, which computes all steps over known words, with a faster version.

    Call arguments:
        previous: integer tensor `(sources, time)`: y_0 .. y_{T-1}, that is 0 and then the target without its last id
            (see `previous_words`).
        encoded: dict of tensors, from the encoder.

    Returns:
        float tensor `(sources, time, vocabulary_size)`: logits.
    """

    #: Number of ids that can be predicted, including the special ids.
    vocabulary_size: int
    #: Whether the state contains "attention" `(rows, source_time)`, the attention weights of the last step.
    has_attention: bool = False
    #: Number of previous words that the state depends on (0 before the beginning); `None` if it depends on all of them.
    #: With a number, a scorer computes each distinct n-gram of a language model once.
    context_length: int | None = None
    #: Width of a sum over the words of a context, if `features` depends on the words only through this sum, as in the
    #: first layer of a feed-forward model. `word_products` computes the terms, `features_of_sums` the features. A
    #: scorer then computes the terms of each word once, not in every context (Devlin et al., 2014).
    context_sum_width: int | None = None

    def build(self, previous_shape: Shape | None = None, encoded_shape: dict[str, Shape] | None = None) -> None:
        """Makes the weights. All sizes are arguments of the constructor, so the shapes are not used."""
        self.built = True

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        """Name, shape and dtype of each tensor of the state."""
        raise not_defined(self, "state_spec")

    @property
    def memory_spec(self) -> dict[str, TensorSpec]:
        """Name, shape, dtype and source time axis of each tensor of the memory."""
        raise not_defined(self, "memory_spec")

    # A property, not an attribute of the class, which would hide a layer of the same name under PyTorch.
    @property
    def speller(self) -> "Speller | None":
        """The `Speller`, which computes the probability of the characters of a word that was predicted as unknown.

        It starts from `spelling_state`. `None` if unknown words have no spelling.
        """
        return None

    @property
    def output_weights(self) -> tuple[Tensor, Tensor]:
        """The output matrix `(feature_width, vocabulary_size)` and its bias `(vocabulary_size,)`."""
        raise not_defined(self, "output_weights")

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        """Computes the first state and the memory.

        Args:
            encoded: dict of tensors, from the encoder, one row per source.

        Returns:
            tuple: the first state and the memory, dicts of tensors, one row per source.
        """
        raise not_defined(self, "start")

    def checked_start(self, encoded: Encoded) -> tuple[State, Memory]:
        """Calls `start`; raises ValueError unless the state and the memory match the specs."""
        state, memory = self.start(encoded)
        check_specs("state", state, self.state_spec)
        check_specs("memory", memory, self.memory_spec)
        return state, memory

    def advance(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> State:
        """Computes the next state.

        Args:
            previous: integer tensor `(rows,)`, the previous word; 0 at the beginning.
            state: dict of tensors, one row per row of `previous`.
            memory: dict of tensors, one row per source.
            source_of_row: int32 tensor `(rows,)`. Defaults to `None`: the same number of rows for each source, see
                `Decoder`.

        Returns:
            dict of tensors, as described by `state_spec`.
        """
        raise not_defined(self, "advance")

    def features(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> Tensor:
        """Computes the input of the output matrix, from the state that `advance` returned.

        The arguments are those of `advance`, except that the state is the new one. The rows may belong to many steps.

        Returns:
            float tensor `(rows, feature_width)`.
        """
        raise not_defined(self, "features")

    def spelling_state(self, state: State, memory: Memory, source_of_row: Tensor | None = None) -> Tensor:
        """Computes the first state of the `speller` for a word predicted as unknown; only with a `speller`.

        Args:
            state: dict of tensors, the state that `advance` returned, from which the word is predicted.
            memory, source_of_row: see `advance`.

        Returns:
            float tensor `(rows, speller.units)`.
        """
        raise not_defined(self, "spelling_state")

    def word_products(self, words: Tensor) -> Tensor:
        """Computes the terms of each word in the sum over a context, at each position; only with a `context_sum_width`.

        Args:
            words: int32 tensor `(words,)`, ids; 0 is "no word", before the beginning.

        Returns:
            float tensor `(context_length, words, context_sum_width)`.
        """
        raise not_defined(self, "word_products")

    def features_of_sums(self, sums: Tensor) -> Tensor:
        """Computes the features from sums of `word_products` over a context; only with a `context_sum_width`.

        Args:
            sums: float tensor `(rows, context_sum_width)`.

        Returns:
            float tensor `(rows, feature_width)`.
        """
        raise not_defined(self, "features_of_sums")

    def step(
        self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Computes the features of the next word, and the next state: `advance`, then `features`."""
        state = self.advance(previous, state, memory, source_of_row)
        return self.features(previous, state, memory, source_of_row), state

    def logits(self, features: Tensor) -> Tensor:
        """Computes logits `(..., vocabulary_size)` from features `(..., feature_width)`."""
        matrix, bias = self.output_weights
        return product(features, matrix, bias)

    def candidate_weights(self, words: Tensor, allowed: Tensor) -> dict[str, Tensor]:
        """Takes the columns of the output matrix and bias that belong to candidate words.

        A search that knows which words may follow computes the logits of these words only (Jean et al., 2015, arXiv
        1412.2007, section 3.2: the candidate list of a source).

        Args:
            words: int32 tensor `(groups, candidates)`, ids: a row for each group of neighbouring sources. The groups
                have equal sizes.
            allowed: boolean tensor `(sources, candidates)`: which of these words may follow in targets of a source.

        Returns:
            dict: "matrix" `(groups, feature_width, candidates)` and "bias" `(sources, candidates)`, -inf for words that
            may not follow.
        """
        matrix, bias = map(ops.convert_to_tensor, self.output_weights)
        # Rows of the transposed matrix are copied whole. The copy is transposed once, not at every step.
        columns = ops.transpose(ops.take(ops.transpose(matrix), words, axis=0), (0, 2, 1))
        groups, width = ops.shape(words)
        columns = in_row_order(columns, ops.shape(allowed)[0])
        biases = ops.where(ops.reshape(allowed, (groups, -1, width)), ops.take(bias, words, axis=0)[:, None], -np.inf)
        return {"matrix": columns, "bias": ops.reshape(biases, (-1, width))}

    @staticmethod
    def candidate_logits(features: Tensor, candidates: dict[str, Tensor]) -> Tensor:
        """Computes logits of candidate words only.

        Args:
            features: float tensor `(rows, feature_width)`, the same number of rows for each source, in their order.
            candidates: dict, from `candidate_weights`.

        Returns:
            float tensor `(rows, candidates)`.
        """
        matrix, bias = candidates["matrix"], candidates["bias"]
        width = matrix.shape[-1]
        grouped = ops.reshape(features, (ops.shape(matrix)[0], -1, features.shape[-1]))
        logits = ops.reshape(matmul(grouped, matrix), (ops.shape(bias)[0], -1, width))
        return ops.reshape(logits + ops.cast(bias[:, None, :], logits.dtype), (-1, width))

    def next_log_probs(
        self,
        previous: Tensor,
        state: State,
        memory: Memory,
        source_of_row: Tensor | None = None,
        candidates: dict[str, Tensor] | None = None,
    ) -> tuple[Tensor, State]:
        """Computes ln p of every id as the next word, `(rows, vocabulary_size)` in nats, and the next state.

        With `candidates`, from `candidate_weights`, the probabilities are normalized over these words, and the result
        is `(rows, candidates)`.
        """
        features, state = self.step(previous, state, memory, source_of_row)
        logits = self.logits(features) if candidates is None else self.candidate_logits(features, candidates)
        return next_log_probs(logits), state

    def call(self, previous: Tensor, encoded: Encoded) -> Tensor:
        state, memory = self.start(encoded)
        # No mask: only states after the end of sequence, which are not used, depend on padding.
        states = run_recurrence(self.advance, previous, state, memory)
        # One row per step of each source: the rows of a source stay together, in the order of the sources.
        rows = {name: ops.reshape(table, (-1, *ops.shape(table)[2:])) for name, table in states.items()}
        features = self.features(ops.reshape(previous, (-1,)), rows, memory)
        return self.logits(ops.reshape(features, (*ops.shape(previous), features.shape[-1])))

    @staticmethod
    def take_memory(table: Tensor, rows: int, source_of_row: Tensor | None = None) -> Tensor:
        """Returns the rows of a memory tensor that belong to the rows of a state.

        Args:
            table: tensor `(sources, ...)`.
            rows: int. Rows of the state.
            source_of_row: int32 tensor `(rows,)`. Defaults to `None`: rows grouped evenly, see `Decoder`.

        Returns:
            tensor `(rows, ...)`.
        """
        if source_of_row is not None:
            return take_rows(table, source_of_row)
        sources = ops.shape(table)[0]
        if rows is sources or isinstance(rows, int) and rows == sources:
            return table
        return ops.repeat(table, rows // sources, axis=0)

    @staticmethod
    def previous_words(target: Tensor) -> Tensor:
        """Returns y_0 .. y_{T-1}, from y_1 .. y_T: integer tensor `(batch, time)`, 0 in front."""
        return ops.pad(target, [[0, 0], [1, 0]])[:, :-1]


class Encoder(ModelSide):
    """Base of encoders.

    A subclass defines `encoded_spec` and `call`. An encoder that reads a source strictly from left to right can also
    set `is_incremental` and define `state_spec`, `step` and `finish`: sources with a common prefix then share its
    states.

    Call arguments:
        source: integer tensor `(sources, time)`: ids closed by the end of sequence (2), then padding (0).

    Returns:
        dict of tensors, `encoded`, the input of `Decoder.start`, one row per source.
    """

    #: Whether the encoder can read one id at a time, by `step` and `finish`.
    is_incremental: bool = False

    def build(self, source_shape: Shape | None = None) -> None:
        """Makes the weights. All sizes are arguments of the constructor, so the shapes are not used."""
        self.built = True

    @property
    def reader(self) -> "CharacterReader | None":
        """The `CharacterReader` of words outside the shortlist; `None` if the encoder reads them as the unknown word.

        The encoder's call takes the words' vectors, `reader.read(characters)`, as its second argument. Row `1 + i` is
        the vector of the id `vocabulary_size + i`.
        """
        return None

    @property
    def encoded_spec(self) -> dict[str, TensorSpec]:
        """Name, shape and dtype of each tensor of `encoded`."""
        raise not_defined(self, "encoded_spec")

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        """Name, shape and dtype of each tensor of an incremental encoder's state, which starts at zero."""
        raise not_defined(self, "state_spec")

    def step(self, ids: Tensor, state: State) -> State:
        """Computes the state of an incremental encoder after one more id.

        Args:
            ids: integer tensor `(rows,)`, without padding.
            state: dict of tensors, one row per id.
        """
        raise not_defined(self, "step")

    def finish(self, state: State) -> Encoded:
        """Computes `encoded` from the state of an incremental encoder after the end of sequence."""
        raise not_defined(self, "finish")
