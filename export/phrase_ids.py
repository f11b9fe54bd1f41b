"""Maps phrases, and the characters of words, to ids in an exported graph, with core operations only."""

import hashlib
import os
import pathlib
import re
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_encdec.export.scoring_graph import sequential_loop
from keras_encdec.formats.encodings import UNESCAPING
from keras_encdec.text.vocabulary import END, FIRST_WORD, MAX_WORD_LENGTH, PADDING, READ_CHARACTERS, UNKNOWN, Vocabulary

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


# Stands for no character. It pads words, and the tables return it for a code point that they do not contain.
NONE = -1
# The combining class of a code point is less than this number.
CLASSES = 256


class CharacterIds:
    """Maps words to spellings, as `text.vocabulary.spelled` does, and spellings to words.

    Attributes:
        resources: list of the tables that the functions use. They must be saved with them.
    """

    def __init__(self, characters: Vocabulary) -> None:
        ids = {ord(character): i for i, character in enumerate(characters.words, FIRST_WORD) if len(character) == 1}
        self._ids = _table(ids, UNKNOWN)
        self._characters = [b""] * FIRST_WORD + [word.encode("utf-8", "surrogateescape") for word in characters.words]
        self._composition = CanonicalComposition()
        self.resources = [self._ids, *self._composition.resources]

    def __call__(self, words: tf.Tensor) -> tf.Tensor:
        """Spells words in UTF-8, strings `(n,)`, as `spelled` does: int32 tensor `(n, 51)`."""
        words = tf.strings.substr(words, 0, READ_CHARACTERS, unit="UTF8_CHAR")
        codes = tf.strings.unicode_decode(words, "UTF-8").to_tensor(NONE)
        codes = self._composition(codes)
        codes = tf.pad(codes, [[0, 0], [0, MAX_WORD_LENGTH]], constant_values=NONE)[:, :MAX_WORD_LENGTH]
        ids = tf.where(codes == NONE, PADDING, self._ids.lookup(codes))
        lengths = tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)
        return tf.pad(ids, [[0, 0], [0, 1]]) + END * tf.one_hot(lengths, MAX_WORD_LENGTH + 1, dtype=tf.int32)

    def words(self, ids: tf.Tensor) -> tf.Tensor:
        """Joins the characters of spellings without unknown characters: int32 `(n, t)` to strings `(n,)`."""
        return tf.strings.reduce_join(tf.gather(self._characters, ids), axis=-1)


class CanonicalComposition:
    """Unicode's normal form C of words, as `unicodedata.normalize` computes it.

    Characters are decomposed, and combining marks are sorted by their class. Each mark is then composed with the last
    character before it that is not a mark, unless a mark of the same or a higher class stands between them.

    Attributes:
        resources: list of the tables. They must be saved with the functions that use them.

    Reference:
        - The Unicode Standard, section 3.11, definitions D108 to D117
    """

    def __init__(self) -> None:
        decomposed, composed, classes = {}, {}, {}
        for code, character in enumerate(map(chr, range(sys.maxunicode + 1))):
            parts = unicodedata.normalize("NFD", character)
            if parts != character:
                decomposed[code] = parts
            is_normal = unicodedata.normalize("NFC", character) == character
            if is_normal and parts != character:
                composed[ord(unicodedata.normalize("NFC", parts[:-1])), ord(parts[-1])] = code
            if unicodedata.combining(character) or not is_normal:
                classes[code] = unicodedata.combining(character)
        classes |= {second: unicodedata.combining(chr(second)) for _, second in composed}
        width = max(map(len, decomposed.values()))
        rows = np.full((len(decomposed), width), NONE, np.int32)
        for row, characters in zip(rows, decomposed.values(), strict=True):
            row[: len(characters)] = list(map(ord, characters))
        self._rows = tf.constant(rows)
        self._row_of_code = _table({code: row for row, code in enumerate(decomposed)}, NONE)
        # A word without any of these characters is already in the normal form.
        self._class_of_code = _table(classes, NONE)
        self._composed = _table({first * 2**32 + second: code for (first, second), code in composed.items()}, NONE)
        self.resources = [self._row_of_code, self._class_of_code, self._composed]

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:
        """Normalizes words: int32 tensor `(n, t)` of code points, then -1, to one `(n, ...)`."""
        is_normal = tf.reduce_all(self._class_of_code.lookup(codes) == NONE)
        return tf.cond(is_normal, lambda: codes, lambda: _compacted(self._compose(*self._decomposed(codes))))

    def _decomposed(self, codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the code points of decomposed words, with sorted marks, and their combining classes."""
        row = self._row_of_code.lookup(codes)
        alone = tf.pad(codes[:, :, None], [[0, 0], [0, 0], [0, self._rows.shape[1] - 1]], constant_values=NONE)
        parts = tf.where((row == NONE)[:, :, None], alone, tf.gather(self._rows, tf.maximum(row, 0)))
        codes = _compacted(tf.reshape(parts, [tf.shape(codes)[0], -1]))
        classes = tf.maximum(self._class_of_code.lookup(codes), 0)
        order = tf.argsort(tf.cumsum(tf.cast(classes == 0, tf.int32), axis=1) * CLASSES + classes, stable=True)
        return tuple(tf.gather(table, order, batch_dims=1) for table in (codes, classes))

    def _compose(self, codes: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        """Composes characters with the marks after them; -1 replaces each composed mark."""
        rows = tf.range(tf.shape(codes)[0])
        none = tf.fill(tf.shape(rows), NONE)

        def step(
            t: tf.Tensor, codes: tf.Tensor, base: tf.Tensor, last_class: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
            code, now = codes[:, t], classes[:, t]
            at_base = tf.stack([rows, tf.maximum(base, 0)], axis=1)
            pair = tf.cast(tf.gather_nd(codes, at_base), tf.int64) * 2**32 + tf.cast(code, tf.int64)
            composed = tf.where((base == NONE) | (last_class >= now), NONE, self._composed.lookup(pair))
            joins = composed != NONE
            codes = tf.tensor_scatter_nd_update(
                codes, tf.boolean_mask(at_base, joins), tf.boolean_mask(composed, joins)
            )
            at_code = tf.boolean_mask(tf.stack([rows, tf.fill(tf.shape(rows), t)], axis=1), joins)
            codes = tf.tensor_scatter_nd_update(codes, at_code, tf.fill([tf.shape(at_code)[0]], NONE))
            begins = ~joins & (now == 0)
            last_class = tf.where(joins, last_class, tf.where(begins, NONE, now))
            return t + 1, codes, tf.where(begins, t, base), last_class

        steps = tf.shape(codes)[1]
        return sequential_loop(lambda t, *_: t < steps, step, (0, codes, none, none))[1]


def _compacted(codes: tf.Tensor) -> tf.Tensor:
    """Moves each -1 to the end of its word, and drops the columns of the words `(n, t)` that are -1 throughout."""
    order = tf.argsort(tf.cast(codes == NONE, tf.int32), stable=True)
    longest = tf.reduce_max(tf.math.count_nonzero(codes != NONE, axis=1, dtype=tf.int32))
    return tf.gather(codes, order, batch_dims=1)[:, : tf.maximum(longest, 0)]


def _table(values: dict[int, int], default: int) -> tf.lookup.StaticHashTable:
    keys = tf.constant(list(values), tf.int64 if max(values, default=0) >= 2**31 else tf.int32, (len(values),))
    numbers = tf.constant(list(values.values()), tf.int32, (len(values),))
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, numbers), default)
