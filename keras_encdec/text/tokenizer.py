"""Tokenization of raw text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


class Tokenizer:
    """Splits raw text into words with TensorFlow operations.

    The text is normalized (NFKC), typographic apostrophes are replaced by plain ones, and case is folded if requested.
    Every punctuation mark and symbol is a separate token. White space and control characters separate tokens. The same
    operations run eagerly, in `tf.data` and in an exported graph, so that training and serving use the same words.

    Args:
        lowercase: bool. Whether to fold case. Unicode case folding also replaces "ß" by "ss". Defaults to `False`.

    Raises:
        ImportError: if tensorflow-text is not installed (it has no wheels for some platforms).
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

    def __call__(self, lines: "tf.Tensor | Sequence[str | bytes]") -> "tf.Tensor":
        """Tokenizes lines.

        Args:
            lines: string tensor or list `(n,)`, in UTF-8.

        Returns:
            string tensor `(n,)`: the tokens of each line, separated by single spaces.
        """
        import tensorflow as tf

        lines = self._text.normalize_utf8(tf.convert_to_tensor(lines, tf.string), "NFKC")
        lines = tf.strings.regex_replace(lines, "[\u2018\u2019]", "'")
        if self.lowercase:
            lines = self._text.case_fold_utf8(lines)
        lines = tf.strings.regex_replace(lines, r"([\p{P}\p{S}])", r" \1 ")
        # WhitespaceTokenizer of tensorflow-text is not used because it separates the two bytes of U+0085.
        return tf.strings.strip(tf.strings.regex_replace(lines, r"[\p{Z}\p{Cc}]+", " "))

    def words(self, lines: Sequence[str]) -> list[list[str]]:
        """Tokenizes lines into lists of words.

        Args:
            lines: list of str. A lone surrogate, which stands for an undecodable byte, is replaced by "?".

        Returns:
            list of lists of str.
        """
        tokenized = self([line.encode("utf-8", "replace") for line in lines])
        return [split_tokens(line) for line in tokenized.numpy()]


def split_tokens(line: bytes) -> list[str]:
    """Splits a tokenized line into words."""
    return line.decode().split(" ") if line else []
