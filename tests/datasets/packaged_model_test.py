"""Making the model that comes with the package, with a short training."""

import dataclasses

import pytest
from tiny_trainings import QUICK

from keras_encdec.datasets import libreoffice_en_fr, packaged_model
from keras_encdec.datasets.packaged_model import build_packaged_model
from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines, open_output
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.sparse_weights import count_zeros, is_sparse
from keras_encdec.trainers import TrainingConfig


def test_it_is_trained_measured_and_described(tmp_path, monkeypatch):
    dataset = libreoffice_en_fr()
    (tmp_path / "data").mkdir()
    small = dataclasses.replace(dataset, phrase_table=tmp_path / "data" / "table.gz")
    (tmp_path / "data" / "LICENSE").write_text("the licence")
    with InputLines(dataset.phrase_table) as lines, open_output(small.phrase_table) as table:
        table.write(b"".join(line + b"\n" for _, line in zip(range(2000), lines, strict=False)))
    monkeypatch.setattr(packaged_model, "libreoffice_en_fr", lambda: small)
    monkeypatch.setattr(packaged_model, "SIZES", {"embedding_dim": 4, "units": 8, "maxout_units": 4, "output_rank": 4})
    from_preset = TrainingConfig.from_preset
    monkeypatch.setattr(TrainingConfig, "from_preset", lambda name, **values: from_preset(name, **{**values, **QUICK}))
    made = build_packaged_model(tmp_path / "work", tmp_path / "out", epochs=1)
    assert made.path == tmp_path / "out" and 1 < made.perplexity < made.unigram_perplexity * 10
    assert {"README.md", "NOTICE", "settings.toml", "history.json"} < {path.name for path in made.path.iterdir()}
    assert (made.path / "LICENSE").read_text() == "the licence"
    assert f'phrase_table = "../../{tmp_path.name}/data/table.gz"' in (made.path / "settings.toml").read_text()
    assert str(tmp_path) not in (made.path / "settings.toml").read_text() + (made.path / "config.json").read_text()
    assert f"{made.perplexity:.3f}" in (made.path / "README.md").read_text()
    assert str(made).startswith(f"{made.size:,} bytes")
    assert ModelDirectory.load(made.path).checksums()["best.keras"]
    zeros, weights = count_zeros(made.path / "best.keras")
    assert is_sparse(made.path / "best.keras") and 0.39 < zeros / weights < 0.43
    assert "40% of the weights were pruned" in (made.path / "README.md").read_text()
    with pytest.raises(InputError, match="out: found a file or directory that exists already, expected a new path"):
        build_packaged_model(tmp_path / "work", tmp_path / "out", epochs=1)
