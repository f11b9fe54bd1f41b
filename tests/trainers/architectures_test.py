"""Models of other architectures go through the same commands."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from commands import fail, succeed
from recurrent_toys import stirred, toy

from keras_encdec.scoring import load_model
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import Checkpoints, load_checkpoint
from keras_encdec.trainers.round_average import RoundAverage
from keras_encdec.trainers.schedules import schedule

FLAGS = ["--units=8", "--embedding_dim=8", "--optimizer=adam", "--learning_rate=0.02", "--batch_size=16",
         "--round_updates=30", "--seed=5", "--jit_compile=false", "--notensorboard"]  # fmt: skip
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs where a source word s7 is always a target word t7."""
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    numbers = [[(i * j) % 11 for j in range(1, 2 + i % 6)] for i in range(1, 300)]
    path.write_text("".join(f"{' '.join(f's{n}' for n in row)}\t{' '.join(f't{n}' for n in row)}\n" for row in numbers))
    return path


def run(program, *flags):
    done = subprocess.run([BIN / program, *map(str, flags)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ["--architecture=lstm", "--layers=2", "--dropout=0.1"],
        ["--architecture=gru", "--layers=1", "--bidirectional=sum", "--condition=context", "--reverse_source"],
    ],
)
def test_a_recurrent_model_is_trained_resumed_scored_and_generates(train, pairs, tmp_path, flags):
    model, common = tmp_path / "model", [*FLAGS, *flags]
    table = f"--tsv={pairs}"
    succeed(train(table, f"--model_dir={model}", "--updates=60", *common))
    succeed(train(table, f"--model_dir={model}", "--updates=120", "--resume", *common))
    perplexities = [one["perplexity"] for one in json.loads((model / "history.json").read_text())["rounds"]]
    assert len(perplexities) == 4 and perplexities[-1] < perplexities[0]
    fail(train(table, f"--model_dir={model}", "--updates=130", "--resume", *common, "--units=9"), 2, "--units=9")

    run("encdec-score", f"--model_dir={model}", f"--input={pairs}", "--format=tsv", f"--output={tmp_path}/scored",
        "--token_scores")  # fmt: skip
    lines = [line.split("\t") for line in (tmp_path / "scored").read_text().splitlines()]
    assert all(float(row[2]) == pytest.approx(sum(map(float, row[3].split())), abs=1e-5) for row in lines)
    (tmp_path / "source").write_text("s1 s2\ns3\n")
    found = run("encdec-generate", f"--model_dir={model}", f"--input={tmp_path}/source", "--format=tsv")
    assert [row.split("\t")[0] for row in found.splitlines()] == ["s1 s2", "s3"]
    run("encdec-export", f"--model_dir={model}", f"--export_dir={tmp_path}/served")
    assert "exported: 30 pairs" in run(
        "encdec-verify", f"--model_dir={model}", f"--export_dir={tmp_path}/served", "--pairs=30"
    )


