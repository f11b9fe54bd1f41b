"""A toy model's served functions, calls of them, and their scores by the model's equations."""

import numpy as np
import oracle
import tensorflow as tf
import toy_models

from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import to_symbols

SOURCE_WORDS = [f"s{i}" for i in range(9)]
SOURCES = ["s1 s2 s3", "s4", "", "s5 s6 s7 s8 s0 s1 s2 s3 s4", "s1 s2 s3", "other s1"]
TARGET_WORDS = [f"t{i}" for i in range(11)]
MAX_TOKENS = 40
CONFIG = ServingConfig(max_tokens=MAX_TOKENS)
TYPES = {"seed": tf.int64, "temperature": tf.float32}


def served(folder, tokenization=None, **arguments):
    """A toy model's directory and its served functions."""
    directory = ModelDirectory.load(toy_models.save_model(folder / "model", SOURCE_WORDS, TARGET_WORDS, **arguments))
    (folder / "assets").mkdir()
    return directory, ServedModel(directory, folder / "assets", CONFIG, tokenization)


def call(model, signature, **inputs):
    """What a served function gives for lists of inputs."""
    inputs = {name: tf.constant(values, TYPES.get(name, tf.string), (len(values),)) for name, values in inputs.items()}
    return {name: value.numpy() for name, value in model.signatures[signature](**inputs).items()}


def random_pairs(number, longest, seed=0):
    """Pairs of phrases of mixed lengths, empty ones and unknown words among them."""
    random = np.random.default_rng(seed)

    def phrase(words):
        return " ".join(random.choice([*words, "other"], random.integers(0, longest + 1)))

    return [(phrase(SOURCE_WORDS), phrase(TARGET_WORDS)) for _ in range(number)]


def oracle_scores(directory, pairs):
    """float64 ln p of each token, by the equations written out in NumPy."""
    weights = {name: array.astype(np.float64) for name, array in to_symbols(directory.model).items()}
    rows = []
    for source, target in pairs:
        source = directory.source_vocabulary.encode(source.split())
        target = directory.target_vocabulary.encode(target.split())
        table = oracle.token_log_probs(weights, source, target, directory.model.config.reset_after)
        rows.append(table[range(len(target)), target])
    return rows
