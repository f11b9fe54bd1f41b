"""The pairs of any format as the words that the model reads, and tf.data pipelines of them."""

import collections
import contextlib
import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from keras_encdec.data.alignment import align, check_aligner
from keras_encdec.errors import InputError
from keras_encdec.formats import PairFormat, Record, RecordReader, model_words, pair_format
from keras_encdec.formats.alignments import Links, LinksLine, links_beside, own_links
from keras_encdec.text.tokenizer import Tokenizer, split_tokens

TOKENIZED_AT_ONCE = 1024

WordPair = tuple[list[str], list[str]]


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
        path: the file; of parallel text, that of the targets.
        format: str. Name of a registered format, such as "phrase_table", "tsv", "parallel" or "sentences"
            (targets alone, whose sources are empty). Defaults to "phrase_table".
        source_path: the file of sources, for formats that have one, such as "parallel".
        encoding: str. Encoding of the files. Defaults to UTF-8, strictly.
        on_error: str. "stop" raises at a malformed line, "keep" leaves it out and counts it.
        tokenizer: `keras_encdec.text.Tokenizer` for raw text. Defaults to `None`: words are separated
            by spaces. A phrase table holds words already and is never tokenized.
        reverse: bool. Whether to swap the sides.

    Yields:
        tuple: an iterator of `(source words, target words)`, malformed lines left out, and the reader,
        with `lines` for progress and the number of `malformed` lines.

    Raises:
        InputError: as the readers do.
        ValueError: for the name of no format.
    """
    known = pair_format(format)
    with known.open_reader(path, source_path, encoding, on_error) as reader:
        reader.kept = "leave such lines out"
        pairs = record_words((record for record in reader if record.problem is None), known, tokenizer)
        yield (((target, source) for source, target in pairs) if reverse else pairs), reader


def record_words(
    records: Iterable[Record], pair_format: PairFormat, tokenizer: Tokenizer | None = None
) -> Iterator[WordPair]:
    """The words of well-formed records, as the model reads them: a pair for each, in their order.

    Args:
        records: of a reader of the format. With a tokenizer they are read ahead, in another thread.
        pair_format: PairFormat.
        tokenizer: see `open_pairs`. Optional.

    Returns:
        iterator of `(source words, target words)`.
    """
    if tokenizer and not pair_format.is_tokenized:
        return _tokenized(records, tokenizer)
    # In sentences of tokens a bar is a bar; only some formats separate factors by it.
    factored = pair_format.is_factored
    return ((model_words(record.source, factored), model_words(record.target, factored)) for record in records)


def _tokenized(records: Iterable[Record], tokenizer: Tokenizer) -> Iterator[WordPair]:
    """Tokenizes the records' raw text in a tf.data pipeline, many lines at a time."""
    import tensorflow as tf

    failed: list[InputError] = []

    def lines() -> Iterator[list[bytes]]:
        try:
            for record in records:
                # A lone surrogate stands for a byte that the declared encoding does not have.
                yield [side.encode("utf-8", "replace") for side in (record.source, record.target)]
        except InputError as error:
            failed.append(error)  # TensorFlow would wrap it in an error of its own

    signature = tf.TensorSpec((2,), tf.string)
    dataset = tf.data.Dataset.from_generator(lines, output_signature=signature)
    dataset = dataset.batch(TOKENIZED_AT_ONCE)
    dataset = dataset.map(lambda pairs: tf.stack([tokenizer(pairs[:, 0]), tokenizer(pairs[:, 1])], 1))
    for batch in without_autotuning(dataset.prefetch(2)).as_numpy_iterator():
        for source, target in batch:
            yield split_tokens(source), split_tokens(target)
    if failed:
        raise failed[0]


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
) -> Generator[tuple[Iterator[AlignedPair], RecordReader[Record]]]:
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
            path,
            format,
            source_path=source_path,
            encoding=encoding,
            on_error=on_error,
            tokenizer=tokenizer,
            reverse=reverse,
        ) as (pairs, reader):
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


def _linked(pairs: Iterable[WordPair], aside: collections.deque[LinksLine], reverse: bool) -> Iterator[AlignedPair]:
    for source, target in pairs:
        links = aside.popleft().parse(len(source), len(target))
        yield (target, source, [(j, i) for i, j in links]) if reverse else (source, target, links)


def _aligned(pairs: Iterable[WordPair], max_length: int | None) -> Iterator[AlignedPair]:
    pairs, longest = list(pairs), math.inf if max_length is None else max_length
    alignable = [i for i, pair in enumerate(pairs) if all(1 <= len(side) <= longest for side in pair)]
    links = align([pairs[i][0] for i in alignable], [pairs[i][1] for i in alignable]) if alignable else []
    links_of = dict(zip(alignable, links, strict=True))
    for i, (source, target) in enumerate(pairs):
        yield source, target, links_of.get(i, [])


def tf_dataset(make_batches: Callable[[], Iterable[dict[str, Any]]], prefetch: int = 8) -> Any:
    """Batches read from disk and padded beside the training itself.

    Args:
        make_batches: callable without arguments to an iterable of dicts "source" and "target"
            `(batch, width)`, int32, of any widths; called anew for every pass.
        prefetch: int. Batches held ready. Defaults to `8`.

    Returns:
        `tf.data.Dataset` of these dicts.
    """
    import tensorflow as tf

    # The widths are declared unknown: Keras, left to look at the first batches, takes theirs for all.
    rows = tf.TensorSpec((None, None), tf.int32)
    dataset = tf.data.Dataset.from_generator(make_batches, output_signature={"source": rows, "target": rows})
    return without_autotuning(dataset.prefetch(prefetch))


def without_autotuning(dataset: Any) -> Any:
    """The dataset with nothing for TensorFlow to tune, and so without the thread that tunes.

    An iterator that Python's garbage collector drops waits for that thread while it holds Python's lock, and can
    wait for ever.

    Args:
        dataset: `tf.data.Dataset`.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)
