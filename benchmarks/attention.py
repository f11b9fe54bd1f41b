"""Times LSTMs with global attention, and the same model with the same weights written in PyTorch.

    python benchmarks/attention.py [--layers 1] [--units 512] [--backends tensorflow] [--automatic]

It measures, without and with input feeding, training (Adam, clipped norm, no dropout, batches of one shape, 16 x 16
tokens), greedy and beam search, and scoring an n-best list. Each figure is measured in a separate process, one after
another; first, the log-probabilities of both models are compared. The weights are random, so targets grow to their
limit. Sources and the n-best list are random unless files are given; their words are numbered in the order of their
occurrence. The tokens that are counted are those of targets, ends of sequences included.
"""

import argparse
import pathlib
import tempfile

import numpy as np
from run import BACKENDS, measured

from keras_encdec.decoding.search_batches import MAX_ROWS

CHECKED = 64


def main():
    """Measures everything and prints the table."""
    options = parsed()
    for input_feeding in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            prepared = pathlib.Path(folder) / "prepared.npz"
            common = flags(options, "layers", "units", "sentences", "nbest_sentences", "hypotheses", "input", "nbest")
            fed = ["--input_feeding"] if input_feeding else []
            made = measured("ours_attention.py", "prepare", prepared, "--batch", max(options.batches), *common, *fed)
            print(f"{'with' if input_feeding else 'without'} input feeding", flush=True)
            if "check" in options.works:
                check(prepared, options.backends)
            if "train" in options.works:
                automatic = options.automatic and input_feeding
                for batch in options.batches:
                    given = "--batch", batch, "--steps", options.steps, "--dtype", options.dtype
                    compare(f"train, batch {batch}", prepared, options.backends, "train", given, loss, automatic)
            if "decode" in options.works:
                for beam in (1, options.beam):
                    # The peer decodes as many sources together as this package does.
                    given = "--beam", beam, "--batch", MAX_ROWS // beam, "--sentences", options.sentences
                    given = *given, "--dtype", options.dtype
                    work = "greedy" if beam == 1 else f"beam {beam}"
                    compare(work, prepared, options.backends, "decode", given, same, candidates=options.candidates)
            if "score" in options.works:
                given = "--dtype", options.dtype
                candidates = options.candidates
                compare("score", prepared, options.backends, "score", given, difference, candidates=candidates)
                print(f"{made['shared']:.2f} target tokens of the n-best list per distinct prefix", flush=True)


def parsed():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    works = ["check", "train", "decode", "score"]
    parser.add_argument("--works", nargs="+", default=works, choices=works)
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 128], help="pairs of a training step")
    parser.add_argument("--steps", type=int, default=20, help="training steps that are timed")
    parser.add_argument("--beam", type=int, default=12)
    parser.add_argument("--sentences", type=int, default=500, help="sentences to decode")
    parser.add_argument("--nbest_sentences", type=int, default=200, help="sentences whose hypotheses are scored")
    parser.add_argument("--hypotheses", type=int, default=100, help="random hypotheses of each sentence")
    parser.add_argument("--candidates", type=int, default=450, help="words of a shortlist for each source")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or int8; for the peer, in training only")
    parser.add_argument("--input", help="text file, the sources")
    parser.add_argument("--nbest", help="n-best list of these sources")
    parser.add_argument("--automatic", action="store_true", help="input feeding also without the hand-written gradient")
    options = parser.parse_args()
    if options.nbest and not options.input:
        parser.error("--nbest needs --input, its sources")
    return options


def flags(options, *names):
    """Returns the options that have a value as flags of a command line."""
    given = {name: getattr(options, name) for name in names}
    return [text for name, value in given.items() if value is not None for text in (f"--{name}", value)]


def check(prepared, backends):
    """Prints by how much the log-probabilities of some pairs differ."""
    given = "score", prepared, "--pairs", CHECKED
    if "torch" in BACKENDS:
        expected = measured("peer_attention.py", *given, backend="torch")["found"]
        for backend in backends:
            found = measured("ours_attention.py", *given, backend=backend)["found"]
            print(f"{'check':17} ours, {backend:11}{difference(found, expected)}", flush=True)


def compare(work, prepared, backends, what, given, agreement, automatic=False, candidates=None):
    """Measures one kind of work, and prints a row for the peer and one for each backend.

    Args:
        work: str. The name of the work in the table.
        prepared: path of the prepared file.
        backends: list of str.
        what: str. The first argument of the measured scripts, such as "train".
        given: further arguments of the scripts.
        agreement: callable that compares the results of this package and of the peer, and returns a str.
        automatic: bool. Whether each backend has a row without the hand-written gradient, too. Defaults to `False`.
        candidates: int. Words of a shortlist, with which each backend has one more row. Defaults to `None`: no row.
    """
    unit, peer = "pairs/s" if what == "score" else "tokens/s", None
    if "torch" in BACKENDS:
        peer = measured("peer_attention.py", what, prepared, *given, backend="torch")
        print(f"{work:17} torch peer       {peer['rate']:10,.0f} {unit}", flush=True)
    for backend in backends:
        rows = {"": []}
        if automatic:
            rows[", automatic gradient"] = ["--automatic"]
        if candidates:
            rows[f", {candidates} candidate words"] = ["--candidates", candidates]
        for remark, further in rows.items():
            ours = measured("ours_attention.py", what, prepared, *given, *further, backend=backend)
            text = f"{work:17} ours, {backend:11}{ours['rate']:10,.0f} {unit}"
            if peer:
                text += f"{ours['rate'] / peer['rate']:6.2f} x, {agreement(ours['found'], peer['found'])}"
            print(text + remark, flush=True)


def loss(found, expected):
    """Describes whether both training runs reached the same loss."""
    return f"mean loss {found:.4f}, the peer's {expected:.4f}"


def same(found, expected):
    """Describes how many targets are the same."""
    return f"{np.mean([a == b for a, b in zip(found, expected, strict=True)]):.1%} the same"


def difference(found, expected):
    """Describes how much log-probabilities differ."""
    return f"ln p differs by {np.abs(np.subtract(found, expected)).max():.1e} at most"


if __name__ == "__main__":
    main()
