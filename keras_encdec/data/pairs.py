"""Reads pairs of any format as the words that the model reads, and makes tf.data pipelines."""

import contextlib
import itertools
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from keras_encdec.data.alignment import align, check_aligner, longest_sentence, number_of_rounds
from keras_encdec.errors import EncdecWarning
from keras_encdec.formats import PairFormat, Record, RecordReader, model_words, pair_format
from keras_encdec.formats.alignments import AlignedWordPair, Links, embedded_links, links_from_file
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.formats.record_reader import LEFT_OUT
from keras_encdec.runtime.progress import CountedInput, CountedWork, Progress, ShowProgress, counted
from keras_encdec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_encdec.data.prepared_pairs import Ids

# Pairs that are tokenized together.
TOKENIZED_AT_ONCE = 1024
# Batches that are prepared while one is trained on.
_PREPARED_AHEAD = 8

Item = TypeVar("Item")


@contextlib.contextmanager
def open_pairs(
    path: str | os.PathLike[str],
    format: str = "phrase_table",
    *,
    source_path: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    on_error: str = "stop",
    tokenizer: Tokenizer | None = None,
    reverse: bool = False,
) -> Generator[tuple[Iterator[WordPair], RecordReader[Record]]]:
    """Opens a file of pairs.

    Args:
        path: the file of pairs, or of the targets of parallel text.
        format: str. Name of a registered format, such as "phrase_table", "tsv", "parallel" or "sentences"
            (targets with empty sources). Defaults to "phrase_table".
        source_path: the file of sources, for formats that have one, such as "parallel". Defaults to `None`.
        encoding: str. Encoding of the files. Defaults to `None`: UTF-8, and other bytes are an error.
        on_error: str. "stop" raises at a malformed line, "keep" leaves it out and counts it. Defaults to "stop".
        tokenizer: `keras_encdec.text.Tokenizer` for raw text. Defaults to `None`: words are separated
            by spaces. A phrase table already has words and is never tokenized.
        reverse: bool. Whether to swap source and target. Defaults to `False`.

    Yields:
        tuple: an iterator of `(source words, target words)`, malformed lines left out, and the reader,
        with `lines` for progress and the number of `malformed` lines.

    Raises:
        InputError: if a file cannot be read, and for a malformed line with "stop".
        ValueError: for a format that is not registered.
    """
    known = pair_format(format)
    with known.open_reader(path, source_path, encoding, on_error) as reader:
        reader.kept = LEFT_OUT
        records = ((record, None) for record in reader if record.problem is None)
        pairs = (pair for pair, _ in words_with(records, known, tokenizer))
        yield (((target, source) for source, target in pairs) if reverse else pairs), reader


def words_with(
    items: Iterable[tuple[Record, Item]], pair_format: PairFormat, tokenizer: Tokenizer | None = None
) -> Iterator[tuple[WordPair, Item]]:
    """Yields the words of well-formed records, as the model reads them, each with the item that came with its record.

    Args:
        items: iterable of tuples of a record and any item. With a tokenizer, many are read at a time.
        pair_format: PairFormat of the reader of the records.
        tokenizer: see `open_pairs`. Optional.

    Yields:
        tuple of `(source words, target words)` and the item.
    """
    if tokenizer and not pair_format.is_tokenized:
        remaining = iter(items)
        while batch := list(itertools.islice(remaining, TOKENIZED_AT_ONCE)):
            sides = (tokenizer.words([getattr(record, side) for record, _ in batch]) for side in ("source", "target"))
            yield from zip(zip(*sides, strict=True), [item for _, item in batch], strict=True)
        return
    # Only some formats separate factors by "|". In other formats it is an ordinary character.
    factored = pair_format.is_factored
    for record, item in items:
        yield (model_words(record.source, factored), model_words(record.target, factored)), item


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
    progress: ShowProgress = Progress,
) -> Generator[tuple[Iterator[AlignedWordPair], RecordReader[Record]]]:
    """Opens a file of pairs with their word alignment, which is read from a file or the lines, or made by `align`.

    Args:
        path, format, source_path, encoding, on_error, tokenizer: see `keras_encdec.data.open_pairs`.
        alignment: file of links as Moses writes them, `0-0 1-2`, a line for each line of the pairs, plain or gzipped.
            A link is the source and the target position, from 0, of words that the model reads. Defaults to `None`: a
            phrase table has links in its lines, and other pairs are aligned by `align`, which holds them in memory.
        reverse: bool. Whether to swap source and target, also in the links. Links are read in the order of the files.
            Defaults to `False`.
        max_length: int. Maximum number of words of a side for `align`. Longer pairs get no links, like pairs with an
            empty side. Defaults to `None`: that of the aligner, and an `EncdecWarning` if there are longer pairs.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.

    Yields:
        tuple: an iterator of `(source words, target words, links)`, malformed lines left out, and the reader, as
        `open_pairs` gives it. Links are pairs of source position and target position.

    Raises:
        ImportError: if sil-thot is needed and is not installed.
        InputError: for links that do not fit the pairs, with file and line; see also `open_pairs`.
    """
    known = pair_format(format)
    if not alignment and not known.has_links:
        check_aligner()
        with open_pairs(
            path,
            format,
            source_path=source_path,
            encoding=encoding,
            on_error=on_error,
            tokenizer=tokenizer,
            reverse=reverse,
        ) as (pairs, reader):
            yield _aligned(pairs, reader, max_length, progress), reader
        return
    with known.open_reader(path, source_path, encoding, on_error) as reader:
        reader.kept = LEFT_OUT
        records = links_from_file(reader, alignment) if alignment else embedded_links(reader, known)
        linked = (
            (source, target, line.parse(len(source), len(target)))
            for (source, target), line in words_with(records, known, tokenizer)
        )
        if reverse:
            linked = ((target, source, [(j, i) for i, j in links]) for source, target, links in linked)
        yield _counted(linked, reader.lines, "pairs", progress), reader


