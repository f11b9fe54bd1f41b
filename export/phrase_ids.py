"""Maps phrases to ids in an exported graph, with core operations only."""

import hashlib
import os
import pathlib
import re
from typing import NamedTuple

import tensorflow as tf

from keras_encdec.export.character_ids import CharacterIds
from keras_encdec.formats.encodings import UNESCAPING
from keras_encdec.text.vocabulary import END, FIRST_WORD, PADDING, UNKNOWN, Vocabulary

# The graph refuses a string with more bytes than this per allowed token, before it splits the string into words.
BYTES_PER_TOKEN = 64


def checked_utf8(text: tf.Tensor, name: str, max_tokens: int) -> tf.Tensor:
    """Checks that a client's strings are UTF-8 of bounded length. Otherwise the call fails with INVALID_ARGUMENT.

    Errors name the input. The result has rank 1.
    """
    limit = max_tokens * BYTES_PER_TOKEN
    text = checked_vector(text, name)
    longest = _largest(tf.strings.length(text))
    short = tf.debugging.Assert(longest <= limit, [f"found a {name} of", longest, f"bytes, expected at most {limit}"])
    with tf.control_dependencies([short]):
        utf8 = tf.reduce_all(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace") == text)
    with tf.control_dependencies([tf.debugging.Assert(utf8, [f"found a {name} that is not UTF-8, expected UTF-8"])]):
        return tf.identity(text)


def checked_vector(tensor: tf.Tensor, name: str) -> tf.Tensor:
    """Checks that a client's tensor, which errors name, has rank 1. Otherwise the call fails with INVALID_ARGUMENT."""
    # A server does not check the rank. The placeholder hides the static rank: TensorFlow would remove the check if it
    # knew the rank.
    shape = tf.shape(tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=None))
    batch = tf.debugging.Assert(
        tf.equal(tf.size(shape), 1), [f"found {name} of shape", shape, "expected a batch of values, of rank 1"]
    )
    with tf.control_dependencies([batch]):
        return tf.ensure_shape(tf.identity(tensor), (None,))


