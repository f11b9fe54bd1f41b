"""Updates of some parts of a model by an optimizer that holds the state of all parts."""

from collections.abc import Callable, Collection, Mapping, Sequence

import keras

from keras_encdec.backend.types import Tensor

_COUNTS = "_part_counts"


def update_parts(
    optimizer: keras.optimizers.Optimizer,
    everything: Sequence[keras.Variable],
    parts: Mapping[str, Sequence[keras.Variable]],
    in_use: Callable[[], Collection[str]],
) -> None:
    """Makes an optimizer update only the parts of a model that the current task uses.

    The weights of the other parts stay as they are, and so do their moments, sums and weight decay. The norm of the
    gradient is that of the parts in use. Each part has its own number of updates n, which Adam's correction of its
    moments needs:

        m / (1 - beta_1^n),   v / (1 - beta_2^n)

    With one number for all, the first steps of a part that is seldom used would be up to six times as large. So tasks
    that share nothing are trained exactly as if each were trained alone.

    Args:
        optimizer: `keras.optimizers.Optimizer`, which is built here.
        everything: list of all trainable variables, in the order of the model.
        parts: dict of the name of each part to its trainable variables. Each variable belongs to one part.
        in_use: callable that returns the names of the parts to update. It is called while a step is traced.

    Reference:
        - Kingma and Ba, 2015 (arXiv 1412.6980), section 3: correction of the moments
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of an optimizer that scales the loss
    part_of = {id(variable): name for name, variables in parts.items() for variable in variables}
    if _COUNTS not in vars(optimizer):
        optimizer.build(list(everything))
        vars(optimizer)[_COUNTS] = {
            name: optimizer.add_variable((), dtype="int", aggregation="only_first_replica", name=f"updates_{number}")
            for number, name in enumerate(parts)
        }
    counts = vars(optimizer)[_COUNTS]
    vars(optimizer).pop("_backend_update_step", None)  # of an earlier call
    apply, update = optimizer.apply, optimizer._backend_update_step

    def apply_in_use(
        gradients: Sequence[Tensor | None], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        used = in_use()
        pairs = zip(gradients, trainable_variables or everything, strict=True)
        kept = [(gradient, variable) for gradient, variable in pairs if part_of[id(variable)] in used]
        apply([gradient for gradient, _ in kept], [variable for _, variable in kept])

    # Keras's optimizers read the number of updates from this attribute, wherever they are in `apply`.
    def update_each(gradients: Sequence[Tensor], variables: Sequence[keras.Variable], learning_rate: Tensor) -> None:
        number_of_all = optimizer._iterations
        for name in dict.fromkeys(part_of[id(variable)] for variable in variables):
            pairs = zip(gradients, variables, strict=True)
            own = [(gradient, variable) for gradient, variable in pairs if part_of[id(variable)] == name]
            vars(optimizer)["_iterations"] = counts[name]
            update([gradient for gradient, _ in own], [variable for _, variable in own], learning_rate)
            counts[name].assign_add(1)
        vars(optimizer)["_iterations"] = number_of_all

    optimizer.apply = apply_in_use
    vars(optimizer)["_backend_update_step"] = update_each
