"""A hybrid word-character model from training to scores and spelled targets, on text."""

import dataclasses
import itertools

import numpy as np
import pytest
from tiny_trainings import QUICK
from undrawn import undrawn

from keras_encdec.analysis import phrase_vectors, report
from keras_encdec.analysis.page.state_sections import SpelledWord, spelled_words
from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding.text_generator import TextGenerator
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.models import to_symbols
from keras_encdec.pruning import prune_model
from keras_encdec.pruning.pruning_masks import pruned_share
from keras_encdec.scoring import ScoringOptions, score_file
from keras_encdec.scoring.text_scorer import TextScorer
from keras_encdec.text import Vocabulary
from keras_encdec.trained_model import TrainedModel
from keras_encdec.trainers import TrainingConfig, TrainingData, train
from keras_encdec.trainers.settings_checks import check_initial_settings
from keras_encdec.web import Explorer

MODEL = {
    "layers": 1,
    "units": 6,
    "embedding_dim": 5,
    "attention": "global",
    "characters": "both",
    "character_units": 4,
    "character_shortlist": 12,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Pairs of which half of the words are outside a shortlist of three."""
    folder = tmp_path_factory.mktemp("hybrid")
    random = np.random.default_rng(0)
    words = ["a", "b", "c", *(f"word{i}" for i in range(9)), "e\u0301te\u0301", "長い言葉", "x" * 10_000]
    lines = [" ".join(random.choice(words, random.integers(1, 6))) for _ in range(80)]
    for name, text in (("source", lines[:40]), ("target", lines[40:])):
        (folder / name).write_text("\n".join([*text, "a b c"]) + "\n", encoding="utf-8")
    return folder


def test_from_text_to_scores_and_targets(corpus, eager, uncompiled):
    config = TrainingConfig("recurrent", MODEL, updates=2, round_updates=1, batch_size=8, **QUICK)
    data = TrainingData(source=str(corpus / "source"), target=str(corpus / "target"), shortlist=3)
    folder = corpus / "model"
    train(config, data, folder)
    train(dataclasses.replace(config, updates=3), data, folder, resume=True)
    directory = ModelDirectory.load(folder)
    assert (directory.path / "source.characters").exists()
    assert len(directory.target_vocabulary.characters) == 12
    # Any target has a score, which is the same for composed and decomposed characters.
    scorer = TextScorer(directory)
    pairs = [
        scorer.words("a unseen", "b  unheard"),
        scorer.words("", ""),
        scorer.words("é", "a été"),
        scorer.words("e\u0301", "a e\u0301te\u0301"),
        scorer.words("長", "言" * 10_000),
    ]
    scores = scorer.score_pairs(pairs, token_log_probs=True, unknown_count=True)
    assert np.isfinite(scores.log_prob).all() and list(scores.unknown_count) == [1, 0, 1, 1, 1]
    np.testing.assert_allclose(scores.log_prob[2], scores.log_prob[3], atol=1e-4)
    alone = [scorer.score([pair])[0] for pair in pairs]
    np.testing.assert_allclose(scores.log_prob, alone, atol=1e-3)
    # Generated targets have the scores of the scorer if no word of the shortlist was spelled.
    lines = ["a unseen b", "", "長い"]
    found = TextGenerator([directory]).generate(lines, max_length=3)
    for line, [best] in zip(lines, found, strict=True):
        assert "<unk>" not in best.words
        if all(word not in ("a", "b", "c") for word in best.words):
            expected = scorer.score([(line.split(), best.words)])[0]
            np.testing.assert_allclose(best.log_prob, expected, atol=1e-3)
    summary = score_file(
        directory,
        corpus / "target",
        corpus / "scored.tsv",
        ScoringOptions(format="parallel", source=str(corpus / "source"), surprisal_per_character=True),
    )
    assert "words are known to the model by their characters alone" in str(summary.notices)
    source, target, log_prob, surprisal = (
        (corpus / "scored.tsv").read_text(encoding="utf-8").splitlines()[-1].split("\t")
    )
    assert float(surprisal) == pytest.approx(-float(log_prob) / np.log(2) / (len(target) + 1), abs=1e-5)
    check_pruned_training(config, data, folder, directory)
    check_report_and_page(corpus, directory)
    (folder / "target.characters").write_text("a\nb\n")
    with pytest.raises(InputError, match="target.characters"):
        ModelDirectory.load(folder)


def check_report_and_page(corpus, directory):
    with undrawn():
        summary = report(directory, corpus / "report", source=corpus / "source", target=corpus / "target")
    assert {"rare-words", "spelled-words"} <= set(summary.sections)
    assert all("no installed font" in notice for notice in summary.notices)  # Japanese characters are in a figure
    rare = (corpus / "report" / "tables" / "rare_words.tsv").read_text(encoding="utf-8").splitlines()
    assert rare[0] == "rare word\trank\tneighbour\tis rare\tcosine" and rare[1].startswith("word")
    explorer = Explorer(directory, ["a unseen", "b c"])
    [*map(lambda step: step(), itertools.islice(explorer.preparations(), 1, 2))]
    answer = explorer.translate("a unseen", beams=2, best=1)
    assert all(word["known"] for word in answer["source"]) and "<unk>" not in answer["targets"][0]["text"]
    assert len(explorer.neighbours("a unseem")["neighbours"]) == 2
    first, second = phrase_vectors(directory, ["unseen", "x"]).array
    assert not np.array_equal(first, second), "two rows of one batch: only their characters differ"
    trained = "x" * 50
    spelled = spelled_words(directory, [["a", trained, "new"], ["b", trained]], [["new"], [trained]])
    assert spelled == [SpelledWord("new", 1, 1, False), SpelledWord(trained, 2, 1, True)]


def check_pruned_training(config, data, folder, directory):
    """Prunes a model, and trains it further in mixed precision, by BLEU."""
    pruned = prune_model(folder, folder.parent / "pruned", share=0.5)
    shares = {each.name: each.share for each in pruned.classes}
    assert shares["character reader"] > 0.2 and shares["speller"] > 0.2
    config = dataclasses.replace(
        config,
        initial_model=str(folder.parent / "pruned"),
        keep_pruned=True,
        dtype_policy="mixed_bfloat16",
        validation_bleu=True,
    )
    retrained = folder.parent / "retrained"
    found = train(config, data, retrained)
    assert found.best.val_bleu is not None
    retrained = ModelDirectory.load(retrained)
    assert retrained.target_vocabulary.characters.words == directory.target_vocabulary.characters.words
    assert pruned_share(retrained.model) >= 0.5
    pair = (["a", "unseen"], ["b", "unheard"])
    single, narrow = (TextScorer(retrained, dtype).score([pair])[0] for dtype in ("float32", "bfloat16"))
    assert single == pytest.approx(narrow, rel=0.02)
    [[best]] = TextGenerator([retrained], dtype="bfloat16").generate(["a unseen"], max_length=2)
    assert "<unk>" not in best.words


@pytest.mark.usefixtures("eager", "uncompiled")
@pytest.mark.parametrize("characters", ["source", "target", "both"])
def test_a_hybrid_model_may_begin_with_a_word_based_model(characters, corpus, tmp_path):
    words = {name: value for name, value in MODEL.items() if not name.startswith("character")}
    data = TrainingData(source=str(corpus / "source"), target=str(corpus / "target"), shortlist=3)
    settings = {"updates": 2, "batch_size": 8, **QUICK}
    train(TrainingConfig("recurrent", words, **settings), data, tmp_path / "words")
    further = TrainingConfig(
        "recurrent",
        {**MODEL, "characters": characters, "dropout": 0.1},
        initial_model=str(tmp_path / "words"),
        learning_rate=0.0,
        **settings,
    )
    train(further, data.replace(shortlist=15_000), tmp_path / "hybrid")
    before, after = (ModelDirectory.load(tmp_path / name) for name in ("words", "hybrid"))
    assert after.target_vocabulary.words == before.target_vocabulary.words
    has_characters = [
        vocabulary.characters is not None for vocabulary in (after.source_vocabulary, after.target_vocabulary)
    ]
    assert has_characters == [characters != "target", characters != "source"]
    arrays = to_symbols(after.model)
    for symbol, array in to_symbols(before.model).items():
        np.testing.assert_array_equal(arrays[symbol], array, symbol)
    back = TrainingConfig("recurrent", words, initial_model=str(tmp_path / "hybrid"), **settings)
    with pytest.raises(ConfigurationError, match="found characters=none.* expected characters="):
        train(back, data, tmp_path / "words again")


@pytest.mark.usefixtures("eager", "uncompiled")
def test_words_that_are_kept_predict_as_before_while_characters_are_learned(corpus, tmp_path):
    words = {name: value for name, value in MODEL.items() if not name.startswith("character")}
    data = TrainingData(source=str(corpus / "source"), target=str(corpus / "target"), shortlist=3)
    settings = {"updates": 2, "round_updates": 1, "batch_size": 8, "optimizer": "adam", "average_rounds": 2, **QUICK}
    settings["learning_rate"] = 0.01
    train(TrainingConfig("recurrent", words, **settings), data, tmp_path / "words")
    kept = TrainingConfig("recurrent", MODEL, initial_model=str(tmp_path / "words"), keep_words=True, **settings)
    train(dataclasses.replace(kept, updates=1), data, tmp_path / "hybrid")
    first = to_symbols(load_model(tmp_path / "hybrid"))
    train(kept, data, tmp_path / "hybrid", resume=True)
    before, last, best = (
        to_symbols(load_model(tmp_path / name)) for name in ("words", "hybrid/last.keras", "hybrid/best.keras")
    )
    train(kept, data, tmp_path / "at once")
    uninterrupted = to_symbols(load_model(tmp_path / "at once" / "last.keras"))
    for symbol, array in last.items():
        np.testing.assert_array_equal(array, uninterrupted[symbol], symbol)
        if symbol in before:
            np.testing.assert_array_equal(array, before[symbol], symbol)
            np.testing.assert_array_equal(best[symbol], before[symbol], symbol)
    learned = set(last) - set(before)
    assert learned and not any(np.array_equal(last[symbol], first[symbol]) for symbol in learned)


def test_a_model_of_position_words_cannot_become_one_that_spells(tmp_path):
    words = {name: value for name, value in MODEL.items() if not name.startswith("character")}
    directory = ModelDirectory(tmp_path / "words", Vocabulary(["s"]), Vocabulary(["t", "unkpos_0"]))
    directory.save_config("recurrent", words)
    known, data = TrainedModel.read(tmp_path / "words"), TrainingData(source="source", target="target")
    config = TrainingConfig("recurrent", MODEL, updates=1, initial_model=str(tmp_path / "words"))
    with pytest.raises(InputError, match="words: found a model of position words such as unkpos_0, .*=source"):
        check_initial_settings(config, data, known, known.hyperparameters)
    reading = config.replace(model={**MODEL, "characters": "source"})
    check_initial_settings(reading, data, known, known.hyperparameters)


def test_settings_that_training_cannot_combine():
    with pytest.raises(ConfigurationError, match="found characters=both with devices=2, expected 1 device"):
        TrainingConfig("recurrent", MODEL, updates=1, devices="2")
    words = {name: value for name, value in MODEL.items() if not name.startswith("character")}
    kept = {"updates": 1, "initial_model": "words", "keep_words": True}
    with pytest.raises(ConfigurationError, match="found keep_words with characters=none, expected source, target or"):
        TrainingConfig("recurrent", words, **kept)
    with pytest.raises(ConfigurationError, match="found keep_words with gradual_pruning, expected one of them"):
        TrainingConfig("recurrent", MODEL, **kept, gradual_pruning=0.5)
