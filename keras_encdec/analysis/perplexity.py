"""Perplexity of a model, with and without its source."""

import math
from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from keras_encdec.backend.gradients import without_gradients
from keras_encdec.models.contract import Decoder
from keras_encdec.models.log_probs import token_log_probs


@without_gradients
def perplexity(model: Any, batches: Iterable[dict[str, Any]], with_source: bool = True) -> float:
    """exp of minus the mean log-probability of a target token, end of sequence included.

    Args:
        model: TranslationModel.
        batches: iterable of dicts, "source" `(batch, source_time)` and "target" `(batch, target_time)`.
        with_source: bool. Whether the decoder gets what the encoder made of the source; otherwise it gets zeros in
            its place, and what it still predicts it predicts from the words before. Defaults to `True`.

    Returns:
        float.
    """
    total, tokens = 0.0, 0
    for batch in batches:
        encoded = model.encode(batch["source"])
        if not with_source:
            encoded = keras.tree.map_structure(_without_information, encoded)
        target = ops.convert_to_tensor(batch["target"], "int32")
        log_probs = token_log_probs(model.decoder(Decoder.previous_words(target), encoded), target)
        total += float(ops.sum(log_probs))
        tokens += int((batch["target"] != 0).sum())
    return math.exp(-total / max(tokens, 1))


def _without_information(tensor):
    """Zeros; a mask stays."""
    return tensor if keras.backend.standardize_dtype(tensor.dtype) == "bool" else ops.zeros_like(tensor)
