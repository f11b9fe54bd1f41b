"""A small model for decoders, and all that it could generate."""

import itertools

import oracle

from keras_encdec.models import RNNEncoderDecoder, from_symbols, to_symbols

SIZES = {"embedding_dim": 3, "units": 5, "maxout_units": 4, "output_rank": 2}
END = 2


def toy(target_words=3, seed=0, **arguments):
    """Returns a model of 6 source words with random weights, and the weights by symbol."""
    model = RNNEncoderDecoder(6, target_words, **SIZES, **arguments)
    # Padding is as good as impossible, as after training.
    weights = oracle.random_weights(to_symbols(model), scale=0.9, seed=seed)
    weights["readout.b_G"][0] = -40
    return from_symbols(model, weights), weights


def sequences(model, limit):
    """Returns all target sequences of at most `limit` tokens, including the end of sequence."""
    words = [1, *range(3, 3 + model.target_words)]
    every = (itertools.product(words, repeat=length) for length in range(limit))
    return [(*prefix, END) for prefix in itertools.chain(*every)]
