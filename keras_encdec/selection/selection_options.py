"""Options of `select_pairs`, and the methods that score sentence pairs."""

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Sequence

import numpy as np

from keras_encdec.configuration import ConfigurationError, check_choice, hyperparameter
from keras_encdec.errors import FilePath
from keras_encdec.runtime.files import STANDARD_STREAM, check_can_be_read_again
from keras_encdec.task_options import EncodingOption, MalformedLinesOption, ShardOptions, UnknownWordsOption


def cross_entropy_difference(in_domain: np.ndarray, general: np.ndarray) -> np.ndarray:
    """Computes how much more a sentence looks like the domain than like the corpus: H_general - H_in-domain.

    Args:
        in_domain: float array `(pairs,)`: cross-entropies by a language model of the domain, in nats per token.
        general: float array `(pairs,)`: cross-entropies by a language model of the whole corpus.

    Returns:
        float array `(pairs,)`, in nats per token: the score of the paper with the opposite sign.

    Reference:
        - Moore and Lewis, 2010, "Intelligent Selection of Language Model Training Data" (ACL P10-2041)
    """
    difference: np.ndarray = general - in_domain
    return difference


def bilingual_difference(
    in_domain_source: np.ndarray, general_source: np.ndarray, in_domain_target: np.ndarray, general_target: np.ndarray
) -> np.ndarray:
    """Adds the `cross_entropy_difference` of both sides.

    Args:
        in_domain_source, general_source, in_domain_target, general_target: float arrays `(pairs,)`, in nats per token.

    Returns:
        float array `(pairs,)`, in nats per token.

    Reference:
        - Axelrod, He and Gao, 2011, "Domain Adaptation via Pseudo In-Domain Data Selection" (EMNLP, D11-1033)
    """
    difference: np.ndarray = (general_source - in_domain_source) + (general_target - in_domain_target)
    return difference


def dual_conditional_cross_entropy(forward: np.ndarray, reverse: np.ndarray) -> np.ndarray:
    """Computes how probable, and how similarly probable, two translation models find the pair: from 0 to 1.

        exp(-(|H_f - H_r| + (H_f + H_r) / 2))

    Args:
        forward: float array `(pairs,)`, in nats per token: H_f = -ln p(target | source) / target tokens, including the
            end of sequence.
        reverse: float array `(pairs,)`: H_r = -ln p(source | target) / source tokens.

    Returns:
        float array `(pairs,)`.

    Reference:
        - Junczys-Dowmunt, 2018, "Dual Conditional Cross-Entropy Filtering of Noisy Parallel Corpora" (WMT, W18-6478),
          section 3.1
    """
    scores: np.ndarray = np.exp(-(np.abs(forward - reverse) + (forward + reverse) / 2))
    return scores


# Takes arrays of cross-entropies and returns an array of scores.
ScoringMethod = Callable[..., np.ndarray]

METHODS: dict[str, ScoringMethod] = {
    "dual": dual_conditional_cross_entropy,
    "moore_lewis": cross_entropy_difference,
    "bilingual": bilingual_difference,
}
FORMATS = ("parallel", "tsv")
TRANSLATION_MODELS = ("model_dir", "reverse_model_dir")
_SOURCE_MODELS, _TARGET_MODELS = ("in_domain_source", "general_source"), ("in_domain_target", "general_target")
# The models of each method, in the order of its function's arguments. A method may allow several choices.
MODELS: dict[str, list[tuple[str, ...]]] = {
    "dual": [TRANSLATION_MODELS],
    "moore_lewis": [_SOURCE_MODELS, _TARGET_MODELS],
    "bilingual": [_SOURCE_MODELS + _TARGET_MODELS],
}
_selection = functools.partial(hyperparameter, group="pairs to select")


