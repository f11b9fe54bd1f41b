"""Training as a function."""

import gzip
import itertools
import json
import os
import re
import shutil
import socket
import threading
import zipfile

import keras
import numpy as np
import pytest
from tiny_trainings import SIZES, number_of_updates, rounds, tiny_config, train_tiny

from keras_encdec.cli.demo import demonstrate
from keras_encdec.data import Batches, PreparedPairs
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingReporter, TrainingRound, train
from keras_encdec.trainers.checkpoints import load_checkpoint


def test_it_says_what_it_made(trained):
    result, lines = trained
    assert lines[:4] == [
        "400 unique pairs of 432; left out: 1 longer than 30 words, 1 with an empty side, 0 malformed.",
        "source: 12 words in the shortlist; 0.00 % of the tokens are other words.",
        "target: 12 words in the shortlist; 0.00 % of the tokens are other words.",
        "1,339 weights.",
    ]
    a_round = r"Round {}: {} updates, [\d.]+ epochs, {} pairs, [\d,]+ pairs/s; perplexity [\d.]+, held-out [\d.]+; \d.*"
    for line, numbers in zip(lines[4:7], [(1, 10, 160), (2, 20, 320), (3, 25, 400)], strict=True):
        assert re.fullmatch(a_round.format(*numbers), line), line
    best = r"Best held-out perplexity [\d.]+ per token, log-likelihood -[\d.]+ per pair, after (10|20|25) updates"
    assert re.fullmatch(rf"25 updates, 400 pairs in \d+ s. {best}: {result.model_dir}", lines[7])
    compiling = [r"Compiling took \d+ s of it; shapes of batches: [1-9]\."] * (keras.backend.backend() == "tensorflow")
    assert all(map(re.fullmatch, compiling, lines[8:])) and len(lines) == 8 + len(compiling)


def test_the_result_is_what_was_kept(trained):
    result, _ = trained
    assert result.rounds == tuple(map(TrainingRound.from_dict, rounds(result.model_dir)))
    assert result.best == min(result.rounds, key=lambda one: one.val_perplexity)
    assert result.last.updates == 25 and result.signal is None and result.seconds >= result.last.seconds > 0
    assert (result.compiled_shapes > 0) == (keras.backend.backend() == "tensorflow")


def test_the_history_has_every_round_and_the_best_is_kept(trained):
    path, history = trained[0].model_dir, rounds(trained[0].model_dir)
    assert [one["updates"] for one in history] == [10, 20, 25]
    assert [one["pairs"] for one in history] == [160, 320, 400]
    seconds = [one["seconds"] for one in history]
    assert seconds == sorted(seconds) and all(one["learning_rate"] == pytest.approx(0.02) for one in history)
    # The gradient of a sum over 16 pairs is longer than the bound, 1, at first.
    assert all(one["gradient_norm"] > 0 and 0 <= one["clipped_share"] <= 1 for one in history)
    assert history[0]["clipped_share"] == 1 and history[0]["gradient_norm"] > 1
    assert history[-1]["perplexity"] < history[0]["perplexity"] < 15
    # The first pairs of the prepared set are those held out: one in a hundred.
    held_out = Batches(PreparedPairs(path / "prepared"), 64, range(4)).once()
    best = min(history, key=lambda one: one["val_perplexity"])
    for name, of in (("best.keras", best), ("last.keras", history[-1])):
        model = load_model(path / name)
        tokens = sum(int((batch["target"] != 0).sum()) for batch in held_out)
        total = sum(float(keras.ops.sum(model.score(batch["source"], batch["target"]))) for batch in held_out)
        assert np.exp(-total / tokens) == pytest.approx(of["val_perplexity"], rel=1e-4)
        assert total / 4 == pytest.approx(of["val_log_likelihood"], rel=1e-4)
    assert list((path / "logs" / "train").iterdir()) and list((path / "logs" / "validation").iterdir())


