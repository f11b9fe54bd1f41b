"""Makes a dictionary from aligned text: the most frequent translations of each source word."""

import collections
import dataclasses
import itertools
import time
from collections.abc import Iterable

from keras_encdec.data.pairs import open_aligned_pairs
from keras_encdec.errors import FilePath
from keras_encdec.formats.alignments import AlignedWordPair
from keras_encdec.formats.encodings import FileEncoding, unescape
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.progress import FileSummary, Progress, ShowProgress, counted
from keras_encdec.smt.extraction.extraction_options import DictionaryOptions, raw_text_tokenizer
from keras_encdec.task_options import SHORTLIST_WORDS

# A word that is aligned only once to its translation is often aligned wrongly.
MIN_COUNT = 2


@dataclasses.dataclass(frozen=True)
class DictionaryEntry:
    """A word and its most frequent translation.

    Attributes:
        source: str.
        target: str. The target word that it is aligned to most often.
        count: int. How often it is aligned to that word.
    """

    source: str
    target: str
    count: int


@dataclasses.dataclass(frozen=True)
class DictionarySummary(FileSummary):
    """The result of `write_dictionary`.

    Attributes:
        lines: int. Number of entries written.
        seconds, output: see `FileSummary`.
        pairs: int. Number of pairs read.
        malformed: int. Number of malformed lines left out.
        min_count: int. Words that are aligned to their translation fewer times than this were left out.
    """

    pairs: int = 0
    malformed: int = 0
    min_count: int = 1

    def __str__(self) -> str:
        left_out = f", {self.malformed:,} malformed left out" if self.malformed else ""
        entries, pairs = counted(self.lines, "entries"), counted(self.pairs, "pairs")
        reason = ""
        if not self.lines and self.min_count > 1:
            reason = f" (no word is aligned to its translation {self.min_count} times; give a smaller --min_count)"
        return f"{entries}{reason} from {pairs}{left_out} in {self.seconds:,.1f} s: {self._result}"


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation of a word. Each of its probabilities is the share of one word's links that lead to the other word.

    Attributes:
        source: str.
        target: str.
        forward: float. p(target | source).
        backward: float. p(source | target).
    """

    source: str
    target: str
    forward: float
    backward: float


def dictionary_entries(pairs: Iterable[AlignedWordPair], min_count: int = MIN_COUNT) -> list[DictionaryEntry]:
    """Finds the most frequent translation of each source word of aligned pairs.

    Memory holds the count of each distinct pair of aligned words.

    Args:
        pairs: iterable of `(source words, target words, links)`, see `open_aligned_pairs`.
        min_count: int. Words that are aligned to their translation fewer times than this are left out. Luong et al.
            (2015) use 100 for 12 million pairs. Defaults to `2`.

    Returns:
        list of DictionaryEntry, in the code point order of the source words. Among equally frequent translations, the
        first in code point order is taken.

    Example:

    >>> pairs = [(["le", "chat"], ["the", "cat"], [(0, 0), (1, 1)]), (["chat"], ["cat"], [(0, 0)])]
    >>> dictionary_entries(pairs)
    [DictionaryEntry(source='chat', target='cat', count=2)]

    Reference:
        - Luong et al., 2015, "Addressing the Rare Word Problem in Neural Machine Translation" (arXiv 1410.8206)
    """
    entries = []
    for word, translations in sorted(_link_counts(pairs).items()):
        translation, count = min(translations.items(), key=lambda item: (-item[1], item[0]))
        if count >= min_count:
            entries.append(DictionaryEntry(word, translation, count))
    return entries


def translations(
    pairs: Iterable[AlignedWordPair], max_translations: int = SHORTLIST_WORDS, min_count: int = 1
) -> list[Translation]:
    """Finds the most probable translations of each source word of aligned pairs.

    Memory holds the count of each distinct pair of aligned words.

    Args:
        pairs: iterable of `(source words, target words, links)`, see `open_aligned_pairs`.
        max_translations: int. Maximum number of translations of each word. Defaults to `100`.
        min_count: int. Translations that are aligned fewer times than this are left out. Defaults to `1`.

    Returns:
        list of Translation, in the code point order of the source words, the most probable translations of each first.

    Example:

    >>> pairs = [(["le", "chat"], ["the", "cat"], [(0, 0), (1, 1)]), (["chat"], ["cats"], [(0, 0)])]
    >>> [(entry.source, entry.target, entry.forward) for entry in translations(pairs)]
    [('chat', 'cat', 0.5), ('chat', 'cats', 0.5), ('le', 'the', 1.0)]
    """
    counts = _link_counts(pairs)
    target_totals: collections.Counter[str] = collections.Counter()
    for targets in counts.values():
        target_totals.update(targets)
    found = []
    for source, targets in sorted(counts.items()):
        total = targets.total()
        entries = [
            Translation(source, target, count / total, count / target_totals[target])
            for target, count in targets.items()
            if count >= min_count
        ]
        found += sorted(entries, key=lambda entry: (-entry.forward, -entry.backward, entry.target))[:max_translations]
    return found


def _link_counts(pairs: Iterable[AlignedWordPair]) -> dict[str, collections.Counter[str]]:
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for source, target, links in pairs:
        for i, j in links:
            counts[source[i]][target[j]] += 1
    return counts


def write_dictionary(
    input: FilePath,
    output: FilePath,
    options: DictionaryOptions | None = None,
    *,
    format: str = "tsv",
    source: FilePath | None = None,
    alignment: FilePath | None = None,
    progress: ShowProgress = Progress,
    **values: object,
) -> DictionarySummary:
    """Writes a dictionary: lines of a source word, its most frequent translation and their count, separated by tabs.

    With `shortlist`, the lines have a source word, one of its translations, p(target | source) and p(source | target).
    The output appears when it is complete. `keras_encdec.text.lexical_shortlist.read_dictionary` reads a dictionary,
    `keras_encdec.text.lexical_shortlist.read_translations` a shortlist.

    Args:
        input: pairs, or the target sentences of parallel text, plain or gzipped.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        options: DictionaryOptions. Defaults to `None`: those of the command.
        format: str. Name of a registered format, such as "tsv" or "parallel". Defaults to "tsv".
        source: the source sentences of parallel text. Optional.
        alignment: file of links. Without it, the pairs are aligned, see `open_aligned_pairs`. Optional.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used or contradict one another.
        ImportError: if sil-thot is needed and is not installed.
        InputError: if the pairs or the alignment cannot be used.

    Example:

        write_dictionary("train.fr", "dictionary.tsv", format="parallel", source="train.en", alignment="train.align")
    """
    check_distinct_files(input, output, source, alignment)
    options = DictionaryOptions.combined(options, values)
    start, file_encoding = time.monotonic(), FileEncoding(options.encoding)
    with (
        open_output(output) as file,
        open_aligned_pairs(
            input,
            format,
            alignment=alignment,
            source_path=source,
            encoding=options.encoding,
            on_error=options.on_error,
            tokenizer=raw_text_tokenizer(options),
            reverse=options.reverse,
            progress=progress,
        ) as (aligned, reader),
    ):
        numbers = itertools.count()
        pairs = (pair for pair, _ in zip(aligned, numbers, strict=False))
        min_count = options.min_count or (1 if options.shortlist else MIN_COUNT)
        if options.shortlist:
            found = translations(pairs, options.shortlist_words or SHORTLIST_WORDS, min_count)
            rows = [(entry.source, entry.target, f"{entry.forward:.6g}\t{entry.backward:.6g}") for entry in found]
        else:
            rows = [(entry.source, entry.target, f"{entry.count}") for entry in dictionary_entries(pairs, min_count)]
        for source_word, target_word, columns in rows:
            line = f"{_written(source_word)}\t{_written(target_word)}\t{columns}\n"
            file.write(file_encoding.encode_line(line, input))
    seconds = time.monotonic() - start
    return DictionarySummary(len(rows), seconds, output, next(numbers), reader.malformed, min_count)


def _written(word: str) -> str:
    """Escapes a word that looks like an escape, such as &quot;, because readers of the file replace escapes."""
    return word if unescape(word) == word else word.replace("&", "&amp;")
