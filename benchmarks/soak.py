"""Sends requests to a server, or lines to encdec-score, for a long time and watches its memory.

    python benchmarks/soak.py serve --minutes=30 --chart=serve.svg
    python benchmarks/soak.py export --minutes=30 --chart=export.svg
    python benchmarks/soak.py score --minutes=30 --chart=score.svg

`score` is one command that reads the packaged phrase table from a pipe, over and over. `serve` is the page of
encdec-serve and its API; `export` is an exported model in the substitute for TensorFlow Serving that the tests use. All
use the model of the package. Two clients send pairs and sources from its phrase table, of 1 to 60 words. Each sends the
next one as soon as it has an answer, or at most --rate a second. The script prints the requests or lines, the failures,
and the memory of the process at each tenth of the time. It exits with 1 if a request failed or a line is missing.
"""

import argparse
import contextlib
import gzip
import itertools
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "helpers"))

from keras_encdec.datasets import libreoffice_en_fr

MODEL = "libreoffice_en_fr"
CLIENTS = 2


def pairs():
    """Returns pairs of the packaged phrase table, some of them joined to longer ones."""
    with gzip.open(libreoffice_en_fr().phrase_table, "rt", encoding="utf-8") as file:
        rows = [line.split(" ||| ")[:2] for line in itertools.islice(file, 20_000)]
    choose = random.Random(0)
    return [
        [" ".join(side) for side in zip(*choose.choices(rows, k=choose.choice((1, 1, 2, 9))), strict=True)]
        for _ in rows
    ]


class Serve:
    """The API of encdec-serve in a separate process."""

    def __enter__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        program = pathlib.Path(sys.executable).with_name("encdec-serve")
        command = [program, f"--model_dir={MODEL}", f"--port={self.port}"]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 300
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.5)
        raise RuntimeError("encdec-serve does not start")

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def rss(self):
        return resident(self._process.pid)

    def ask(self, source, target, number):
        name, body = (
            ("score", {"source": source, "target": target}) if number % 2 else ("translate", {"source": source})
        )
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/{name}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            json.load(answer)


class Export:
    """An exported model in the tests' substitute for TensorFlow Serving."""

    def __enter__(self):
        from serving_calls import Calls
        from serving_process import ServingProcess

        from keras_encdec.export import export_model

        self._folder = tempfile.TemporaryDirectory()
        export_model(MODEL, self._folder.name)
        self._server = ServingProcess(model_base_path=self._folder.name, model_name="encdec")
        self._calls, self.rss = Calls(self._server.grpc_address), self._server.rss
        return self

    def __exit__(self, *_):
        self._server.close()
        self._folder.cleanup()

    def ask(self, source, target, number):
        self._calls.predict(source=[source], target=[target])


def score(seconds):
    """Writes phrase tables to encdec-score until the time is up.

    Returns:
        tuple: int, lines; list of str, failures; list of (minutes, megabytes).
    """
    with gzip.open(libreoffice_en_fr().phrase_table) as file:
        table = file.read()
    program = pathlib.Path(sys.executable).with_name("encdec-score")
    command = [program, f"--model_dir={MODEL}", "--input=-", "--output=/dev/null"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    start, tables, memory = time.monotonic(), 0, []

    def feed():
        nonlocal tables
        with contextlib.suppress(BrokenPipeError):
            while time.monotonic() - start < seconds:
                process.stdin.write(table)
                tables += 1
            process.stdin.close()

    def report():
        errors.extend(process.stderr.read().decode().replace("\r", "\n").splitlines())

    errors = []
    threads = [threading.Thread(target=feed), threading.Thread(target=report)]
    for thread in threads:
        thread.start()
    while process.poll() is None:
        memory.append(((time.monotonic() - start) / 60, resident(process.pid) / 1e6))
        time.sleep(min(5, seconds / 100))
    for thread in threads:
        thread.join()
    lines = tables * table.count(b"\n")
    complete = process.returncode == 0 and any(line.startswith(f"{lines:,} lines") for line in errors)
    return lines, [] if complete else [f"status {process.returncode}: {errors[-3:]}"], memory


def resident(process):
    """Returns the memory of a process, in bytes."""
    try:
        pages = pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]
    except (OSError, IndexError):  # it has just ended
        return 0
    return int(pages) * os.sysconf("SC_PAGESIZE")


def main():
    """Sends requests until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=("serve", "export", "score"))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument(
        "--rate", type=float, help="maximum number of requests per second of each client; default: no limit"
    )
    parser.add_argument("--chart", help="SVG file of the memory over time")
    options = parser.parse_args()
    done, failures, memory = score(options.minutes * 60) if options.server == "score" else serve(options)
    what = "lines" if options.server == "score" else "requests"
    print(f"{options.server}: {done:,} {what} in {options.minutes:g} minutes, {len(failures)} failed", *failures[:3])
    memory = [each for each in memory if each[1]]
    tenths = [memory[min(len(memory) * i // 10, len(memory) - 1)][1] for i in range(11)]
    print("memory at each tenth, MB:", " ".join(f"{each:,.0f}" for each in tenths))
    if options.chart:
        draw(options.chart, memory)
    return 1 if failures else 0


def serve(options):
    """Lets clients send requests to a server until the time is up; returns the same as `score`, for requests."""
    texts, seconds = pairs(), options.minutes * 60
    counts, failures, memory = [0] * CLIENTS, [], []
    with {"serve": Serve, "export": Export}[options.server]() as server:
        start = time.monotonic()

        def work(client):
            while time.monotonic() - start < seconds:
                number = counts[client]
                try:
                    server.ask(*texts[(number * CLIENTS + client) % len(texts)], number)
                except Exception as error:
                    failures.append(f"{type(error).__name__}: {error}")
                counts[client] += 1
                if options.rate:
                    time.sleep(max(0.0, start + counts[client] / options.rate - time.monotonic()))

        threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            memory.append(((time.monotonic() - start) / 60, server.rss() / 1e6))
            time.sleep(min(5, seconds / 100))
    return sum(counts), failures, memory


def draw(path, memory):
    """Draws the memory over time."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3))
    axes.plot(*zip(*memory, strict=True))
    axes.set(xlabel="minutes", ylabel="memory of the process, MB", ylim=(0, None))
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