def test_the_directory_is_all_that_is_needed(trained, tmp_path):
    copy = shutil.copytree(trained[0].model_dir, tmp_path / "elsewhere")
    shutil.rmtree(copy / "prepared")
    (copy / "last.keras").unlink()
    config = json.loads((copy / "config.json").read_text())
    expected = {**SIZES, "reset_after": False, "dtype": "float32"}
    assert config["architecture"] == "encdec" and {name: config["model"][name] for name in expected} == expected
    pairs = [(["s1", "s2"], ["t1", "t2"]), ([], ["other"])]
    expected = TextScorer(trained[0].model_dir).score(pairs)
    assert (expected < 0).all()
    np.testing.assert_allclose(TextScorer(copy).score(pairs), expected, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_the_settings_that_a_model_keeps_make_another_like_it(tsv, tmp_path):
    model = {"maxout_units": 3}
    first, _ = train_tiny(tsv, tmp_path / "first", updates=2, model=model, learning_rate=0.0125)
    settings = tmp_path / "first" / "settings.toml"
    config, data = TrainingConfig.from_preset(settings), TrainingData.from_preset(settings)
    assert data == tsv and config.learning_rate == 0.0125 and config.model.maxout_units == 3
    again = train(config, data, tmp_path / "again", reporter=TrainingReporter(lambda line: None))
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("first", "again")]
    assert configs[0] == configs[1]
    assert again.best.val_perplexity == pytest.approx(first.best.val_perplexity, rel=1e-4)


