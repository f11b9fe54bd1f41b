"""Times a served model, and its SavedModel called directly: latency, throughput, cold start.

    python benchmarks/serving.py [--table TABLE.gz] [--sizes cho2014] [--server HOST:PORT]

The server is the substitute for TensorFlow Serving that the tests use, written in Python, and also the one at --server,
which must serve the model "encdec". Client and server share the machine. Prints a table.
"""

import argparse
import collections
import itertools
import os
import pathlib
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "helpers"))

import numpy as np
import tensorflow as tf
from serving_calls import Calls
from serving_process import ServingProcess
from workload import SHORTLIST, SIZES

from keras_encdec.data import open_pairs
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.export import export_model
from keras_encdec.export.serving_config import BATCHING_PARAMETERS
from keras_encdec.model_config import WEIGHTS
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import RNNEncoderDecoder
from keras_encdec.text import most_frequent


def exported(folder, pairs, sizes):
    """Exports a model with random weights and shortlists from the pairs; returns the version's path."""
    counts = [collections.Counter(word for pair in pairs for word in pair[side]) for side in (0, 1)]
    vocabularies = [most_frequent(count, SHORTLIST) for count in counts]
    model = RNNEncoderDecoder(*map(len, vocabularies), **SIZES[sizes], initial_stddev=0.1)
    with tempfile.TemporaryDirectory() as name:
        directory = ModelDirectory(pathlib.Path(name), *vocabularies)
        directory.save_config("encdec", model.config.to_dict())
        model.save(directory.path / WEIGHTS)
        return export_model(name, folder).path


def direct(path):
    """Returns a function that scores with the SavedModel in this process, as a server does."""
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        signature = tf.compat.v1.saved_model.load(session, ["serve"], str(path)).signature_def["score"]
    sides = [signature.inputs[side].name for side in ("source", "target")]
    score = session.make_callable(signature.outputs["log_prob"].name, sides)
    return lambda source, target: score(np.array(source, object), np.array(target, object))


def measured(call, pairs, batch, in_flight, seconds):
    """Calls concurrently for some seconds; returns the median and 99th percentile in milliseconds, and pairs/s."""
    some = itertools.cycle(pairs)
    requests = [list(zip(*itertools.islice(some, batch), strict=True)) for _ in range(200)]
    # Each thread goes through all requests, beginning with a different one.
    end = time.perf_counter() + seconds

    def work(place):
        taken = []
        while time.perf_counter() < end or len(taken) < 20:
            source, target = requests[(place + len(taken)) % len(requests)]
            start = time.perf_counter()
            call(list(source), list(target))
            taken.append(time.perf_counter() - start)
        return taken

    start = time.perf_counter()
    with ThreadPoolExecutor(in_flight) as executor:
        places = [len(requests) * thread // in_flight for thread in range(in_flight)]
        taken = sum(executor.map(work, places), [])
    elapsed = time.perf_counter() - start
    return np.median(taken) * 1e3, np.quantile(taken, 0.99) * 1e3, len(taken) * batch / elapsed


def cold_start(folder, warm):
    """Returns the seconds until a started server is ready, and the milliseconds of its first answer."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        if not warm:
            shutil.rmtree(pathlib.Path(copy, "1", "assets.extra"))
        start = time.perf_counter()
        with ServingProcess(model_base_path=copy, model_name="encdec") as server:
            ready = time.perf_counter() - start
            calls = Calls(server.grpc_address)
            calls.metadata()  # opens the connection
            start = time.perf_counter()
            calls.predict(source=["the file"], target=["le fichier"])
            return ready, (time.perf_counter() - start) * 1e3


def main():
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", default=str(libreoffice_en_fr().phrase_table), help="phrase table to score")
    parser.add_argument("--sizes", default="cho2014", help="cho2014 or small")
    parser.add_argument("--seconds", type=float, default=5, help="seconds for each row")
    parser.add_argument("--server", help="address of a server to measure, HOST:PORT")
    options = parser.parse_args()
    with open_pairs(options.table) as (pairs, _):
        pairs = list(itertools.islice(pairs, 100_000))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = exported(folder, pairs, options.sizes)
        phrases = [tuple(" ".join(side) for side in pairs[i]) for i in np.random.default_rng(0).permutation(len(pairs))]
        contestants = {"SavedModel, direct": direct(path)}
        flags = {"model_base_path": folder, "model_name": "encdec"}
        batching = {"enable_batching": True, "batching_parameters_file": folder / BATCHING_PARAMETERS}
        with ServingProcess(**flags) as plain, ServingProcess(**flags, **batching) as merging:
            addresses = {"gRPC, test peer": plain.grpc_address, "gRPC, test peer, batching": merging.grpc_address}
            if options.server:
                addresses["gRPC, " + options.server] = options.server
            for who, address in addresses.items():
                calls = Calls(address)
                contestants[who] = lambda source, target, calls=calls: calls.predict(source=source, target=target)
            print(f"{'batch':>5} {'in flight':>9}  {'who':28}{'p50 ms':>8}{'p99 ms':>8}{'pairs/s':>9}  protocol")
            for batch, in_flight in itertools.product((1, 64), (1, 16)):
                alone = None
                for who, call in contestants.items():
                    measured(call, phrases, batch, in_flight, 0.5)
                    half, most, rate = measured(call, phrases, batch, in_flight, options.seconds)
                    alone = alone or half
                    share = "" if half <= alone else f"{1 - alone / half:8.0%} of the latency"
                    print(f"{batch:5} {in_flight:9}  {who:28}{half:8.2f}{most:8.2f}{rate:9,.0f}  {share}", flush=True)
        for warm in (False, True):
            ready, first = np.median([cold_start(folder, warm) for _ in range(3)], axis=0)
            kind = "with" if warm else "without"
            print(f"cold start, {kind} warm-up: ready in {ready:.2f} s, first answer {first:.1f} ms")


if __name__ == "__main__":
    main()
