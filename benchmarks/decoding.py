"""Times greedy and beam search, and a decoder with the same weights written in PyTorch.

    python benchmarks/decoding.py --model_dir=model --input=source.txt [--sentences 1000] [--beam 12]

The model is one of `encdec-train --architecture=recurrent`, in one direction and conditioned on states. Each figure is
measured in a separate process, one after another, on the installed backends. The tokens that are counted are those of
the best targets, ends of sequences included. The targets of the peer and of this package are compared sentence by
sentence.
"""

import argparse
import json
import pathlib
import tempfile

import numpy as np
from run import BACKENDS, measured

from keras_encdec.decoding.search_batches import MAX_ROWS

HERE = pathlib.Path(__file__).parent


def main():
    """Measures everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepared = pathlib.Path(folder) / "prepared.npz"
        measured(
            "ours_decoding.py",
            "prepare",
            options.model_dir,
            prepared,
            "--input",
            options.input,
            "--sentences",
            options.sentences,
        )
        for beam in (1, options.beam):
            work = "greedy" if beam == 1 else f"beam {beam}"
            peer, expected = None, None
            if "torch" in BACKENDS:
                found = pathlib.Path(folder) / "peer.json"
                rows = "--beam", beam, "--batch", MAX_ROWS // beam  # as this package does
                peer = measured("peer_decoder.py", prepared, found, *rows, backend="torch")
                expected = json.loads(found.read_text())
                print(f"{work:8} torch peer       {peer['tokens_per_second']:8,.0f} tokens/s", flush=True)
            for backend in BACKENDS:
                found = pathlib.Path(folder) / "ours.json"
                ours = measured(
                    "ours_decoding.py",
                    "generate",
                    options.model_dir,
                    prepared,
                    "--found",
                    found,
                    "--beam",
                    beam,
                    backend=backend,
                )
                text = f"{work:8} ours, {backend:11}{ours['tokens_per_second']:8,.0f} tokens/s"
                if peer:
                    same = np.mean([a == b for a, b in zip(json.loads(found.read_text()), expected, strict=True)])
                    text += f"{ours['tokens_per_second'] / peer['tokens_per_second']:6.2f} x, {same:.1%} the same"
                print(f"{text}; {ours['rows_per_token']:.2f} rows computed per token of the beam", flush=True)


if __name__ == "__main__":
    main()
