"""One step of a recurrence with a hand-written gradient."""

from typing import Any

from keras import ops


class RecurrentStep:
    """Base of steps whose gradient is written by hand.

    Left to automatic differentiation, each step of a recurrence makes its own gradient of the recurrent matrix, a
    product of `batch` rows, and adds it to that of the others. Here `backward` gives the two factors of that product
    alone, and `parameter_gradients` takes it once, of all steps. `benchmarks/recurrence.py` shows what that is worth;
    where it is worth nothing, a plain function `step(inputs_t, state, parameters) -> state` does.

    A subclass has `forward`, `backward` and `parameter_gradients`, and uses no tensor or variable but their arguments:
    no gradient would flow there.
    """

    def __call__(self, inputs_t: Any, state: Any, parameters: Any) -> Any:
        """The new state: `forward` without what `backward` needs."""
        return self.forward(inputs_t, state, parameters)[0]

    def forward(self, inputs_t: Any, state: Any, parameters: Any) -> tuple[Any, Any]:
        """One step.

        Args:
            inputs_t: structure of tensors `(batch, ...)`.
            state: structure of tensors `(batch, ...)`.
            parameters: structure of tensors.

        Returns:
            tuple: the new state, and a structure of tensors that `backward` needs again.
        """
        raise NotImplementedError

    def backward(self, d_state: Any, state: Any, saved: Any, parameters: Any) -> tuple[Any, Any, Any]:
        """The gradients of one step.

        Args:
            d_state: gradient of the new state: its structure, with `None` for what is not of floats.
            state: the state before the step.
            saved: of `forward`.
            parameters: structure of tensors.

        Returns:
            tuple: the gradients of the inputs and of the state before the step, in their structures, with `None` for
            what is not of floats; and a structure of tensors `(batch, ...)` for `parameter_gradients`.
        """
        raise NotImplementedError

    def parameter_gradients(self, factors: Any) -> Any:
        """The gradients of the parameters, summed over all steps.

        Args:
            factors: what `backward` gave of every step, each tensor `(time, batch, ...)`.

        Returns:
            structure of the parameters, with `None` for what is not of floats.
        """
        raise NotImplementedError


def summed_product(left: Any, right: Any) -> Any:
    """Sum over steps of left_t^T right_t, as one product.

    Args:
        left: float tensor `(time, batch, m)`.
        right: float tensor `(time, batch, n)`.

    Returns:
        float tensor `(m, n)`.
    """
    rows = [ops.reshape(tensor, (-1, tensor.shape[-1])) for tensor in (left, right)]
    return ops.matmul(ops.transpose(rows[0]), rows[1])
