"""The registry of formats: what training data, scoring and the commands can read, by name."""

from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats.nbest import NBestFormat
from keras_encdec.formats.pair_format import ColumnKind, PairFormat
from keras_encdec.formats.parallel_text import ParallelFormat
from keras_encdec.formats.phrase_table import PhraseTableFormat
from keras_encdec.formats.sentences import SentenceFormat
from keras_encdec.formats.tsv import TsvFormat

_FORMATS: dict[str, PairFormat] = {}


def register_format(new_format: PairFormat) -> PairFormat:
    """Makes a format known by its name.

    Args:
        new_format: an instance of a PairFormat.

    Returns:
        the format.

    Raises:
        ValueError: when another format has the name.
    """
    if _FORMATS.setdefault(new_format.name, new_format) is not new_format:
        raise ValueError(f"found the format {new_format.name!r} registered already, expected a new name")
    return new_format


def unregister_format(name: str) -> None:
    """Takes a format out of the registry.

    Raises:
        KeyError: when there is none of this name.
    """
    del _FORMATS[name]


def pair_format(name: str) -> PairFormat:
    """The format of a name.

    Raises:
        ConfigurationError: a ValueError, when there is none.

    Example:

    >>> pair_format("phrase_table").description
    'a Moses phrase table'
    """
    if name not in _FORMATS:
        raise ConfigurationError("found {format}=%s, expected one of %s", name, ", ".join(_FORMATS))
    return _FORMATS[name]


def format_names(*kinds: ColumnKind, **attributes: object) -> list[str]:
    """Names of the formats, in the order in which they were registered.

    Args:
        *kinds: ColumnKind. Only formats whose lines can be written again with columns of these kinds are named.
        **attributes: of PairFormat; only formats that have these values are named.

    Returns:
        list of str.

    Example:

    >>> format_names(ColumnKind.LOG_PROB, has_source_file=True)
    ['parallel', 'nbest']
    """
    return [
        name
        for name, known in _FORMATS.items()
        if known.column_texts.keys() >= set(kinds)
        and all(getattr(known, attribute) == value for attribute, value in attributes.items())
    ]


for _format in (PhraseTableFormat(), TsvFormat(), ParallelFormat(), NBestFormat(), SentenceFormat()):
    register_format(_format)
