"""Builds the HTML page of the report from tables, pictures and sections."""

import base64
import dataclasses
import functools
import gzip
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from keras_encdec import __version__

if TYPE_CHECKING:  # figures.py imports this module
    from keras_encdec.analysis.drawing.figures import Drawing


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
        """Writes the header and the rows as lines in UTF-8. Tabs and line breaks within a cell become spaces."""
        lines = ["\t".join(" ".join(str(cell).split()) for cell in row) for row in (self.header, *self.rows)]
        return utf8("".join(f"{line}\n" for line in lines))

    def to_html(self) -> str:
        """Writes a `<table>` with its caption, in a frame that scrolls horizontally in a narrow window."""
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
        f'<td class="number">{escaped(number_text(cell))}</td>'
        if isinstance(cell, int | float)
        else f"<td>{escaped(cell)}</td>"
        for cell in others
    )
    return f'<tr><th scope="row">{escaped(first)}</th>{cells}</tr>'


def number_text(number: float) -> str:
    """Formats a number for people: counts without decimals, others with three significant digits or two decimals.

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
    """Wraps content in a frame that scrolls horizontally, also by keyboard, if it is wider than the window."""
    return f'<div class="scrolling" tabindex="0" role="group" aria-label="{escaped(label)}">{content}</div>'


def picture(svg: bytes, description: str, caption: str = "") -> str:
    """Embeds a drawing as an image, isolated from the styles and scripts of the page.

    Args:
        svg: bytes. An SVG file.
        description: str. Alternative text, plain text.
        caption: str. Plain text. Optional.
    """
    image = f'<img alt="{escaped(description)}" src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}">'
    caption = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return f'<figure class="picture">{image}{caption}</figure>'


def escaped(text: object) -> str:
    """Escapes text for HTML, in an element or in a quoted attribute."""
    return html.escape(str(text), quote=True)


def utf8(text: str) -> bytes:
    """Encodes text as UTF-8. Bytes that could not be decoded when the text was read become replacement characters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the report: its text in the page, and its files.

    Attributes:
        name: str. Anchor in the page.
        title: str. Plain text.
        body: str. HTML.
        tables: dict of file name, without ".tsv", to Table.
        pictures: dict of file name, without extension, to Drawing.
        files: dict of path, relative to the report, to bytes, for other files.
    """

    name: str
    title: str
    body: str
    tables: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    pictures: Mapping[str, "Drawing"] = dataclasses.field(default_factory=dict)
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)


def page(title: str, facts: Mapping[str, object], notices: Sequence[str], sections: Sequence[Section]) -> bytes:
    """Builds an HTML page that contains its styles, its script, its data and its pictures.

    The page fetches nothing. Its Content-Security-Policy forbids it to, and to run any script but its own.

    Args:
        title: str. Plain text.
        facts: dict of name to number or str, shown at the top.
        notices: list of str. Sentences that are shown before the sections.
        sections: list of Section, in order.

    Returns:
        bytes, UTF-8.
    """
    style, script = _resource("report.css"), _resource("report.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}' 'unsafe-hashes'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    shown = "".join(
        f"<div><dt>{escaped(name)}</dt>"
        f"<dd>{escaped(value if isinstance(value, str) else number_text(value))}</dd></div>"
        for name, value in facts.items()
    )
    said = "".join(f'<p class="notice">{escaped(notice)}</p>' for notice in notices)
    links = "".join(f'<li><a href="#{section.name}">{escaped(section.title)}</a></li>' for section in sections)
    body = "".join(_section(section) for section in sections)
    return utf8(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<title>{escaped(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        f'<body><a class="skip" href="#main">Skip to the content</a>\n<header><h1>{escaped(title)}</h1>'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main id="main"><dl class="facts">{shown}</dl>'
        f"{said}\n{body}</main>\n<footer><p>Made by keras-encdec {__version__}. The folder <code>figures</code> beside "
        "this page has the figures as PNG and SVG, <code>tables</code> the numbers as TSV.</p></footer>\n"
        f"<script>{script}</script></body></html>\n"
    )


def _section(section):
    files = [f"tables/{name}.tsv" for name in section.tables] + [f"figures/{name}.svg" for name in section.pictures]
    files += list(section.files)
    named = ", ".join(f"<code>{escaped(name)}</code>" for name in files)
    named = f"<p><small>Files: {named}</small></p>" if files else ""
    name, heading = section.name, f'<h2 id="{section.name}-title">{escaped(section.title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{heading}{section.body}{named}</section>\n'


@functools.cache
def _resource(name):
    return resources.files("keras_encdec.analysis.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# Largest number of characters of a label; the rest is cut off.
LONGEST_LABEL = 100


@dataclasses.dataclass(frozen=True)
class Scatter:
    """An interactive figure of points with labels.

    Attributes:
        name: str. Unique in the page.
        label: str. Alternative text.
        caption: str. Plain text.
        points: float array `(n, 2)`.
        columns: list of lists of n str: the parts of each point's label, such as source and target.
        unit: str. What a point stands for, in the plural, such as "phrases".
        axes: pair of pairs `(label, short label)`; `None` for a map, whose axes have no meaning.
        neighbours: pair of arrays `(n, k)`, indices and similarities of each point's neighbours. Optional.
        regions: dict of name to box `(left, bottom, right, top)`. Each gets a button that zooms to it. Optional.
    """

    name: str
    label: str
    caption: str
    points: np.ndarray
    columns: Sequence[Sequence[str]]
    unit: str
    axes: Sequence[tuple[str, str]] | None = None
    neighbours: tuple[np.ndarray, np.ndarray] | None = None
    regions: dict[str, Sequence[float]] = dataclasses.field(default_factory=dict)

    def to_html(self) -> str:
        """Writes the element of the figure, and the data for the page's script."""
        caption = f"<figcaption>{escaped(self.caption)}</figcaption>"
        no_script = "<noscript><p>This figure needs JavaScript; the folder figures has it as a picture.</p></noscript>"
        source, label = f"data-{self.name}", escaped(self.label)
        return (
            f'<figure class="scatter" id="scatter-{self.name}" data-source="{source}" aria-label="{label}">'
            f'{no_script}{caption}</figure><script type="application/gzip" id="{source}">{self._data()}</script>'
        )

    def _data(self) -> str:
        data: dict[str, object] = {
            "x": packed(self.points[:, 0], np.float32),
            "y": packed(self.points[:, 1], np.float32),
            "columns": [_column(column) for column in self.columns],
            "unit": self.unit,
            "regions": [{"name": name, "box": [float(side) for side in box]} for name, box in self.regions.items()],
        }
        if self.axes:
            data["axes"] = {
                axis: {"label": label, "short": short} for axis, (label, short) in zip("xy", self.axes, strict=True)
            }
        if self.neighbours is not None:
            data["neighbours"] = packed(self.neighbours[0], np.int32)
            data["similarities"] = packed(self.neighbours[1], np.float32)
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()  # base64 needs no escaping in HTML


def _column(labels):
    """Stores each distinct label once, with the index of the label of each point."""
    indices: dict[str, int] = {}
    index = [indices.setdefault(_line(label), len(indices)) for label in labels]
    distinct = len(indices) == len(labels)
    return {"strings": "\n".join(indices), "index": None if distinct else packed(np.array(index), np.int32)}


def _line(label):
    label = " ".join(utf8(label).decode().split())
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def packed(numbers: np.ndarray, dtype: type) -> str:
    """Encodes numbers as base64 of their little-endian bytes."""
    return base64.b64encode(np.ascontiguousarray(numbers, np.dtype(dtype).newbyteorder("<")).tobytes()).decode()
