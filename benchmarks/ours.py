"""This package, scoring and training, on the backend that KERAS_BACKEND names."""

import argparse
import resource
import time

import keras
import numpy as np
from workload import SHORTLIST, SIZES, multiplications, read_ids, report, shared_states

from keras_encdec.data import pad
from keras_encdec.models import RNNEncoderDecoder, published_optimizer
from keras_encdec.scoring import Scorer


def score(model, pairs, sizes):
    """Scores a table as `encdec-score` does, reading and writing left out."""
    scorer = Scorer(model)
    scorer.score(pairs[:4000])
    start = time.perf_counter()
    scorer.score(pairs)
    seconds = time.perf_counter() - start
    encoder, decoder, sources = shared_states(pairs)
    needed = multiplications(sizes, encoder, decoder, sources)
    return {"pairs_per_second": len(pairs) / seconds, "gflops": needed / seconds / 1e9}


def train(model, pairs, sizes, batch, steps):
    """Trains on batches of one shape, 6 and 6 tokens, after a warm-up that compiles."""
    length = 6
    some = [(s[:length], t[:length]) for s, t in pairs if len(s) >= length and len(t) >= length][: 10 * batch]
    some = [some[i % len(some)] for i in range(10 * batch)]
    source, target = (pad(side) for side in zip(*some, strict=True))
    batches = [{"source": source[i : i + batch], "target": target[i : i + batch]} for i in range(0, len(some), batch)]
    model.compile(published_optimizer(), jit_compile=keras.backend.backend() != "torch")
    for one in batches[:3]:
        model.train_on_batch(one)
    start = time.perf_counter()
    for step in range(steps):
        loss = model.train_on_batch(batches[step % len(batches)], return_dict=True)["loss"]
    assert np.isfinite(loss)
    seconds = (time.perf_counter() - start) / steps
    needed = 3 * multiplications(sizes, batch * length, batch * length, batch)
    return {"pairs_per_second": batch / seconds, "gflops": needed / seconds / 1e9}


def main():
    """Measures what the command line says and reports it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["score", "train"])
    parser.add_argument("table")
    parser.add_argument("--sizes", default="cho2014")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    keras.config.set_dtype_policy({"bfloat16": "mixed_bfloat16"}.get(options.dtype, options.dtype))
    sizes = SIZES[options.sizes]
    model = RNNEncoderDecoder(SHORTLIST, SHORTLIST, **sizes)
    pairs = read_ids(options.table, options.pairs)
    if options.what == "score":
        figures = score(model, pairs, sizes)
    else:
        figures = train(model, pairs, sizes, options.batch, options.steps)
    report(**figures, peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
