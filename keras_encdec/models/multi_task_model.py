"""A model of several tasks, which share encoders and decoders."""

import contextlib
import dataclasses
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self

import keras

from keras_encdec.architectures.architecture_registry import architecture
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.models.contract import Decoder, Encoder
from keras_encdec.models.gradient_clipping import GradientNorms
from keras_encdec.models.likelihood_model import Perplexity
from keras_encdec.models.translation_model import EncoderDecoder, TranslationModel, build_model

_COUNTS = "_part_counts"


@dataclasses.dataclass(frozen=True)
class TaskParts:
    """The encoder and the decoder of a task, and their numbers of words.

    Attributes:
        encoder, decoder: str. Names; tasks that give the same name share the weights.
        source_words, target_words: int. Words in the shortlists of the encoder and of the decoder.
    """

    encoder: str
    decoder: str
    source_words: int
    target_words: int

    @property
    def names(self) -> tuple[str, str]:
        """The names of the parts, "encoder en" and "decoder fr"."""
        return f"encoder {self.encoder}", f"decoder {self.decoder}"


@keras.saving.register_keras_serializable(package="keras_encdec")
class TaskPerplexity(Perplexity):
    """Perplexity of the pairs of one task; 0 if there were none."""

    def result(self) -> Tensor:
        return keras.ops.where(self.tokens > 0, super().result(), 0.0)


