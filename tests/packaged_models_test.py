"""The packaged model: it is found by its name, and useful within the first minute."""

import json
import os
import shutil

import pytest
from in_process import in_process

from keras_encdec.analysis.page.training_sections import read_training_run
from keras_encdec.cli import generate, score
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.diagnosis.paths import check_path
from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines
from keras_encdec.model_config import PACKAGED, STARTER
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.models import RecurrentEncoderDecoder, RNNEncoderDecoder
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingConfig, TrainingData, train

FOLDER = PACKAGED / STARTER


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Runs each test in an empty working directory."""
    monkeypatch.chdir(tmp_path)


def test_it_is_small_and_undamaged_and_has_what_it_needs_alone():
    names = {path.name for path in FOLDER.iterdir()}
    assert {"README.md", "LICENSE", "NOTICE", "settings.toml", "best.keras", "config.json"} <= names
    assert not names & {"last.keras", "previous.keras", "prepared", "logs", "progress.json"}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 3_000_000
    assert check_path(STARTER).state == "complete and unchanged"
    assert read_training_run(STARTER).rounds
    table = TrainingData.from_preset(FOLDER / "settings.toml").phrase_table
    assert os.path.samefile(table, libreoffice_en_fr().phrase_table)


def test_its_card_has_the_languages_the_licence_and_the_perplexity():
    yaml = pytest.importorskip("yaml")
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    known = yaml.safe_load(card.split("---\n")[1])
    assert known["language"] == ["en", "fr"] and known["license"] == "mpl-2.0"
    [metric] = known["model-index"][0]["results"][0]["metrics"]
    assert metric["type"] == "perplexity" and 1 < metric["value"] < 3
    assert "unigram" in card and "| open the file | ouvrir le fichier |" in card


def test_it_scores_and_translates(tmp_path):
    (tmp_path / "phrases").write_text("open the file\nthe number of\n")
    done = in_process(
        generate.COMMAND, f"--model_dir={STARTER}", "--input=phrases", "--mode=greedy", "--output=targets"
    )
    assert (tmp_path / "targets").read_text() == "ouvrir le fichier\nle nombre de\n", done.stderr
    with InputLines(libreoffice_en_fr().phrase_table) as lines:
        (tmp_path / "table").write_bytes(b"".join(line + b"\n" for _, line in zip(range(20), lines, strict=False)))
    done = in_process(score.COMMAND, f"--model_dir={STARTER}", "--input=table", "--output=scored")
    assert done.returncode == 0, done.stderr
    scores = [float(line.split(" ||| ")[2].split()[-1]) for line in (tmp_path / "scored").read_text().splitlines()]
    assert len(scores) == 20 and all(0 < each <= 1 for each in scores)


def test_python_loads_it_by_its_name():
    scorer = TextScorer(STARTER)
    right, wrong = scorer.score([scorer.words("open the file", target) for target in ("ouvrir le fichier", "la page")])
    assert right > -2 and right > wrong + 3
    model = RNNEncoderDecoder.from_preset(STARTER)
    weights = [load_model(each).count_params() for each in (STARTER, FOLDER / "best.keras")]
    assert weights == [model.count_params()] * 2 and model.dtype_policy.name == "float32"
    source, target = [[5, 2]], [[6, 2]]
    assert float(model.score(source, target)[0]) == pytest.approx(
        float(scorer.directory.model.score(source, target)[0])
    )
    with pytest.raises(ValueError, match="of the model RNNEncoderDecoder, expected one of RecurrentEncoderDecoder"):
        RecurrentEncoderDecoder.from_preset(STARTER)
    with pytest.raises(ValueError, match="found further arguments with the trained model"):
        RNNEncoderDecoder.from_preset(STARTER, source_words=5, target_words=5)


def test_nothing_is_trained_in_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_encdec.trainers.training_files.PACKAGED", tmp_path / "package")
    copied = shutil.copytree(FOLDER, tmp_path / "package" / STARTER)
    data = TrainingData(phrase_table=str(libreoffice_en_fr().phrase_table))
    for folder in (copied, tmp_path / "package" / "new"):
        with pytest.raises(InputError, match="found a folder of the package, expected a directory of your own"):
            train(TrainingConfig(updates=1), data, folder)
    assert not (tmp_path / "package" / "new").exists()
    assert {path.name for path in copied.iterdir()} == {path.name for path in FOLDER.iterdir()}
    checksums = json.loads((copied / "config.json").read_text())["sha256"]
    assert ModelDirectory.load(copied).checksums()["best.keras"] in checksums["best.keras"]
