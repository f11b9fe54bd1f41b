"""Training data: pairs of words from files, pairs prepared on disk, and batches of them."""

from keras_encdec.data.batches import Batches as Batches
from keras_encdec.data.batches import pad as pad
from keras_encdec.data.pairs import open_pairs as open_pairs
from keras_encdec.data.pairs import tf_dataset as tf_dataset
from keras_encdec.data.prepare import prepare as prepare
from keras_encdec.data.prepared_pairs import PreparedPairs as PreparedPairs
