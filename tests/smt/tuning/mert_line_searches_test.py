"""Line searches on a real list: that of the package's decoder for the package's text."""

import gzip
import itertools

import pytest
from brute_force_lines import check_searches

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import read_weights
from keras_encdec.smt import decode_nbest, estimate_ngrams

pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")


def test_line_searches_find_the_best_points_of_their_lines(tmp_path, monkeypatch):
    data = libreoffice_en_fr()
    with gzip.open(data.train_target, "rb") as lines:
        (tmp_path / "train").write_bytes(b"".join(itertools.islice(lines, 2000)))
    for name in ("source", "target"):
        with open(getattr(data, f"dev_{name}"), "rb") as lines:
            (tmp_path / name).write_bytes(b"".join(itertools.islice(lines, 60)))
    estimate_ngrams(tmp_path / "train", tmp_path / "arpa", order=3)
    nbest = tmp_path / "nbest.gz"
    weights, _ = read_weights(data.moses_ini)
    decode_nbest(tmp_path / "source", data.phrase_table, tmp_path / "arpa", nbest, nbest_size=30, number_of_processes=1)
    searches, points, difference = check_searches(nbest, tmp_path / "target", weights, monkeypatch)
    assert searches > 60 and points > 400 and difference < 1e-6
