"""Training on several tasks: what it writes, how it is resumed, and what is refused."""

import collections
import itertools
import shutil

import keras
import numpy as np
import pytest
from tiny_trainings import rounds, tiny_config

from keras_encdec.cli import generate, prune, score
from keras_encdec.cli import train as train_command
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.pruning.pruning_masks import pruned_share
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingReporter, TrainingTasks, train
from keras_encdec.trainers.resumption import load_checkpoint
from keras_encdec.trainers.task_training import drawn_tasks
from keras_encdec.trainers.tasks import TaskConfig
from keras_encdec.trainers.training_files import data_before

TASKS = """\
main = "t"
[tasks.copy]
kind = "autoencoder"
text = "text"
encoder = "s"
decoder = "s"
ratio = 0.5
[tasks.t]
tsv = "tsv"
encoder = "s"
decoder = "t"
[tasks.next]
kind = "skip_thought"
text = "text"
encoder = "x"
decoder = "t"
ratio = 0.7
"""

MODEL = {"dropout": 0.2, "layers": 1, "cell": "gru"}


@pytest.fixture(scope="module")
def tasks_file(training_files, tmp_path_factory):
    """Tasks that share an encoder and a decoder with the main task; the sides of the text have words of their own."""
    folder = tmp_path_factory.mktemp("tasks")
    shutil.copy(training_files / "tsv", folder / "tsv")
    (folder / "text").write_text("".join(f"s{i % 5} t{i % 7} s{i % 3} w{i % 4}\n" for i in range(60)))
    (folder / "tasks.toml").write_text(TASKS)
    return folder / "tasks.toml"


def train_tasks(file, model_dir, resume=False, **settings):
    tasks, lines = TrainingTasks.load(file), []
    config = tiny_config(architecture="recurrent", model=MODEL, **{"round_updates": 6, **settings})
    data = tasks.training_data(held_out_fraction=0.05)
    result = train(config, data, model_dir, resume, TrainingReporter(lines.append), tasks)
    return result, lines


@pytest.fixture(scope="module")
def several(tasks_file, tmp_path_factory):
    """A run with all tasks: the result and the lines."""
    return train_tasks(tasks_file, tmp_path_factory.mktemp("several") / "model", updates=12, average_rounds=2)


def test_a_model_directory_has_an_ordinary_model_of_each_task(several):
    result, lines = several
    path = result.model_dir
    assert result.updates == 12 and [round_.updates for round_ in result.rounds] == [6, 12, 12]
    assert "Task copy:" in lines and "Task next:" in lines
    models = {name: ModelDirectory.load(path, task=name) for name in ("t", "copy", "next")}
    assert ModelDirectory.load(path).path == models["t"].path == path
    assert models["copy"].path == path / "tasks" / "copy"
    assert {type(directory.model).__name__ for directory in models.values()} == {"RecurrentEncoderDecoder"}
    t, copy, following = models.values()
    # Shared sides have the vocabularies of the main task, and the others those of their text.
    assert t.source_vocabulary.words == copy.source_vocabulary.words
    assert t.target_vocabulary.words == following.target_vocabulary.words
    assert {"w0", "t6"} <= set(copy.target_vocabulary.words) and "w0" not in copy.source_vocabulary.words
    assert "w0" not in following.source_vocabulary.words  # which is only in the second halves
    for one, other in ((t.model.encoder, copy.model.encoder), (t.model.decoder, following.model.decoder)):
        for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    assert {"copy_perplexity", "next_perplexity"} <= rounds(path)[0].keys()
    assert not any(name.startswith("val_copy") for name in rounds(path)[0])
    card = (path / "README.md").read_text()
    assert "| `copy` | autoencoder | `s` | `s` | 0.5 | `text` |" in card


