"""Tokenization of raw text, one definition for tf.data pipelines and for the served graph."""

from collections.abc import Sequence
from typing import Any


class Tokenizer:
    """Splits raw text into words, every step a TensorFlow operation.

    NFKC normalization; typographic apostrophes made plain; case folding if asked for; every
    punctuation mark and symbol a token of its own; white space and control characters separate. The
    same call runs eagerly, inside `tf.data` and inside an exported graph, so that what is served sees
    the words that were trained on.

    Args:
        lowercase: bool. Whether to fold case (Unicode case folding: also "ß" to "ss").
            Defaults to `False`.

    Raises:
        ImportError: when tensorflow-text is not installed (it has no wheels for some platforms).
            Text that is already tokenized needs no tokenizer.

    Example:

    >>> tokenizer = Tokenizer(lowercase=True)
    >>> [tokens.decode() for tokens in tokenizer(["Open the File…", "l’été"]).numpy()]
    ['open the file . . .', "l ' été"]
    """

    def __init__(self, lowercase: bool = False) -> None:
        try:
            import tensorflow_text
        except ImportError as error:
            raise ImportError(
                "Tokenizing raw text needs tensorflow-text, which is not installed or has no build for "
                "this platform: install it, or give text that is already tokenized."
            ) from error
        self._text = tensorflow_text
        self.lowercase = lowercase

    def __call__(self, lines: Any) -> Any:
        """Tokenizes.

        Args:
            lines: string tensor or list `(n,)`, UTF-8.

        Returns:
            string tensor `(n,)`: the tokens of each line, separated by single spaces.
        """
        import tensorflow as tf

        lines = self._text.normalize_utf8(tf.convert_to_tensor(lines, tf.string), "NFKC")
        lines = tf.strings.regex_replace(lines, "[\u2018\u2019]", "'")
        if self.lowercase:
            lines = self._text.case_fold_utf8(lines)
        lines = tf.strings.regex_replace(lines, r"([\p{P}\p{S}])", r" \1 ")
        # Not tensorflow-text's WhitespaceTokenizer, which cuts the two bytes of U+0085 apart.
        return tf.strings.strip(tf.strings.regex_replace(lines, r"[\p{Z}\p{Cc}]+", " "))

    def words(self, lines: Sequence[str]) -> list[list[str]]:
        """Tokenizes lines of str, as lists of words.

        Args:
            lines: list of str. A lone surrogate, a byte that its file's encoding does not have, reads as "?".

        Returns:
            list of lists of str.
        """
        tokenized = self([line.encode("utf-8", "replace") for line in lines])
        return [split_tokens(line) for line in tokenized.numpy()]


def split_tokens(line: bytes) -> list[str]:
    """The words of a tokenized line: bytes to list of str."""
    return line.decode().split(" ") if line else []
