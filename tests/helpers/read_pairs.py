"""Files of pairs, and the pairs that a reader finds in them."""


def write(folder, name, content):
    """Writes bytes to a file of a folder; returns its path."""
    (folder / name).write_bytes(content)
    return folder / name


def pairs(reader):
    """All pairs of a reader of records, which is closed."""
    with reader:
        return [(record.source, record.target) for record in reader]
