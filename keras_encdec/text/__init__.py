"""The tokenizer of raw text, vocabularies, and tables of word translations."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.text.lexical_shortlist import LexicalShortlist as LexicalShortlist
    from keras_encdec.text.lexical_shortlist import RareTranslations as RareTranslations
    from keras_encdec.text.lexical_shortlist import read_translations as read_translations
    from keras_encdec.text.tokenizer import Tokenizer as Tokenizer
    from keras_encdec.text.vocabulary import END as END
    from keras_encdec.text.vocabulary import FIRST_WORD as FIRST_WORD
    from keras_encdec.text.vocabulary import PADDING as PADDING
    from keras_encdec.text.vocabulary import UNKNOWN as UNKNOWN
    from keras_encdec.text.vocabulary import Vocabulary as Vocabulary
    from keras_encdec.text.vocabulary import most_frequent as most_frequent

lazy_imports(__name__)
