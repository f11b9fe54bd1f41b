"""Target text for source text, from model directories."""

import collections
import dataclasses
import itertools
import os
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_encdec.decoding.generator import Generator
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search import Hypothesis
from keras_encdec.formats.fields import are_words, check_texts, split_tokens, text_in_place_of_words
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.spelling_rules import SpellingRules
from keras_encdec.text.lexical_shortlist import LexicalShortlist, RareTranslations
from keras_encdec.text.tokenizer import (
    CONTINUATION_MARK,
    WORD_START_MARK,
    are_sentencepieces,
    separate_words,
    word_around,
    word_text,
)
from keras_encdec.text.vocabulary import (
    UNKNOWN,
    UNKNOWN_WORD,
    OpenVocabulary,
    Vocabulary,
    is_position_word,
    position_distance,
    spelled_word,
    stands_for_unknown,
)
from keras_encdec.trained_model import check_ensemble


class UnknownReplacement:
    """Replaces each unknown word with the translation of the source word that it comes from.

    A word "unkpos_d" at target position j comes from the source word at position j - d, if there is one. Any other
    unknown word comes from the source word that it attends to most. It is replaced with the dictionary's translation of
    this source word or, if there is none, with the source word itself. Without attention, "<unk>", "unkpos_null" and
    "unkpos_d" with j - d outside the source have no source word; they become "<unk>".

    In text that is split into subwords (by byte-pair encoding with "@@", or SentencePiece with "\u2581"), an unknown
    piece is replaced with the translation of the whole source word, or with all its pieces, separated by spaces. The
    replacement is a separate word.

    Args:
        dictionary: dict from source word to target word. Defaults to `None`: source words are copied.

    Example:

    >>> replacement = UnknownReplacement({"chat": "cat"})
    >>> replacement.replaced(["the", "<unk>", "<unk>"], ["le", "chat", "Tom"], np.eye(4))
    ['the', 'cat', 'Tom']
    >>> replacement.replaced(["the", "unkpos_0"], ["le", "chat"])
    ['the', 'cat']

    Reference:
        - Luong et al., 2015, "Addressing the Rare Word Problem in Neural Machine Translation" (arXiv 1410.8206)
        - Jean et al., 2015 (arXiv 1412.2007), section 3.3: by attention
    """

    def __init__(self, dictionary: Mapping[str, str] | None = None) -> None:
        self._dictionary = dict(dictionary or {})

    def replaced(
        self, words: Sequence[str], source_words: Sequence[str], attention: np.ndarray | None = None
    ) -> list[str]:
        """Returns the words of a target, with its unknown words replaced.

        Args:
            words: list of str, the target, with "<unk>" or position words for unknown words.
            source_words: list of str, the words of the source as in the text, even those outside the vocabulary.
            attention: float array `(tokens, source_tokens)`, see `Hypothesis`. Optional.

        Raises:
            ValueError: for a text in place of the words of a side.
        """
        for side in (words, source_words):
            if isinstance(side, str):
                raise text_in_place_of_words(side)
        if not any(map(stands_for_unknown, words)):
            return list(words)
        positions = {j: self._source_position(j, word, source_words, attention) for j, word in enumerate(words)}
        sentencepieces = are_sentencepieces(source_words)
        aligned = {j: i for j, i in positions.items() if i is not None}
        replaced = [UNKNOWN_WORD if is_position_word(word) else word for word in words]
        for j, i in aligned.items():
            replaced[j] = self._translated(source_words, i, sentencepieces)
        return separate_words(replaced, aligned, sentencepieces)

    def _source_position(
        self, j: int, word: str, source_words: Sequence[str], attention: np.ndarray | None
    ) -> int | None:
        """Returns the source position of an unknown word at target position j; `None` if it has none or is known."""
        if not stands_for_unknown(word):
            return None
        distance = position_distance(word)
        if distance is not None and 0 <= j - distance < len(source_words):
            return j - distance
        if attention is not None and source_words:
            return int(np.argmax(attention[j, : len(source_words)]))  # without the end of sequence
        return None

    def _translated(self, source_words: Sequence[str], i: int, sentencepieces: bool) -> str:
        """Returns the replacement for an unknown word that comes from the source word at position i."""
        pieces = word_around(source_words, i)
        text, copied = word_text(pieces), " ".join(pieces).removesuffix(CONTINUATION_MARK)
        translation = self._dictionary.get(text)
        if not translation:
            return self._dictionary.get(copied) or copied
        if sentencepieces and WORD_START_MARK not in translation:
            return translation.replace(" ", f" {WORD_START_MARK}")  # otherwise, its words would be joined
        return translation


