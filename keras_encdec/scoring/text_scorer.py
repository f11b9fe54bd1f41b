"""Log-probabilities of pairs of text, from a model directory."""

import copy
import itertools
import os
import reprlib
from collections.abc import Collection, Sequence

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.formats.fields import are_words
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring.pair_scorer import NgramCounts, PairScores
from keras_encdec.scoring.scorer import PairSpellings, Scorer
from keras_encdec.scoring.scoring_options import ScoringOptions
from keras_encdec.text.lexical_shortlist import LexicalShortlist
from keras_encdec.text.vocabulary import OpenVocabulary


class TextScorer:
    """Scores pairs of source and target words with the model of a directory, forward or reverse: a PairScorer.

    Source and target are the user's, whatever the model's direction: a reverse model gives p(source | target).

    Args:
        directory: path of a model directory, or a `ModelDirectory`.
        dtype: str. See `Scorer`.
        lexical_shortlist: LexicalShortlist, the words among which the model's probabilities are shared, see `Scorer`.
            A reverse model needs that of the other direction. Defaults to `None`: all words.

    Attributes:
        directory: ModelDirectory.
        dtype: str, as given.
        lexical_shortlist: LexicalShortlist or `None`, as given.

    Raises:
        InputError: see `ModelDirectory.load`; also if the directory was loaded without its weights.
        ValueError: if the dtype is unknown.

    Example:

        scorer = TextScorer("model")
        scorer.score([scorer.words("open the file", "ouvrir le fichier")])
    """

    def __init__(
        self,
        directory: ModelDirectory | str | os.PathLike[str],
        dtype: str | None = None,
        lexical_shortlist: LexicalShortlist | None = None,
    ) -> None:
        self.directory, self.lexical_shortlist = ModelDirectory.open(directory), lexical_shortlist
        if self.directory.model is None:
            found = "found a model directory that was loaded without its weights"
            expected = "expected one with its weights"
            remedy = "load it with ModelDirectory.load(path, weights=True)"
            raise InputError(found, expected, remedy, self.directory.path)
        self._scorer = Scorer(self.directory.model, dtype)
        self.dtype, self._is_borrowed = dtype, False

    @classmethod
    def open(cls, model: "ModelOrPath", dtype: str | None = None) -> "TextScorer":
        """Returns a scorer of a model that is given as a path, a directory or a scorer.

        Args:
            model: path of a model directory; a `ModelDirectory`; or a `TextScorer`. A `TextScorer` keeps its dtype
                and its compiled functions, and stays open when the returned scorer is closed.
            dtype: str. See `Scorer`.

        Returns:
            TextScorer. Close it after use.
        """
        if isinstance(model, TextScorer):
            borrowed = copy.copy(model)
            borrowed._is_borrowed = True
            return borrowed
        return cls(model, dtype)

    def close(self) -> None:
        """See `PairScorer.close`."""
        if not self._is_borrowed:
            self._scorer.close()

    def words(self, source: str, target: str) -> WordPair:
        """Splits one pair of text into words, see `ModelDirectory.words`."""
        return self.all_words([(source, target)])[0]

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """See `PairScorer.all_words`."""
        return _split(self.directory, pairs, factored)

    def score_pairs(
        self,
        pairs: Sequence[WordPair],
        *,
        token_log_probs: bool = False,
        unknown_count: bool = False,
        attention: bool = False,
    ) -> PairScores:
        """See `PairScorer.score_pairs`. One pass through the model computes all requested scores.

        Raises:
            ValueError: for anything but a pair of lists of words, such as a str, or words that are not str;
                if attention is requested and the model has none.
        """
        pairs = list(pairs)  # an iterator could be read only once
        ids, spellings = _ids(self.directory, pairs)
        unknown, source_unknown = _unknown_counts(self.directory, ids) if unknown_count else ([], [])
        candidates = self._candidates(pairs)
        if not (attention or token_log_probs):
            return PairScores(self._scorer.score(ids, spellings, candidates), [], unknown, source_unknown)
        if attention:
            tokens, weights = self._scorer.token_scores_with_attention(ids, spellings, candidates)
        else:
            tokens, weights = self._scorer.token_scores(ids, spellings, candidates), []
        log_prob = np.array([row.sum() for row in tokens])
        return PairScores(log_prob, tokens if token_log_probs else [], unknown, source_unknown, weights)

    def _candidates(self, pairs: Sequence[WordPair]) -> list[np.ndarray] | None:
        """Returns the candidates of each pair; equal sources share an array."""
        if self.lexical_shortlist is None:
            return None
        sources = [tuple(self.directory.reordered(pair)[0]) for pair in pairs]
        of_source = {source: self.lexical_shortlist.candidates(source) for source in dict.fromkeys(sources)}
        return [of_source[source] for source in sources]

    def score(self, pairs: Sequence[WordPair]) -> np.ndarray:
        """Computes ln p of each pair, including the end of sequence.

        Args:
            pairs: list of `(source words, target words)`, lists of str.

        Returns:
            float64 array `(n,)`, nats.

        Raises:
            ValueError: see `score_pairs`.
        """
        return self.score_pairs(pairs).log_prob

    def token_scores(self, pairs: Sequence[WordPair]) -> Sequence[np.ndarray]:
        """Computes ln p of each token that the model predicts, the end of sequence last.

        Args:
            pairs: list of `(source words, target words)`, lists of str.

        Returns:
            list of float64 arrays, one for each pair, with a value for each target token, nats; for a reverse model,
            with a value for each source token.

        Raises:
            ValueError: see `score_pairs`.
        """
        return self.score_pairs(pairs, token_log_probs=True).token_log_probs

    @property
    def has_attention(self) -> bool:
        """Whether the model has attention."""
        return self._scorer.has_attention

    def attention(self, pairs: Sequence[WordPair]) -> Sequence[np.ndarray]:
        """Computes the weights by which each token that the model predicts attends to each token that it reads.

        Args:
            pairs: list of `(source words, target words)`, lists of str.

        Returns:
            list of float32 arrays `(target tokens, source tokens)`, the ends of sequence included; for a reverse model
            `(source tokens, target tokens)`.

        Raises:
            ValueError: see `score_pairs`; also for a model without attention.
        """
        return self.score_pairs(pairs, attention=True).attention

    @property
    def ngram_counts(self) -> NgramCounts | None:
        """See `Scorer.ngram_counts`."""
        return self._scorer.ngram_counts