@pytest.mark.usefixtures("eager")
def test_tensorboard_has_the_validation_metrics_of_the_main_task_only(tasks_file, tmp_path):
    pytest.importorskip("tensorboard")
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    result, _ = train_tasks(tasks_file, tmp_path / "model", updates=1, tensorboard=True)
    events = event_accumulator.EventAccumulator(str(result.model_dir / "logs" / "validation")).Reload()
    names = events.Tags()["tensors"]
    assert "evaluation_perplexity_vs_iterations" in names
    assert not [name for name in names if "copy" in name or "next" in name]


@pytest.mark.usefixtures("uncompiled")
def test_commands_take_a_task(several, tmp_path, capsys):
    path = several[0].model_dir
    (tmp_path / "pairs").write_text("s1 s2\ts1 t2\n")
    flags = [f"--model_dir={path}", f"--input={tmp_path / 'pairs'}", "--format=tsv"]
    for task in ("copy", "t"):
        assert score.COMMAND.main([*flags, f"--task={task}", f"--output={tmp_path / task}"]) == 0
        log_prob = float((tmp_path / task).read_text().split("\t")[2])
        expected = TextScorer(ModelDirectory.load(path, task=task)).score([(["s1", "s2"], ["s1", "t2"])])[0]
        assert log_prob == pytest.approx(expected, rel=1e-4)
    (tmp_path / "input").write_text("s1 s2\n")
    flags = [f"--model_dir={path}", f"--input={tmp_path / 'input'}", "--mode=greedy"]
    assert generate.COMMAND.main([*flags, "--task=next", f"--output={tmp_path / 'next'}"]) == 0
    assert not {word[0] for word in (tmp_path / "next").read_text().split()} - {"t", "<"}
    assert generate.COMMAND.main([*flags, "--task=fr"]) == 1
    sentence = f"{path}: found no task fr in it, expected one of its tasks: t, copy, next; check --task."
    assert sentence in capsys.readouterr().err


@pytest.mark.usefixtures("eager")
def test_the_pruned_model_of_a_task_is_trained_further_with_the_data_of_the_task(several, tmp_path):
    path, pruned = several[0].model_dir, tmp_path / "pruned"
    assert prune.COMMAND.main([f"--model_dir={path}", "--task=copy", "--share=0.5", f"--output={pruned}"]) == 0
    flags = [f"--initial_model={pruned}", "--keep_pruned", f"--model_dir={tmp_path / 'further'}", "--updates=1"]
    assert train_command.COMMAND.main([*flags, "--round_updates=1"]) == 0
    further = ModelDirectory.load(tmp_path / "further")
    assert further.source_vocabulary.words == ModelDirectory.load(path, task="copy").source_vocabulary.words
    assert pruned_share(further.model) >= 0.5
    assert data_before(path / "tasks" / "copy").files["target"].endswith("text")
    assert data_before(path / "tasks" / "next") is None  # no file has the halves of its sentences


def test_the_data_of_a_task_are_read_as_those_of_all_tasks_and_validated_on_their_own(tasks_file):
    loaded = TrainingTasks.load(tasks_file)
    table = TaskConfig(encoder="s", decoder="x", ratio=1.0, phrase_table="table.gz", source_vocabulary="words")
    tasks = TrainingTasks("t", {**loaded.tasks, "table": table})
    data = tasks.training_data(tokenize=True, lowercase=True, validation=("other",), max_length=9)
    assert data.source_vocabulary == "words"
    common = {"source_vocabulary": "words", "max_length": 9}
    assert tasks.data_of("table", data) == TrainingData(phrase_table="table.gz", **common)
    text = tasks.tasks["copy"].text
    expected = TrainingData(source=text, target=text, tokenize=True, lowercase=True, **common)
    assert tasks.data_of("copy", data) == expected
    assert tasks.data_of("next", data) is None


