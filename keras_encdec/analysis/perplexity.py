"""Perplexity of a model, with and without its source."""

import math

from keras import ops

from keras_encdec.models import Decoder
from keras_encdec.models.log_probs import token_log_probs


def perplexity(model, batches, with_source=True):
    """exp of minus the mean log-probability of a target token, end of sequence included.

    Args:
        model: RNNEncoderDecoder.
        batches: iterable of dicts, "source" `(batch, source_time)` and "target" `(batch, target_time)`.
        with_source: bool. Whether the decoder reads the summary of the source; otherwise it reads zeros,
            and what it still predicts it predicts from the words before. Defaults to `True`.

    Returns:
        float.
    """
    total, tokens = 0.0, 0
    for batch in batches:
        summary = model.encode(batch["source"])
        if not with_source:
            summary = ops.zeros_like(summary)
        target = ops.convert_to_tensor(batch["target"], "int32")
        log_probs = token_log_probs(model.decoder(Decoder.previous_words(target), summary), target)
        total += float(ops.sum(log_probs))
        tokens += int((batch["target"] != 0).sum())
    return math.exp(-total / max(tokens, 1))
