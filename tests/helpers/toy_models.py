"""Small model directories that need no training."""

import keras
import numpy as np

from keras_encdec.models import RecurrentEncoderDecoder, RNNEncoderDecoder
from keras_encdec.scoring import ModelDirectory
from keras_encdec.text import Vocabulary

SIZES = {"embedding_dim": 4, "units": 8, "maxout_units": 4, "output_rank": 4}


def save_model(path, source_words, target_words, reverse=False, tokenization=None, seed=0, **arguments):
    """Writes a model directory; the weights are random, and large enough for scores to differ much.

    Args:
        path: of the directory.
        source_words, target_words: list of str, the words of the model's own source and target.
        reverse: bool. Whether it is to be taken for a model of p(source | target).
        tokenization: dict of arguments of the tokenizer. Defaults to `None`: text in tokens.
        seed: int. Of the weights.
        **arguments: further ones of the model; one with a `cell` is a RecurrentEncoderDecoder.

    Returns:
        the path.
    """
    if "cell" in arguments:
        kind, arguments = RecurrentEncoderDecoder, {"embedding_dim": 4, "units": 8, **arguments}
    else:
        kind, arguments = RNNEncoderDecoder, {**SIZES, **arguments}
    directory = ModelDirectory(path, Vocabulary(source_words), Vocabulary(target_words), reverse, tokenization)
    directory.save_config(arguments)
    keras.utils.set_random_seed(seed)
    model = kind(len(source_words), len(target_words), **arguments)
    random = np.random.default_rng(seed)
    model.set_weights([random.normal(0, 0.5, weight.shape) for weight in model.weights])
    model.save(path / "best.keras")
    return path