def test_trainings_side_by_side_do_what_each_does_alone(tsv, tmp_path, request):
    settings = {"half": {"dtype_policy": "mixed_bfloat16"}, "wide": {"model": {"units": 12}, "seed": 6}}
    policy, results = keras.config.dtype_policy().name, {}

    def run(name, folder):
        results[name, folder] = train_tiny(tsv, tmp_path / folder / name, updates=5, **settings[name])[0]

    threads = [threading.Thread(target=run, args=(name, "beside")) for name in settings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    request.getfixturevalue("eager")  # those side by side are traced, too
    for name in settings:
        run(name, "alone")
    for name in settings:
        alone, beside = results[name, "alone"], results[name, "beside"]
        assert beside.last.val_perplexity == pytest.approx(alone.last.val_perplexity, rel=1e-3), name
    assert load_model(tmp_path / "beside" / "half" / "best.keras").dtype_policy.name == "mixed_bfloat16"
    assert keras.config.dtype_policy().name == policy


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others have one way to compile")
def test_low_precision_trains_without_xla_and_goes_on(tsv, tmp_path):
    """bfloat16 on a CPU: only the optimizer is compiled by XLA."""
    settings = {"dtype_policy": "mixed_bfloat16", "jit_compile": "auto"}
    train_tiny(tsv, tmp_path / "model", updates=10, **settings)
    train_tiny(tsv, tmp_path / "model", resume=True, updates=20, **settings)
    history = rounds(tmp_path / "model")
    assert [one["updates"] for one in history] == [10, 20] and history[1]["perplexity"] < history[0]["perplexity"]


def test_low_precision_a_schedule_another_optimizer_and_smoothed_labels_go_on_too(tsv, tmp_path):
    settings = {"schedule": "linear", "optimizer": "sgd", "dtype_policy": "mixed_float16", "round_updates": 20}
    settings |= {"label_smoothing": 0.1, "warmup_updates": 50}
    train_tiny(tsv, tmp_path, updates=40, **settings)
    assert load_model(tmp_path / "last.keras", compiled=True).label_smoothing == 0.1
    with pytest.raises(ValueError, match="found label_smoothing=0.0, expected label_smoothing=0.1 as in the model"):
        train_tiny(tsv, tmp_path, resume=True, updates=60, **{**settings, "label_smoothing": 0.0})
    train_tiny(tsv, tmp_path, resume=True, updates=60, **settings)
    assert number_of_updates(tmp_path) == [20, 40, 60]
    # The step size of a round's last update: of the share of the training, and of the warm-up, that was done then.
    rates = [one["learning_rate"] for one in rounds(tmp_path)]
    expected = [0.02 * (1 - 19 / 40) * 20 / 50, 0.02 * (1 - 39 / 40) * 40 / 50, 0.02 * (1 - 59 / 60)]
    assert rates == pytest.approx(expected, rel=0.011)
    assert load_model(tmp_path / "best.keras").dtype_policy.name == "mixed_float16"


@pytest.mark.usefixtures("eager")
def test_a_second_training_into_a_directory_is_refused_and_scoring_goes_on(training_files, tsv, tmp_path):
    other, refusals, scored = TrainingData(phrase_table=training_files / "table.gz"), set(), []

    class Intruder(TrainingReporter):
        def prepared(self, *arguments):
            self.intrude()

        def round_ended(self, *arguments):
            self.intrude()
            scored.append(TextScorer(tmp_path / "model").score([(["s1"], ["t1"])]).shape)

        def intrude(self):
            for resume in (False, True):
                with pytest.raises(InputError) as error:
                    train_tiny(other, tmp_path / "model", resume=resume, updates=1, model={"units": 9})
                refusals.add(str(error.value))
            with pytest.raises(InputError, match="another training at work in it"):
                demonstrate(tmp_path)  # its model would be in the same place

    train(tiny_config(updates=1), tsv, tmp_path / "model", reporter=Intruder(lambda line: None))
    assert scored == [(1,)] and refusals == {
        f"{tmp_path}/model: found another training at work in it (process {os.getpid()} on {socket.gethostname()}), "
        "expected one at a time; wait until it ends, or give another --model_dir."
    }
    assert not list((tmp_path / "model").glob(".*"))
    assert ModelDirectory.load(tmp_path / "model").model.config.units == 8


def test_the_same_seed_gives_the_same_training_and_another_another(training_files, trained, tmp_path, request):
    data = TrainingData(phrase_table=training_files / "table.gz")
    request.getfixturevalue("eager")  # unlike the first
    train_tiny(data, tmp_path / "same", updates=10)
    train_tiny(data, tmp_path / "other", updates=10, seed=6)
    paths = trained[0].model_dir, tmp_path / "same", tmp_path / "other"
    first, same, other = (PreparedPairs(path / "prepared").padded(np.arange(4))["source"].tolist() for path in paths)
    assert first == same != other, "the pairs held out"
    # Compiled or not: the same weights to begin with, and the same batches.
    first, same, other = (rounds(path)[0] for path in paths)
    for value in ("perplexity", "val_perplexity"):
        assert same[value] == pytest.approx(first[value], rel=1e-4)
        assert abs(other[value] - first[value]) > 1e-3


@pytest.mark.usefixtures("eager")
def test_training_ends_where_it_is_told_to(tsv, tmp_path):
    # 396 pairs in batches of 60 are 6 updates an epoch.
    settings = {"batch_size": 60, "round_updates": 4}
    train_tiny(tsv, tmp_path / "epochs", epochs=1.5, **settings)
    assert number_of_updates(tmp_path / "epochs") == [4, 8, 9]
    data = tsv.replace(held_out_fraction=0)
    _, lines = train_tiny(data, tmp_path / "first", epochs=1.5, updates=3, minutes=9, **settings)
    assert number_of_updates(tmp_path / "first") == [3]
    # Without pairs held out the training perplexity decides which model is best.
    assert "Best perplexity" in lines[-1] and "val_perplexity" not in rounds(tmp_path / "first")[0]
    result, _ = train_tiny(tsv, tmp_path / "minutes", minutes=0.03, round_updates=100_000)
    assert 1.8 <= result.last.seconds <= result.seconds and len(result.rounds) == 1
    # A step size of 0 never betters the first round.
    train_tiny(tsv, tmp_path / "patience", patience=2, learning_rate=0, **settings)
    assert number_of_updates(tmp_path / "patience") == [4, 8, 12]
    train_tiny(tsv, tmp_path / "patience_epochs", patience_epochs=1.5, learning_rate=0, **settings)
    assert number_of_updates(tmp_path / "patience_epochs") == [4, 8, 12, 16]


@pytest.mark.usefixtures("eager")
def test_reverse_swaps_the_sides_and_given_vocabularies_are_kept(tsv, tmp_path):
    (tmp_path / "v").write_bytes(b"\xef\xbb\xbft3\r\nt1")
    data = tsv.replace(source_vocabulary=tmp_path / "v", reverse=True)
    train_tiny(data, tmp_path / "m", updates=1)
    directory = ModelDirectory.load(tmp_path / "m")
    assert directory.reverse
    assert directory.source_vocabulary.words == ["t3", "t1"]
    assert set(directory.target_vocabulary.words) == {f"s{i}" for i in range(12)}
    with pytest.raises(ValueError, match=f"{tmp_path}/m was trained with reverse"):
        train_tiny(data.replace(reverse=False), tmp_path / "m", resume=True, updates=20)


@pytest.mark.usefixtures("eager")
def test_raw_parallel_text_is_tokenized_and_validated_on_files(training_files, tmp_path):
    pytest.importorskip("tensorflow_text")
    (tmp_path / "source").write_text("S1 s2.\ns3\n\n")
    (tmp_path / "target").write_text("T1 t2!\nt3 t4\nt5\n")
    data = TrainingData(
        source=training_files / "source", target=training_files / "target", tokenize=True, lowercase=True,
        validation=(tmp_path / "source", tmp_path / "target"), shortlist=12,
    )  # fmt: skip
    _, lines = train_tiny(data, tmp_path / "m", updates=2)
    assert "400 unique pairs of 400" in lines[0] and "shortlist; 4." in lines[1]
    directory = ModelDirectory.load(tmp_path / "m")
    assert directory.tokenization == {"lowercase": True}
    # The twelve most frequent of thirteen: the full stop and eleven words, in lower case.
    assert directory.source_vocabulary.words[0] == "." and len(directory.source_vocabulary) == 12
    assert all(word.islower() for word in directory.source_vocabulary.words[1:])
    validated = Batches(PreparedPairs(tmp_path / "m" / "validation"), 64).once()
    assert [batch["source"].shape for batch in validated] == [(2, 4)]
    model = load_model(tmp_path / "m" / "last.keras")
    (batch,) = validated
    total = float(keras.ops.sum(model.score(batch["source"], batch["target"])))
    assert total / 2 == pytest.approx(rounds(tmp_path / "m")[-1]["val_log_likelihood"], rel=1e-4)


def test_an_existing_model_is_not_overwritten(training_files, trained):
    path, data = trained[0].model_dir, TrainingData(phrase_table=training_files / "table.gz")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(ValueError, match=f"{path} holds a model already; give another model_dir, or resume"):
        train_tiny(data, path, updates=1)
    with pytest.raises(ValueError, match="found units=9, expected units=8 as in the model to go on with"):
        train_tiny(data, path, resume=True, updates=50, model={"units": 9})
    expected = "found batch_size=32, optimizer=sgd, expected batch_size=16, optimizer=adam as in the model to go on"
    with pytest.raises(ValueError, match=expected):
        train_tiny(data, path, resume=True, updates=50, batch_size=32, optimizer="sgd")
    with pytest.raises(ValueError, match="found architecture=recurrent, expected architecture=encdec as in"):
        train_tiny(data, path, resume=True, updates=50, architecture="recurrent")
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


@pytest.mark.usefixtures("eager")
def test_resume_starts_a_training_that_has_no_round_yet(trained, tsv, tmp_path):
    """As a scheduler repeats the same command whenever it was killed."""
    path = shutil.copytree(trained[0].model_dir, tmp_path / "m", ignore=shutil.ignore_patterns("last.keras", "logs"))
    copied = shutil.copytree(path, tmp_path / "copied", ignore=shutil.ignore_patterns("history.json", "prepared"))
    for folder, resume in itertools.product((path, copied), (True, False)):
        with pytest.raises(InputError, match=f"{folder}: found best.keras and no last.keras, expected last.keras to"):
            train_tiny(tsv, folder, resume=resume, updates=30)
    (path / "history.json").unlink()  # as a kill within the first round leaves it
    with pytest.raises(InputError, match="diverged"):
        train_tiny(tsv, path, updates=1, optimizer="sgd", learning_rate=1e38)
    assert not (path / "best.keras").exists(), "of other vocabularies"
    _, lines = train_tiny(tsv, path, resume=True, updates=1)
    assert lines[0].startswith("400 unique pairs") and number_of_updates(path) == [1]


def test_resume_of_a_training_that_came_to_its_end_says_so(training_files, trained):
    result, _ = trained
    path, data = result.model_dir, TrainingData(phrase_table=training_files / "table.gz")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for settings in ({"updates": 25}, {"minutes": result.last.seconds / 61}):
        again, (line,) = train_tiny(data, path, resume=True, **settings)
        assert again.rounds == result.rounds and again.best == result.best and again.signal is None
        assert re.fullmatch(f"Nothing to go on with, .* its end: 25 updates, 400 pairs in .*: {path}", line), line
    _, (other, _) = train_tiny(data.replace(phrase_table="other.gz"), path, resume=True, updates=25)
    table = data.phrase_table
    assert other == f"Going on with the pairs that were prepared from {table}; other.gz is not read."
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_nothing_but_a_prepared_set_is_replaced(tsv, tmp_path):
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=f"{tmp_path}/prepared: found 'thesis.tex' in it, expected a prepared set"):
        train_tiny(tsv, tmp_path, updates=1)
    assert (tmp_path / "prepared" / "thesis.tex").read_text() == "years of work"


