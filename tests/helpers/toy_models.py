"""Small model directories that need no training."""

import keras
import numpy as np

from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import build_model
from keras_encdec.text import Vocabulary

# The words of the models of the fixture `model_dirs`.
SOURCE_WORDS = ["le", "la", "chat", "maison", "l'", "été", '"', "|", "R&D", "<b>", "[X]"]
TARGET_WORDS = ["the", "cat", "house", "'s", "summer", '"', "|", "R&D", "<b>", "caf\udce9", "[X]"]
SIZES = {"embedding_dim": 4, "units": 8, "maxout_units": 4, "output_rank": 4}


def save_model(
    path, source_words, target_words, reverse=False, tokenization=None, seed=0, language_model=False, **arguments
):
    """Writes a model directory; the weights are random, and large enough for scores to differ much.

    Args:
        path: of the directory.
        source_words, target_words: list of str, the words of the model's own source and target.
        reverse: bool. Whether it is a model of p(source | target).
        tokenization: dict of arguments of the tokenizer. Defaults to `None`: tokenized text.
        seed: int. Of the weights.
        language_model: bool. Whether it is a RecurrentLanguageModel, of the target words alone.
        **arguments: further ones of the model; one with a `cell` is a RecurrentEncoderDecoder, one with an
            `ngram_order` a FeedForwardLanguageModel.

    Returns:
        the path.
    """
    if language_model:
        name, arguments = "language_model", {"embedding_dim": 4, "units": 8, **arguments}
    elif "ngram_order" in arguments:
        name, arguments = "cslm", {"embedding_dim": 4, "hidden_units": [8, 6], **arguments}
    elif "cell" in arguments:
        name, arguments = "recurrent", {"embedding_dim": 4, "units": 8, **arguments}
    else:
        name, arguments = "encdec", {**SIZES, **arguments}
    directory = ModelDirectory(path, Vocabulary(source_words), Vocabulary(target_words), reverse, tokenization)
    directory.save_config(name, arguments)
    keras.utils.set_random_seed(seed)
    model = build_model(name, len(source_words), len(target_words), **arguments)
    random = np.random.default_rng(seed)
    model.set_weights([random.normal(0, 0.5, weight.shape) for weight in model.weights])
    model.save(path / "best.keras")
    return path
