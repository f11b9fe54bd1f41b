"""Kills sharded scoring at random moments, starts it again each time, and compares it with a single run.

    python benchmarks/kill_scoring.py --model_dir=model --table=phrase-table.gz --lines=1000000 --kills=20
    python benchmarks/kill_scoring.py --model_dir=model --table=phrase-table.gz --lines=1000000 --kills=0 --rates

The table is repeated until it has so many lines. A single command without shards scores it; then a command with shards
gets SIGKILL, with all its processes, at random moments until it has been killed so often. Its output must be equal,
byte for byte. With --rates it prints the lines per second of each way of working, with and without the start-up, and
the memory of all processes of a command half-way, and at most after that. It exits with 1 if outputs differ.
"""

import argparse
import filecmp
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from keras_encdec.formats import InputLines, open_output

PROGRAM = pathlib.Path(sys.executable).with_name("encdec-score")
WAYS = {
    "one piece": [],
    "shards": ["--shard_lines=131072"],
    "--processes=2": ["--processes=2"],
    "--engine=ray, 2 workers": ["--engine=ray", "--processes=2"],
}


def main():
    """Scores, kills, compares, and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--flags", default="--processes=2", help="of the killed command, separated by spaces")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repeat(options.table, folder / "table.gz", options.lines)
        flags = [f"--model_dir={options.model_dir}", f"--input={folder / 'table.gz'}"]
        seconds = command([*flags, f"--output={folder / 'whole.gz'}"])[0]
        print(f"one piece: {options.lines:,} lines in {seconds:.1f} s", flush=True)
        same = True
        if options.kills:
            same = kill(folder, [*flags, *options.flags.split()], options.kills, seconds, random.Random(options.seed))
        if options.rates:
            same = rates(folder, flags, options.lines) and same
    return 0 if same else 1


def repeat(table, path, lines):
    """Writes the first so many lines of a table that is repeated as often as needed."""
    with InputLines(table) as read:
        block = b"\n".join(read) + b"\n"
    rows = block.count(b"\n")
    with open_output(path) as file:
        for _ in range(lines // rows):
            file.write(block)
        file.write(b"".join(block.splitlines(keepends=True)[: lines % rows]))


def command(flags, kill_after=None):
    """Runs the command, in a process group of its own.

    Returns:
        tuple: float, seconds; list of int, bytes of memory of all its processes at each look; bool, whether it was
        killed.
    """
    start, memory = time.monotonic(), []
    with subprocess.Popen([PROGRAM, *flags], start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            if kill_after is not None and time.monotonic() - start > kill_after:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                break
            memory.append(group_memory(process.pid))
            time.sleep(0.2)
        error = process.stderr.read()
    killed = process.returncode == -signal.SIGKILL
    if process.returncode and not killed:
        sys.exit(f"the command failed:\n{error}")
    return time.monotonic() - start, memory, killed


def group_memory(group):
    """Adds up the memory of the processes of a group, in bytes."""
    total = 0
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group:
                    total += int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
            except (OSError, IndexError):
                continue
    return total


def kill(folder, flags, kills, seconds, choose):
    """Kills the command again and again; returns whether its output is that of the single run."""
    killed = 0
    while True:
        moment = choose.uniform(0, seconds / 2) if killed < kills else None
        *_, was_killed = command([*flags, f"--output={folder / 'killed.gz'}"], moment)
        if not was_killed and killed >= kills:
            break
        if was_killed:
            killed += 1
            done = len(list((folder / "killed.gz.shards").glob("*.done.json")))
            print(f"{killed} of {kills}: killed after {moment:.1f} s, {done} shards done", flush=True)
        else:  # it came to its end before the moment, and begins again
            print("done before it was killed", flush=True)
    same = filecmp.cmp(folder / "whole.gz", folder / "killed.gz", shallow=False)
    left = sorted(path.name for path in folder.iterdir() if "killed" in path.name)
    print(f"after {killed} kills the output is {'the same, byte for byte' if same else 'DIFFERENT'}; left: {left}")
    return same


def rates(folder, flags, lines):
    """Prints the rate of each way; returns whether all outputs are the same."""
    repeat(folder / "table.gz", folder / "short.gz", min(lines, 32768))
    short = [flags[0], f"--input={folder / 'short.gz'}"]
    same = True
    for way, extra in WAYS.items():
        start_up = command([*short, *extra, f"--output={folder / 'short_out.gz'}"])[0]
        seconds, memory, _ = command([*flags, *extra, f"--output={folder / 'out.gz'}"])
        equal = filecmp.cmp(folder / "whole.gz", folder / "out.gz", shallow=False)
        more = max(lines - 32768, 1) / max(seconds - start_up, 1e-9)
        half = memory[len(memory) // 2 :]
        print(
            f"{way:25} {lines / seconds:10,.0f} lines/s, {more:10,.0f} after the start; memory "
            f"{half[0] / 1e6:,.0f} MB half-way, {max(half) / 1e6:,.0f} MB at most after that; "
            f"{'same output' if equal else 'OUTPUT DIFFERS'}",
            flush=True,
        )
        same = same and equal
    return same


if __name__ == "__main__":
    sys.exit(main())