ModelOrPath = str | os.PathLike[str] | ModelDirectory | TextScorer


class DryScorer:
    """A PairScorer without a model: it splits text, looks up ids, and gives every token ln p = 0.

    Args:
        model: path of a model directory, a `ModelDirectory` or a `TextScorer`; the weights are not loaded.

    Attributes:
        directory: ModelDirectory.
        has_attention: `True`: all attention weights are 0.
        lexical_shortlist: is not used.
        ngram_counts: `None`.
    """

    has_attention = True
    lexical_shortlist: LexicalShortlist | None = None
    ngram_counts: NgramCounts | None = None

    def __init__(self, model: ModelOrPath) -> None:
        self.directory = ModelDirectory.open(model, weights=False)

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """See `PairScorer.all_words`."""
        return _split(self.directory, pairs, factored)

    def score_pairs(
        self,
        pairs: Sequence[WordPair],
        *,
        token_log_probs: bool = False,
        unknown_count: bool = False,
        attention: bool = False,
    ) -> PairScores:
        """See `PairScorer.score_pairs`."""
        ids, _ = _ids(self.directory, pairs)
        unknown, source_unknown = _unknown_counts(self.directory, ids) if unknown_count else ([], [])
        return PairScores(
            np.zeros(len(ids)),
            [np.zeros(len(target)) for _, target in ids] if token_log_probs else [],
            unknown,
            source_unknown,
            [np.zeros((len(target), len(source)), np.float32) for source, target in ids] if attention else [],
        )

    def close(self) -> None:
        """Does nothing: there are no computations to cancel."""


