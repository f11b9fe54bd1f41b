"""Kills sharded scoring at random moments, starts it again each time, and compares it with a single run.

    python benchmarks/kill_scoring.py --model_dir=model --table=phrase-table.gz --lines=1000000 --kills=20
    python benchmarks/kill_scoring.py --model_dir=model --table=phrase-table.gz --lines=1000000 --kills=0 --rates

The table is repeated until it has --lines lines. A single command without shards scores it; then a command with shards,
and all its processes, are killed with SIGKILL at random moments, --kills times. Its output must be equal, byte for
byte. With --rates, the script prints for each way of working the lines per second after the start-up, and the lines per
second of processor time of all its processes, which other work on the machine does not change. The ways alternate,
--rounds times, and their medians are compared with the best. It also prints the memory of all processes of a command:
half-way, and the maximum after that. It exits with 1 if outputs differ.
"""

import argparse
import filecmp
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from keras_encdec.formats import InputLines, open_output

PROGRAM = pathlib.Path(sys.executable).with_name("encdec-score")
FEW_LINES = 2 * 32768  # a shard for each of two processes, so that both have started
WAYS = {
    "without shards": [],
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
    parser.add_argument("--rounds", type=int, default=1, help="runs of each way with --rates")
    parser.add_argument("--flags", default="--processes=2", help="flags of the killed command, separated by spaces")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the moments")
    options = parser.parse_args()
    if options.rates and options.lines <= FEW_LINES:
        parser.error(f"found --rates with --lines={options.lines}, expected more than {FEW_LINES} lines")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repeat(options.table, folder / "table.gz", options.lines)
        flags = [f"--model_dir={options.model_dir}", f"--input={folder / 'table.gz'}"]
        seconds = Command([*flags, f"--output={folder / 'whole.gz'}"]).seconds
        print(f"without shards: {options.lines:,} lines in {seconds:.1f} s", flush=True)
        same = True
        if options.kills:
            same = kill(folder, [*flags, *options.flags.split()], options.kills, seconds, random.Random(options.seed))
        if options.rates:
            same = rates(folder, flags, options.lines, options.rounds) and same
    return 0 if same else 1


def repeat(table, path, lines):
    """Writes a table of this number of lines: the lines of the given table, over and over."""
    with InputLines(table) as read:
        block = b"\n".join(read) + b"\n"
    rows = block.count(b"\n")
    with open_output(path) as file:
        for _ in range(lines // rows):
            file.write(block)
        file.write(b"".join(block.splitlines(keepends=True)[: lines % rows]))


class Command:
    """A run of the command in a separate process group.

    Args:
        flags: list of str.
        kill_after: float. Seconds after which the command is killed with all its processes. Optional.

    Attributes:
        seconds: float, from its start to its end.
        processor_seconds: float, of all its processes.
        memory: list of int, bytes of memory of all its processes at each measurement.
        killed: bool. Whether it was killed.
    """

    def __init__(self, flags, kill_after=None):
        start, used = time.monotonic(), {}
        self.memory = []
        with subprocess.Popen([PROGRAM, *flags], start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None:
                if kill_after is not None and time.monotonic() - start > kill_after:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    break
                self.memory.append(self._look(process.pid, used))
                time.sleep(0.2)
            error = process.stderr.read()
        self.killed = process.returncode == -signal.SIGKILL
        if process.returncode and not self.killed:
            sys.exit(f"the command failed:\n{error}")
        self.seconds, self.processor_seconds = time.monotonic() - start, sum(used.values())

    def _look(self, root, used):
        """Records the processor time of the command's processes, including those of Ray, and adds up their memory."""
        parents, found = {}, {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    # After the name, which is in parentheses: state, parent, ...
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    number, size = int(entry.name), int((entry / "statm").read_text().split()[1])
                except (OSError, IndexError):
                    continue
                parents[number] = int(fields[1])
                ticks = int(fields[11]) + int(fields[12])
                found[number] = ticks / os.sysconf("SC_CLK_TCK"), size * os.sysconf("SC_PAGESIZE")
        own = {root, *used} & found.keys()  # a process whose parent has ended stays one of the command's
        while more := {number for number, parent in parents.items() if parent in own} - own:
            own |= more
        used.update((number, found[number][0]) for number in own)
        return sum(found[number][1] for number in own)


def kill(folder, flags, kills, seconds, choose):
    """Kills the command again and again; returns whether its output is that of the single run."""
    killed = 0
    while True:
        moment = choose.uniform(0, seconds / 2) if killed < kills else None
        was_killed = Command([*flags, f"--output={folder / 'killed.gz'}"], moment).killed
        if not was_killed and killed >= kills:
            break
        if was_killed:
            killed += 1
            done = len(list((folder / "killed.gz.shards").glob("*.done.json")))
            print(f"{killed} of {kills}: killed after {moment:.1f} s, {done} shards done", flush=True)
        else:  # it ended before that moment, and begins again
            print("done before it was killed", flush=True)
    same = filecmp.cmp(folder / "whole.gz", folder / "killed.gz", shallow=False)
    left = sorted(path.name for path in folder.iterdir() if "killed" in path.name)
    print(f"after {killed} kills the output is {'the same, byte for byte' if same else 'DIFFERENT'}; left: {left}")
    return same


def rates(folder, flags, lines, rounds):
    """Prints the rate of each way; returns whether all outputs are the same."""
    repeat(folder / "table.gz", folder / "short.gz", FEW_LINES)
    short = [flags[0], f"--input={folder / 'short.gz'}"]
    figures, same = {way: [] for way in WAYS}, True
    for _ in range(rounds):
        for way, extra in WAYS.items():
            start = Command([*short, *extra, f"--output={folder / 'short_out.gz'}"])
            done = Command([*flags, *extra, f"--output={folder / 'out.gz'}"])
            same = filecmp.cmp(folder / "whole.gz", folder / "out.gz", shallow=False) and same
            names = "seconds", "processor_seconds"
            per_second = [(lines - FEW_LINES) / max(getattr(done, name) - getattr(start, name), 1e-9) for name in names]
            half = done.memory[len(done.memory) // 2 :]
            figures[way].append((*per_second, half[0] / 1e6, max(half) / 1e6))
            print(f"{way}: {per_second[0]:,.0f} lines/s, {per_second[1]:,.0f} per processor second", flush=True)
    medians = {way: [statistics.median(values) for values in zip(*rows, strict=True)] for way, rows in figures.items()}
    best = [max(values[number] for values in medians.values()) for number in (0, 1)]
    for way, values in medians.items():
        rate, per_processor = (
            f"{value:8,.0f} ({value / most:4.0%})" for value, most in zip(values, best, strict=False)
        )
        memory = f"memory {values[2]:,.0f} MB half-way, {values[3]:,.0f} MB at most after that"
        print(f"{way:25} {rate} lines/s, {per_processor} per processor second; {memory}")
    print("all outputs are the same" if same else "OUTPUTS DIFFER")
    return same


if __name__ == "__main__":
    sys.exit(main())
