"""Options of pruning, which need no NumPy: every command of training has them."""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter

SCHEMES = ("class_blind", "class_uniform", "class_distribution")
SCHEME_HELP = (
    "How the weights are chosen: class_blind: the smallest of all; class_uniform: the same share of each class, such "
    "as a layer; class_distribution: those below a multiple of the standard deviation of their class."
)


@dataclasses.dataclass(frozen=True)
class PruningOptions(Configuration):
    """Options of `prune_model`."""

    share: float = hyperparameter(
        0.8,
        "Share of the weights that are zero afterwards, without biases. Weights that are zero already count.",
        minimum=0,
        maximum=1,
        published={"See et al., 2016, section 4": 0.8},
    )
    scheme: str = hyperparameter(
        "class_blind", SCHEME_HELP, choices=SCHEMES, published={"See et al., 2016, section 4.2": "class_blind"}
    )
