"""English and French texts of LibreOffice, from Debian's binary packages."""

import io
import lzma
import os
import re
import struct
import tarfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from absl import logging
from tqdm import tqdm

from keras_encdec.errors import InputError

_CATALOG_MAGIC = 0x950412DE
# Placeholders and markup, such as %1, $(ARG1), {name}, <b>, \n, #.
_PLACEHOLDER = re.compile(r"[%$][\w({]|\{|\}|<\S|\\\w|#")

TextPair = tuple[str, str]
PACKAGES = ("libreoffice-help-en-us", "libreoffice-help-fr", "libreoffice-l10n-fr")


def read_texts(directory: str | os.PathLike[str]) -> list[TextPair]:
    """Reads English texts and their French translations from the packages.

    Args:
        directory: path with the .deb files.

    Returns:
        list of `(english, french)`: paragraphs of the help, then messages of the user interface.

    Raises:
        InputError: if a package is missing or the packages have different versions.
    """
    paths = [find_package(directory, name) for name in PACKAGES]
    versions = {package_version(path) for path in paths}
    if len(versions) > 1:
        found = f"found versions {', '.join(sorted(versions))}"
        raise InputError(found, "expected packages of one version", "download all three again", directory)
    logging.info("LibreOffice packages of version %s", *versions)
    pages = []
    for path, language in zip(paths, ("en-US", "fr"), strict=False):
        folder = f"usr/share/libreoffice/help/{language}/"
        pages.append(
            {
                name.removeprefix(folder): read_help_page(content.decode("utf-8"))
                for name, content in tqdm(read_package(path), f"help, {language}", disable=None)
                if name.startswith(folder) and name.endswith(".html")
            }
        )
    texts = [
        (text, pages[1][page][identifier])
        for page, paragraphs in sorted(pages[0].items())
        for identifier, text in paragraphs.items()
        if identifier in pages[1].get(page, {})
    ]
    logging.info("help: %d paragraph pairs", len(texts))
    messages = [
        (clean_message(original), clean_message(translation))
        for name, content in sorted(read_package(paths[2]))
        if name.endswith(".mo")
        for original, translation in read_catalog(content)
    ]
    plain = [(original, translation) for original, translation in messages if original and translation]
    logging.info("messages: %d, %d of them plain", len(messages), len(plain))
    return texts + plain


