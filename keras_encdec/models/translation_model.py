"""Base class of the models of p(target | source), and their registry."""

import functools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import keras
from keras import ops

from keras_encdec.architectures.architecture_registry import Architecture, load_preset, register_architecture
from keras_encdec.backend.compiled_call import compiled_call, compute_in_int8
from keras_encdec.backend.devices import backend_name, warn_if_slow
from keras_encdec.backend.gradients import without_gradients
from keras_encdec.backend.types import Encoded, Memory, Shape, State, Structure, Tensor
from keras_encdec.backend.variable_copies import VariableCopies
from keras_encdec.configuration import Configuration
from keras_encdec.errors import not_defined
from keras_encdec.layers.initializers import checked_size
from keras_encdec.model_config import WEIGHTS, model_path
from keras_encdec.models.contract import Decoder, Encoder, check_specs
from keras_encdec.models.likelihood_model import LikelihoodModel
from keras_encdec.models.log_probs import (
    SPECIAL_IDS,
    check_row_numbers,
    id_tensor,
    sequence_log_probs,
    token_and_mean_log_probs,
    token_log_probs,
)
from keras_encdec.models.symbols import check_model
from keras_encdec.registry import Registry
from keras_encdec.runtime.files import check_path
from keras_encdec.sparse_weights import dense_file


