"""The training command: its flags, in this process, and how it is stopped, in a separate process."""

import json
import os
import pathlib
import shutil
import signal
import sys
import time
import types

import numpy as np
import pytest
from commands import Command, fail, succeed
from in_process import in_process
from tiny_trainings import QUICK, number_of_updates, rounds, train_tiny, training_flags

from keras_encdec.cli.train import COMMAND, configurations
from keras_encdec.model_directory import load_model
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingData
from keras_encdec.trainers.resumption import load_checkpoint

QUICK_FLAGS = [flag for flag in training_flags() if any(name in flag for name in QUICK)]


def train(*arguments):
    return in_process(COMMAND, *arguments)


@pytest.mark.usefixtures("eager")
def test_it_trains_and_resumes(training_files, tmp_path):
    flags = [f"--tsv={training_files}/tsv", f"--model_dir={tmp_path}/m", *training_flags()]
    process = succeed(train(*flags, "--updates=10"))
    assert process.stdout.startswith("400 unique pairs of 400; left out: 0") and process.stderr == ""
    assert f"per pair, after 10 updates: {tmp_path}/m\n" in process.stdout
    succeed(train(*flags, "--updates=20", "--resume"))
    assert number_of_updates(tmp_path / "m") == [10, 20]
    fail(
        train(*flags, "--updates=30"),
        2,
        f"found a model in {tmp_path}/m; give another --model_dir, or --resume",
    )
    process = succeed(train(*flags, "--updates=20", "--resume"))
    assert process.stdout.startswith("Nothing to train: the training has already ended. 20 updates, ")
    expected = "found --units=9, expected --units=8 as in the run to resume."
    changed = ["--units=9" if flag == "--units=8" else flag for flag in flags]
    fail(train(*changed, "--updates=30", "--resume"), 2, expected)
    fail(train(*flags, "--updates=30", "--resume", "--reverse"), 2, "expected none", f"{tmp_path}/m.")
    assert number_of_updates(tmp_path / "m") == [10, 20]


