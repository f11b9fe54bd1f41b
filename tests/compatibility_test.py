"""Models, exports, settings and experiments that an earlier version wrote are read as before.

`fixtures/written_by_70cbe69.tar.gz` was written before the packages got their present layout: `.keras` files and
experiments in it name modules that have moved since.
"""

import pathlib
import shutil
import tarfile

import numpy as np
import pytest
from close_texts import assert_close_texts

from keras_encdec.experiment import load_experiment
from keras_encdec.export import verify_export
from keras_encdec.scoring import score_file
from keras_encdec.trainers import TrainingConfig, TrainingData, train

ARCHIVE = pathlib.Path(__file__).parent / "fixtures" / "written_by_70cbe69.tar.gz"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder with what was written."""
    folder = tmp_path_factory.mktemp("written")
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # new in Python 3.11.4
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("model", ["encdec", "recurrent", "cslm"])
def test_a_model_scores_as_before(written, model, tmp_path):
    score_file(written / model, written / "pairs.table", tmp_path / "scored")
    expected = (written / f"{model}.scored").read_bytes()
    assert_close_texts((tmp_path / "scored").read_bytes(), expected, rtol=1e-4, atol=0)


def test_settings_are_a_preset(written):
    config = TrainingConfig.from_preset(written / "recurrent" / "settings.toml")
    assert (config.architecture, config.model.attention, config.model.attention_window) == ("recurrent", "local_p", 3)
    assert config.updates == 4


@pytest.mark.usefixtures("eager")
def test_a_training_run_continues(written, tmp_path):
    model_dir = shutil.copytree(written / "encdec", tmp_path / "encdec")
    config = TrainingConfig.from_preset(written / "encdec" / "settings.toml", updates=6)
    data = TrainingData(phrase_table=str(written / "table.gz"), shortlist=60, held_out_pairs=40)
    result = train(config, data, model_dir, resume=True)
    assert [each.updates for each in result.rounds] == [2, 4, 6]
    assert np.isfinite(result.best.val_perplexity)


@pytest.mark.usefixtures("scores_here")
def test_an_export_is_verified(written):
    report = verify_export(written / "encdec", written / "export", made_pairs=20)
    assert report.comparisons and all(comparison.pairs > 0 for comparison in report.comparisons)


def test_an_experiment_is_read(written):
    experiment = load_experiment(written / "experiment.toml")
    assert experiment.features
