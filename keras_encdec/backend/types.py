"""The types of what models, scorers and samplers pass to each other; importing this module does not import Keras.

Shapes are written in docstrings as tuples. The first axis of a tensor counts rows:

    batch      sources, or pairs of source and target
    rows       hypotheses or prefixes; each continues one source, as `source_of_row` says
    time       words of a sequence; `source_time`, `target_time` where both occur
    units      features of a vector; also `words`, the ids of a vocabulary

Ids are int32, 0 on padding. Masks are boolean, false on padding. Log-probabilities are float32, in nats.
"""

from typing import Any, TypeAlias

# A type checker knows no type that TensorFlow, JAX, PyTorch and symbolic tensors share: it accepts every value here.
#: A tensor of the backend in use, of any dtype: eager, traced, or symbolic (`keras.KerasTensor`).
Tensor: TypeAlias = Any

#: A tensor, or tensors in lists, tuples and dicts, nested in any way.
Structure: TypeAlias = Any

#: The shape of a tensor: ints, and `None` for a number of rows or of steps that is not known. Widths are always known.
Shape: TypeAlias = tuple[Any, ...]

#: An encoder's output by name, one row per source: tensors `(batch, ...)`, as `Encoder.encoded_spec` describes them.
Encoded: TypeAlias = dict[str, Tensor]

#: A recurrent state by name, one row per hypothesis: tensors `(rows, ...)`, as `Decoder.state_spec` describes them.
State: TypeAlias = dict[str, Tensor]

#: What a decoder keeps of the sources by name: tensors `(batch, ...)`, as `Decoder.memory_spec` describes them. It has
#: one row per source, not per hypothesis, and does not change from word to word.
Memory: TypeAlias = dict[str, Tensor]

#: The tensors of a search by name, one row per source: tensors `(sources, ...)`, as `Sampler.initial` makes them.
SearchState: TypeAlias = dict[str, Tensor]
