"""Times the CSLM of Cho et al., 2014, and the same model with the same weights written in PyTorch.

    python benchmarks/ngrams.py [--backends tensorflow] [--nbest LIST.gz --input SOURCES]

It measures training (Adadelta, clipped norm, batches of one shape, 16 tokens per sentence), scoring sentences of random
words, which share hardly any n-grams, and scoring an n-best list, which is random unless a file is given. Each figure
is measured in a separate process, one after another. The weights are random, of the published sizes. PyTorch scores
every n-gram, in batches of 1024.
"""

import argparse
import pathlib
import tempfile

from attention import difference, loss
from ngrams_workload import prepare
from run import BACKENDS, measured


def main():
    """Measures everything and prints the table."""
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        prepared = pathlib.Path(folder) / "prepared.npz"
        prepare(prepared, options)
        for work in options.works:
            agreement = loss if work == "train" else difference
            given = work, prepared, "--batch", options.batch, "--steps", options.steps
            peer = measured("peer_ngrams.py", *given, backend="torch") if "torch" in BACKENDS else None
            if peer:
                print(f"{work:10} torch peer       {peer['rate']:10,.0f} n-grams/s", flush=True)
            for backend in options.backends:
                ours = measured("ours_ngrams.py", *given, backend=backend)
                text = f"{work:10} ours, {backend:11}{ours['rate']:10,.0f} n-grams/s"
                if peer:
                    text += f"{ours['rate'] / peer['rate']:6.2f} x, {agreement(ours['found'], peer['found'])}"
                print("; ".join([text, *filter(None, [ours.get("counts")])]), flush=True)


def parsed():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    works = ["train", "sentences", "nbest"]
    parser.add_argument("--works", nargs="+", default=works, choices=works)
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--batch", type=int, default=64, help="sentences of a training step")
    parser.add_argument("--steps", type=int, default=10, help="training steps that are timed")
    parser.add_argument(
        "--sentences", type=int, default=4000, help="sentences of random words; the n-best list has 1/80 as many"
    )
    parser.add_argument("--input", help="text file, the sources of the n-best list")
    parser.add_argument("--nbest", help="n-best list of these sources")
    options = parser.parse_args()
    if options.nbest and not options.input:
        parser.error("--nbest needs --input, its sources")
    return options


if __name__ == "__main__":
    main()
