"""What all models of p(target | source) have in common."""

import functools

import keras
from keras import ops

from keras_encdec.models.decoder import Decoder
from keras_encdec.models.gradient_clipping import exact_clipping
from keras_encdec.models.log_probs import sequence_log_probs, token_log_probs
from keras_encdec.models.metrics import LogLikelihood, Perplexity

SPECIAL_IDS = 3  # 0 padding and "no previous word", 1 unknown word, 2 end of sequence


class TranslationModel(keras.Model):
    """Base of the models that predict a target word by word: the score, the loss and the metrics.

        log p(y | x) = sum over t of log p(y_t | y_<t, x)

    A subclass builds `self.encoder`, which maps source ids `(batch, time)` to whatever the decoder takes, and
    `self.decoder`, which is called with the previous words `(batch, time)` and that, and gives logits
    `(batch, time, vocabulary)`. The decoder has `start` and `step` as well, which do the same word by word.

    The loss is minus the sum of the token log-probabilities over the batch, or its mean over the pairs;
    `compile` takes no other.

    Args:
        source_words, target_words: int. Words in each shortlist, the three special ids not counted.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, or the
            tuple of the two: integer ids.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding.
    """

    def __init__(self, source_words, target_words, **kwargs):
        super().__init__(**kwargs)
        self.source_words = source_words
        self.target_words = target_words
        self.reduction, self.clip_elements = "sum", None
        self.perplexity = Perplexity()
        self.log_likelihood = LogLikelihood()

    def build(self, input_shape=None):
        if not self.built:
            self.encoder.build()
            self.decoder.build()
            self.built = True

    # Handed on, as under JAX a training step calls this function itself, and no layer knows of it otherwise.
    def call(self, inputs, training=None):
        source, target = self.sides(inputs)
        encoded = self.encoder(source, training=training)
        return token_log_probs(self.decoder(Decoder.previous_words(target), encoded, training=training), target)

    @staticmethod
    def sides(inputs):
        """Source and target of what the model is called with: the tuple of the two."""
        return (inputs["source"], inputs["target"]) if isinstance(inputs, dict) else inputs

    def encode(self, source):
        """What the decoder gets of each source.

        Args:
            source: integer ids `(batch, time)`.

        Returns:
            of the encoder: a tensor, or a list of tensors, with the batch as dimension 0.
        """
        return self.encoder(ops.convert_to_tensor(source, "int32"))

    def token_log_probs(self, source, target):
        """log p(y_t | y_<t, x) of each target token.

        Args:
            source: integer ids `(batch, source_time)`.
            target: integer ids `(batch, target_time)`.

        Returns:
            float tensor `(batch, target_time)`, nats; 0 on padding.
        """
        return self({"source": _ids(source), "target": _ids(target)})

    def score(self, source, target):
        """log p(y | x), end of sequence included, no length normalization.

        Args:
            source: integer ids `(batch, source_time)`.
            target: integer ids `(batch, target_time)`.

        Returns:
            float tensor `(batch,)`, nats.
        """
        return sequence_log_probs(self.token_log_probs(source, target))

    def start(self, source):
        """What decoding word by word begins with.

        Args:
            source: integer ids `(batch, time)`.

        Returns:
            tuple: list of the decoder's states, which change with every word, and list of what it remembers
            of the source; all tensors have the batch as dimension 0.
        """
        return self.decoder.start(self.encode(source))

    def step(self, previous, states, memory):
        """The decoder's next step.

        Args:
            previous: integer ids `(batch,)`, the word before; 0 at the beginning.
            states, memory: of `start`, or states of the step before.

        Returns:
            tuple: logits of the next word `(batch, vocabulary)`, and the new states.
        """
        return self.decoder.step(previous, states, memory)

    def generate(self, sources, sampler="greedy", **arguments):
        """Target sequences for source sequences.

        Args:
            sources: list of sequences of ids closed by the end of sequence, or integer array
                `(batch, time)`, padded with 0.
            sampler: a sampler of `keras_encdec.decoding`, or "greedy". Defaults to "greedy".
            **arguments: of `keras_encdec.decoding.Generator.generate`.

        Returns:
            list, for each source a list of `keras_encdec.decoding.Hypothesis`, the best first.
        """
        return self._generator.generate(sources, sampler, **arguments)

    @functools.cached_property
    def _generator(self):
        """Kept, as it keeps what is compiled."""
        from keras_encdec.decoding import Generator  # it is built on models

        return Generator(self)

    def compile(self, optimizer="rmsprop", reduction="sum", clip_elements=None, **arguments):
        """Configures training.

        Args:
            optimizer: as of any Keras model.
            reduction: "sum" or "mean" of the pairs' losses over the batch. It is the scale of the gradient,
                to be thought of in clipping it and in the step size of SGD: the thesis has the mean.
                Defaults to "sum".
            clip_elements: float. Bound that each element of the gradient is clipped to, before the optimizer
                clips the norm. Defaults to `None`: no such clipping.
            **arguments: of `keras.Model.compile`; the loss and the metrics are the model's own.

        Raises:
            ValueError: for another reduction, or a bound that is not positive.
        """
        if reduction not in ("sum", "mean"):
            raise ValueError(f'found reduction={reduction!r}, expected "sum" or "mean"')
        self.reduction, self.clip_elements = reduction, clip_elements
        super().compile(exact_clipping(keras.optimizers.get(optimizer), clip_elements), **arguments)

    def get_compile_config(self):
        config = super().get_compile_config()
        return config and {**config, "reduction": self.reduction, "clip_elements": self.clip_elements}

    def compile_from_config(self, config):
        # A model compiled under PyTorch names Keras's PyTorch optimizer, which no other backend can run.
        optimizer = config.get("optimizer")
        if isinstance(optimizer, dict) and ".torch.optimizers." in (optimizer.get("module") or ""):
            config = {**config, "optimizer": {**optimizer, "module": "keras.optimizers"}}
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self._compile_loss is not None or self._compile_metrics is not None:
            raise ValueError(
                f"{type(self).__name__} owns its loss and its metrics (perplexity, log_likelihood): "
                "call compile() without loss= and metrics=."
            )
        pairs = sequence_log_probs(y_pred)
        if sample_weight is not None:
            pairs = pairs * ops.cast(sample_weight, pairs.dtype)
        return -(ops.mean if self.reduction == "mean" else ops.sum)(pairs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.perplexity.update_state(y_pred, self.sides(x)[1])
        self.log_likelihood.update_state(y_pred)
        return self.get_metrics_result()


def _ids(ids):
    return ops.convert_to_tensor(ids, "int32")