@dataclasses.dataclass(frozen=True)
class SelectionOptions(UnknownWordsOption, EncodingOption, MalformedLinesOption, ShardOptions):
    """Options of `select_pairs`, which needs exactly one of `top`, `share` and `threshold`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
    """

    method: str = hyperparameter(
        "dual",
        "dual: two translation models agree that the sides are translations of each other. moore_lewis: one side "
        "resembles the text of the domain; bilingual: both sides do.",
        choices=tuple(METHODS),
    )
    top: int | None = _selection(None, "Number of pairs to select.", minimum=1)
    share: float | None = _selection(
        None,
        "Share of the pairs to select, such as 0.5, not counting malformed and duplicate pairs.",
        above=0,
        maximum=1,
    )
    threshold: float | None = _selection(None, "Select the pairs with this score or a higher one.")
    deduplicate: bool = _selection(False, "Select only the first of several pairs with the same text.")
    max_tokens: int | None = _selection(1000, "A pair with more words on a side is never selected.", minimum=1)
    max_unknown_in_pair: float = _selection(
        0.5,
        "dual: a pair with a larger share of unknown words on a side is never selected, 0 to 1; 1 means no limit. To a "
        "model, all unknown words are the same word, which it therefore finds probable. Words that it reads or spells "
        "by their characters are not unknown.",
        minimum=0,
        maximum=1,
    )
    end_weight: float = hyperparameter(
        1.0,
        "dual: number of tokens that the end of a sentence counts as. 1 is the published score; 4 also detects most "
        "truncated sentences.",
        above=0,
        maximum=1000,
    )

    def check(self) -> None:
        super().check()
        if len(self.amounts) > 1:
            given = " and ".join(f"{{{name}}}" for name in self.amounts)
            raise ConfigurationError(f"found {given}, expected one of {{top}}, {{share}} and {{threshold}}")
        for name in ("end_weight", "max_unknown", "max_unknown_in_pair"):
            if self.method != "dual" and getattr(self, name) != getattr(type(self), name):
                raise ConfigurationError(f"found {{{name}}} with {{method}}=%s, expected it with dual", self.method)

    @property
    def amounts(self) -> list[str]:
        """Names of the given options among `top`, `share` and `threshold`."""
        return [name for name in ("top", "share", "threshold") if getattr(self, name) is not None]

    def models_in_order(self, given: Collection[str]) -> Sequence[str]:
        """Checks that an amount and the models of the method are given.

        Args:
            given: names of the given models, see `select_pairs`.

        Returns:
            list of str, these names in the order of the method's arguments.

        Raises:
            ConfigurationError: a ValueError, for models of another method, and without an amount.
        """
        if not self.amounts:
            raise ConfigurationError("found none of {top}, {share} and {threshold}, expected one")
        for names in MODELS[self.method]:
            if set(given) == set(names):
                return names
        found = " and ".join(f"{{{name}}}" for name in given) or "no models"
        expected = ", or ".join(" and ".join(f"{{{name}}}" for name in names) for names in MODELS[self.method])
        models = {method: {name for names in choices for name in names} for method, choices in MODELS.items()}
        if other := next((name for name in given if name not in models[self.method]), None):
            methods = " or ".join(method for method, names in models.items() if other in names)
            expected += f"; {{{other}}} is for {{method}}={methods}"
        raise ConfigurationError(f"found {found} with {{method}}=%s, expected {expected}", self.method)


def check_corpus(format: str, input: FilePath, source: FilePath | None, **outputs: FilePath | None) -> None:
    """Checks that the format and the files of `select_pairs` suit one another.

    Args:
        format, input, source: see `select_pairs`.
        **outputs: "output", "source_output" and "scores", see `select_pairs`.

    Raises:
        ConfigurationError: a ValueError, if they do not.
        InputError: for a pipe, because the corpus is read twice.
    """
    check_choice("format", format, FORMATS)
    for name, path in (("source", source), ("source_output", outputs["source_output"])):
        if format == "parallel" and path is None:
            raise ConfigurationError(f"found parallel text without {{{name}}}, expected a file for each side")
        if format != "parallel" and path is not None:
            raise ConfigurationError(f"found {{{name}}} with {format} pairs, expected it with parallel text")
    for path in (input, source):
        if path is not None:
            check_can_be_read_again(path)
    names = [name for name, path in outputs.items() if path is not None and os.fspath(path) == STANDARD_STREAM]
    if len(names) > 1:
        raise ConfigurationError(f"found {{{names[0]}}}=- and {{{names[1]}}}=-, expected a file for one of them")
