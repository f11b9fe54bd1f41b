"""The readout of the paper: maxout units, then a factorized output matrix."""

import keras
from keras import ops

from keras_encdec.backend.gradients import product
from keras_encdec.backend.operations import last_maximum, matmul
from keras_encdec.backend.types import Shape, Tensor
from keras_encdec.layers.initializers import checked_size, fresh, published_normal


@keras.saving.register_keras_serializable(package="keras_encdec")
class Maxout(keras.layers.Layer):
    """Takes the largest of each group of neighbouring inputs.

    The deep output of the RNN Encoder-Decoder pools its pre-activation in pairs,

        s_i = max(s'_{2i-1}, s'_{2i})

    so that `units * pool_size` inputs give `units` outputs. The layer itself has no weights; the projection before it
    is learned. A mask passes through unchanged.

    Args:
        units: int. Number of outputs.
        pool_size: int. Inputs pooled into one output. Defaults to `2`.

    Call arguments:
        inputs: float tensor `(..., units * pool_size)`.

    Returns:
        float tensor `(..., units)`.

    Raises:
        ValueError: if `units` or `pool_size` is not a whole number, 1 or more; and if built on inputs whose width is
            not `units * pool_size`.

    Example:

    >>> from keras import ops
    >>> ops.convert_to_numpy(Maxout(2)(ops.convert_to_tensor([[1.0, 3.0, -2.0, -5.0]]))).tolist()
    [[3.0, -2.0]]

    Reference:
        - Goodfellow et al., 2013, "Maxout Networks" (arXiv 1302.4389)
        - Cho et al., 2014 (arXiv 1406.1078), appendix A.1.1
    """

    def __init__(self, units: int, pool_size: int = 2, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.units = checked_size("units", units)
        self.pool_size = checked_size("pool_size", pool_size)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        width = self.units * self.pool_size
        if input_shape[-1] != width:
            raise ValueError(
                f"found inputs of shape {tuple(input_shape)}, expected {width} features, {self.units} units of "
                f"{self.pool_size} inputs each; project the inputs to {width} features first"
            )
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        grouped = ops.reshape(inputs, (*ops.shape(inputs)[:-1], self.units, self.pool_size))
        return last_maximum(grouped)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "units": self.units, "pool_size": self.pool_size}


@keras.saving.register_keras_serializable(package="keras_encdec")
class DeepOutput(keras.layers.Layer):
    """Readout from state, previous word and context to the logits of the next word.

        s'     = h O_h + e(y_{t-1}) O_y + c O_c + b_O      2 * maxout_units wide
        s_i    = max(s'_{2i-1}, s'_{2i})
        logits = s G_r G_l + b_G

    G = G_r G_l has rank `rank`, so that a large vocabulary does not need a matrix of `maxout_units * output_dim`. c O_c
    is computed once per sequence.

    Args:
        output_dim: int. Number of ids that can be predicted.
        maxout_units: int. Number of maxout units; each is the larger of two inputs.
        rank: int. Rank of the output matrix.
        kernel_initializer: initializer of all matrices. Defaults to N(0, 0.01).

    Call arguments:
        states: float tensor `(batch, time, units)`, h.
        previous: float tensor `(batch, time, features)`, the embedded previous words.
        context: float tensor `(batch, context_units)`, c.

    Returns:
        float tensor `(batch, time, output_dim)`: logits, in the compute dtype.

    Raises:
        ValueError: if a size is not a whole number, 1 or more.

    Example:

    >>> from keras import ops
    >>> tuple(DeepOutput(9, maxout_units=4, rank=2)(ops.ones((2, 3, 5)), ops.ones((2, 3, 6)), ops.ones((2, 5))).shape)
    (2, 3, 9)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), appendix A.1.2; Pascanu et al., 2014 (arXiv 1312.6026)
    """

    def __init__(
        self,
        output_dim: int,
        maxout_units: int,
        rank: int,
        kernel_initializer: keras.initializers.Initializer | str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.output_dim = checked_size("output_dim", output_dim)
        self.maxout_units = checked_size("maxout_units", maxout_units)
        self.rank = checked_size("rank", rank)
        self.kernel_initializer = keras.initializers.get(kernel_initializer) or published_normal()
        self.maxout = Maxout(maxout_units, dtype=self.dtype_policy, name="maxout")
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.supports_masking = True

    def build(self, states_shape: Shape, previous_shape: Shape, context_shape: Shape) -> None:
        width = 2 * self.maxout_units

        def matrix(rows: int, columns: int, name: str) -> keras.Variable:
            return self.add_weight(shape=(rows, columns), initializer=fresh(self.kernel_initializer), name=name)

        self.state_kernel = matrix(states_shape[-1], width, "state_kernel")
        self.previous_kernel = matrix(previous_shape[-1], width, "previous_kernel")
        self.context_kernel = matrix(context_shape[-1], width, "context_kernel")
        self.bias = self.add_weight(shape=(width,), initializer="zeros", name="bias")
        self.right_factor = matrix(self.maxout_units, self.rank, "right_factor")
        self.left_factor = matrix(self.rank, self.output_dim, "left_factor")
        self.output_bias = self.add_weight(shape=(self.output_dim,), initializer="zeros", name="output_bias")
        self.maxout.build((None, width))
        self.built = True

    def project_context(self, context: Tensor) -> Tensor:
        """Computes c O_c + b_O once per sequence: `(batch, context_units)` to `(batch, 2 * maxout_units)`."""
        return product(context, self.context_kernel, self.bias)

    def reduce(self, states: Tensor, previous: Tensor, projected_context: Tensor) -> Tensor:
        """Computes s G_r `(..., rank)`, the features that the output matrix multiplies.

        Args:
            states: float tensor `(..., units)`.
            previous: float tensor `(..., features)`.
            projected_context: float tensor that broadcasts to `(..., 2 * maxout_units)`.
        """
        pre = matmul(states, self.state_kernel) + matmul(previous, self.previous_kernel)
        return matmul(self.maxout(pre + projected_context), self.right_factor)

    def logits(self, reduced: Tensor) -> Tensor:
        """Computes s G_r G_l + b_G: `(..., rank)` to `(..., output_dim)`."""
        return product(reduced, self.left_factor, self.output_bias)

    def call(self, states: Tensor, previous: Tensor, context: Tensor) -> Tensor:
        return self.logits(self.reduce(states, previous, ops.expand_dims(self.project_context(context), 1)))

    def compute_output_shape(self, states_shape: Shape, previous_shape: Shape, context_shape: Shape) -> Shape:
        return (*states_shape[:-1], self.output_dim)

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "maxout_units": self.maxout_units,
            "rank": self.rank,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
