"""A check of a version before a server can see it."""

import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from keras_encdec.errors import InputError
from keras_encdec.export.comparison import Comparison, compared, made_pairs_of, model_scores, pairs_of_words
from keras_encdec.model_directory import ModelDirectory

# As many as show a wrong graph or wrong weights; `verify_export` compares a thousand.
PAIRS = 8


def check_version(
    directory: ModelDirectory, path: pathlib.Path, tokenization: dict[str, Any] | None, max_tokens: int
) -> Comparison:
    """Loads a version that was just written, and compares the scores of a few pairs with the model's own.

    Args:
        directory: ModelDirectory, with its model.
        path: pathlib.Path of the version's folder.
        tokenization: dict of arguments of `Tokenizer`, where the version reads raw text; else `None`.
        max_tokens: int. Tokens that the version allows.

    Returns:
        Comparison.

    Raises:
        InputError: when it does not load or score, or the scores differ.
    """
    remedy = (
        "nothing was published: export again, and if that fails too, train the model again or use the version of "
        "TensorFlow that this package is tested with"
    )
    made = made_pairs_of(directory, PAIRS)
    words = pairs_of_words(made, tokenization)
    fitting = [text for text, sides in zip(made, words, strict=True) if max(map(len, sides)) <= max_tokens]
    texts = [*fitting, ("", "")]
    try:
        score = tf.saved_model.load(str(path)).signatures["serving_default"]
        sources, targets = map(tf.constant, zip(*texts, strict=True))
        scores = score(source=sources, target=targets)["log_prob"].numpy().astype(np.float64)
    except Exception as error:  # whatever TensorFlow makes of a broken file
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"found an exported model that does not score ({reason})", "expected scores", remedy, path.parent
        ) from error
    expected = model_scores(directory, pairs_of_words(texts, tokenization))
    return compared("exported", scores, expected, texts, path.parent, remedy)