class _HelpPage(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: dict[str, str] = {}
        self._id: str | None = None
        self._tag: str | None = None
        self._text: list[str] = []
        # For each open span: where its text begins if it is a switchinline, else None.
        self._spans: list[int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "p" or re.fullmatch("h[1-6]", tag):
            is_code = "code" in (attributes.get("class") or "")
            self._id = None if is_code else attributes.get("id")
            self._tag, self._text, self._spans = tag, [], []
        elif tag == "span" and self._id:
            if "hidden" in attributes:
                self._drop_previous_alternative()
            is_switch = attributes.get("class") == "switchinline"
            self._spans.append(len(self._text) if is_switch else None)
        elif tag == "br":
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self._spans:
            self._spans.pop()
        elif tag == self._tag and self._id:
            text = " ".join("".join(self._text).split())
            if text:
                self.paragraphs.setdefault(self._id, text)  # a second paragraph with the id is an embedded copy
            self._id = None

    def handle_data(self, data: str) -> None:
        if self._id:
            self._text.append(data)

    def _drop_previous_alternative(self) -> None:
        # A switchinline holds one hidden span for each system or application, the default last. Only the last one is
        # kept, so that the text does not have "Command" and "Ctrl" together.
        for mark in reversed(self._spans):
            if mark is not None:
                del self._text[mark:]
                return


def read_help_page(html: str) -> dict[str, str]:
    """Reads the paragraphs and headings of a help page, by their ids.

    Returns:
        dict from id to text, in the order of the page, with white space collapsed. Code is left out. If a text differs
        between systems or applications, the default text is kept.

    Example:

    >>> read_help_page('<h1 id="hd_1">First <b>Steps</b></h1><p>no id</p>')
    {'hd_1': 'First Steps'}
    """
    page = _HelpPage()
    page.feed(html)
    page.close()
    return page.paragraphs


def read_catalog(content: bytes) -> Iterator[tuple[str, str]]:
    """Reads the messages of a compiled gettext catalog.

    The layout is in the GNU gettext manual, section "The Format of GNU MO Files".

    Yields:
        `(original, translation)`: str, without contexts. The header is left out. So are plural forms, because their
        originals are not whole sentences.

    Raises:
        ValueError: if the bytes are not a catalog.
    """
    if len(content) < 20:
        raise ValueError(f"found {len(content)} bytes, expected a message catalog of 20 bytes or more")
    order = "<" if struct.unpack_from("<I", content)[0] == _CATALOG_MAGIC else ">"
    magic, _, count, originals, translations = struct.unpack_from(order + "5I", content)
    if magic != _CATALOG_MAGIC:
        raise ValueError(f"found the magic number {magic:#x}, expected {_CATALOG_MAGIC:#x}, a message catalog")

    def text(table: int, index: int) -> str:
        length, start = struct.unpack_from(order + "2I", content, table + 8 * index)
        return content[start : start + length].decode("utf-8")

    for index in range(count):
        original = text(originals, index).rpartition("\x04")[2]
        if original and "\0" not in original:
            yield original, text(translations, index)


def clean_message(text: str) -> str | None:
    """Makes a message plain text: removes accelerator marks, and inserts the product's name and version.

    Returns:
        str; `None` if the message has other placeholders, or markup.

    Example:

    >>> clean_message("Print _all documents"), clean_message("~File"), clean_message("$1 columns")
    ('Print all documents', 'File', None)
    """
    text = text.replace("%PRODUCTNAME", "LibreOffice").replace("%PRODUCTVERSION", "7.4")
    if _PLACEHOLDER.search(text):
        return None
    return " ".join(re.sub(r"[~_](?=\w)", "", text).split())


_MAGIC = b"!<arch>\n"


def find_package(directory: str | os.PathLike[str], name: str) -> Path:
    """Finds the file of a package.

    Args:
        directory: path.
        name: str. The package's name, such as "libreoffice-help-fr".

    Raises:
        InputError: if no file, or more than one, has the package's name.
    """
    paths = sorted(Path(directory).glob(f"{name}_*.deb"))
    if len(paths) != 1:
        remedy = f"on Debian 12: cd {directory} && apt-get download {name}"
        raise InputError(f"found {len(paths)} files named {name}_*.deb", "expected one file", remedy, directory)
    return paths[0]


def package_version(path: str | os.PathLike[str]) -> str:
    """Returns the version in a package's file name, in which `apt-get download` writes a colon as %3a.

    >>> package_version("libreoffice-help-fr_4%3a7.4.7-1+deb12u14_all.deb")
    '4:7.4.7-1+deb12u14'
    """
    return Path(path).name.split("_")[1].replace("%3a", ":")


def read_package(path: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """Yields the regular files of a package, in its order.

    A .deb is an ar archive (deb(5)): eight bytes of magic, then members, each with a 60-byte header and padded to an
    even length. The files are in the member `data.tar.xz` or `data.tar.gz`.

    Yields:
        `(name, content)`: str, without the leading `./`, and bytes.

    Raises:
        InputError: if the file is not a Debian package, or its files cannot be unpacked.
    """
    content = Path(path).read_bytes()
    if not content.startswith(_MAGIC):
        raise InputError(
            "found a file that is not an ar archive", "expected a Debian package", "download it again", path
        )
    position = len(_MAGIC)
    while position + 60 <= len(content):
        name = content[position : position + 16].decode("ascii", "replace").rstrip(" /")
        size = int(content[position + 48 : position + 58])
        position += 60
        if name.startswith("data.tar"):
            yield from _read_tar(content[position : position + size], path)
            return
        position += size + size % 2
    raise InputError("found no member data.tar", "expected a Debian package", "download it again", path)


def _read_tar(content: bytes, path: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file:
                    yield member.name.removeprefix("./"), file.read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        found, expected = f"could not unpack its files ({error})", "expected a complete data.tar.xz or data.tar.gz"
        raise InputError(found, expected, "download it again, from Debian 12", path) from error
