"""Lines that compress badly."""


def numbered_lines(count):
    """So many of them, as bytes."""
    return b"".join(b"line %d %x\n" % (number, hash((number, "x")) & 0xFFFFFFFF) for number in range(count))
