"""Times translation by served models: words per second and latency, one sentence in a request.

    python benchmarks/serving_generation.py --input=test.en --model_dir=teacher [--model_dir=student]
        [--shortlist=shortlist.tsv] [--beam_size=12]

Each model is exported, and with --shortlist once more with the lexical shortlist. The signatures `generate` and
`generate_greedy` are called over gRPC, with one request in flight and with two. The server is the substitute for
TensorFlow Serving that the tests use, written in Python; client and server share the machine. Prints a table.
"""

import argparse
import itertools
import os
import pathlib
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "helpers"))

import numpy as np
from serving_calls import Calls
from serving_process import ServingProcess

from keras_encdec.export import export_model
from keras_encdec.export.serving_config import ExportOptions
from keras_encdec.formats.plain_text import read_sentences


def measured(translate, sentences, in_flight, seconds):
    """Translates for some seconds; returns the median and 99th percentile in milliseconds, and target words/s."""
    waiting = itertools.cycle(sentences)
    end = time.perf_counter() + seconds

    def work(_):
        taken, words = [], 0
        while time.perf_counter() < end or len(taken) < 5:
            start = time.perf_counter()
            words += len(translate(next(waiting)).split())
            taken.append(time.perf_counter() - start)
        return taken, words

    start = time.perf_counter()
    with ThreadPoolExecutor(in_flight) as executor:
        parts = list(executor.map(work, range(in_flight)))
    elapsed = time.perf_counter() - start
    taken = [each for part, _ in parts for each in part]
    return np.median(taken) * 1e3, np.quantile(taken, 0.99) * 1e3, sum(words for _, words in parts) / elapsed


def main():
    """Exports and serves each model, measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", action="append", required=True, help="a model; may be given several times")
    parser.add_argument("--input", required=True, help="sentences to translate")
    parser.add_argument("--shortlist", help="table of encdec-dictionary --shortlist")
    parser.add_argument("--beam_size", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=10, help="seconds for each row")
    options = parser.parse_args()
    sentences = read_sentences(options.input)
    print(f"{'model':20}{'signature':17}{'shortlist':>9}{'in flight':>10}{'p50 ms':>9}{'p99 ms':>9}{'words/s':>9}")
    shortlists = [None, options.shortlist] if options.shortlist else [None]
    for model_dir, shortlist in itertools.product(options.model_dir, shortlists):
        with tempfile.TemporaryDirectory() as folder:
            export_model(model_dir, folder, ExportOptions(beam_size=options.beam_size, lexical_shortlist=shortlist))
            with ServingProcess(model_base_path=folder, model_name="encdec") as server:
                calls = Calls(server.grpc_address)
                for signature, in_flight in itertools.product(("generate", "generate_greedy"), (1, 2)):

                    def translate(sentence, calls=calls, signature=signature):
                        return calls.predict(signature, source=[sentence])["target"].flat[0].decode()

                    measured(translate, sentences, in_flight, 1)
                    half, most, rate = measured(translate, sentences, in_flight, options.seconds)
                    name, kind = pathlib.Path(model_dir).name, "yes" if shortlist else "no"
                    print(
                        f"{name:20}{signature:17}{kind:>9}{in_flight:10}{half:9.1f}{most:9.1f}{rate:9,.0f}", flush=True
                    )


if __name__ == "__main__":
    main()
