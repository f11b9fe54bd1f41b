"""Tests of the training command, each run in a process of its own."""

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import keras
import numpy as np
import pytest
from commands import Command, fail, succeed

from keras_encdec.data import Batches, PreparedPairs
from keras_encdec.scoring import ModelDirectory, TextScorer, load_model

SIZES = {"embedding_dim": 4, "units": 8, "maxout_units": 4, "output_rank": 4}
SMALL = [f"--{name}={value}" for name, value in SIZES.items()]
FLAGS = [*SMALL, "--optimizer=adam", "--learning_rate=0.02", "--batch_size=16", "--round_updates=10", "--seed=5"]
# What starts soonest: no XLA where there is a choice, else one shape of batch.
QUICK = ["--jit_compile=false" if keras.backend.backend() == "tensorflow" else "--pad_to=8", "--notensorboard"]
PAIRS = 400


def phrases():
    """Pairs where a source word s7 is always a target word t7; a few are there twice."""
    choose = random.Random(0)
    made = {}
    while len(made) < PAIRS:
        numbers = [choose.randrange(12) for _ in range(choose.randint(1, 6))]
        made[" ".join(f"s{i}" for i in numbers)] = " ".join(f"t{i}" for i in numbers)
    return list(made.items())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The pairs as each kind of input, and a phrase table with what is to be left out."""
    folder = tmp_path_factory.mktemp("data")
    pairs = phrases()
    lines = [f"{source} ||| {target} ||| 0.5 0.5 ||| 0-0\n" for source, target in pairs]
    lines += lines[:30] + [f"{'s1 ' * 31} ||| t1 ||| 1 1\n", "||| t1 ||| 1 1\n"]
    (folder / "table.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (folder / "tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (folder / "source").write_text("".join(f"{source.upper()}.\n" for source, _ in pairs))
    (folder / "target").write_text("".join(f"{target}!\n" for _, target in pairs))
    return folder


@pytest.fixture(scope="module")
def trained(train, data, tmp_path_factory):
    """What the installed command makes of the phrase table by default, and what it says."""
    path = tmp_path_factory.mktemp("trained") / "new" / "model"
    flags = [f"--phrase_table={data}/table.gz", f"--model_dir={path}", "--updates=25", "--pad_to=8"]
    process = train.installed(*flags, *FLAGS)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors == ""
    return path, output


def rounds(path):
    return json.loads((path / "history.json").read_text())["rounds"]


def number_of_updates(path):
    return [one["updates"] for one in rounds(path)]


def weights(path, name="last.keras"):
    return load_model(path / name).get_weights()


def assert_same_weights(one, other, atol=1e-5):
    for a, b in zip(weights(one), weights(other), strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


def test_it_says_what_it_made(trained):
    path, output = trained
    assert output.splitlines()[:4] == [
        "400 unique pairs of 432; left out: 1 longer than 30 words, 1 with an empty side, 0 malformed.",
        "source: 12 words in the shortlist; 0.00 % of the tokens are other words.",
        "target: 12 words in the shortlist; 0.00 % of the tokens are other words.",
        "1,339 weights.",
    ]
    best = r"Best held-out perplexity [\d.]+ per token, log-likelihood -[\d.]+ per pair, after (10|20|25) updates"
    assert re.fullmatch(rf"25 updates, 400 pairs in \d+ s. {best}: {path}", output.splitlines()[4])
    compiling = [r"Compiling took \d+ s of it; shapes of batches: [1-9]\."] * (keras.backend.backend() == "tensorflow")
    assert all(map(re.fullmatch, compiling, output.splitlines()[5:])) and len(output.splitlines()) == 5 + len(compiling)


def test_the_history_has_every_round_and_the_best_is_kept(trained):
    path, _ = trained
    history = rounds(path)
    assert [one["updates"] for one in history] == [10, 20, 25]
    assert [one["pairs"] for one in history] == [160, 320, 400]
    seconds = [one["seconds"] for one in history]
    assert seconds == sorted(seconds) and all(one["learning_rate"] == pytest.approx(0.02) for one in history)
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
    path, _ = trained
    copy = shutil.copytree(path, tmp_path / "elsewhere")
    shutil.rmtree(copy / "prepared")
    (copy / "last.keras").unlink()
    config = json.loads((copy / "config.json").read_text())
    expected = {"source_words": 12, "target_words": 12, **SIZES, "reset_after": False, "dtype": "float32"}
    assert {name: config["model"][name] for name in expected} == expected
    assert "--learning_rate=0.02" in (copy / "flags.txt").read_text().splitlines()
    pairs = [(["s1", "s2"], ["t1", "t2"]), ([], ["other"])]
    expected = TextScorer(path).score(pairs)
    assert (expected < 0).all()
    (tmp_path / "pairs").write_text("s1 s2\tt1 t2\n\tother\n")
    score = Command("keras_encdec.cli.score", "encdec-score")
    flags = [f"--model_dir={copy}", f"--input={tmp_path}/pairs", f"--output={tmp_path}/scored", "--format=tsv"]
    succeed(score(*flags))
    score.close()
    scores = [float(line.split("\t")[2]) for line in (tmp_path / "scored").read_text().splitlines()]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others have one way to compile")
def test_low_precision_trains_without_xla_and_goes_on(train, data, tmp_path):
    """bfloat16 on a CPU: only the optimizer is compiled by XLA."""
    flags = [*FLAGS, f"--tsv={data}/tsv", f"--model_dir={tmp_path}/model", "--dtype_policy=mixed_bfloat16"]
    succeed(train(*flags, "--updates=10", "--notensorboard"))
    succeed(train(*flags, "--updates=20", "--notensorboard", "--resume"))
    history = rounds(tmp_path / "model")
    assert [one["updates"] for one in history] == [10, 20] and history[1]["perplexity"] < history[0]["perplexity"]


def test_a_killed_training_goes_on_as_if_nothing_had_been(train, data, tmp_path):
    flags = [f"--phrase_table={data}/table.gz", *FLAGS, *QUICK]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = train.installed(*flags, f"--model_dir={killed}", "--updates=1000000")
    while not (killed / "history.json").exists() or len(rounds(killed)) < 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    done = number_of_updates(killed)
    assert done == [10 * (i + 1) for i in range(len(done))]
    # What the kill may have left half written is no obstacle.
    (killed / ".partial-last.keras").write_bytes(b"half")
    total = f"--updates={done[-1] + 25}"
    resumed = succeed(train(*flags, f"--model_dir={killed}", total, "--resume"))
    assert resumed.stdout.startswith(f"{done[-1] + 25:,} updates, ")
    succeed(train(*flags, f"--model_dir={whole}", total))
    for name in ("ids.i32", "lengths.u16", "starts.i64"):
        assert (killed / "prepared" / name).read_bytes() == (whole / "prepared" / name).read_bytes()
    assert number_of_updates(whole) == number_of_updates(killed)
    for one, other in zip(rounds(killed), rounds(whole), strict=True):
        for value in ("perplexity", "val_perplexity"):
            assert one[value] == pytest.approx(other[value], rel=1e-4), one["updates"]
    assert_same_weights(killed, whole, atol=1e-4)
    assert not list(killed.glob(".partial*"))


def test_a_terminated_training_keeps_what_it_has_and_goes_on(train, data, tmp_path):
    flags = [f"--tsv={data}/tsv", f"--model_dir={tmp_path}/m", *FLAGS, *QUICK, "--round_updates=100000"]
    process = train.installed(*flags, "--minutes=60")
    while not (tmp_path / "m" / "config.json").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    time.sleep(2)  # in the middle of the first round
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 143, errors
    assert errors == "Stopped by a signal; the same command with --resume goes on from here.\n"
    (first,) = rounds(tmp_path / "m")
    assert first["updates"] > 0 and "val_perplexity" in first
    assert TextScorer(tmp_path / "m").score([(["s1"], ["t1"])]).shape == (1,)
    succeed(train(*flags, "--resume", f"--updates={first['updates'] + 7}"))
    assert rounds(tmp_path / "m")[0] == first
    assert number_of_updates(tmp_path / "m") == [first["updates"], first["updates"] + 7]


def test_low_precision_a_schedule_and_another_optimizer_go_on_too(train, data, tmp_path):
    flags = [f"--tsv={data}/tsv", f"--model_dir={tmp_path}/m", *FLAGS, *QUICK, "--schedule=linear", "--optimizer=sgd"]
    flags += ["--dtype_policy=mixed_float16", "--round_updates=20"]
    succeed(train(*flags, "--updates=40"))
    succeed(train(*flags, "--updates=60", "--resume"))
    assert number_of_updates(tmp_path / "m") == [20, 40, 60]
    # The step size of a round's last update: of the share of the training that was done then.
    rates = [one["learning_rate"] for one in rounds(tmp_path / "m")]
    assert rates == pytest.approx([0.02 * (1 - 19 / 40), 0.02 * (1 - 39 / 40), 0.02 * (1 - 59 / 60)], rel=0.011)
    assert load_model(tmp_path / "m" / "best.keras").dtype_policy.name == "mixed_float16"


def test_the_same_seed_gives_the_same_training_and_another_another(train, data, trained, tmp_path):
    path, _ = trained
    flags = [f"--phrase_table={data}/table.gz", *FLAGS, *QUICK, "--updates=10"]
    succeed(train(*flags, f"--model_dir={tmp_path}/same"))
    succeed(train(*flags, f"--model_dir={tmp_path}/other", "--seed=6"))
    paths = path, tmp_path / "same", tmp_path / "other"
    first, same, other = (PreparedPairs(p / "prepared").padded(np.arange(4))["source"].tolist() for p in paths)
    assert first == same != other, "the pairs held out"
    # With XLA or without it: the same weights to begin with, and the same batches.
    first, same, other = (rounds(p)[0] for p in paths)
    for value in ("perplexity", "val_perplexity"):
        assert same[value] == pytest.approx(first[value], rel=1e-4)
        assert abs(other[value] - first[value]) > 1e-3


def test_training_ends_where_it_is_told_to(train, data, tmp_path):
    flags = [f"--tsv={data}/tsv", *FLAGS, *QUICK]
    # 396 pairs in batches of 16 are 24 updates an epoch.
    succeed(train(*flags, f"--model_dir={tmp_path}/epochs", "--epochs=1.5"))
    assert number_of_updates(tmp_path / "epochs") == [10, 20, 30, 36]
    limits = ["--epochs=1.5", "--updates=7", "--minutes=9"]
    process = succeed(train(*flags, f"--model_dir={tmp_path}/first", *limits, "--held_out_fraction=0"))
    assert number_of_updates(tmp_path / "first") == [7]
    # Without pairs held out the training perplexity decides which model is best.
    assert "Best perplexity" in process.stdout and "val_perplexity" not in rounds(tmp_path / "first")[0]
    started = time.monotonic()
    process = succeed(train(*flags, f"--model_dir={tmp_path}/minutes", "--minutes=0.05", "--round_updates=100000"))
    assert 3 <= rounds(tmp_path / "minutes")[-1]["seconds"] <= time.monotonic() - started
    assert len(rounds(tmp_path / "minutes")) == 1 and "updates, " in process.stdout
    # A step size of 0 never betters the first round.
    succeed(train(*flags, f"--model_dir={tmp_path}/patience", "--patience=2", "--learning_rate=0"))
    assert number_of_updates(tmp_path / "patience") == [10, 20, 30]


def test_reverse_swaps_the_sides_and_given_vocabularies_are_kept(train, data, tmp_path):
    (tmp_path / "v").write_text("t3\nt1\n")
    flags = [f"--tsv={data}/tsv", f"--model_dir={tmp_path}/m", *FLAGS, *QUICK, f"--source_vocabulary={tmp_path}/v"]
    succeed(train(*flags, "--reverse", "--updates=1"))
    directory = ModelDirectory.load(tmp_path / "m")
    assert directory.reverse
    assert directory.source_vocabulary.words == ["t3", "t1"]
    assert set(directory.target_vocabulary.words) == {f"s{i}" for i in range(12)}
    fail(train(*flags, "--resume", "--updates=20"), 2, f"{tmp_path}/m was trained with --reverse.")


def test_raw_parallel_text_is_tokenized_and_validated_on_files(train, data, tmp_path):
    pytest.importorskip("tensorflow_text")
    (tmp_path / "source").write_text("S1 s2.\ns3\n\n")
    (tmp_path / "target").write_text("T1 t2!\nt3 t4\nt5\n")
    flags = [f"--source={data}/source", f"--target={data}/target", "--tokenize", "--lowercase", *FLAGS, *QUICK]
    flags += [f"--model_dir={tmp_path}/m", f"--validation={tmp_path}/source,{tmp_path}/target", "--shortlist=12"]
    process = succeed(train(*flags, "--updates=20"))
    assert "400 unique pairs of 400" in process.stdout and "shortlist; 4." in process.stdout
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


def test_a_preset_is_a_flag_file_that_flags_override(train, data, tmp_path):
    (tmp_path / "my.flags").write_text("# mine\n--preset=cho2014_supplement\n--units=8\n--batch_size=16\n")
    flags = [f"--tsv={data}/tsv", *QUICK, "--updates=2"]
    succeed(train("--maxout_units=4", f"--flagfile={tmp_path}/my.flags", f"--model_dir={tmp_path}/m", *flags))
    config = json.loads((tmp_path / "m" / "config.json").read_text())["model"]
    expected = {"units": 8, "maxout_units": 4, "embedding_dim": 500, "output_rank": 500, "reset_after": True}
    assert {name: config[name] for name in expected} == expected
    assert rounds(tmp_path / "m")[0]["pairs"] == 32
    # The flags that a model keeps make another like it.
    again = [f"--flagfile={tmp_path}/m/flags.txt", f"--model_dir={tmp_path}/again"]
    succeed(train(*again))
    assert json.loads((tmp_path / "again" / "config.json").read_text())["model"] == config


def test_an_existing_model_is_not_overwritten(train, data, trained):
    path, _ = trained
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    flags = [f"--phrase_table={data}/table.gz", f"--model_dir={path}", *FLAGS]
    fail(train(*flags, "--updates=1"), 2, f"{path} holds a model already; give another --model_dir, or --resume")
    process = train(*flags, "--updates=25", "--resume")
    fail(process, 1, f"{path}: found 25 updates made, expected fewer than the training is to have; raise --updates")
    process = train(*flags, "--updates=50", "--resume", "--units=9")
    fail(process, 2, "found --units=9, expected --units=8 as in the model to go on with.")
    process = train(*flags, "--updates=50", "--resume", "--batch_size=32", "--optimizer=sgd")
    expected = "expected --batch_size=16, --optimizer=adam as in the model to go on with."
    fail(process, 2, f"found --batch_size=32, --optimizer=sgd, {expected}")
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_nothing_but_a_prepared_set_is_replaced(train, data, tmp_path):
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "thesis.tex").write_text("years of work")
    process = train(f"--tsv={data}/tsv", f"--model_dir={tmp_path}", *FLAGS, *QUICK, "--updates=1")
    fail(process, 1, f"{tmp_path}/prepared: found 'thesis.tex' in it, expected a prepared set, an empty directory")
    assert (tmp_path / "prepared" / "thesis.tex").read_text() == "years of work"


def test_flags_that_contradict_are_told_before_anything_is_done(train, data, tmp_path):
    hint = "encdec-train --help lists the flags."
    model = [f"--model_dir={tmp_path}/m", "--updates=1"]
    table = [f"--phrase_table={data}/table.gz", *model]
    tsv = [f"--tsv={data}/tsv", *model]
    for flags, sentence in [
        (["--updates=1"], "--model_dir must have a value"),
        (model, "found none, expected one of --phrase_table, --tsv, or --source with --target."),
        ([*table, "--tsv=x"], "found --phrase_table and --tsv, expected one of"),
        ([*model, "--source=x"], "found one of --source and --target, expected both."),
        ([*table, "--tokenize"], "found --tokenize with --phrase_table, which holds tokens already; drop --tokenize."),
        ([*tsv, "--lowercase"], "found --lowercase without --tokenize: text in tokens is taken as it is."),
        ([*tsv, "--pad_to=4,x"], "found --pad_to=4,x, expected whole numbers of tokens."),
        ([f"--tsv={data}/tsv", model[0]], "found no end to the training, expected --updates, --epochs, --minutes or"),
        ([*tsv, "--epochs=0"], "found --epochs=0, expected more than 0."),
        ([*tsv, "--minutes=0"], "found --minutes=0, expected more than 0."),
        ([*tsv, "--updates=0"], "0 is not a positive integer."),
        ([f"--tsv={data}/tsv", model[0], "--patience=1", "--schedule=cosine"], "found --schedule=cosine, expected"),
        ([*tsv, "--validation=a,b"], "found 2 files in --validation, expected 1 as for training."),
        ([*tsv, "--held_out_fraction=0", "--patience=2"], "found --patience without pairs to validate on"),
        ([*tsv, "--preset=large"], "value should be one of <cho2014|cho2014_supplement|luong2015|small"),
        ([*tsv, "--flagfile=/none"], "/none"),
        ([*tsv, "table.gz"], "found the argument 'table.gz', expected flags only."),
    ]:
        fail(train(*flags), 2, sentence, hint)
    assert not (tmp_path / "m").exists()


def test_an_input_that_cannot_be_used_is_named_and_leaves_nothing(train, data, tmp_path):
    flags = [f"--model_dir={tmp_path}/m", *FLAGS, *QUICK, "--updates=1"]
    table = tmp_path / "table.gz"
    table.write_bytes(gzip.compress(b"s1 ||| t1 ||| 1\ns1 ||| t1\n"))
    fail(train(f"--phrase_table={table}", *flags), 1, f"{table}, line 2: found 2 fields", "--on_error=keep")
    table.write_bytes((data / "table.gz").read_bytes()[:-100])
    fail(train(f"--phrase_table={table}", *flags), 1, f"{table}, line ", "expected a complete gzip file")
    table.write_bytes(b"")
    fail(train(f"--phrase_table={table}", *flags), 1, f"{table}: found an empty file")
    fail(train(f"--phrase_table={tmp_path}", *flags), 1, f"{tmp_path}: found a directory")
    table.write_bytes(b"s1 s2 ||| t1 ||| 1\n||| t1 ||| 1\n")
    process = train(f"--phrase_table={table}", *flags, "--max_length=1")
    fail(process, 1, "found 2 pairs, of which 1 are longer than 1 words and 1 have an empty side", "raise --max_length")
    (tmp_path / "short").write_text("t1\n")
    process = train(f"--source={data}/source", f"--target={tmp_path}/short", *flags)
    fail(process, 1, f"{data}/source: found 400 lines, and 1 lines in {tmp_path}/short, expected as many in both")
    (tmp_path / "short").write_text("s3\ns1\ns3\n")
    process = train(f"--tsv={data}/tsv", *flags, f"--source_vocabulary={tmp_path}/short")
    fail(process, 1, f"{tmp_path}/short, line 3: found 's3' again, as on line 1, expected distinct words")
    assert not (tmp_path / "m").exists()
    (tmp_path / "tsv").write_text("s1\tt1\nno tab\n")
    fail(train(f"--tsv={tmp_path}/tsv", "--tokenize", *flags), 1, f"{tmp_path}/tsv, line 2: found no tab")
    process = train(f"--tsv={data}/tsv", f"--validation={tmp_path}/tsv", *flags)
    fail(process, 1, f"{tmp_path}/tsv, line 2: found no tab")
    shutil.rmtree(tmp_path / "m")
    fail(train(f"--tsv={data}/tsv", *flags, "--resume"), 1, f"{tmp_path}/m: found no model to go on with")
    fail(train(f"--tsv={data}/tsv", *flags, f"--model_dir={table}/m"), 1, f"{table}/m: found a file where the path")
    process = succeed(train(f"--tsv={tmp_path}/tsv", "--on_error=keep", *flags))
    assert "1 unique pairs of 1; left out: 0 longer than 30 words, 0 with an empty side, 1 malformed." in process.stdout
    assert sorted(os.listdir(tmp_path)) == ["m", "short", "table.gz", "tsv"]


def test_a_checkpoint_that_is_spoilt_is_named(train, data, trained, tmp_path):
    model = shutil.copytree(trained[0], tmp_path / "m")
    flags = [f"--phrase_table={data}/table.gz", f"--model_dir={model}", *FLAGS, *QUICK, "--updates=50", "--resume"]
    shutil.copy(model / "best.keras", model / "last.keras")
    fail(train(*flags), 1, f"{model}/last.keras: found no history of the training in it, expected a checkpoint")
    (model / "last.keras").write_bytes((trained[0] / "last.keras").read_bytes()[:-500])
    fail(train(*flags), 1, f"{model}/last.keras: found a file that does not load (", "train the model again, or copy")


def test_a_training_that_diverges_stops_and_keeps_what_was_good(train, data, tmp_path):
    flags = [f"--tsv={data}/tsv", f"--model_dir={tmp_path}/m", *SMALL, *QUICK, "--batch_size=16", "--round_updates=2"]
    wild = ["--optimizer=sgd", "--learning_rate=1e30", "--clip_norm=0"]
    process = train(*flags, *wild, "--updates=10")
    assert "the training diverged: train again with a lower --learning_rate." in process.stderr
    assert process.returncode == 1 and "Traceback" not in process.stderr
    assert not (tmp_path / "m" / "best.keras").exists()
    succeed(train(*flags, "--optimizer=sgd", "--learning_rate=0.001", "--clip_norm=0", "--updates=4"))
    process = train(*flags, *wild, "--updates=10", "--resume")
    assert "the training diverged: go on from the round before with --resume and a lower --learn" in process.stderr
    assert process.returncode == 1 and number_of_updates(tmp_path / "m") == [2, 4]
    best = (tmp_path / "m" / "best.keras").read_bytes()
    # Steps that are too large, but not that much: the last model gets worse, and the best is kept.
    mild = ["--optimizer=sgd", "--learning_rate=0.3", "--clip_norm=0"]
    process = succeed(train(*flags, *mild, "--updates=6", "--resume"))
    assert "after 4 updates" in process.stdout and (tmp_path / "m" / "best.keras").read_bytes() == best
    assert rounds(tmp_path / "m")[-1]["val_perplexity"] > 20


@pytest.fixture
def disk(tmp_path):
    """Makes a disk of some size; a function of it."""
    mounted = []

    def make(size):
        folder = tmp_path / size
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("mounting a small disk needs root")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told(train, data, disk):
    flags = [f"--tsv={data}/tsv", *FLAGS, *QUICK, "--updates=10", "--units=100"]
    tiny, small = disk("100k"), disk("900k")
    fail(train(*flags, f"--model_dir={tiny}/m"), 1, f"{tiny}/m/prepared: found the disk full", "free space")
    assert os.listdir(tiny) == []
    process = train(*flags, f"--model_dir={small}/m")
    sentence = "could not be written (No space left on device); free space, then train again."
    fail(process, 1, f"{small}/m/last.keras: {sentence}")
    assert not list((small / "m").glob(".partial*")) and not (small / "m" / "last.keras").exists()


def test_help_lists_the_flags(train):
    process = succeed(train("--help"))
    assert "learns p(target | source) from pairs" in process.stdout and process.stderr == ""
    assert "--phrase_table: Moses phrase table to train on" in process.stdout
