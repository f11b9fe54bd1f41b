"""Kills a training run at random moments, resumes it each time, and compares it with an uninterrupted run.

    KERAS_BACKEND=jax python benchmarks/kill_training.py --kills=20

Both runs are in separate processes, with dropout, label smoothing, a cosine schedule with a warm-up, and an
average of rounds. The first is not interrupted. The second is killed with SIGKILL at random moments after the first
update of each process, whether it is updating weights, validating, or saving a checkpoint. At the end, the weights, the
states of the optimizer and of the random generators, and the measurements of all rounds must be equal, bit for bit. It
exits with 1 if they are not.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import warnings

PAIRS, WORDS = 2000, 12
MODEL = {"cell": "gru", "layers": 1, "units": 24, "embedding_dim": 16, "dropout": 0.3}
# Longer than a few updates, so that a kill costs some of them; shorter than a round.
CHECKPOINT_SECONDS = 0.2
READY, DONE = "the first update is done", "the training is done"


def main():
    """Trains both, compares them, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0, help="random seed of the moments")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        return train(pathlib.Path(options.train), options.updates)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder, choose = pathlib.Path(name), random.Random(options.seed)
        write_pairs(folder / "pairs.tsv")
        _, seconds, _ = run_process(folder / "whole", options.updates)
        print(f"uninterrupted: {options.updates:,} updates in {seconds:.1f} s", flush=True)
        kills, is_done = 0, False
        while not is_done:
            # On average, part of the training is left when the last kill is due.
            moment = choose.uniform(0, 1.5 * seconds / options.kills) if kills < options.kills else None
            is_done, _, doing = run_process(folder / "killed", options.updates, moment)
            if not is_done:
                kills += 1
                done = f"{kills} of {options.kills}: killed {moment:.2f} s after the first update{doing}"
                print(done, flush=True)
        return compare(folder / "whole", folder / "killed", kills)


def run_process(model_dir, updates, kill_after=None):
    """Runs training in a process, from the last checkpoint, until it ends or is killed.

    Returns:
        tuple: bool, whether the training ended; float, seconds after its first update; str, what a kill interrupted, if
        that left a trace.
    """
    command = [sys.executable, __file__, f"--train={model_dir}", f"--updates={updates}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.stdout.readline().strip() != READY:
        sys.exit(f"the training failed:\n{process.stderr.read()}")
    start = time.monotonic()
    if kill_after is not None:
        try:
            process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
    output, errors = process.communicate()
    if process.returncode not in (0, -9):
        sys.exit(f"the training failed:\n{errors}")
    saving = ", while it saved" if list(model_dir.glob(".partial-*")) else ""
    return DONE in output, time.monotonic() - start, saving


def write_pairs(path):
    """Writes pairs that translate word by word."""
    choose = random.Random(0)
    with open(path, "w") as file:
        for _ in range(PAIRS):
            numbers = [choose.randrange(WORDS) for _ in range(choose.randint(1, 8))]
            file.write("\t".join(" ".join(f"{side}{n}" for n in numbers) for side in "st") + "\n")


def train(model_dir, updates):
    """Trains, or continues, in this process."""
    import keras

    from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingReporter
    from keras_encdec.trainers import train as train_model

    class Ready(TrainingReporter):
        def callbacks(self, budget, updates_per_epoch):
            return [keras.callbacks.LambdaCallback(on_train_batch_end=self._say_once)]

        def _say_once(self, batch, logs):
            if not hasattr(self, "_said"):
                self._said = print(READY, flush=True)

    config = TrainingConfig(
        architecture="recurrent",
        model=MODEL,
        optimizer="adam",
        learning_rate=0.01,
        schedule="cosine",
        warmup_updates=updates // 5,
        label_smoothing=0.1,
        average_rounds=3,
        updates=updates,
        round_updates=max(1, updates // 12),
        checkpoint_minutes=CHECKPOINT_SECONDS / 60,
        batch_size=32,
        pad_to=(9,),
        tensorboard=False,
    )
    data = TrainingData(tsv=str(model_dir.parent / "pairs.tsv"), held_out_fraction=0.05)
    train_model(config, data, model_dir, resume=True, reporter=Ready(lambda line: None))
    print(DONE, flush=True)
    return 0


def compare(whole, killed, kills):
    """Compares two model directories, and returns the exit status."""
    import keras
    import numpy as np

    from keras_encdec.model_directory import load_model

    different, compared = [], 0
    for name in ("last.keras", "best.keras"):
        is_last = name == "last.keras"
        models = [load_model(folder / name, compiled=is_last) for folder in (whole, killed)]
        variables = [model.variables + model.optimizer.variables if is_last else model.weights for model in models]
        for one, other in zip(*variables, strict=True):
            compared += 1
            if not np.array_equal(*map(keras.ops.convert_to_numpy, (one, other))):
                different.append(f"{name}: {one.path}")
    histories = [json.loads((folder / "history.json").read_text())["rounds"] for folder in (whole, killed)]
    for past in (past for history in histories for past in history):
        del past["seconds"]
    if histories[0] != histories[1]:
        different.append("history.json")
    result = f"differ in {', '.join(different)}" if different else f"are equal in {compared} variables and all rounds"
    print(f"{keras.backend.backend()}: after {kills} kills, the two training runs {result}.")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
