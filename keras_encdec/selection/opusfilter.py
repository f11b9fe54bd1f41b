"""Filters for OpusFilter, whose YAML configuration names them with `module: keras_encdec.selection.opusfilter`."""

import itertools
import math
import numbers
import os
from collections.abc import Iterable, Iterator, Sequence

from keras_encdec.configuration import ConfigurationError
from keras_encdec.selection.corpus_entropies import has_score
from keras_encdec.selection.cross_entropies import TextPair, TranslationEntropies
from keras_encdec.selection.selection_options import SelectionOptions, dual_conditional_cross_entropy

try:
    from opusfilter import CLEAN_HIGH, CLEAN_LOW, FilterABC
except ImportError as error:
    raise ImportError(
        f'The filters for OpusFilter need opusfilter ({error}): pip install "keras-encdec[opusfilter]".'
    ) from error

# Words that a side may have, and the share of them that may be unknown, as for encdec-select.
MAX_TOKENS, MAX_UNKNOWN = SelectionOptions.max_tokens, SelectionOptions.max_unknown_in_pair
# Pairs that are scored together.
_BATCH = 4096


class _EntropyFilter(FilterABC):
    """Base class of the filters: it scores pairs in batches, even where OpusFilter filters pair by pair.

    A pair with an empty side, with more than `max_tokens` words on a side, or with too many unknown words is rejected:
    its score is infinite, or minus infinity where high scores are accepted. A model would find an empty target or
    unknown words rather probable, and take long for a line of many words.
    """

    threshold: float
    max_tokens: int | None

    def score(self, pairs: Iterable[Sequence[str]]) -> Iterator[float]:
        """Yields the score of each pair of source and target text. The pairs may be an infinite iterator."""
        for _, score in self._scored(pairs):
            yield score

    def filter(self, pairs: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        return (pair for pair, score in self._scored(pairs) if self.accept(score))

    def filterfalse(self, pairs: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        return (pair for pair, score in self._scored(pairs) if not self.accept(score))

    def _scored(self, pairs: Iterable[Sequence[str]]) -> Iterator[tuple[Sequence[str], float]]:
        remaining = iter(pairs)
        while batch := list(itertools.islice(remaining, _BATCH)):
            for pair in batch:
                if len(pair) != 2:
                    raise ConfigurationError("found %s files, expected 2: source and target", len(pair))
            scored = [index for index, pair in enumerate(batch) if has_score(pair, self.max_tokens)]
            rejected = -math.inf if self.score_direction == CLEAN_HIGH else math.inf
            scores = [rejected] * len(batch)
            for index, score in zip(scored, self._scores([(batch[i][0], batch[i][1]) for i in scored]), strict=True):
                scores[index] = rejected if math.isnan(score) else score
            yield from zip(batch, scores, strict=True)

    def _scores(self, pairs: Sequence[TextPair]) -> list[float]:
        raise NotImplementedError

    def _set_limits(self, threshold: float, max_tokens: int | None) -> None:
        """Sets `threshold` and `max_tokens`, and checks them: in YAML, quotation marks turn a number into text."""
        if not isinstance(threshold, numbers.Real) or isinstance(threshold, bool) or math.isnan(threshold):
            raise ConfigurationError("found {threshold}=%r, expected a number", threshold)
        self.threshold, self.max_tokens = threshold, SelectionOptions(max_tokens=max_tokens).max_tokens

    def _entropies(
        self, model_dir: str, reverse: bool, argument: str, end_weight: float, max_unknown_in_pair: float
    ) -> TranslationEntropies:
        """Loads a model from a path relative to OpusFilter's working directory, or by the name of a packaged model."""
        path = os.path.join(self.workdir, model_dir)
        model = path if os.path.exists(path) else model_dir
        limits = None, max_unknown_in_pair, self.max_tokens
        return TranslationEntropies(model, reverse, argument, end_weight, *limits)


class TranslationEntropyFilter(_EntropyFilter):
    """Accepts pairs whose target a model finds probable given the source.

    The score is the cross-entropy -ln p(target | source) / tokens in nats, including the end of sequence; low scores
    are accepted. The text is tokenized as the training data was.

    Args:
        model_dir: str. Directory of the model, relative to OpusFilter's working directory, or name of a model that
            comes with the package.
        threshold: float. Largest score that is accepted. Defaults to `5.0`; look at the scores of your corpus first.
        reverse: bool. Whether the model was trained with `--reverse`: -ln p(source | target). Defaults to `False`.
        end_weight: float. Number of tokens that the end of sequence counts as, see `TranslationEntropies`. Defaults to
            `1.0`.
        max_tokens: int. A pair with more words on a side, or with an empty side, is rejected. Defaults to `1000`.
        max_unknown_in_pair: float, from 0 to 1. A pair is rejected if a larger share of the words of a side is unknown
            to the model, see `TranslationEntropies`. Defaults to `0.5`.
        **kwargs: see `FilterABC` of OpusFilter: `name`, `workdir`.

    Raises:
        InputError: for a directory that cannot be used, or a model of the other direction.
        ConfigurationError: a ValueError, for a `threshold`, `end_weight`, `max_tokens` or `max_unknown_in_pair` that is
            not a number, such as a text in quotation marks, or is out of bounds.
    """

    score_direction = CLEAN_LOW
    accept_threshold, reject_threshold = math.inf, -1.0  # a cross-entropy is never negative

    def __init__(
        self,
        model_dir: str,
        threshold: float = 5.0,
        reverse: bool = False,
        end_weight: float = 1.0,
        max_tokens: int | None = MAX_TOKENS,
        max_unknown_in_pair: float = MAX_UNKNOWN,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self._set_limits(threshold, max_tokens)
        if not isinstance(reverse, bool):
            raise ConfigurationError("found {reverse}=%r, expected true or false", reverse)
        self._model = self._entropies(model_dir, reverse, "model_dir", end_weight, max_unknown_in_pair)

    def accept(self, score: float) -> bool:
        """Whether a score is low enough."""
        return score <= self.threshold

    def _scores(self, pairs: Sequence[TextPair]) -> list[float]:
        entropies: list[float] = self._model(pairs).tolist()
        return entropies


class DualEntropyFilter(_EntropyFilter):
    """Accepts pairs on which models of both directions agree: dual conditional cross-entropy.

    The score is exp(-(|Hf - Hr| + (Hf + Hr) / 2)) from 0 to 1, as `encdec-select --method=dual` computes it; high
    scores are accepted.

    Args:
        model_dir: str. Directory of the model of p(target | source), see `TranslationEntropyFilter`.
        reverse_model_dir: str. Directory of the model of p(source | target).
        threshold: float. Smallest score that is accepted. Defaults to `0.01`; look at the scores of your corpus first.
        end_weight: float. See `TranslationEntropies`. Defaults to `1.0`.
        max_tokens: int. See `TranslationEntropyFilter`. Defaults to `1000`.
        max_unknown_in_pair: float. See `TranslationEntropyFilter`; applies to each model. Defaults to `0.5`.
        **kwargs: see `FilterABC` of OpusFilter: `name`, `workdir`.

    Raises:
        InputError: for a directory that cannot be used, or a model of the wrong direction.
        ConfigurationError: a ValueError, for a `threshold`, `end_weight`, `max_tokens` or `max_unknown_in_pair` that is
            not a number, such as a text in quotation marks, or is out of bounds.

    Reference:
        - Junczys-Dowmunt, 2018, "Dual Conditional Cross-Entropy Filtering of Noisy Parallel Corpora" (WMT, W18-6478)
    """

    score_direction = CLEAN_HIGH
    accept_threshold, reject_threshold = -math.inf, math.inf

    def __init__(
        self,
        model_dir: str,
        reverse_model_dir: str,
        threshold: float = 0.01,
        end_weight: float = 1.0,
        max_tokens: int | None = MAX_TOKENS,
        max_unknown_in_pair: float = MAX_UNKNOWN,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self._set_limits(threshold, max_tokens)
        self._models = [
            self._entropies(model_dir, False, "model_dir", end_weight, max_unknown_in_pair),
            self._entropies(reverse_model_dir, True, "reverse_model_dir", end_weight, max_unknown_in_pair),
        ]

    def accept(self, score: float) -> bool:
        """Whether a score is high enough."""
        return score >= self.threshold

    def _scores(self, pairs: Sequence[TextPair]) -> list[float]:
        forward, reverse = (model(pairs) for model in self._models)
        scores: list[float] = dual_conditional_cross_entropy(forward, reverse).tolist()
        return scores
