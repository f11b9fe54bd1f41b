"""Files in, records out, and back: phrase tables, pairs of text, moses.ini."""

from keras_encdec.formats.escaping import escape, model_words, surface, unescape
from keras_encdec.formats.files import InputLines, open_output
from keras_encdec.formats.moses_ini import rewrite
from keras_encdec.formats.pairs import PairRecord, ParallelReader, TsvReader, append_columns
from keras_encdec.formats.phrase_table import PhraseTableReader, PhraseTableRecord
from keras_encdec.formats.phrase_table_line import PhraseTableLine, parse_line
from keras_encdec.formats.probabilities import format_exponential, format_probability

__all__ = [
    "InputLines",
    "PairRecord",
    "ParallelReader",
    "PhraseTableLine",
    "PhraseTableReader",
    "PhraseTableRecord",
    "TsvReader",
    "append_columns",
    "escape",
    "format_exponential",
    "format_probability",
    "model_words",
    "open_output",
    "parse_line",
    "rewrite",
    "surface",
    "unescape",
]
