"""Times scoring and training beside a PyTorch model of the same sizes and the machine's matrix products.

    python benchmarks/run.py [--table TABLE.gz] [--full] [--json FILE]

Each figure is taken in a process of its own, one after another. The machine's speed drifts: read ratios
of one run, not figures of two.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from keras_encdec.datasets import libreoffice_en_fr

HERE = pathlib.Path(__file__).parent
BACKENDS = "tensorflow", "jax", "torch"


def measured(script, *arguments, backend="tensorflow"):
    """Runs a script of this folder and returns its figures."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Measures everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", default=str(libreoffice_en_fr().phrase_table), help="phrase table to score")
    parser.add_argument("--sizes", default="cho2014", help="cho2014 or small")
    parser.add_argument("--full", action="store_true", help="more pairs, both batch sizes, bfloat16")
    parser.add_argument("--json", default="benchmarks.json", help="file for the figures")
    options = parser.parse_args()
    common = [options.table, "--sizes", options.sizes, "--pairs", 50_000 if options.full else 10_000]
    steps = ["--steps", 30 if options.full else 8]
    rows = []
    limits = {library: measured("limit.py", library)["gflops"] for library in ("tensorflow", "jax", "torch")}
    limit = max(limits.values())
    print("matrix products: " + ", ".join(f"{name} {figure:,.0f} GFLOP/s" for name, figure in limits.items()))
    works = [("score", 512), ("train", 64)] + ([("train", 512)] if options.full else [])
    for work, batch in works:
        for dtype in ("float32", "bfloat16") if options.full else ("float32",):
            arguments = [work, *common, "--batch", batch, "--dtype", dtype, *(steps if work == "train" else [])]
            peer = measured("peer_torch.py", *arguments)
            rows.append({"work": work, "batch": batch, "dtype": dtype, "who": "PyTorch peer", **peer})
            print(line(rows[-1], peer, limit), flush=True)
            for backend in BACKENDS:
                ours = measured("ours.py", *arguments, backend=backend)
                rows.append({"work": work, "batch": batch, "dtype": dtype, "who": f"ours, {backend}", **ours})
                print(line(rows[-1], peer, limit), flush=True)
    pathlib.Path(options.json).write_text(json.dumps({"limits": limits, "rows": rows}, indent=1) + "\n")


def line(row, peer, limit):
    """A row of the table."""
    batch = f"batch {row['batch']}" if row["work"] == "train" else ""
    share = f"{row['gflops']:8,.0f} GFLOP/s {row['gflops'] / limit:5.0%} of the limit" if "gflops" in row else ""
    ratio = row["pairs_per_second"] / peer["pairs_per_second"]
    memory = f"{row['peak_mb']:8,.0f} MB" if "peak_mb" in row else ""
    rate = f"{row['pairs_per_second']:9,.0f} pairs/s {ratio:6.2f} x"
    return f"{row['work']:6}{batch:10}{row['dtype']:10}{row['who']:18}{rate}{share}{memory}"


if __name__ == "__main__":
    main()
