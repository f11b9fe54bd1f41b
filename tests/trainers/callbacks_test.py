"""Validation by BLEU of greedy translations, and averages of rounds, on each backend."""

import signal
import sys
import types

import keras
import numpy as np
import pytest
import sacrebleu
from hybrid_toys import hybrid
from recurrent_toys import SOURCE, padded, toy
from tiny_trainings import rounds, tiny_config, train_tiny

from keras_encdec.backend.replicas import Replicas
from keras_encdec.decoding import Generator
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.text.vocabulary import UNKNOWN
from keras_encdec.trainers import TrainingData, TrainingReporter, train
from keras_encdec.trainers.callbacks import RoundAverage, ValidationBleu


def always(decoder, word):
    """Makes a decoder predict one word up to the length limit."""
    bias = decoder.output_weights[1]
    bias.assign(100 * np.eye(bias.shape[0])[word])


def pairs(word):
    """A batch of two sources. Each target is the word ten times, the limit for a short source."""
    target = np.array([[word] * 10 + [2, 0]] * 2, "int32")
    return {"source": SOURCE[2:], "target": target}


@pytest.mark.usefixtures("uncompiled")
def test_bleu_is_that_of_the_current_weights_and_unknown_words_never_match():
    model = toy(layers=1, cell="rnn")
    bleu = ValidationBleu(model, [pairs(5), pairs(7)])
    for word, expected in ((5, 50), (3, 0), (7, 50)):
        always(model.decoder, word)
        assert bleu.measure() == pytest.approx(expected)
    unknown = ValidationBleu(model, [pairs(UNKNOWN)])
    always(model.decoder, UNKNOWN)
    assert unknown.measure() == 0
    logs = {"val_perplexity": float("nan")}
    bleu.on_epoch_end(0, logs)  # a model that has diverged does not translate
    assert logs.keys() == {"val_perplexity"}


@pytest.mark.usefixtures("uncompiled")
def test_spelled_words_match_by_their_characters():
    model = hybrid()
    always(model.decoder, UNKNOWN)
    # It spells every word with one character.
    model.decoder.speller.decoder.output_weights[1].assign([0, 0, 99, 0, 100, 0])
    spellings = [[4, 2], [4, 4, 2], [5, 2]]
    source = np.array([[4, 6, 2], [8, 2, 0]], "int32")
    for number, expected in ((0, 100), (1, 0)):
        batch = {"source": source, "target": np.array([[6 + number] * 10 + [2]] * 2, "int32")}
        bleu = ValidationBleu(model, [batch], dict.fromkeys(("source", "target"), padded(spellings, 51)))
        assert bleu.measure() == pytest.approx(expected)


class StopOnce(TrainingReporter):
    """Stops the training by a signal after its first update."""

    def callbacks(self, budget, updates_per_epoch):
        def stop(batch, logs):
            if batch == 0:
                signal.raise_signal(signal.SIGTERM)

        return [keras.callbacks.LambdaCallback(on_train_batch_end=stop)]


@pytest.mark.usefixtures("eager", "uncompiled", "signals_obeyed")
def test_a_run_records_bleu_each_round_saves_the_best_model_and_is_resumed(tmp_path):
    for name, ends in (("pairs", ["d"] * 40), ("held_out", ["d", "d e f", "unheard"])):  # learned quickly
        (tmp_path / name).write_text("".join(f"s{i}\ta b c {end}\n" for i, end in enumerate(ends)))
    data = TrainingData(tsv=tmp_path / "pairs", validation=(tmp_path / "held_out",))
    settings = {"validation_bleu": True, "average_rounds": 2, "learning_rate": 0.3, "round_updates": 3, "updates": 8}
    settings |= {"architecture": "recurrent", "model": {"cell": "rnn", "layers": 1}}
    path = tmp_path / "model"
    stopped = train(tiny_config(**settings), data, path, reporter=StopOnce(lambda line: None))
    assert stopped.signal == signal.SIGTERM and (stopped.updates, stopped.rounds, stopped.best) == (1, (), None)
    with pytest.raises(
        ValueError, match="found validation_bleu=False, expected validation_bleu=True as in the run to resume"
    ):
        train_tiny(data, path, resume=True, **{**settings, "validation_bleu": False})
    result, lines = train_tiny(data, path, resume=True, **settings)
    values = [entry["val_bleu"] for entry in rounds(path)]
    assert [round_.updates for round_ in result.rounds] == [3, 6, 8, 8] and result.last.averaged_rounds == 2
    assert result.best.val_bleu == max(values) > 30
    assert f", held-out {result.rounds[0].val_perplexity:.3f}, BLEU {values[0]:.2f}; " in "".join(lines)
    assert f"Best held-out BLEU {max(values):.2f}, perplexity {result.best.val_perplexity:.3f} per" in "".join(lines)
    vocabularies, model = ModelDirectory.load(path), load_model(path / "best.keras")
    found = Generator(model).generate([vocabularies.source_vocabulary.encode([f"s{i}"]) for i in range(3)])
    texts = [" ".join(vocabularies.target_vocabulary.decode(best.ids)) for best, *_ in found]
    references = ["a b c d", "a b c d ? ?", "a b c ?"]
    expected = sacrebleu.corpus_bleu(texts, [references], tokenize="none", force=True).score
    assert result.best.val_bleu == pytest.approx(expected)


def test_damaged_weights_of_a_round_are_named_and_need_not_be_averaged(tmp_path):
    (tmp_path / "rounds").mkdir()
    np.savez(tmp_path / "rounds" / "3.npz", np.full(2, 7.0))
    (tmp_path / "rounds" / "6.npz").write_bytes((tmp_path / "rounds" / "3.npz").read_bytes()[:100])
    budget = types.SimpleNamespace(replicas=Replicas())
    average = RoundAverage(tmp_path, budget, 2, [{"updates": 3}, {"updates": 6}])
    with pytest.raises(InputError, match=r"6.npz: found a file that cannot be loaded .*; remove it, and continue with"):
        average.mean()
    (tmp_path / "rounds" / "6.npz").unlink()
    [mean], number = average.mean()
    assert mean.tolist() == [7.0, 7.0] and number == 1


def test_training_with_bleu_needs_sacrebleu(tsv, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r'needs sacrebleu, .*: pip install "keras-encdec\[smt\]", or train without'):
        train_tiny(tsv, tmp_path, updates=1, validation_bleu=True)
    assert not (tmp_path / "prepared").exists()


def test_a_single_pair_cannot_be_held_out(tmp_path):
    (tmp_path / "pair.tsv").write_text("a\tb\n")
    for settings in ({"validation_bleu": True}, {"patience": 1}, {"patience_epochs": 1}):
        message = f"found too few pairs to hold out, .* or drop --{next(iter(settings))}"
        with pytest.raises(InputError, match=message):
            train_tiny(TrainingData(tsv=tmp_path / "pair.tsv"), tmp_path / "model", updates=1, **settings)
