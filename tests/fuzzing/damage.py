"""Damages files as a disk, a transfer, another program or an attacker might."""

import gzip
import random

# Text that has broken a reader of text somewhere before.
TOKENS = [
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\xed\xa0\x80",
    b"\xc3",
    b"\xe2\x80\xae",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\xef\xbb\xbf",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\v",
    b"\f",
    b"\x1b[31m",
    b"\x1c",
    b"\t",
    b"\t\t",
    b" ",
    b"  ",
    b"|",
    b"||",
    b"|||",
    b" ||| ",
    b" ||| ||| ",
    b"nan",
    b"inf",
    b"-inf",
    b"1e999",
    b"-1e-999",
    b"0",
    b"-0.0",
    b"-1",
    b"1_0",
    b"+1",
    b"0x10",
    b"\xd9\xa3",
    b"9" * 25,
    b"9" * 5000,
    b"1e5",
    b"0-0",
    b"0-",
    b"-0-0",
    b"999999999999-0",
    b"0-0-0",
    b"<s>",
    b"</s>",
    b"<unk>",
    b"@@",
    b"\xe2\x96\x81",
    b"&#124;",
    b"&amp;",
    b"&#x110000;",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"'",
    b"\\",
    b"\\u0000",
    b"=",
    b"= ",
    b"#",
    b"/etc/passwd",
    b"../../x",
    b"%s",
    b"{}",
    b"<script>",
    b"null",
    b"true",
    b"[[[[[[[[",
    b"ngram 1=9999999999\n",
]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Returns the content of a file after one to three damages of random kinds."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choices(_KINDS, _WEIGHTS)[0](data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(min(len(data), rng.choice((1, 1, 2, 8)))):
        result[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(result)


def _insert(data: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + rng.choice(TOKENS) + data[place:]


def _replace_token(data: bytes, rng: random.Random) -> bytes:
    words = data.split(b" ")
    words[rng.randrange(len(words))] = rng.choice(TOKENS)
    return b" ".join(words)


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _remove(data: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + data[place + rng.choice((1, 1, 5, 50)) :]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(data))
    end = min(len(data), start + rng.choice((1, 10, 100)))
    return data[:end] + data[start:end] * rng.choice((1, 2, 30)) + data[end:]


def _move_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
    return b"\n".join(lines)


def _replace_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    lines[rng.randrange(len(lines))] = rng.choice(lines + TOKENS)
    return b"\n".join(lines)


def _many_fields(data: bytes, rng: random.Random) -> bytes:
    field = rng.choice((b" ", b"\t", b" ||| ", b"a ", b"0-0 ", b"1\t", b"|"))
    return _replace_at(data, field * rng.choice((10, 1000, 20_000)), rng)


def _long_word(data: bytes, rng: random.Random) -> bytes:
    return _replace_at(data, rng.choice((b"a", b"\xc3\xa9", b"\xff", b"1")) * rng.choice((100, 70_000)), rng)


def _replace_at(data: bytes, text: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + text + data[place:]


def _random(data: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((0, 1, 30, 1000)))


def _other_encoding(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "latin-1")), "replace")


def _other_line_ends(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"", b"\n\r")))


def _gzipped(data: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    whole = gzip.compress(data, 1, mtime=0)
    members = gzip.compress(data[:place], 1, mtime=0), gzip.compress(data[place:], 1, mtime=0)
    return rng.choice(
        (
            whole,
            b"".join(members),
            members[0] + b"\0" * 512 + members[1],
            members[0] + b"other data",
            _truncate(whole, rng),
            _flip(whole, rng),
            gzip.compress(whole, 1, mtime=0),
        )
    )


def _bomb(data: bytes, rng: random.Random) -> bytes:
    """A megabyte of one byte in a kilobyte, which is the highest ratio of gzip."""
    return gzip.compress(data + rng.choice((b"\0", b"\n", b"a ", b"a")) * (1 << 20), 9, mtime=0)


_KINDS = (
    _flip,
    _insert,
    _replace_token,
    _truncate,
    _remove,
    _repeat,
    _move_lines,
    _replace_lines,
    _many_fields,
    _long_word,
    _random,
    _other_encoding,
    _other_line_ends,
    _gzipped,
    _bomb,
)
_WEIGHTS = (10, 20, 20, 6, 8, 6, 8, 8, 1, 1, 2, 3, 3, 4, 0.05)
