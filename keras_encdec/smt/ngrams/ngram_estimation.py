"""Estimates an n-gram language model from text: interpolated modified Kneser-Ney smoothing, as an ARPA file."""

import dataclasses
import importlib.util
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from keras_encdec.configuration import hyperparameter
from keras_encdec.errors import FilePath, InputError, quoted
from keras_encdec.formats.encodings import FileEncoding, escape, without_mark
from keras_encdec.formats.fields import split_tokens
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.imports import not_installed
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.progress import FileSummary, Progress, counted
from keras_encdec.task_options import EncodingOption

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UNKNOWN, SENTENCE_BEGIN, SENTENCE_END = b"<unk>", b"<s>", b"</s>"
_SPECIAL = (UNKNOWN, SENTENCE_BEGIN, SENTENCE_END)
_UNKNOWN_ID, _BEGIN_ID, _END_ID = range(3)
# The discounts of lmplz's option --discount_fallback.
_FALLBACK = (0.5, 1.0, 1.5)
# log10 of 0 in the file, as in SRILM: the beginning of a sentence is never predicted.
_LOG10_ZERO = -99.0


#: The largest order that KenLM reads in its usual builds, such as the package `kenlm`.
MAX_ORDER = 6


@dataclasses.dataclass(frozen=True)
class NgramOptions(EncodingOption):
    """Options of `estimate_ngrams`."""

    order: int = hyperparameter(
        5,
        f"Number of words in the longest n-grams. KenLM reads models from order 2 on, usually up to {MAX_ORDER}.",
        minimum=2,
    )
    min_count: int = hyperparameter(
        1, "Leave out words that occur fewer times than this; they become the unknown word.", minimum=1
    )


