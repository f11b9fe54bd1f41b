"""N-best lists as arrays."""

import gzip
import re

import numpy as np
import pytest
import sacrebleu

from keras_encdec.errors import InputError
from keras_encdec.smt.evaluation import CorpusMetric
from keras_encdec.smt.tuning import read_nbest_features

LINES = [
    "0 ||| un|DET chat|NOM  ||| LM0= -4 TM0= -1 -2 ||| 9",
    "0 ||| le  chat &amp;  ||| TM0= -1 -4 LM0= -2 ||| 8 ||| 0=0 ||| 0-0 ",
    "0 ||| un chat  ||| LM0= -4 TM0= -1 -2 ||| 7",  # another segmentation of the first
    "2 ||| la maison  ||| LM0= -2 TM0= 1e-3 0 Sparse_x= 2 ||| 6",
    "2 ||| maison  ||| LM0= -2 TM0= 1e-3 0.5 ||| 6",
]
REFERENCES = ["un chat &amp; moi", "rien", "la maison"]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nbest").write_text("\n".join(LINES) + "\n")
    (tmp_path / "ref").write_text("\n".join(REFERENCES) + "\n")
    return tmp_path


def read(folder, *names, references=REFERENCES, **options):
    metric = CorpusMetric("bleu", [[line.replace("&amp;", "&") for line in references]])
    return read_nbest_features([folder / name for name in names or ["nbest"]], [folder / "ref"], metric, **options)


def test_features_are_columns_and_the_hypotheses_of_a_sentence_consecutive_rows(files):
    nbest = read(files)
    assert nbest.lengths == {"LM0": 1, "TM0": 2, "Sparse_x": 1}
    expected = [[-4, -1, -2, 0], [-2, -1, -4, 0], [0, 0, 0, 0], [-2, 1e-3, 0, 2], [-2, 1e-3, 0.5, 0]]
    np.testing.assert_array_equal(nbest.features, expected)
    np.testing.assert_array_equal(nbest.starts, [0, 2, 3])
    np.testing.assert_array_equal(nbest.sentence_of, [0, 0, 1, 2, 2])
    assert nbest.missing == 1
    assert nbest.to_weights(nbest.to_array({"TM0": [1, 2]})) == {"LM0": [0], "TM0": [1, 2], "Sparse_x": [0]}


@pytest.mark.parametrize("weights, best", [([0, 0, 0, 0], [0, 2, 3]), ([1, 0, 0, -1], [1, 2, 4])])
def test_the_score_is_that_of_the_best_hypotheses_by_sacrebleu(files, weights, best):
    nbest = read(files)
    np.testing.assert_array_equal(nbest.best(np.array(weights)), best)
    texts = ["un chat", "le chat &", "", "la maison", "maison"]
    references = [line.replace("&amp;", "&") for line in REFERENCES]
    expected = sacrebleu.corpus_bleu([texts[row] for row in best], [references], tokenize="none", force=True).score
    assert nbest.score(np.array(weights)) == expected
    assert nbest.quick_score(np.array(weights)) == pytest.approx(expected, rel=1e-13)


def test_lists_of_several_runs_are_one_list_without_repetitions(files):
    more = ["0 ||| un chat ||| LM0= -4 TM0= -1 -2 ||| 1", "1 ||| x ||| LM0= -1 TM0= 0 0 ||| 1", LINES[4]]
    (files / "more.gz").write_bytes(gzip.compress("\n".join(more).encode()))
    nbest = read(files, "nbest", "more.gz")
    np.testing.assert_array_equal(nbest.features[:, 0], [-4, -2, -1, -2, -2])
    assert nbest.missing == 0


def test_a_repetition_counts_once_although_sparse_features_came_between(files):
    lines = [LINES[0], "0 ||| un chat  ||| LM0= -4 TM0= -1 -2 Sparse_x= 2 ||| 9", LINES[2], *LINES[3:]]
    (files / "nbest").write_text("\n".join(lines) + "\n")
    nbest = read(files)
    np.testing.assert_array_equal(nbest.starts, [0, 2, 3])
    np.testing.assert_array_equal(nbest.features[:2, -1], [0, 2])


def test_the_word_penalty_is_added_to_lists_that_lack_it(files):
    nbest = read(files, word_penalty=True)
    np.testing.assert_array_equal(nbest.features[:, nbest.lengths["LM0"] + 2], [-2, -3, 0, -2, -1])
    assert nbest.lengths["WordPenalty0"] == 1
    (files / "nbest").write_text("0 ||| x ||| WordPenalty0= -1 ||| 9\n")
    with pytest.raises(InputError, match="nbest, line 1: found the feature WordPenalty0, .*leave out --word_penalty"):
        read(files, word_penalty=True)


def test_a_held_out_list_has_the_features_of_the_tuned_list(files):
    (files / "test").write_text("0 ||| x ||| TM0= 1 2 LM0= 3 Other_y= 1 ||| 9\n")
    nbest = read(files, "test", references=["x"], lengths={"LM0": 1, "TM0": 2})
    np.testing.assert_array_equal(nbest.features, [[3, 1, 2]])
    with pytest.raises(InputError, match="line 1: found 2 values of TM0, expected 1, as in the list that was tuned on"):
        read(files, "test", references=["x"], lengths={"LM0": 1, "TM0": 1})


def test_lines_that_do_not_fit_are_reported(files):
    ids = f"expected ids from 0 to 2, as {files}/ref has 3 lines; give the references"
    for lines, sentence in {
        (*LINES[:3], "2 ||| x ||| LM0= 1 ||| 9"): "line 4: found no values of TM0, expected 2, as in line 1 of ",
        (LINES[0], "2 ||| x ||| LM0= 1 TM0= 1 ||| 9"): "line 2: found 1 value of TM0, expected 2, as in line 1",
        (*LINES, "2 ||| x ||| LM0= 1 TM0= 1 2 R= 0 ||| 9"): "line 6: found 1 value of R, expected 0, as in line 1",
        (*LINES, *["3 ||| x ||| LM0= 1 TM0= 1 2 ||| 9"] * 2): f"line 6: found the id 3, {ids}",
        (*LINES[:3],): f"line 3: found the last id 0, {ids}",
        (LINES[0], ""): "line 2: found a blank line",
        (LINES[0], "2 ||| x ||| LM0= 1 TM0= 1 -1e200 ||| 9"): "line 2: found a value of TM0 beyond 1e+30, expected a",
        (LINES[0], "2 ||| x ||| LM0= x ||| 9"): 'line 2: found the value of LM0, "x", expected a finite number',
    }.items():
        (files / "nbest").write_text("\n".join(lines) + "\n")
        with pytest.raises(InputError, match=re.escape(f"{files}/nbest, {sentence}")):
            read(files)
    (files / "nbest").write_text("0 ||| x ||| ||| 9\n")
    with pytest.raises(InputError, match="nbest: found no features in the list, expected features in its third field"):
        read(files, references=["x"])
    (files / "nbest").write_bytes(b"0 ||| caf\xe9 ||| LM0= 1 ||| 9\n")
    with pytest.raises(InputError, match="nbest, line 1: found "):
        read(files, references=["x"])
    assert read(files, references=["x"], encoding="latin-1").missing == 0
