"""What the benchmarks measure, and what they leave out; the figures are made up, or those of tiny models."""

import importlib
import json
import pathlib
import sys

import keras
import numpy as np
import pytest
import toy_models

from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.models import RecurrentEncoderDecoder, RNNEncoderDecoder

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks"
LIMITS = {
    "float32": {"tensorflow": 100, "jax": 100, "torch": 100},
    "bfloat16": {"tensorflow": 120, "jax": 99, "torch": 2},
}


@pytest.fixture
def imported(monkeypatch):
    """A function that imports a module of benchmarks/; after the test, neither it nor what it imports there is left."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def run(imported, monkeypatch):
    """benchmarks/run.py, and the measurements that it starts: lists of script, arguments and backend."""
    module, asked = imported("run"), []

    def measured(script, *arguments, backend=None):
        asked.append((script, *map(str, arguments), backend))
        if script == "limit.py":
            return {"gflops": LIMITS[arguments[1]][arguments[0]]}
        if arguments[0] == "precision":
            return {"median_error": 0.04, "largest_error": 0.3, "rank_correlation": 0.9999}
        return {"pairs_per_second": 10.0, "gflops": 50.0, "seconds": 1.0, "peak_mb": 1.0}

    monkeypatch.setattr(module, "measured", measured)
    monkeypatch.setattr(module, "BACKENDS", list(LIMITS["float32"]))
    return module, asked


def test_backends_slower_in_bfloat16_are_left_out_and_reported(run, monkeypatch, tmp_path, capsys):
    module, asked = run
    monkeypatch.setattr(module.scaling, "measure", lambda *arguments: {})
    monkeypatch.setattr(sys, "argv", ["run.py", "--full", f"--folder={tmp_path}"])
    module.main()
    told = capsys.readouterr().out
    assert all(f"bfloat16 on {library} is left out" in told for library in ("jax", "torch"))
    [path] = tmp_path.glob("*.json")
    results = json.loads(path.read_text())
    assert results["left_out"] == {"bfloat16": ["jax", "torch"]}
    measured = {(row["dtype"], row["who"]) for row in results["rows"]}
    assert {who for dtype, who in measured if dtype == "bfloat16"} == {"tensorflow", "keras peer"}
    assert {who for dtype, who in measured if dtype == "float32"} == {*LIMITS["float32"], "torch peer", "keras peer"}
    assert [command[-1] for command in asked if "precision" in command] == ["tensorflow"]


def test_results_say_where_and_with_what_they_were_measured(run, monkeypatch, tmp_path):
    module, asked = run
    monkeypatch.setattr(sys, "argv", ["run.py", f"--folder={tmp_path}", "--repeats=3"])
    module.main()
    [path] = tmp_path.glob("*.json")
    results = json.loads(path.read_text())
    assert {"processor", "cores", "instructions"} == set(results["machine"]) and results["machine"]["cores"] >= 1
    assert results["versions"]["keras"] and results["date"] and "commit" in results
    assert all(len(row["repeated"]) == 3 for row in results["rows"])


@pytest.mark.parametrize("what", ["score", "train"])
def test_the_package_is_measured_with_the_backend(what, imported, monkeypatch):
    """With a tiny model: `make bench` runs the same functions."""
    ours, reported = imported("ours"), {}
    monkeypatch.setattr(ours, "report", reported.update)
    model = RNNEncoderDecoder(30, 30, **toy_models.SIZES)
    pairs = [([3, 4, 5, 6, 7, 8, 2], [9, 8, 7, 6, 5, 4, 2]), ([8, 2], [9, 10, 2])] * 8
    if what == "score":
        ours.score(model, pairs, ours.SIZES["cho2014"], "float32")
    else:
        ours.train(model, pairs, ours.SIZES["cho2014"], batch=4, steps=1)
    assert reported["pairs_per_second"] > 0 and reported["gflops"] > 0


def results(score, train, **others):
    """Results of two rows, the first of which was repeated."""
    row = {"batch": 512, "dtype": "float32", "who": "jax"}
    rows = [
        {**row, "work": "score", "pairs_per_second": score[1], "repeated": score},
        {**row, "work": "train", "pairs_per_second": train, "repeated": [train]},
    ]
    return {"limits": {"float32": {"jax": 100}}, "rows": rows, "machine": {"cores": 2}, "versions": {}, **others}


@pytest.fixture
def moved(imported):
    return imported("compare").moved


def test_changes_larger_than_the_noise_are_reported(moved):
    old = results((99, 100, 101), 100)
    assert moved(old, results((102, 103, 104), 109), 0.1) == [
        "score batch 512 float32 jax: 100 before, 103 now, +3% (noise 2%)"
    ]
    assert moved(old, results((101, 101.5, 102), 80), 0.1) == [
        "train batch 512 float32 jax: 100 before, 80 now, -20% (noise 10%)"
    ]


def test_products_that_crashed_are_left_out(moved):
    crashed = results((99, 100, 101), 100)
    crashed["limits"] = {**crashed["limits"], "bfloat16": {"tensorflow": 0.0}}
    assert moved(crashed, crashed, 0.1) == []


def test_differences_between_the_runs_are_reported(moved):
    new = results((99, 100, 101), 100, machine={"cores": 4})
    del new["rows"][1]
    assert moved(results((99, 100, 101), 100), new, 0.1) == [
        "machine differs: {'cores': 2} before, {'cores': 4} now",
        "train batch 512 float32 jax: only in the old file",
    ]


def test_keras_peer_scores_and_trains_on_every_backend(imported):
    peer = imported("peer_keras")
    model = peer.KerasEncoderDecoder(embedding_dim=4, units=4, maxout_units=2, output_rank=2)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"))
    source, target = np.array([[3, 4, 2], [5, 4, 2]]), np.array([[6, 2], [3, 2]])
    assert model.train_on_batch([source, target], target) > 0
    assert peer.score(model, list(zip(source.tolist(), target.tolist(), strict=True)), 2) > 0


@pytest.mark.parametrize("score, directions", [("dot", "sum"), ("general", "concat"), ("concat", "concat")])
def test_the_torch_peer_finds_the_same_translations(score, directions, imported):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    peer = imported("peer_translation")
    sizes = {"units": 8, "embedding_dim": 6, "initial_scale": 1.0}
    keras.utils.set_random_seed(1)
    kind = {"cell": "gru", "layers": 1, "bidirectional": directions, "attention": "global", "attention_score": score}
    model = RecurrentEncoderDecoder(20, 20, **sizes, **kind, input_feeding=False)
    sources = [[3, 4, 5, 2], [6, 2], [7, 8, 9, 10, 11, 2], [12, 1, 13, 2]]
    for beam, penalty in (1, 0.0), (4, 1.0):
        found = peer.TorchGRUTranslator(model).search(sources, beam, penalty)
        targets = Generator(model).generate(sources, BeamSampler(beam, length_penalty=penalty))
        assert [tuple(max(token, 1) for token in ids) for ids in found] == [best.ids for (best,) in targets]


def test_the_pareto_frontier_has_only_rows_that_no_other_beats(imported):
    rows = [{"words_per_second": rate, "bleu": bleu} for rate, bleu in ((9, 5), (1, 8), (3, 6), (9, 4), (3, 7), (2, 7))]
    front = imported("translation").pareto_front(rows)
    assert [(row["words_per_second"], row["bleu"]) for row in front] == [(1, 8), (3, 7), (9, 5)]
