"""Moses's escapes and factors, off for the model and on again."""

import re

from keras_encdec.formats.fields import split_tokens

# Moses's own order: the ampersand last when taking escapes off, so that "&amp;lt;" gives "&lt;".
_ESCAPES = (
    ("&#124;", "|"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", '"'),
    ("&apos;", "'"),
    ("&#91;", "["),
    ("&#93;", "]"),
    ("&amp;", "&"),
)
# Written by old versions of Moses, and only read.
_OLD_ESCAPES = (("&bar;", "|"), ("&bra;", "["), ("&ket;", "]"))
# Each escape and what it stands for, in the order in which they come off.
UNESCAPING = _OLD_ESCAPES + _ESCAPES
_FACTORED_WORD = re.compile(r"(?<![^ \t])([^ \t|]+)\|[^ \t]*")


def unescape(phrase: str) -> str:
    """Takes Moses's escapes off.

    Args:
        phrase: str.

    Returns:
        str. The phrase with `&quot; &apos; &#124; &#91; &#93; &lt; &gt; &amp;`, and the older
        `&bar; &bra; &ket;`, replaced by what they stand for.

    Example:

    >>> unescape("l &apos;&quot; &amp;lt; &eacute;")
    'l \\'" &lt; &eacute;'
    """
    if "&" in phrase:
        for escaped, plain in UNESCAPING:
            phrase = phrase.replace(escaped, plain)
    return phrase


def escape(phrase: str) -> str:
    """Puts Moses's escapes on: the inverse of `unescape`.

    Args:
        phrase: str.

    Returns:
        str. `unescape(escape(phrase))` is `phrase`.

    Example:

    >>> escape("R&D | [x]")
    'R&amp;D &#124; &#91;x&#93;'
    """
    for escaped, plain in reversed(_ESCAPES):
        phrase = phrase.replace(plain, escaped)
    return phrase


def surface(phrase: str) -> str:
    """Leaves of each factored word its first factor, the word form.

    A word that begins with a bar has no word form and stays as it is. Comes before `unescape`: `&#124;`
    is a bar in the text, not one between factors.

    Args:
        phrase: str. Words separated by spaces, such as `word|POS|lemma`.

    Returns:
        str.

    Example:

    >>> surface("the|DT houses|NNS|house |")
    'the houses |'
    """
    return _FACTORED_WORD.sub(r"\1", phrase) if "|" in phrase else phrase


def model_words(phrase: str, factored: bool = True) -> list[str]:
    """The words of a phrase as the model reads them: without factors, without escapes.

    Only spaces and tabs separate words, see `split_tokens`.

    Args:
        phrase: str. A phrase of a table.
        factored: bool. Whether a bar in a word separates factors. Defaults to `True`.

    Returns:
        list of str, empty for an empty phrase.

    Example:

    >>> model_words(" l|DET  &#124;|PUNC 10\\u00a0000|NUM ")
    ['l', '|', '10\\xa0000']
    """
    if factored and "|" in phrase:
        phrase = _FACTORED_WORD.sub(r"\1", phrase)
    return split_tokens(unescape(phrase))
