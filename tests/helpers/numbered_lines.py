"""Lines that compress badly."""


def numbered_lines(count):
    """A number of different lines, as bytes."""
    return b"".join(b"line %d %x\n" % (number, hash((number, "x")) & 0xFFFFFFFF) for number in range(count))
