"""Griffe extension: the sections of this package's docstrings that Google's style does not know."""

import re
from typing import Any

import griffe

HEADING = re.compile(r"^[A-Z][A-Za-z ]*:$")
# "units: int. Number of units." in a list of arguments or attributes.
TYPED = re.compile(r"^(    \*{0,2}\w+): (int|float|bool|str|bytes|dict|callable)\. ")


class Sections(griffe.Extension):
    """Rewrites docstrings before they are parsed; see `rewritten`."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """A docstring with sections that griffe knows.

    "Call arguments:" becomes a titled list of parameters, "Example:" a section of doctests, indented or not, and
    "Reference:" a list below a bold line. A type at the beginning of an argument's description becomes its type.

    Args:
        text: str. A docstring without its common indentation.

    Returns:
        str.
    """
    blocks = [[]]
    for line in text.splitlines():
        if HEADING.match(line):
            blocks.append([])
        blocks[-1].append(line)
    return "\n".join(line for block in blocks for line in _rewritten_block(block)).strip()


def _rewritten_block(block: list[str]) -> list[str]:
    heading, body = (block[0], block[1:]) if block else ("", [])
    if heading in ("Args:", "Attributes:", "Call arguments:"):
        body = [TYPED.sub(r"\1 (\2): ", line) for line in body]
    if heading == "Call arguments:":
        return ["Other Parameters: Call arguments", *body]
    if heading in ("Example:", "Examples:"):
        while body and not body[0].strip():
            body = body[1:]
        indented = bool(body) and body[0].startswith(" ")
        return ["Examples:", *(line if indented or not line else f"    {line}" for line in body)]
    if heading in ("Reference:", "References:"):
        return [f"**{heading}**", "", *(line.removeprefix("    ") for line in body), ""]
    return [heading, *body] if block else block
