"""Times encdec-score and encdec-generate on ten lines, from start to output, in this and another checkout.

    python benchmarks/first_output.py [--before CHECKOUT] [--repeats 3] [--backends tensorflow,torch,jax]

Each command runs in a separate process, alternately in this checkout and the other, with all files in the page cache.
Prints the medians of the processor time (user and system, all threads) and of the wall time, in seconds. The first run
of each command, which fills the cache of compiled programs, is shown as "first".
"""

import argparse
import gzip
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
COMMANDS = {
    "score": ["--input=table", "--output=scored"],
    "generate": ["--input=phrases", "--output=generated"],
}
PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from keras_encdec.cli.programs import {name}; {name}()"


def measured(checkout, name, folder, environment):
    """Runs a command once in a separate process; returns its processor time and wall time in seconds."""
    arguments = [sys.executable, "-c", PROGRAM.format(name=name), str(checkout), "--model_dir=libreoffice_en_fr"]
    start = time.perf_counter()
    process = os.posix_spawn(
        sys.executable,
        [*arguments, *COMMANDS[name]],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(folder / "errors"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ],
    )
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit((folder / "errors").read_text())
    return usage.ru_utime + usage.ru_stime, seconds


def main():
    """Reads the flags, and prints a line for each backend, command and checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, help="another checkout")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backends", default="tensorflow,torch,jax")
    flags = parser.parse_args()
    checkouts = {"before": flags.before.resolve()} if flags.before else {}
    checkouts["now"] = ROOT
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.chdir(folder)
        with gzip.open(ROOT / "keras_encdec" / "datasets" / "libreoffice_en_fr" / "phrase-table.gz", "rt") as table:
            lines = [next(table) for _ in range(10)]
        (folder / "table").write_text("".join(lines))
        (folder / "phrases").write_text("".join(line.split(" ||| ")[0] + "\n" for line in lines))
        print(f"{'backend':12}{'command':10}{'checkout':10}{'cpu s':>8}{'wall s':>8}{'first cpu s':>13}")
        for backend in flags.backends.split(","):
            environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
            environment["KERAS_BACKEND"] = backend
            for command in COMMANDS:
                runs = {label: [] for label in checkouts}
                for _ in range(flags.repeats + 1):
                    for label, checkout in checkouts.items():
                        cache = {"XDG_CACHE_HOME": str(folder / f"cache of {label}")}
                        runs[label].append(measured(checkout, command, folder, environment | cache))
                for label, (first, *others) in runs.items():
                    cpu, wall = map(statistics.median, zip(*others, strict=True))
                    print(f"{backend:12}{command:10}{label:10}{cpu:8.2f}{wall:8.2f}{first[0]:13.2f}", flush=True)


if __name__ == "__main__":
    main()
