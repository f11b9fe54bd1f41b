"""Generates the targets of a file window by window, and writes them with their alignments, in any format."""

import copy
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple, Self

from keras_encdec.decoding.generation_options import GenerationOptions
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search_batches import LENGTH_FACTOR
from keras_encdec.decoding.text_generator import TextGenerator, TextHypothesis, UnknownReplacement
from keras_encdec.errors import FilePath
from keras_encdec.formats.alignments import alignment_line
from keras_encdec.formats.encodings import FileEncoding, escape
from keras_encdec.scoring.scoring_options import FEATURE_NAME
from keras_encdec.text.lexical_shortlist import LexicalShortlist, RareTranslations, read_dictionary, read_translations
from keras_encdec.text.tokenizer import SUBWORD_JOINERS
from keras_encdec.text.vocabulary import UNKNOWN

# Maximum number of words of a sentence from a language model.
LANGUAGE_MODEL_LIMIT = 50


class Window(NamedTuple):
    """Consecutive `sources` of the input, and the index of the `first` of them, from 0."""

    first: int
    sources: list[str]


class FoundTargets(NamedTuple):
    """The `hypotheses` of each source of a `window`, the best first."""

    window: Window
    hypotheses: list[list[TextHypothesis]]


class FileGenerator:
    """Generates the targets of a file, or of a part of it.

    Args:
        generator: TextGenerator.
        sampler: Sampler.
        options: GenerationOptions.
        input: the path of the sources; `None` for a language model.

    Attributes:
        counts: Counter of the sources' "words" so far, of the "unknown" ones, which are outside the shortlist, of the
            unknown ones that are known "in_lower_case", and of the sources whose best target is "empty", although they
            have words.

    Raises:
        ConfigurationError: a ValueError, if the options do not suit the model.
    """

    def __init__(
        self, generator: TextGenerator, sampler: Sampler, options: GenerationOptions, input: FilePath | None
    ) -> None:
        options.check_models([generator], input)
        self.counts: Counter[str] = Counter()
        self._directory = generator.directories[0]
        self._options, self._input, self._encoding = options, input, FileEncoding(options.encoding)
        self._writer = _WRITERS[options.format](options, with_source=bool(input), with_count=sampler.needs_draws)
        self._link_line = alignment_line(options)
        limit = None if generator.has_source else LANGUAGE_MODEL_LIMIT
        further = {name: getattr(options, name) for name in ("character_beam", "translation_weight")}
        self._generate: Callable[..., list[list[TextHypothesis]]] = functools.partial(
            generator.generate_words,
            sampler=sampler,
            replacement=_unknown_replacement(options),
            with_attention=self._link_line is not None,
            lexical_shortlist=LexicalShortlist.from_options(
                options, generator.directories[0].target_vocabulary, options.encoding
            ),
            word_translations=_word_translations(options, generator),
            full_scores=options.full_scores,
            max_length_factor=LENGTH_FACTOR if options.max_length_factor is None else options.max_length_factor,
            max_length=limit if options.max_length is None else options.max_length,
            **{name: value for name, value in further.items() if value is not None},
        )

    def of_part(self, part: FilePath, checks_unknown: bool) -> Self:
        """Returns a generator of a part of the file, which counts from 0; it shares the tables of word translations.

        Args:
            part: the part, as `InputLines` takes it.
            checks_unknown: bool. Whether it checks the share of unknown words in the part.
        """
        generator = copy.copy(self)
        generator.counts, generator._input = Counter(), part
        if not checks_unknown:
            generator._options = self._options.replace(max_unknown=None)
        return generator

    def search(self, window: Window) -> FoundTargets:
        """Searches for the targets of a window.

        Raises:
            InputError: if too many of the words so far are unknown to the model.
        """
        words = self._directory.words(window.sources)
        self._count_words(words)
        found = self._generate(words, first=window.first)
        self.counts["empty"] += sum(
            1 for source, targets in zip(words, found, strict=True) if source and not targets[0].words
        )
        return FoundTargets(window, found)

    def write(self, found: FoundTargets, outputs: Sequence[BinaryIO]) -> int:
        """Writes the targets of a window, and returns the number of its sources.

        Args:
            found: FoundTargets.
            outputs: list of binary files: one for the targets, and, if the options name one, one for the alignments.

        Raises:
            InputError: if the encoding lacks a character of a target.
        """
        pairs = zip(found.window.sources, found.hypotheses, strict=True)
        for number, (source, hypotheses) in enumerate(pairs, start=found.window.first):
            texts = [self._writer.lines(number, source, hypotheses)]
            if self._link_line:
                texts.append("".join(map(self._link_text, self._writer.written(hypotheses))))
            for output, text in zip(outputs, texts, strict=True):
                output.write(self._encoded(text, number))
        outputs[0].flush()
        return len(found.window.sources)

    def _link_text(self, hypothesis: TextHypothesis) -> str:
        assert self._link_line is not None and hypothesis.attention is not None
        return self._link_line(hypothesis.source_words, hypothesis.words, hypothesis.attention) + "\n"

    def _encoded(self, text: str, number: int) -> bytes:
        expected, remedy = "one that has all of the model's words", "leave --encoding out, for UTF-8"
        return self._encoding.encode_line(text, self._input, number + 1, "the generated text", expected, remedy)

    def _count_words(self, sources: Sequence[Sequence[str]]) -> None:
        """Counts the words of sources, and checks the share of unknown ones before the search, which takes long."""
        for words in sources:
            vocabulary = self._directory.source_vocabulary
            unknown = vocabulary.encode(words).count(UNKNOWN)
            in_lower_case = vocabulary.known_in_lower_case(words) if unknown else 0
            self.counts.update(words=len(words), unknown=unknown, in_lower_case=in_lower_case)
        self._options.check_unknown("source", self.counts["words"], self.counts["unknown"])