@dataclasses.dataclass(frozen=True)
class TextHypothesis:
    """A target text that was generated.

    Attributes:
        words: list of str; "<unk>" stands for the unknown word.
        log_prob: float. ln p in nats, end of sequence included.
        score: float. The score by which hypotheses are ranked.
        count: int. Number of times that a sample was drawn; 1 for a search.
        source_words: list of str, the words of the source in the model's tokenization.
        attention: see `Hypothesis`. The words that replace one unknown word have the same rows.
        spelling_log_prob: float. The part of `log_prob` that is ln p of the characters of words that the model spelled;
            `None` for a model that spells no words.
    """

    words: list[str]
    log_prob: float
    score: float
    count: int
    source_words: list[str]
    attention: np.ndarray | None = None
    spelling_log_prob: float | None = None


class TextGenerator:
    """Generates target text with the model of a directory, or with several as an ensemble.

    A reverse model, which gives p(source | target), generates sources from targets.

    Args:
        directories: list of `ModelDirectory` or of paths of model directories.
        weights: list of float. See `Ensemble`. Optional.
        average: str. See `Ensemble`. Defaults to "arithmetic".
        dtype: str. See `Generator`. Defaults to `None`: each model's own compute dtype.

    Attributes:
        settings: dict from name to value: the weights, the average and the dtype, as given.

    Raises:
        InputError: for models whose vocabularies, tokenization or directions differ.
        ValueError: for a path in place of the list, or an empty list.

    Example:

        generator = TextGenerator(["model"])
        generator.generate(["open the file"], BeamSampler(12))
    """

    def __init__(
        self,
        directories: Sequence[str | os.PathLike[str] | ModelDirectory],
        weights: Sequence[float] | None = None,
        average: str = "arithmetic",
        dtype: str | None = None,
    ) -> None:
        if isinstance(directories, str | os.PathLike | ModelDirectory) or not directories:
            found = "a ModelDirectory" if isinstance(directories, ModelDirectory) else repr(directories)
            raise ValueError(f"found {found}, expected a list of one or more model directories")
        self.directories = [ModelDirectory.open(directory) for directory in directories]
        check_ensemble(self.directories)
        self._first = self.directories[0]
        vocabulary = self._first.target_vocabulary
        rules = None if vocabulary.characters is None else SpellingRules(vocabulary.characters, vocabulary.words)
        models = [directory.model for directory in self.directories]
        self._generator = Generator(models, weights, average, dtype, rules)
        given = None if weights is None else list(map(float, weights))
        self.settings = {"weights": given, "average": average, "dtype": dtype}

    @property
    def has_source(self) -> bool:
        """Whether targets depend on a source; those of a language model do not."""
        return self._first.model.has_source

    @property
    def has_attention(self) -> bool:
        """Whether one of the models has attention."""
        return any(directory.model.decoder.has_attention for directory in self.directories)

    @property
    def spells_words(self) -> bool:
        """Whether the models spell unknown words by their characters."""
        return self._first.target_vocabulary.characters is not None

    @property
    def has_position_words(self) -> bool:
        """Whether the target vocabulary has position words, such as "unkpos_0"."""
        return any(map(is_position_word, self._first.target_vocabulary.words))

    def generate(
        self,
        lines: Sequence[str],
        sampler: Sampler | str = "greedy",
        replacement: UnknownReplacement | None = None,
        with_attention: bool = False,
        lexical_shortlist: LexicalShortlist | None = None,
        word_translations: RareTranslations | None = None,
        **arguments: object,
    ) -> list[list[TextHypothesis]]:
        """Generates targets.

        Args:
            lines: list of str, the sources; each is split into words as the training text was.
            sampler, with_attention, **arguments: see `Generator.generate`.
            replacement: UnknownReplacement. Defaults to `None`: unknown words are not replaced.
            lexical_shortlist: LexicalShortlist, the words that may follow. Defaults to `None`: all words of the
                vocabulary.
            word_translations: RareTranslations, which compete with the spellings of words. Only for a search with
                models that spell words. Defaults to `None`: none.

        Returns:
            list, for each line a list of distinct TextHypothesis, the best first. They are distinct before unknown
            words are replaced.

        Raises:
            ValueError: for a str in place of the list, or lists of words in it.
        """
        check_texts(lines)
        lines = list(lines)  # an iterator could be read only once
        for line in lines:
            if not isinstance(line, str):
                found = reprlib.repr(line)
                raise ValueError(f"found {found}, expected a list of texts; generate_words takes lists of words")
        words = self._first.words(lines)
        return self.generate_words(
            words, sampler, replacement, with_attention, lexical_shortlist, word_translations, **arguments
        )

    def generate_words(
        self,
        sources: Sequence[list[str]],
        sampler: Sampler | str = "greedy",
        replacement: UnknownReplacement | None = None,
        with_attention: bool = False,
        lexical_shortlist: LexicalShortlist | None = None,
        word_translations: RareTranslations | None = None,
        **arguments: Any,
    ) -> list[list[TextHypothesis]]:
        """Generates targets for sources that are split into words, see `ModelDirectory.words`.

        Args:
            sources: list of lists of str.
            sampler, replacement, with_attention, lexical_shortlist, word_translations, **arguments: see `generate`.

        Returns:
            list, for each source a list of distinct TextHypothesis, the best first.

        Raises:
            ValueError: for anything but lists of words, such as a str or a list of ids, and for a `replacement` that is
                not an UnknownReplacement.
        """
        if not isinstance(replacement, UnknownReplacement | None):
            raise ValueError(f"found replacement={replacement!r}, expected a keras_encdec.decoding.UnknownReplacement")
        sources = list(sources)  # an iterator could be read only once
        for words in sources:
            if isinstance(words, str) or not are_words(words):
                found = f"found the text {words!r}" if isinstance(words, str) else f"found {reprlib.repr(words)}"
                raise ValueError(f"{found}, expected a list of words, each a str; TextGenerator.generate splits text")
        vocabulary = OpenVocabulary(self._first.source_vocabulary)
        ids = [vocabulary.encode(words) for words in sources]
        if vocabulary.spellings is not None:
            arguments["spellings"] = vocabulary.spellings
        with_attention = with_attention or (replacement is not None and self.has_attention)
        if lexical_shortlist is not None:
            arguments["candidates"] = [lexical_shortlist.candidates(words) for words in sources]
        if word_translations is not None:
            arguments["translations"] = [word_translations.of_source(words) for words in sources]
        results = self._generator.generate(ids, sampler, with_attention=with_attention, **arguments)
        return [
            _distinct(hypotheses, self._first.target_vocabulary, words, replacement)
            for words, hypotheses in zip(sources, results, strict=True)
        ]


