"""A whole experiment, from lists and from parallel text, with models that are trained for one update."""

import contextlib
import io
import json
import pathlib
import re
import signal
import sys

import pytest

from keras_encdec.analysis.page import figures
from keras_encdec.analysis.page.page import Drawing
from keras_encdec.cli import experiment as command
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.errors import InputError
from keras_encdec.experiment import experiment, load_experiment, stage_functions
from keras_encdec.experiment.results import ExperimentResult, RowResult, draw_results, write_results
from keras_encdec.formats import InputLines

TABLE = """a ||| A ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 2 2 1
a b ||| A B ||| 1 0.25 1 0.25 ||| 0-0 1-1 ||| 1 1 1
b ||| B ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 2 2 1
b ||| C ||| 0.25 0.5 0.25 0.5 ||| 0-0 ||| 2 2 1
c ||| C ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 2 2 1
"""
# The decoder prefers C as a translation of b; the references do not.
NBEST = """0 ||| A C  ||| LM0= -1 PhrasePenalty0= 2 TM0= -2.07944 -1.38629 -2.07944 -1.38629 ||| -1 ||| 0=0 1=1
0 ||| A B  ||| LM0= -3 PhrasePenalty0= 1 TM0= 0 -1.38629 0 -1.38629 ||| -2 ||| 0-1=0-1
1 ||| C C A C  ||| LM0= -1 PhrasePenalty0= 4 TM0= -4.15888 -2.77259 -4.15888 -2.77259 ||| -1
1 ||| C B A B  ||| LM0= -5 PhrasePenalty0= 3 TM0= -1.38629 -2.77259 -1.38629 -2.77259 ||| -2
""".replace("TM0", "TranslationModel0")
SENTENCE = """
[features.Sentence]
kind = "sentences"
preset = "small_sentences"
counts = true
model = { units = 4, embedding_dim = 4 }
training = { updates = 1, jit_compile = "false", tensorboard = false }
"""
CONFIG = """
title = "A test"
[data]
train_source = "text.en"
train_target = "text.fr"
dev_source = "text.en"
dev_target = "text.fr"
test_source = "text.en"
test_target = "text.fr"
[baseline]
system = "lists"
phrase_table = "table"
dev_nbest = "nbest"
test_nbest = "nbest"
weights = "weights"
[tuning]
algorithm = "pro"
seeds = 2
[features.RNN]
preset = "small"
model = { units = 4, embedding_dim = 4, maxout_units = 2, output_rank = 2 }
training = { updates = 1, jit_compile = "false", tensorboard = false }
data = { shortlist = 2 }
[features.WP]
kind = "unknown_words"
of = "RNN"
[features.CSLM]
kind = "language_model"
preset = "cslm"
model = { embedding_dim = 4, hidden_units = [4] }
training = { updates = 1, jit_compile = "false", tensorboard = false }
%s
[[rows]]
name = "Baseline"
[[rows]]
name = "+ CSLM + RNN"
features = ["RNN", "CSLM"]
published_gain = 1.34
[[rows]]
name = "all \U0010fffd"
features = ["RNN", "CSLM", "WP"%s]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "table").write_text(TABLE)
    (tmp_path / "nbest").write_text(NBEST)
    (tmp_path / "text.en").write_text("a b\nc b a b\n")
    (tmp_path / "text.fr").write_text("A B\nC B A B\n")
    (tmp_path / "weights").write_text("LM0= 1\nPhrasePenalty0= 0\nTranslationModel0= 0 0 0 0\n")
    (tmp_path / "experiment.toml").write_text(CONFIG % (SENTENCE, ', "Sentence"'))
    return tmp_path


def run(folder):
    """The result, and the names of the stages that were run."""
    begun = []
    config, output = folder / "experiment.toml", folder / "out"
    result = experiment(config, output, begun=lambda stage, number: begun.append(stage.name))
    return result, begun


def features(path):
    with InputLines(path) as lines:
        return [re.findall(r"(\w+)= (\S+)", line.decode().split("|||")[2]) for line in lines]


def test_from_lists(folder, eager, uncompiled, monkeypatch):
    result, begun = run(folder)
    assert begun == [stage.name for stage in result.stages] and len(set(begun)) == len(begun)
    baseline, _, everything = result.rows
    assert [row.name for row in result.rows] == ["Baseline", "+ CSLM + RNN", "all \U0010fffd"]
    assert "\U0010fffd" in result.notices[0]  # the character for private use, which no font has
    # PRO learns from the table's scores alone that B is better.
    assert baseline.test == baseline.dev == pytest.approx([100, 100]) and everything.gain == pytest.approx(0)
    assert result.rows[1].published_gain == 1.34 and baseline.gain is None

    added = features(folder / "out" / "nbest" / "RNN-CSLM-WP-Sentence.dev.gz")
    names = [name for name, _ in added[0]]
    assert names[-6:] == ["RNN0", "CSLM0", "WP0", "Sentence0", "Unknown0", "Length0"]
    # The shortlist has two of three words.
    known = set((folder / "out" / "models" / "RNN" / "target.vocab").read_text().split())
    hypotheses = ["A C", "A B", "C C A C", "C B A B"]
    unknown = [sum(word not in known for word in words.split()) for words in hypotheses]
    assert [float(dict(line)["WP0"]) for line in added] == pytest.approx(unknown, abs=1e-3) and 0 < sum(unknown) < 12
    assert all(float(dict(line)[name]) < 0 for line in added for name in ("RNN0", "CSLM0", "Sentence0"))

    found = {stage.name: stage.result for stage in result.stages}
    assert found["add-RNN-dev"] == {"lines": 4, "recovered": 2, "without_phrases": 0, "malformed": 0}
    written = json.loads((folder / "out" / "results.json").read_text())
    assert written["rows"][2]["test"] == list(everything.test) and written["stages"][0]["seconds"] >= 0
    text = (folder / "out" / "results.md").read_text()
    assert text.startswith("# A test\n") and "| + CSLM + RNN | 100.00 ± 0.00 | 100.00 ± 0.00 | +0.00 | " in text
    assert "| train-RNN | " in text and "+1.34 |" in text
    assert (folder / "out" / "results.png").read_bytes().startswith(b"\x89PNG")
    assert "published" not in (folder / "out" / "results.svg").read_text()

    (folder / "out" / "results.md").unlink()
    with monkeypatch.context() as without_library, pytest.raises(ImportError, match="The plot needs matplotlib"):
        without_library.setitem(sys.modules, "matplotlib", None)
        run(folder)
    assert (folder / "out" / "results.md").read_text() == text, "results are written before the plot"

    assert run(folder)[1] == []
    (folder / "experiment.toml").write_text((CONFIG % (SENTENCE, ', "Sentence"')).replace("seeds = 2", "seeds = 3"))
    assert run(folder)[1] == ["tune-0", "tune-1", "tune-2", "evaluate"]


def test_the_title_and_names_of_rows_may_have_any_characters(tmp_path):
    rows = [RowResult(name, (1.0,), (2.0,), 0.5) for name in ("costs $5", "a$b_$", "a|b", "c\nd", "\U0010fffd")]
    result = ExperimentResult("Two\nlines", "BLEU", "case:mixed", "mira", tuple(rows), ())
    write_results(result, tmp_path)
    (notice,) = draw_results(result, tmp_path)  # about the character for private use
    assert "boxes in place of a character, \U0010fffd," in notice and "results.md and results.json are not" in notice
    assert "costs $5" in (tmp_path / "results.svg").read_text()
    assert (tmp_path / "results.md").read_text().startswith("# Two lines\n\n|")
    for name in (r"a\|b", "c d"):
        assert f"\n| {name} | 1.00 | 2.00 |" in (tmp_path / "results.md").read_text()


def test_a_mean_is_written_beside_the_marks_of_all_tunings(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "rendered", lambda figure: drawn.append(figure) or Drawing(b"", b""))
    rows = (RowResult("Baseline", (28.0, 29.5), (33.0, 32.5), 0.5),)
    draw_results(ExperimentResult("Title", "BLEU", "case:mixed", "mira", rows, ()), tmp_path)
    assert [(text.get_text(), text.xy[0]) for text in drawn[0].axes[0].texts] == [("28.75", 29.5), ("32.75", 33.0)]


DECODER = """
[data]
train_source = "train.en"
train_target = "train.fr"
dev_source = "dev.en"
dev_target = "dev.fr"
test_source = "dev.en"
test_target = "dev.fr"
[baseline]
system = "decoder"
nbest_size = 5
rounds = 2
[tuning]
seeds = 1
[[rows]]
name = "Baseline"
"""


def test_from_parallel_text_with_the_packages_decoder(tmp_path):
    """On sentences that it was trained on, so that it translates most of them as the references do."""
    data = libreoffice_en_fr()
    for language, path in (("en", data.dev_source), ("fr", data.dev_target)):
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
        for name, number in (("train", 200), ("dev", 8)):
            (tmp_path / f"{name}.{language}").write_text("".join(lines[:number]), encoding="utf-8")
    with open(tmp_path / "train.en", "a") as source, open(tmp_path / "train.fr", "a") as target:
        source.write("\n" + "word " * 101 + "\n")  # an empty and a long sentence, which are left out
        target.write("mot\nmot\n")
    with open(tmp_path / "dev.en", "a") as source, open(tmp_path / "dev.fr", "a") as target:
        source.write("xxx " * 101 + "\n")
        target.write("xxx " * 101 + "\n")
    (tmp_path / "experiment.toml").write_text(DECODER)
    result, begun = run(tmp_path)
    assert begun == ["extract", "ngrams", "tune-decoder", "decode-test", "tune-0", "evaluate"]
    found = {stage.name: stage.result for stage in result.stages}
    assert found["extract"]["sentence_pairs"] == 200 and found["extract"]["phrase_pairs"] > 1000
    assert found["extract"]["left_out"] == 2
    assert found["tune-decoder"]["rounds"] == 2 and found["tune-decoder"]["score"] > 50
    assert found["decode-test"]["sentences"] == 9 and found["decode-test"]["hypotheses"] > 9
    assert all(score > 50 for score in result.rows[0].test)
    with InputLines(tmp_path / "out" / "nbest" / "test.gz") as lines:
        assert {line.split(b" ", 1)[0] for line in lines} == {b"%d" % number for number in range(9)}

    text = tmp_path / "train.en"
    text.write_bytes(b"caf\xe9\n" + text.read_bytes().partition(b"\n")[2])
    with pytest.raises(InputError, match="train.en, line 1: found bytes that are not UTF-8 .*; convert the file"):
        run(tmp_path)


def test_a_table_with_which_the_lists_were_not_made_is_an_error(folder, eager, uncompiled):
    """It would be a feature that is 0 everywhere, and a gain of 0."""
    table = folder / "table"
    table.write_text(re.sub(r"(?m)^(\S)", r"x\1", table.read_text()))
    with pytest.raises(InputError, match="found no phrases of .* in 4 of 4 hypotheses, .*expected the table that"):
        run(folder)
    assert not (folder / "out" / "nbest" / "RNN.dev.gz").exists()


def test_a_test_list_of_other_sentences_is_reported_before_anything_is_trained(folder):
    (folder / "short").write_text("".join(NBEST.splitlines(keepends=True)[:2]))
    config = folder / "experiment.toml"
    config.write_text(config.read_text().replace('test_nbest = "nbest"', 'test_nbest = "short"'))
    with pytest.raises(InputError, match="short, line 2: found the last id 0, expected ids from 0 to 1, as .*text.fr"):
        run(folder)
    assert not (folder / "out" / "models").exists()


def test_sentences_without_hypotheses_and_notices_of_the_tuning_are_shown_and_kept(folder):
    (folder / "sparse").write_text("".join(NBEST.splitlines(keepends=True)[2:]))
    (folder / "other.fr").write_text("D\nE\n")
    config = (CONFIG % ("", "")).partition("[features")[0] + '[[rows]]\nname = "Baseline"\n'
    for old, new in (('test_nbest = "nbest"', 'test_nbest = "sparse"'), ('dev_target = "text', 'dev_target = "other')):
        config = config.replace(old, new)
    (folder / "experiment.toml").write_text(config)
    arguments = [f"--config={folder / 'experiment.toml'}", f"--output={folder / 'out'}"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        assert command.COMMAND.main(arguments) == 0
    result, begun = run(folder)
    tuned = result.stages[0].result
    assert not begun and tuned["test_missing"] == 1 and "dev_missing" not in tuned
    (notice,) = tuned["notices"]
    assert notice.startswith("All weights that were tried have BLEU 0.00 on the lists, ")
    assert f"s; dev 0.00 0.00, metric BLEU, test_missing 1\n    {notice}\n[2/2] evaluate\n" in said.getvalue()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        assert command.COMMAND.main(arguments) == 0
    assert f"[1] tune-0: nothing has changed\n    {notice}\n[2] evaluate: nothing has changed\n" in said.getvalue()


def test_notes_in_the_place_of_a_result_are_an_error_and_stay(folder):
    (folder / "out").mkdir()
    (folder / "out" / "results.md").write_text("my notes")
    with pytest.raises(InputError, match="results.md: found a file or folder that no earlier run made"):
        run(folder)
    assert (folder / "out" / "results.md").read_text() == "my notes"


def test_a_signal_during_training_ends_the_command(folder, eager, uncompiled, monkeypatch, signals_obeyed):
    rows = '[[rows]]\nname = "Baseline"\n[[rows]]\nname = "+ RNN"\nfeatures = ["RNN"]\n'
    (folder / "experiment.toml").write_text((CONFIG % ("", "")).partition("[[rows]]")[0] + rows)
    train = stage_functions.train

    def stopped(*arguments, **options):
        result = train(*arguments, **options)
        return type(result)(**{**vars(result), "signal": signal.SIGTERM})

    arguments = [f"--config={folder / 'experiment.toml'}", f"--output={folder / 'out'}"]
    monkeypatch.setattr(stage_functions, "train", lambda *arguments, **options: signal.raise_signal(signal.SIGTERM))
    with contextlib.redirect_stderr(io.StringIO()) as said:  # before the training handles signals itself
        assert command.COMMAND.main(arguments) == 128 + signal.SIGTERM
    assert said.getvalue().endswith("\nencdec-experiment: interrupted; run the same command again to continue.\n")
    monkeypatch.setattr(stage_functions, "train", stopped)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert command.COMMAND.main(arguments) == 128 + signal.SIGTERM
    assert "[2/" in said.getvalue() and "Stopped by a signal; run the same command again to continue" in said.getvalue()
    with pytest.raises(stage_functions.TrainingStopped, match="found signal 15 .*; the same call continues it"):
        run(folder)
    monkeypatch.undo()
    with contextlib.redirect_stdout(io.StringIO()) as table, contextlib.redirect_stderr(io.StringIO()) as said:
        assert command.COMMAND.main(arguments) == 0
    assert "[1] tune-0: nothing has changed" in said.getvalue()
    assert "| + RNN | " in table.getvalue() and f"Written to {folder / 'out' / 'results.md'}" in table.getvalue()


def test_the_packages_experiment_is_read_by_its_name():
    assert [row.published_gain for row in load_experiment("libreoffice").rows] == [None, 0.57, 1.34, 1.24]
    with pytest.raises(ValueError, match="found None in place of the path of an experiment, expected a str or"):
        load_experiment(None)
