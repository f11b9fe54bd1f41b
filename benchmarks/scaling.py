"""Measures how time and memory grow with the table, the batch and the hidden units."""

import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections import Counter

from workload import SHORTLIST, SIZES, peak_mb

from keras_encdec.data import open_pairs
from keras_encdec.formats import InputLines, open_output

BATCHES, UNITS = (16, 64, 256, 1024), (256, 512, 1000, 1024, 2048)


def measure(measured, table):
    """Measures all three and prints them.

    Args:
        measured: callable that runs a script of this folder and returns its figures.
        table: path of a phrase table.

    Returns:
        dict of lists of dict.
    """
    found = {"table": table_lengths(table), "batch": [], "units": []}
    for batch in BATCHES:
        found["batch"].append({"batch": batch, **measured("ours.py", "train", table, "--batch", batch, "--steps", 8)})
        _print("batch", found["batch"][-1])
    for units in UNITS:
        figures = measured("ours.py", "train", table, "--batch", 256, "--units", units, "--steps", 8)
        found["units"].append({"units": units, **figures})
        _print("units", found["units"][-1])
    return found


def _print(what, row):
    print(f"training, {what} {row[what]:5}: {row['pairs_per_second']:8,.0f} pairs/s {row['gflops']:6,.0f} GFLOP/s")


def table_lengths(table):
    """Measures encdec-score with the `small` sizes on a tenth of a table, and on all of it."""
    rows = []
    with tempfile.TemporaryDirectory() as name, InputLines(table) as lines:
        folder = pathlib.Path(name)
        lines = list(lines)
        _random_model(folder / "model", table)
        for count in (len(lines) // 10, len(lines)):
            with open_output(folder / "table.gz") as file:
                file.writelines(line + b"\n" for line in itertools.islice(lines, count))
            command = [sys.executable, "-m", "keras_encdec.cli.score", f"--model_dir={folder}/model"]
            command += [f"--input={folder}/table.gz", f"--output={folder}/scored.gz"]
            start = time.perf_counter()
            with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
                errors = process.stderr.read()
                _, status, usage = os.wait4(process.pid, 0)
            if status:
                sys.exit(f"{' '.join(command)} failed:\n{errors.decode()}")
            seconds, peak = time.perf_counter() - start, peak_mb(usage)
            rows.append({"lines": count, "seconds": seconds, "peak_mb": peak})
            print(f"encdec-score, {count:9,} lines: {seconds:7.1f} s from start to end, {peak:6,.0f} MB")
    return rows


def _random_model(folder, table):
    """Writes an untrained model of the table's own words."""
    from keras_encdec.models import RNNEncoderDecoder
    from keras_encdec.scoring import ModelDirectory
    from keras_encdec.text import most_frequent

    counts = Counter(), Counter()
    with open_pairs(table) as (pairs, _):
        for pair in pairs:
            for count, words in zip(counts, pair, strict=True):
                count.update(words)
    source, target = (most_frequent(count, SHORTLIST) for count in counts)
    words = {"source_words": len(source), "target_words": len(target)}
    ModelDirectory(folder, source, target).save_config("encdec", {**words, **SIZES["small"]})
    RNNEncoderDecoder(**words, **SIZES["small"], initial_stddev=0.1).save(folder / "best.keras")
