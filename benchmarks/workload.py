"""What is measured: the pairs, the sizes, the arithmetic that they need, and how time is taken."""

import argparse
import collections
import itertools
import json
import resource
import sys
import time

import numpy as np

from keras_encdec.data import open_pairs, pad
from keras_encdec.text import Vocabulary

SHORTLIST = 15_000
SIZES = {
    "cho2014": {"embedding_dim": 100, "units": 1000, "maxout_units": 500, "output_rank": 100},
    "small": {"embedding_dim": 100, "units": 256, "maxout_units": 128, "output_rank": 100},
}
# Of a batch to train on, on both sides: that of a phrase of 5 words and its end of sequence.
LENGTH = 6


def arguments():
    """The command line that all of the measured scripts understand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["score", "train", "precision"])
    parser.add_argument("table")
    parser.add_argument("--sizes", default="cho2014")
    parser.add_argument("--units", type=int, help="hidden units, and half as many maxout units, instead")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--model_dir", help="of a trained model; default: random weights")
    return parser


def read_ids(table, count):
    """The first pairs of a table as ids: list of `(source ids, target ids)`.

    The words are numbered as they come, and the vocabularies taken to be full, so that every table
    costs the same.
    """
    with open_pairs(table) as (pairs, _):
        pairs = list(itertools.islice(pairs, count))
    sides = [dict.fromkeys(word for pair in pairs for word in pair[side]) for side in (0, 1)]
    source, target = (Vocabulary(itertools.islice(side, SHORTLIST)) for side in sides)
    return [(source.encode(s), target.encode(t)) for s, t in pairs]


def batches_of_one_length(pairs, size):
    """Batches of one source and one target length each, pairs of int arrays `(batch, time)`."""
    waiting = collections.defaultdict(list)
    for source, target in pairs:
        bucket = waiting[len(source), len(target)]
        bucket.append((source, target))
        if len(bucket) == size:
            yield [np.array(side, np.int32) for side in zip(*bucket, strict=True)]
            bucket.clear()
    for bucket in filter(None, waiting.values()):
        yield [np.array(side, np.int32) for side in zip(*bucket, strict=True)]


def full_batches(pairs, size, count=10):
    """Batches to train on, all of one shape: pairs of int arrays `(size, LENGTH)`."""
    some = [(s[:LENGTH], t[:LENGTH]) for s, t in pairs if len(s) >= LENGTH and len(t) >= LENGTH]
    some = list(itertools.islice(itertools.cycle(some), count * size))
    source, target = (pad(side) for side in zip(*some, strict=True))
    return [(source[i : i + size], target[i : i + size]) for i in range(0, len(some), size)]


def multiplications(sizes, source_states, target_states, sources):
    """Floating-point operations of a forward pass: two for each weight that a state is multiplied by."""
    e, h, m, r = (sizes[name] for name in ("embedding_dim", "units", "maxout_units", "output_rank"))
    encoder = 3 * (e + h) * h
    once = h * h + h * h + 3 * h * h + 2 * m * h
    decoder = 3 * (e + h) * h + 2 * m * (h + e) + m * r + r * (SHORTLIST + 3)
    return 2 * (source_states * encoder + sources * once + target_states * decoder)


def plain_multiplications(sizes, pairs):
    """Likewise of a model that shares nothing, and reads the summary at every step of the decoder."""
    source, target = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    again = 2 * (target - len(pairs)) * 3 * sizes["units"] ** 2
    return multiplications(sizes, source, target, len(pairs)) + again


def shared_states(pairs):
    """Distinct states of the encoder and the decoder, and distinct sources, among some pairs."""
    sources = {tuple(source) for source, _ in pairs}
    encoder = {source[:i] for source in sources for i in range(1, len(source) + 1)}
    decoder = {(tuple(s), tuple(t[:i])) for s, t in pairs for i in range(len(t))}
    return len(encoder), len(decoder), len(sources)


def seconds_of(function, least=1, until=0.0):
    """Seconds a call, the function called at least so often and so long, after one call to warm up."""
    function()
    start, calls = time.perf_counter(), 0
    while calls < least or time.perf_counter() - start < until:
        function()
        calls += 1
    return (time.perf_counter() - start) / calls


def train_seconds(step, steps, batches):
    """Seconds a training step; `step` takes the number of a batch. Three steps before compile and warm up."""
    for i in range(3):
        step(i % batches)
    start = time.perf_counter()
    for i in range(steps):
        step(i % batches)
    return (time.perf_counter() - start) / steps


def report(**figures):
    """Hands figures to the process that asked for them, with this one's peak memory: one line of JSON."""
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    json.dump(figures, sys.stdout)
    print(flush=True)
