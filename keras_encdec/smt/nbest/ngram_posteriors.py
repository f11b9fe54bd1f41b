"""Adds the posterior probabilities of n-grams to an n-best list, as a feature."""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from keras_encdec.configuration import hyperparameter
from keras_encdec.formats import FilePath, InputLines, append_features, open_output, parse_features
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.fields import LARGEST
from keras_encdec.formats.nbest import SentenceHypotheses, hypotheses_by_sentence
from keras_encdec.formats.nbest_line import check_feature_name, check_new_features
from keras_encdec.formats.pair_format import log_prob_text
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.task_options import EncodingOption

# The longest n-grams that BLEU counts.
LONGEST = 4

Ngram = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PosteriorOptions(EncodingOption):
    """Options of `add_ngram_posteriors`."""

    scale: float = hyperparameter(
        1.0,
        "A translation's probability is proportional to exp(scale * total score); with 0, all translations of a "
        "sentence are equally probable.",
        minimum=0.0,
    )
    feature_name: str = hyperparameter("NgramPosterior0", "Name of the feature, which has four values.")

    def check(self) -> None:
        check_feature_name(self.feature_name)


@dataclasses.dataclass(frozen=True)
class NgramPosteriorsSummary(FileSummary):
    """The result of `add_ngram_posteriors`.

    Attributes:
        lines, seconds, output: see `FileSummary`.
        translations: int. Number of translations that the probabilities were estimated from.
    """

    translations: int = 0


def add_ngram_posteriors(
    input: FilePath,
    translations: FilePath,
    output: FilePath,
    options: PosteriorOptions | None = None,
    *,
    progress: Callable[[InputLines], Progress] = Progress,
    **values: object,
) -> NgramPosteriorsSummary:
    """Adds a feature to an n-best list: how probable the n-grams of a hypothesis are in other translations.

        p(y | x)  proportional to exp(scale * total of y), over the translations y of the sentence x
        P(u | x)  = sum of p(y | x) over the translations that have the n-gram u
        value n   = sum of P(u | x) over the n-grams u of the hypothesis,   n = 1 .. 4

    A hypothesis that shares many n-grams with the model's own translations gets high values, even if the model has
    never seen its rarest word. With tuned weights of the four values, the hypothesis with the highest total is roughly
    the one with the least expected loss in BLEU (minimum Bayes risk). Words are compared without factors and without
    Moses's escapes.

    Args:
        input: n-best list, plain or gzipped. "-" means standard input.
        translations: n-best list of the model's translations of the same sentences, such as `generate_file` writes with
            format="moses_nbest". It may be the same list as `input`, whose totals then give the probabilities.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        options: PosteriorOptions. Defaults to `None`: those of the command.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used.
        InputError: if a list or the output cannot be used, or a sentence has no translations.

    Example:

        add_ngram_posteriors("nbest.gz", "translations.gz", "nbest.ngrams.gz")

    Reference:
        - Zens and Ney, 2006, "N-gram posterior probabilities for statistical machine translation"
        - Tromble et al., 2008, "Lattice minimum Bayes-risk decoding for statistical machine translation"
    """
    options = PosteriorOptions.combined(options, values)
    for path in (input, translations):  # which may be one list
        check_distinct_files(path, output)
    encoding, count = FileEncoding(options.encoding), 0
    with InputLines(input) as lines, InputLines(translations) as others, open_output(output) as file:
        with progress(lines) as written:
            for sentence, translated in _with_translations(lines, others):
                count += len(translated.hypotheses)
                posteriors = _posteriors(translated, options.scale, encoding, translations)
                rewritten = []
                for hypothesis in sentence.hypotheses:
                    known_features = parse_features(hypothesis.parsed.features)
                    check_new_features(known_features, [options.feature_name], lines.path, hypothesis.line_number)
                    words = hypothesis.words(encoding, input)
                    sums = [sum(posteriors.get(ngram, 0.0) for ngram in ngrams) for ngrams in _ngrams(words)]
                    text = " ".join(map(log_prob_text, sums))
                    rewritten.append(append_features(hypothesis.raw, [(options.feature_name, text)]))
                file.write(sentence.mark + b"\n" * (written.count > 0) + b"\n".join(rewritten))
                written.add(len(rewritten))
        if lines.ended_with_newline:
            file.write(b"\n")
    return NgramPosteriorsSummary(written.count, written.seconds, output, count)


def _with_translations(
    lines: InputLines, translations: InputLines
) -> Iterator[tuple[SentenceHypotheses, SentenceHypotheses]]:
    """Yields each sentence of a list and its translations in another; raises InputError if it has none."""
    translations_left = hypotheses_by_sentence(translations)
    translated: SentenceHypotheses | None = next(translations_left)
    for sentence in hypotheses_by_sentence(lines):
        while translated is not None and translated.id < sentence.id:
            translated = next(translations_left, None)
        if translated is None or translated.id > sentence.id:
            expected = f"expected one with translations in {translations.path}"
            remedy = "translate all sentences of the list"
            raise lines.error(f"found the id {sentence.id}", expected, remedy, sentence.hypotheses[0].line_number)
        yield sentence, translated
    for _ in translations_left:  # reports errors in the rest of the list, such as a truncated gzip file
        pass


def _posteriors(
    translated: SentenceHypotheses, scale: float, encoding: FileEncoding, path: FilePath
) -> Mapping[Ngram, float]:
    """Computes P(u | x) of each n-gram in the translations of a sentence."""
    totals = np.array([hypothesis.parsed.total for hypothesis in translated.hypotheses])
    # The bound keeps differences finite: an infinite difference times a scale of 0 would be nan.
    with np.errstate(over="ignore"):
        below = np.maximum(totals - totals.max(), -LARGEST)
        probabilities = np.exp(scale * below)
    posteriors: dict[Ngram, float] = collections.defaultdict(float)
    for hypothesis, probability in zip(translated.hypotheses, probabilities / probabilities.sum(), strict=True):
        words = hypothesis.words(encoding, path)
        for ngram in {ngram for ngrams in _ngrams(words) for ngram in ngrams}:
            posteriors[ngram] += float(probability)
    return posteriors


def _ngrams(words: list[str]) -> Iterator[list[Ngram]]:
    """Yields the n-grams of each order, with repetitions."""
    for order in range(1, LONGEST + 1):
        yield [tuple(words[i : i + order]) for i in range(len(words) - order + 1)]
