"""A training that several devices share, as a script: whole, and stopped and resumed; see `distribution_test.py`.

shared_training.py FOLDER    the pairs are in FOLDER/tsv; the trainings are left in FOLDER
"""

import os
import pathlib
import signal
import sys
from unittest import mock

DEVICES = 2
DATA = {"max_length": 3, "held_out_fraction": 0.072}
# Two clippings, a sum, smoothed labels, and 11 pairs to validate on, which two devices cannot share evenly.
EXACT = {
    "architecture": "recurrent",
    "model": {"cell": "gru", "layers": 1},
    "optimizer": "sgd",
    "learning_rate": 0.2,
    "clip_elements": 0.05,
    "label_smoothing": 0.1,
    "updates": 5,
    "round_updates": 3,
    "pad_to": (4,),
}
RANDOM = {**EXACT, "optimizer": "adam", "learning_rate": 0.02, "updates": 6}
RANDOM["model"] = {**EXACT["model"], "dropout": 0.5}
MEAN = {**EXACT, "reduction": "mean", "updates": 2}
STOPPED_AT = 4


def launch(folder, backend):
    """The command and the environment of the script: a process for both devices, or for each of them."""
    command, variables = [sys.executable, __file__, str(folder)], {}
    if backend == "torch":
        command[:1] = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={DEVICES}"]
    if backend == "jax":
        variables["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    return command, {**os.environ, **variables}


def main(folder):
    """Trains both."""
    from keras_encdec.backend.startup import lean_imports

    with lean_imports():
        import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        devices = [tf.config.LogicalDeviceConfiguration()] * DEVICES
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    from tiny_trainings import tiny_config

    from keras_encdec.trainers import TrainingData, TrainingReporter, train

    data = TrainingData(tsv=folder / "tsv", **DATA)

    # One shape of batch, compiled as a whole.
    compiled = {"jit_compile": "true"} if keras.backend.backend() == "tensorflow" else {}

    def run(name, settings):
        settings = {**settings, **compiled}
        reporter = TrainingReporter(lambda line: None)
        return train(tiny_config(**settings, devices="all"), data, folder / name, resume=True, reporter=reporter)

    run("mean", MEAN)
    run("exact", EXACT)
    run("whole", RANDOM)
    # Several processes agree on signals after each update.
    with stopping(), mock.patch("keras_encdec.trainers.budget.AGREEMENT_UPDATES", 1):
        result = run("stopped", RANDOM)
    assert (result.signal, result.updates) == (signal.SIGTERM, STOPPED_AT), result
    run("stopped", RANDOM)


def stopping():
    """Stops the last of the processes with an update."""
    from keras_encdec.trainers.budget import Budget

    after_update = Budget.on_train_batch_end

    def stop(self, batch, logs=None):
        if self.updates_done == STOPPED_AT - 1 and self.devices.process == self.devices.processes - 1:
            signal.raise_signal(signal.SIGTERM)
        after_update(self, batch, logs)

    return mock.patch.object(Budget, "on_train_batch_end", stop)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
