"""The tokenizer of raw text, and vocabularies."""

from keras_encdec.text.tokenizer import Tokenizer as Tokenizer
from keras_encdec.text.vocabulary import END as END
from keras_encdec.text.vocabulary import FIRST_WORD as FIRST_WORD
from keras_encdec.text.vocabulary import PADDING as PADDING
from keras_encdec.text.vocabulary import UNKNOWN as UNKNOWN
from keras_encdec.text.vocabulary import Vocabulary as Vocabulary
from keras_encdec.text.vocabulary import most_frequent as most_frequent
