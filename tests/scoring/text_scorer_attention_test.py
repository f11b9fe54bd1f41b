"""Attention of target words, which is computed with their scores."""

import json
import os

import keras
import numpy as np
import pytest
import recurrent_oracle
from close_texts import assert_close_texts
from recurrent_toys import nested_weights, toy
from toy_models import save_model

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import TextGenerator
from keras_encdec.errors import InputError
from keras_encdec.scoring import Scorer, ScoringOptions, TextScorer, score_file

PAIRS = [([4, 1, 6, 2], [5, 3, 2]), ([2], [4, 2]), ([4, 1, 6, 2], [5, 3, 3, 6, 2]), ([3, 3, 7, 5, 4, 2], [2])]
needs_one_backend = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")


def test_the_attention_of_each_token_is_returned_with_its_score():
    model = toy(layers=1, attention="local_p", attention_window=1, input_feeding=True)
    tokens, attention = Scorer(model).token_scores_with_attention(PAIRS)
    for (source, target), row, weights in zip(PAIRS, tokens, attention, strict=True):
        log_probs, expected = recurrent_oracle.decoded(nested_weights(model), source, target, model.config.to_dict())
        np.testing.assert_allclose(weights, expected, atol=1e-5)
        np.testing.assert_allclose(row, log_probs, atol=1e-4)


def test_attention_of_a_model_without_it_is_refused():
    with pytest.raises(ValueError, match="found a model without attention"):
        Scorer(toy(layers=1)).token_scores_with_attention(PAIRS)


@pytest.fixture(scope="module")
def model_dirs(tmp_path_factory):
    """Directories of models of the words w0 to w8: one with attention, and one without."""
    folder, words = tmp_path_factory.mktemp("models"), [f"w{i}" for i in range(9)]
    recurrent = {"cell": "gru", "layers": 1}
    save_model(folder / "attends", words, words, attention="global", **recurrent)
    save_model(folder / "does_not", words, words, **recurrent)
    return folder


@needs_one_backend
@pytest.mark.usefixtures("uncompiled")
def test_alignments_of_a_file_are_written_a_line_each(model_dirs, tmp_path):
    sources = ["w1 w2 w3", "w4", "w1 w2 w3", "w5 unknown"]
    generated = [found[0] for found in TextGenerator([model_dirs / "attends"]).generate(sources, with_attention=True)]
    pairs = [f"{source}\t{' '.join(one.words)}" for source, one in zip(sources, generated, strict=True)]
    lines = [pairs[0], "malformed", *pairs[1:], "w1 " * 21 + "\tw2"]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n")
    arguments = model_dirs / "attends", tmp_path / "pairs.tsv", tmp_path / "scored.tsv", ScoringOptions(format="tsv")
    expected = score_file(*arguments, on_error="keep", max_tokens=20), (tmp_path / "scored.tsv").read_bytes()
    for name in ("links", "weights"):
        with_them = {"alignments": tmp_path / name, "alignment_format": name}
        summary = score_file(*arguments, on_error="keep", max_tokens=20, **with_them)
        assert (summary.lines, summary.malformed, summary.too_long) == (6, 1, 1) and summary.lines == expected[0].lines
        assert_close_texts((tmp_path / "scored.tsv").read_bytes(), expected[1])
    if os.path.exists("/dev/full"):
        with pytest.raises(InputError, match="/dev/full: found the disk full"):
            score_file(*arguments[:2], "/dev/full", arguments[3], on_error="keep", alignments=tmp_path / "none")
        assert not (tmp_path / "none").exists()
    links, weights = ((tmp_path / name).read_text().split("\n") for name in ("links", "weights"))
    # Malformed and too long lines have empty alignments.
    assert [bool(line) for line in weights] == [True, False, True, True, True, False, False]
    found = [(link, json.loads(line)) for link, line in zip(links, weights, strict=True) if line]
    for (link, one), hypothesis in zip(found, generated, strict=True):
        assert one["source"] == [*hypothesis.source_words, "</s>"] and one["target"] == [*hypothesis.words, "</s>"]
        np.testing.assert_allclose(one["weights"], hypothesis.attention, atol=1e-5)
        most = hypothesis.attention[:-1].argmax(axis=1)
        assert link == " ".join(f"{i}-{j}" for j, i in enumerate(most) if i < len(hypothesis.source_words))
    assert any(link for link, _ in found)
    (tmp_path / "pairs.tsv").write_text("\n".join(lines))
    score_file(*arguments, on_error="keep", max_tokens=20, **with_them)
    assert (tmp_path / "weights").read_text().count("\n") == 6, "the last line is empty, and not lost"


@needs_one_backend
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_alignments_hold_the_bytes_of_a_declared_encoding(model_dirs, tmp_path, encoding):
    (tmp_path / "pairs.tsv").write_bytes(b"w1 caf\xe9\tw2\n")
    files = {"alignments": str(tmp_path / "a"), "alignment_format": "weights"}
    options = ScoringOptions(format="tsv", encoding=encoding, **files)
    score_file(model_dirs / "attends", tmp_path / "pairs.tsv", tmp_path / "scored.tsv", options)
    assert b'"caf\xe9"' in (tmp_path / "a").read_bytes()
    weights = json.loads((tmp_path / "a").read_text(encoding, "surrogateescape"))
    source = b"caf\xe9".decode(encoding, "surrogateescape")
    assert (weights["source"], weights["target"]) == (["w1", source, "</s>"], ["w2", "</s>"])


@needs_one_backend
def test_alignments_that_cannot_be_written_are_refused(model_dirs, tmp_path):
    (tmp_path / "pairs.tsv").write_text("w1\tw2\n")
    arguments = tmp_path / "pairs.tsv", tmp_path / "scored.tsv", ScoringOptions(format="tsv")
    with pytest.raises(ConfigurationError, match="found alignments with a model that has no attention"):
        score_file(model_dirs / "does_not", *arguments, alignments=tmp_path / "a")
    with pytest.raises(ConfigurationError, match="found alignment_format without alignments, expected both"):
        score_file(model_dirs / "attends", *arguments, alignment_format="links")
    with pytest.raises(ConfigurationError, match="found alignment_format='dots', expected one of links, weights"):
        score_file(model_dirs / "attends", *arguments, alignments=tmp_path / "a", alignment_format="dots")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


@needs_one_backend
@pytest.mark.usefixtures("uncompiled")
def test_the_attention_of_a_reverse_model_is_from_source_tokens_to_target_tokens(tmp_path):
    words = [f"w{i}" for i in range(9)]
    save_model(tmp_path, words, words, reverse=True, cell="gru", layers=1, attention="global")
    [weights] = TextScorer(tmp_path).attention([(["w1", "w2", "w3"], ["w4"])])
    assert weights.shape == (4, 2)
