"""encdec-train: learns p(target | source) from pairs."""

import keras_encdec.cli.quiet_keras  # isort: skip  # noqa: F401

import importlib.util
import math
import pathlib
import sys

import keras
from absl import app

from keras_encdec.cli.command import run_command
from keras_encdec.cli.memory import keep_freed_memory
from keras_encdec.cli.quiet_keras import quietly
from keras_encdec.data import Batches
from keras_encdec.errors import InputError
from keras_encdec.models import RecurrentEncoderDecoder, RecurrentLanguageModel, RNNEncoderDecoder
from keras_encdec.scoring.compiled import xla_on_cpu
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.by_shape import train_by_shape
from keras_encdec.trainers.checkpoints import LAST, Checkpoints, load_checkpoint
from keras_encdec.trainers.flags import FIXED, FLAGS, check_flags, sizes, with_preset
from keras_encdec.trainers.inputs import prepared_pairs, validation_batches
from keras_encdec.trainers.progress import RoundProgress
from keras_encdec.trainers.round_average import RoundAverage
from keras_encdec.trainers.schedules import schedule


def main(arguments):
    """Trains as the flags say."""
    check_flags()
    folder = pathlib.Path(FLAGS.model_dir)
    exists = (folder / LAST).exists()
    if exists and not FLAGS.resume:
        raise app.UsageError(f"{folder} holds a model already; give another --model_dir, or --resume to go on.")
    if FLAGS.resume and not exists:
        raise InputError("found no model to go on with", remedy="train it without --resume first", path=folder)
    if keras.backend.backend() != "tensorflow":
        _tensorflow_beside()
        keep_freed_memory()  # a quarter of a step under JAX and PyTorch; TensorFlow is faster without
    keras.utils.set_random_seed(FLAGS.seed)
    directory, pairs = prepared_pairs(folder)
    validation, places = validation_batches(directory, pairs)
    if FLAGS.average_rounds and not validation:
        raise InputError(
            "found too few pairs to hold any out", "expected some to validate an average on",
            "give --validation, or no --average_rounds", folder,
        )  # fmt: skip
    widths = sorted(map(int, FLAGS.pad_to)) if _compiled() else None
    batches = Batches(pairs, FLAGS.batch_size, places, FLAGS.seed, widths)
    model, rounds = _model(directory)
    compilation = None
    if _by_shape():
        # On a CPU XLA multiplies bfloat16 in float32; TensorFlow's own products do not.
        slower = model.compute_dtype == "bfloat16" and xla_on_cpu()
        compilation = train_by_shape(model, jit_compile=FLAGS.jit_compile == "true" or not slower)
    checkpoints, budget = fit(model, batches, validation, folder, rounds)
    _report(checkpoints, budget, folder)
    if compilation:
        print(f"Compiling took {compilation.seconds:,.0f} s of it; shapes of batches: {compilation.shapes}.")


def fit(model, batches, validation, folder, rounds=()):
    """Runs `model.fit` by rounds until the budget of the flags is spent.

    Args:
        model: TranslationModel, compiled.
        batches: Batches.
        validation: Batches, or `None` to go by the training perplexity.
        folder: path of the model directory.
        rounds: list of dict, the history of a training that is resumed.

    Returns:
        tuple: Checkpoints and Budget, with what was reached.
    """
    first_update = rounds[-1]["updates"] if rounds else 0
    updates = _updates(batches.updates_per_epoch)
    budget = Budget(
        FLAGS.learning_rate,
        schedule(FLAGS.schedule, FLAGS.halving_start, FLAGS.halving_every),
        batches.updates_per_epoch,
        updates,
        FLAGS.minutes and 60 * FLAGS.minutes,
        first_update,
        rounds[-1]["seconds"] if rounds else 0.0,
    )
    average = RoundAverage(folder, budget, FLAGS.average_rounds, rounds) if FLAGS.average_rounds else None
    # A training that was killed before it averaged the rounds that it kept.
    pending = average and average.rounds and "averaged_rounds" not in rounds[-1]
    if budget.done >= 1.0 and not pending:
        raise InputError(
            f"found {first_update} updates made", "expected fewer than the training is to have",
            "raise --updates, --epochs or --minutes", path=folder,
        )  # fmt: skip
    monitor = "val_perplexity" if validation else "perplexity"
    checkpoints = Checkpoints(folder, budget, batches.batch_size, monitor, rounds, FLAGS.patience)
    if budget.done < 1.0:
        progress = RoundProgress(budget, batches.updates_per_epoch)
        callbacks = [budget, progress, *_tensorboard(folder), average, checkpoints]
        round_updates = min(FLAGS.round_updates, updates - first_update) if updates else FLAGS.round_updates
        model.fit(
            _stream(batches, first_update),
            validation_data=validation and _once(validation),
            steps_per_epoch=round_updates,
            initial_epoch=len(rounds),
            epochs=sys.maxsize,
            verbose=0,
            callbacks=[callback for callback in callbacks if callback],
        )
    if average and not budget.signal:
        _add_average(model, average, validation, checkpoints)
    return checkpoints, budget


