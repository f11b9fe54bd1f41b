"""Files in, records out, and back: phrase tables, n-best lists, pairs of text, moses.ini."""

from keras_encdec.formats.escaping import escape, model_words, surface, unescape
from keras_encdec.formats.feature_weights import FeatureWeights, parse_weights, read_weights
from keras_encdec.formats.files import InputLines, open_output
from keras_encdec.formats.moses_ini import rewrite
from keras_encdec.formats.nbest import NBestReader, NBestRecord
from keras_encdec.formats.nbest_line import (
    NBestLine,
    append_features,
    parse_features,
    parse_nbest_line,
    replace_total,
)
from keras_encdec.formats.pairs import PairRecord, ParallelReader, SentenceReader, TsvReader, append_columns
from keras_encdec.formats.phrase_table import PhraseTableReader, PhraseTableRecord
from keras_encdec.formats.phrase_table_line import PhraseTableLine, parse_line
from keras_encdec.formats.probabilities import format_exponential, format_probability
from keras_encdec.formats.sentences import read_sentences

__all__ = [
    "FeatureWeights",
    "InputLines",
    "NBestLine",
    "NBestReader",
    "NBestRecord",
    "PairRecord",
    "ParallelReader",
    "PhraseTableLine",
    "PhraseTableReader",
    "PhraseTableRecord",
    "SentenceReader",
    "TsvReader",
    "append_columns",
    "append_features",
    "escape",
    "format_exponential",
    "format_probability",
    "model_words",
    "open_output",
    "parse_features",
    "parse_line",
    "parse_nbest_line",
    "parse_weights",
    "read_sentences",
    "read_weights",
    "replace_total",
    "rewrite",
    "surface",
    "unescape",
]
