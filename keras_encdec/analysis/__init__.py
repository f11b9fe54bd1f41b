"""What a model learned, as the paper shows it."""

from keras_encdec.analysis.perplexity import perplexity as perplexity
from keras_encdec.analysis.preferences import Preferences as Preferences
from keras_encdec.analysis.preferences import read_preferences as read_preferences
