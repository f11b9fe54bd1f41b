"""What separates tokens, in every file of text."""

from typing import AnyStr

# What stands around a field of a line and is no part of it; a carriage return may end the line.
AROUND = b" \t\r"


def split_tokens(text: AnyStr) -> list[AnyStr]:
    """The tokens of a line: what spaces and tabs separate, as in Moses.

    A vertical tab, a form feed, a no-break space and the like are parts of tokens. The carriage return that may end a
    line is none of its characters: whoever reads lines leaves it out.

    Args:
        text: str or bytes.

    Returns:
        list of str or bytes, empty for an empty line.

    Example:

    >>> split_tokens(" le\\tchat  10\\u00a0000 ")
    ['le', 'chat', '10\\xa0000']
    """
    space, tab = (" ", "\t") if isinstance(text, str) else (b" ", b"\t")
    if tab in text:
        text = text.replace(tab, space)
    tokens = text.split(space)
    return [token for token in tokens if token] if not all(tokens) else tokens
