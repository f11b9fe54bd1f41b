"""Measures this package's training, decoding and scoring with attention, on the backend that KERAS_BACKEND names."""

import time

import keras
import numpy as np
from attention_workload import EPSILON, IDS, LENGTH, Workload, arguments, write
from ours_training import trained
from workload import dtype_policy, report

from keras_encdec.backend import compiled_call
from keras_encdec.backend.startup import keep_freed_memory
from keras_encdec.backend.training_step import prepare_process_for_training
from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.layers import GlobalAttention
from keras_encdec.models import RecurrentEncoderDecoder
from keras_encdec.scoring import Scorer
from keras_encdec.text.vocabulary import FIRST_WORD


def prepare(options):
    """Writes a model of random weights, and the data to compute with it, for the measured scripts."""
    settings = {
        "cell": "lstm",
        "bidirectional": "none",
        "layers": options.layers,
        "units": options.units,
        "embedding_dim": 256,
        "attention": "global",
        "attention_score": "general",
        "input_feeding": options.input_feeding,
    }
    rng, weights = np.random.default_rng(0), {}
    for variable in model_of(settings).trainable_variables:
        # Large enough for words to have different effects, as they have after training.
        scale = 1.0 if variable.path.endswith(("/embeddings", "/decoder/dense/kernel")) else 0.1
        weights[variable.path] = rng.uniform(-scale, scale, variable.shape).astype("float32")
    write(settings, weights, options)
    report(shared=Workload(options.prepared).shared())


def model_of(settings):
    """Returns a model of these hyper-parameters."""
    return RecurrentEncoderDecoder(IDS - FIRST_WORD, IDS - FIRST_WORD, **settings)


def prepared_model(workload):
    """Returns the prepared model."""
    model = model_of(workload.settings)
    for variable in model.trainable_variables:
        variable.assign(workload.weights[variable.path])
    return model


def train(options, workload):
    """Trains on batches of one shape as `encdec-train` does, after steps that compile."""
    prepare_process_for_training()
    keras.config.set_dtype_policy(dtype_policy(options.dtype))
    if options.automatic:
        GlobalAttention.step = property(lambda attention: None)
    model = prepared_model(workload)
    optimizer = keras.optimizers.Adam(1e-3, epsilon=EPSILON, global_clipnorm=1.0)
    batches = [dict(zip(("source", "target"), batch, strict=True)) for batch in workload.batches(options.batch)]
    loss, seconds = trained(model, optimizer, batches, options.steps)
    report(rate=options.steps * options.batch * LENGTH / seconds, found=loss)


def decode(options, workload):
    """Decodes the sources twice: the first time compiles all sizes of batches, as after many sentences."""
    compiled_call.COMPILING = 0
    keep_freed_memory()  # as encdec-generate does
    generator, sampler = Generator(prepared_model(workload), dtype=options.dtype), BeamSampler(options.beam)
    sources = workload.sources[: options.sentences]
    words = {"candidates": workload.candidates(options.candidates)[: len(sources)]} if options.candidates else {}
    for _ in range(2):
        start = time.perf_counter()
        found = [best.ids for (best,) in generator.generate(sources, sampler, **words)]
        seconds = time.perf_counter() - start
    report(rate=sum(map(len, found)) / seconds, found=found)


def score(options, workload):
    """Scores an n-best list twice: the first time compiles."""
    keep_freed_memory()  # as encdec-score does
    scorer, pairs = Scorer(prepared_model(workload), options.dtype), workload.pairs[: options.pairs]
    words = {}
    if options.candidates:
        of_source = dict(zip(map(tuple, workload.sources), workload.candidates(options.candidates), strict=True))
        words["candidates"] = [of_source[tuple(source)] for source, _ in pairs]
    for _ in range(2):
        start = time.perf_counter()
        found = scorer.score(pairs, **words)
        seconds = time.perf_counter() - start
    report(rate=len(pairs) / seconds, found=found.tolist())


def main():
    """Does what the command line says."""
    options = arguments().parse_args()
    if options.what == "prepare":
        prepare(options)
    else:
        {"train": train, "decode": decode, "score": score}[options.what](options, Workload(options.prepared))


if __name__ == "__main__":
    main()
