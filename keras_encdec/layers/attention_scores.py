"""The scores of attention: how well a state of the decoder matches each source position."""

from typing import Any

import keras
from keras import ops


class AttentionScore(keras.layers.Layer):
    """Base of the scores of attention, which compare queries with keys.

    The keys are made of the annotations once a source, the scores at every step:

        keys   = score.keys(annotations)        `(batch, source_time, width)`
        scores = score(queries, keys)           `(batch, steps, source_time)`

    Args:
        kernel_initializer: of the weights. Defaults to Glorot's uniform distribution.
    """

    def __init__(self, kernel_initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: tuple, annotations_shape: tuple) -> None:
        """Makes the weights, for queries and annotations of these shapes, of which the last numbers count."""
        self.built = True

    def key_width(self, query_width: int, annotation_width: int) -> int:
        """Width of the keys."""
        return query_width

    def keys(self, annotations: Any) -> Any:
        """What queries are compared with, from the annotations."""
        raise NotImplementedError

    def symbols(self) -> dict[str, Any]:
        """The weights by the symbols of the equations."""
        return {}

    def call(self, queries: Any, keys: Any) -> Any:
        return ops.matmul(queries, ops.swapaxes(keys, 1, 2))


class DotScore(AttentionScore):
    """h_t . H_s, of queries and annotations of one width."""

    def build(self, query_shape: tuple, annotations_shape: tuple) -> None:
        if query_shape[-1] != annotations_shape[-1]:
            raise ValueError(
                f"found queries of width {query_shape[-1]} and annotations of width {annotations_shape[-1]} with "
                'score="dot", expected the same width; give score="general"'
            )
        self.built = True

    def keys(self, annotations: Any) -> Any:
        return annotations


class GeneralScore(AttentionScore):
    """(h_t W_a) . H_s, computed as h_t . (H_s W_a^T), so that the matrix is applied once a source."""

    def build(self, query_shape: tuple, annotations_shape: tuple) -> None:
        shape = query_shape[-1], annotations_shape[-1]
        self.kernel = self.add_weight(shape=shape, initializer=self.kernel_initializer, name="kernel")
        self.built = True

    def keys(self, annotations: Any) -> Any:
        return ops.matmul(annotations, ops.transpose(self.kernel))

    def symbols(self) -> dict[str, Any]:
        return {"W_a": self.kernel}


class ConcatScore(AttentionScore):
    """tanh(h_t W_q + H_s W_k) . v_a.

    Args:
        units: int. Width of W_q and W_k. Defaults to `None`: that of the queries.
    """

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, query_shape: tuple, annotations_shape: tuple) -> None:
        units, initializer = self.key_width(query_shape[-1], annotations_shape[-1]), self.kernel_initializer
        self.query_kernel = self.add_weight(
            shape=(query_shape[-1], units), initializer=initializer, name="query_kernel"
        )
        self.key_kernel = self.add_weight(
            shape=(annotations_shape[-1], units), initializer=initializer, name="key_kernel"
        )
        self.score_vector = self.add_weight(shape=(units, 1), initializer=initializer, name="score_vector")
        self.built = True

    def key_width(self, query_width: int, annotation_width: int) -> int:
        return self.units or query_width

    def keys(self, annotations: Any) -> Any:
        return ops.matmul(annotations, self.key_kernel)

    def symbols(self) -> dict[str, Any]:
        return {"W_q": self.query_kernel, "W_k": self.key_kernel, "v_a": self.score_vector}

    def call(self, queries: Any, keys: Any) -> Any:
        queries = ops.matmul(queries, self.query_kernel)
        hidden = ops.tanh(ops.expand_dims(queries, 2) + ops.expand_dims(keys, 1))
        return ops.squeeze(ops.matmul(hidden, self.score_vector), -1)


SCORES = {"dot": DotScore, "general": GeneralScore, "concat": ConcatScore}