def _add_average(model, average, validation, checkpoints):
    """Validates the average of the last rounds, and keeps it if it is the best."""
    last, (weights, number) = model.get_weights(), average.mean()
    model.set_weights(weights)
    measured = model.evaluate(_once(validation), verbose=0, return_dict=True)
    model.set_weights(last)
    checkpoints.add_average(model, weights, number, measured)


def _model(directory):
    """The model to train, compiled, and the history before."""
    wanted = sizes()
    if FLAGS.resume:
        model, rounds = load_checkpoint(directory.path)
        config = {**directory.training, **model.get_config()}
        asked = {**wanted, **{name: FLAGS[name].value for name in FIXED}}
        # What an older version knew nothing of, it did as these flags have it by default.
        before = {**{name: FLAGS[name].default for name in FIXED}, **config}
        other = [name for name, value in asked.items() if value != before.get(name, value) and name != "cell"]
        if other:
            found = ", ".join(f"--{name}={asked[name]}" for name in other)
            expected = ", ".join(f"--{name}={before[name]}" for name in other)
            raise app.UsageError(f"found {found}, expected {expected} as in the model to go on with.")
        # PyTorch's generator is not in the checkpoint: at least it does not draw again what it drew before.
        keras.utils.set_random_seed((FLAGS.seed + rounds[-1]["updates"]) % 2**32)
        return model, rounds
    keras.config.set_dtype_policy(FLAGS.dtype_policy)
    words = len(directory.source_vocabulary), len(directory.target_vocabulary)
    if FLAGS.language_model:
        model = RecurrentLanguageModel(words[1], **wanted)
    else:
        model = (RNNEncoderDecoder if FLAGS.architecture == "encdec" else RecurrentEncoderDecoder)(*words, **wanted)
    model.compile(
        _optimizer(), FLAGS.reduction, FLAGS.clip_elements or None, jit_compile=_compiled() and not _by_shape()
    )
    directory.save_config(
        {"source_words": model.source_words, "target_words": model.target_words, **wanted, "dtype": FLAGS.dtype_policy},
        {name: FLAGS[name].value for name in FIXED},
    )
    print(f"{model.count_params():,} weights.")
    return model, []


def _optimizer():
    name, clip = FLAGS.optimizer, FLAGS.clip_norm or None
    published = {"rho": 0.95, "epsilon": 1e-6} if name == "adadelta" else {}
    config = {"learning_rate": FLAGS.learning_rate, "global_clipnorm": clip, **published}
    return keras.optimizers.get({"class_name": name, "config": config})


def _compiled():
    if FLAGS.jit_compile == "auto":
        return keras.backend.backend() != "torch"  # which has no XLA
    return FLAGS.jit_compile == "true"


def _by_shape():
    """Whether the training step is compiled by shape, and evaluation not at all."""
    return _compiled() and keras.backend.backend() == "tensorflow"


def _updates(updates_per_epoch):
    limits = [FLAGS.updates, FLAGS.epochs and math.ceil(FLAGS.epochs * updates_per_epoch)]
    return min((limit for limit in limits if limit), default=None)


def _stream(batches, first_update):
    if keras.backend.backend() == "tensorflow":
        from keras_encdec.data import tf_dataset

        return tf_dataset(lambda: batches.stream(first_update))
    return ((batch,) for batch in batches.stream(first_update))


def _once(batches):
    if keras.backend.backend() == "tensorflow":
        from keras_encdec.data import tf_dataset

        return tf_dataset(batches.once)
    return _Once(batches.once())


def _tensorflow_beside():
    """Keras imports TensorFlow for any backend's data: without messages, and without the GPU's memory."""
    if importlib.util.find_spec("tensorflow"):
        with quietly():
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")


def _tensorboard(folder):
    if not FLAGS.tensorboard or not all(map(importlib.util.find_spec, ("tensorflow", "tensorboard"))):
        return []
    return [keras.callbacks.TensorBoard(folder / "logs", write_graph=False)]


class _Once(keras.utils.PyDataset):
    """All batches of a set, for `model.evaluate`."""

    def __init__(self, batches):
        super().__init__()
        self._batches = batches

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, place):
        return (self._batches[place],)


def _report(checkpoints, budget, folder):
    best = checkpoints.best
    kind = "held-out " if "val_perplexity" in best else ""
    prefix = "val_" if kind else ""
    last = checkpoints.rounds[-1]
    after = f"after {best['updates']:,} updates"
    if "averaged_rounds" in best:
        after = f"of the average of the last {best['averaged_rounds']} rounds"
    print(
        f"{last['updates']:,} updates, {last['pairs']:,} pairs in {budget.seconds:,.0f} s. Best {kind}perplexity "
        f"{best[prefix + 'perplexity']:.3f} per token, log-likelihood {best[prefix + 'log_likelihood']:.3f} per pair, "
        f"{after}: {folder}"
    )
    if budget.signal:
        print("Stopped by a signal; the same command with --resume goes on from here.", file=sys.stderr)
        sys.exit(128 + budget.signal)


def run():
    """Entry point of `encdec-train`."""
    run_command(main, ("model_dir",), with_preset)


if __name__ == "__main__":
    run()