class TranslationModel(LikelihoodModel):
    """Base of the models that predict a target word by word; the loss and the metrics are those of `LikelihoodModel`.

        log p(y | x) = sum over t of log p(y_t | y_<t, x)

    A subclass sets `config_class` and builds `self.encoder`, an `Encoder`, and `self.decoder`, a `Decoder`. The base
    class defines the rest from these two. The subclasses `EncoderDecoder` and `LanguageModel` add the methods that
    score.

    Args:
        source_words, target_words: int. Words in each shortlist, without the three special ids.
        **arguments: hyper-parameters of the `config_class`, and arguments of `keras.Model`, such as `dtype`.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, integer ids; or a tuple
            of the two.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding. If the model was compiled
        with label smoothing, a call with `training=True` returns a dict of two such tensors for the loss: "log_probs",
        and "mean_log_probs", the means over all ids that can be predicted.

    Raises:
        ValueError: for a number of words or a hyper-parameter of a wrong type or out of bounds.
    """

    #: The class of the model's hyper-parameters, whose fields are arguments of the constructor.
    config_class: type[Configuration]
    config: Configuration
    encoder: Encoder
    decoder: Decoder
    built: bool

    def __init__(self, source_words: int, target_words: int, **arguments: object) -> None:
        names = {parameter.name for parameter in self.config_class.hyperparameters()}
        super().__init__(**{name: value for name, value in arguments.items() if name not in names})
        self.source_words = checked_size("source_words", source_words, minimum=0)
        self.target_words = checked_size("target_words", target_words, minimum=0)
        self.config = self.config_class(**{name: value for name, value in arguments.items() if name in names})

    @classmethod
    def from_config(cls, config: dict[str, object], custom_objects: dict[str, object] | None = None) -> Self:
        return super().from_config(cls.config_class.upgraded(config), custom_objects)

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike[str],
        source_words: int | None = None,
        target_words: int | None = None,
        **arguments: object,
    ) -> Self:
        """Loads a packaged model, or builds a new model with published or recommended hyper-parameters.

        To load another trained model, see `keras_encdec.model_directory.ModelDirectory.load`.

        Args:
            preset: str. One of `keras_encdec.model_config.packaged_models()`, which is loaded with its weights and
                takes no further arguments; one of `keras_encdec.architectures.preset_names()`, of this model or of the
                model that this class extends; or the path of a TOML file of settings.
            source_words, target_words: int. Words in each shortlist. A language model needs only the second.
            **arguments: further arguments of the constructor; they override the preset's.

        Returns:
            the model, an instance of this class.

        Raises:
            ValueError: for a preset that does not exist or belongs to another model, for a model directory, for a
                preset without the numbers of words, and for a trained model with further arguments.
            InputError: see `load_preset`.
        """
        check_path(preset, "a preset")
        if os.path.isdir(preset):
            raise ValueError(
                f"found the directory {str(preset)!r}, expected a preset; load a trained model with "
                "keras_encdec.model_directory.ModelDirectory.load(path).model"
            )
        if (trained := model_path(preset)) != pathlib.Path(preset):
            if arguments or source_words is not None or target_words is not None:
                raise ValueError(
                    f"found further arguments with the trained model {str(preset)!r}, expected its name alone"
                )
            return cls._trained(trained)
        loaded = load_preset(preset)
        kind = model_class(loaded.architecture)
        if issubclass(cls, kind):
            kind = cls  # a class of the user's own
        if not issubclass(kind, cls):
            raise ValueError(f"found {str(preset)!r} of the model {kind.__name__}, expected one of {cls.__name__}")
        if target_words is None or kind.has_source and source_words is None:
            raise ValueError(
                f"found the preset {str(preset)!r} without source_words and target_words, expected the number of words "
                "in each shortlist"
            )
        return _built(kind, source_words, target_words, **loaded.model_with(arguments))

    @classmethod
    def _trained(cls, path: pathlib.Path) -> Self:
        """Loads a packaged model, whose file needs no check."""
        with dense_file(path / WEIGHTS) as weights:
            model = keras.saving.load_model(weights, compile=False)
        if not issubclass(type(model), cls):
            raise ValueError(f"found {path.name!r} of the model {type(model).__name__}, expected one of {cls.__name__}")
        return model

    @property
    def character_weights(self) -> list[keras.Variable]:
        parts = self.encoder.reader, self.decoder.speller
        return [weight for part in parts if part is not None for weight in part.weights]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        if not self.built:
            for name, words in (("encoder", self.source_words), ("decoder", self.target_words)):
                if not hasattr(self, name):
                    raise not_defined(self, name)
                expected = words + SPECIAL_IDS
                ids = getattr(getattr(self, name), "vocabulary_size", expected)  # which encoders need not have
                if ids != expected:
                    expected_ids = f"expected {expected} ids: the words and {SPECIAL_IDS} special ids"
                    raise ValueError(f"found the {name} with {ids} ids for {words} words, {expected_ids}")
            self.encoder.build()
            self.decoder.build()
            self.built = True

    # `training` is passed on explicitly: under JAX a training step calls this method directly, without Keras's context.
    def call(self, inputs: Structure, training: bool | None = None) -> Structure:
        source, target = self.sides(inputs)
        encoded = self.encoder(source, training=training)
        logits = self.decoder(Decoder.previous_words(target), encoded, training=training)
        return self.log_probs_for_loss(logits, target, training)

    def _quick_call(self, inputs: Structure) -> Tensor:
        """Calls the model without gradients, with JAX in one program for each combination of shapes."""
        if backend_name() != "jax":
            return self(inputs)
        # JAX would compile each operation separately, and a loop at every call: for sentences of 30 words, a call of
        # 2 ms would take 2 s.
        parts = self.encoder, self.decoder  # those of the current task
        if parts not in self._compiled_calls:
            self._compiled_calls[parts] = compiled_call(self)
        return self._compiled_calls[parts](inputs)

    @functools.cached_property
    def _compiled_calls(self) -> dict[tuple[Encoder, Decoder], Callable[..., Structure]]:
        return {}

    def log_probs_for_loss(self, logits: Tensor, target: Tensor, training: bool | None) -> Structure:
        """Computes the result of the model's call, see the class, from the logits of all steps."""
        if training and self.label_smoothing:
            return dict(zip(("log_probs", "mean_log_probs"), token_and_mean_log_probs(logits, target), strict=True))
        return token_log_probs(logits, target)

    @staticmethod
    def sides(inputs: Structure) -> tuple[Tensor, Tensor]:
        """Returns the source and the target in the inputs of the model."""
        if isinstance(inputs, dict) and {"source", "target"} <= inputs.keys():
            return inputs["source"], inputs["target"]
        if isinstance(inputs, tuple | list) and len(inputs) == 2:
            return tuple(inputs)
        found = f"a dict of {', '.join(map(repr, inputs))}" if isinstance(inputs, dict) else "other inputs"
        raise ValueError(
            f'found {found}, expected {{"source": ids, "target": ids}}, or a tuple of the two; an object that yields '
            "batches must yield such a dict or ((source, target),), because Keras takes the target of (source, target) "
            "for y"
        )

    @without_gradients
    def encode(self, source: Tensor, characters: Sequence[Tensor] = ()) -> Encoded:
        """Computes the encoder's output for each source.

        Args:
            source: integer ids `(batch, time)`, closed by the end of sequence and padded with 0.
            characters: list of integer arrays `(words, time)`, the spellings of the rare words of a model that reads
                characters: the ids of these words follow those of the shortlist, see `local_sources`. Defaults to no
                rare words.

        Returns:
            dict of tensors, one row per source, as described by `encoder.encoded_spec`; for `RNNEncoderDecoder`
            "summary" `(batch, units)`.

        Raises:
            ValueError: for an array that does not hold such ids; and for an encoder whose tensors differ from
                those that it declares.
        """
        rare_words = sum(group.shape[0] for group in characters)
        given = [self._source_ids(source, rare_words)]
        if self.encoder.reader is not None:
            given.append(self.encoder.reader.read([ops.convert_to_tensor(group) for group in characters]))
        encoded = self.encoder(*given)
        check_specs("encoded", encoded, self.encoder.encoded_spec)
        return encoded

    @without_gradients
    def start(self, source: Tensor, characters: Sequence[Tensor] = ()) -> tuple[State, Memory]:
        """Computes the first state and the memory, for decoding word by word.

        Args:
            source: integer ids `(batch, time)`.
            characters: see `encode`.

        Returns:
            tuple: the decoder's first state, and its memory of the source; see `Decoder`.

        Raises:
            ValueError: see `encode`; and for a decoder whose tensors differ from those that it declares.
        """
        return self.decoder.checked_start(self.encode(source, characters))

    def quantize(self, *args: object, **arguments: object) -> None:
        """Raises ValueError: encoders and decoders read matrices, which Keras would replace by integers with scales."""
        raise ValueError(
            'found quantize, expected dtype="int8" of TextScorer or TextGenerator, or weights="int8" of '
            "keras_encdec.export.ExportOptions: Keras would replace the matrices that this model reads"
        )

    def task_models(self) -> dict[str, "TranslationModel"]:
        """Returns an ordinary model for each task, by the task's name; here only this model, under the empty name."""
        return {"": self}

    def in_dtype(self, dtype: str) -> "TranslationModel":
        """Makes a model of the same hyper-parameters in a dtype, with new weights.

        For a model of several tasks, it makes an ordinary model of the current task.
        """
        return type(self).from_config({**self.get_config(), "dtype": dtype})

    def get_config(self) -> dict[str, object]:
        policy = self.dtype_policy
        is_map = isinstance(policy, keras.dtype_policies.DTypePolicyMap)  # its name does not describe it
        return {
            # The same values as from Keras's method, which would import TensorFlow with any backend to serialize the
            # dtype policy.
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(policy) if is_map else policy.name,
            "source_words": self.source_words,
            "target_words": self.target_words,
            # Lists as in JSON: Keras would write a tuple in its own format.
            **{name: list(v) if isinstance(v, tuple) else v for name, v in self.config.to_dict().items()},
        }

    def _source_ids(self, source: Tensor, rare_words: int = 0) -> Tensor:
        if not self.has_source:
            return ops.convert_to_tensor(source, "int32")  # only the number of rows is read
        return id_tensor("source", source, self.source_words + SPECIAL_IDS + rare_words)


