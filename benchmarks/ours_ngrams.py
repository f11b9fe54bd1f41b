"""Measures training and scoring of this package's CSLM, on the backend that KERAS_BACKEND names."""

import time

from attention_workload import split_sequences
from ngrams_workload import SIZES, arguments, weights_of
from ours_training import trained
from workload import report

from keras_encdec.backend.startup import keep_freed_memory
from keras_encdec.models import FeedForwardLanguageModel, from_symbols, published_optimizer
from keras_encdec.scoring import Scorer
from keras_encdec.text.vocabulary import FIRST_WORD


def train(options, model, batches):
    """Trains as `encdec-train` does, after steps that compile."""
    optimizer = published_optimizer()
    optimizer.global_clipnorm = 1.0
    dicts = [{"source": batch[:, :1] * 0, "target": batch} for batch in batches]
    loss, seconds = trained(model, optimizer, dicts, options.steps)
    report(rate=options.steps * batches[0].size / seconds, found=loss)


def score(model, targets):
    """Scores twice: the first time compiles."""
    keep_freed_memory()  # as encdec-score does
    pairs, scorer = [((), target) for target in targets], Scorer(model)
    scorer.score(pairs[:1])
    for _ in range(2):
        before, start = scorer.ngram_counts, time.perf_counter()
        found = scorer.score(pairs)
        seconds = time.perf_counter() - start
    counts = scorer.ngram_counts - before
    report(rate=counts.ngrams / seconds, found=found.tolist(), counts=str(counts))


def main():
    """Does what the command line says."""
    options, arrays = arguments()
    weights = weights_of(arrays)
    model = from_symbols(FeedForwardLanguageModel(len(weights["target.E"]) - FIRST_WORD, **SIZES), weights)
    if options.work == "train":
        train(options, model, arrays["batches"])
    else:
        score(model, split_sequences(arrays[options.work]))


if __name__ == "__main__":
    main()
