"""A model that is no better than the frequencies of its target words: training and commands say so."""

import json

import numpy as np
import pytest
from in_process import in_process
from tiny_trainings import train_tiny

from keras_encdec.cli.score import COMMAND
from keras_encdec.data import Batches
from keras_encdec.data.prepare import prepare
from keras_encdec.trainers import TrainingData
from keras_encdec.trainers.preparation import unigram_perplexity

SAID = "the model is no better than the frequencies of its target words: held-out perplexity"


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


@pytest.mark.usefixtures("eager")
def test_a_model_that_learned_nothing_is_told_until_it_has(tmp_path):
    lines = [f"s{i % 7}\t{'a ' * (i % 5)}b\n" for i in range(200)]
    (tmp_path / "pairs").write_text("".join(f"{i} {line}" for i, line in enumerate(lines)))
    (tmp_path / "table").write_text("s1 ||| a b ||| 0.5\n")
    data, path = TrainingData(tsv=tmp_path / "pairs"), tmp_path / "model"
    settings = {"learning_rate": 1e-9, "round_updates": 1}
    _, said = train_tiny(data, path, updates=1, **settings)
    assert said[-1].startswith(f"warning: {SAID} ") and said[-1].endswith("or with another learning rate.")
    flags = f"--model_dir={path}", f"--input={tmp_path}/table", f"--output={tmp_path}/out"
    assert in_process(COMMAND, *flags).stderr.count(f"encdec-score: warning: {path}: {SAID} ") == 1
    settings = {"learning_rate": 0.1, "round_updates": 40}
    _, said = train_tiny(data, path, resume=True, updates=81, **settings)
    assert "warning" not in "".join(said) and "remark" not in json.loads((path / "config.json").read_text())
    assert "warning" not in in_process(COMMAND, *flags).stderr
