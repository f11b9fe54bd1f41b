"""Phrases to ids inside an exported graph, with core operations only."""

import hashlib
import os
import pathlib
import re

import tensorflow as tf

from keras_encdec.formats.encodings import UNESCAPING
from keras_encdec.text import END, FIRST_WORD, PADDING, UNKNOWN, Vocabulary

# Strings of more bytes for each allowed token are refused before they are split into words.
BYTES_A_TOKEN = 64


def checked(text: tf.Tensor, name: str, max_tokens: int) -> tf.Tensor:
    """Checks that a client's strings are a batch of UTF-8 of bounded length; others are INVALID_ARGUMENT.

    Args:
        text: string tensor, of any shape.
        name: str. Name of the input, for the error.
        max_tokens: int. Most tokens that will be accepted.

    Returns:
        string tensor `(n,)`.
    """
    limit = max_tokens * BYTES_A_TOKEN
    text = vector(text, name)
    longest = _largest(tf.strings.length(text))
    short = tf.debugging.Assert(longest <= limit, [f"found a {name} of", longest, f"bytes, expected at most {limit}"])
    with tf.control_dependencies([short]):
        utf8 = tf.reduce_all(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace") == text)
    with tf.control_dependencies([tf.debugging.Assert(utf8, [f"found a {name} that is not UTF-8, expected UTF-8"])]):
        return tf.identity(text)


def vector(tensor: tf.Tensor, name: str) -> tf.Tensor:
    """Checks that a client's tensor is of rank 1; other ranks are INVALID_ARGUMENT.

    Args:
        tensor: tensor, of any shape.
        name: str. Name of the input, for the error.

    Returns:
        tensor `(n,)`.
    """
    # A server does not compare the rank with the signature's. The placeholder hides the static rank, which would let
    # TensorFlow drop the check.
    shape = tf.shape(tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=None))
    batch = tf.debugging.Assert(
        tf.equal(tf.size(shape), 1), [f"found {name} of shape", shape, "expected a batch of values, of rank 1"]
    )
    with tf.control_dependencies([batch]):
        return tf.ensure_shape(tf.identity(tensor), (None,))


class PhraseIds:
    """Ids of phrases, as `Vocabulary.encode` gives them, for strings of tokens.

    Spaces and tabs separate tokens.

    Args:
        vocabulary: Vocabulary.
        path: file to save it in, which becomes an asset.
        escaped: bool. Whether to remove Moses's escapes, as `formats.unescape` does.
        max_tokens: int. Longer phrases are INVALID_ARGUMENT.

    Attributes:
        table, words: `tf.lookup.StaticHashTable`, words to ids and ids to words, to be saved with the functions.
    """

    def __init__(self, vocabulary: Vocabulary, path: str | os.PathLike, escaped: bool, max_tokens: int) -> None:
        self._escaped, self._max_tokens = escaped, max_tokens
        # TensorFlow drops carriage returns when it reads the file: tabs, which no word has, replace them.
        self._has_returns = any("\r" in word for word in vocabulary.words)
        Vocabulary(word.replace("\r", "\t") for word in vocabulary.words).save(path)
        line, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        words = _Initializer(path, tf.string, line, tf.int64, number)
        self.table = tf.lookup.StaticHashTable(words, default_value=UNKNOWN - FIRST_WORD)
        lines = _Initializer(path, tf.int64, number, tf.string, line)
        self.words = tf.lookup.StaticHashTable(lines, default_value="<unk>")

    def __call__(self, text: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Looks phrases up.

        Args:
            text: string tensor `(n,)`, checked.
            name: str. Name of the input, for the error about a phrase that is too long.

        Returns:
            tuple: int32 ids `(n, t)`, closed by the end of sequence and padded with 0, and their lengths
            `(n,)`, the end of sequence included.
        """
        tokens, rows = self._tokens(text)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(rows, tf.int32), rows, tf.size(text))
        longest = _largest(counts)
        short = tf.debugging.Assert(
            longest <= self._max_tokens, [f"found a {name} of", longest, f"tokens, expected at most {self._max_tokens}"]
        )
        with tf.control_dependencies([short]):
            ids = tf.cast(self.table.lookup(tokens) + FIRST_WORD, tf.int32)
        ragged = tf.RaggedTensor.from_value_rowids(ids, rows, tf.size(text, tf.int64), validate=False)
        padded = tf.pad(ragged.to_tensor(PADDING), [[0, 0], [0, 1]])
        return padded + END * tf.one_hot(counts, tf.shape(padded)[1], dtype=tf.int32), counts + 1

    def split(self, text: tf.Tensor) -> tf.Tensor:
        """The tokens of phrases as strings: string tensor `(n,)`, checked, to `(n, t)`, padded with at least one ""."""
        tokens, rows = self._tokens(text)
        ragged = tf.RaggedTensor.from_value_rowids(self._with_returns(tokens), rows, tf.size(text, tf.int64), False)
        return tf.pad(ragged.to_tensor(""), [[0, 0], [0, 1]])

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """The word of each id: int32 tensor to string tensor of its shape."""
        return self._with_returns(self.words.lookup(tf.cast(ids - FIRST_WORD, tf.int64)))

    def joined(self, words: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Words separated by spaces: strings `(..., t)` and their ids, closed and padded, to strings `(...)`."""
        present = (ids != PADDING) & (ids != END)
        joined = tf.strings.reduce_join(tf.where(present, tf.strings.join(["", words], " "), ""), axis=-1)
        return tf.strings.regex_replace(joined, "^ ", "")

    def _tokens(self, text):
        """All tokens `(m,)`, with tabs for carriage returns, and the index of each token's phrase."""
        split = tf.raw_ops.StringSplitV2(input=self._plain(text), sep=" ")
        present = tf.not_equal(split.values, "")
        return tf.boolean_mask(split.values, present), tf.boolean_mask(split.indices[:, 0], present)

    def _with_returns(self, words):
        return tf.strings.regex_replace(words, "\t", "\r") if self._has_returns else words

    def _plain(self, text):
        text = tf.strings.regex_replace(text, "\t", " ")
        if self._escaped:
            for escape, plain in UNESCAPING:
                text = tf.strings.regex_replace(text, re.escape(escape), plain)
        if self._has_returns:
            text = tf.strings.regex_replace(text, "\r", "\t")
        return text


class _Initializer(tf.lookup.TextFileInitializer):
    """An initializer whose table is named after its content, not after a folder of this machine.

    In one process all tables of one name are the same table, even of different models.
    """

    def __init__(self, path, key_dtype, *arguments):
        digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        self._table = f"{digest[:32]}_by_{key_dtype.name}"
        super().__init__(str(path), key_dtype, *arguments)

    @property
    def _shared_name(self):
        return self._table


def _largest(numbers):
    """The largest number; 0 of an empty tensor."""
    return tf.reduce_max(tf.concat([[0], numbers], 0))
