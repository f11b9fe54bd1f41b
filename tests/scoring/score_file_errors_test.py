"""What score_file does about malformed lines, and what it refuses."""

import gzip
import itertools
import os
import re
import shutil

import numpy as np
import pytest
from plain_or_gzipped import write
from scored_tables import added, expected_probabilities

from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring import score_file

GOOD = b"le ||| the ||| 0.5 0.25 ||| 0-0"
MALFORMED = {
    "missing field": (b"le ||| the", "found 2 fields, expected at least 3 fields"),
    "number of scores": (b"le ||| the ||| 0.5", "found 1 score, expected 2 as on line 1"),
    "no scores": (b"le ||| the ||| ||| 0-0", "found no scores, expected at least one score"),
    "score": (b"le ||| the ||| 0.5 nan", 'found the score "nan", expected a finite number'),
    "blank": (b"", "found a blank line, expected at least 3 fields"),
    "not UTF-8": (b"le ||| caf\xe9 ||| 0.5 0.5", 'found bytes that are not UTF-8 (0xe9 in "caf\\xe9"), expected UTF-8'),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_line_stops_and_leaves_nothing(forward_scorer, tmp_path, out, case):
    line, sentence = MALFORMED[case]
    table = write(tmp_path / "table.gz", b"\n".join([GOOD, GOOD, line, GOOD]) + b"\n")
    with pytest.raises(InputError, match=re.escape(f"{table}, line 3: {sentence}")) as caught:
        score_file(forward_scorer, table, out / "table")
    assert "or give --on_error=keep to write such lines with a neutral score" in str(caught.value)
    assert os.listdir(out) == []


def test_an_argument_of_another_type_is_named(forward_scorer, tmp_path, out):
    table = write(tmp_path / "table", GOOD + b"\n")
    for path in (None, "", 3, [table], b"table"):
        with pytest.raises(ValueError, match=re.escape(f"found {path!r}"[:12]) + ".* in place of the path of a file"):
            score_file(forward_scorer, path, out / "table")
        with pytest.raises(
            ValueError, match=re.escape(f"found {path!r}"[:12]) + ".*, expected a str or a pathlib.Path"
        ):
            score_file(forward_scorer, table, path)
    with pytest.raises(ValueError, match="found options={'length': True}, expected a ScoringOptions"):
        score_file(forward_scorer, table, out / "table", {"length": True})
    with pytest.raises(ValueError, match="found None in place of the path of a model directory, expected a str or a"):
        ModelDirectory.load(None)
    assert os.listdir(out) == []


def test_malformed_lines_are_kept_on_request(forward_scorer, tmp_path, out):
    bad = [line for line, _ in MALFORMED.values()]
    lines = [bad[0], GOOD, *itertools.chain.from_iterable((line, GOOD) for line in bad)]
    table = write(tmp_path / "table", b"\n".join(lines) + b"\n")
    summary = score_file(forward_scorer, table, out / "table", on_error="keep", unknown_count=True)
    assert summary.malformed == len(bad) + 1
    result = (out / "table").read_bytes().split(b"\n")
    assert result.pop() == b"" and len(result) == len(lines)
    probability = expected_probabilities(forward_scorer, [("le", "the")])[0]
    for before, after in zip(lines, result, strict=True):
        if before == GOOD:
            scores = added(before, after)[0]
            np.testing.assert_allclose(scores, [probability, 1], rtol=2e-4)
        elif after != before:
            # A line that has scores gets neutral ones, whose logarithm is 0.
            assert added(before, after).tolist() == [[1, 1]]
    assert [before == after for before, after in zip(lines, result, strict=True)].count(True) == 4
    assert b"le ||| the ||| 0.5 nan 1 1" in result

    pairs = write(tmp_path / "pairs", b"le\tthe\nno tab\nle\tcaf\xe9\n\nle\tthe")
    with pytest.raises(
        InputError, match=f"{pairs}, line 2: found no tab, expected source and target separated by a tab"
    ):
        score_file(forward_scorer, pairs, out / "tsv", format="tsv")
    columns = {"unknown_count": True, "token_scores": True}
    assert score_file(forward_scorer, pairs, out / "tsv", format="tsv", on_error="keep", **columns).malformed == 3
    result = (out / "tsv").read_bytes().split(b"\n")
    assert result[0] == result[4] and result[0].startswith(b"le\tthe\t-")
    assert result[1:4] == [b"no tab", b"le\tcaf\xe9\t0\t0\t", b""]


def test_a_model_without_its_weights_is_refused(model_dirs, tmp_path, table, out):
    without = ModelDirectory.load(model_dirs / "forward", weights=False)
    with pytest.raises(InputError, match="forward: found a model directory that was loaded without its weights"):
        score_file(without, table, out / "table")
    assert os.listdir(out) == []


def test_an_input_that_cannot_be_read_is_named(forward_scorer, tmp_path, out):
    def refused(path, sentence, remedy="", **arguments):
        with pytest.raises(InputError, match=re.escape(sentence)) as caught:
            score_file(forward_scorer, path, out / "table.gz", **arguments)
        assert remedy in str(caught.value)

    data = gzip.compress(b"\n".join(b"%s %d" % (GOOD, i * i) for i in range(20_000)))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(data[: len(data) // 2])
    refused(cut, f"{cut}, line ", "found the end of the file inside gzipped data, expected a complete gzip file")
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", f"{tmp_path}/empty: found an empty file, expected at least one")
    refused(tmp_path, f"{tmp_path}: found a directory", "name a file")
    refused(tmp_path / "none", f"{tmp_path}/none: found no such file", "check the path")
    write(tmp_path / "table", GOOD)
    unknown = "found the unknown encoding 'klingon'"
    refused(tmp_path / "table", unknown, "such as utf-8, latin-1", encoding="klingon")
    assert os.listdir(out) == []


def test_an_output_that_cannot_be_written_is_named(forward_scorer, table, out):
    with pytest.raises(InputError, match=f"{out}/none/x: found no such file or directory.*check the path"):
        score_file(forward_scorer, table, out / "none" / "x")
    with pytest.raises(InputError, match=f"{out}: found a directory.*name a file"):
        score_file(forward_scorer, table, out)
    assert os.listdir(out) == []


def test_a_model_that_cannot_be_used_is_named(model_dirs, tmp_path, table, out):
    def refused(model, *sentences, **arguments):
        with pytest.raises(InputError) as caught:
            score_file(model, table, out / "table", **arguments)
        for sentence in sentences:
            assert sentence in str(caught.value)

    forward, reverse = model_dirs / "forward", model_dirs / "reverse"
    refused("/none", "/none: found no such directory, expected a model directory")
    refused(reverse, f"{reverse}: found a model of p(source | target)", "expected one of p(target | source)")
    reversed_twice = f"{forward}: found a model of p(target | source)"
    refused(forward, reversed_twice, "check --reverse_model_dir", reverse_model_dir=forward)
    model = shutil.copytree(forward, tmp_path / "model")
    (model / "target.vocab").write_text("the\n")
    changed = f"{model}/target.vocab: found a file that has changed since the model was trained"
    refused(model, changed, "expected the file with the SHA-256 checksum")
    (model / "config.json").write_text('{"format": 99, "made_by": "keras-encdec 9.9"}')
    refused(model, "found a model directory of format 99, made by keras-encdec 9.9")
    assert os.listdir(out) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"format": "xml"}, "found format='xml', expected one of phrase_table, tsv, parallel, nbest"),
        ({"format": "sentences"}, "found format='sentences', expected one of phrase_table, tsv, parallel, nbest"),
        ({"moses_ini": "x"}, "found one of moses_ini and moses_ini_out, expected both"),
        ({"moses_feature": "TM"}, "found moses_feature without moses_ini, expected both"),
        (
            {"moses_ini": "x", "moses_ini_out": "y", "format": "tsv"},
            "found moses_ini with format=tsv, expected it with a phrase table",
        ),
        (
            {"moses_ini": "x", "moses_ini_out": "y", "output": "-"},
            "found moses_ini with output=-, expected a file that moses.ini can name",
        ),
        (
            {"token_scores": True},
            "found token_scores with format=phrase_table, expected it with format=tsv or parallel",
        ),
        ({"source": "x"}, "found source with format=phrase_table, expected it with format=parallel or nbest"),
        ({"feature_name": "R"}, "found feature_name with format=phrase_table, expected it with format=nbest"),
        ({"format": "nbest", "source": "x", "feature_name": "a_b"}, "found feature_name='a_b', expected a name"),
        ({"format": "parallel"}, "found format=parallel without source, expected the file of sources"),
        ({"dtype": "float16"}, "found dtype='float16', expected one of float32, bfloat16"),
        ({"on_error": "skip"}, "found on_error='skip', expected one of stop, keep"),
        ({"max_tokens": 0}, "found max_tokens=0, expected a whole number, 1 or more"),
    ],
)
def test_arguments_that_contradict_are_refused(forward_scorer, table, out, arguments, sentence):
    with pytest.raises(ValueError) as caught:
        score_file(**({"model_dir": forward_scorer, "input": table, "output": out / "table"} | arguments))
    assert str(caught.value).startswith(sentence)
    assert os.listdir(out) == []


def test_an_output_that_is_an_input_is_refused(forward_scorer, tmp_path, table):
    before = table.read_bytes()
    (tmp_path / "link").symlink_to(table)
    with pytest.raises(ValueError, match=r"found one file for two purposes \(.*\), expected a different file"):
        score_file(forward_scorer, table, tmp_path / "link")
    assert table.read_bytes() == before


@pytest.fixture
def small_disk(disk):
    return disk("100k")


def test_a_full_disk_is_reported_and_left_clean(forward_scorer, tmp_path, small_disk):
    table = write(tmp_path / "table", b"\n".join([GOOD] * 5000))
    full = f"{small_disk}/table: found the disk full when trying to write; free space or name a path"
    with pytest.raises(InputError, match=full):
        score_file(forward_scorer, table, small_disk / "table")
    assert os.listdir(small_disk) == []
