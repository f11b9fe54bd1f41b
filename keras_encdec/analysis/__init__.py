"""What a model learned, as the paper shows it."""

from typing import TYPE_CHECKING

from keras_encdec.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.analysis.perplexity import perplexity as perplexity
    from keras_encdec.analysis.preferences import Preferences as Preferences
    from keras_encdec.analysis.preferences import read_preferences as read_preferences

lazy_imports(__name__)
