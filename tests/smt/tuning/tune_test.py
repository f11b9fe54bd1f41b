"""Tuning of weights from files to files."""

import gzip
import json
import os
import re
import shutil

import numpy as np
import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import read_weights
from keras_encdec.smt import rerank
from keras_encdec.smt.evaluation import evaluate
from keras_encdec.smt.tuning import tune
from keras_encdec.smt.tuning.tune import SEARCHES

# The decoder's weights take the first hypothesis of each sentence, and RNN0 knows better.
NBEST = """0 ||| the cat sat on a mat ||| LM0= -4 TM0= -1 -2 RNN0= -5 ||| 9
0 ||| the cat sat on the mat ||| LM0= -5 TM0= -1 -2 RNN0= -2 ||| 8
1 ||| dog runs here today now ||| LM0= -4 TM0= -1 -1 RNN0= -4 ||| 9
1 ||| a dog runs here today ||| LM0= -4.5 TM0= -1 -2 RNN0= -3 ||| 8
1 ||| a cat ||| LM0= -1 TM0= -9 -9 RNN0= -9 ||| 7
"""
REFERENCES = "the cat sat on the mat\na dog runs here today\n"
INI = """[feature]\r
UnknownWordPenalty
KENLM name=LM0 factor=0
PhraseDictionaryMemory name=TM0 num-features=2 path=t.gz
[weight]
 LM0= 1 # 5-gram
UnknownWordPenalty0= 1
TM0= 0.2 0.1\r
[threads]
2"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nbest").write_text(NBEST)
    (tmp_path / "plain").write_text(re.sub(r" RNN0= \S+", "", NBEST))
    (tmp_path / "ref").write_text(REFERENCES)
    (tmp_path / "moses.ini").write_text(INI, newline="")
    return tmp_path


def tuned(folder, nbest="nbest", references="ref", **options):
    return tune([folder / nbest], [folder / references], folder / "moses.ini", **options)


@pytest.mark.parametrize("algorithm", ["mert", "mira", "pro"])
@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_written_weights_rank_as_the_result_says(files, out, algorithm, metric):
    held_out = {"test_nbest": [files / "nbest"], "test_references": [files / "ref"]}
    tuning = tuned(files, algorithm=algorithm, metric=metric, seeds=2, weights_out=out / "weights", **held_out)
    assert [seed_result.seed for seed_result in tuning.tuned] == [1, 2] and tuning.best in tuning.tuned
    assert tuning.best.score == pytest.approx(100) and tuning.initial_score < 90
    assert tuning.initial_test_score == tuning.initial_score and tuning.best.test_score == tuning.best.score
    read = read_weights(out / "weights")
    assert read == tuning.best.weights and list(read) == ["LM0", "TM0", "RNN0"]
    assert sum(abs(value) for values in read.values() for value in values) == pytest.approx(1, abs=1e-5)
    rerank(files / "nbest", out / "best", out / "weights", format="text")
    (result,) = evaluate([files / "ref"], {"x": [out / "best"]}, metrics=[metric], tokenize="none")
    assert result.systems[0].scores == (tuning.best.score,)


def test_values_that_moses_does_not_tune_keep_their_weights(files, out):
    """TM0 has three scores, of which the lists have the first and the last."""
    ini = INI.replace("num-features=2", "num-features=3 tuneable-components=1,0,1").replace("0.2 0.1", "0.2 9 0.1")
    (files / "moses.ini").write_text(ini, newline="")
    tuning = tuned(files, nbest="plain", weights_out=out / "weights", moses_ini_out=out / "ini")
    first, last = tuning.best.weights["TM0"]
    assert read_weights(out / "weights") == tuning.best.weights
    assert read_weights(out / "ini")["TM0"] == [first, 9, last]


def test_every_seeds_weights_are_written_on_request(files, out):
    reported = []
    tuning = tuned(files, seeds=2, all_weights_out=out / "all", report=reported.append)
    assert tuple(reported) == tuning.tuned and sorted(os.listdir(out / "all")) == ["weights.1", "weights.2"]
    assert (out / "all" / "weights.2").read_text().startswith("# mert, seed 2: BLEU 100.00 on the lists\nLM0= ")
    assert str(tuning).splitlines()[2:] == [
        f"before    {tuning.initial_score:8.2f}",
        "seed 1      100.00",
        "seed 2      100.00",
        "mean        100.00",
        "deviation     0.00",
        "best: seed 1",
    ]
    dumped = json.loads(json.dumps(tuning.to_dict()))
    assert dumped["mean"] == pytest.approx(100) and dumped["tuned"][1]["weights"]["TM0"] == list(
        tuning.tuned[1].weights["TM0"]
    )


def test_the_folder_of_every_seeds_weights_may_be_remote(files):
    tuning = tuned(files, seeds=2, all_weights_out="memory://tuned/all")
    assert read_weights("memory://tuned/all/weights.2") == tuning.tuned[1].weights


def test_one_seed_has_no_mean(files):
    assert [line.split()[0] for line in str(tuned(files)).splitlines()[2:]] == ["before", "seed"]


def test_files_that_cannot_be_written_are_reported_before_the_search(files):
    (files / "file").write_text("x")
    for options in ({"weights_out": files / "none" / "w"}, {"all_weights_out": files / "file" / "folder"}):
        with pytest.raises(InputError, match=f"^{files}/(none|file)/"):
            tuned(files, report=pytest.fail, **options)


@pytest.mark.parametrize("error", [InputError, KeyboardInterrupt])
def test_no_empty_folder_is_left_if_the_tuning_fails_or_is_interrupted(files, out, error, monkeypatch):
    def fail(*arguments):
        raise error("interrupted")

    monkeypatch.setitem(SEARCHES, "mert", fail)
    with pytest.raises(error):
        tuned(files, all_weights_out=out / "new" / "folder")
    (out / "old").mkdir()
    with pytest.raises(error):
        tuned(files, all_weights_out=out / "old")
    assert os.listdir(out) == ["old"]


def test_a_moses_ini_gets_the_weights_and_keeps_everything_else(files, out):
    tuning = tuned(files, "plain", moses_ini_out=out / "tuned.ini")
    (lm,), (first, second) = tuning.best.weights["LM0"], tuning.best.weights["TM0"]
    expected = INI.replace("LM0= 1 #", f"LM0= {lm:.6g} #").replace("TM0= 0.2 0.1", f"TM0= {first:.6g} {second:.6g}")
    assert (out / "tuned.ini").read_bytes().decode() == expected
    (files / "moses.ini").write_bytes(gzip.compress(INI.encode() + b"\n"))
    tuned(files, "plain", moses_ini_out=out / "tuned.ini")
    assert (out / "tuned.ini").read_bytes().decode() == expected + "\n"
    with pytest.raises(InputError, match="found no weights of RNN0 in .weight., .*compute to --weights_out"):
        tuned(files, moses_ini_out=out / "other.ini")
    assert os.listdir(out) == ["tuned.ini"]


def test_a_moses_ini_in_a_pipe_is_an_error(files, out):
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as pipe:
        pipe.write(INI)
        pipe.close()
        path = f"/dev/fd/{reading}"
        with pytest.raises(InputError, match=f"^{path}: found a pipe, expected a file, because it is read more than"):
            tune([files / "nbest"], [files / "ref"], path, moses_ini_out=out / "tuned.ini")
        tune([files / "nbest"], [files / "ref"], path, weights_out=out / "weights")


def test_a_moses_ini_gets_the_weights_of_sparse_features(files, out):
    """Those that [weight-file] has are the initial weights."""
    (files / "nbest").write_text(NBEST.replace("RNN0=", "Sparse_x="))
    (files / "moses.ini").write_text(f"{INI}\n[weight-file]\nsparse\n", newline="")
    (files / "sparse").write_text("Sparse_x 0.75\n")
    tuning = tuned(files, moses_ini_out=out / "tuned.ini")
    assert tuning.initial_score == pytest.approx(100)
    shutil.copy(files / "sparse", out)
    assert read_weights(out / "tuned.ini") == {**tuning.best.weights, "UnknownWordPenalty0": [1]}


def test_a_word_penalty_is_tuned_and_ranked_with(files, out):
    tuned(files, "plain", word_penalty=True, weights_out=out / "weights")
    assert "WordPenalty0" in read_weights(out / "weights")
    rerank(files / "plain", out / "best", out / "weights", word_penalty=True)
    assert [line.count(b"WordPenalty0= -6 ||| ") for line in (out / "best").read_bytes().splitlines()[:2]] == [1, 1]
    with pytest.raises(InputError, match="plain, line 1: found no values of WordPenalty0"):
        rerank(files / "plain", out / "other", out / "weights")


def test_lists_with_one_hypothesis_per_sentence_leave_the_weights(files):
    (files / "nbest").write_text("".join(line + "\n" for line in NBEST.splitlines()[::2][:2]))
    for algorithm in ("mert", "mira", "pro"):
        tuning = tuned(files, algorithm=algorithm)
        assert tuning.best.score == tuning.initial_score and (tuning.sentences, tuning.hypotheses) == (2, 2)
        assert tuning.best.weights["LM0"] == [pytest.approx(1 / 1.3, abs=1e-5)]


def test_weights_of_features_that_the_lists_lack_are_refused(files):
    result = f"{files}/moses.ini: found weights of LM0, expected weights of features in the lists only; give lists "
    (files / "nbest").write_text(NBEST.replace("LM0", "LM1"))
    with pytest.raises(InputError, match=re.escape(result)):
        tuned(files)
    tuned(files, other_weights={"LM0": [0]})
    (files / "nbest").write_text(NBEST.replace("TM0= -", "TM0= 0 -"))
    with pytest.raises(InputError, match="moses.ini: found 2 weights of TM0, expected 3, its number of values in"):
        tuned(files)


def test_contradictory_arguments_are_refused(files):
    for options, sentence in (
        ({"algorithm": "grid"}, "found algorithm=.grid., expected one of mert, mira, pro"),
        ({"metric": "ter"}, "found metric=.ter., expected one of bleu, chrf"),
        ({"seeds": 0}, "found seeds=0, expected a whole number, 1 or more"),
        ({"metric": "chrf", "tokenize": "13a"}, "found tokenize=13a with metric=chrf, expected it with bleu"),
        ({"weights_out": "-", "moses_ini_out": "-"}, "found weights_out=- and moses_ini_out=-, expected a file for"),
        ({"test_nbest": "x", "test_references": ["y"]}, "found test_nbest='x', expected a list of paths"),
        ({"test_nbest": ["x"]}, "found test_nbest or test_references alone"),
        ({"weights_out": files / "nbest"}, "found one file for two purposes"),
        ({"moses_ini_out": files / "moses.ini"}, "found one file for two purposes"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            tuned(files, **options)
    (files / "weights.2").write_text(NBEST)
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        tune([files / "weights.2"], [files / "ref"], seeds=2, all_weights_out=files)
    with pytest.raises(ConfigurationError, match="found an empty list of nbest, expected one path or more"):
        tune([], [files / "ref"])
    with pytest.raises(ConfigurationError, match="found moses_ini_out without weights, expected the moses.ini"):
        tune([files / "nbest"], [files / "ref"], moses_ini_out=files / "x")
    (files / "ref2").write_text("x\n")
    with pytest.raises(InputError, match="ref2: found 1 line, expected 2, the number in .*ref"):
        tune([files / "nbest"], [files / "ref", files / "ref2"])


@pytest.mark.parametrize("algorithm", ["mert", "mira", "pro"])
def test_the_initial_weights_are_kept_if_the_search_finds_worse_ones(files, out, algorithm, monkeypatch):
    monkeypatch.setitem(SEARCHES, algorithm, lambda lists, begin, rng: np.array([1.0, 0.0, 0.0, 0.0]))
    good = {"RNN0": [3.0], "LM0": [0.0], "TM0": [0.0, 0.0]}
    tuning = tuned(files, algorithm=algorithm, other_weights=good, weights_out=out / "weights")
    assert tuning.best.score == pytest.approx(100) and tuning.best.discarded_score < 90
    assert read_weights(out / "weights") == tuning.best.weights == {"LM0": [0.0], "TM0": [0.0, 0.0], "RNN0": [1.0]}
    (notice,) = tuning.notices
    assert notice == (
        "The search found weights with a lower score on the lists than the initial weights (BLEU "
        f"{tuning.best.discarded_score:.2f} instead of 100.00); the initial weights were kept."
    )
    assert f", initial weights kept because the search found {tuning.best.discarded_score:.2f}" in str(tuning.best)
    # Weights of 0 rank nothing, so they are not kept; but the user is told.
    (files / "best").write_text("".join(NBEST.splitlines(True)[i] for i in (1, 0, 3, 2, 4)))
    tuning = tune([files / "best"], [files / "ref"], algorithm=algorithm)
    assert tuning.best.discarded_score is None and tuning.notices[0].startswith("The lists in their own order have a")
    # Without the name of a flag, as experiments show the sentence, too.
    assert tuning.notices[0].endswith("; begin with the weights that made the lists.")


@pytest.mark.parametrize("algorithm", ["mert", "mira", "pro"])
def test_features_that_distinguish_nothing_are_reported(files, algorithm):
    assert not tuned(files, algorithm=algorithm).notices
    (files / "equal").write_text(
        "0 ||| the cat sat on ||| LM0= -1 ||| 0\n0 ||| a b ||| LM0= -1 ||| 0\n1 ||| d ||| LM0= -2 ||| 0\n"
    )
    tuning = tune([files / "equal"], [files / "ref"], algorithm=algorithm)
    expected = "No feature distinguishes hypotheses of a sentence, so all weights give the same result."
    assert tuning.notices == [expected]
    (files / "one").write_text("0 ||| the cat sat on ||| LM0= -1 ||| 0\n1 ||| d ||| LM0= -2 ||| 0\n")
    (notice,) = tune([files / "one"], [files / "ref"], algorithm=algorithm).notices
    assert notice.startswith("Every sentence has only one hypothesis")


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_references_that_no_hypothesis_resembles_are_reported(files, metric):
    (files / "other").write_text("XYZ\nZYX WVU\n")
    (notice,) = tuned(files, references="other", metric=metric).notices
    assert notice.startswith("All weights that were tried have ") and "check that the references are those of" in notice


@pytest.mark.parametrize("algorithm", ["mert", "mira", "pro"])
def test_weights_are_bounded(files, algorithm):
    with pytest.raises(InputError, match=r"found the weight 1e\+308 of RNN0, expected a number from"):
        tuned(files, algorithm=algorithm, other_weights={"RNN0": [1e308]})
    largest = {"LM0": [1e30], "TM0": [1e30, -1e30], "RNN0": [1e30]}
    assert tuned(files, algorithm=algorithm, other_weights=largest).best.score == pytest.approx(100)
