"""Stores the weights of an exported model in less space, rounded and without zeros, and restores them on loading."""

import hashlib
from collections.abc import Mapping, Sequence

import keras
import ml_dtypes
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_encdec.models.translation_model import ModelInDtype, TranslationModel, copy_weights
from keras_encdec.sparse_weights import decoded, encoded, stored_size

Parts = Mapping[str, np.ndarray]

LARGEST_INT8 = 127
# Zeros are left out only if that saves this share of an array: loading the model must put them back.
MIN_SAVING = 0.1
_SHIFTS = np.arange(7, -1, -1, dtype=np.uint8)


def encode_weight(array: npt.NDArray[np.float32], form: str) -> dict[str, np.ndarray]:
    """Encodes an array in one of these forms, as parts for `decode_weight`.

        float32    the elements
        bfloat16   the elements, rounded to 8 bits of precision
        int8       round(W / s), s = max |w| / 127 of each row or of each column, whichever is nearer to W

    Only matrices are rounded: biases and other vectors stay as they are. Zeros are left out where that makes an array
    smaller, see `keras_encdec.sparse_weights`.
    """
    parts: dict[str, np.ndarray] = {"values": array}
    if array.ndim > 1 and form == "bfloat16":
        parts = {"values": array.astype(ml_dtypes.bfloat16)}
    elif array.ndim > 1 and form == "int8":
        parts = min((_in_int8(array, axis) for axis in (0, -1)), key=lambda made: _distance(made, array))
    without_zeros = encoded(parts["values"])
    if without_zeros and stored_size(without_zeros) <= (1 - MIN_SAVING) * parts["values"].nbytes:
        parts |= without_zeros
    return parts


def _in_int8(array: npt.NDArray[np.float32], axis: int) -> dict[str, np.ndarray]:
    """Rounds with one scale for all elements along an axis."""
    largest = np.abs(array).max(axis=axis, keepdims=True)
    scales = np.where(largest > 0, largest / LARGEST_INT8, 1).astype(np.float32)
    return {"values": np.clip(np.rint(array / scales), -LARGEST_INT8, LARGEST_INT8).astype(np.int8), "scales": scales}


def _distance(parts: Parts, array: npt.NDArray[np.float32]) -> float:
    return float(np.square(parts["values"] * parts["scales"] - array).sum())


def decode_weight(parts: Parts, shape: Sequence[int]) -> npt.NDArray[np.float32]:
    """Decodes an array from the parts of `encode_weight`; `_decode_weight_in_graph` computes the same, bit by bit."""
    values = parts["values"]
    if _is_sparse(parts):
        values = decoded(parts, tuple(shape))
    array = values.astype(np.float32)
    return array * parts["scales"] if "scales" in parts else array


def _is_sparse(parts: Parts) -> bool:
    return "mask" in parts or "columns" in parts


def _decode_weight_in_graph(parts: Mapping[str, tf.Tensor], shape: Sequence[int]) -> tf.Tensor:
    values, size = tf.cast(parts["values"], tf.float32), int(np.prod(shape))
    if "mask" in parts:
        bits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(parts["mask"][:, None], _SHIFTS), np.uint8(1))
        values = tf.scatter_nd(tf.where(tf.cast(tf.reshape(bits, [-1])[:size], tf.bool)), values, [size])
    elif "columns" in parts:
        counts = tf.cast(parts["row_counts"], tf.int32)
        rows = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
        indices = rows * shape[-1] + tf.cast(parts["columns"], tf.int64)
        values = tf.scatter_nd(indices[:, None], values, [size])
    values = tf.reshape(values, shape)
    return values * parts["scales"] if "scales" in parts else values


def rounded_model(model: TranslationModel, form: str) -> TranslationModel:
    """Returns a float32 model with the weights that an export stores in this form, see `encode_weight`."""
    model = ModelInDtype(model, "float32").model
    if form == "float32":
        return model
    return _with_weights(model, [encode_weight(keras.ops.convert_to_numpy(weight), form) for weight in model.weights])


def _with_weights(model: TranslationModel, parts: Sequence[Parts]) -> TranslationModel:
    """Returns a model like this one with weights that are restored from their parts, in the order of its weights."""
    other = type(model).from_config(model.get_config())
    copy_weights(model, other)
    for weight, parts_of_weight in zip(other.weights, parts, strict=True):
        weight.assign(decode_weight(parts_of_weight, weight.shape))
    return other


class StoredWeight(tf.saved_model.experimental.TrackableResource):
    """A weight that is restored from its parts when the exported model is loaded.

    A server keeps both the parts and the weight in memory.

    Attributes:
        parts: dict of tf.Variable. They must be saved with the functions that use the weight.
    """

    def __init__(self, parts: Parts, shape: Sequence[int]) -> None:
        self._shape = shape
        # Versions loaded into the same process share weights of the same name, so the name depends on the content.
        content = b"".join(name.encode() + part.tobytes() for name, part in sorted(parts.items()))
        self._name = f"weight_{hashlib.sha256(repr(shape).encode() + content).hexdigest()}"
        self.parts = {name: tf.Variable(part, trainable=False, name=name) for name, part in parts.items()}
        super().__init__()
        self._initialize()

    def value(self) -> tf.Tensor:
        """Reads the weight."""
        value = tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)
        value.set_shape(self._shape)
        return value

    def _create_resource(self) -> tf.Tensor:
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self._shape, shared_name=self._name)

    def _initialize(self) -> None:
        value = _decode_weight_in_graph(self.parts, self._shape)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)


class StoredWeights:
    """The weights of a float32 model that are stored in less space, see `encode_weight`; all others stay variables."""

    def __init__(self, model: TranslationModel, form: str) -> None:
        self._model, self._is_rounded = model, form != "float32"
        self._parts = [encode_weight(keras.ops.convert_to_numpy(weight), form) for weight in model.weights]
        self._weights = {
            id(weight): StoredWeight(parts, tuple(weight.shape))
            for weight, parts in zip(model.weights, self._parts, strict=True)
            if _is_sparse(parts) or parts["values"].dtype != np.float32
        }

    @property
    def weights(self) -> list[StoredWeight]:
        return list(self._weights.values())

    def rounded_model(self) -> TranslationModel:
        """Returns what `rounded_model` returns, without rounding again."""
        return _with_weights(self._model, self._parts) if self._is_rounded else self._model

    def in_use(self) -> keras.StatelessScope:
        """Makes a context in which the model computes with the stored weights instead of its variables."""
        return _StoredValues(self._weights)


class _StoredValues(keras.StatelessScope):
    """Gives Keras the value of each weight where it is used: every graph must read it with its own operation."""

    def __init__(self, weights: Mapping[int, StoredWeight]) -> None:
        super().__init__(initialize_variables=False)
        self._weights = weights

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        weight = self._weights.get(id(variable))
        return None if weight is None else weight.value()