class EncoderDecoder(TranslationModel):
    """Base of the models with a source, p(target | source), which score pairs. See `TranslationModel`."""

    @without_gradients
    def token_log_probs(self, source: Tensor, target: Tensor) -> Tensor:
        """Computes log p(y_t | y_<t, x) of each target token, without gradients; call the model for gradients.

        Args:
            source: integer ids `(batch, source_time)`.
            target: integer ids `(batch, target_time)`.

        Returns:
            float tensor `(batch, target_time)`, nats; 0 on padding.

        Raises:
            ValueError: for arrays that do not hold such ids, and for different numbers of rows.
        """
        ids = {
            "source": self._source_ids(source),
            "target": id_tensor("target", target, self.target_words + SPECIAL_IDS),
        }
        check_row_numbers({name: rows.shape[0] for name, rows in ids.items()})
        return self._quick_call(ids)

    @without_gradients
    def score(self, source: Tensor, target: Tensor) -> Tensor:
        """Computes log p(y | x), including the end of sequence, without length normalization and without gradients.

        Args:
            source: integer ids `(batch, source_time)`.
            target: integer ids `(batch, target_time)`.

        Returns:
            float tensor `(batch,)`, nats.

        Raises:
            ValueError: for arrays that do not hold such ids, and for different numbers of rows.
        """
        return sequence_log_probs(self.token_log_probs(source, target))


