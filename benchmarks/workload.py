"""The common parts of the benchmarks: pairs, sizes, the arithmetic that they need, and timing."""

import argparse
import collections
import itertools
import json
import resource
import sys
import time

import numpy as np

from keras_encdec.data import open_pairs, pad
from keras_encdec.text import END, Vocabulary

SHORTLIST = 15_000
SIZES = {
    "cho2014": {"embedding_dim": 100, "units": 1000, "maxout_units": 500, "output_rank": 100},
    "small": {"embedding_dim": 100, "units": 256, "maxout_units": 128, "output_rank": 100},
}
# Length of both sides of a training batch: a phrase of 5 words and its end of sequence.
LENGTH = 6


def arguments():
    """Makes the parser of the command line of all measured scripts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["score", "train", "precision"])
    parser.add_argument("table")
    parser.add_argument("--sizes", default="cho2014")
    parser.add_argument("--units", type=int, help="hidden units, with half as many maxout units, instead of --sizes")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--model_dir", help="directory of a trained model; default: random weights")
    return parser


def dtype_policy(dtype):
    """Returns the name of Keras's dtype policy for a dtype of the command line: weights stay in float32."""
    return {"bfloat16": "mixed_bfloat16"}.get(dtype, dtype)


def read_ids(table, count):
    """Reads the first pairs of a table as ids: list of `(source ids, target ids)`.

    Words are numbered in the order of their occurrence, and vocabularies count as full, so that every table costs the
    same.
    """
    with open_pairs(table) as (pairs, _):
        pairs = list(itertools.islice(pairs, count))
    sides = [dict.fromkeys(word for pair in pairs for word in pair[side]) for side in (0, 1)]
    source, target = (Vocabulary(itertools.islice(side, SHORTLIST)) for side in sides)
    return [(source.encode(s), target.encode(t)) for s, t in pairs]


def batches_of_one_length(pairs, size):
    """Yields batches of one source length and one target length each, pairs of int arrays `(batch, time)`."""
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
    """Returns batches to train on, all of one shape: pairs of int arrays `(size, LENGTH)`."""
    some = [[[*side[: LENGTH - 1], END] for side in pair] for pair in pairs if min(map(len, pair)) >= LENGTH]
    some = list(itertools.islice(itertools.cycle(some), count * size))
    source, target = (pad(side) for side in zip(*some, strict=True))
    return [(source[i : i + size], target[i : i + size]) for i in range(0, len(some), size)]


def operations(sizes, source_states, target_states, sources):
    """Counts the floating-point operations of a forward pass: two for each weight that a state is multiplied by."""
    e, h, m, r = (sizes[name] for name in ("embedding_dim", "units", "maxout_units", "output_rank"))
    encoder = 3 * (e + h) * h
    once = h * h + h * h + 3 * h * h + 2 * m * h
    decoder = 3 * (e + h) * h + 2 * m * (h + e) + m * r + r * (SHORTLIST + 3)
    return 2 * (source_states * encoder + sources * once + target_states * decoder)


def plain_operations(sizes, pairs):
    """Counts the operations of a model that shares no states, and reads the summary at every step of the decoder."""
    source, target = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    again = 2 * (target - len(pairs)) * 3 * sizes["units"] ** 2
    return operations(sizes, source, target, len(pairs)) + again


def shared_states(pairs):
    """Counts the distinct states of the encoder and of the decoder, and the distinct sources, of some pairs."""
    sources = {tuple(source) for source, _ in pairs}
    encoder = {source[:i] for source in sources for i in range(1, len(source) + 1)}
    decoder = {(tuple(s), tuple(t[:i])) for s, t in pairs for i in range(len(t))}
    return len(encoder), len(decoder), len(sources)


def seconds_of(function, least=1, until=0.0):
    """Returns the seconds per call, for at least `least` calls and `until` seconds, after a warm-up call."""
    function()
    start, calls = time.perf_counter(), 0
    while calls < least or time.perf_counter() - start < until:
        function()
        calls += 1
    return (time.perf_counter() - start) / calls


def train_seconds(step, steps, batches):
    """Returns the seconds per training step, after three steps to compile and warm up; `step` takes a batch number."""
    for i in range(3):
        step(i % batches)
    start = time.perf_counter()
    for i in range(steps):
        step(i % batches)
    return (time.perf_counter() - start) / steps


def peak_mb(usage):
    """Returns the peak memory of a process in MiB, from its resource usage; macOS counts in bytes, Linux in KiB."""
    return usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def report(**figures):
    """Prints figures and this process's peak memory as one line of JSON, for the process that asked for them."""
    figures["peak_mb"] = peak_mb(resource.getrusage(resource.RUSAGE_SELF))
    json.dump(figures, sys.stdout)
    print(flush=True)
