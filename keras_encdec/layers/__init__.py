"""Keras layers of the RNN Encoder-Decoder, each usable in any Keras model."""

from keras_encdec.layers.attention import Attention as Attention
from keras_encdec.layers.attention import GlobalAttention as GlobalAttention
from keras_encdec.layers.attention import LocalMonotonicAttention as LocalMonotonicAttention
from keras_encdec.layers.attention import LocalPredictiveAttention as LocalPredictiveAttention
from keras_encdec.layers.attention import attention_class as attention_class
from keras_encdec.layers.attention import attention_names as attention_names
from keras_encdec.layers.attention import register_attention as register_attention
from keras_encdec.layers.deep_output import DeepOutput as DeepOutput
from keras_encdec.layers.deep_output import Maxout as Maxout
from keras_encdec.layers.dense import Dense as Dense
from keras_encdec.layers.dropout import Dropout as Dropout
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding as FactorizedEmbedding
from keras_encdec.layers.gru import GRU as GRU
from keras_encdec.layers.gru import ContextGRUCell as ContextGRUCell
from keras_encdec.layers.gru import GRUCell as GRUCell
from keras_encdec.layers.initializers import LeftSingularVectors as LeftSingularVectors
from keras_encdec.layers.recurrence import RecurrentStep as RecurrentStep
from keras_encdec.layers.recurrence import run_recurrence as run_recurrence
from keras_encdec.layers.recurrent_cell import LSTMCell as LSTMCell
from keras_encdec.layers.recurrent_cell import RecurrentCell as RecurrentCell
from keras_encdec.layers.recurrent_cell import RNNCell as RNNCell
from keras_encdec.layers.recurrent_cell import cell_names as cell_names
from keras_encdec.layers.recurrent_cell import recurrent_cell_class as recurrent_cell_class
from keras_encdec.layers.recurrent_cell import register_cell as register_cell
