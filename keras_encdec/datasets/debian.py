"""Reads files out of Debian packages, without Debian's tools."""

import io
import lzma
import os
import pathlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

from keras_encdec.errors import InputError

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
