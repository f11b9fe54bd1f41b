"""A script that trains on several devices: without a stop, and stopped and resumed; see `distribution_test.py`.

The workers of TensorFlow, each of which traces each run, do only the named runs, stopped and resumed.

shared_training.py FOLDER NAME...    reads the pairs in FOLDER/tsv; leaves the training runs in FOLDER, those of ALONE
                                     that are named before the others
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from unittest import mock

from free_ports import free_ports

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
MEAN = {**EXACT, "reduction": "mean"}
# The runs that are compared with runs on one device.
ALONE = {"exact": EXACT, "mean": MEAN}
STOPPED_AT = 4


def launch(folder, backend, names, workers=False):
    """Runs the script: under PyTorch, and with `workers`, in a process for each device, otherwise in one process."""
    command, environments = [sys.executable, __file__, str(folder), *names], [{}]
    if backend == "torch":
        environments = [{"CUDA_VISIBLE_DEVICES": ""}]  # a machine may have fewer GPUs
        command[:1] = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={DEVICES}"]
    if backend == "jax":
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
        environments = [{"XLA_FLAGS": flags}]
    if workers:
        cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(DEVICES)]}
        environments = [
            {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})}
            for index in range(DEVICES)
        ]
    errors = [folder / f"errors.{number}" for number in range(len(environments))]
    processes = [
        subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=path.open("wb"))
        for environment, path in zip(environments, errors, strict=True)
    ]
    end = time.monotonic() + 600
    try:  # the others would wait for one that has failed
        while any(process.poll() is None for process in processes) and time.monotonic() < end:
            if any(process.returncode for process in processes):
                break
            time.sleep(0.1)
        statuses = [process.poll() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert not any(statuses) and None not in statuses, [statuses, *(path.read_text()[-4000:] for path in errors)]


def main(folder, names):
    """Trains the named runs, the one without a stop and the other."""
    if hasattr(os, "sched_setaffinity"):  # processes that wait for each other take long on one processor
        os.sched_setaffinity(0, range(os.cpu_count()))
    from keras_encdec.backend.startup import lean_imports

    with lean_imports():
        import keras

    if keras.backend.backend() == "tensorflow" and "TF_CONFIG" not in os.environ:
        import tensorflow as tf

        devices = [tf.config.LogicalDeviceConfiguration()] * DEVICES
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    from tiny_trainings import tiny_config

    from keras_encdec.backend.distribution import find_replicas
    from keras_encdec.trainers import TrainingData, TrainingReporter, train

    data = TrainingData(tsv=folder / "tsv", **DATA)

    # One shape of batch, compiled as a whole.
    compiled = {"jit_compile": "true"} if keras.backend.backend() == "tensorflow" else {}

    def run(name, settings):
        settings = {**settings, **compiled}
        reporter = TrainingReporter(lambda line: None)
        return train(tiny_config(**settings, devices="all"), data, folder / name, resume=True, reporter=reporter)

    def run_stopped(name, settings):
        # Several processes agree on signals after each update.
        with stopping(), mock.patch("keras_encdec.trainers.budget.AGREEMENT_UPDATES", 1):
            result = run(name, settings)
        assert (result.signal, result.updates) == (signal.SIGTERM, STOPPED_AT), result
        run(name, settings)

    workers = "TF_CONFIG" in os.environ
    with regularized():
        for name in names:
            (run_stopped if workers else run)(name, ALONE[name])
    if workers:
        end_alone(find_replicas("all"), folder / "trained")
        return
    run("whole", RANDOM)
    run_stopped("stopped", RANDOM)


def regularized():
    """Gives all models that are built in the `with` block a further loss besides that of the pairs."""
    import keras

    from keras_encdec.models.translation_model import TranslationModel

    build = TranslationModel.build

    def build_regularized(self, input_shape=None):
        build(self, input_shape)
        for variable in self.trainable_variables:
            variable.regularizer = keras.regularizers.L2(0.01)

    return mock.patch.object(TranslationModel, "build", build_regularized)


def end_alone(replicas, trained):
    """Ends all workers except the first after its training; the first must report that."""
    from keras_encdec.errors import InputError

    if not replicas.is_chief:
        while not trained.exists():
            time.sleep(0.1)
        os._exit(0)
    trained.touch()
    try:
        replicas.wait()
    except InputError as error:
        assert "found that another worker of this training has ended" in str(error), error
    else:
        raise AssertionError("the first worker did not miss the others")


def stopping():
    """Stops the last of the processes with an update."""
    from keras_encdec.trainers.budget import Budget

    after_update = Budget.on_train_batch_end

    def stop(self, batch, logs=None):
        if self.updates_done == STOPPED_AT - 1 and self.replicas.process == self.replicas.processes - 1:
            signal.raise_signal(signal.SIGTERM)
        after_update(self, batch, logs)

    return mock.patch.object(Budget, "on_train_batch_end", stop)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