@pytest.mark.usefixtures("eager")
def test_the_settings_of_each_task_are_those_of_the_resumed_run(tasks_file, tmp_path):
    for updates in (1, 2):
        train_tasks(tasks_file, tmp_path / "model", resume=updates > 1, updates=updates, round_updates=1)
    for folder in (tmp_path / "model", tmp_path / "model" / "tasks" / "copy"):
        assert TrainingConfig.from_preset(folder / "settings.toml").updates == 2


def test_a_model_of_one_task_has_no_other(model_dirs):
    with pytest.raises(InputError, match="found no task fr in it, expected a model trained with --tasks; check --task"):
        ModelDirectory.load(model_dirs / "forward", task="fr")


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_ends_with_the_same_weights(tasks_file, tmp_path):
    """Even if it was stopped within a round, between updates of different tasks."""
    limits = {"updates": 6, "round_updates": 4, "checkpoint_minutes": 1e-9, "schedule": "linear"}
    limits |= {"label_smoothing": 0.1}
    train_tasks(tasks_file, tmp_path / "whole", **limits)

    class Killed(Exception):
        pass

    class Kill(TrainingReporter):
        def callbacks(self, budget, updates_per_epoch):
            def end(batch, logs):
                if budget.updates_done == 3:
                    raise Killed

            return [keras.callbacks.LambdaCallback(on_train_batch_end=end)]

    tasks = TrainingTasks.load(tasks_file)
    config = tiny_config(architecture="recurrent", model=MODEL, **limits)
    data = tasks.training_data(held_out_fraction=0.05)
    with pytest.raises(Killed):
        train(config, data, tmp_path / "parts", False, Kill(lambda line: None), tasks)
    assert load_checkpoint(tmp_path / "parts").progress.updates == 2
    train_tasks(tasks_file, tmp_path / "parts", resume=True, **limits)
    for name in ("t", "copy", "next"):
        whole, parts = (ModelDirectory.load(tmp_path / part, task=name).model for part in ("whole", "parts"))
        for a, b in zip(whole.get_weights(), parts.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    found, expected = ([{**entry, "seconds": 0} for entry in rounds(tmp_path / part)] for part in ("parts", "whole"))
    assert found == expected


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_keeps_its_tasks(several, tasks_file, tmp_path):
    path = shutil.copytree(several[0].model_dir, tmp_path / "model")
    shutil.copytree(tasks_file.parent, tmp_path / "files")

    def resumed(old, new):
        (tmp_path / "files" / "tasks.toml").write_text(TASKS.replace(old, new))
        return train_tasks(tmp_path / "files" / "tasks.toml", path, resume=True, updates=12, average_rounds=2)

    with pytest.raises(ConfigurationError, match=r"found ratio=0.6 in \[tasks.copy\], expected 0.5 as in the run"):
        resumed("ratio = 0.5", "ratio = 0.6")
    with pytest.raises(ConfigurationError, match=r"found the task same in tasks, expected none of this name as"):
        resumed("tasks.copy", "tasks.same")
    head, copy, t, last = TASKS.split("[tasks.")
    with pytest.raises(ConfigurationError, match="in the order t, next, copy in tasks, expected t, copy, next as in"):
        resumed(TASKS, "[tasks.".join([head, t, last, copy]))
    config = tiny_config(architecture="recurrent", model=MODEL, updates=12, round_updates=6)
    data = TrainingTasks.load(tasks_file).training_data(held_out_fraction=0.05)
    with pytest.raises(ConfigurationError, match="found no tasks, expected the tasks as in the run to resume"):
        train(config, data, path, True)
    assert resumed("", "")[0].updates == 12
    saved = TrainingTasks.load(path / "tasks.toml")
    assert saved.fixed() == TrainingTasks.load(tasks_file).fixed()
    assert saved.tasks["copy"].text == str(tasks_file.parent / "text")


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_reads_no_file_of_a_task_again_and_says_so(tasks_file, tmp_path):
    files = shutil.copytree(tasks_file.parent, tmp_path / "files")
    (files / "words").write_text("".join(f"s{i}\nt{i}\n" for i in range(5)))
    tasks = TASKS.replace('decoder = "s"', 'decoder = "s"\ntarget_vocabulary = "words"')
    (files / "tasks.toml").write_text(tasks)
    train_tasks(files / "tasks.toml", tmp_path / "model", updates=1)
    (files / "other").write_text("s1 s2\n")
    (files / "tasks.toml").write_text(tasks.replace('text = "text"\nencoder = "s"', 'text = "other"\nencoder = "s"'))
    _, lines = train_tasks(files / "tasks.toml", tmp_path / "model", resume=True, updates=2)
    prepared = f"Continuing with the pairs that were prepared from {files / 'text'}, {files / 'words'}; not read: "
    told = [f"Task copy:\n{prepared}{files / 'other'}, {files / 'words'}."]
    assert ["\n".join(pair) for pair in itertools.pairwise(lines) if pair[0].startswith("Task")] == told
    (files / "tasks.toml").write_text(tasks)
    without_files = TrainingTasks.load(files / "tasks.toml", check_files=False)
    for name in ("text", "tsv", "words", "other"):
        (files / name).unlink()
    lines, config = [], tiny_config(architecture="recurrent", model=MODEL, updates=3, round_updates=6)
    data = without_files.training_data(held_out_fraction=0.05)
    result = train(config, data, tmp_path / "model", True, TrainingReporter(lines.append), without_files)
    assert result.updates == 3 and not any(line.startswith(("Task", "Continuing")) for line in lines)


def test_tasks_are_drawn_in_the_proportions_of_their_ratios():
    ratios = {"fr": 1.0, "de": 0.5, "en": 0.1}
    draws = list(itertools.islice(drawn_tasks(ratios, "fr", seed=3), 4000))
    counts = collections.Counter(itertools.chain(*draws))
    # Standard deviations are 50 and 21.
    assert abs(counts["de"] - 2000) < 200 and abs(counts["en"] - 400) < 80 and counts.keys() == {"de", "en"}
    assert draws == list(itertools.islice(drawn_tasks(ratios, "fr", seed=3), 4000))
    assert draws != list(itertools.islice(drawn_tasks(ratios, "fr", seed=4), 4000))


WRONG = {
    ('main = "t"\n', ""): "found no main task, expected main = with the name of one of the tasks: copy, t, next",
    ('main = "t"', 'main = "u"'): "found main=u, expected one of the tasks: copy, t, next",
    (
        'main = "t"',
        'main = "copy"',
    ): r"found kind=autoencoder in \[tasks.copy\], expected translation for the main task",
    ('main = "t"', 'main = "t"\nseed = 3'): r"found the unknown setting seed, expected main = and sections",
    ("ratio = 0.5\n", ""): r"found no ratio in \[tasks.copy\], expected one, such as 0.1",
    ("ratio = 0.5", "ratio = 0"): r"found ratio=0, expected a number, above 0, 1000 or less, in \[tasks.copy\]",
    (
        'decoder = "t"\n[tasks.next]',
        'decoder = "t"\nratio = 2\n[tasks.next]',
    ): r"found ratio=2 in \[tasks.t\], expected 1",
    ('tsv = "tsv"\n', ""): r"found no data, expected phrase_table, tsv, or source with target, in \[tasks.t\]",
    ('tsv = "tsv"', 'tsv = "tsv"\ntext = "text"'): "found text with kind=translation, expected kind=autoencoder or",
    ('tsv = "tsv"', 'tsv = "none"'): r"found no file .*none for tsv in \[tasks.t\], expected a file or folder",
    ('text = "text"\nencoder = "s"', 'encoder = "s"'): r"found no text with kind=autoencoder, expected a file of",
    ('text = "text"\nencoder = "s"', 'text = "text"\ntsv = "tsv"\nencoder = "s"'): r"found tsv with kind=autoencoder",
    ('encoder = "x"', ""): r"found no encoder, expected its name, in \[tasks.next\]",
    ('encoder = "x"', 'encoder = "x"\nunits = 3'): r"found the unknown hyper-parameter 'units', expected one of kind,",
    ("[tasks.next]", '[tasks."a/b"]'): "found the task 'a/b', expected letters, digits, - and _ in its name",
    ("[tasks.next]", "[tasks.next"): "found a file that cannot be read",
}


@pytest.mark.parametrize("change", WRONG, ids=lambda change: " -> ".join(change).replace("\n", " ")[:60])
def test_wrong_tasks_are_refused_with_the_section(tasks_file, change):
    file = tasks_file.with_name("wrong.toml")
    assert change[0] in TASKS
    file.write_text(TASKS.replace(*change, 1))
    with pytest.raises(InputError, match=WRONG[change]) as refused:
        TrainingTasks.load(file)
    assert refused.value.path == file


def test_one_encoder_has_one_vocabulary(tasks_file):
    folder = tasks_file.parent
    for name in ("a", "b"):
        (folder / name).write_text("s1\ns2\n")
    file = folder / "vocabularies.toml"
    text = TASKS.replace('tsv = "tsv"', 'tsv = "tsv"\nsource_vocabulary = "a"')
    file.write_text(text)
    assert TrainingTasks.load(file).main_files == {"tsv": str(folder / "tsv"), "source_vocabulary": str(folder / "a")}
    file.write_text(text.replace("ratio = 0.5", 'ratio = 0.5\nsource_vocabulary = "b"'))
    expected = r"a in \[tasks.t\], expected one vocabulary of their encoder s"
    with pytest.raises(InputError, match=f"found source_vocabulary=.*b in .tasks.copy. and .*{expected}"):
        TrainingTasks.load(file)


@pytest.mark.usefixtures("eager")
def test_an_empty_task_is_refused_with_its_file(tasks_file, tmp_path):
    shutil.copytree(tasks_file.parent, tmp_path / "files")
    (tmp_path / "files" / "text").write_text("\n\n")
    expected = "text: found 2 pairs, 0 longer than 30 words and 2 with an empty side, in the task copy"
    with pytest.raises(InputError, match=expected):
        train_tasks(tmp_path / "files" / "tasks.toml", tmp_path / "model", updates=1)
    assert not (tmp_path / "model" / "best.keras").exists()


def test_what_does_not_work_with_tasks_is_refused(tasks_file, training_files):
    tasks = TrainingTasks.load(tasks_file)
    config, data = tiny_config(architecture="recurrent", updates=1), tasks.training_data()
    tasks.check_together(config, data)
    for given, expected in (
        (
            data.replace(reverse=True),
            r"found reverse with tasks; swap source and target in \[tasks.t\] instead",
        ),
        (data.replace(unknown="posunk"), "found unknown=posunk with tasks, which have no word alignments; drop one"),
        (
            TrainingData(tsv=training_files / "tsv"),
            r"found tsv=.* with tasks, expected the file in the section \[tasks",
        ),
    ):
        with pytest.raises(ConfigurationError, match=expected):
            tasks.check_together(config, given)
    with pytest.raises(ConfigurationError, match="found tasks with dtype_policy=mixed_float16"):
        tasks.check_together(config.replace(dtype_policy="mixed_float16"), data)
    with pytest.raises(
        ConfigurationError, match="found gradual_pruning with tasks, but a model of several tasks is not"
    ):
        tasks.check_together(config.replace(gradual_pruning=0.5), data)
    with pytest.raises(ConfigurationError, match="found characters=both with tasks, expected one of them"):
        spelling = tiny_config(architecture="recurrent", updates=1, model={"attention": "global", "characters": "both"})
        tasks.check_together(spelling, data)
    with pytest.raises(ConfigurationError, match="found tasks with architecture=language_model, which has no source"):
        tasks.check_together(config.replace(architecture="language_model"), data)
