"""Base class of models that output log-probabilities: loss, metrics, and checks of the training data."""

import numbers

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.training_step import portable_compile_config
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.models.gradient_clipping import GradientNorms, exact_clipping
from keras_encdec.models.log_probs import (
    SPECIAL_IDS,
    check_row_numbers,
    check_training_arrays,
    id_tensor,
    sequence_log_probs,
)


@keras.saving.register_keras_serializable(package="keras_encdec")
class Perplexity(keras.metrics.Metric):
    """exp of minus the mean log-probability per target token, including the end of sequence.

    `update_state` takes token log-probabilities `(batch, time)` in nats, 0 on padding, and their target ids
    `(batch, time)`.
    """

    # Sums over many tokens stay in float32, even if the user has set a narrower `keras.config.floatx()`.
    def __init__(self, name: str = "perplexity", dtype: str = "float32") -> None:
        super().__init__(dtype, name)
        self.log_prob = self.add_weight(name="log_prob", initializer="zeros", dtype=self.dtype)
        self.tokens = self.add_weight(name="tokens", initializer="zeros", dtype=self.dtype)

    def update_state(self, log_probs: Tensor, target: Tensor) -> None:
        self.log_prob.assign_add(ops.sum(ops.cast(log_probs, self.dtype)))
        self.tokens.assign_add(ops.sum(ops.cast(ops.not_equal(target, 0), self.dtype)))

    def result(self) -> Tensor:
        return ops.exp(-self.log_prob / ops.maximum(self.tokens, 1))


@keras.saving.register_keras_serializable(package="keras_encdec")
class LogLikelihood(keras.metrics.Mean):
    """Mean log-probability of a target given its source, in nats per pair.

    `update_state` takes token log-probabilities `(batch, time)`, 0 on padding, and their target ids `(batch, time)`. A
    row of nothing but padding, which fills up a batch, does not count as a pair.
    """

    def __init__(self, name: str = "log_likelihood", dtype: str = "float32") -> None:
        super().__init__(name, dtype)

    def update_state(self, log_probs: Tensor, target: Tensor) -> None:
        is_pair = ops.any(ops.not_equal(target, 0), axis=-1)
        super().update_state(ops.sum(log_probs, axis=-1), sample_weight=ops.cast(is_pair, self.dtype))