def _aligned(
    read: Iterable[WordPair], reader: RecordReader[Record], max_length: int | None, progress: ShowProgress
) -> Iterator[AlignedWordPair]:
    pairs = list(_counted(read, reader.lines, "pairs", progress))
    longest = longest_sentence()
    if max_length is None:
        _warn_of_long_pairs(pairs, longest)
    else:
        longest = min(longest, max_length)
    alignable = [i for i, pair in enumerate(pairs) if all(1 <= len(side) <= longest for side in pair)]
    links: list[Links] = []
    if alignable:
        work = CountedWork(number_of_rounds())
        with progress(work, "rounds of alignment") as shown:

            def round_done() -> None:
                work.size_done += 1
                shown.add(1)

            sources, targets = ([pairs[i][side] for i in alignable] for side in (0, 1))
            links = align(sources, targets, round_done=round_done)
    links_of = dict(zip(alignable, links, strict=True))
    for i, (source, target) in enumerate(pairs):
        yield source, target, links_of.get(i, [])


def _warn_of_long_pairs(pairs: Sequence[WordPair], longest: int) -> None:
    too_long = sum(max(map(len, pair)) > longest for pair in pairs)
    if too_long:
        found = f"found {counted(too_long, 'pairs')} with a side of more than {longest:,} words, which get no links"
        warnings.warn(EncdecWarning(f"{found}; split such lines into sentences."), stacklevel=2)


def tf_dataset(make_batches: Callable[[], Iterable[dict[str, "Ids"]]]) -> "tf.data.Dataset":
    """Makes a tf.data pipeline that reads and pads batches in the background.

    Args:
        make_batches: callable without arguments that returns an iterable of dicts "source" and "target" `(batch,
            width)`, int32, of any widths, and further int32 arrays of rare words, of any shapes. It is called for every
            pass, and once to learn the names and ranks of the arrays.

    Returns:
        `tf.data.Dataset` of these dicts.
    """
    import tensorflow as tf

    # The widths must be declared as unknown. Otherwise Keras infers them from the first batches.
    first = next(iter(make_batches()))
    signature = {name: tf.TensorSpec((None,) * array.ndim, tf.int32) for name, array in first.items()}
    dataset = tf.data.Dataset.from_generator(make_batches, output_signature=signature).prefetch(_PREPARED_AHEAD)
    # Without autotuning, for which TensorFlow starts a thread. If Python's garbage collector deletes an iterator, it
    # waits for that thread while it holds the global interpreter lock, and can wait forever.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


def _counted(items: Iterable[Item], lines: CountedInput, unit: str, progress: ShowProgress) -> Iterator[Item]:
    with progress(lines, unit) as shown:
        for item in items:
            yield item
            shown.add(1)
