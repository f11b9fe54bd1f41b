"""Options of pruning, which do not need NumPy: `encdec-train` makes flags from them when it starts."""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.errors import FilePath, InputError

SCHEMES = ("class_blind", "class_uniform", "class_distribution")
SCHEME_HELP = (
    "Which weights are pruned: the smallest of all (class_blind), the same share of each class, such as a layer "
    "(class_uniform), or those below a multiple of their class's standard deviation (class_distribution)."
)


@dataclasses.dataclass(frozen=True)
class PruningOptions(Configuration):
    """Options of `prune_model`."""

    share: float = hyperparameter(
        0.8,
        "Share of the weights, not counting biases, that are zero afterwards. It includes those that were zero before.",
        minimum=0,
        maximum=1,
        published={"See et al., 2016, section 4": 0.8},
    )
    scheme: str = hyperparameter(
        "class_blind", SCHEME_HELP, choices=SCHEMES, published={"See et al., 2016, section 4.2": "class_blind"}
    )

    def check_zeros(self, zeros: int, size: int, path: FilePath) -> None:
        """Checks that pruning would make more weights of a model zero.

        Args:
            zeros: int. Number of the model's weights that are zero.
            size: int. Number of its weights, without biases.
            path: path of its directory, for the error.

        Raises:
            InputError: if the model already has this share of zeros.
        """
        if self.share and zeros >= max(1, round(self.share * size)):
            found = f"found {100 * zeros / size:.1f} % of the weights already zero"
            raise InputError(found, f"expected less than --share={self.share:g}", "give a larger --share", path)
