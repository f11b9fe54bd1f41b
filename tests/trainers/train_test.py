"""Training as a function."""

import json
import re
import shutil
import threading
import tracemalloc
import warnings

import keras
import numpy as np
import pytest
from in_process import in_process
from tiny_trainings import SIZES, number_of_updates, rounds, train_tiny

from keras_encdec.cli.score import COMMAND
from keras_encdec.data import Batches, PreparedPairs
from keras_encdec.data.prepare import prepare
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingReporter, TrainingRound, train
from keras_encdec.trainers.preparation import unigram_perplexity, validation_batches


def test_a_run_reports_its_data_rounds_and_result(trained):
    result, lines = trained
    backend = keras.backend.backend()
    compiling = [line for line in lines if "ompiling" in line and "has taken" not in line]
    if backend == "torch":
        assert not compiling
    else:
        shape = r"Compiling for batches of 16 x (\d+) source words and 16 x (\d+) target words\."
        widths = [re.fullmatch(shape, line).groups() for line in compiling[:-1]]
        sizes = [int(source) + int(target) for source, target in widths]
        assert sizes and len(set(widths)) == len(widths) and sizes == sorted(sizes, reverse=True)
        took = f"Compiling {len(sizes)} batch shapes? took a further \\d+ s\\."
        assert re.fullmatch(took, compiling[-1])
    assert (result.compile_seconds > 0) == (backend in ("tensorflow", "jax"))
    # On a slow machine, updates and long waits are reported, too.
    slow = re.compile(r"\d+ updates, [\d,]+ pairs/s|(Update \d+|Compiling|The validation) has taken")
    lines = [line for line in lines if line not in compiling and not slow.match(line)]
    assert lines[:5] == [
        "400 unique pairs of 432; left out: 1 longer than 30 words, 1 with an empty side, 0 malformed.",
        "source: 12 words in the shortlist; 0.00 % of the words in the text are outside it.",
        "target: 12 words in the shortlist; 0.00 % of the words in the text are outside it.",
        "All words of the source and the target are in the shortlist. So the unknown word is never trained, and pairs "
        "with new words will get very low scores; a smaller --shortlist avoids this.",
        "1,339 weights.",
    ]
    a_round = r"Round {}: {} updates, [\d.]+ epochs, {} pairs, [\d,]+ pairs/s; perplexity [\d.]+, held-out [\d.]+; \d.*"
    for line, numbers in zip(lines[5:8], [(1, 10, 160), (2, 20, 320), (3, 25, 400)], strict=True):
        assert re.fullmatch(a_round.format(*numbers), line), line
    best = r"Best held-out perplexity [\d.]+ per token, log-likelihood -[\d.]+ per pair, after (10|20|25) updates"
    assert re.fullmatch(rf"25 updates, 400 pairs in \d+ s. {best}: {result.model_dir}", lines[8])
    assert len(lines) == 9


def test_the_result_matches_the_saved_history(trained):
    result, _ = trained
    assert result.rounds == tuple(map(TrainingRound.from_dict, rounds(result.model_dir)))
    assert result.best == min(result.rounds, key=lambda round_: round_.val_perplexity)
    assert result.last.updates == 25 and result.signal is None and result.seconds >= result.last.seconds > 0
    assert (result.compiled_shapes > 0) == (keras.backend.backend() != "torch")


