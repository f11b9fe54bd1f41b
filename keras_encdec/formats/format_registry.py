"""The registry in which training data, scoring and the commands look up formats by name."""

from keras_encdec.formats.nbest import NBestFormat
from keras_encdec.formats.pair_format import ColumnKind, PairFormat
from keras_encdec.formats.phrase_table import PhraseTableFormat
from keras_encdec.formats.plain_text import ParallelFormat, SentenceFormat, TsvFormat
from keras_encdec.registry import Registry

FORMATS: Registry[PairFormat] = Registry("format", defined_by=type)


def register_format(new_format: PairFormat) -> PairFormat:
    """Makes a format, an instance of a subclass of PairFormat, available by its name, and returns it.

    Raises:
        ValueError: if another format has the name, or the object is not a format, such as a format's class.
    """
    if not isinstance(new_format, PairFormat):
        raise ValueError(f"found the format {new_format!r}, expected an instance of a subclass of PairFormat")
    return FORMATS.register(new_format.name, new_format)


def pair_format(name: str) -> PairFormat:
    """Returns the format with a name.

    Raises:
        ConfigurationError: a ValueError, if no format has the name.

    Example:

    >>> pair_format("phrase_table").description
    'a Moses phrase table'
    """
    return FORMATS.find(name)


def format_names(*kinds: ColumnKind, **attributes: object) -> list[str]:
    """Returns the names of the formats, in the order in which they were registered.

    Args:
        *kinds: ColumnKind. Only formats that can add columns of all these kinds to their lines are returned.
        **attributes: attributes of PairFormat. Only formats with these values are returned.

    Example:

    >>> format_names(ColumnKind.LOG_PROB, has_source_file=True)
    ['parallel', 'nbest']
    """
    return [
        name
        for name, known in FORMATS.items()
        if known.column_texts.keys() >= set(kinds)
        and all(getattr(known, attribute) == value for attribute, value in attributes.items())
    ]


for _format in (PhraseTableFormat(), TsvFormat(), ParallelFormat(), NBestFormat(), SentenceFormat()):
    register_format(_format)
