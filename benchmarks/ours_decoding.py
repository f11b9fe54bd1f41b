"""Measures this package's generating, on the backend that KERAS_BACKEND names."""

import argparse
import itertools
import json
import time

import keras
import numpy as np
from workload import report

from keras_encdec.backend import compiled_call
from keras_encdec.backend.startup import keep_freed_memory
from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.decoding.ensemble import SearchFunctions
from keras_encdec.model_directory import ModelDirectory


def prepare(options):
    """Writes the sources as ids, and the weights by their paths, for the measured scripts."""
    directory = ModelDirectory.load(options.model_dir)
    with open(options.input, encoding="utf-8") as file:
        lines = [line.split() for line in itertools.islice(filter(str.strip, file), options.sentences)]
    ids = [directory.source_vocabulary.encode(line) for line in lines]
    weights = {v.path: keras.ops.convert_to_numpy(v) for v in directory.model.trainable_variables}
    np.savez(
        options.prepared,
        ids=np.concatenate(ids),
        layers=directory.model.config.layers,
        reverse=directory.model.config.reverse_source,
        **weights,
    )
    report()


def generate(options):
    """Generates for all sources twice: the first time compiles all sizes of batches, as after many sentences."""
    compiled_call.COMPILING = 0
    with np.load(options.prepared) as prepared:
        flat = prepared["ids"]
    sources = [ids.tolist() for ids in np.split(flat, np.flatnonzero(flat == 2) + 1)[:-1]]
    generator = Generator(ModelDirectory.load(options.model_dir).model)
    sampler = BeamSampler(options.beam)
    generator.generate(sources, sampler)
    rows = counted_rows()
    start = time.perf_counter()
    found = [best.ids for (best,) in generator.generate(sources, sampler)]
    seconds = time.perf_counter() - start
    with open(options.found, "w") as file:
        json.dump(found, file)
    tokens = sum(map(len, found))
    report(tokens_per_second=tokens / seconds, rows_per_token=sum(rows) / tokens / options.beam)


def counted_rows():
    """Returns a list to which each later step appends its number of rows."""
    rows, step = [], SearchFunctions.step

    def counted(functions, sampler, words, *others):
        rows.append(words.shape[0] * words.shape[1])
        return step(functions, sampler, words, *others)

    SearchFunctions.step = counted
    return rows


def main():
    """Does what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["prepare", "generate"])
    parser.add_argument("model_dir")
    parser.add_argument("prepared")
    parser.add_argument("--input")
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--found")
    parser.add_argument("--beam", type=int)
    options = parser.parse_args()
    keep_freed_memory()  # as encdec-generate does
    {"prepare": prepare, "generate": generate}[options.what](options)


if __name__ == "__main__":
    main()