def test_the_history_has_every_round_and_the_best_is_kept(trained):
    path, history = trained[0].model_dir, rounds(trained[0].model_dir)
    assert [entry["updates"] for entry in history] == [10, 20, 25]
    assert [entry["pairs"] for entry in history] == [160, 320, 400]
    seconds = [entry["seconds"] for entry in history]
    assert seconds == sorted(seconds) and all(entry["learning_rate"] == pytest.approx(0.02) for entry in history)
    # At first, the norm of the gradient, summed over 16 pairs, exceeds the bound, 1.
    assert all(entry["gradient_norm"] > 0 and 0 <= entry["clipped_share"] <= 1 for entry in history)
    assert history[0]["clipped_share"] == 1 and history[0]["gradient_norm"] > 1
    assert history[-1]["perplexity"] < history[0]["perplexity"] < 15
    # The first hundredth of the prepared pairs is held out.
    held_out = Batches(PreparedPairs(path / "prepared"), 64, range(4)).once()
    best = min(history, key=lambda entry: entry["val_perplexity"])
    for name, of in (("best.keras", best), ("last.keras", history[-1])):
        model = load_model(path / name)
        tokens = sum(int((batch["target"] != 0).sum()) for batch in held_out)
        total = sum(float(keras.ops.sum(model.score(batch["source"], batch["target"]))) for batch in held_out)
        assert np.exp(-total / tokens) == pytest.approx(of["val_perplexity"], rel=1e-4)
        assert total / 4 == pytest.approx(of["val_log_likelihood"], rel=1e-4)
    assert list((path / "logs" / "train").iterdir()) and list((path / "logs" / "validation").iterdir())


def test_scoring_needs_only_the_model_directory(trained, tmp_path):
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
def test_the_saved_settings_repeat_the_training(tsv, tmp_path):
    model = {"maxout_units": 3}
    first, _ = train_tiny(tsv, tmp_path / "first", updates=2, model=model, learning_rate=0.0125)
    settings = tmp_path / "first" / "settings.toml"
    config, data = TrainingConfig.from_preset(settings), TrainingData.from_preset(settings)
    assert data == tsv and config.learning_rate == 0.0125 and config.model.maxout_units == 3
    again = train(config, data, tmp_path / "again", reporter=TrainingReporter(lambda line: None))
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("first", "again")]
    for config in configs:
        assert config["sha256"].pop("best.keras")  # differs: the file has the time when it was written
    assert configs[0] == configs[1]
    assert again.best.val_perplexity == pytest.approx(first.best.val_perplexity, rel=1e-4)


