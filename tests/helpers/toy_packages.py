"""Debian packages and catalogs of messages, as the dataset is built from them."""

import io
import struct
import tarfile


def make_catalog(messages, order="<"):
    """The bytes of an .mo file, as msgfmt writes it, without the hash table."""
    count, strings, tables = len(messages), b"", [[], []]
    start = 28 + 16 * count
    for side in (0, 1):
        for message in sorted(messages):
            data = message[side].encode()
            tables[side] += [len(data), start + len(strings)]
            strings += data + b"\0"
    header = struct.pack(order + "7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, start)
    return header + struct.pack(f"{order}{4 * count}I", *tables[0], *tables[1]) + strings


def make_package(path, files):
    """Writes a .deb with these files: name to bytes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo("./" + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    package = b"!<arch>\n"
    # The first member has an odd length, so that the padding is passed over.
    for name, content in (
        ("debian-binary", b"2.0"),
        ("control.tar.xz", b"xx"),
        ("data.tar.xz", data.getvalue()),
    ):
        package += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        package += content + b"\n" * (len(content) % 2)
    path.write_bytes(package)