MODELS: Registry[type[TranslationModel]] = Registry("architecture")


def register_model(name: str) -> Callable[[type[TranslationModel]], type[TranslationModel]]:
    """A decorator that registers a model class, so that commands can train it and presets can name it.

    It also registers the class's `config_class` and `has_source` with `register_architecture`, and the class with Keras
    unless `keras.saving.register_keras_serializable` has, so that its saved models can be loaded.

    Args:
        name: str. The value of `encdec-train --architecture` that chooses the model.

    Raises:
        ValueError: for a name that another class has, and for a class that is not a `TranslationModel`.
    """
    register_class = MODELS.decorator(name, TranslationModel)

    def register(cls: type[TranslationModel]) -> type[TranslationModel]:
        register_class(cls)
        if keras.saving.get_registered_name(cls) == cls.__name__:  # Keras does not know it yet, and could not load it
            keras.saving.register_keras_serializable(package=name)(cls)
        register_architecture(Architecture(name, cls.config_class, cls.has_source))
        return cls

    return register


def model_class(name: str) -> type[TranslationModel]:
    """Returns the model class registered under the name of an architecture.

    Raises:
        ConfigurationError: a ValueError, for a name that is not registered.
    """
    return MODELS.find(name)


def build_model(name: str, source_words: int | None, target_words: int, **arguments: Any) -> TranslationModel:
    """Builds a new model.

    Args:
        name: str. The name of an architecture.
        source_words, target_words: int. Words in each shortlist; a language model ignores the first.
        **arguments: hyper-parameters, and further arguments of the model, such as `dtype`.

    Raises:
        ConfigurationError: a ValueError, for a name that is not registered, and for hyper-parameters out of bounds.
    """
    return _built(model_class(name), source_words, target_words, **arguments)


def _built(
    cls: type[TranslationModel], source_words: int | None, target_words: int | None, **arguments: Any
) -> TranslationModel:
    words: tuple[Any, ...] = (source_words, target_words) if cls.has_source else (target_words,)
    return cls(*words, **arguments)


class ModelInDtype:
    """A model in the dtype of a computation: the model itself if it has this dtype, or a copy.

    A model of several tasks stands for one of them at a time. It is copied even if it has the dtype: the copy is an
    ordinary model of the current task.

    A mixed dtype policy has an effect only within Keras's calls. Code that calls the methods of the encoder and the
    decoder directly needs a model of one dtype.

    Args:
        model: TranslationModel.
        dtype: str, such as "float32" or "bfloat16"; "int8" for a copy in float32 whose matrix products are computed in
            8 bits in compiled calls. Defaults to `None`: the model's own compute dtype.

    Attributes:
        model: TranslationModel that stores its weights and computes in this dtype.

    Raises:
        ConfigurationError: for "int8" where it cannot be computed, see `compute_in_int8`.
        ValueError: for an object that is not a model of this package, such as a model directory.
    """

    def __init__(self, model: TranslationModel, dtype: str | None = None) -> None:
        check_model(model)
        dtype = dtype or model.compute_dtype
        warn_if_slow(dtype)
        self.model, self._copies = model, None
        # A model of several tasks is always copied: the copy keeps to the current task.
        if model.dtype_policy.name == dtype and model.updates_all_weights:
            return
        in_int8 = dtype == "int8"
        self.model = model.in_dtype("float32" if in_int8 else dtype)
        if in_int8:
            compute_in_int8(self.model)
        weights = [
            one.weights if model.updates_all_weights else [*one.encoder.weights, *one.decoder.weights]
            for one in (model, self.model)
        ]
        self._copies = VariableCopies(*weights)

    def update(self) -> None:
        """Copies the weights if they have changed, as the original may have been trained further.

        Several threads may call it.
        """
        if self._copies is not None:
            self._copies.update()


def copy_weights(model: TranslationModel, other: TranslationModel) -> None:
    """Copies the weights of a model to another model of the same sizes, converted to that model's dtype."""
    for weight, original in zip(other.weights, model.weights, strict=True):
        weight.assign(ops.cast(original, weight.dtype))