def test_concurrent_runs_give_the_results_of_separate_runs(tsv, tmp_path, request):
    settings = {"half": {"dtype_policy": "mixed_bfloat16"}, "wide": {"model": {"units": 12}, "seed": 6}}
    for each in settings.values():  # the model that is traced fastest
        each |= {"architecture": "recurrent", "model": {"cell": "rnn", "layers": 1, **each.get("model", {})}}
    policy, results = keras.config.dtype_policy().name, {}

    def run(name, folder):
        results[name, folder] = train_tiny(tsv, tmp_path / folder / name, updates=5, **settings[name])[0]

    threads = [threading.Thread(target=run, args=(name, "beside")) for name in settings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    request.getfixturevalue("eager")  # after the concurrent runs, which are traced
    for name in settings:
        run(name, "alone")
    for name in settings:
        alone, beside = results[name, "alone"], results[name, "beside"]
        assert beside.last.val_perplexity == pytest.approx(alone.last.val_perplexity, rel=1e-3), name
    assert load_model(tmp_path / "beside" / "half" / "best.keras").dtype_policy.name == "mixed_bfloat16"
    assert keras.config.dtype_policy().name == policy


def test_the_seed_determines_the_training(training_files, trained, tmp_path, request):
    data = TrainingData(phrase_table=training_files / "table.gz")
    request.getfixturevalue("eager")  # unlike the first run
    train_tiny(data, tmp_path / "same", updates=10)
    train_tiny(data, tmp_path / "other", updates=10, seed=6)
    paths = trained[0].model_dir, tmp_path / "same", tmp_path / "other"
    first, same, other = (PreparedPairs(path / "prepared").padded(np.arange(4))["source"].tolist() for path in paths)
    assert first == same != other, "the pairs held out"
    # Compiled or not, the run begins with the same weights and has the same batches.
    first, same, other = (rounds(path)[0] for path in paths)
    for value in ("perplexity", "val_perplexity"):
        assert same[value] == pytest.approx(first[value], rel=1e-4)
        assert abs(other[value] - first[value]) > 1e-3


def test_the_share_of_the_pairs_held_out_is_exact(trained, tsv):
    path = trained[0].model_dir
    pairs, directory = PreparedPairs(path / "prepared"), ModelDirectory.open(path)
    data = tsv.replace(held_out_fraction=0.07)  # 0.07 * 400 is a little more than 28
    _, indices = validation_batches(TrainingConfig(updates=1), data, directory, pairs)
    assert indices == range(28, 400)


@pytest.mark.usefixtures("eager")
def test_training_ends_at_each_kind_of_limit(tsv, tmp_path):
    # 396 pairs in batches of 130 are 3 updates an epoch.
    settings = {"batch_size": 130, "round_updates": 2}
    train_tiny(tsv, tmp_path / "epochs", epochs=1.6, **settings)
    assert number_of_updates(tmp_path / "epochs") == [2, 4, 5]
    data = tsv.replace(held_out_fraction=0)
    _, lines = train_tiny(data, tmp_path / "first", epochs=1.6, updates=1, minutes=9, **settings)
    assert number_of_updates(tmp_path / "first") == [1]
    # Without held-out pairs, the training perplexity decides which model is best.
    assert any("Best perplexity" in line for line in lines) and "val_perplexity" not in rounds(tmp_path / "first")[0]
    result, _ = train_tiny(tsv, tmp_path / "minutes", minutes=0.01, round_updates=100_000)
    assert 0.6 <= result.last.seconds <= result.seconds and len(result.rounds) == 1
    # With a learning rate of 0, no round is better than the first.
    train_tiny(tsv, tmp_path / "patience", patience=2, learning_rate=0, **settings)
    assert number_of_updates(tmp_path / "patience") == [2, 4, 6]
    train_tiny(tsv, tmp_path / "patience_epochs", patience_epochs=1.5, learning_rate=0, **settings)
    assert number_of_updates(tmp_path / "patience_epochs") == [2, 4, 6, 8]


@pytest.mark.usefixtures("eager")
def test_keras_does_not_warn_that_the_data_ran_out(tsv, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train_tiny(tsv, tmp_path / "model", updates=4, round_updates=2, average_rounds=2)
    assert not [each for each in caught if "ran out of data" in str(each.message)]


@pytest.mark.usefixtures("eager")
def test_the_largest_and_smallest_values_train(tsv, tmp_path):
    train_tiny(tsv, tmp_path / "unclipped", updates=2, clip_norm=0)
    settings = {"epochs": 1e9, "minutes": 1e9, "clip_norm": 1e30}
    settings |= {"schedule": "halving", "halving_start": 1e9, "halving_every": 1e-6}
    train_tiny(tsv, tmp_path / "bounds", updates=2, **settings)
    unclipped, bounds = (rounds(tmp_path / name)[0]["val_perplexity"] for name in ("unclipped", "bounds"))
    assert bounds == pytest.approx(unclipped, rel=1e-6)
    train_tiny(tsv, tmp_path / "halved", updates=2, schedule="halving", halving_start=0, halving_every=1e-6)
    assert rounds(tmp_path / "halved")[0]["learning_rate"] == 0


@pytest.mark.usefixtures("eager")
def test_reverse_swaps_the_sides_and_given_vocabularies_are_kept(tsv, tmp_path):
    (tmp_path / "v").write_bytes(b"\xef\xbb\xbft3\r\nt1")
    data = tsv.replace(source_vocabulary=tmp_path / "v", reverse=True)
    train_tiny(data, tmp_path / "m", updates=1)
    directory = ModelDirectory.load(tmp_path / "m")
    assert directory.reverse
    assert directory.source_vocabulary.words == ["t3", "t1"]
    assert set(directory.target_vocabulary.words) == {f"s{i}" for i in range(12)}
    with pytest.raises(ValueError, match=f"found no reverse, expected it as in the run to resume in {tmp_path}/m"):
        train_tiny(data.replace(reverse=False), tmp_path / "m", resume=True, updates=20)


@pytest.mark.usefixtures("eager")
def test_raw_parallel_text_is_tokenized_and_validated_on_files(training_files, tmp_path):
    pytest.importorskip("tensorflow_text")
    (tmp_path / "source").write_text("S1 s2.\ns3\n\n")
    (tmp_path / "target").write_text("T1 t2!\nt3 t4\nt5\n")
    data = TrainingData(
        source=training_files / "source",
        target=training_files / "target",
        tokenize=True,
        lowercase=True,
        validation=(tmp_path / "source", tmp_path / "target"),
        shortlist=12,
    )
    _, lines = train_tiny(data, tmp_path / "m", updates=2)
    assert "400 unique pairs of 400" in lines[0] and "shortlist; 5.66 %" in lines[1]
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found an empty file, expected at least one line"),
        ("\ta\n", "found no usable pair to validate on, expected pairs with words on both sides"),
        ("a\tb\nno tab\n", "line 2: found no tab"),
    ],
)
def test_validation_files_are_checked_before_pairs_are_prepared(training_files, tmp_path, content, message):
    (tmp_path / "held_out").write_text(content)
    data = TrainingData(tsv=str(training_files / "tsv"), validation=(str(tmp_path / "held_out"),))
    with pytest.raises(InputError, match=f"held_out(:|,) {message}"):
        train_tiny(data, tmp_path / "model", updates=1)
    assert not (tmp_path / "model").exists()


