"""What all models of p(target | source) have in common."""

import functools
import importlib
import os
from typing import TYPE_CHECKING, Any, Self

import keras
from keras import ops

from keras_encdec.architectures.architecture_registry import architecture
from keras_encdec.architectures.presets import load_preset
from keras_encdec.backend.no_gradients import without_gradients
from keras_encdec.backend.training_step import portable_compile_config
from keras_encdec.configuration import Configuration
from keras_encdec.models.decoder import Decoder
from keras_encdec.models.encoder import Encoder
from keras_encdec.models.gradient_clipping import exact_clipping
from keras_encdec.models.gradient_norms import GradientNorms
from keras_encdec.models.id_sequences import check_training_arrays, id_tensor
from keras_encdec.models.log_probs import mean_log_probs, sequence_log_probs, token_log_probs
from keras_encdec.models.metrics import LogLikelihood, Perplexity

if TYPE_CHECKING:
    from keras_encdec.decoding import Hypothesis, Sampler

SPECIAL_IDS = 3  # 0 padding and "no previous word", 1 unknown word, 2 end of sequence


class TranslationModel(keras.Model):
    """Base of the models that predict a target word by word: the score, the loss and the metrics.

        log p(y | x) = sum over t of log p(y_t | y_<t, x)

    A subclass names its `config_class` and builds `self.encoder`, an `Encoder`, and `self.decoder`, a `Decoder`: all
    else is made from these two.

    The loss is minus the sum of the token log-probabilities over the batch, or its mean over the pairs, with label
    smoothing if it is asked for; `compile` takes no other.

    Args:
        source_words, target_words: int. Words in each shortlist, the three special ids not counted.
        **arguments: hyper-parameters of the `config_class`, and arguments of `keras.Model`, such as `dtype`.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, or the
            tuple of the two: integer ids.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding. Of a model compiled with
        label smoothing, a call with `training=True` returns a dict of two such tensors, which the loss is made of:
        "log_probs", and "mean_log_probs", the mean over all ids that can be predicted.

    Raises:
        ValueError: for a hyper-parameter of another type or out of its bounds.
    """

    #: The class of the model's hyper-parameters, whose fields are arguments of the constructor.
    config_class: type[Configuration]
    #: Whether targets depend on a source; those of a language model do not.
    has_source: bool = True
    encoder: Encoder
    decoder: Decoder

    def __init__(self, source_words: int, target_words: int, **arguments: Any) -> None:
        names = {parameter.name for parameter in self.config_class.hyperparameters()}
        super().__init__(**{name: value for name, value in arguments.items() if name not in names})
        self.source_words = source_words
        self.target_words = target_words
        self.config = self.config_class(**{name: value for name, value in arguments.items() if name in names})
        self.reduction, self.clip_elements, self.label_smoothing = "sum", None, 0.0
        self.perplexity = Perplexity()
        self.log_likelihood = LogLikelihood()

    @classmethod
    def check_config(cls, config: Configuration) -> None:
        """Raises ValueError for hyper-parameters that the model cannot be built with, before anything is made.

        What the configuration itself checks, it has checked already; here is what needs Keras's layers.
        """

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike[str],
        source_words: int | None = None,
        target_words: int | None = None,
        **arguments: Any,
    ) -> Self:
        """A new model of published or recommended sizes; or a trained one, from its model directory.

        Args:
            preset: str. One of `keras_encdec.architectures.preset_names()`, of this model, or the path of a TOML file
                of settings; or the path of a model directory, which has its own sizes and weights.
            source_words, target_words: int. Words in each shortlist of a new model.
            **arguments: further ones of the constructor; they override the preset's.

        Raises:
            ValueError: for a preset that does not exist, or is of another model; for a new model without numbers of
                words, or a model directory with numbers or arguments.
            InputError: see `ModelDirectory.load`.
        """
        if os.path.isdir(preset):
            if (source_words, target_words) != (None, None) or arguments:
                raise ValueError(f"found sizes beside the model directory {preset}, expected none: it has its own")
            # What stands below the models is known by name alone.
            directories = importlib.import_module("keras_encdec.model_directory")
            model = directories.ModelDirectory.load(preset).model
            cls._check_class(preset, type(model))
            return model
        loaded = load_preset(preset)
        kind = architecture(loaded.architecture)
        cls._check_class(preset, kind.model_class)
        if target_words is None or kind.has_source and source_words is None:
            raise ValueError(
                f"found the preset {str(preset)!r} without source_words and target_words, expected the words of each "
                "shortlist, or the path of a model directory, which has them"
            )
        return kind.model_class(
            *((source_words, target_words) if kind.has_source else (target_words,)), **{**loaded.model, **arguments}
        )

    @classmethod
    def _check_class(cls, preset, found):
        if not issubclass(found, cls):
            raise ValueError(f"found {str(preset)!r} of the model {found.__name__}, expected one of {cls.__name__}")

    def build(self, input_shape: Any = None) -> None:
        if not self.built:
            self.encoder.build()
            self.decoder.build()
            self.built = True

    # Handed on, as under JAX a training step calls this function itself, and no layer knows of it otherwise.
    def call(self, inputs: Any, training: bool | None = None) -> Any:
        source, target = self.sides(inputs)
        encoded = self.encoder(source, training=training)
        logits = self.decoder(Decoder.previous_words(target), encoded, training=training)
        log_probs = token_log_probs(logits, target)
        if training and self.label_smoothing:
            return {"log_probs": log_probs, "mean_log_probs": mean_log_probs(logits, target)}
        return log_probs

    @staticmethod
    def sides(inputs: Any) -> tuple[Any, Any]:
        """Source and target of what the model is called with: the tuple of the two."""
        if isinstance(inputs, dict) and {"source", "target"} <= inputs.keys():
            return inputs["source"], inputs["target"]
        if isinstance(inputs, tuple | list) and len(inputs) == 2:
            return tuple(inputs)
        found = f"a dict of {', '.join(map(repr, inputs))}" if isinstance(inputs, dict) else "other inputs"
        raise ValueError(f'found {found}, expected {{"source": ids, "target": ids}}, or the tuple of the two')

    @without_gradients
    def encode(self, source: Any) -> dict[str, Any]:
        """What the encoder makes of each source.

        Args:
            source: integer ids `(batch, time)`, closed by the end of sequence and padded with 0.

        Returns:
            dict of tensors, one row a source, as described by `encoder.encoded_spec`; of `RNNEncoderDecoder`
            "summary" `(batch, units)`.

        Raises:
            ValueError: for an array that is no such ids.
        """
        return self.encoder(self._source_ids(source))

    @without_gradients
    def token_log_probs(self, source: Any, target: Any) -> Any:
        """log p(y_t | y_<t, x) of each target token; to train through, call the model instead.

        Args:
            source: integer ids `(batch, source_time)`.
            target: integer ids `(batch, target_time)`.

        Returns:
            float tensor `(batch, target_time)`, nats; 0 on padding.

        Raises:
            ValueError: for arrays that are no such ids.
        """
        target = id_tensor("target", target, self.target_words + SPECIAL_IDS)
        return self({"source": self._source_ids(source), "target": target})

    @without_gradients
    def score(self, source: Any, target: Any) -> Any:
        """log p(y | x), end of sequence included, no length normalization.

        Args:
            source: integer ids `(batch, source_time)`.
            target: integer ids `(batch, target_time)`.

        Returns:
            float tensor `(batch,)`, nats.

        Raises:
            ValueError: for arrays that are no such ids.
        """
        return sequence_log_probs(self.token_log_probs(source, target))

    @without_gradients
    def start(self, source: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What decoding word by word begins with.

        Args:
            source: integer ids `(batch, time)`.

        Returns:
            tuple: the decoder's first state, and its memory of the source; see `Decoder`.
        """
        return self.decoder.start(self.encode(source))

    def generate(
        self, sources: Any, sampler: "Sampler | str" = "greedy", **arguments: Any
    ) -> "list[list[Hypothesis]]":
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
    def _generator(self) -> Any:
        """Kept, as it keeps what is compiled. Decoding builds on the models, which know it by name alone."""
        return importlib.import_module("keras_encdec.decoding.generator").Generator(self)

    def compile(
        self,
        optimizer: Any = "rmsprop",
        reduction: str = "sum",
        clip_elements: float | None = None,
        label_smoothing: float = 0.0,
        **arguments: Any,
    ) -> None:
        """Configures training.

        With label smoothing e, the loss of a token in training is that of a target distribution which gives a share e
        of the probability to all V ids w that can be predicted, those of the padding not counted, evenly:

            -((1 - e) log p(y_t | y_<t, x) + e / V sum over w of log p(w | y_<t, x))

        The metrics, and the loss of validation, are those without.

        Args:
            optimizer: as of any Keras model.
            reduction: "sum" or "mean" of the pairs' losses over the batch. It is the scale of the gradient,
                to be thought of in clipping it and in the step size of SGD: the thesis has the mean.
                Defaults to "sum".
            clip_elements: float. Bound that each element of the gradient is clipped to, before the optimizer
                clips the norm. Defaults to `None`: no such clipping.
            label_smoothing: float. e, from 0 to below 1. Defaults to `0.0`: none.
            **arguments: of `keras.Model.compile`; the loss and the metrics are the model's own.

        Raises:
            ValueError: for another reduction, a bound that is not positive, or a label smoothing out of range.

        Reference:
            - Szegedy et al., 2016 (arXiv 1512.00567), section 7: label smoothing
        """
        if reduction not in ("sum", "mean"):
            raise ValueError(f'found reduction={reduction!r}, expected "sum" or "mean"')
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"found label_smoothing={label_smoothing}, expected a number from 0 to below 1")
        self.reduction, self.clip_elements, self.label_smoothing = reduction, clip_elements, label_smoothing
        super().compile(exact_clipping(keras.optimizers.get(optimizer), clip_elements), **arguments)
        GradientNorms.of(self.optimizer).keep_out_of_files(self.optimizer)  # also of what Keras wraps around it

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        own = "reduction", "clip_elements", "label_smoothing"
        return config and {**config, **{name: getattr(self, name) for name in own}}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(portable_compile_config(config)))
        self.optimizer.build(self.trainable_variables)

    def fit(self, x: Any = None, y: Any = None, *args: Any, **arguments: Any) -> Any:
        """Trains, see `keras.Model.fit`.

        Args:
            x: the pairs, source and target: a dict of "source" and "target", or the tuple of the two, integer arrays
                `(pairs, time)` of ids closed by the end of sequence and padded with 0; or anything that yields batches
                of such.
            y: `None`, or the target of `x` once more, which Keras needs beside `sample_weight`.
            *args, **arguments: of `keras.Model.fit`.

        Returns:
            the history, see `keras.Model.fit`.

        Raises:
            ValueError: for another `y`, and for arrays that are no such ids; what other data yield is not looked into.
        """
        self._check_pairs(x, y)
        validation = arguments.get("validation_data")
        if isinstance(validation, tuple | list) and validation:
            self._check_pairs(*validation[:2], names=("validation_data[0]", "validation_data[1]"))
        return super().fit(x, y, *args, **arguments)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **arguments: Any) -> Any:
        """The loss and the metrics, see `keras.Model.evaluate`; of pairs as `fit` takes them."""
        self._check_pairs(x, y)
        return super().evaluate(x, y, *args, **arguments)

    def _check_pairs(self, x, y=None, names=("x", "y")):
        arrays = hasattr(x, "shape") or isinstance(x, dict | tuple | list)
        if y is not None and (hasattr(x, "shape") and self.has_source or not arrays or y is not self.sides(x)[1]):
            expected = '{"source": source, "target": target}' if self.has_source else '{"target": target}'
            raise ValueError(
                f"found {names[1]}, expected {names[0]}={expected} and no {names[1]} but this target: the model reads "
                "it, too, and predicts each word from those before"
            )
        if arrays:
            source, target = self.sides(x)
            ids = {"source": self.source_words + SPECIAL_IDS, "target": self.target_words + SPECIAL_IDS}
            check_training_arrays({"source": source, "target": target} if self.has_source else {"target": target}, ids)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        if self._compile_loss is not None or self._compile_metrics is not None:
            raise ValueError(
                f"{type(self).__name__} owns its loss and its metrics (perplexity, log_likelihood): "
                "call compile() without loss= and metrics=."
            )
        log_probs = y_pred
        if isinstance(y_pred, dict):
            log_probs = (1 - self.label_smoothing) * y_pred["log_probs"]
            log_probs = log_probs + self.label_smoothing * y_pred["mean_log_probs"]
        pairs = sequence_log_probs(log_probs)
        if sample_weight is not None:
            pairs = pairs * ops.cast(sample_weight, pairs.dtype)
        return -(ops.mean if self.reduction == "mean" else ops.sum)(pairs)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        log_probs = y_pred["log_probs"] if isinstance(y_pred, dict) else y_pred
        self.perplexity.update_state(log_probs, self.sides(x)[1])
        self.log_likelihood.update_state(log_probs)
        return self.get_metrics_result()

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "source_words": self.source_words,
            "target_words": self.target_words,
            # As JSON holds them: Keras would write a tuple as a structure of its own.
            **{name: list(v) if isinstance(v, tuple) else v for name, v in self.config.to_dict().items()},
        }

    def _source_ids(self, source):
        if not self.has_source:
            return ops.convert_to_tensor(source, "int32")  # of which only the number of rows is read
        return id_tensor("source", source, self.source_words + SPECIAL_IDS)
