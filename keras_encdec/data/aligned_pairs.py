"""The pairs of any format and the links between their words."""

import collections
import contextlib
import math
import os
from collections.abc import Iterable, Iterator

from keras_encdec.data.alignment import align, check_aligner
from keras_encdec.data.pairs import WordPair, open_pairs, record_words
from keras_encdec.formats.pair_format import Record
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.formats.registry import pair_format
from keras_encdec.formats.word_links import Links, LinksLine, links_beside, own_links
from keras_encdec.text.tokenizer import Tokenizer

AlignedPair = tuple[list[str], list[str], Links]


@contextlib.contextmanager
def open_aligned_pairs(
    path: str | os.PathLike[str],
    format: str = "phrase_table",
    *,
    alignment: str | os.PathLike[str] | None = None,
    source_path: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    on_error: str = "stop",
    tokenizer: Tokenizer | None = None,
    reverse: bool = False,
    max_length: int | None = None,
) -> Iterator[tuple[Iterator[AlignedPair], RecordReader]]:
    """Opens a file of pairs with their word alignment: from a file, from the lines themselves, or by `align`.

    Args:
        path, format, source_path, encoding, on_error, tokenizer: see `keras_encdec.data.open_pairs`.
        alignment: file of links as Moses writes them, `0-0 1-2`, a line for each line of the pairs, plain or gzipped:
            source and target position from 0, of the words that the model reads. Defaults to `None`: a phrase table
            has links in its lines, and other pairs are aligned by `align`, which holds them in memory.
        reverse: bool. Whether to swap the sides, those of the links, too. Links are read in the order of the files.
        max_length: int. `align` leaves out pairs with a side longer than this, in words, which then have no links, like
            those with an empty side. Defaults to `None`: no bound.

    Yields:
        tuple: an iterator of `(source words, target words, links)`, malformed lines left out, and the reader, as
        `open_pairs` gives it. Links are pairs of source position and target position.

    Raises:
        ImportError: when sil-thot is needed and is not installed.
        InputError: for links that do not fit the pairs, naming file and line; as the readers do.
    """
    known = pair_format(format)
    if not alignment and not known.has_links:
        check_aligner()
        with open_pairs(
            path, format, source_path=source_path, encoding=encoding, on_error=on_error, tokenizer=tokenizer,
            reverse=reverse,
        ) as (pairs, reader):  # fmt: skip
            yield _aligned(pairs, max_length), reader
        return
    with known.open_reader(path, source_path, encoding, on_error) as reader:
        reader.kept = "leave such lines out"
        records = links_beside(reader, alignment) if alignment else own_links(reader, known)
        aside: collections.deque[LinksLine] = collections.deque()
        pairs = record_words(_records(records, aside), known, tokenizer)
        yield _linked(pairs, aside, reverse), reader


def _records(records: Iterable[tuple[Record, LinksLine]], aside: collections.deque[LinksLine]) -> Iterator[Record]:
    """The records; their links are put aside, as a tokenizer reads text alone, and reads ahead."""
    for record, links in records:
        aside.append(links)
        yield record


def _linked(
    pairs: Iterable[WordPair], aside: collections.deque[LinksLine], reverse: bool
) -> Iterator[AlignedPair]:
    for source, target in pairs:
        links = aside.popleft().parse(len(source), len(target))
        yield (target, source, [link[::-1] for link in links]) if reverse else (source, target, links)


def _aligned(pairs: Iterable[WordPair], max_length: int | None) -> Iterator[AlignedPair]:
    pairs, longest = list(pairs), math.inf if max_length is None else max_length
    alignable = [i for i, pair in enumerate(pairs) if all(1 <= len(side) <= longest for side in pair)]
    links = align(*([pairs[i][side] for i in alignable] for side in (0, 1))) if alignable else []
    links_of = dict(zip(alignable, links, strict=True))
    for i, (source, target) in enumerate(pairs):
        yield source, target, links_of.get(i, [])