#: A PairScorer of a model directory.
ModelScorer = TextScorer | DryScorer


def open_scorers(options: ScoringOptions, models: Sequence[ModelOrPath]) -> list[ModelScorer]:
    """Opens the scorer of a model, and that of a reverse model if there is one.

    Args:
        options: ScoringOptions, of which `dtype`, `dry_run`, `alignments` and those of a lexical shortlist are used.
        models: list of the model and, if there is one, the reverse model, see `score_file`.

    Raises:
        InputError: if a model or the lexical shortlist cannot be used.
        ConfigurationError: a ValueError, if alignments are requested from a model without attention.
    """
    scorers = [DryScorer(model) if options.dry_run else TextScorer.open(model, options.dtype) for model in models]
    prepare_scorers(options, scorers)
    return scorers


def prepare_scorers(options: ScoringOptions, scorers: Sequence[ModelScorer]) -> None:
    """Checks scorers, and gives the first one the lexical shortlist of the options; see `open_scorers`."""
    model, reverse = scorers[0].directory, scorers[1].directory if len(scorers) > 1 else None
    options.check_models(model, reverse, scorers[0].has_attention)
    shortlist = LexicalShortlist.from_options(options, model.target_vocabulary, options.encoding)
    if shortlist is not None:
        scorers[0].lexical_shortlist = shortlist


def _split(directory: ModelDirectory, pairs: Sequence[tuple[str, str]], factored: bool) -> list[WordPair]:
    pairs = list(pairs)  # an iterator could be read only once
    for pair in pairs:
        if not _are_two(pair) or not (isinstance(pair[0], str) and isinstance(pair[1], str)):
            raise ValueError(f"found {reprlib.repr(pair)} in place of a pair, expected (source text, target text)")
    words = directory.words([side for pair in pairs for side in pair], factored)
    return list(zip(words[::2], words[1::2], strict=True))


def _are_two(pair: object) -> bool:
    """Returns whether an object is a collection of two items, and not a text."""
    return isinstance(pair, tuple | list | Collection) and not isinstance(pair, str | bytes) and len(pair) == 2


def _ids(
    directory: ModelDirectory, pairs: Sequence[WordPair]
) -> tuple[list[tuple[list[int], list[int]]], PairSpellings]:
    """Returns the ids that the model reads and those that it predicts, for each pair, and the rare words' spellings."""
    pairs = list(pairs)  # an iterator could be read only once
    for pair in pairs:
        if not _are_two(pair):
            found = f"found {reprlib.repr(pair)} in place of a pair"
            raise ValueError(f"{found}, expected (source words, target words); TextScorer.words splits text")
    for side in itertools.chain.from_iterable(pairs):
        if isinstance(side, str):
            raise ValueError(f"found the text {side!r}, expected a list of words; TextScorer.words splits text")
        if not are_words(side):
            found = f"found {reprlib.repr(side)} in place of a side of a pair"
            raise ValueError(f"{found}, expected a list of words, each a str; TextScorer.words splits text")
    read, predicted = OpenVocabulary(directory.source_vocabulary), OpenVocabulary(directory.target_vocabulary)
    ids = [(read.encode(source), predicted.encode(target)) for source, target in map(directory.reordered, pairs)]
    return ids, PairSpellings(read.spellings, predicted.spellings)


def _unknown_counts(
    directory: ModelDirectory, ids: Sequence[tuple[list[int], list[int]]]
) -> tuple[list[int], list[int]]:
    """Returns the numbers of unknown words in each target and in each source, as the user names the sides.

    A language model reads no source, so source words are not counted.
    """
    vocabularies = OpenVocabulary(directory.source_vocabulary), OpenVocabulary(directory.target_vocabulary)
    read, predicted = (
        [sum(map(vocabulary.is_rare, pair[side])) for pair in ids] for side, vocabulary in enumerate(vocabularies)
    )
    if not len(directory.source_vocabulary):
        read = []
    return (read, predicted) if directory.reverse else (predicted, read)
