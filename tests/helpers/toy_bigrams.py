"""A model whose decoder has no state: it predicts from the word before and from the source alone."""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.models import Decoder, Encoder, EncoderDecoder
from keras_encdec.models.contract import TensorSpec


@dataclasses.dataclass(frozen=True)
class BigramConfig(Configuration):
    """Sizes of `BigramModel`."""

    width: int = hyperparameter(4, "Width of everything.", minimum=1)


class MeanEncoder(Encoder):
    """The mean of the embeddings of the source words."""

    def __init__(self, ids, width, **kwargs):
        super().__init__(**kwargs)
        self.width, self.embedding = width, keras.layers.Embedding(ids, width)
        self.embedding.build((None, None))

    @property
    def encoded_spec(self):
        return {"mean": TensorSpec((self.width,))}

    def call(self, source):
        words = ops.cast(ops.expand_dims(source != 0, -1), "float32")
        return {"mean": ops.sum(self.embedding(source) * words, axis=1) / ops.sum(words, axis=1)}


class BigramDecoder(Decoder):
    """Features are the sum of the source's mean and the embedding of the word before."""

    def __init__(self, ids, width, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size, self.width = ids, width
        self.embedding, self.matrix = keras.layers.Embedding(ids, width), keras.layers.Dense(ids)
        self.embedding.build((None, None))
        self.matrix.build((None, width))

    @property
    def state_spec(self):
        return {}

    @property
    def memory_spec(self):
        return {"mean": TensorSpec((self.width,))}

    @property
    def output_weights(self):
        return self.matrix.kernel, self.matrix.bias

    def start(self, encoded):
        return {}, dict(encoded)

    def advance(self, previous, state, memory, source_of_row=None):
        return {}

    def features(self, previous, state, memory, source_of_row=None):
        return self.embedding(previous) + self.take_memory(memory["mean"], ops.shape(previous)[0], source_of_row)


class BigramModel(EncoderDecoder):
    """See the module."""

    config_class = BigramConfig

    def __init__(self, source_words, target_words, **arguments):
        super().__init__(source_words, target_words, **arguments)
        self.encoder = MeanEncoder(source_words + 3, self.config.width, name="encoder")
        self.decoder = BigramDecoder(target_words + 3, self.config.width, name="decoder")
        self.build()


def bigram_model(seed=0):
    """A `BigramModel` with random weights."""
    model = BigramModel(6, 7)
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(random.normal(0, 0.9, variable.shape))
    return model
