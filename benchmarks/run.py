"""Times scoring and training, and models written in PyTorch and with Keras's own layers.

    python benchmarks/run.py [--table TABLE.gz] [--full] [--repeats N] [--folder DIRECTORY]

Each figure is measured in a separate process, one after another, on the installed backends, and on a GPU if they find
one. The machine's speed drifts: compare ratios within one run, not figures of two runs. bfloat16 is left out for a
library that multiplies in it more slowly than in float32: that would take hours and show nothing. Prints a table;
writes the results as JSON and, with matplotlib installed, a chart next to them; compare.py compares two runs.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import chart
import scaling
from results_file import write_results

from keras_encdec.datasets import libreoffice_en_fr

HERE = pathlib.Path(__file__).parent
BACKENDS = [name for name in ("tensorflow", "jax", "torch") if importlib.util.find_spec(name)]
# What the short run leaves out: work, dtype, who.
SLOW = {
    ("score", "bfloat16", "tensorflow"),
    ("score", "bfloat16", "jax"),
    ("score", "bfloat16", "keras peer"),
    ("train", "bfloat16", "jax"),
    ("train", "bfloat16", "keras peer"),
}


def measured(script, *arguments, backend=BACKENDS[0]):
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
    parser.add_argument("--full", action="store_true", help="more pairs, all combinations, and how time scales")
    parser.add_argument("--repeats", type=int, default=1, help="how often to measure each row; the median counts")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "results", help="folder to write the results to")
    options = parser.parse_args()
    dtypes = "float32", "bfloat16"
    limits = {dtype: {name: limit(name, dtype) for name in BACKENDS} for dtype in dtypes}
    for dtype, figures in limits.items():
        print(f"matrix products, {dtype}: " + ", ".join(f"{name} {f:,.0f} GFLOP/s" for name, f in figures.items()))
    common = [options.table, "--sizes", options.sizes, "--pairs", 50_000 if options.full else 10_000]
    common += ["--steps", 30 if options.full else 8]
    rows, left_out = [], slower_than_float32(limits)
    for library in left_out:
        print(f"bfloat16 on {library} is left out: its matrix products are slower than in float32, or fail")
    for work, batch in ("score", 512), ("train", 64), ("train", 512):
        for dtype in dtypes:
            peer = None
            for who, script, backend in contestants():
                slow = (work, dtype, who) in SLOW or (work == "train" and batch == 512 and who != BACKENDS[0])
                if (slow and not options.full) or (dtype == "bfloat16" and backend in left_out):
                    continue
                arguments = work, *common, "--batch", batch, "--dtype", dtype
                runs = [measured(script, *arguments, backend=backend) for _ in range(options.repeats)]
                runs.sort(key=lambda run: run["pairs_per_second"])
                figures = runs[len(runs) // 2]
                row = {"work": work, "batch": batch, "dtype": dtype, "who": who, **figures}
                row["repeated"] = [run["pairs_per_second"] for run in runs]
                row["share"] = figures["gflops"] / max(limits[dtype].values())
                peer = figures["pairs_per_second"] if who == "torch peer" else peer
                row["ratio"] = peer and figures["pairs_per_second"] / peer
                rows.append(row)
                print(line(row), flush=True)
    fastest = max(BACKENDS, key=limits["bfloat16"].get)
    deviation = measured("ours.py", "precision", *common[:3], "--pairs", 4000, backend=fastest)
    print(
        f"bfloat16 against float32: log p differs by {deviation['median_error']:.4f} nats (median), "
        f"{deviation['largest_error']:.3f} at most; rank correlation {deviation['rank_correlation']:.5f}"
    )
    results = {"limits": limits, "left_out": {"bfloat16": left_out}, "rows": rows, "precision": deviation}
    if options.full:
        results["scaling"] = scaling.measure(measured, options.table)
    path = write_results(results, options.folder)
    print(path)
    chart.draw(results, path.with_suffix(".png"))


def limit(library, dtype):
    """Returns the GFLOP/s of a large product; 0 if the library crashes, as TensorFlow does in bfloat16 on AVX2."""
    try:
        return measured("limit.py", library, dtype)["gflops"]
    except SystemExit as failure:
        if dtype == "float32":
            raise
        print(failure, file=sys.stderr)
        return 0.0


def slower_than_float32(limits):
    """Returns the libraries whose matrix products are slower in bfloat16 than in float32."""
    return [name for name, figure in limits["bfloat16"].items() if figure < limits["float32"][name]]


def contestants():
    """Returns what is measured: name, script and backend of each contestant."""
    peers = [("torch peer", "peer_torch.py", "torch")] if "torch" in BACKENDS else []
    return [*peers, ("keras peer", "peer_keras.py", BACKENDS[0]), *((name, "ours.py", name) for name in BACKENDS)]


def line(row):
    """Formats a row of the table."""
    batch = f"batch {row['batch']}" if row["work"] == "train" else ""
    who = row["who"] if "peer" in row["who"] else f"ours, {row['who']}"
    ratio = f"{row['ratio']:6.2f} x" if row["ratio"] else " " * 8
    rate = f"{row['pairs_per_second']:8,.0f} pairs/s {ratio}"
    share = f"{row['gflops']:7,.0f} GFLOP/s {row['share']:4.0%} of the limit"
    return f"{row['work']:6}{batch:10}{row['dtype']:9} {who:17}{rate}{share}{row['peak_mb']:7,.0f} MB"


if __name__ == "__main__":
    main()