@pytest.mark.usefixtures("eager")
def test_a_further_training_has_its_own_end_and_pruning(training_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pruning = ["--gradual_pruning=0.5", "--pruning_scheme=class_uniform"]
    flags = [f"--tsv={training_files}/tsv", *training_flags(), "--round_updates=4", *pruning]
    succeed(train(*flags, "--model_dir=first", "--updates=4"))
    succeed(train("--initial_model=first", "--model_dir=more", "--epochs=1"))
    assert number_of_updates(tmp_path / "more")[-1] > 4
    assert "pruned_share" not in rounds(tmp_path / "more")[-1]
    succeed(train("--initial_model=first", "--model_dir=masked", "--updates=4", "--keep_pruned"))
    assert rounds(tmp_path / "masked")[-1]["pruned_share"] == pytest.approx(0.5, abs=0.01)
    succeed(train("--initial_model=masked", "--model_dir=dense"))
    assert number_of_updates(tmp_path / "dense") == [4], "without a flag, the end is that of the first training"
    assert "pruned_share" not in rounds(tmp_path / "dense")[-1]


def test_a_further_training_trains_the_words_that_the_first_kept(tmp_path):
    kept = '[training]\nupdates = 1\ninitial_model = "words"\nkeep_words = true\n'
    hybrid = 'architecture = "recurrent"\n[model]\nattention = "global"\ncharacters = "both"\n'
    (tmp_path / "settings.toml").write_text(f"{hybrid}{kept}")
    flag_values = COMMAND.flag_values()
    flag_values(["encdec-train", f"--initial_model={tmp_path}", "--model_dir=more"])
    config, _ = configurations(flag_values)
    assert config.model_config.characters == "both" and not config.keep_words


@pytest.mark.usefixtures("eager")
def test_a_wrong_initial_model_and_another_shortlist_are_found_at_once(training_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fail(train("--initial_model=none", "--model_dir=m", "--updates=1"), 1, "none: found no such directory")
    flags = [f"--tsv={training_files}/tsv", "--shortlist=9"]
    succeed(train(*flags, *training_flags(), "--updates=60", "--model_dir=first"))
    further = ["--initial_model=first", "--updates=1"]
    found = "found --shortlist=10 with --initial_model, whose vocabularies were made with --shortlist=9; drop"
    fail(train(*further, "--shortlist=10", "--model_dir=m"), 2, found)
    succeed(train(*further, "--shortlist=9", "--model_dir=m"))


@pytest.mark.usefixtures("eager")
def test_a_further_training_has_the_vocabularies_of_the_initial_model_and_may_read_other_pairs(
    training_files, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("".join(f"t{i}\n" for i in range(9)))
    flags = [f"--tsv={training_files}/tsv", "--target_vocabulary=words", *training_flags(), "--updates=1"]
    succeed(train(*flags, "--model_dir=first"))
    (tmp_path / "words").unlink()
    succeed(train("--initial_model=first", "--model_dir=more"))
    first, more = ((tmp_path / name / "target.vocab").read_text() for name in ("first", "more"))
    assert first == more
    succeed(train("--initial_model=first", f"--phrase_table={training_files}/table.gz", "--model_dir=other"))


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_needs_only_the_name_of_its_initial_model(training_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    succeed(train(f"--tsv={training_files}/tsv", "--model_dir=first", *training_flags(), "--updates=2"))
    further = ["--model_dir=m", "--resume"]
    succeed(train("--initial_model=first", *further, "--updates=4"))
    for updates, same in ((5, "first/"), (6, f"{tmp_path}/first"), (7, "./first")):
        succeed(train(f"--initial_model={same}", *further, f"--updates={updates}"))
    (tmp_path / "first").rename(tmp_path / "other")
    expected = f"found --initial_model=other, expected --initial_model={tmp_path}/first as in the run to resume."
    fail(train("--initial_model=other", *further, "--updates=8"), 2, expected)
    succeed(train("--initial_model=first", *further, "--updates=8"))
    assert number_of_updates(tmp_path / "m") == [4, 5, 6, 7, 8]
    new = [f"--tsv={training_files}/tsv", "--initial_model=first", "--model_dir=new", "--resume", "--updates=8"]
    fail(train(*new), 1, "first: found no such directory")


@pytest.mark.usefixtures("eager")
def test_flags_override_a_preset_in_any_order(training_files, tmp_path):
    (tmp_path / "my.flags").write_text("# mine\n--preset=cho2014_supplement\n--units=8\n--batch_size=16\n")
    flags = [f"--tsv={training_files}/tsv", *QUICK_FLAGS, "--updates=2"]
    succeed(train("--maxout_units=4", f"--flagfile={tmp_path}/my.flags", f"--model_dir={tmp_path}/m", *flags))
    config = json.loads((tmp_path / "m" / "config.json").read_text())["model"]
    expected = {"units": 8, "maxout_units": 4, "embedding_dim": 500, "output_rank": 500, "reset_after": True}
    assert {name: config[name] for name in expected} == expected
    assert rounds(tmp_path / "m")[0]["pairs"] == 32
    # The settings that a model keeps make another like it.
    succeed(train(f"--preset={tmp_path}/m/settings.toml", f"--model_dir={tmp_path}/again"))
    assert json.loads((tmp_path / "again" / "config.json").read_text())["model"] == config


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_does_not_need_its_input(training_files, tmp_path):
    tsv, tasks = tmp_path / "tsv", tmp_path / "tasks.toml"
    tasks.write_text('main = "a"\n[tasks.a]\nencoder = "e"\ndecoder = "d"\ntsv = "tsv"\n')
    for name, given in (("one", f"--tsv={tsv}"), ("several", f"--tasks={tasks}")):
        tsv.write_bytes((training_files / "tsv").read_bytes())
        model, flags = tmp_path / name, [given, *training_flags()]
        succeed(train(*flags, f"--model_dir={model}", "--updates=1"))
        tsv.unlink()
        succeed(train(*flags, f"--model_dir={model}", "--updates=2", "--resume"))
        assert number_of_updates(model) == [1, 2]
        fail(train(*flags, f"--model_dir={tmp_path}/new", "--updates=2", "--resume"), 1, "tsv", "found no")
        shutil.rmtree(model / "prepared")
        fail(train(*flags, f"--model_dir={model}", "--updates=3", "--resume"), 1, "tsv", "found no")


@pytest.mark.usefixtures("eager")
def test_the_settings_of_a_model_name_its_own_files_in_any_folder(training_files, tmp_path, monkeypatch):
    for project, lines in (("mine", slice(None)), ("yours", slice(50))):
        (tmp_path / project).mkdir()
        pairs = (training_files / "tsv").read_text().splitlines(keepends=True)[lines]
        (tmp_path / project / "pairs.tsv").write_text("".join(pairs))
        (tmp_path / project / "words").write_text("".join(f"t{i}\n" for i in range(len(pairs) // 40)))
    monkeypatch.chdir(tmp_path / "mine")
    flags = ["--tsv=pairs.tsv", "--target_vocabulary=words", "--validation=pairs.tsv", *training_flags()]
    succeed(train("--model_dir=m", *flags, "--updates=2"))
    monkeypatch.chdir(tmp_path / "yours")
    model = f"{tmp_path}/mine/m"
    process = succeed(train(f"--preset={model}/settings.toml", "--model_dir=m"))
    named = f"Training on the files that the settings name: {tmp_path}/mine/pairs.tsv\n400 unique pairs of 400; left"
    assert process.stdout.startswith(named)
    further = [f"--model_dir={model}", "--resume", f"--preset={model}/settings.toml"]
    assert "not read" not in succeed(train(*further, "--updates=4")).stdout
    expected = f"found --target_vocabulary=words, expected --target_vocabulary={tmp_path}/mine/words as in the run"
    fail(train(*further, "--target_vocabulary=words", "--updates=6"), 2, expected)
    # A copy of the whole project, beside the first one and without it.
    monkeypatch.chdir(shutil.copytree(tmp_path / "mine", tmp_path / "copied" / "mine"))
    assert "not read: pairs.tsv" in succeed(train("--model_dir=m", *flags, "--resume", "--updates=6")).stdout
    shutil.rmtree(tmp_path / "mine")
    assert "not read" not in succeed(train("--model_dir=m", *flags, "--resume", "--updates=8")).stdout
    # As the first versions wrote them, the paths start from the working directory of the run.
    settings = pathlib.Path("m/settings.toml")
    settings.write_text(settings.read_text().replace(f"{tmp_path}/mine/", ""))
    assert "not read" not in succeed(train("--model_dir=m", *flags, "--resume", "--updates=10")).stdout
    assert 'tsv = "pairs.tsv"' in settings.read_text() and number_of_updates(pathlib.Path("m")) == [2, 4, 6, 8, 10]
    fail(train("--preset=m/settings.toml", "--model_dir=new"), 1, "m/pairs.tsv: found no such file or directory")


def test_it_says_that_a_new_directory_hides_a_packaged_model(training_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = types.SimpleNamespace(signal=None)
    monkeypatch.setattr(sys.modules["keras_encdec.trainers.train"], "train", lambda *_, **__: done)
    flags = [f"--tsv={training_files}/tsv", "--updates=1"]
    for name in ("libreoffice_en_fr", "./libreoffice_en_fr/"):
        expected = f"The new directory {name} will hide the packaged model of this name from all commands that run in"
        assert succeed(train(*flags, f"--model_dir={name}")).stdout.startswith(expected)
    (tmp_path / "libreoffice_en_fr").mkdir()
    for name in ("libreoffice_en_fr", "new", "new/libreoffice_en_fr"):
        assert succeed(train(*flags, f"--model_dir={name}")).stdout == ""


def test_contradicting_flags_are_an_error_before_any_work(training_files, tmp_path):
    hint = "encdec-train --help lists the flags."
    model = [f"--model_dir={tmp_path}/m", "--updates=1"]
    table = [f"--phrase_table={training_files}/table.gz", *model]
    tsv = [f"--tsv={training_files}/tsv", *model]
    corpus = [f"--target={training_files}/target", *model, "--architecture=language_model"]
    for flags, sentence in [
        (["--updates=1"], "--model_dir is missing"),
        (
            model,
            "found no data to train on, expected one of --phrase_table, --tsv, --input, or --source with --target.",
        ),
        ([*table, "--tsv=x"], "found --phrase_table and --tsv, expected one of"),
        ([*model, "--source=x"], "found one of --source and --target, expected both."),
        (
            [*table, "--tokenize"],
            "found --tokenize with --phrase_table, whose text is tokenized already; drop --tokenize.",
        ),
        ([*tsv, "--lowercase"], "found --lowercase without --tokenize, expected both."),
        ([*tsv, "--pad_to=4,x"], "flag --pad_to=4,x: expected whole numbers in a list, 1 or more."),
        ([tsv[0], model[0]], "found nothing that says when the training ends; give one of --updates, --epochs, --min"),
        ([*tsv, "--epochs=0"], "flag --epochs=0: expected a number, above 0, 1e+09 or less."),
        ([*tsv, "--minutes=0"], "flag --minutes=0: expected a number, above 0, 1e+09 or less."),
        ([*tsv, "--updates=0"], "flag --updates=0: expected a whole number, 1 or more."),
        ([tsv[0], model[0], "--patience=1", "--schedule=cosine"], "found --schedule=cosine, expected --updates, --e"),
        (
            [*tsv, "--validation=a,b"],
            "found 2 files in --validation, expected 1 as for training.",
        ),
        ([*tsv, "--held_out_fraction=0", "--patience=2"], "found --patience without pairs to validate on"),
        ([*tsv, "--held_out_fraction=0", "--average_rounds=2"], "found --average_rounds without pairs"),
        ([*tsv, "--preset=large"], "found --preset='large', expected one of cho2014, cho2014_supplement, cslm"),
        ([*tsv, "--halving_start=2"], "found --halving_start with --schedule=constant, expected it with --sch"),
        (
            [*tsv, "--schedule=halving", "--halving_every=0"],
            "flag --halving_every=0: expected a number, 1e-06 or more.",
        ),
        ([*tsv, "--preset=small", "--halving_start=2"], "found --halving_start with --schedule=constant"),
        ([*tsv, "--architecture=recurrent", "--maxout_units=4"], "found --maxout_units with --architecture=recurrent"),
        ([*tsv, "--layers=3"], "--layers with --architecture=encdec, expected it with --architecture=recurrent or"),
        ([*tsv, "--architecture=lstm"], "found --architecture='lstm', expected one of encdec, recurrent, lang"),
        ([*corpus, "--source=x"], "found --source with --architecture=language_model, which has no source"),
        ([*corpus, "--preset=small_sentences", "--bidirectional=sum"], "found --bidirectional with --archit"),
    ]:
        fail(train(*flags), 2, sentence, hint)
    assert not (tmp_path / "m").exists()


def test_help_lists_the_flags():
    process = succeed(train("--help"))
    assert "learns p(target | source) from pairs" in process.stdout and process.stderr == ""
    assert "--phrase_table: Moses phrase table to train on" in process.stdout


@pytest.fixture(scope="module")
def program():
    command = Command("keras_encdec.cli.train", "encdec-train")
    yield command
    command.close()


def test_a_killed_run_resumes_with_the_same_result(program, training_files, tmp_path, eager):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    flags = [f"--phrase_table={training_files}/table.gz", *training_flags(round_updates=5)]
    process = program.installed(*flags, f"--model_dir={killed}", "--updates=1000000")
    while not (killed / "history.json").exists() or len(rounds(killed)) < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    done = number_of_updates(killed)
    assert done == [5 * (i + 1) for i in range(len(done))]
    # What the kill may have left half written is no obstacle.
    (killed / ".partial-last.keras").write_bytes(b"half")
    assert (killed / ".training.lock").exists()
    data, total = TrainingData(phrase_table=training_files / "table.gz"), done[-1] + 8
    _, lines = train_tiny(data, killed, resume=True, updates=total, round_updates=5)
    # After so few updates, it may say last that the model has not learned yet.
    assert any(line.startswith(f"{total:,} updates, ") for line in lines) and not any("unique" in x for x in lines)
    train_tiny(data, whole, updates=total, round_updates=5)
    for name in ("ids.i32", "lengths.u16", "starts.i64"):
        assert (killed / "prepared" / name).read_bytes() == (whole / "prepared" / name).read_bytes()
    assert number_of_updates(whole) == number_of_updates(killed)
    for one, other in zip(rounds(killed), rounds(whole), strict=True):
        for value in ("perplexity", "val_perplexity"):
            assert one[value] == pytest.approx(other[value], rel=1e-4), one["updates"]
    weights = [load_model(path / "last.keras").get_weights() for path in (killed, whole)]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert not list(killed.glob(".*"))


def test_a_terminated_run_keeps_its_checkpoint_and_resumes(program, signals_obeyed, training_files, tmp_path):
    flags = [f"--tsv={training_files}/tsv", f"--model_dir={tmp_path}/m", *training_flags(round_updates=100_000)]
    process = program.installed(*flags, "--minutes=60")
    progress = tmp_path / "m" / "progress.json"  # written every two seconds
    while not progress.exists() or not json.loads(progress.read_text())["done"]:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)  # until it is in the middle of the first round
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 129, errors
    # On a slow machine it says first that it is about to stop.
    assert errors.endswith("Stopped by a signal; run the same command with --resume to continue.\n")
    done = load_checkpoint(tmp_path / "m").progress
    assert done.updates > 0 and not done.rounds and not (tmp_path / "m" / "history.json").exists()
    assert TextScorer(tmp_path / "m").score([(["s1"], ["t1"])]).shape == (1,)
    succeed(train(*flags, "--resume", f"--updates={done.updates + 7}"))
    assert number_of_updates(tmp_path / "m") == [done.updates + 7]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="it is told from /proc what a process has loaded")
def test_an_interrupt_while_it_starts_is_one_sentence(program, training_files, tmp_path):
    process = program.installed(f"--tsv={training_files}/tsv", f"--model_dir={tmp_path}/m", "--updates=1")
    while "numpy" not in pathlib.Path(f"/proc/{process.pid}/maps").read_text():  # of the first that Keras imports
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert errors == "encdec-train: interrupted; no unfinished output is left.\n"
    assert not (tmp_path / "m").exists()
