"""What training refuses, and how it ends when it cannot continue."""

import gzip
import os
import shutil
import signal
import socket

import pytest
from tiny_trainings import number_of_updates, rounds, tiny_config, train_tiny

from keras_encdec.cli.demo import demonstrate
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingReporter, train


@pytest.mark.usefixtures("eager")
def test_a_second_run_in_a_directory_is_refused_and_scoring_continues(training_files, tsv, tmp_path):
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
            with pytest.raises(InputError, match="another training at work in this directory"):
                demonstrate(tmp_path)  # it would train in the same folder

    train(tiny_config(updates=1), tsv, tmp_path / "model", reporter=Intruder(lambda line: None))
    assert scored == [(1,)] and refusals == {
        f"{tmp_path}/model: found another training at work in this directory (process {os.getpid()} on "
        f"{socket.gethostname()}), expected one at a time; wait until it ends, or give another --model_dir."
    }
    assert not list((tmp_path / "model").glob(".*"))
    assert ModelDirectory.load(tmp_path / "model").model.config.units == 8


def test_only_a_folder_of_prepared_pairs_is_replaced(tsv, tmp_path):
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=f"{tmp_path}/prepared: found 'thesis.tex' in it, expected a prepared set"):
        train_tiny(tsv, tmp_path, updates=1)
    assert (tmp_path / "prepared" / "thesis.tex").read_text() == "years of work"


@pytest.mark.usefixtures("eager")
def test_the_error_names_an_unusable_input_and_nothing_is_left(training_files, tsv, tmp_path):
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
    expected = "found 2 pairs, 1 longer than 1 word and 1 with an empty side", "raise --max_length"
    fails(data.replace(max_length=1), *expected)
    short.write_text("t1\n")
    data = TrainingData(source=training_files / "source", target=short)
    fails(data, f"{training_files}/source: found 400 lines, and 1 line in {short}, expected the same number")
    short.write_text("s3\ns1\ns3\n")
    expected = f'{short}, line 3: found "s3" again, as on line 1, expected distinct words'
    fails(tsv.replace(source_vocabulary=short), expected)
    assert not (tmp_path / "m").exists()
    (tmp_path / "tsv").write_text("s1\tt1\nno tab\n")
    data = TrainingData(tsv=tmp_path / "tsv")
    fails(data.replace(tokenize=True), f"{tmp_path}/tsv, line 2: found no tab")
    fails(tsv.replace(validation=(tmp_path / "tsv",)), f"{tmp_path}/tsv, line 2: found no tab")
    assert not (tmp_path / "m").exists()
    with pytest.raises(InputError, match=f"{table}/m: found a file where the path"):
        train_tiny(tsv, table / "m", updates=1)
    _, lines = train_tiny(data.replace(on_error="keep", max_length=1), tmp_path / "m", updates=1)
    assert lines[0] == "1 unique pair of 1; left out: 0 longer than 1 word, 0 with an empty side, 1 malformed."
    assert sorted(os.listdir(tmp_path)) == ["m", "short", "table.gz", "tsv"]


@pytest.mark.usefixtures("eager")
def test_an_argument_of_another_type_is_named(tsv, tmp_path):
    config, data = TrainingConfig.from_preset("small", updates=1), TrainingData(tsv=str(tsv))
    with pytest.raises(ValueError, match="found config='small', expected a TrainingConfig"):
        train("small", data, tmp_path)
    with pytest.raises(ValueError, match="found data=.*, expected a TrainingData"):
        train(config, str(tsv), tmp_path)
    for path in (None, ""):
        with pytest.raises(ValueError, match=f"found {path!r} in place of the path of a model directory, expec"):
            train(config, data, path)


def test_validation_pairs_that_are_left_out_are_reported(tsv, tmp_path):
    held_out, long = tmp_path / "held_out", f"{'s1 ' * 1001}\tt1\n"
    held_out.write_text(long * 3)
    with pytest.raises(InputError) as error:
        train_tiny(tsv.replace(validation=(str(held_out),)), tmp_path / "m", updates=1)
    assert str(error.value) == (
        f"{held_out}: found 3 pairs, 3 longer than 1,000 words and 0 with an empty side, expected at least "
        "one to validate on; give shorter pairs as --validation."
    )
    held_out.write_text(f"{long}s1\tt1\ns2\t\nno tab\n")
    data = tsv.replace(validation=(str(held_out),), on_error="keep")
    said = "left out: {} longer than {:,} words, 1 with an empty side, 1 malformed."
    _, lines = train_tiny(data, tmp_path / "m", updates=1)
    assert f"To validate on: 1 unique of 3; {said.format(1, 1000)}" in lines
    _, lines = train_tiny(data.replace(max_length=1001), tmp_path / "long", updates=1)
    assert f"To validate on: 2 unique of 3; {said.format(0, 1001)}" in lines
    held_out.write_text("s1\tt1\n")
    _, lines = train_tiny(data, tmp_path / "all", updates=1)
    assert not any("To validate on" in line for line in lines)