@pytest.mark.usefixtures("eager")
def test_an_input_that_cannot_be_used_is_named_and_leaves_nothing(training_files, tsv, tmp_path):
    def fails(data, *expected, **settings):
        with pytest.raises(InputError) as error:
            train_tiny(data, tmp_path / "m", **{"updates": 1, **settings})
        assert all(str(text) in str(error.value) for text in expected), error.value

    table, short = tmp_path / "table.gz", tmp_path / "short"
    data = TrainingData(phrase_table=table)
    table.write_bytes(gzip.compress(b"s1 ||| t1 ||| 1\ns1 ||| t1\n"))
    fails(data, f"{table}, line 2: found 2 fields", "--on_error=keep")
    table.write_bytes((training_files / "table.gz").read_bytes()[:-100])
    fails(data, f"{table}, line ", "expected a complete gzip file")
    table.write_bytes(b"")
    fails(data, f"{table}: found an empty file")
    fails(TrainingData(phrase_table=tmp_path), f"{tmp_path}: found a directory")
    table.write_bytes(b"s1 s2 ||| t1 ||| 1\n||| t1 ||| 1\n")
    expected = "found 2 pairs, of which 1 are longer than 1 words and 1 have an empty side", "raise --max_length"
    fails(data.replace(max_length=1), *expected)
    short.write_text("t1\n")
    data = TrainingData(source=training_files / "source", target=short)
    fails(data, f"{training_files}/source: found 400 lines, and 1 lines in {short}, expected as many in both")
    short.write_text("s3\ns1\ns3\n")
    expected = f"{short}, line 3: found 's3' again, as on line 1, expected distinct words"
    fails(tsv.replace(source_vocabulary=short), expected)
    assert not (tmp_path / "m").exists()
    (tmp_path / "tsv").write_text("s1\tt1\nno tab\n")
    data = TrainingData(tsv=tmp_path / "tsv")
    fails(data.replace(tokenize=True), f"{tmp_path}/tsv, line 2: found no tab")
    fails(tsv.replace(validation=(tmp_path / "tsv",)), f"{tmp_path}/tsv, line 2: found no tab")
    shutil.rmtree(tmp_path / "m")
    with pytest.raises(InputError, match=f"{table}/m: found a file where the path"):
        train_tiny(tsv, table / "m", updates=1)
    _, lines = train_tiny(data.replace(on_error="keep"), tmp_path / "m", updates=1)
    assert lines[0] == "1 unique pairs of 1; left out: 0 longer than 30 words, 0 with an empty side, 1 malformed."
    assert sorted(os.listdir(tmp_path)) == ["m", "short", "table.gz", "tsv"]