class LikelihoodModel(keras.Model):
    """Base of models that output log-probabilities of tokens: the loss, the metrics, and the data that `fit` accepts.

    The loss is minus the sum of the token log-probabilities over the batch, or its mean over the pairs, optionally with
    label smoothing. `compile` accepts no other loss. The losses of layers (`add_loss`, regularizers) are added to it.

    A subclass defines `sides`, and sets `source_words` and `target_words`, the numbers of words in the shortlists. Its
    call returns token log-probabilities `(batch, time)` in nats, 0 on padding. In training with label smoothing it
    returns a dict: these as "log_probs", and their means over all ids that can be predicted as "mean_log_probs".

    Args:
        **arguments: arguments of `keras.Model`.
    """

    #: Whether targets depend on a source; those of a language model do not.
    has_source: bool = True
    #: Whether each update changes all weights; `False` for a model of several tasks.
    updates_all_weights: bool = True
    #: Number of devices that train copies of the model. With reduction="sum" the copies add up their losses, so each
    #: adds its share of the losses of layers.
    replicas: int = 1
    source_words: int
    target_words: int

    def __init__(self, **arguments: object) -> None:
        super().__init__(**arguments)
        self.reduction, self.label_smoothing, self.keep_words = "sum", 0.0, False
        self.clip_elements: float | None = None
        self.perplexity = Perplexity()
        self.log_likelihood = LogLikelihood()

    @staticmethod
    def sides(inputs: Structure) -> tuple[Tensor, Tensor]:
        """Returns the source and the target in the inputs of the model."""
        raise NotImplementedError

    @property
    def character_weights(self) -> list[keras.Variable]:
        """The weights for the characters of rare words; a word-based model has none."""
        return []

    @property
    def training_only_metrics(self) -> set[str]:
        """The names of the metrics that `evaluate` does not measure."""
        return set()

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | dict[str, object] = "rmsprop",
        reduction: str = "sum",
        clip_elements: float | None = None,
        label_smoothing: float = 0.0,
        keep_words: bool = False,
        **arguments: object,
    ) -> None:
        """Configures training.

        With label smoothing e, the loss of a token in training is the cross-entropy with a target distribution that
        spreads a share e of the probability evenly over the V ids w that can be predicted (all but padding):

            -((1 - e) log p(y_t | y_<t, x) + e / V sum over w of log p(w | y_<t, x))

        The metrics and the validation loss use no label smoothing.

        Args:
            optimizer: see `keras.Model.compile`.
            reduction: "sum" or "mean" of the pairs' losses over the batch. It scales the gradient, and so matters for
                clipping and for the step size of SGD. The thesis uses the mean. Defaults to "sum".
            clip_elements: float. Bound of each element of the gradient, before the optimizer clips the norm. Defaults
                to `None`: elements are not clipped.
            label_smoothing: float. e, from 0 to below 1. Defaults to `0.0`: no smoothing.
            keep_words: bool. Whether only the `character_weights` are trained, and all others keep their values. A
                word-based model then learns characters, and predicts the words as before. Defaults to `False`.
            **arguments: further arguments of `keras.Model.compile`, except the loss and the metrics.

        Raises:
            ValueError: without an optimizer; for an unknown reduction; for a bound that is not positive, or with an
                optimizer that accumulates gradients; for a label smoothing out of range; for `keep_words` without
                characters; and for `loss`, `loss_weights`, `metrics` or `weighted_metrics`.

        Reference:
            - Szegedy et al., 2016 (arXiv 1512.00567), section 7: label smoothing
        """
        own = "loss", "loss_weights", "metrics", "weighted_metrics"
        if given := [name for name in own if arguments.get(name) is not None]:
            raise ValueError(
                f"found {'= and '.join(given)}=, expected none: {type(self).__name__} owns its loss and its metrics "
                "(perplexity, log_likelihood); call compile() without them"
            )
        if reduction not in ("sum", "mean"):
            raise ValueError(f'found reduction={reduction!r}, expected "sum" or "mean"')
        if not isinstance(label_smoothing, numbers.Real) or not 0 <= label_smoothing < 1:
            raise ValueError(f"found label_smoothing={label_smoothing!r}, expected a number from 0 to below 1")
        optimizer = keras.optimizers.get(optimizer)
        if optimizer is None:
            raise ValueError('found optimizer=None, expected an optimizer, or the name of one, such as "adam"')
        self._check_optimizer(optimizer)
        self._keep_words(keep_words)
        self.reduction, self.clip_elements, self.label_smoothing = reduction, clip_elements, label_smoothing
        super().compile(exact_clipping(optimizer, clip_elements), **arguments)
        if norms := GradientNorms.of(self.optimizer):
            norms.keep_out_of_files(self.optimizer)  # even if Keras has wrapped it

    def _check_optimizer(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Raises ValueError for an optimizer that cannot train the model. A model of several tasks overrides it."""

    def _keep_words(self, keep_words: bool) -> None:
        """Chooses the weights that are trained, see `compile`."""
        characters = {id(weight) for weight in self.character_weights}
        if keep_words and not characters:
            raise ValueError("found keep_words, expected a model with characters: there are no other weights to train")
        if keep_words != self.keep_words:
            for weight in self.weights:
                weight.trainable = not keep_words or id(weight) in characters
        self.keep_words = keep_words

    def get_compile_config(self) -> dict[str, object]:
        config = super().get_compile_config()
        own = "reduction", "clip_elements", "label_smoothing", "keep_words"
        return config and {**config, **{name: getattr(self, name) for name in own}}

    def compile_from_config(self, config: dict[str, object]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(portable_compile_config(config)))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self, x: Structure = None, y: Tensor | None = None, *args: object, **arguments: object
    ) -> keras.callbacks.History:
        """Trains, see `keras.Model.fit`.

        Args:
            x: the pairs: a dict of "source" and "target", or a tuple of the two, integer arrays `(pairs, time)` of ids
                closed by the end of sequence and padded with 0; or an object that yields batches of such pairs, each a
                dict or `((source, target),)`. A Python generator must yield `(dict,)`, and so must a `DataLoader` of
                PyTorch with JAX and TensorFlow, where Keras would take the keys of a dict for arrays. A batch cannot be
                `(source, target)`: Keras would take the target for y.
            y: `None`, or the target of `x` again, which Keras needs with `sample_weight`.
            *args, **arguments: further arguments of `keras.Model.fit`.

        Returns:
            the history, see `keras.Model.fit`.

        Raises:
            ValueError: for another `y`, for arrays that do not hold such ids, for `class_weight`, and for a
                `sample_weight` without `y` or without exactly one weight for each pair. Batches of other objects are
                not checked.
        """
        _check_class_weight(arguments.get("class_weight"))
        self._check_pairs(x, y, arguments.get("sample_weight"))
        validation = arguments.get("validation_data")
        if isinstance(validation, tuple | list) and validation:
            pairs, target, weights = (*validation, None, None)[:3]
            self._check_pairs(pairs, target, weights, ("validation_data[0]", "validation_data[1]"))
        return super().fit(x, y, *args, **arguments)

    def evaluate(
        self, x: Structure = None, y: Tensor | None = None, *args: object, **arguments: object
    ) -> list[float] | dict[str, float] | float:
        """Computes the loss and the metrics, see `keras.Model.evaluate`. Takes the same pairs as `fit`."""
        self._check_pairs(x, y, arguments.get("sample_weight"))
        return super().evaluate(x, y, *args, **arguments)

    def predict(self, x: Structure, *args: object, **arguments: object) -> Structure:
        """Computes token log-probabilities, see `keras.Model.predict`.

        Args:
            x: the pairs, see `fit`; the targets may lack their ends.
            *args, **arguments: further arguments of `keras.Model.predict`.

        Raises:
            ValueError: for arrays that do not hold ids of the model, and for different numbers of rows.
        """
        self._check_ids(x)
        return super().predict(x, *args, **arguments)

    def train_on_batch(
        self,
        x: Structure,
        y: Tensor | None = None,
        sample_weight: Tensor | None = None,
        class_weight: None = None,
        return_dict: bool = False,
    ) -> list[float] | dict[str, float]:
        """Makes one update, see `keras.Model.train_on_batch`. Takes the same pairs as `fit`, with or without `y`."""
        _check_class_weight(class_weight)
        self._check_batch(x, y)
        return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    def test_on_batch(
        self, x: Structure, y: Tensor | None = None, *args: object, **arguments: object
    ) -> list[float] | dict[str, float]:
        """Computes the loss and the metrics of a batch, see `keras.Model.test_on_batch` and `train_on_batch`."""
        self._check_batch(x, y)
        return super().test_on_batch(x, y, *args, **arguments)

    def predict_on_batch(self, x: Structure) -> Structure:
        """Computes token log-probabilities of a batch, see `keras.Model.predict_on_batch` and `predict`."""
        self._check_ids(x)
        return super().predict_on_batch(x)

    def _check_ids(self, x: Structure) -> None:
        """Raises ValueError for ids that the model does not have; those of a batch with characters are not checked."""
        if self.character_weights or not (hasattr(x, "shape") or isinstance(x, dict | tuple | list)):
            return
        source, target = self.sides(x)
        ids = {"source": id_tensor("source", source, self.source_words + SPECIAL_IDS)} if self.has_source else {}
        ids["target"] = id_tensor("target", target, self.target_words + SPECIAL_IDS)
        check_row_numbers({name: rows.shape[0] for name, rows in ids.items()})

    def _check_batch(self, x: Structure, y: Tensor | None) -> None:
        """Checks a single batch, which is not split, so that it may contain characters; their ids are not checked."""
        if not self.character_weights:
            self._check_pairs(x, y, None)

    def _check_pairs(
        self, x: Structure, y: Tensor | None, sample_weight: Tensor | None, names: tuple[str, str] = ("x", "y")
    ) -> None:
        arrays = hasattr(x, "shape") or isinstance(x, dict | tuple | list)
        if y is not None and (
            hasattr(x, "shape") and self.has_source or not arrays or not _are_equal(y, self.sides(x)[1])
        ):
            expected = '{"source": source, "target": target}' if self.has_source else '{"target": target}'
            raise ValueError(
                f"found {names[1]}, expected {names[0]}={expected} and {names[1]}=None or this target: the model "
                "also reads the target, to predict each word from the words before it"
            )
        if isinstance(sample_weight, list | tuple):
            raise ValueError(f"found a {type(sample_weight).__name__} as sample_weight, expected an array (pairs,)")
        if hasattr(sample_weight, "shape"):
            _check_weights(sample_weight)
        if arrays and sample_weight is not None and y is None:
            raise ValueError(
                f"found sample_weight without {names[1]}, expected the target of {names[0]} again as {names[1]}: "
                "without it, Keras ignores the weights"
            )
        if arrays:
            self._check_rare_words(x)
            source, target = self.sides(x)
            ids = {"source": self.source_words + SPECIAL_IDS, "target": self.target_words + SPECIAL_IDS}
            check_training_arrays({"source": source, "target": target} if self.has_source else {"target": target}, ids)

    def _check_rare_words(self, x: Structure) -> None:
        """Raises ValueError if `fit` would split these arrays into wrong batches; a hybrid model overrides it."""

    def compute_loss(
        self,
        x: Structure = None,
        y: Tensor | None = None,
        y_pred: Structure = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        log_probs = y_pred
        if isinstance(y_pred, dict):
            log_probs = (1 - self.label_smoothing) * y_pred["log_probs"]
            log_probs = log_probs + self.label_smoothing * y_pred["mean_log_probs"]
        pairs = sequence_log_probs(log_probs)
        if sample_weight is not None:
            _check_weights(sample_weight)
            pairs = pairs * ops.reshape(ops.cast(sample_weight, pairs.dtype), ops.shape(pairs))
        loss = -(ops.mean if self.reduction == "mean" else ops.sum)(pairs)
        share = 1 / self.replicas if self.reduction == "sum" else 1
        for layer_loss in self.losses:
            loss = loss + share * ops.cast(ops.sum(layer_loss), loss.dtype)
        return loss

    def compute_metrics(
        self, x: Structure, y: Tensor, y_pred: Structure, sample_weight: Tensor | None = None
    ) -> dict[str, Tensor]:
        log_probs = y_pred["log_probs"] if isinstance(y_pred, dict) else y_pred
        target = self.sides(x)[1]
        self.perplexity.update_state(log_probs, target)
        self.log_likelihood.update_state(log_probs, target)
        return self.get_metrics_result()


def _are_equal(array: Tensor, other: Tensor) -> bool:
    """Returns whether two arrays hold the same numbers; Keras splits x and y separately for validation data."""
    if array is other:
        return True
    if not (hasattr(array, "shape") and hasattr(other, "shape")) or tuple(array.shape) != tuple(other.shape):
        return False
    return np.array_equal(ops.convert_to_numpy(array), ops.convert_to_numpy(other))


def _check_class_weight(class_weight: object) -> None:
    if class_weight is not None:
        raise ValueError("found class_weight=, expected none: a pair has no class; weigh pairs with sample_weight=")


def _check_weights(sample_weight: Tensor) -> None:
    """Raises ValueError unless there is one weight for each pair, in a row or a column."""
    shape = sample_weight.shape
    if getattr(shape, "rank", 1) is None:  # TensorFlow does not know it yet
        return
    if len(shape) != 1 and tuple(shape[1:]) != (1,):
        raise ValueError(f"found sample_weight of shape {tuple(shape)}, expected one weight for each pair, (pairs,)")