@dataclasses.dataclass(frozen=True)
class NgramSummary(FileSummary):
    """The result of `estimate_ngrams`.

    Attributes:
        lines: int. Number of sentences read.
        seconds, output: see `FileSummary`.
        ngrams: tuple of int. Number of n-grams of each order, from unigrams up; the unigrams include `<unk>`, `<s>` and
            `</s>`.
        fallback: tuple of int. The orders that use the default discounts 0.5, 1 and 1.5, because the text is too short
            to estimate them.
    """

    ngrams: tuple[int, ...] = ()
    fallback: tuple[int, ...] = ()

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about what is needed to read the file."""
        if (order := len(self.ngrams)) > MAX_ORDER:
            return [
                f"Commands read this file with KenLM, which is usually built for orders up to {MAX_ORDER}, not "
                f"{order}; to use it with them, give --order={MAX_ORDER} or less."
            ]
        if importlib.util.find_spec("kenlm"):
            return []
        return [f"Commands read this file with kenlm, {not_installed('kenlm', 'ngram')}."]

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,}" for count in self.ngrams)
        default = ", ".join(map(str, self.fallback))
        default = f" (default discounts for order {default}: too little text)" if default else ""
        return (
            f"n-grams of order 1 to {len(self.ngrams)}: {counts}, from {counted(self.lines, 'sentences')}{default} in "
            f"{self.seconds:,.1f} s: {self._result}"
        )


def estimate_ngrams(
    input: FilePath,
    output: FilePath,
    options: NgramOptions | None = None,
    *,
    vocabulary: FilePath | None = None,
    progress: Callable[[InputLines, str], Progress] = Progress,
    **values: object,
) -> NgramSummary:
    """Estimates an n-gram language model and writes it as an ARPA file.

    The smoothing is interpolated modified Kneser-Ney. It counts n-grams of the highest order, and those that begin a
    sentence, as often as they occur; any other n-gram counts once for each distinct word that precedes it. With this
    count a,

        p(w|h)  = (a(hw) - D(a(hw))) / a(h) + g(h) p(w|h'),    a(h) the sum of a(hw) over all w,
        g(h)    = (D_1 N_1(h) + D_2 N_2(h) + D_3 N_3(h)) / a(h),    N_k(h) the number of w with a(hw) = k, or >= 3,
        D_k     = k - (k + 1) t_1 / (t_1 + 2 t_2) t_{k+1} / t_k,    t_k the number of n-grams of the order with a = k.

    Unigrams are interpolated with the uniform distribution over the words, `</s>` and `<unk>`, so `<unk>` gets its
    share of the discounted mass. One `<s>` precedes each sentence. All n-grams are kept. The order is lower if no
    sentence is long enough. These are the definitions of KenLM's `lmplz`. If the counts of an order do not give
    0 < D_k <= k, its discounts are 0.5, 1 and 1.5, as with `lmplz --discount_fallback`.

    With `vocabulary` or `min_count`, words that the model does not have are read as the word `<unk>`, so `<unk>` has
    the probability of such words in the text. Models of the same vocabulary can be compared, as Moore and Lewis (2010)
    do to select data.

    Memory holds the numbers of all words of the text, and the distinct n-grams of each order.

    Args:
        input: sentences, one per line, words separated by spaces, plain or gzipped. "-" means standard input. An empty
            line is an empty sentence.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        options: NgramOptions. Defaults to `None`: those of the command.
        vocabulary: file with the words that the model has, as text or a list; `min_count` then refers to this file.
            Defaults to `None`: `input` itself.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used.
        InputError: if the text cannot be read, or has one of the words `<s>`, `</s>` and `<unk>`, a NUL character, or
            a carriage return inside a line, and if no word occurs often enough.

    Example:

        estimate_ngrams("train.fr", "lm.fr.arpa.gz")

    References:
        - Chen and Goodman, 1998, "An Empirical Study of Smoothing Techniques for Language Modeling" (TR-10-98)
        - Heafield et al., 2013, "Scalable Modified Kneser-Ney Language Model Estimation" (P13-2121)
    """
    check_distinct_files(input, output)
    check_distinct_files(vocabulary, output)
    options = NgramOptions.combined(options, values)
    start, file_encoding = time.monotonic(), FileEncoding(options.encoding)
    with open_output(output) as file:
        with InputLines(input) as lines, progress(lines, "sentences") as shown:
            words, ids, lengths = _read(lines, file_encoding, shown)
        counted_words, counted_ids = words, ids
        if vocabulary is not None:
            with InputLines(vocabulary) as lines:
                counted_words, counted_ids, _ = _read(lines, file_encoding, Progress(lines, "sentences"))
        if vocabulary is not None or options.min_count > 1:
            known = _frequent(counted_words, counted_ids, options.min_count)
            if len(known) == len(_SPECIAL):
                found = f"found no word that occurs at least {counted(options.min_count, 'times')}"
                raise InputError(found, "expected one", "give a smaller --min_count, or more text", lines.path)
            numbers = {word: number for number, word in enumerate(known)}
            ids = np.array([numbers.get(word, _UNKNOWN_ID) for word in words], np.int64)[ids]
            words = known
        orders = _counted(ids, lengths, options.order, len(words))
        fallback = tuple(number for number, ngrams in enumerate(orders, start=1) if ngrams.smooth())
        file.write(b"\\data\\\n")
        file.writelines(b"ngram %d=%d\n" % (number, len(ngrams.words)) for number, ngrams in enumerate(orders, start=1))
        for section in _sections(orders, words):
            file.writelines(section)
        file.write(b"\n\\end\\\n")
    sizes = tuple(len(ngrams.words) for ngrams in orders)
    return NgramSummary(len(lengths), time.monotonic() - start, output, sizes, fallback)


def _read(lines: InputLines, encoding: FileEncoding, shown: Progress) -> tuple[list[bytes], Integers, Integers]:
    """Reads the vocabulary, the ids of all sentences with `<s>` and `</s>`, and the number of ids of each sentence."""
    vocabulary: dict[bytes, int] = {word: number for number, word in enumerate(_SPECIAL)}
    ids: list[int] = []
    lengths: list[int] = []
    for raw in lines:
        encoding.decode_line(raw, lines.path, lines.line_number)
        if encoding.is_utf8:
            raw = without_mark(raw, lines.line_number)
        # In encodings that contain ASCII, the bytes of a space and a tab are never part of another character.
        words = split_tokens(raw.removesuffix(b"\r"))
        for word in words:
            if word in _SPECIAL:
                found, expected = f"found the word {word.decode()}", "expected words other than <s>, </s> and <unk>"
                raise lines.error(found, expected, f"remove it, or escape it as {escape(word.decode())}")
            if b"\r" in word:  # ends a line for KenLM and SRILM
                raise lines.error(
                    f"found a carriage return in the word {quoted(word)}",
                    "expected carriage returns at the ends of lines only, one each",
                    "convert the ends of lines",
                )
            if b"\0" in word:  # ends a word for KenLM
                found = f"found a NUL character in the word {quoted(word)}"
                raise lines.error(found, "expected none", "remove them, such as with tr -d '\\000'")
        ids.append(_BEGIN_ID)
        ids += [vocabulary.setdefault(word, len(vocabulary)) for word in words]
        ids.append(_END_ID)
        lengths.append(len(words) + 2)
        shown.add(1)
    return list(vocabulary), np.array(ids, np.int64), np.array(lengths, np.int64)


def _frequent(words: list[bytes], ids: Integers, min_count: int) -> list[bytes]:
    """Returns the special words, and those that occur often enough."""
    counts = np.bincount(ids, minlength=len(words))
    counts[: len(_SPECIAL)] = min_count
    return [words[number] for number in np.flatnonzero(counts >= min_count)]


class _Ngrams:
    """The n-grams of one order.

    Attributes:
        words: int array `(ngrams,)`. The last word of each n-gram.
        contexts: int array `(ngrams,)`. The n-gram of the order below that the other words form; 0 for unigrams.
        suffixes: int array `(ngrams,)`. The n-gram of the order below without the first word; 0 for unigrams.
        begins: bool array `(ngrams,)`. Whether the first word is `<s>`.
        counts: int array `(ngrams,)`. The counts a that are smoothed.
        below: the _Ngrams of the order below; `None` for unigrams.
        probs: float64 array `(ngrams,)`. The probability of the last word.
        back_off: float64 array. The back-off weight of each n-gram of the order below; for unigrams, that of the empty
            context.
    """

    def __init__(
        self,
        words: Integers,
        contexts: Integers,
        suffixes: Integers,
        begins: npt.NDArray[np.bool_],
        below: "_Ngrams | None",
    ) -> None:
        self.words, self.contexts, self.suffixes, self.begins, self.below = words, contexts, suffixes, begins, below
        self.counts: Integers = np.zeros(0, np.int64)
        self.probs: Floats = np.zeros(0)
        self.back_off: Floats = np.zeros(0)

    def smooth(self) -> bool:
        """Computes `probs` and `back_off`; returns whether it uses the default discounts."""
        discounts, default = _discounts(self.counts)
        discount = np.array([0.0, *discounts])[np.minimum(self.counts, 3)]
        size = 1 if self.below is None else len(self.below.words)
        totals = np.bincount(self.contexts, self.counts, minlength=size)
        totals[totals == 0] = 1  # n-grams that are never a context
        self.back_off = np.bincount(self.contexts, discount, minlength=size) / totals
        self.probs = (self.counts - discount) / totals[self.contexts]
        if self.below is None:
            self.probs += self.back_off[0] / (len(self.words) - 1)
            self.probs[_BEGIN_ID] = 0
        else:
            self.probs += self.back_off[self.contexts] * self.below.probs[self.suffixes]
        return default


def _counted(ids: Integers, lengths: Integers, order: int, vocabulary_size: int) -> list[_Ngrams]:
    """Counts the n-grams of every order that occur."""
    starts = np.cumsum(lengths) - lengths
    left = np.repeat(starts + lengths, lengths) - np.arange(len(ids))  # words up to the end of the sentence
    words = np.arange(vocabulary_size)
    zeros = np.zeros(vocabulary_size, np.int64)
    orders = [_Ngrams(words, zeros, zeros, words == _BEGIN_ID, None)]
    occurrences = [np.bincount(ids, minlength=vocabulary_size)]
    ngram_at = ids  # the index of the n-gram that begins at each position, where the sentence is long enough
    for length in range(2, order + 1):
        positions = np.flatnonzero(left >= length)
        if not len(positions):
            break
        keys = ngram_at[positions] * vocabulary_size + ids[positions + length - 1]
        distinct, first, number, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        contexts, last_words = np.divmod(distinct, vocabulary_size)
        suffixes = ngram_at[positions[first] + 1]
        orders.append(_Ngrams(last_words, contexts, suffixes, orders[-1].begins[contexts], orders[-1]))
        occurrences.append(count)
        ngram_at = np.zeros_like(ids)
        ngram_at[positions] = number
    orders[-1].counts = occurrences[-1]
    for ngrams, above, count in zip(orders[:-1], orders[1:], occurrences[:-1], strict=True):
        preceding = np.bincount(above.suffixes, minlength=len(ngrams.words))
        ngrams.counts = np.where(ngrams.begins, count, preceding)
    orders[0].counts = np.where(orders[0].begins, 0, orders[0].counts)
    return orders


def _discounts(counts: Integers) -> tuple[tuple[float, ...], bool]:
    """Returns D_1, D_2 and D_3, and whether they are the default discounts."""
    t1, t2, t3, t4 = (int(np.count_nonzero(counts == k)) for k in range(1, 5))
    if t1 and t2 and t3:
        y = t1 / (t1 + 2 * t2)
        discounts = 1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3
        if all(0 < discount <= k for k, discount in enumerate(discounts, start=1)):
            return discounts, False
    return _FALLBACK, True


def _sections(orders: list[_Ngrams], vocabulary: list[bytes]) -> Iterator[Iterator[bytes]]:
    """Yields the lines of each order."""
    texts = vocabulary
    for number, ngrams in enumerate(orders, start=1):
        if number > 1:
            words = map(vocabulary.__getitem__, ngrams.words.tolist())
            texts = [b"%b %b" % (texts[c], word) for c, word in zip(ngrams.contexts.tolist(), words, strict=True)]
        yield iter((b"\n\\%d-grams:\n" % number,))
        with np.errstate(divide="ignore"):
            log_probs = np.maximum(np.log10(ngrams.probs), _LOG10_ZERO).tolist()
            if number == len(orders):
                yield (b"%.7g\t%b\n" % pair for pair in zip(log_probs, texts, strict=True))
                return
            above = orders[number].back_off
            back_off = np.log10(np.where(above > 0, above, 1.0)).tolist()
        yield (b"%.7g\t%b\t%.7g\n" % line for line in zip(log_probs, texts, back_off, strict=True))
