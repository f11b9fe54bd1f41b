"""Measures this package's scoring and training, on the backend that KERAS_BACKEND names."""

import time

import keras
import numpy as np
from workload import (
    LENGTH,
    SHORTLIST,
    SIZES,
    arguments,
    dtype_policy,
    full_batches,
    operations,
    read_ids,
    report,
    shared_states,
    train_seconds,
)

from keras_encdec.backend.startup import keep_freed_memory
from keras_encdec.backend.training_step import StepCompilation
from keras_encdec.models import RNNEncoderDecoder, published_optimizer
from keras_encdec.scoring import ModelDirectory, Scorer

BACKEND = keras.backend.backend()


def score(model, pairs, sizes, dtype):
    """Scores a table as `encdec-score` does, in a dtype, without reading and writing files."""
    scorer = Scorer(model, dtype)
    scorer.score(pairs[:8000])
    start = time.perf_counter()
    scorer.score(pairs)
    seconds = time.perf_counter() - start
    encoder, decoder, sources = shared_states(pairs)
    needed = operations(sizes, encoder, decoder, sources)
    report(pairs_per_second=len(pairs) / seconds, gflops=needed / seconds / 1e9, seconds=seconds)


def precision(model, pairs):
    """Measures the effect of bfloat16 on log p: deviation in nats, and Spearman's rank correlation with float32."""
    full, low = (Scorer(model, dtype).score(pairs) for dtype in ("float32", "bfloat16"))
    error = np.abs(low - full)
    correlation = np.corrcoef(*(np.argsort(np.argsort(scores)) for scores in (full, low)))[0, 1]
    report(median_error=np.median(error), largest_error=error.max(), rank_correlation=correlation)


def train(model, pairs, sizes, batch, steps):
    """Trains on batches of one shape, after a warm-up that compiles, with the step of `encdec-train`."""
    batches = [{"source": source, "target": target} for source, target in full_batches(pairs, batch)]
    step = StepCompilation("auto")
    model.compile(published_optimizer(), jit_compile=step.jit_compile)
    step.apply(model)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        batches = [({side: tf.constant(ids) for side, ids in one.items()},) for one in batches]
        seconds = train_seconds(lambda i: float(model.train_function(iter([batches[i]]))["loss"]), steps, len(batches))
    else:
        seconds = train_seconds(lambda i: model.train_on_batch(batches[i]), steps, len(batches))
    needed = 3 * operations(sizes, batch * LENGTH, batch * LENGTH, batch)
    report(pairs_per_second=batch / seconds, gflops=needed / seconds / 1e9)


def main():
    """Measures what the command line says, and reports it."""
    options = arguments().parse_args()
    keep_freed_memory()  # as encdec-score and encdec-train do
    if options.what == "train":
        keras.config.set_dtype_policy(dtype_policy(options.dtype))
    sizes = dict(SIZES[options.sizes])
    if options.units:
        sizes.update(units=options.units, maxout_units=options.units // 2)
    pairs = read_ids(options.table, options.pairs)
    if options.model_dir:
        model = ModelDirectory.load(options.model_dir).model
    else:
        keras.utils.set_random_seed(0)
        # Weights as large as trained ones, so that scores differ.
        model = RNNEncoderDecoder(SHORTLIST, SHORTLIST, **sizes, initial_stddev=0.1)
    if options.what == "score":
        score(model, pairs, sizes, options.dtype)
    elif options.what == "train":
        train(model, pairs, sizes, options.batch, options.steps)
    else:
        precision(model, pairs)


if __name__ == "__main__":
    main()
