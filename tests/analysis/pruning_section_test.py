"""The share of pruned weights by class in the report."""

import pytest
import toy_models

from keras_encdec.analysis import report
from keras_encdec.pruning import prune_model

WORDS = [f"w{i}" for i in range(12)]


@pytest.mark.usefixtures("uncompiled")
def test_a_pruned_model_has_a_section_and_a_dense_one_has_none(tmp_path):
    dense = toy_models.save_model(tmp_path / "dense", WORDS, WORDS, cell="gru", attention="global")
    result = prune_model(dense, tmp_path / "pruned", share=0.6)
    assert "pruning" not in report(dense, tmp_path / "report").sections
    assert "pruning" in report(result.path, tmp_path / "pruned-report").sections
    lines = (tmp_path / "pruned-report" / "tables" / "pruning.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["class", "weights", "zeros", "share"]
    assert [(row[0], int(row[1]), int(row[2])) for row in rows[1:]] == [
        (each.name, each.weights, each.pruned) for each in result.classes
    ]
    page = (tmp_path / "pruned-report" / "index.html").read_text()
    assert "Pruned weights" in page and "60.0 % of the weights are exactly zero" in page
