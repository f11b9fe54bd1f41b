"""The pairs of any input, as the words the model reads."""

import contextlib

from keras_encdec.errors import InputError
from keras_encdec.formats import ParallelReader, PhraseTableReader, SentenceReader, TsvReader, model_words
from keras_encdec.text.tokenizer import split_tokens

TOKENIZED_AT_ONCE = 1024


@contextlib.contextmanager
def open_pairs(
    phrase_table=None,
    tsv=None,
    parallel=None,
    sentences=None,
    encoding=None,
    on_error="stop",
    tokenizer=None,
    reverse=False,
):
    """Opens one input, whichever of the four is given.

    Args:
        phrase_table: path of a Moses phrase table.
        tsv: path of a file of source, tab, target.
        parallel: tuple of the paths of two files of the same number of lines.
        sentences: path of a file of targets alone; their sources are empty.
        encoding: str. Encoding of the files. Defaults to UTF-8, strictly.
        on_error: str. "stop" raises at a malformed line, "keep" passes it over and counts it.
        tokenizer: `keras_encdec.text.Tokenizer` for raw text. Defaults to `None`: words are separated
            by spaces. A phrase table holds words already and is never tokenized.
        reverse: bool. Whether to swap the sides.

    Yields:
        tuple: an iterator of `(source words, target words)`, malformed lines left out, and the reader,
        with `lines` for progress and the number of `malformed` lines.

    Raises:
        InputError: as the readers do.
    """
    if phrase_table:
        reader = PhraseTableReader(phrase_table, encoding, on_error)
    elif tsv:
        reader = TsvReader(tsv, encoding, on_error)
    elif sentences:
        reader = SentenceReader(sentences, encoding, on_error)
    else:
        reader = ParallelReader(*parallel, encoding, on_error)
    with reader:
        records = (record for record in reader if record.problem is None)
        if tokenizer and not phrase_table:
            sides = _tokenized(records, tokenizer)
        else:
            factored = bool(phrase_table)
            sides = (
                (model_words(record.source, factored), model_words(record.target, factored)) for record in records
            )
        yield ((pair[::-1] for pair in sides) if reverse else sides), reader


def _tokenized(records, tokenizer):
    """The records' raw text through a tf.data pipeline that tokenizes many lines at a time."""
    import tensorflow as tf

    failed = []

    def lines():
        try:
            for record in records:
                # A lone surrogate stands for a byte that the declared encoding does not have.
                yield [side.encode("utf-8", "replace") for side in (record.source, record.target)]
        except InputError as error:
            failed.append(error)  # TensorFlow would make an error of its own of it

    signature = tf.TensorSpec((2,), tf.string)
    dataset = tf.data.Dataset.from_generator(lines, output_signature=signature)
    dataset = dataset.batch(TOKENIZED_AT_ONCE)
    dataset = dataset.map(lambda pairs: tf.stack([tokenizer(pairs[:, 0]), tokenizer(pairs[:, 1])], 1))
    for batch in dataset.prefetch(2).as_numpy_iterator():
        for source, target in batch:
            yield split_tokens(source), split_tokens(target)
    if failed:
        raise failed[0]
