"""Files whose names say whether they are gzipped."""

import gzip


def read(path):
    """The content of a file, decompressed if its name ends in .gz."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.name.endswith(".gz") else data


def write(path, data):
    """Writes a file, gzipped if its name ends in .gz, and returns its path."""
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith(".gz") else data)
    return path
