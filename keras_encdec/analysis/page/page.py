"""Fills in the HTML of the report: its page, and the tables, pictures and interactive figures of its sections."""

import base64
import dataclasses
import functools
import gzip
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from importlib import resources

import jinja2
import numpy as np
from markupsafe import Markup

from keras_encdec import __version__
from keras_encdec.formats.encodings import utf8
from keras_encdec.runtime.progress import counted


def page(title: str, facts: Mapping[str, str | int], notices: Sequence[str], sections: Sequence["Section"]) -> bytes:
    """Builds an HTML page that contains its styles, its script, its data and its pictures.

    The page fetches nothing. Its Content-Security-Policy forbids fetching, and any script but the page's own.

    Args:
        title: str. Plain text.
        facts: dict from name to str or int, shown at the top.
        notices: list of str. Sentences that are shown before the sections.
        sections: list of Section, in order.

    Returns:
        bytes, UTF-8.
    """
    folder = resources.files("keras_encdec.analysis.page")
    texts = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    style, script = map(Markup, texts)  # Markup, because they are part of the package: they are not escaped
    template = _templates().get_template("page.html")
    return utf8(
        template.render(
            title=title,
            facts=facts,
            notices=notices,
            sections=sections,
            style=style,
            script=script,
            version=__version__,
        )
    )


def fill(macro: str, template: str = "sections.html", **values: object) -> Markup:
    """Fills in a macro of a template.

    Args:
        macro: str. Name of the macro.
        template: str. File name of the template. Defaults to `"sections.html"`.
        **values: the arguments of the macro. Text in them is escaped, unless it is Markup.
    """
    return Markup(getattr(_templates().get_template(template).module, macro)(**values))


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keras_encdec.analysis.page", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number_text, "counted": counted}
    environment.filters |= {"base64": _base64, "digest": _digest, "adaptive": adaptive}
    return environment


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


# For each colour of figures on white (background, text, lines, Okabe and Ito's palette), the colour on dark pages.
DARK = {
    "#ffffff": "#1e2328",
    "#1a1c1f": "#e8eaed",
    "#54595f": "#adb3ba",
    "#e3e6ea": "#353c44",
    "#0072b2": "#56b4e9",
    "#d55e00": "#f28e42",
    "#009e73": "#2fd0a0",
    "#cc79a7": "#e39ac6",
}


def adaptive(svg: bytes) -> bytes:
    """Adds dark colours to an SVG image of matplotlib, which a browser uses where the page is dark."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    head, start, body = svg.partition(b"<defs>")
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>".encode()
    return head + style + start + body if start else svg


def _digest(text: str) -> str:
    """Returns the hash by which a Content-Security-Policy allows a style or a script."""
    return f"sha256-{_base64(hashlib.sha256(text.encode()).digest())}"


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


def one_line(text: str) -> str:
    """Replaces tabs and line breaks with spaces, and keeps other white space, which is part of a word."""
    return re.sub(r"[ \t\r\n]+", " ", text).strip(" ")


def cut(text: str, length: int) -> str:
    """Cuts text that is longer than `length` characters, before a letter rather than before its combining marks."""
    if len(text) <= length:
        return text
    end = length - 1
    while end and unicodedata.category(text[end]).startswith("M"):
        end -= 1
    return f"{text[:end]}…"


def isolated(text: str) -> str:
    """Keeps Arabic or Hebrew from reordering what is around it: "source → target" would show the target first."""
    return f"\u2068{text}\u2069" if any(unicodedata.bidirectional(each) in ("R", "AL") for each in text) else text


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that is in a TSV file, and may also be in the page.

    Attributes:
        caption: str. A sentence, plain text.
        header: list of str.
        rows: list of lists of str or numbers.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | float]]

    def to_tsv(self) -> bytes:
        """Writes the header and the rows as lines in UTF-8. Tabs and line breaks within a cell become spaces."""
        lines = ["\t".join(one_line(str(cell)) for cell in row) for row in (self.header, *self.rows)]
        return utf8("".join(f"{line}\n" for line in lines))


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure that is in files, and may also be in the page.

    Attributes:
        svg, png: bytes, the content of each file.
        description: str. Alternative text in the page, plain text.
        caption: str. Plain text. Optional.
        boxes: str. The characters that no installed font has, which are drawn as boxes.
    """

    svg: bytes
    png: bytes
    description: str = ""
    caption: str = ""
    boxes: str = ""


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the report: its text in the page, and its files.

    Attributes:
        name: str. Anchor in the page.
        title: str. Plain text.
        body: Markup, see `fill`.
        tables: dict of file name, without ".tsv", to Table.
        pictures: dict from file name, without extension, to Drawing.
        files: dict from path, relative to the report, to bytes, for other files.
    """

    name: str
    title: str
    body: Markup
    tables: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    pictures: Mapping[str, Drawing] = dataclasses.field(default_factory=dict)
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def paths(self) -> list[str]:
        """Lists the paths of the section's files, relative to the report; for each figure, only the SVG file."""
        tables = [f"tables/{name}.tsv" for name in self.tables]
        return [*tables, *(f"figures/{name}.svg" for name in self.pictures), *self.files]

    def without_contents(self) -> "Section":
        """Returns a copy with empty files of the same paths: once the files are written, the page needs only paths."""
        return dataclasses.replace(
            self,
            tables=dict.fromkeys(self.tables, Table("", (), ())),
            pictures=dict.fromkeys(self.pictures, Drawing(b"", b"")),
            files=dict.fromkeys(self.files, b""),
        )


# Maximum number of characters of a label; the rest is cut off.
MAX_LABEL_LENGTH = 100


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
        regions: dict from name to box `(left, bottom, right, top)`. Each gets a button that zooms to it. Optional.
        groups: dict from at most five names to int arrays, the indices of the points of each group. Each point is in
            one group, which decides its colour. Optional.
        view: box that the figure shows first, with a button that shows it again. Defaults to `None`: all points.
    """

    name: str
    label: str
    caption: str
    points: np.ndarray
    columns: Sequence[Sequence[str]]
    unit: str
    axes: Sequence[tuple[str, str]] | None = None
    neighbours: tuple[np.ndarray, np.ndarray] | None = None
    regions: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    groups: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    view: Sequence[float] | None = None

    def data(self) -> str:
        """Encodes what the page's script draws: base64 of gzipped JSON."""
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
        if self.groups:
            group_of = np.empty(len(self.points), np.uint8)
            for number, members in enumerate(self.groups.values()):
                group_of[members] = number
            data["groups"] = packed(group_of, np.uint8)
        if self.view is not None:
            data["view"] = [float(side) for side in self.view]
        if self.neighbours is not None:
            data["neighbours"] = packed(self.neighbours[0], np.int32)
            data["similarities"] = packed(self.neighbours[1], np.float32)
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return _base64(gzip.compress(text.encode(), mtime=0))


def _column(labels: Sequence[str]) -> dict[str, str | None]:
    """Stores each distinct label once, with the index of the label of each point."""
    indices: dict[str, int] = {}
    index = [indices.setdefault(_line(label), len(indices)) for label in labels]
    distinct = len(indices) == len(labels)
    return {"strings": "\n".join(indices), "index": None if distinct else packed(np.array(index), np.int32)}


def _line(label: str) -> str:
    return cut(one_line(utf8(label).decode()), MAX_LABEL_LENGTH)


def packed(numbers: np.ndarray, dtype: type) -> str:
    """Encodes numbers as base64 of their little-endian bytes."""
    return _base64(np.ascontiguousarray(numbers, np.dtype(dtype).newbyteorder("<")).tobytes())
