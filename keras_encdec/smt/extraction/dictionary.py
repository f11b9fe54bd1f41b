"""Makes a dictionary from aligned text: the most frequent translation of each source word."""

import collections
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from keras_encdec.data.pairs import AlignedPair, open_aligned_pairs
from keras_encdec.errors import FilePath
from keras_encdec.formats.encodings import FileEncoding, unencodable
from keras_encdec.runtime.files import InputLines, check_distinct_files, open_output
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.smt.extraction.extraction_options import DictionaryOptions


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
        seconds: float.
        output: the file.
        pairs: int. Number of pairs read.
        malformed: int. Number of malformed lines left out.
    """

    pairs: int = 0
    malformed: int = 0

    def __str__(self) -> str:
        left_out = f", {self.malformed:,} malformed ones left out" if self.malformed else ""
        return f"{self.lines:,} entries from {self.pairs:,} pairs{left_out} in {self.seconds:,.1f} s: {self._result}"


def dictionary_entries(
    pairs: Iterable[AlignedPair], min_count: int = DictionaryOptions.min_count
) -> list[DictionaryEntry]:
    """Finds the most frequent translation of each source word of aligned pairs.

    Memory holds the count of each distinct pair of aligned words.

    Args:
        pairs: iterable of `(source words, target words, links)`, see `open_aligned_pairs`.
        min_count: int. Words that are aligned to their translation less often are left out. Luong et al. (2015) use
            100 for 12 million pairs. Defaults to `2`.

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
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for source, target, links in pairs:
        for i, j in links:
            counts[source[i]][target[j]] += 1
    entries = []
    for word, translations in sorted(counts.items()):
        translation, count = min(translations.items(), key=lambda item: (-item[1], item[0]))
        if count >= min_count:
            entries.append(DictionaryEntry(word, translation, count))
    return entries


def write_dictionary(
    input: FilePath,
    output: FilePath,
    options: DictionaryOptions | None = None,
    *,
    format: str = "tsv",
    source: FilePath | None = None,
    alignment: FilePath | None = None,
    progress: Callable[[InputLines], Progress] = Progress,
    **values: Any,
) -> DictionarySummary:
    """Writes a dictionary: lines of a source word, its most frequent translation and their count, separated by tabs.

    The output appears when it is complete. `keras_encdec.text.tokenizer.read_dictionary` reads it.

    Args:
        input: pairs, or the target sentences of parallel text, plain or gzipped.
        output: file to write, gzipped if its name ends in .gz. "-" is the standard output.
        options: DictionaryOptions. Defaults to `None`: those of the command.
        format: str. Name of a registered format, such as "tsv" or "parallel". Defaults to "tsv".
        source: the source sentences of parallel text. Optional.
        alignment: file of links. Without it, the pairs are aligned, see `open_aligned_pairs`. Optional.
        progress: callable of the InputLines that are read, which gives a Progress, such as `ReadingProgress`.
            Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Returns:
        DictionarySummary.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used, or not together.
        ImportError: when sil-thot is needed and is not installed.
        InputError: when the pairs or the alignment cannot be used.

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
            tokenizer=options.tokenizer(),
            reverse=options.reverse,
        ) as (pairs, reader),
        progress(reader.lines) as read,
    ):
        entries = dictionary_entries(_counted(pairs, read), options.min_count)
        for entry in entries:
            file.write(_line(entry, file_encoding, options.encoding, input))
    return DictionarySummary(len(entries), time.monotonic() - start, output, read.count, reader.malformed)


def _line(entry: DictionaryEntry, encoding: FileEncoding, encoding_name: str | None, path: FilePath) -> bytes:
    try:
        return encoding.encode(f"{entry.source}\t{entry.target}\t{entry.count}\n")
    except UnicodeEncodeError as error:
        raise unencodable(error, encoding_name, path) from None


def _counted(pairs: Iterable[AlignedPair], read: Progress) -> Iterator[AlignedPair]:
    for pair in pairs:
        yield pair
        read.add(1)
