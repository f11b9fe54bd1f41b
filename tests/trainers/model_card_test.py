"""The model card that a training run writes into its model directory."""

import re
import shutil

import pytest
from eagerly import eagerly
from tiny_trainings import train_tiny

from keras_encdec.diagnosis.paths import check_path
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.trainers import TrainingData

yaml = pytest.importorskip("yaml")


def front_matter(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    return yaml.safe_load(re.match("---\n(.*?)\n---\n", card, re.DOTALL)[1]), card


@pytest.fixture(scope="module")
def trained(training_files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "my model"
    with eagerly():
        return train_tiny(TrainingData(tsv=training_files / "tsv", held_out_fraction=0.1), folder, updates=2)[0]


def test_it_names_the_model_its_data_and_its_measurements(trained):
    known, card = front_matter(trained.model_dir)
    assert known["library_name"] == "keras-encdec" and known["pipeline_tag"] == "translation"
    assert "encdec" in known["tags"] and not {"license", "language"} & known.keys()
    [model] = known["model-index"]
    [result] = model["results"]
    assert model["name"] == "my model"
    assert result["dataset"] == {"name": "tsv", "type": "tsv"} and result["task"] == {"type": "translation"}
    [metric] = result["metrics"]
    assert metric["type"] == "perplexity" and metric["name"] == "Perplexity per token, held-out pairs"
    assert metric["value"] == pytest.approx(trained.best.val_perplexity, abs=0.001)
    for title in ("Data", "Sizes", "Settings", "Perplexity", "Date", "How to use it"):
        assert f"\n## {title}\n\n" in card
    for row in ("Distinct pairs trained on | 360", "Pairs validated on | 40", "`optimizer` | adam", "Updates | 2"):
        assert f"| {row} |" in card, row
    assert "--format=tsv --input=pairs.tsv" in card and "None" not in card
    assert re.search(r"\n20\d\d-\d\d-\d\d\n", card) and str(trained.model_dir.parent) not in card


def test_a_copied_directory_with_a_card_is_unchanged_and_loads(trained, tmp_path):
    ignored = shutil.ignore_patterns("prepared", "last.keras", "previous.keras", "progress.json")
    copied = shutil.copytree(trained.model_dir, tmp_path / "downloaded", ignore=ignored)
    assert check_path(copied).state == "complete and unchanged"
    assert ModelDirectory.load(copied).model.count_params()


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_replaces_the_card_unless_it_is_the_users(training_files, tmp_path):
    data, folder = TrainingData(tsv=training_files / "tsv", held_out_fraction=0), tmp_path / "model"
    train_tiny(data, folder, updates=1)
    known, card = front_matter(folder)
    assert known["model-index"][0]["results"][0]["metrics"][0]["name"] == "Perplexity per token, training pairs"
    train_tiny(data, folder, resume=True, updates=2)
    assert "| Updates | 2 |" in front_matter(folder)[1]
    mine = re.sub("<!-- encdec-train .*?-->\n", "", card) + "My notes.\n"
    (folder / "README.md").write_text(mine, encoding="utf-8")
    train_tiny(data, folder, resume=True, updates=3)
    assert (folder / "README.md").read_text(encoding="utf-8") == mine


@pytest.mark.usefixtures("eager")
def test_a_language_model_and_a_reverse_model_have_their_own_cards(training_files, tmp_path):
    data = TrainingData(target=training_files / "target")
    train_tiny(data, tmp_path / "lm", updates=1, architecture="language_model", model={"units": 4, "embedding_dim": 4})
    known, card = front_matter(tmp_path / "lm")
    assert known["pipeline_tag"] == "text-generation" and "A model of p(target)," in card
    assert "--mode=sample" in card and "model's source" not in card
    train_tiny(TrainingData(tsv=training_files / "tsv", reverse=True), tmp_path / "reverse", updates=1)
    known, card = front_matter(tmp_path / "reverse")
    assert "A model of p(source | target)," in card and "`tsv` (tsv)" in card
    assert known["model-index"][0]["results"][0]["dataset"]["name"] == "tsv"