def _unknown_replacement(options: GenerationOptions) -> UnknownReplacement | None:
    if not options.replace_unknown:
        return None
    return UnknownReplacement(read_dictionary(options.dictionary, options.encoding) if options.dictionary else None)


def _word_translations(options: GenerationOptions, generator: TextGenerator) -> RareTranslations | None:
    if not options.word_translations:
        return None
    translations = read_translations(options.word_translations, options.encoding)
    return RareTranslations(translations, generator.directories[0].target_vocabulary)


class TextWriter:
    """Writes the best target of each source, one per line.

    Args:
        options: GenerationOptions.
        with_source: bool. Whether there are sources; a language model has none.
        with_count: bool. Whether the hypotheses are samples, whose counts are written.
    """

    def __init__(self, options: GenerationOptions, with_source: bool, with_count: bool) -> None:
        self._options, self._with_source, self._with_count = options, with_source, with_count
        self._join = SUBWORD_JOINERS[options.join_subwords] if options.join_subwords else " ".join

    def written(self, hypotheses: Sequence[TextHypothesis]) -> Sequence[TextHypothesis]:
        """Returns the hypotheses of a source that are written.

        Args:
            hypotheses: the best first.
        """
        return hypotheses[:1]

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        """Returns the lines to write for a source.

        Args:
            number: int. Index of the source in the input, from 0.
            source: str.
            hypotheses: at least one, the best first.
        """
        return self._target(hypotheses[0]) + "\n"

    def _target(self, hypothesis: TextHypothesis) -> str:
        text = self._join(hypothesis.words)
        return escape(text) if self._options.escape else text


class TsvWriter(TextWriter):
    """Writes tab-separated lines of source (if any), target, ln p and, for samples, count."""

    def written(self, hypotheses: Sequence[TextHypothesis]) -> Sequence[TextHypothesis]:
        return hypotheses[: self._options.most]

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        source_column = [source.replace("\t", " ")] if self._with_source else []
        rows = []
        for hypothesis in self.written(hypotheses):
            count_column = [str(hypothesis.count)] if self._with_count else []
            rows.append([*source_column, self._target(hypothesis), f"{hypothesis.log_prob:.6f}", *count_column])
        return "".join("\t".join(row) + "\n" for row in rows)


class MosesNBestWriter(TsvWriter):
    """Writes a Moses n-best list: `number ||| target ||| feature= ln p ||| score`, always with escapes.

    For a model that spells words, the feature has two values: ln p of the words, and ln p of the characters.
    """

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        feature = self._options.feature_name or FEATURE_NAME
        return "".join(
            f"{number} ||| {escape(self._join(hypothesis.words))}  ||| "
            f"{feature}= {_values(hypothesis)} ||| {hypothesis.score:.6g}\n"
            for hypothesis in self.written(hypotheses)
        )


def _values(hypothesis: TextHypothesis) -> str:
    spelling_log_prob = hypothesis.spelling_log_prob
    if spelling_log_prob is None:
        return f"{hypothesis.log_prob:.6f}"
    return f"{hypothesis.log_prob - spelling_log_prob:.6f} {spelling_log_prob:.6f}"


_WRITERS = {"text": TextWriter, "tsv": TsvWriter, "moses_nbest": MosesNBestWriter}