@keras.saving.register_keras_serializable(package="keras_encdec")
class MultiTaskModel(EncoderDecoder):
    """Learns p(target | source) of several tasks, which share encoders and decoders.

        p_i(y | x) = decoder_d(i)(y | encoder_e(i)(x))          task i, with the encoder e(i) and the decoder d(i)

    The model behaves as the model of its first task, the main task. Inside `with model.task(name)` calls, scores and
    searches are those of that task; `fit`, `evaluate` and `predict` are refused there, because Keras's functions stay
    with the task for which they were compiled. A `Scorer` or a `Generator` stays with the task in which it was made,
    and uses the model's current weights. `task_models` returns an ordinary model of each task. An update of a task
    changes only the weights that the task uses, and the optimizer's state of these weights. `perplexity` and
    `log_likelihood` are those of the main task; `NAME_perplexity` is that of another task.

    Args:
        architecture_name: str. Name of the architecture of all tasks, such as "recurrent".
        tasks: dict from name to `TaskParts`, or to a dict of its values; the first is the main task.
        **arguments: hyper-parameters of the architecture, the same for all tasks, and arguments of `keras.Model`, such
            as `dtype`.

    Call arguments:
        inputs: see `EncoderDecoder`; the ids are those of the current task's vocabularies.

    Returns:
        see `EncoderDecoder`.

    Raises:
        ValueError: without a task, for an object that is not a dict of tasks, for tasks that share an encoder or a
            decoder and differ in its number of words, and for hyper-parameters out of bounds.

    Example:

    >>> tasks = {"fr": TaskParts("en", "fr", 20, 30), "de": TaskParts("en", "de", 20, 40)}
    >>> model = MultiTaskModel("recurrent", tasks, layers=1, units=8, embedding_dim=4)
    >>> with model.task("de"):
    ...     tuple(model.score([[5, 6, 2]], [[42, 2]]).shape)
    (1,)

    Reference:
        - Luong et al., 2016 (arXiv 1511.06114), section 3
    """

    updates_all_weights = False

    def __init__(
        self, architecture_name: str, tasks: Mapping[str, TaskParts | Mapping[str, Any]], **arguments: Any
    ) -> None:
        parts = _task_parts(tasks)
        self.main_task = self._task = next(iter(parts))
        self.config_class = architecture(architecture_name).config
        main = parts[self.main_task]
        super().__init__(main.source_words, main.target_words, **arguments)
        self.architecture_name, self._parts = architecture_name, parts
        encoders: dict[str, Encoder] = {}
        decoders: dict[str, Decoder] = {}
        for task in parts.values():
            if task.encoder not in encoders or task.decoder not in decoders:
                model = self._task_model(task)
                encoders.setdefault(task.encoder, model.encoder)
                decoders.setdefault(task.decoder, model.decoder)
        self.encoders, self.decoders = encoders, decoders
        self.task_perplexities = {
            name: TaskPerplexity(f"{name}_perplexity") for name in parts if name != self.main_task
        }
        self.built = True

    @property
    def tasks(self) -> dict[str, TaskParts]:
        """The parts of each task by its name; the first is the main task."""
        return dict(self._parts)

    @property
    def training_only_metrics(self) -> set[str]:
        """The names of the metrics that `evaluate` does not measure: those of all tasks but the main task."""
        return {metric.name for metric in self.task_perplexities.values()}

    @property
    def encoder(self) -> Encoder:  # type: ignore[override]
        """The encoder of the current task."""
        return self.encoders[self._parts[self._task].encoder]

    @property
    def decoder(self) -> Decoder:  # type: ignore[override]
        """The decoder of the current task."""
        return self.decoders[self._parts[self._task].decoder]

    @contextlib.contextmanager
    def task(self, name: str) -> Iterator[Self]:
        """Makes the model behave as the model of a task in the `with` block, see the class.

        A step traced there stays with that task.

        Args:
            name: str. One of `tasks`.

        Raises:
            ValueError: for another name.
        """
        if name not in self._parts:
            raise ValueError(f"found the task {name!r}, expected one of {', '.join(self._parts)}")
        before = self._task
        self._choose(name)
        norms = GradientNorms.of(self.optimizer) if self.compiled else None
        if norms:
            norms.is_counting = name == self.main_task
        try:
            yield self
        finally:
            self._choose(before)
            if norms:
                norms.is_counting = before == self.main_task

    def _choose(self, name: str) -> None:
        self._task = name
        self.source_words, self.target_words = self._parts[name].source_words, self._parts[name].target_words

    def task_models(self) -> dict[str, TranslationModel]:
        """Builds an ordinary model for each task, by its name, with a copy of the task's weights."""
        return {name: self._with_weights(task) for name, task in self._parts.items()}

    def compile(self, *args: Any, **arguments: Any) -> None:
        """Configures training, see `LikelihoodModel.compile`.

        Raises:
            ValueError: see there; and for an optimizer that accumulates gradients, that overwrites weights with their
                averages while it trains, or that consists of several optimizers.
        """
        super().compile(*args, **arguments)
        parts = {
            **{f"encoder {name}": encoder.trainable_variables for name, encoder in self.encoders.items()},
            **{f"decoder {name}": decoder.trainable_variables for name, decoder in self.decoders.items()},
        }
        update_parts(self.optimizer, self.trainable_variables, parts, lambda: self._parts[self._task].names)

    def _check_optimizer(self, optimizer: keras.optimizers.Optimizer) -> None:
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # inside one that scales the loss
        if steps := optimizer.gradient_accumulation_steps:
            raise ValueError(
                f"found gradient_accumulation_steps={steps}, expected none for a model of several tasks: the update of "
                "one task would drop the accumulated gradients of another; give larger batches"
            )
        if optimizer.use_ema and (steps := optimizer.ema_overwrite_frequency):
            raise ValueError(
                f"found ema_overwrite_frequency={steps}, expected none for a model of several tasks: the updates of "
                "one task would overwrite the weights of another; leave it out, and fit uses the averages at its end"
            )
        if hasattr(optimizer, "optimizers"):
            raise ValueError(
                f"found {type(optimizer).__name__}, expected one optimizer for a model of several tasks: an update of "
                "a task changes only the weights that it uses"
            )

    def make_train_function(self, force: bool = False) -> None:
        self._check_is_main_task()
        super().make_train_function(force)

    def make_test_function(self, force: bool = False) -> None:
        self._check_is_main_task()
        super().make_test_function(force)

    def make_predict_function(self, force: bool = False) -> Callable[..., Structure]:
        self._check_is_main_task()
        return super().make_predict_function(force)

    def _check_is_main_task(self) -> None:
        if self._task != self.main_task:
            raise ValueError(
                f"found the task {self._task!r}, expected the main task {self.main_task!r}: fit, evaluate and predict "
                f"use no other; call them on task_models()[{self._task!r}]"
            )

    def evaluate(self, *args: object, **arguments: object) -> list[float] | dict[str, float] | float:
        """Computes the loss and the metrics of the main task, see `LikelihoodModel.evaluate`."""
        measured = super().evaluate(*args, **arguments)
        if isinstance(measured, dict):
            omitted = self.training_only_metrics
            return {name: value for name, value in measured.items() if name not in omitted}
        return measured

    def compute_metrics(
        self, x: Structure, y: Tensor, y_pred: Structure, sample_weight: Tensor | None = None
    ) -> dict[str, Tensor]:
        if self._task == self.main_task:
            return super().compute_metrics(x, y, y_pred, sample_weight)
        log_probs = y_pred["log_probs"] if isinstance(y_pred, dict) else y_pred
        self.task_perplexities[self._task].update_state(log_probs, self.sides(x)[1])
        return self.get_metrics_result()

    def get_config(self) -> dict[str, object]:
        config = {**super().get_config(), "architecture_name": self.architecture_name}
        return {**config, "tasks": {name: dataclasses.asdict(task) for name, task in self._parts.items()}}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Self:
        values = architecture(config["architecture_name"]).config.upgraded(config)
        arguments = {name: value for name, value in values.items() if name not in ("source_words", "target_words")}
        return super(TranslationModel, cls).from_config(arguments, custom_objects)

    def in_dtype(self, dtype: str) -> TranslationModel:
        return self._task_model(self._parts[self._task], dtype)

    def _task_model(self, task: TaskParts, dtype: str | None = None) -> TranslationModel:
        values = {**self.config.to_dict(), "dtype": dtype or self.dtype_policy}
        return build_model(self.architecture_name, task.source_words, task.target_words, **values)

    def _with_weights(self, task: TaskParts) -> TranslationModel:
        model = self._task_model(task)
        model.encoder.set_weights(self.encoders[task.encoder].get_weights())
        model.decoder.set_weights(self.decoders[task.decoder].get_weights())
        return model


