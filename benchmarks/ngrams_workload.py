"""The workload of the CSLM benchmark: a file that is made once and given to all contestants."""

import argparse
import itertools
import random

import numpy as np
from attention_workload import IDS, LENGTH, random_hypotheses, random_sequence, read_text

from keras_encdec.text.vocabulary import END, FIRST_WORD

# The sizes of the paper.
SIZES = {"ngram_order": 7, "embedding_dim": 512, "hidden_units": (1536, 1024)}
BATCHES = 3


def prepare(path, options):
    """Writes weights by symbol, batches to train on and sequences to score, for the measured scripts."""
    numbers, rng = random.Random(0), np.random.default_rng(0)
    widths = [(SIZES["ngram_order"] - 1) * SIZES["embedding_dim"], *SIZES["hidden_units"], IDS]
    weights = {"target.E": rng.uniform(-1, 1, (IDS, SIZES["embedding_dim"]))}
    for layer, shape in enumerate(itertools.pairwise(widths), start=1):
        kernel, bias = f"decoder.W.{layer}", f"decoder.b.{layer}"
        if layer == len(widths) - 1:
            kernel, bias = "output.W_hy", "output.b_hy"
        # Activations keep their size from layer to layer, so that scores differ.
        weights[kernel], weights[bias] = rng.normal(0, (2 / shape[0]) ** 0.5, shape), np.zeros(shape[1])
    weights["target.E"][0] = 0
    some = options.sentences // 80
    lists = read_text(options.input, options.nbest)[1][:some] if options.nbest else []
    lists = lists or [random_hypotheses(numbers, numbers.randint(4, 20), 100) for _ in range(some)]
    batches = rng.integers(FIRST_WORD, IDS, (BATCHES, options.batch, LENGTH), np.int32)
    batches[..., -1] = END
    np.savez(
        path,
        batches=batches,
        sentences=np.concatenate([random_sequence(numbers, numbers.randint(4, 24)) for _ in range(options.sentences)]),
        nbest=np.concatenate([target for targets in lists for target in targets]),
        **{f"weights/{name}": array.astype("float32") for name, array in weights.items()},
    )


def arguments():
    """Parses the command line of the measured scripts, and reads the prepared arrays."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=["train", "sentences", "nbest"])
    parser.add_argument("prepared")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    with np.load(options.prepared) as file:
        arrays = {name: file[name] for name in file.files}
    return options, arrays


def weights_of(arrays):
    """Returns the weights by symbol."""
    return {name.split("/")[1]: array for name, array in arrays.items() if name.startswith("weights/")}
