"""Gives damaged files to every reader and task, for as long as you like.

    python tests/fuzzing/fuzz.py --minutes=60 --keep=crashes

An input is a crash if it raises anything but the package's own error, ends the process, takes longer than a minute of
processor time, hangs, or loses a line. The files of a crash are kept in a folder named after the target, with the
traceback. Each process works on one target until its inputs or its share of the time are done; the table at the end
counts inputs and crashes by target. It exits with 1 if there was a crash, or a target without an input. The same --seed
gives the same inputs.
"""

import argparse
import json
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from damage import damaged
from targets import Target, all_targets, expected, readers

# Seconds of processor time that an input may take, the first of a process with its imports and compilation; and seconds
# after which it hangs, on a busy machine, too.
LIMIT, HANGS = 60, 600
# Inputs of a process, however little time is left.
LEAST = 10
# The memory of a process may grow by this much while it reads inputs of less than two megabytes, in bytes.
GROWTH = 1 << 30


class Slow(Exception):
    """Error: an input took too long."""


def _raise_slow(number: int, _: object) -> None:
    raise Slow(f"hangs for {HANGS} s" if number == signal.SIGALRM else f"more than {LIMIT} s of processor time")


def run_input(target: Target, folder: pathlib.Path, rng: random.Random) -> BaseException | None:
    """Damages one file of a target, runs it and returns what it raised, unless that is the package's own error."""
    chosen = rng.choice(sorted(target.files.keys() - target.whole))
    write_files({name: damaged(data, rng) if name == chosen else data for name, data in target.files.items()}, folder)
    signal.alarm(HANGS)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        target.run(folder)
    except (Exception, SystemExit) as error:
        return None if expected(error) else error
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def write_files(files: Mapping[str, bytes], folder: pathlib.Path) -> None:
    """Writes files into a folder, which then contains no others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def work(name: str, seed: int, inputs: int, seconds: float, folder: pathlib.Path, keep: pathlib.Path | None) -> dict:
    """Runs inputs of a target until their number or the time is reached, at least ten of them.

    Returns:
        dict with the number of inputs, of crashes, and the growth of the memory in bytes.
    """
    end = time.monotonic() + seconds
    for kind in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(kind, _raise_slow)
    target = all_targets(folder / "models", name not in readers())[name]
    write_files(target.files, folder / "files")
    target.run(folder / "files")  # the good files must be read
    crashes, number, before = 0, 0, None
    while number < inputs and (number < LEAST or time.monotonic() < end):
        # The state of the generator is that of the number, so that one input can be run again alone.
        error = run_input(target, folder / "files", random.Random(f"{seed} {name} {number}"))
        if error is not None:
            crashes += 1
            _keep(folder / "files", keep, name, number, "".join(traceback.format_exception(error)))
        number += 1
        if number == 20:
            before = _memory()
        (folder / "number").write_text(str(number))
    grown = _memory() - before if before else 0
    return {"inputs": number, "crashes": crashes + (grown > GROWTH), "growth": grown}


def _memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _keep(files: pathlib.Path, keep: pathlib.Path | None, name: str, number: int, text: str) -> None:
    print(f"{name}, input {number}: {text}", file=sys.stderr)
    if keep:
        shutil.copytree(files, keep / f"{name} {number}", dirs_exist_ok=True)
        (keep / f"{name} {number}" / "traceback.txt").write_text(text)


def run_target(name: str, args: argparse.Namespace, seed: int, seconds: float) -> dict:
    """Runs inputs of a target in a separate process, which may crash."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None) as folder:
        command = [sys.executable, __file__, f"--worker={name}", f"--seed={seed}", f"--inputs={args.inputs}"]
        command += [f"--seconds={seconds}", f"--folder={folder}", *([f"--keep={args.keep}"] if args.keep else [])]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        lines = ended.stdout.splitlines()
        if ended.returncode == 0 and lines:
            return json.loads(lines[-1])
        number = pathlib.Path(folder, "number")
        done = int(number.read_text()) if number.exists() else 0
        _keep(pathlib.Path(folder, "files"), args.keep, name, done, f"the process ended with {ended.returncode}")
        return {"inputs": done + 1, "crashes": 1, "growth": 0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="time in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=50_000, help="the most inputs of a process")
    parser.add_argument("--share", type=float, default=0.5, help="share of the time for the tasks, not the readers")
    parser.add_argument("--only", action="append", help="name of a target; may be given several times")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files of crashes")
    for hidden in ("--worker", "--seconds", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        result = work(args.worker, args.seed, args.inputs, float(args.seconds), pathlib.Path(args.folder), args.keep)
        print(json.dumps(result))
        return 0
    read = list(readers())
    with tempfile.TemporaryDirectory() as folder:
        names = args.only or list(all_targets(pathlib.Path(folder), True))
    others = [name for name in names if name not in read]
    shares = {name: args.share / len(others) for name in others}
    shares |= {name: (1 - args.share) / (len(names) - len(others)) for name in names if name in read}
    totals = {name: {"inputs": 0, "crashes": 0, "growth": 0} for name in names}
    seed, end = args.seed, time.monotonic() + 60 * args.minutes
    while time.monotonic() < end:
        for number, name in enumerate(names):
            # Of the time that is left, so that a target that was slow to start takes a little from all that follow.
            seconds = (end - time.monotonic()) * shares[name] / sum(shares[other] for other in names[number:])
            if seconds > 0 or not totals[name]["inputs"]:
                result = run_target(name, args, seed, seconds)
                totals[name] = {key: totals[name][key] + result[key] for key in result}
                print(f"{name}: {result}", file=sys.stderr, flush=True)
        seed += 1
    print(f"{'target':28}{'inputs':>12}{'crashes':>10}")
    for name, counts in totals.items():
        print(f"{name:28}{counts['inputs']:>12,}{counts['crashes']:>10,}")
    inputs, crashes = (sum(counts[key] for counts in totals.values()) for key in ("inputs", "crashes"))
    print(f"{'all':28}{inputs:>12,}{crashes:>10,}")
    return int(crashes > 0 or not all(counts["inputs"] for counts in totals.values()))


if __name__ == "__main__":
    sys.exit(main())