def _distinct(
    hypotheses: Sequence[Hypothesis],
    vocabulary: Vocabulary,
    source_words: list[str],
    replacement: UnknownReplacement | None,
) -> list[TextHypothesis]:
    """Returns the distinct hypotheses of a source as text, the best first."""
    counts = collections.Counter((hypothesis.ids, hypothesis.spellings) for hypothesis in hypotheses)
    distinct = {(hypothesis.ids, hypothesis.spellings): hypothesis for hypothesis in hypotheses}
    texts = []
    for key, hypothesis in sorted(distinct.items(), key=lambda item: -item[1].score):
        words = vocabulary.decode(hypothesis.ids)
        spelling_log_prob = None
        if vocabulary.characters is not None:
            spelling_log_prob = hypothesis.spelling_log_prob
            unknown = (position for position, number in enumerate(hypothesis.ids) if number == UNKNOWN)
            for position, spelling in zip(unknown, hypothesis.spellings, strict=True):
                words[position] = spelled_word(spelling, vocabulary.characters)
        _, log_prob, score, attention, *_ = hypothesis
        if replacement:
            parts = [split_tokens(word) for word in replacement.replaced(words, source_words, attention)]
            words = list(itertools.chain(*parts))
            if attention is not None:  # each word of a replacement of several words has the same attention
                attention = np.repeat(attention, [*map(len, parts), 1], axis=0)
        texts.append(TextHypothesis(words, log_prob, score, counts[key], source_words, attention, spelling_log_prob))
    return texts
