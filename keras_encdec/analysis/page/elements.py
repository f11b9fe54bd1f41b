"""Parts of an HTML page; whatever is text of a user's is escaped here and nowhere else."""

import base64
import dataclasses
import html
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that is both in the page and in a TSV file.

    Attributes:
        caption: str. A sentence, plain text.
        header: list of str.
        rows: list of lists of str or numbers.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def to_tsv(self) -> bytes:
        """The header and the rows, a line each, UTF-8; tabs and line breaks within a cell become spaces."""
        lines = ["\t".join(" ".join(str(cell).split()) for cell in row) for row in (self.header, *self.rows)]
        return utf8("".join(f"{line}\n" for line in lines))

    def to_html(self) -> str:
        """A `<table>` with its caption, in a frame that scrolls sideways where the window is narrow."""
        numeric = [isinstance(cell, int | float) for cell in self.rows[0]] if self.rows else [False] * len(self.header)
        kinds = [' class="number"' * (number and column > 0) for column, number in enumerate(numeric)]
        head = "".join(
            f'<th scope="col"{kind}>{escaped(name)}</th>' for name, kind in zip(self.header, kinds, strict=True)
        )
        body = "".join(_row(row) for row in self.rows)
        table = f"<table><caption>{escaped(self.caption)}</caption><thead><tr>{head}</tr></thead>"
        return scrolling(f"{table}<tbody>{body}</tbody></table>", self.caption)


def _row(row):
    first, *others = row
    cells = "".join(
        f'<td class="number">{escaped(number_text(cell))}</td>' if isinstance(cell, int | float)
        else f"<td>{escaped(cell)}</td>"
        for cell in others
    )  # fmt: skip
    return f'<tr><th scope="row">{escaped(first)}</th>{cells}</tr>'


def number_text(number: float) -> str:
    """A number for people: counts whole, others to three significant digits or two decimals.

    Example:

    >>> number_text(2546), number_text(0.000123456), number_text(-12.345)
    ('2,546', '0.000123', '−12.35')
    """
    if isinstance(number, int) or float(number).is_integer() and abs(number) >= 1:
        text = f"{number:,.0f}"
    else:
        text = f"{number:.3g}" if abs(number) < 1 else f"{number:,.2f}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def scrolling(content: str, label: str) -> str:
    """A frame that scrolls sideways, by keyboard too, where its content is wider than the window."""
    return f'<div class="scrolling" tabindex="0" role="group" aria-label="{escaped(label)}">{content}</div>'


def picture(svg: bytes, description: str, caption: str = "") -> str:
    """A drawing as an image of the page, isolated from its styles and scripts.

    Args:
        svg: bytes. An SVG file.
        description: str. What a reader sees who does not see it, plain text.
        caption: str. Plain text. Optional.
    """
    image = f'<img alt="{escaped(description)}" src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}">'
    caption = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return f'<figure class="picture">{image}{caption}</figure>'


def escaped(text: object) -> str:
    """Text as HTML, in an element or in a quoted attribute."""
    return html.escape(str(text), quote=True)


def utf8(text: str) -> bytes:
    """Text as UTF-8; bytes that were carried through undecoded are shown as replacement characters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()