@pytest.mark.usefixtures("eager")
def test_validation_pairs_with_their_sides_exchanged_are_noticed(tsv, tmp_path):
    (tmp_path / "exchanged").write_text("t1 t2\ts1 t2\n")
    data = tsv.replace(validation=(str(tmp_path / "exchanged"),))
    with pytest.warns(EncdecWarning, match="source: 100.00 % of the 2 words are unknown to the model; check") as found:
        train_tiny(data, tmp_path / "m", updates=1)
    assert sum(issubclass(each.category, EncdecWarning) for each in found) == 1, "half of the target words are known"


@pytest.mark.usefixtures("eager")
def test_the_share_of_words_outside_the_shortlist_does_not_count_ends(tmp_path):
    (tmp_path / "tsv").write_text("s1 s1 s2\tt1\ns1\tt1 t1 t2 t3\n")
    _, lines = train_tiny(TrainingData(tsv=tmp_path / "tsv", shortlist=1), tmp_path / "m", updates=1)
    assert lines[1] == "source: 1 word in the shortlist; 25.00 % of the words in the text are outside it."
    assert lines[2] == "target: 1 word in the shortlist; 40.00 % of the words in the text are outside it."


@pytest.mark.usefixtures("eager")
def test_a_training_that_ends_within_its_warm_up_says_so_at_the_beginning(tsv, tmp_path):
    _, lines = train_tiny(tsv, tmp_path / "m", updates=2, warmup_updates=2)
    said = "warning: the training ends after 2 updates, while the learning rate still rises over the first 2; "
    (before,) = (number for number, line in enumerate(lines) if line.startswith(said))
    following = (line for line in lines[before + 1 :] if not line.startswith("Compiling"))
    assert next(following).startswith("Round 1")
    _, lines = train_tiny(tsv, tmp_path / "other", updates=2, warmup_updates=1)
    assert not any("warning: the training ends" in line for line in lines)


@pytest.mark.usefixtures("eager")
def test_a_diverging_run_stops_and_keeps_the_last_good_round(tsv, tmp_path):
    path = tmp_path / "m"
    settings = {"round_updates": 1, "optimizer": "sgd", "clip_norm": 0}
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(InputError, match="the training diverged: train again with a lower --learning_rate"):
        train_tiny(tsv, path, updates=10, **settings, learning_rate=1e30)
    assert not (path / "best.keras").exists()
    assert signal.getsignal(signal.SIGINT) == handler, "an interrupt of what follows would be ignored"
    train_tiny(tsv, path, updates=2, **settings, learning_rate=0.001)
    with pytest.raises(InputError, match="continue from the last checkpoint with --resume and a lower --learn"):
        train_tiny(tsv, path, resume=True, updates=10, **settings, learning_rate=1e30)
    assert number_of_updates(path) == [1, 2]
    best = (path / "best.keras").read_bytes()
    # With steps that are only a little too large, the last model gets worse, and the best is kept.
    _, lines = train_tiny(tsv, path, resume=True, updates=4, **settings, learning_rate=0.3)
    assert any("after 2 updates" in line for line in lines) and (path / "best.keras").read_bytes() == best
    assert rounds(path)[-1]["val_perplexity"] > 20


@pytest.mark.usefixtures("eager")
def test_a_full_disk_is_an_error(tsv, disk):
    settings = {"updates": 1, "model": {"units": 100}}
    tiny, small = disk("100k"), disk("900k")
    with pytest.raises(InputError, match=f"{tiny}/m/prepared: found the disk full.*free space"):
        train_tiny(tsv, tiny / "m", **settings)
    assert os.listdir(tiny) == []
    expected = "found that writing failed .No space left on device.; free space, then train again"
    with pytest.raises(InputError, match=f"{small}/m/last.keras: {expected}"):
        train_tiny(tsv, small / "m", **settings)
    assert not list((small / "m").glob(".partial*")) and not (small / "m" / "last.keras").exists()


@pytest.mark.usefixtures("eager")
def test_a_directory_that_disappears_during_the_training_is_not_reported_as_a_full_disk(tsv, tmp_path):
    model = tmp_path / "m"

    class Remover(TrainingReporter):
        def round_ended(self, *arguments):
            shutil.rmtree(model)
            model.touch()

    expected = "found that writing failed .Not a directory.; check the disk and the folder, then train again"
    with pytest.raises(InputError, match=f"{model}/best.keras: {expected}"):
        train(tiny_config(updates=2, round_updates=1), tsv, model, reporter=Remover(lambda line: None))