def test_a_checkpoint_that_is_spoilt_is_named(training_files, trained, tmp_path):
    model = shutil.copytree(trained[0].model_dir, tmp_path / "m")
    data = TrainingData(phrase_table=training_files / "table.gz")
    shutil.copy(model / "best.keras", model / "last.keras")
    with pytest.raises(InputError, match=f"{model}/last.keras: found no history of the training in it, expected a ch"):
        train_tiny(data, model, resume=True, updates=50)
    half = dict(rounds(model)[0], updates=1.5)
    spoilt = [{}, *({"rounds": found} for found in ([], [{}], ["a"], [half]))]
    for history in ((model / "history.json").read_text(), "[" * 100_000, *map(json.dumps, spoilt)):
        shutil.copy(model / "best.keras", model / "last.keras")
        with zipfile.ZipFile(model / "last.keras", "a") as archive:
            archive.writestr("history.json", history)
            archive.writestr("generator.npz", "of nothing")
        with pytest.raises(InputError, match=f"{model}/last.keras: found a history or a generator in it"):
            load_checkpoint(model)
    (model / "last.keras").write_bytes((trained[0].model_dir / "last.keras").read_bytes()[:-500])
    with pytest.raises(InputError, match=rf"{model}/last.keras: found a file that does not load \(.*train the model"):
        train_tiny(data, model, resume=True, updates=50)


