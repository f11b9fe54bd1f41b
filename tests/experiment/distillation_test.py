"""A student that learns what teachers translate."""

import gzip
import json
import os
import shutil
import sys

import numpy as np
import pytest
import toy_models

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import BeamSampler, TextGenerator, generate_file
from keras_encdec.errors import InputError
from keras_encdec.experiment.distillation import choose, distill, translate
from keras_encdec.experiment.distillation_options import DistillationOptions
from keras_encdec.formats import unescape
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.trainers import TrainingConfig

SOURCE_WORDS, TARGET_WORDS = [f"s{i}" for i in range(6)], [f"t{i}" for i in range(6)]
SOURCES = ["s1 s2 s3", "s4", "s0 s5", "s2 s2"] * 3
REFERENCES = ["t1 t2", "t3", "t0", "t1"] * 3
TRAINING = {"jit_compile": "false", "tensorboard": False, "pad_to": (4,)}
MODEL = {"units": 4, "embedding_dim": 4}


@pytest.fixture(scope="module")
def teachers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teachers")
    return [toy_models.save_model(folder / str(i), SOURCE_WORDS, TARGET_WORDS, seed=i) for i in range(2)]


@pytest.fixture
def texts(tmp_path):
    for name, lines in (("source", SOURCES), ("target", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return {"source": tmp_path / "source", "target": tmp_path / "target"}


def test_the_closest_translation_is_the_one_with_the_best_sentence_bleu(tmp_path):
    lines = ["0 ||| a b c ||| RNN0= -1 ||| -1", "0 ||| a &amp; d ||| RNN0= -2 ||| -2", "2 ||| x ||| RNN0= -1 ||| -1"]
    (tmp_path / "nbest.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    (tmp_path / "target").write_text("a &amp; d e\n\nx\n")
    counts = choose(tmp_path / "nbest.gz", tmp_path / "target", tmp_path / "out", "best")
    assert (tmp_path / "out").read_text() == "a b c\n\nx\n" and counts["other_than_best"] == 0
    counts = choose(tmp_path / "nbest.gz", tmp_path / "target", tmp_path / "out", "closest")
    assert (tmp_path / "out").read_text() == "a &amp; d\n\nx\n" and counts["other_than_best"] == 1
    (tmp_path / "target").write_text("a\n")
    with pytest.raises(InputError, match="found 3 lines, expected 1, the number in"):
        choose(tmp_path / "nbest.gz", tmp_path / "target", tmp_path / "out", "best")
    for translation in ("", "&lt;unk&gt; &lt;unk&gt;"):
        (tmp_path / "empty").write_text(f"0 ||| {translation} ||| RNN0= -1 ||| -1\n0 ||| a ||| RNN0= -2 ||| -2\n")
        with pytest.raises(InputError, match="empty: found only empty translations and unknown words"):
            choose(tmp_path / "empty", tmp_path / "target", tmp_path / "out", "best")


def test_each_source_is_repeated_for_its_translations(tmp_path):
    hypotheses = ["0 ||| a b c", "0 ||| a &amp; d", "0 ||| a &amp; x y", "2 ||| x", "4 ||| z", "4 ||| y z", "4 ||| y"]
    nbest, target, source = (tmp_path / name for name in ("nbest", "target", "source"))
    nbest.write_text("".join(f"{line} ||| RNN0= -1 ||| -1\n" for line in hypotheses))
    target.write_text("a &amp; d e\n\nx\n\ny\n")
    source.write_text("A\nB\nC\nD\nE\n", "utf-8-sig")
    expected = {
        "best": (["a b c", "a &amp; d", "", "x", "", "z", "y z"], 0),
        "closest": (["a &amp; d", "a &amp; x y", "", "x", "", "y z", "y"], 2),
    }
    for keep, (translations, other_than_best) in expected.items():
        counts = choose(nbest, target, tmp_path / "out", keep, 2, source, tmp_path / "repeated", tmp_path / "first")
        assert (tmp_path / "out").read_text() == "".join(f"{line}\n" for line in translations)
        assert (tmp_path / "repeated").read_text() == "A\nA\nB\nC\nD\nE\nE\n"
        assert counts == {"sentences": 5, "other_than_best": other_than_best}
        choose(nbest, target, tmp_path / "one", keep)
        assert (tmp_path / "first").read_text() == (tmp_path / "one").read_text()


@pytest.mark.usefixtures("eager", "uncompiled")
def test_a_student_learns_the_translations_of_an_ensemble_in_stages(teachers, texts, tmp_path):
    settings = {"num_beams": 3, "updates": 2, "training": TRAINING, "model": MODEL, "keep": "best"}
    files = {**texts, "dev_source": texts["source"], "dev_target": texts["target"]}
    test = {"test_source": texts["source"], "test_target": texts["target"]}
    result = distill(teachers, output=tmp_path / "out", **files, **test, **settings)
    expected = TextGenerator(teachers).generate(SOURCES, BeamSampler(3))
    learnt = [unescape(line) for line in result.text.read_text().splitlines()]
    assert learnt == [" ".join(best[0].words) for best in expected]
    assert [stage.was_run for stage in result.stages] == [True] * 6
    # Results from before there were several translations still count: the stages are the same with one.
    choice = json.loads((tmp_path / "out" / "stages" / "choose.json").read_text())
    assert choice["settings"] == {"keep": "best"} and set(choice["inputs"]) == {"nbest", "target"}
    assert set(choice["outputs"]) == {"output"} and not (tmp_path / "out" / "train.source").exists()
    assert set(result.scores) == {"teacher", "student"}
    rounds = json.loads((result.student / "history.json").read_text())["rounds"]
    assert "val_bleu" in rounds[0], "the best round is that of the highest BLEU"
    generate_file(result.student, texts["source"], tmp_path / "greedy", "greedy", escape=True)
    assert (tmp_path / "greedy").read_text() == (tmp_path / "out" / "student.test").read_text()
    assert ModelDirectory.load(result.student).target_vocabulary.words[0] in set(result.text.read_text().split())
    again = distill(teachers, output=tmp_path / "out", **files, **test, **settings)
    assert [stage.was_run for stage in again.stages] == [False] * 6 and again.scores == result.scores
    closest = distill(teachers, output=tmp_path / "out", **files, **{**settings, "keep": "closest"})
    assert [stage.was_run for stage in closest.stages][:2] == [True, True] and closest.scores == {}
    assert not any((tmp_path / "out" / name).exists() for name in ("teacher.test", "student.test", "evaluation.txt"))
    shared = distill(
        teachers, output=tmp_path / "out", **files, **{**settings, "keep": "closest"}, number_of_processes=2
    )
    assert not any(stage.was_run for stage in shared.stages), "the same translations, by more processes"
    record = json.loads((tmp_path / "out" / "stages" / "translate.json").read_text())
    assert record["settings"]["number_of_processes"] is None, "as in records of earlier versions"


@pytest.mark.usefixtures("eager", "uncompiled")
def test_a_changed_dictionary_changes_the_translations(texts, tmp_path):
    attention = {"cell": "gru", "attention": "global"}
    teacher = toy_models.save_model(tmp_path / "teacher", SOURCE_WORDS, TARGET_WORDS, **attention)
    settings = {"num_beams": 2, "updates": 1, "training": TRAINING, "model": MODEL, "replace_unknown": True}
    dictionary = tmp_path / "words"
    for word in ("t1", "t2"):
        dictionary.write_text(f"s1\t{word}\n")
        result = distill([teacher], output=tmp_path / "out", dictionary=str(dictionary), **texts, **settings)
        assert result.stages[0].was_run


@pytest.mark.usefixtures("uncompiled")
def test_a_student_that_cannot_replace_unknown_words_translates_the_test_set_with_them(teachers, texts, tmp_path):
    for name, replace_unknown in (("plain", False), ("asked", True)):
        translate(texts["source"], tmp_path / name, 1, replace_unknown=replace_unknown, student=teachers[0])
    assert (tmp_path / "asked").read_text() == (tmp_path / "plain").read_text()


@pytest.mark.usefixtures("eager", "uncompiled")
@pytest.mark.parametrize("keep", ["best", "closest"])
def test_a_student_learns_several_translations_of_each_sentence(keep, teachers, texts, tmp_path):
    settings = {"num_beams": 3, "updates": 1, "training": TRAINING, "model": MODEL}
    result = distill(teachers, output=tmp_path / "out", keep=keep, translations=2, **texts, **settings)
    learnt = [unescape(line) for line in result.text.read_text().splitlines()]
    sources = (tmp_path / "out" / "train.source").read_text().splitlines()
    assert sources == [source for source in SOURCES for _ in range(2)] and len(learnt) == len(sources)
    beams = TextGenerator(teachers).generate(SOURCES, BeamSampler(3, num_best=3))
    for number, beam in enumerate(beams):
        found, pair = [" ".join(best.words) for best in beam], learnt[2 * number : 2 * number + 2]
        assert pair == found[:2] if keep == "best" else set(pair) < set(found)
    assert json.loads((result.student / "prepared" / "prepared.json").read_text())["read"] == len(sources)
    again = distill(teachers, output=tmp_path / "out", keep=keep, translations=2, **texts, **settings)
    assert not any(stage.was_run for stage in again.stages)


@pytest.mark.usefixtures("eager", "uncompiled")
def test_a_student_may_begin_with_the_weights_of_the_first_teacher(teachers, texts, tmp_path):
    training = {**TRAINING, "learning_rate": 0.0}
    settings = {"num_beams": 2, "updates": 1, "from_teacher": True, "training": training}
    result = distill(teachers, output=tmp_path / "out", **settings, **texts)
    copies = [shutil.copytree(teacher, tmp_path / teacher.name) for teacher in teachers]
    again = distill(copies, output=tmp_path / "out", **settings, **texts)
    assert not any(stage.was_run for stage in again.stages)
    teacher, student = (ModelDirectory.load(path).model for path in (teachers[0], result.student))
    assert student.config.to_dict() == teacher.config.to_dict()
    for mine, its in zip(student.get_weights(), teacher.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)
    trained = TrainingConfig.from_preset(result.student / "settings.toml")
    assert (trained.schedule, trained.warmup_updates) == ("cosine", 100)


@pytest.mark.usefixtures("eager", "uncompiled")
def test_several_students_are_averaged(teachers, texts, tmp_path):
    settings = {"num_beams": 2, "updates": 3, "from_teacher": True, "students": 2}
    training = {**TRAINING, "learning_rate": 0.01, "warmup_updates": 0, "batch_size": 4}
    result = distill(teachers, output=tmp_path / "out", training=training, **settings, **texts)
    assert [stage.name for stage in result.stages] == ["translate", "choose", "train-1", "train-2", "average"]
    assert 0.5 < result.stages[-1].result["cosine"] < 1
    student, *each = (
        ModelDirectory.load(tmp_path / "out" / name).model for name in ("student", "student1", "student2")
    )
    seeds = [
        TrainingConfig.from_preset(tmp_path / "out" / name / "settings.toml").seed for name in ("student1", "student2")
    ]
    assert seeds[1] == seeds[0] + 1
    for mean, *both in zip(*(model.get_weights() for model in (student, *each)), strict=True):
        np.testing.assert_allclose(mean, np.mean(both, axis=0), rtol=1e-5, atol=1e-7)
    # A run that was killed before it recorded the average writes it again.
    record = tmp_path / "out" / "stages" / "average.json"
    began = {name: value for name, value in json.loads(record.read_text()).items() if name != "outputs"}
    assert began["paths"] == ["../student"]
    record.write_text(json.dumps(began))
    again = distill(teachers, output=tmp_path / "out", training=training, **settings, **texts)
    assert [stage.was_run for stage in again.stages] == [False] * 4 + [True]


@pytest.mark.usefixtures("eager", "uncompiled")
def test_further_students_begin_with_the_weights_of_the_first(teachers, texts, tmp_path):
    settings = {"num_beams": 2, "translations": 2, "updates": 4, "students": 2, "model": MODEL}
    preset = tmp_path / "preset.toml"
    # As in the settings of another model, whose own files are not those of the student.
    others = '[data]\ntsv = "other.tsv"\nvalidation = ["other.tsv"]\n'
    preset.write_text(f'architecture = "recurrent"\n[training]\noptimizer = "sgd"\nlearning_rate = 0.0\n{others}')
    result = distill(teachers, output=tmp_path / "out", preset=str(preset), training=TRAINING, **settings, **texts)
    assert [stage.name for stage in result.stages] == ["translate", "choose", "train-1", "train-2", "average"]
    first, second = (ModelDirectory.load(tmp_path / "out" / f"student{number}").model for number in (1, 2))
    for mine, its in zip(second.get_weights(), first.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)
    trainings = [TrainingConfig.from_preset(tmp_path / "out" / f"student{n}" / "settings.toml") for n in (1, 2)]
    assert [training.updates for training in trainings] == [4, 3] and trainings[1].seed == trainings[0].seed + 1
    pairs = [json.loads((tmp_path / "out" / f"student{n}" / "prepared" / "prepared.json").read_text()) for n in (1, 2)]
    # The first student learns one translation of each sentence, the second one two.
    assert [prepared["read"] for prepared in pairs] == [len(SOURCES), 2 * len(SOURCES)]
    record = json.loads((tmp_path / "out" / "stages" / "train-2.json").read_text())
    assert "initial_model" in record["inputs"], "a change of the first student is one of the second"
    one = {**settings, "translations": 1, "students": 1}
    distill(teachers, output=tmp_path / "out", preset=str(preset), training=TRAINING, **one, **texts)
    assert not any((tmp_path / "out" / name).exists() for name in ("train.source", "first.target"))


@pytest.mark.usefixtures("eager", "uncompiled")
def test_files_that_the_tool_did_not_make_are_never_removed(teachers, texts, tmp_path):
    out = tmp_path / "out"
    settings = {"num_beams": 2, "updates": 1, "training": TRAINING, "model": MODEL, "translations": 2}
    out.mkdir()
    corpus = {}
    for side, name in (("source", "train.source"), ("target", "evaluation.txt")):
        corpus[side] = texts[side].rename(out / name)
    with pytest.raises(InputError, match="train.source: found an input that is also an output"):
        distill(teachers, output=out, **corpus, **settings)
    result = distill(teachers, output=out, **corpus, **{**settings, "translations": 1})
    student = out / "student"
    with pytest.raises(InputError, match="student: found an input that is also an output"):
        distill([student], output=out, **corpus, **{**settings, "translations": 1})
    assert ModelDirectory.load(student).model and result.student == student
    # With another corpus, the files of the first are still there, though they have the names of texts of the tool.
    for side, path in corpus.items():
        texts[side].write_text(path.read_text())
    distill(teachers, output=out, **texts, **{**settings, "translations": 1})
    assert (out / "train.source").read_text() == texts["source"].read_text()
    assert (out / "evaluation.txt").read_text() == texts["target"].read_text()
    with pytest.raises(InputError, match="train.source: found a file or folder that no earlier run made"):
        distill(teachers, output=out, **texts, **settings)
    test = {"test_source": texts["source"], "test_target": texts["target"]}
    with pytest.raises(InputError, match="evaluation.txt: found a file or folder that no earlier run made"):
        distill(teachers, output=out, **texts, **test, **{**settings, "translations": 1})
    assert (out / "student").exists()


@pytest.mark.usefixtures("eager", "uncompiled")
def test_a_remote_teacher_in_the_results_is_an_error(teachers, texts, tmp_path):
    settings = {"num_beams": 2, "updates": 1, "training": TRAINING, "model": MODEL}
    folder = "memory://distilled"
    student = distill(teachers, output=folder, **texts, **settings).student
    with pytest.raises(InputError, match="student: found an input that is also an output"):
        distill([student], output=f"{folder}/", **texts, **settings)
    assert ModelDirectory.load(student).model


def test_the_length_of_a_students_training(teachers, tmp_path):
    epochs = 20.0
    assert DistillationOptions().training_config([]).epochs == epochs
    # Several translations of each sentence make the same number of updates.
    assert DistillationOptions(translations=4).training_config([]).epochs == epochs / 4
    assert DistillationOptions(translations=4, minutes=60).training_config([]).epochs == epochs / 4
    assert DistillationOptions(translations=4, epochs=3).training_config([]).epochs == 3
    assert DistillationOptions(from_teacher=True, minutes=60).training_config(teachers).epochs == 7
    assert DistillationOptions(from_teacher=True, epochs=3).training_config(teachers).epochs == 3
    preset = tmp_path / "preset.toml"
    preset.write_text('architecture = "encdec"\n[training]\nepochs = 8\n')
    for own in (str(preset), "student"):
        one, four = (
            DistillationOptions(preset=own, from_teacher=True, translations=translations).training_config(teachers)
            for translations in (1, 4)
        )
        assert four.epochs == one.epochs / 4
    several = DistillationOptions(translations=4, students=2)
    first = several.training_config([])
    second = several.further_config(first, 2)
    assert first.epochs == epochs and second.epochs == pytest.approx(0.6 * epochs / 4)
    assert second.learning_rate < first.learning_rate
    minutes = DistillationOptions(students=3, minutes=10)
    assert minutes.further_config(minutes.training_config([]), 3).minutes == pytest.approx(6)


def test_sacrebleu_is_looked_for_before_the_first_stage(teachers, texts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    preset = tmp_path / "preset.toml"
    preset.write_text("[training]\nupdates = 1\n")
    test = {"test_source": texts["source"], "test_target": texts["target"]}
    for options in ({}, {"preset": str(preset), "keep": "closest"}, {"preset": str(preset), **test}):
        with pytest.raises(ImportError, match=r'BLEU needs sacrebleu, .*: pip install "keras-encdec\[smt\]"'):
            distill(teachers, output=tmp_path / "out", **options, **texts)
    assert not (tmp_path / "out" / "stages").exists()


def test_settings_that_contradict_are_refused(teachers, texts, tmp_path):
    with pytest.raises(ConfigurationError, match="dictionary without replace_unknown"):
        distill(teachers, output=tmp_path / "out", dictionary="words", **texts)
    with pytest.raises(ConfigurationError, match="found one of test_source and test_target"):
        distill(teachers, output=tmp_path / "out", test_source="a", **texts)
    (tmp_path / "short").write_text("t1\n")
    for files in ({"target": tmp_path / "short"}, {"dev_source": texts["source"], "dev_target": tmp_path / "short"}):
        with pytest.raises(InputError, match="short: found 1 line, expected 12, the number in .*source"):
            distill(teachers, output=tmp_path / "out", **{**texts, **files})
    (tmp_path / "latin-1").write_bytes(b"t1\n" * 11 + b"\xe9t\xe9\n")
    with pytest.raises(InputError, match="latin-1, line 12: found bytes that are not UTF-8 .*; convert the file to"):
        distill(teachers, output=tmp_path / "out", **{**texts, "target": tmp_path / "latin-1"})
    (tmp_path / "words").write_bytes(b"\xe9\tt1\n")
    words = {"replace_unknown": True, "dictionary": str(tmp_path / "words")}
    with pytest.raises(InputError, match="words, line 1: found bytes that are not UTF-8 .*; convert the file to UTF-8"):
        distill(teachers, output=tmp_path / "out", **words, **texts)
    endless = tmp_path / "endless.toml"
    endless.write_text("[training]\nbatch_size = 9\n")
    for from_teacher in (False, True):
        with pytest.raises(ConfigurationError, match="endless.toml that says when .*; give one of updates, .* minutes"):
            distill(teachers, output=tmp_path / "out", preset=str(endless), from_teacher=from_teacher, **texts)
    for text, from_teacher, message in (
        ('architecture = "cslm"\n', False, "wrong.toml with architecture=cslm, which has no source"),
        ("[data]\nreverse = true\n", False, "found reverse = true in preset=.*wrong.toml, expected a student of"),
        ("[data]\ntokenize = true\n", False, "found tokenize = true in preset=.*wrong.toml, expected"),
        ('[data]\nencoding = "latin-1"\n', False, "found encoding = 'latin-1' in preset=.*wrong.toml, expected UTF-8"),
        ('[data]\ntarget_vocabulary = "words"\n', True, "found target_vocabulary with initial_model, which has its"),
    ):
        (tmp_path / "wrong.toml").write_text(text)
        settings = {"preset": str(tmp_path / "wrong.toml"), "updates": 1, "from_teacher": from_teacher}
        with pytest.raises(ConfigurationError, match=message):
            distill(teachers, output=tmp_path / "out", **settings, **texts)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: found a pipe, expected a file, because it is read more than once"):
        distill(teachers, output=tmp_path / "out", **{**texts, "source": tmp_path / "pipe"})
    config = json.loads((teachers[0] / "config.json").read_text())
    for changed, settings, message in (
        ({"tokenization": {"lowercase": True}}, {}, "other: found a model of raw text, trained with --tokenize"),
        ({"direction": "reverse"}, {"from_teacher": True}, "other: found a model of .*, trained with --reverse"),
    ):
        other = shutil.copytree(teachers[0], tmp_path / "other", dirs_exist_ok=True)
        (other / "config.json").write_text(json.dumps({**config, **changed}))
        with pytest.raises(InputError, match=message):
            distill([other], output=tmp_path / "out", **settings, **texts)
    assert not (tmp_path / "out" / "stages").exists()
    with pytest.raises(ConfigurationError, match="found translations=4, expected 1 to num_beams, 3"):
        distill(teachers, output=tmp_path / "out", translations=4, num_beams=3, **texts)
    with pytest.raises(ConfigurationError, match="found keep=closest with num_beams=1, expected 2 or more to choose"):
        distill(teachers, output=tmp_path / "out", keep="closest", num_beams=1, **texts)
