"""A model that keeps the decoder contract and is unlike any in the package.

Its memory has a source time axis and a mask, its state integers and a source time axis too: the attention.
"""

import dataclasses
import functools

import keras
import numpy as np
from keras import ops

from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.models import Decoder, Encoder, EncoderDecoder
from keras_encdec.models.contract import TensorSpec

SPECIAL_IDS = 3


@dataclasses.dataclass(frozen=True)
class WindowConfig(Configuration):
    """Sizes of `WindowModel`."""

    width: int = hyperparameter(6, "Width of everything.", minimum=1)
    window: int = hyperparameter(3, "Target words that the next depends on.", minimum=1)


@keras.saving.register_keras_serializable(package="keras_encdec_tests")
class WindowEncoder(Encoder):
    """Annotates each source position with its word and its neighbour's."""

    def __init__(self, ids, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.embedding = keras.layers.Embedding(ids, width, dtype=self.dtype_policy)

    def build(self, source_shape=None):
        self.embedding.build((None, None))
        self.built = True

    @property
    def encoded_spec(self):
        return {
            "annotations": TensorSpec((None, self.width), time_axis=1),
            "mask": TensorSpec((None,), "bool", time_axis=1),
        }

    def call(self, source):
        mask = ops.not_equal(source, 0)
        embedded = self.embedding(source) * ops.cast(ops.expand_dims(mask, -1), self.compute_dtype)
        neighbour = ops.pad(embedded, [[0, 0], [1, 0], [0, 0]])[:, :-1]
        return {"annotations": embedded + 0.5 * neighbour, "mask": mask}


@keras.saving.register_keras_serializable(package="keras_encdec_tests")
class WindowDecoder(Decoder):
    """Predicts from the last words, and from the annotations that they attend to."""

    def __init__(self, ids, width, window, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size, self.width, self.window = ids, width, window
        policy = self.dtype_policy
        self.embedding = keras.layers.Embedding(ids, width, dtype=policy)
        self.query = keras.layers.Dense(width, "tanh", dtype=policy)
        self.output_matrix = keras.layers.Dense(ids, dtype=policy)

    def build(self, previous_shape=None, encoded_shape=None):
        self.embedding.build((None, None))
        self.query.build((None, self.window * self.width))
        self.output_matrix.build((None, 2 * self.width))
        self.built = True

    has_attention = True

    @property
    def state_spec(self):
        return {"window": TensorSpec((self.window,), "int32"), "attention": TensorSpec((None,), time_axis=1)}

    @property
    def memory_spec(self):
        return {
            "annotations": TensorSpec((None, self.width), time_axis=1),
            "mask": TensorSpec((None,), "bool", time_axis=1),
        }

    @property
    def output_weights(self):
        return self.output_matrix.kernel, self.output_matrix.bias

    def start(self, encoded):
        mask = encoded["mask"]
        window = ops.zeros((ops.shape(mask)[0], self.window), "int32")
        return {"window": window, "attention": ops.zeros_like(mask, dtype=self.compute_dtype)}, dict(encoded)

    def advance(self, previous, state, memory, source_of_row=None):
        previous = ops.expand_dims(ops.cast(previous, "int32"), 1)
        window = ops.concatenate([state["window"][:, 1:], previous], axis=1)
        query, annotations, mask = self._by_source(self._query(window), memory, source_of_row)
        scores = ops.einsum("skw,stw->skt", query, annotations)
        weights = ops.softmax(ops.where(ops.expand_dims(mask, 1), scores, ops.cast(-1e9, scores.dtype)), axis=-1)
        return {"window": window, "attention": ops.reshape(weights, ops.shape(state["attention"]))}

    def features(self, previous, state, memory, source_of_row=None):
        weights, annotations, _ = self._by_source(state["attention"], memory, source_of_row)
        context = ops.einsum("skt,stw->skw", weights, annotations)
        query = self._query(state["window"])
        return ops.concatenate([query, ops.reshape(context, ops.shape(query))], axis=-1)

    def _query(self, window):
        words = ops.reshape(self.embedding(window), (-1, self.window * self.width))
        return self.query(words)

    def _by_source(self, table, memory, source_of_row):
        """Returns rows grouped by source, `(sources, k, width)`, and the annotations and the mask of each source."""
        annotations, mask = memory["annotations"], memory["mask"]
        rows = ops.shape(table)[0]
        if source_of_row is not None:
            annotations, mask = (self.take_memory(tensor, rows, source_of_row) for tensor in (annotations, mask))
        sources = ops.shape(mask)[0]
        return ops.reshape(table, (sources, rows // sources, ops.shape(table)[-1])), annotations, mask


@keras.saving.register_keras_serializable(package="keras_encdec_tests")
class WindowModel(EncoderDecoder):
    """See the module."""

    config_class = WindowConfig

    def __init__(self, source_words, target_words, **arguments):
        super().__init__(source_words, target_words, **arguments)
        config, policy = self.config, self.dtype_policy
        self.encoder = WindowEncoder(source_words + SPECIAL_IDS, config.width, dtype=policy, name="encoder")
        self.decoder = WindowDecoder(
            target_words + SPECIAL_IDS, config.width, config.window, dtype=policy, name="decoder"
        )
        self.build()


def window_model(source_words=6, target_words=7, seed=0, **arguments):
    """A `WindowModel` with random weights, large enough that every term counts."""
    model = WindowModel(source_words, target_words, **arguments)
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(random.normal(0, 0.9, variable.shape))
    return model


def next_word_log_probs(model):
    """A function of source ids and the ids before a word: ln p of each next word, by the definition, in float64 NumPy.

    It reads the weights once, and keeps what it has computed.
    """
    encoder, decoder = model.encoder, model.decoder
    layers = encoder.embedding, decoder.embedding, decoder.query, decoder.output_matrix
    arrays = [[np.asarray(ops.convert_to_numpy(each), "float64") for each in layer.weights] for layer in layers]
    (source_vectors,), (target_vectors,), (query_matrix, query_bias), (output_matrix, output_bias) = arrays

    @functools.cache
    def log_probs(source, prefix):
        embedded = source_vectors[list(source)]
        annotations = embedded + 0.5 * np.concatenate([np.zeros((1, embedded.shape[1])), embedded[:-1]])
        window = [*[0] * decoder.window, *prefix][-decoder.window :]
        query = np.tanh(target_vectors[window].ravel() @ query_matrix + query_bias)
        weights = np.exp(annotations @ query)
        features = np.concatenate([query, weights / weights.sum() @ annotations])
        logits = features @ output_matrix + output_bias
        return logits - np.log(np.exp(logits).sum())

    return lambda source, prefix: log_probs(tuple(source), tuple(prefix))


def expected_log_probs(model, source, target):
    """ln p of each target token of one pair of id sequences."""
    log_probs = next_word_log_probs(model)
    return np.array([log_probs(source, target[:length])[word] for length, word in enumerate(target)])
