"""What can be chosen when an exported model is compared with the model it was made from."""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter

BACKENDS = ("tensorflow", "jax", "torch")


@dataclasses.dataclass(frozen=True)
class VerificationOptions(Configuration):
    """Options of `verify_export`."""

    version: int | None = hyperparameter(None, "Version to compare. Default: the newest.", minimum=1)
    backends: tuple[str, ...] = hyperparameter(
        (),
        "Backends of Keras on which the scores of encdec-score are compared as well: tensorflow, jax, torch.",
        choices=BACKENDS,
    )
