"""Small files of pairs, and the settings of training runs that take seconds."""

import gzip
import json
import random

import keras
import pytest

from keras_encdec.trainers import TrainingConfig, TrainingReporter, train

PAIRS = 400
SIZES = {"embedding_dim": 4, "units": 8, "maxout_units": 4, "output_rank": 4}
SETTINGS = {"optimizer": "adam", "learning_rate": 0.02, "batch_size": 16, "round_updates": 10, "seed": 5}
# The settings that start fastest: no XLA if there is a choice, otherwise a single batch shape.
QUICK = {"jit_compile": "false"} if keras.backend.backend() == "tensorflow" else {"pad_to": (8,)}
QUICK = {**QUICK, "tensorboard": False}


def phrases():
    """Pairs where a source word s7 is always a target word t7: dict, sources to targets."""
    choose, made = random.Random(0), {}
    while len(made) < PAIRS:
        numbers = [choose.randrange(12) for _ in range(choose.randint(1, 6))]
        made[" ".join(f"s{i}" for i in numbers)] = " ".join(f"t{i}" for i in numbers)
    return made


@pytest.fixture(scope="session")
def training_files(tmp_path_factory):
    """Folder with the pairs as each kind of input: table.gz (with what is to be left out), tsv, source and target."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = list(phrases().items())
    lines = [f"{source} ||| {target} ||| 0.5 0.5 ||| 0-0\n" for source, target in pairs]
    lines += lines[:30] + [f"{'s1 ' * 31} ||| t1 ||| 1 1\n", "||| t1 ||| 1 1\n"]
    (folder / "table.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (folder / "tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (folder / "source").write_text("".join(f"{source.upper()}.\n" for source, _ in pairs))
    (folder / "target").write_text("".join(f"{target}!\n" for _, target in pairs))
    return folder


def tiny_config(**settings):
    """Settings of a training run that takes seconds; others override them."""
    sizes = {"encdec": SIZES, "cslm": {}}.get(settings.get("architecture", "encdec"), {"units": 8, "embedding_dim": 8})
    model = {**sizes, **settings.pop("model", {})}
    return TrainingConfig(**{**SETTINGS, **QUICK, **settings}, model=model)


def train_tiny(data, model_dir, resume=False, **settings):
    """Trains with the settings of `tiny_config`; returns the result and the lines that were said."""
    lines = []
    result = train(tiny_config(**settings), data, model_dir, resume, TrainingReporter(lines.append))
    return result, lines


def training_flags(**settings):
    """The settings of `tiny_config` as flags."""
    values = {**SIZES, **SETTINGS, **QUICK, **settings}
    flags = []
    for name, value in values.items():
        if isinstance(value, bool):
            flags.append(f"--{name}" if value else f"--no{name}")
        elif value is not None:
            flags.append(f"--{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
    return flags


def rounds(folder):
    """The history in a model directory."""
    return json.loads((folder / "history.json").read_text())["rounds"]


def number_of_updates(folder):
    """Updates at the end of each round."""
    return [entry["updates"] for entry in rounds(folder)]