class Phrases(NamedTuple):
    """The ids of phrases.

    Attributes:
        ids: int32 tensor `(n, t)`, closed by the end of sequence and padded with 0.
        lengths: int32 tensor `(n,)`, which count the end of sequence.
        spellings: int32 tensor `(words, 51)`: the spellings of words outside a vocabulary with characters. Their ids
            follow those of the vocabulary, see `text.vocabulary.OpenVocabulary`. `None` without characters.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    spellings: tf.Tensor | None = None


class PhraseIds:
    """Maps strings of tokens to ids, as `OpenVocabulary.encode` does, and ids to words.

    Spaces and tabs separate tokens.

    Args:
        vocabulary: Vocabulary.
        path: file to save the vocabulary in. It becomes an asset of the SavedModel.
        escaped: bool. Whether to remove Moses's escapes, as `formats.unescape` does.
        max_tokens: int. For longer phrases the call fails with INVALID_ARGUMENT.

    Attributes:
        characters: CharacterIds; `None` without characters.
        resources: list of the tables that the functions use. They must be saved with them.
    """

    def __init__(self, vocabulary: Vocabulary, path: str | os.PathLike[str], escaped: bool, max_tokens: int) -> None:
        self._escaped, self._max_tokens = escaped, max_tokens
        self._first_rare = FIRST_WORD + len(vocabulary)
        # TensorFlow drops carriage returns when it reads the file, so they are saved as tabs, which no word contains.
        self._has_returns = any("\r" in word for word in vocabulary.words)
        Vocabulary(word.replace("\r", "\t") for word in vocabulary.words).save(path)
        line, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        words = _Initializer(path, tf.string, line, tf.int64, number)
        self._table = tf.lookup.StaticHashTable(words, default_value=UNKNOWN - FIRST_WORD)
        lines = _Initializer(path, tf.int64, number, tf.string, line)
        self._words = tf.lookup.StaticHashTable(lines, default_value="<unk>")
        self.characters = None if vocabulary.characters is None else CharacterIds(vocabulary.characters)
        self.resources = [self._table, self._words, *(self.characters.resources if self.characters else ())]

    def __call__(self, text: tf.Tensor, name: str) -> Phrases:
        """Looks up the ids of checked phrases, strings `(n,)`; errors name the input."""
        tokens, rows = self._tokens(text)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(rows, tf.int32), rows, tf.size(text))
        longest = _largest(counts)
        short = tf.debugging.Assert(
            longest <= self._max_tokens, [f"found a {name} of", longest, f"tokens, expected at most {self._max_tokens}"]
        )
        with tf.control_dependencies([short]):
            ids = tf.cast(self._table.lookup(tokens) + FIRST_WORD, tf.int32)
        spellings = None
        if self.characters:
            is_rare = ids == UNKNOWN
            words, number = tf.unique(tf.boolean_mask(tokens, is_rare))
            ids = tf.tensor_scatter_nd_update(ids, tf.cast(tf.where(is_rare), tf.int32), self._first_rare + number)
            spellings = self.characters(self._with_returns(words))
        ragged = tf.RaggedTensor.from_value_rowids(ids, rows, tf.size(text, tf.int64), validate=False)
        padded = tf.pad(ragged.to_tensor(PADDING), [[0, 0], [0, 1]])
        closed = padded + END * tf.one_hot(counts, tf.shape(padded)[1], dtype=tf.int32)
        return Phrases(closed, counts + 1, spellings)

    def has(self, words: tf.Tensor) -> tf.Tensor:
        """Returns whether words are in the vocabulary."""
        words = tf.strings.regex_replace(words, "\r", "\t") if self._has_returns else words
        return self._table.lookup(words) != UNKNOWN - FIRST_WORD

    def is_unknown(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns whether ids are those of words outside the vocabulary."""
        return (ids == UNKNOWN) | (ids >= self._first_rare)

    def split(self, text: tf.Tensor) -> tf.Tensor:
        """Splits checked phrases `(n,)` into strings `(n, t)`. Each row ends with at least one "" as padding."""
        tokens, rows = self._tokens(text)
        ragged = tf.RaggedTensor.from_value_rowids(self._with_returns(tokens), rows, tf.size(text, tf.int64), False)
        return tf.pad(ragged.to_tensor(""), [[0, 0], [0, 1]])

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Looks up the word of each id: int32 tensor to string tensor of the same shape."""
        return self._with_returns(self._words.lookup(tf.cast(ids - FIRST_WORD, tf.int64)))

    def joined(self, words: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Joins words by spaces: strings `(..., t)` and their ids, closed and padded, to strings `(...)`."""
        present = (ids != PADDING) & (ids != END)
        joined = tf.strings.reduce_join(tf.where(present, tf.strings.join(["", words], " "), ""), axis=-1)
        return tf.strings.regex_replace(joined, "^ ", "")

    def _tokens(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns all tokens `(m,)`, with tabs for carriage returns, and the index of each token's phrase."""
        split = tf.raw_ops.StringSplitV2(input=self._plain(text), sep=" ")
        present = tf.not_equal(split.values, "")
        return tf.boolean_mask(split.values, present), tf.boolean_mask(split.indices[:, 0], present)

    def _with_returns(self, words: tf.Tensor) -> tf.Tensor:
        return tf.strings.regex_replace(words, "\t", "\r") if self._has_returns else words

    def _plain(self, text: tf.Tensor) -> tf.Tensor:
        text = tf.strings.regex_replace(text, "\t", " ")
        if self._escaped:
            for escape, plain in UNESCAPING:
                text = tf.strings.regex_replace(text, re.escape(escape), plain)
        if self._has_returns:
            text = tf.strings.regex_replace(text, "\r", "\t")
        return text


class _Initializer(tf.lookup.TextFileInitializer):
    """A table initializer that names the table by its content, not by the path of a file on this machine.

    Tables with the same name in a process are the same table, even if they belong to different models.
    """

    def __init__(
        self, path: str | os.PathLike[str], key_dtype: tf.DType, key_index: int, value_dtype: tf.DType, value_index: int
    ) -> None:
        digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        self._table = f"{digest[:32]}_by_{key_dtype.name}"
        super().__init__(str(path), key_dtype, key_index, value_dtype, value_index)

    @property
    def _shared_name(self) -> str:
        return self._table


def _largest(numbers: tf.Tensor) -> tf.Tensor:
    """Returns the largest number; 0 for an empty tensor."""
    return tf.reduce_max(tf.concat([[0], numbers], 0))