SAID = "the model is no better than the frequencies of its target words: its held-out perplexity"


def test_the_unigram_perplexity_is_that_of_the_counts(tmp_path):
    targets = ["a a", "b", "a b c", "a"]
    pairs, _, vocabulary = prepare([(["s"], target.split()) for target in targets], tmp_path / "prepared", seed=3)
    held_out = Batches(pairs, 2, range(1))
    first = pairs.padded(np.arange(1))["target"][0]
    first = first[first != 0].tolist()
    known = [word for word in pairs.padded(np.arange(1, 4))["target"].ravel().tolist() if word != 0]
    counts = {word: known.count(word) + 1 for word in range(1, 3 + len(vocabulary))}
    expected = np.exp(-np.mean([np.log(counts[word] / sum(counts.values())) for word in first]))
    assert unigram_perplexity(pairs, range(1, 4), held_out, vocabulary) == pytest.approx(expected)


def test_the_unigram_perplexity_of_a_long_target_takes_little_memory(tmp_path):
    texts = [(["s"], ["a", f"{number}"]) for number in range(2000)] + [(["s"], ["a"] * 3000)]
    pairs, _, vocabulary = prepare(texts, tmp_path / "prepared", shortlist=9, max_length=3000)
    held_out = Batches(pairs, 64, range(100))
    tracemalloc.start()
    try:
        unigram_perplexity(pairs, range(100, len(pairs)), held_out, vocabulary)
        assert tracemalloc.get_traced_memory()[1] < 20e6  # all targets in one array would take 50 MB or more
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("eager")
def test_a_model_that_has_learned_nothing_is_reported_until_it_learns(tmp_path):
    lines = [f"s{i % 7}\t{'a ' * (i % 5)}b\n" for i in range(200)]
    (tmp_path / "pairs").write_text("".join(f"{i} {line}" for i, line in enumerate(lines)))
    (tmp_path / "table").write_text("s1 ||| a b ||| 0.5\n")
    data, path = TrainingData(tsv=tmp_path / "pairs"), tmp_path / "model"
    settings = {"learning_rate": 1e-9, "round_updates": 1}
    _, said = train_tiny(data, path, updates=1, **settings)
    assert said[-1].startswith(f"warning: {SAID} ") and said[-1].endswith("learning rate or larger initial weights.")
    flags = f"--model_dir={path}", f"--input={tmp_path}/table", f"--output={tmp_path}/out"
    assert in_process(COMMAND, *flags).stderr.count(f"encdec-score: warning: {path}: {SAID} ") == 1
    assert f"**Warning:** {SAID}" in (path / "README.md").read_text(encoding="utf-8")
    settings = {"learning_rate": 0.1, "round_updates": 40}
    _, said = train_tiny(data, path, resume=True, updates=41, **settings)
    assert "warning" not in "".join(said) and "remark" not in json.loads((path / "config.json").read_text())
    assert "warning" not in in_process(COMMAND, *flags).stderr
