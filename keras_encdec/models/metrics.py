"""Perplexity per token and log-likelihood per pair."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_encdec")
class Perplexity(keras.metrics.Metric):
    """exp of minus the mean log-probability of a target token, end of sequence included.

    `update_state` takes token log-probabilities `(batch, time)` in nats, 0 on padding, and the target
    ids `(batch, time)` they belong to.
    """

    def __init__(self, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.log_prob = self.add_weight(name="log_prob", initializer="zeros")
        self.tokens = self.add_weight(name="tokens", initializer="zeros")

    def update_state(self, log_probs: Any, target: Any) -> None:
        self.log_prob.assign_add(ops.sum(ops.cast(log_probs, self.dtype)))
        self.tokens.assign_add(ops.sum(ops.cast(ops.not_equal(target, 0), self.dtype)))

    def result(self) -> Any:
        return ops.exp(-self.log_prob / ops.maximum(self.tokens, 1))


@keras.saving.register_keras_serializable(package="keras_encdec")
class LogLikelihood(keras.metrics.Mean):
    """Mean log-probability of a target given its source, nats a pair.

    `update_state` takes token log-probabilities `(batch, time)`, 0 on padding.
    """

    def __init__(self, name: str = "log_likelihood", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def update_state(self, log_probs: Any) -> None:
        return super().update_state(ops.sum(log_probs, axis=-1))