def test_a_language_model_is_trained_scores_and_draws_sentences(train, pairs, tmp_path):
    model = tmp_path / "model"
    common = [*FLAGS, "--architecture=gru", "--layers=1", "--language_model", "--dropout=0.1"]
    targets = [line.split("\t")[1] for line in pairs.read_text().splitlines()]
    for name, lines in (("corpus", targets), ("held_out", targets[:20] + [""])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    flags = [f"--target={tmp_path}/corpus", f"--validation={tmp_path}/held_out", f"--model_dir={model}", *common]
    done = succeed(train(*flags, "--updates=40"))
    succeed(train(*flags, "--updates=80", "--resume"))
    assert f"{len(set(targets))} unique targets of {len(targets)};" in done.stdout and "source" not in done.stdout
    rounds = json.loads((model / "history.json").read_text())["rounds"]
    assert rounds[-1]["val_perplexity"] < rounds[0]["val_perplexity"] < 14

    # The target column of a file of pairs is scored; the source does not matter.
    (tmp_path / "pairs").write_text("".join(f"any {i}\t{line}\n" for i, line in enumerate(targets[:20])))
    run("encdec-score", f"--model_dir={model}", f"--input={tmp_path}/pairs", "--format=tsv",
        f"--output={tmp_path}/scored")  # fmt: skip
    scores = [float(line.split("\t")[2]) for line in (tmp_path / "scored").read_text().splitlines()]
    tokens = {line: len(line.split()) + 1 for line in targets[:20]}
    found = dict(zip(targets[:20], scores, strict=True))
    best = min(one["val_perplexity"] for one in rounds)
    assert np.exp(-sum(found.values()) / sum(tokens.values())) == pytest.approx(best, rel=1e-4)

    draws = ["--mode=sample", "--num_samples=40", "--top=40", "--max_length=3", "--format=tsv"]
    rows = [line.split("\t") for line in run("encdec-generate", f"--model_dir={model}", *draws).splitlines()]
    assert sum(int(count) for _, _, count in rows) == 40 and all(len(text.split()) <= 3 for text, _, _ in rows)
    known = [(text, float(score)) for text, score, _ in rows if text in found]
    assert known and all(score == pytest.approx(found[text], abs=1e-4) for text, score in known)

    for program, flags, sentence in [
        ("encdec-generate", [f"--input={tmp_path}/corpus"], "found --input with a language model, expected none"),
        ("encdec-export", [f"--export_dir={tmp_path}/served"], f"{model}: found a language model, expected one that"),
    ]:
        done = subprocess.run([BIN / program, f"--model_dir={model}", *flags], capture_output=True, text=True)
        fail(done, 2 if program == "encdec-generate" else 1, sentence)
    for flags, sentence in [
        (["--source=x"], "found --source with --language_model, which has no source"),
        (["--bidirectional=sum"], "found --bidirectional with --language_model"),
        (["--architecture=encdec"], "found --language_model with --architecture=encdec, expected lstm, gru or rnn"),
    ]:
        corpus = f"--target={tmp_path}/corpus", f"--model_dir={tmp_path}/m", "--updates=1"
        fail(train(*corpus, *common, *flags), 2, sentence)


def test_flags_of_another_architecture_are_told(train, pairs, tmp_path):
    common = f"--tsv={pairs}", f"--model_dir={tmp_path}/model", "--updates=1"
    fail(train(*common, "--architecture=lstm", "--maxout_units=4"), 2, "--maxout_units", "--architecture=encdec")
    fail(train(*common, "--layers=3"), 2, "--layers with --architecture=encdec", "--architecture=lstm, gru or rnn")
    fail(train(*common, "--architecture=transformer"), 2, "architecture")


def test_training_as_the_thesis_has_it_goes_on_after_an_interruption_and_averages_its_last_rounds(
    train, pairs, tmp_path
):
    flags = [f"--tsv={pairs}", "--preset=luong2015", "--layers=1", "--units=8", "--embedding_dim=8", "--notensorboard",
             "--jit_compile=false", "--pad_to=8", "--batch_size=4", "--held_out_pairs=16", "--held_out_fraction=0.5",
             "--halving_every=1.5", "--epochs=5", "--round_updates=8", "--clip_elements=0.3",
             "--average_rounds=3", "--learning_rate=2", "--halving_start=4"]  # fmt: skip
    model = tmp_path / "model"
    succeed(train(*flags, "--updates=24", f"--model_dir={model}"))
    whole = succeed(train(*flags, f"--model_dir={tmp_path}/whole"))
    fail(train(*flags, "--resume", "--reduction=sum", "--clip_elements=0", f"--model_dir={model}"), 2,
         "found --clip_elements=0.0, --reduction=sum, expected --clip_elements=0.3, --reduction=mean as")  # fmt: skip
    other = shutil.copytree(model, tmp_path / "other")
    (other / "rounds" / "999.npz").write_bytes(b"of a round that was not put on record")
    resumed = succeed(train(*flags, "--resume", f"--model_dir={other}"))
    history = [json.loads((path / "history.json").read_text())["rounds"] for path in (tmp_path / "whole", other)]
    rounds = [one for one in history[0] if "averaged_rounds" not in one]
    updates = [one["updates"] for one in rounds]
    per_epoch = updates[-1] // 5
    assert updates[:3] == [8, 16, 24] and 40 <= updates[-1] <= 70
    # The step size of the last update of a round.
    for one in rounds:
        halvings = max(0, 1 + ((one["updates"] - 1) / per_epoch - 4) // 1.5)
        assert one["learning_rate"] == 2 * 0.5**halvings
    assert [one["val_perplexity"] for one in history[1] if one["updates"] > 24] == pytest.approx(
        [one["val_perplexity"] for one in history[0] if one["updates"] > 24], rel=1e-4
    )
    trained = load_checkpoint(other)[0]
    assert (trained.reduction, trained.clip_elements, trained.optimizer.global_clipnorm) == ("mean", 0.3, 5.0)
    # The average is on record as a round more, and is kept where it is the best.
    assert history[0][-1]["averaged_rounds"] == 3 and history[0][-1]["updates"] == updates[-1]
    best = min(history[0], key=lambda one: one["val_perplexity"])
    for path, process in ((tmp_path / "whole", whole), (other, resumed)):
        assert sorted(int(file.stem) for file in (path / "rounds").iterdir()) == updates[-3:]
        assert ("of the average of the last 3 rounds" in process.stdout) == ("averaged_rounds" in best)
    fail(train(*flags, "--resume", f"--model_dir={other}"), 1, f"found {updates[-1]} updates made, expected fewer")
    # Killed before it was averaged, it goes on with that alone.
    for last in (other / "last.keras", other / "history.json"):
        last.unlink()
    shutil.copy(tmp_path / "whole" / "last.keras", tmp_path / "copy")
    rewrite_history(tmp_path / "copy", other / "last.keras", rounds)
    succeed(train(*flags, "--resume", f"--model_dir={other}"))
    assert load_checkpoint(other)[1][:-1] == rounds and load_checkpoint(other)[1][-1]["averaged_rounds"] == 3


def test_an_average_that_is_asked_for_after_all_rounds_is_refused(train, pairs, tmp_path):
    flags = [*FLAGS, f"--tsv={pairs}", "--architecture=gru", "--updates=4", f"--model_dir={tmp_path}/model"]
    succeed(train(*flags))
    fail(train(*flags, "--resume", "--average_rounds=2"), 1, "found 4 updates made, expected fewer than")


def rewrite_history(checkpoint, path, rounds):
    """Writes a checkpoint again with another history."""
    with zipfile.ZipFile(checkpoint) as archive, zipfile.ZipFile(path, "w") as other:
        for name in archive.namelist():
            if name != "history.json":
                other.writestr(name, archive.read(name))
        other.writestr("history.json", json.dumps({"rounds": rounds}))


def test_an_average_is_kept_as_the_best_model_where_it_is_the_best(tmp_path):
    model = toy()
    model.compile("sgd")
    budget = Budget(1.0, schedule("constant"), updates_per_epoch=9)
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
    mean, rounds = average.mean()
    assert rounds == 2
    for one, (*_, before, last) in zip(mean, zip(*weights, strict=True), strict=True):
        np.testing.assert_allclose(one, (before + last) / 2, atol=1e-6)
    for perplexity, best in ((3.5, weights[1]), (2.5, mean)):
        checkpoints.add_average(model, mean, rounds, {"perplexity": perplexity})
        for name, expected in (("best.keras", best), ("last.keras", weights[2])):
            for one, other in zip(load_model(tmp_path / name).get_weights(), expected, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6)
    history = load_checkpoint(tmp_path)[1]
    assert [one.get("averaged_rounds") for one in history] == [None, None, None, 2, 2]


def test_flags_of_the_thesis_that_contradict_are_told(train, pairs, tmp_path):
    common = f"--tsv={pairs}", f"--model_dir={tmp_path}/model", "--updates=1"
    fail(train(*common, "--halving_start=2"), 2, "found --halving_start with --schedule=constant, expected it with")
    fail(train(*common, "--schedule=halving", "--halving_every=0"), 2, "found --halving_every=0, expected more")
    fail(train(*common, "--preset=small", "--halving_start=2"), 2, "found --halving_start with --schedule=constant")
    gru = "--preset=small_sentences", "--language_model", f"--target={pairs}"
    fail(train(*common[1:], *gru, "--bidirectional=sum"), 2, "found --bidirectional with --language_model")
    fail(train(*common, "--average_rounds=2", "--held_out_fraction=0"), 2, "found --average_rounds without pairs")
    assert not (tmp_path / "model").exists()
