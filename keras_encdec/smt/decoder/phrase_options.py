"""Translation options of a sentence: the phrases of a table that may translate its phrases."""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import NamedTuple

from keras_encdec.formats.encodings import escape, model_words, unescape
from keras_encdec.formats.phrase_table import OccurringPhrases, PhraseTableRecord, log_score
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.progress import Progress
from keras_encdec.smt.decoder.decoding_options import UNKNOWN_WORD_VALUE, DecoderWeights
from keras_encdec.smt.ngrams.ngram_estimation import SENTENCE_BEGIN, SENTENCE_END, UNKNOWN
from keras_encdec.smt.ngrams.ngram_model import NgramModel

LN_10 = math.log(10)
_SPECIAL = frozenset({UNKNOWN.decode(), SENTENCE_BEGIN.decode(), SENTENCE_END.decode()})
# Number of words in the longest source phrases, as in Moses.
MAX_SOURCE_PHRASE = 20

# Maps a source phrase, not escaped, to its targets, escaped, with ln of their scores.
PhraseTable = Mapping[str, Sequence[tuple[str, tuple[float, ...]]]]


class PhraseOption(NamedTuple):
    """A phrase that may translate a source phrase.

    Attributes:
        text: str. Its words, escaped, separated by spaces; empty if the source phrase is deleted.
        words: tuple of str. These words, with or without escapes, as the language model has them.
        scores: tuple of float. ln of the scores of the table; 0 for an unknown word.
        score: float. The weighted sum of its features, without the language model and the distortion.
        estimate: float. The score plus the weighted ln p of its words by the language model, without a context.
        is_unknown: bool. Whether it is a copy of a word that the table lacks.
    """

    text: str
    words: tuple[str, ...]
    scores: tuple[float, ...]
    score: float
    estimate: float
    is_unknown: bool = False


def read_phrases(
    records: Iterable[PhraseTableRecord], lines: InputLines, sources: OccurringPhrases, shown: Progress
) -> PhraseTable:
    """Reads the lines of a phrase table that translate given phrases; errors name the place in `lines`.

    Raises:
        InputError: if the table cannot be read, or has a negative score.
    """
    phrases: dict[str, list[tuple[str, tuple[float, ...]]]] = {}
    last, occurs = None, False
    for record in records:
        shown.add(1)
        if record.source != last:
            last, source = record.source, " ".join(model_words(record.source))
            occurs = source in sources
        if record.parsed and occurs:
            scores = [float(score) for score in record.parsed.scores]
            # `read_phrase_scores` leaves such pairs out, because Moses does not translate with them. The decoder
            # refuses the table instead of silently translating without them.
            if min(scores) < 0:
                found = f"found the score {min(scores):g}"
                raise lines.error(found, "expected probabilities", "repair or remove the line")
            target = " ".join(model_words(record.target))  # may be empty: the phrase is deleted
            phrases.setdefault(source, []).append((escape(target), tuple(map(log_score, scores))))
    return phrases


class TranslationOptionFinder:
    """Makes the translation options of sentences: for each phrase, those with the best estimates.

    With a `table_limit` of 0, it makes all. The words of the model may or may not have Moses's escapes.
    """

    def __init__(self, phrases: PhraseTable, model: NgramModel, weights: DecoderWeights, table_limit: int) -> None:
        self._phrases, self._model, self._weights = phrases, model, weights
        self._table_limit = table_limit or None
        self._options: dict[str, list[PhraseOption]] = {}

    def of_sentence(self, words: Sequence[str]) -> dict[tuple[int, int], list[PhraseOption]]:
        """Maps `(start, end)`, the end exclusive, to the options of that phrase, the best first.

        A word without options is copied.
        """
        spans = {}
        for start in range(len(words)):
            for end in range(start + 1, min(start + MAX_SOURCE_PHRASE, len(words)) + 1):
                source = " ".join(words[start:end])
                options = self._of_phrase(source)
                if not options and end == start + 1:
                    zeros = (0.0,) * len(self._weights.translation)
                    options = [self._option(escape(source), zeros, is_unknown=True)]
                if options:
                    spans[start, end] = options
        return spans

    def _of_phrase(self, source: str) -> list[PhraseOption]:
        if source not in self._phrases:  # like most phrases of a sentence
            return []
        if source not in self._options:
            options = [self._option(*phrase) for phrase in self._phrases[source]]
            options.sort(key=lambda option: -option.estimate)
            self._options[source] = options[: self._table_limit]
        return self._options[source]

    def _option(self, text: str, scores: tuple[float, ...], is_unknown: bool = False) -> PhraseOption:
        words = tuple(map(self._word, text.split(" "))) if text else ()
        weights, state, log10 = self._weights, self._model.empty, 0.0
        for word in words:
            log10_of_word, state = self._model.advance(state, word)
            log10 += log10_of_word
        score = sum(map(mul, weights.translation, scores)) - weights.word_penalty * len(words) + weights.phrase_penalty
        if is_unknown:
            score += weights.unknown * UNKNOWN_WORD_VALUE
        return PhraseOption(text, words, scores, score, score + weights.language_model * log10 * LN_10, is_unknown)

    def _word(self, word: str) -> str:
        """Returns a word as the model has it, with or without escapes; an escaped `</s>` does not end the sentence."""
        plain = unescape(word)
        return plain if plain in self._model and word not in self._model and plain not in _SPECIAL else word
