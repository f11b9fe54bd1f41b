"""Lines of an n-best list, as far as they fit what else was given."""

from keras_encdec.errors import InputError


def fitting(reader, names, source_path, num_sources):
    """Yields the records of an n-best list whose source sentences are in a file, and that lack some features.

    Args:
        reader: NBestReader.
        names: list of str, of features that are to be added.
        source_path: the file of source sentences, named in errors.
        num_sources: int. How many there are.

    Yields:
        NBestRecord.

    Raises:
        InputError: at a line whose id has no source sentence, or that has one of the features.
    """
    labels = {f"{name}=".encode("utf-8", "surrogateescape"): name for name in names}
    for record in reader:
        path, line = reader.lines.path, reader.lines.line_number
        if record.problem is None and record.id >= num_sources:
            raise InputError(
                f"found the id {record.id}",
                f"expected one up to {num_sources - 1}, as {source_path} has {num_sources:,} lines",
                "give as --source the sentences that were translated", path, line,
            )  # fmt: skip
        for label in labels.keys() & record.features.split():
            raise InputError(
                f"found the feature {labels[label]}", "expected it to be new",
                "give another --feature_name, or a list without the feature", path, line,
            )
        yield record
