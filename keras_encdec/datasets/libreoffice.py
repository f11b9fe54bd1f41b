"""English and French texts of LibreOffice, from the source packages of Debian."""

import io
import lzma
import os
import pathlib
import re
import struct
import tarfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from keras_encdec.errors import InputError

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


def clean_message(text: str) -> str | None:
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


_MAGIC = b"!<arch>\n"


def find_package(directory: str | os.PathLike, name: str) -> pathlib.Path:
    """Finds the one file of a package.

    Args:
        directory: path.
        name: str. The package's name, as `libreoffice-help-fr`.

    Returns:
        pathlib.Path.

    Raises:
        InputError: when no file, or more than one, is the package.
    """
    paths = sorted(Path(directory).glob(f"{name}_*.deb"))
    if len(paths) != 1:
        raise InputError(
            f"found {len(paths)} files named {name}_*.deb",
            "expected one",
            f"on Debian 12: cd {directory} && apt-get download {name}",
            path=directory,
        )
    return paths[0]


def package_version(path: str | os.PathLike) -> str:
    """The version in a package's file name, where `apt-get download` writes a colon as %3a.

    >>> package_version("libreoffice-help-fr_4%3a7.4.7-1+deb12u14_all.deb")
    '4:7.4.7-1+deb12u14'
    """
    return Path(path).name.split("_")[1].replace("%3a", ":")


def read_package(path: str | os.PathLike) -> Iterator[tuple[str, bytes]]:
    """Yields the regular files of a package, in its order.

    A .deb is an ar archive (deb(5)): after eight bytes of magic, members with a 60-byte header, each
    padded to an even length; the files are in the member `data.tar.xz` (or .gz).

    Args:
        path: path of the .deb file.

    Yields:
        `(name, content)`: str, without the leading `./`, and bytes.

    Raises:
        InputError: when the file is no Debian package, or packed in another way.
    """
    content = Path(path).read_bytes()
    if not content.startswith(_MAGIC):
        raise InputError("found no ar archive", "expected a Debian package", "download it again", path=path)
    position = len(_MAGIC)
    while position + 60 <= len(content):
        name = content[position : position + 16].decode("ascii", "replace").rstrip(" /")
        size = int(content[position + 48 : position + 58])
        position += 60
        if name.startswith("data.tar"):
            yield from _read_tar(content[position : position + size], path)
            return
        position += size + size % 2
    raise InputError("found no data.tar", "expected a Debian package", "download it again", path=path)


def _read_tar(content, path):
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                if member.isfile():
                    yield member.name.removeprefix("./"), archive.extractfile(member).read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise InputError(
            f"could not unpack its files ({error})",
            "expected data.tar.xz or data.tar.gz, whole",
            "download it again, from Debian 12",
            path=path,
        ) from error
