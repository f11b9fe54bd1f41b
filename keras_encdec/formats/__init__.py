"""Readers and writers of phrase tables, n-best lists, pairs of text and moses.ini."""

from keras_encdec.errors import FilePath
from keras_encdec.formats.encodings import escape, model_words, surface, unescape
from keras_encdec.formats.feature_weights import FeatureWeights, parse_weights, read_nbest_weights, read_weights
from keras_encdec.formats.format_registry import format_names, pair_format, register_format
from keras_encdec.formats.moses_ini import rewrite_moses_ini
from keras_encdec.formats.nbest import NBestFormat, NBestPairReader, NBestReader, NBestRecord
from keras_encdec.formats.nbest_line import (
    NBestLine,
    PhraseSpan,
    append_features,
    parse_features,
    parse_nbest_line,
    parse_segmentation,
    replace_total,
)
from keras_encdec.formats.pair_format import Column, ColumnKind, ColumnText, PairFormat, Record
from keras_encdec.formats.phrase_table import (
    PhraseTableFormat,
    PhraseTableLine,
    PhraseTableReader,
    PhraseTableRecord,
    format_exponential,
    format_probability,
    parse_line,
)
from keras_encdec.formats.plain_text import (
    ParallelFormat,
    ParallelReader,
    SentenceFormat,
    SentenceReader,
    TsvFormat,
    TsvReader,
    append_columns,
    read_sentences,
)
from keras_encdec.formats.record_reader import PairReader, PairRecord, RecordReader
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import open_output

__all__ = [
    "Column",
    "ColumnKind",
    "ColumnText",
    "FeatureWeights",
    "FilePath",
    "InputLines",
    "NBestFormat",
    "NBestLine",
    "NBestPairReader",
    "NBestReader",
    "NBestRecord",
    "PairFormat",
    "PairReader",
    "PairRecord",
    "ParallelFormat",
    "ParallelReader",
    "PhraseSpan",
    "PhraseTableFormat",
    "PhraseTableLine",
    "PhraseTableReader",
    "PhraseTableRecord",
    "Record",
    "RecordReader",
    "SentenceFormat",
    "SentenceReader",
    "TsvFormat",
    "TsvReader",
    "append_columns",
    "append_features",
    "escape",
    "format_exponential",
    "format_names",
    "format_probability",
    "model_words",
    "open_output",
    "pair_format",
    "parse_features",
    "parse_line",
    "parse_nbest_line",
    "parse_segmentation",
    "parse_weights",
    "read_nbest_weights",
    "read_sentences",
    "read_weights",
    "register_format",
    "replace_total",
    "rewrite_moses_ini",
    "surface",
    "unescape",
]
