"""What sentence pairs are selected by: scores made of cross-entropies, the higher the better."""

from collections.abc import Callable
from typing import Any

import numpy as np


def cross_entropy_difference(in_domain: np.ndarray, general: np.ndarray) -> np.ndarray:
    """How much more a sentence looks like the domain than like the rest: H_general - H_in-domain.

    Args:
        in_domain: float array `(pairs,)`, nats a token: cross-entropies by a language model of the domain.
        general: float array `(pairs,)`: by a language model of the corpus that is selected from.

    Returns:
        float array `(pairs,)`, nats a token; the paper's with the sign changed.

    Reference:
        - Moore and Lewis, 2010, "Intelligent Selection of Language Model Training Data" (ACL P10-2041)
    """
    return general - in_domain


def bilingual_difference(
    in_domain_source: np.ndarray, general_source: np.ndarray, in_domain_target: np.ndarray, general_target: np.ndarray
) -> np.ndarray:
    """The sum of `cross_entropy_difference` of both sides.

    Args:
        in_domain_source, general_source, in_domain_target, general_target: float arrays `(pairs,)`, nats a token.

    Returns:
        float array `(pairs,)`, nats a token.

    Reference:
        - Axelrod, He and Gao, 2011, "Domain Adaptation via Pseudo In-Domain Data Selection" (EMNLP, D11-1033)
    """
    return (general_source - in_domain_source) + (general_target - in_domain_target)


def dual_conditional_cross_entropy(forward: np.ndarray, reverse: np.ndarray) -> np.ndarray:
    """How well two translation models find that the sides translate each other, and agree: from 0 to 1.

        exp(-(|H_f - H_r| + (H_f + H_r) / 2))

    Args:
        forward: float array `(pairs,)`, nats a token: H_f = -ln p(target | source) / target tokens, the end of
            sequence counted.
        reverse: float array `(pairs,)`: H_r = -ln p(source | target) / source tokens.

    Returns:
        float array `(pairs,)`.

    Reference:
        - Junczys-Dowmunt, 2018, "Dual Conditional Cross-Entropy Filtering of Noisy Parallel Corpora" (WMT, W18-6478),
          section 3.1
    """
    return np.exp(-(np.abs(forward - reverse) + (forward + reverse) / 2))


METHODS: dict[str, Callable[..., Any]] = {
    "dual": dual_conditional_cross_entropy,
    "moore_lewis": cross_entropy_difference,
    "bilingual": bilingual_difference,
}