@pytest.mark.usefixtures("eager")
def test_a_training_that_diverges_stops_and_keeps_what_was_good(tsv, tmp_path):
    path = tmp_path / "m"
    settings = {"round_updates": 2, "optimizer": "sgd", "clip_norm": 0}
    with pytest.raises(InputError, match="the training diverged: train again with a lower --learning_rate"):
        train_tiny(tsv, path, updates=10, **settings, learning_rate=1e30)
    assert not (path / "best.keras").exists()
    train_tiny(tsv, path, updates=4, **settings, learning_rate=0.001)
    with pytest.raises(InputError, match="diverged: go on from the round before with --resume and a lower --learn"):
        train_tiny(tsv, path, resume=True, updates=10, **settings, learning_rate=1e30)
    assert number_of_updates(path) == [2, 4]
    best = (path / "best.keras").read_bytes()
    # Steps that are too large, but not that much: the last model gets worse, and the best is kept.
    _, lines = train_tiny(tsv, path, resume=True, updates=6, **settings, learning_rate=0.3)
    assert any("after 4 updates" in line for line in lines) and (path / "best.keras").read_bytes() == best
    assert rounds(path)[-1]["val_perplexity"] > 20


@pytest.mark.usefixtures("eager")
def test_a_model_directory_of_the_first_version_is_gone_on_with(tsv, tmp_path):
    """It called the architecture by its cell."""
    settings = {"architecture": "recurrent", "model": {"cell": "gru", "layers": 1}}
    train_tiny(tsv, tmp_path, updates=2, **settings)
    config = json.loads((tmp_path / "config.json").read_text())
    config["training"] |= {"architecture": "gru", "language_model": False}
    config["model"] |= {"bidirectional": None, "source_words": 12, "target_words": 12}
    del config["architecture"], config["has_source"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="found cell=lstm, expected cell=gru as in the model to go on with"):
        train_tiny(tsv, tmp_path, resume=True, updates=4, architecture="recurrent", model={"layers": 1})
    result, _ = train_tiny(tsv, tmp_path, resume=True, updates=4, **settings)
    assert result.last.updates == 4


@pytest.mark.usefixtures("eager")
def test_a_full_disk_is_told(tsv, disk):
    settings = {"updates": 10, "model": {"units": 100}}
    tiny, small = disk("100k"), disk("900k")
    with pytest.raises(InputError, match=f"{tiny}/m/prepared: found the disk full.*free space"):
        train_tiny(tsv, tiny / "m", **settings)
    assert os.listdir(tiny) == []
    expected = "could not be written .No space left on device.; free space, then train again"
    with pytest.raises(InputError, match=f"{small}/m/last.keras: {expected}"):
        train_tiny(tsv, small / "m", **settings)
    assert not list((small / "m").glob(".partial*")) and not (small / "m" / "last.keras").exists()
