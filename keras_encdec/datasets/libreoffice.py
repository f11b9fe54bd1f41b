"""English and French texts of LibreOffice, as its help pages and message catalogs hold them."""

import re
import struct
from html.parser import HTMLParser
from typing import Any

_CATALOG_MAGIC = 0x950412DE
# What a program fills in, and markup: %1, $(ARG1), {name}, <b>, \n, #.
_PLACEHOLDER = re.compile(r"[%$][\w({]|\{|\}|<\S|\\\w|#")


class _HelpPage(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.paragraphs = {}
        self._id = self._tag = None
        self._text = []
        self._spans = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "p" or re.fullmatch("h[1-6]", tag):
            # Code is not language; an id that comes twice is an embedded copy.
            is_code = "code" in (attrs.get("class") or "")
            self._id = None if is_code else attrs.get("id")
            self._tag, self._text, self._spans = tag, [], []
        elif tag == "span" and self._id:
            if "hidden" in attrs:
                self._drop_previous_alternative()
            is_switch = attrs.get("class") == "switchinline"
            self._spans.append(len(self._text) if is_switch else None)
        elif tag == "br":
            self._text.append(" ")

    def handle_endtag(self, tag):
        if tag == "span" and self._spans:
            self._spans.pop()
        elif tag == self._tag and self._id:
            text = " ".join("".join(self._text).split())
            if text:
                self.paragraphs.setdefault(self._id, text)
            self._id = None

    def handle_data(self, data):
        if self._id:
            self._text.append(data)

    def _drop_previous_alternative(self):
        # A switchinline holds one hidden span for each system or application, the default last;
        # only that is kept, so that "Command" and "Ctrl" do not run together.
        for mark in reversed(self._spans):
            if mark is not None:
                del self._text[mark:]
                return


def read_help_page(html: str) -> dict[str, str]:
    """The paragraphs and headings of a help page, by their ids.

    Args:
        html: str.

    Returns:
        dict from id to text, white space collapsed, in the order of the page. Code is left out; of
        texts that differ between systems or applications, the default one is kept.

    Example:

    >>> read_help_page('<h1 id="hd_1">First <b>Steps</b></h1><p>no id</p>')
    {'hd_1': 'First Steps'}
    """
    page = _HelpPage()
    page.feed(html)
    page.close()
    return page.paragraphs


def read_catalog(content: bytes) -> Any:
    """The messages of a compiled gettext catalog.

    The layout is in the GNU gettext manual, section "The Format of GNU MO Files".

    Args:
        content: bytes of an .mo file.

    Yields:
        `(original, translation)`: str, contexts removed. Plural forms are left out, their originals
        not being whole sentences, and so is the header.

    Raises:
        ValueError: when the bytes are no catalog.
    """
    if len(content) < 20:
        raise ValueError("a message catalog has at least 20 bytes")
    order = "<" if struct.unpack_from("<I", content)[0] == _CATALOG_MAGIC else ">"
    magic, _, count, originals, translations = struct.unpack_from(order + "5I", content)
    if magic != _CATALOG_MAGIC:
        raise ValueError("not a message catalog: wrong magic number")

    def text(table, index):
        length, start = struct.unpack_from(order + "2I", content, table + 8 * index)
        return content[start : start + length].decode("utf-8")

    for index in range(count):
        original = text(originals, index).rpartition("\x04")[2]
        if original and "\0" not in original:
            yield original, text(translations, index)


def clean_message(text: str) -> str:
    """Makes a message plain text: no accelerator marks, the product's name filled in.

    Args:
        text: str.

    Returns:
        str, or `None` when the message has placeholders or markup in it.

    Example:

    >>> clean_message("Print _all documents"), clean_message("~File"), clean_message("$1 columns")
    ('Print all documents', 'File', None)
    """
    text = text.replace("%PRODUCTNAME", "LibreOffice").replace("%PRODUCTVERSION", "7.4")
    if _PLACEHOLDER.search(text):
        return None
    return " ".join(re.sub(r"[~_](?=\w)", "", text).split())