def _task_parts(tasks: Mapping[str, TaskParts | Mapping[str, Any]]) -> dict[str, TaskParts]:
    """Returns the parts of each task, checked."""
    if not isinstance(tasks, Mapping) or not all(isinstance(task, TaskParts | Mapping) for task in tasks.values()):
        raise ValueError(f"found the tasks {reprlib.repr(tasks)}, expected a dict from name to TaskParts")
    if not tasks:
        raise ValueError("found no task, expected at least one")
    parts = {name: task if isinstance(task, TaskParts) else TaskParts(**task) for name, task in tasks.items()}
    _check_sizes(parts)
    return parts


def _check_sizes(tasks: Mapping[str, TaskParts]) -> None:
    """Raises ValueError unless tasks that share an encoder or a decoder agree on its number of words."""
    for side, words in (("encoder", "source_words"), ("decoder", "target_words")):
        sizes: dict[str, tuple[str, int]] = {}
        for name, task in tasks.items():
            other, size = sizes.setdefault(getattr(task, side), (name, getattr(task, words)))
            if size != getattr(task, words):
                raise ValueError(
                    f"found {words}={getattr(task, words)} of the task {name!r}, expected {size} as in {other!r}, "
                    f"with which it shares the {side} {getattr(task, side)!r}"
                )


def update_parts(
    optimizer: keras.optimizers.Optimizer,
    all_variables: Sequence[keras.Variable],
    parts: Mapping[str, Sequence[keras.Variable]],
    in_use: Callable[[], Collection[str]],
) -> None:
    """Makes an optimizer update only the parts of a model that the current task uses.

    The weights of the other parts stay as they are, and so do their moments, sums and weight decay. The norm of the
    gradient is that of the parts in use. Each part has its own number of updates n, which Adam's correction of its
    moments needs:

        m / (1 - beta_1^n),   v / (1 - beta_2^n)

    With one number for all parts, the first updates of a part that is seldom used would be up to six times as large.
    With one number for each, tasks that share nothing are trained exactly as if each were trained alone.

    Args:
        optimizer: `keras.optimizers.Optimizer`. This function builds it.
        all_variables: list of all trainable variables, in the order of the model.
        parts: dict from the name of each part to its trainable variables. Each variable belongs to one part.
        in_use: callable that returns the names of the parts to update. It is called while a step is traced.

    Reference:
        - Kingma and Ba, 2015 (arXiv 1412.6980), section 3: correction of the moments
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # inside an optimizer that scales the loss
    part_of = {id(variable): name for name, variables in parts.items() for variable in variables}
    if _COUNTS not in vars(optimizer):
        optimizer.build(list(all_variables))
        vars(optimizer)[_COUNTS] = {
            name: optimizer.add_variable((), dtype="int", aggregation="only_first_replica", name=f"updates_{number}")
            for number, name in enumerate(parts)
        }
    counts = vars(optimizer)[_COUNTS]
    vars(optimizer).pop("_backend_update_step", None)  # set by an earlier call
    apply, update = optimizer.apply, optimizer._backend_update_step

    def apply_in_use(
        gradients: Sequence[Tensor | None], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        used = in_use()
        pairs = zip(gradients, trainable_variables or all_variables, strict=True)
        kept = [(gradient, variable) for gradient, variable in pairs if part_of[id(variable)] in used]
        apply([gradient for gradient, _ in kept], [variable for _, variable in kept])

    # Throughout `apply`, Keras's optimizers read the number of updates from `_iterations`.
    def update_each(gradients: Sequence[Tensor], variables: Sequence[keras.Variable], learning_rate: Tensor) -> None:
        number_of_all = optimizer._iterations
        try:
            for name in dict.fromkeys(part_of[id(variable)] for variable in variables):
                pairs = zip(gradients, variables, strict=True)
                own = [(gradient, variable) for gradient, variable in pairs if part_of[id(variable)] == name]
                vars(optimizer)["_iterations"] = counts[name]
                update([gradient for gradient, _ in own], [variable for _, variable in own], learning_rate)
                counts[name].assign_add(1)
        finally:
            vars(optimizer)["_iterations"] = number_of_all

    optimizer.apply = apply_in_use
    vars(optimizer)["_backend_update_step"] = update_each
