"""Word embedding as one factor of a low-rank input matrix."""

import keras
from keras import ops

from keras_encdec.backend.operations import matmul
from keras_encdec.backend.types import Shape, Tensor
from keras_encdec.layers.initializers import checked_size, fresh, published_normal


@keras.saving.register_keras_serializable(package="keras_encdec")
class FactorizedEmbedding(keras.layers.Layer):
    """Embedding of ids, one factor of an input matrix of low rank; the embedding of id 0 is the zero vector.

        e(x) = E[x],  e(0) = 0                   without `units`
        e(x) W                                   with `units`

    An input matrix `(vocabulary, units)` of rank E is the product of the embeddings `(vocabulary, E)` and a matrix
    `(E, units)`. In the RNN Encoder-Decoder, this layer is only the first factor; the second is the input kernel of the
    next layer, with a part for each gate. For other models, this layer with `units` is the whole factorized matrix. Id
    0 means padding, and "no previous word" in a decoder. Its vector stays zero in training, and it is masked.

    Args:
        input_dim: int. Number of ids, 0 included.
        rank: int. Dimension of the embedding, the rank of the input matrix.
        units: int. Width of the product `e(x) W`. Defaults to `None`: no second factor.
        embeddings_initializer: initializer of both factors. Defaults to N(0, 0.01).

    Call arguments:
        inputs: integer tensor `(...)`, ids below `input_dim`.

    Returns:
        float tensor `(..., units or rank)`.

    Raises:
        ValueError: if a size is not a whole number, 1 or more.

    Example:

    >>> tuple(FactorizedEmbedding(10, rank=3)(keras.ops.array([[4, 0]])).shape)
    (1, 2, 3)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1: rank 100
    """

    def __init__(
        self,
        input_dim: int,
        rank: int,
        units: int | None = None,
        embeddings_initializer: keras.initializers.Initializer | str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.input_dim = checked_size("input_dim", input_dim)
        self.rank = checked_size("rank", rank)
        self.units = None if units is None else checked_size("units", units)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer) or published_normal()
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        def zero_first(shape: tuple[int, int], dtype: str | None = None) -> Tensor:
            rows = self.embeddings_initializer((shape[0] - 1, shape[1]), dtype=dtype)
            return ops.concatenate([ops.zeros((1, shape[1]), dtype=dtype), rows], axis=0)

        self.embeddings = self.add_weight(shape=(self.input_dim, self.rank), initializer=zero_first, name="embeddings")
        if self.units is not None:
            self.projection = self.add_weight(
                shape=(self.rank, self.units), initializer=fresh(self.embeddings_initializer), name="projection"
            )
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        inputs = ops.cast(inputs, "int32")  # a Sequential model passes ids as floats
        # The factor keeps row 0 out of the gradient: it stays zero whatever the optimizer.
        present = ops.cast(ops.expand_dims(ops.not_equal(inputs, 0), -1), self.compute_dtype)
        embedded = ops.take(self.embeddings, inputs, axis=0) * present
        return embedded if self.units is None else matmul(embedded, self.projection)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs, 0)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.units or self.rank)

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "rank": self.rank,
            "units": self.units,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
