"""Measures what the characters of a hybrid model add to a training step, by the size of the shortlist.

    KERAS_BACKEND=jax python benchmarks/hybrid_training.py train.en train.fr

For each shortlist, a word model and a hybrid model of the preset `small_hybrid` alternate in updates with batches of
the most frequent shape. Prints the processor time of an update of each model, the share of the hybrid model's time that
is due to its characters, and the number of rare words in the batch.
"""

import argparse
import itertools
import pathlib
import statistics
import tempfile
import time

import keras
import numpy as np

from keras_encdec.data import Batches, open_pairs, prepare
from keras_encdec.models.translation_model import build_model
from keras_encdec.trainers import TrainingConfig


def main():
    """Measures, and prints a line for each shortlist."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--shortlists", type=int, nargs="+", default=[1000, 2000, 6000])
    parser.add_argument("--updates", type=int, default=20)
    options = parser.parse_args()
    for shortlist in options.shortlists:
        with tempfile.TemporaryDirectory() as folder:
            print(measured(options, shortlist, pathlib.Path(folder)), flush=True)


def measured(options, shortlist, folder):
    """Returns the line of a shortlist."""
    config = TrainingConfig.from_preset("small_hybrid", updates=1)
    values, batches = config.model_config.to_dict(), {}
    number = values["character_shortlist"]
    for name, characters in (("words", (None, None)), ("hybrid", (number, number))):
        with open_pairs(options.target, "parallel", source_path=options.source) as (records, _):
            pairs, source, target = prepare(records, folder / name, shortlist, 40, characters=characters)
        batches[name] = Batches(pairs, config.batch_size, widths=sorted(config.pad_to))
    batch, models = {}, {}
    stream = itertools.islice(batches["words"].stream(), 200)
    widths = statistics.mode((each["source"].shape[1], each["target"].shape[1]) for each in stream)
    for name, its_batches in batches.items():
        batch[name] = next(
            each for each in its_batches.stream() if (each["source"].shape[1], each["target"].shape[1]) == widths
        )
        arguments = dict(values)
        if name == "words":
            arguments = {key: value for key, value in values.items() if not key.startswith("character")}
        else:
            arguments["source_characters"] = len(source.characters)
            arguments["target_characters"] = len(target.characters)
        models[name] = build_model(config.architecture, len(source), len(target), **arguments)
        models[name].compile(keras.optimizers.Adam(1e-3, global_clipnorm=5.0), config.reduction)
        models[name].train_on_batch(batch[name])  # compiles
    seconds = {name: [] for name in models}
    for _ in range(options.updates):
        for name, model in models.items():
            start = time.process_time()
            model.train_on_batch(batch[name])
            seconds[name].append(time.process_time() - start)
    words, hybrid = (statistics.median(seconds[name]) for name in models)
    rare = [
        int(sum(np.count_nonzero(batch["hybrid"][f"{side}_characters_{width}"][:, 0]) for width in (10, 20, 51)))
        for side in ("source", "target")
    ]
    return (
        f"shortlist {shortlist:,}: words {words:.2f} s, hybrid {hybrid:.2f} s, characters {1 - words / hybrid:.0%}; "
        f"rare words read {rare[0]}, spelled {rare[1]}"
    )


if __name__ == "__main__":
    main()
