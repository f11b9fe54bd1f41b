"""Several models that predict each word together."""

import math

import keras
from keras import ops

from keras_encdec.models.log_probs import next_log_probs


class Ensemble(keras.layers.Layer):
    """Models whose probabilities of the next word are averaged; one model is an ensemble, too.

        arithmetic   p(y) = sum_m w_m p_m(y)
        geometric    p(y) = prod_m p_m(y)^w_m / sum_y' prod_m p_m(y')^w_m

    Args:
        models: list of models with `start` and `step`, such as RNNEncoderDecoder, over the same vocabularies.
        weights: list of positive float, made to sum to one. Defaults to `None`: equal ones.
        average: "arithmetic" or "geometric". Defaults to "arithmetic".

    Raises:
        ValueError: when there is no model, their numbers of words differ, or the weights do not fit.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), section 2.3: ensembles
    """

    def __init__(self, models, weights=None, average="arithmetic"):
        super().__init__(name="ensemble", dtype="float32")
        if not models:
            raise ValueError("found no models, expected one at least")
        words = [(model.source_words, model.target_words) for model in models]
        if len(set(words)) > 1:
            raise ValueError(f"found models of (source, target) words {words}, expected the same of all")
        weights = [1.0] * len(models) if weights is None else list(weights)
        if len(weights) != len(models) or not all(0 < weight < math.inf for weight in weights):
            raise ValueError(f"found the weights {weights}, expected {len(models)} positive ones")
        if average not in ("arithmetic", "geometric"):
            raise ValueError(f'found average={average!r}, expected "arithmetic" or "geometric"')
        self.models = models
        self.weights_of_models = [weight / sum(weights) for weight in weights]
        self.average = average
        self.built = True

    def start(self, source):
        """See `RNNEncoderDecoder.start`; a list of each model's states, and one of each model's memory."""
        return zip(*(model.start(source) for model in self.models), strict=True)

    def step(self, previous, states, memory):
        """log p of the next word, and the new states.

        Args:
            previous: integer ids `(batch,)`.
            states, memory: of `start`.

        Returns:
            tuple: nats `(batch, vocabulary)`, and the new states.
        """
        log_probs, new = [], []
        for model, one, kept in zip(self.models, states, memory, strict=True):
            logits, state = model.step(previous, one, kept)
            log_probs.append(next_log_probs(logits))
            new.append(state)
        return self._averaged(log_probs), new

    def _averaged(self, log_probs):
        if len(log_probs) == 1:
            return log_probs[0]
        if self.average == "geometric":
            weighted = zip(self.weights_of_models, log_probs, strict=True)
            return ops.log_softmax(sum(weight * one for weight, one in weighted), axis=-1)
        logs = (math.log(weight) for weight in self.weights_of_models)
        return ops.logsumexp(ops.stack([w + one for w, one in zip(logs, log_probs, strict=True)]), axis=0)
