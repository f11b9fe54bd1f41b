"""Keras layers of the RNN Encoder-Decoder, each usable in any Keras model."""

from keras_encdec.layers.context_gru_cell import ContextGRUCell as ContextGRUCell
from keras_encdec.layers.deep_output import DeepOutput as DeepOutput
from keras_encdec.layers.dropout import Dropout as Dropout
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding as FactorizedEmbedding
from keras_encdec.layers.gru import GRU as GRU
from keras_encdec.layers.gru_cell import GRUCell as GRUCell
from keras_encdec.layers.initializers import LeftSingularVectors as LeftSingularVectors
from keras_encdec.layers.maxout import Maxout as Maxout
