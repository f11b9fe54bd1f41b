"""Models of other architectures, trained and used by functions."""

import json
import shutil
import zipfile

import numpy as np
import pytest
from recurrent_toys import stirred, toy
from tiny_trainings import number_of_updates, rounds, train_tiny

from keras_encdec.errors import InputError
from keras_encdec.model_directory import load_model
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingConfig, TrainingData
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.callbacks import RoundAverage
from keras_encdec.trainers.checkpoints import Checkpoints
from keras_encdec.trainers.resumption import Progress, load_checkpoint


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs whose source words s7 are always target words t7, and so on."""
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    numbers = [[(i * j) % 11 for j in range(1, 2 + i % 6)] for i in range(1, 300)]
    path.write_text("".join(f"{' '.join(f's{n}' for n in row)}\t{' '.join(f't{n}' for n in row)}\n" for row in numbers))
    return path


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "model",
    [
        {"cell": "lstm", "layers": 2, "dropout": 0.1},
        {"cell": "gru", "layers": 1, "bidirectional": "sum", "condition": "context", "reverse_source": True},
    ],
)
def test_a_recurrent_model_is_trained_and_resumed(pairs, tmp_path, model):
    settings, data = {"architecture": "recurrent", "model": model, "round_updates": 2}, TrainingData(tsv=pairs)
    train_tiny(data, tmp_path, updates=4, **settings)
    train_tiny(data, tmp_path, resume=True, updates=8, **settings)
    perplexities = [entry["perplexity"] for entry in rounds(tmp_path)]
    assert len(perplexities) == 4 and perplexities[-1] < perplexities[0]
    assert (TextScorer(tmp_path).score([(["s1"], ["t1"]), ([], ["t1", "t2"])]) < 0).all()
    with pytest.raises(ValueError, match="found units=9, expected units=8 as in the run to resume"):
        train_tiny(data, tmp_path, resume=True, updates=130, **{**settings, "model": {**model, "units": 9}})


def test_a_language_model_is_trained_and_scores(pairs, tmp_path, request):
    targets = [line.split("\t")[1] for line in pairs.read_text().splitlines()]
    for name, lines in (("corpus", targets), ("held_out", targets[:20] + [""])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    data = TrainingData(target=tmp_path / "corpus", validation=(tmp_path / "held_out",))
    settings = {
        "architecture": "language_model",
        "model": {"cell": "gru", "layers": 1, "dropout": 0.1},
        "round_updates": 30,
    }
    path = tmp_path / "model"
    _, lines = train_tiny(data, path, updates=60, **settings)
    request.getfixturevalue("eager")
    result, _ = train_tiny(data, path, resume=True, updates=62, **settings)
    assert f"{len(set(targets))} unique targets of {len(targets)};" in lines[0] and "source" not in "".join(lines)
    assert result.last.val_perplexity < result.rounds[0].val_perplexity < 14
    # The source of a pair does not matter.
    scores = TextScorer(path).score([([f"any{i}"], line.split()) for i, line in enumerate(targets[:20])])
    tokens = {line: len(line.split()) + 1 for line in targets[:20]}
    found = dict(zip(targets[:20], scores, strict=True))
    assert np.exp(-sum(found.values()) / sum(tokens.values())) == pytest.approx(result.best.val_perplexity, rel=1e-4)


@pytest.mark.usefixtures("eager", "uncompiled")
def test_a_feed_forward_language_model_is_trained_until_it_no_longer_improves(pairs, tmp_path):
    (tmp_path / "corpus").write_text("".join(f"{line.split(chr(9))[1]}\n" for line in pairs.read_text().splitlines()))
    data = TrainingData(target=tmp_path / "corpus", held_out_fraction=0.2)
    sizes = {"ngram_order": 3, "embedding_dim": 6, "hidden_units": [12, 8], "initial_scale": 0.3}
    settings = {"architecture": "cslm", "model": sizes, "round_updates": 4, "learning_rate": 0.3}
    path = tmp_path / "model"
    train_tiny(data, path, updates=12, **settings)
    result, _ = train_tiny(data, path, resume=True, updates=400, patience_epochs=1, **settings)
    assert result.best.val_perplexity < result.rounds[0].val_perplexity
    assert result.best.updates < result.last.updates < 400
    assert TextScorer(path).score([([], ["t1", "t2"])])[0] < 0
    with pytest.raises(
        ValueError, match=r"hidden_units=\(12,\), expected hidden_units=\(12, 8\) as in the run to resume"
    ):
        train_tiny(data, path, resume=True, updates=9, **{**settings, "model": {**sizes, "hidden_units": (12,)}})


def test_training_as_in_the_thesis_is_resumed_and_averages_its_last_rounds(pairs, tmp_path, request):
    data = TrainingData(tsv=pairs, held_out_pairs=16, held_out_fraction=0.5, max_length=50, shortlist=50_000)
    settings = {
        "architecture": "recurrent",
        "model": {"layers": 1, "reverse_source": True, "dropout": 0.2},
        "optimizer": "sgd",
        "learning_rate": 2,
        "schedule": "halving",
        "halving_start": 4,
        "halving_every": 1.5,
        "reduction": "mean",
        "clip_norm": 5,
        "clip_elements": 0.3,
        "batch_size": 16,
        "pad_to": (8,),
        "epochs": 5,
        "round_updates": 3,
        "average_rounds": 3,
        "seed": 1,
    }
    model, whole = tmp_path / "model", tmp_path / "whole"
    _, whole_lines = train_tiny(data, whole, **settings)
    request.getfixturevalue("eager")  # unlike the first run
    train_tiny(data, model, updates=9, **settings)
    expected = "found clip_elements=0.0, reduction=sum, expected clip_elements=0.3, reduction=mean as"
    with pytest.raises(ValueError, match=expected):
        train_tiny(data, model, resume=True, **{**settings, "reduction": "sum", "clip_elements": 0})
    other = shutil.copytree(model, tmp_path / "other")
    (other / "rounds" / "999.npz").write_bytes(b"of a round that was not put on record")
    _, resumed_lines = train_tiny(data, other, resume=True, **settings)
    # The average after the third round does not count as a round.
    assert next(line for line in resumed_lines if line.startswith("Round")).startswith("Round 4: 12 updates")
    history = [rounds(path) for path in (whole, other)]
    plain = [entry for entry in history[0] if "averaged_rounds" not in entry]
    updates = [entry["updates"] for entry in plain]
    per_epoch = updates[-1] // 5
    assert updates[:3] == [3, 6, 9] and 15 <= updates[-1] <= 20
    # The learning rate of the last update of a round.
    for entry in plain:
        halvings = max(0, 1 + ((entry["updates"] - 1) / per_epoch - 4) // 1.5)
        assert entry["learning_rate"] == 2 * 0.5**halvings
    assert [entry["val_perplexity"] for entry in history[1] if entry["updates"] > 9] == pytest.approx(
        [entry["val_perplexity"] for entry in history[0] if entry["updates"] > 9], rel=1e-4
    )
    trained = load_checkpoint(other).model
    assert (trained.reduction, trained.clip_elements, trained.optimizer.global_clipnorm) == ("mean", 0.3, 5.0)
    # The history has the average as one more round, and the average is kept if it is the best.
    assert history[0][-1]["averaged_rounds"] == 3 and history[0][-1]["updates"] == updates[-1]
    best = min(history[0], key=lambda entry: entry["val_perplexity"])
    for path, lines in ((whole, whole_lines), (other, resumed_lines)):
        assert sorted(int(file.stem) for file in (path / "rounds").iterdir()) == updates[-4:]
        assert any("of the average of the last 3 rounds" in line for line in lines) == ("averaged_rounds" in best)
    assert len(train_tiny(data, other, resume=True, **settings)[1]) == 1  # the training has already ended
    # A run that was killed before it averaged only averages.
    for last in (other / "last.keras", other / "history.json"):
        last.unlink()
    rewrite_history(whole / "last.keras", other / "last.keras", plain)
    train_tiny(data, other, resume=True, **settings)
    assert load_checkpoint(other).progress.rounds[:-1] == plain
    assert load_checkpoint(other).progress.rounds[-1]["averaged_rounds"] == 3


@pytest.mark.usefixtures("eager")
def test_averaging_after_rounds_whose_weights_were_not_saved_is_refused(pairs, tmp_path):
    data, settings = TrainingData(tsv=pairs), {"architecture": "recurrent", "model": {"cell": "gru"}, "updates": 4}
    train_tiny(data, tmp_path, **settings)
    assert number_of_updates(tmp_path) == [4]
    with pytest.raises(InputError, match="saved no rounds, expected saved rounds to average"):
        train_tiny(data, tmp_path, resume=True, average_rounds=2, **settings)


def rewrite_history(checkpoint, path, rounds):
    """Writes a checkpoint again with another history."""
    with zipfile.ZipFile(checkpoint) as archive, zipfile.ZipFile(path, "w") as other:
        for name in archive.namelist():
            if name != "history.json":
                other.writestr(name, archive.read(name))
        other.writestr("history.json", json.dumps({"rounds": rounds}))


def test_an_average_is_saved_as_the_best_model_if_it_is_the_best(tmp_path):
    model = toy()
    model.compile("sgd")
    budget = Budget(TrainingConfig("recurrent", epochs=9), updates_per_epoch=9, progress=Progress())
    average, checkpoints = RoundAverage(tmp_path, budget, number=2), Checkpoints(tmp_path, budget, batch_size=4)
    for callback in (average, checkpoints):
        callback.set_model(model)
        callback.on_train_begin()
    weights = []
    for number, perplexity in ((1, 5.0), (2, 3.0), (3, 4.0)):
        stirred(model, seed=number)
        weights.append(model.get_weights())
        budget.updates_done += 10
        for callback in (average, checkpoints):
            callback.on_epoch_end(number, {"val_perplexity": perplexity})
    mean, number = average.mean()
    assert number == 2
    for one, (*_, before, last) in zip(mean, zip(*weights, strict=True), strict=True):
        np.testing.assert_allclose(one, (before + last) / 2, atol=1e-6)
    for perplexity, best in ((3.5, weights[1]), (2.5, mean)):
        checkpoints.add_average(model, mean, number, {"perplexity": perplexity})
        for name, expected in (("best.keras", best), ("last.keras", weights[2])):
            for one, other in zip(load_model(tmp_path / name).get_weights(), expected, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6)
    history = load_checkpoint(tmp_path).progress.rounds
    assert [entry.get("averaged_rounds") for entry in history] == [None, None, None, 2, 2]
