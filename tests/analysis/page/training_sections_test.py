import json

import keras
import pytest
import toy_models

from keras_encdec.analysis import report
from keras_encdec.analysis.page.training_sections import pruning_section, read_training_run
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.pruning import prune_model

ROUND = {"learning_rate": 0.5, "perplexity": 9.0, "log_likelihood": -3.0, "something": 1}
WORDS = [f"w{i}" for i in range(12)]


def written(folder, rounds):
    folder.mkdir()
    (folder / "history.json").write_text(json.dumps({"rounds": rounds}))
    return folder


def test_the_history_of_a_run_is_read(tmp_path):
    rounds = [
        {**ROUND, "updates": 10, "pairs": 100, "seconds": 2.0, "val_perplexity": 4.0},
        {**ROUND, "updates": 20, "pairs": 400, "seconds": 4.0},
        {"updates": 20, "pairs": 400, "seconds": 4.0, "learning_rate": 0.5, "averaged_rounds": 2},
    ]
    run = read_training_run(written(tmp_path / "model", rounds))
    assert run.name == f"{tmp_path.name}/model" and len(run.rounds) == 2
    assert run.values("val_perplexity") == ([10], [4.0]) and run.values("perplexity") == ([10, 20], [9.0, 9.0])
    assert run.values("pairs_per_second") == ([10, 20], [50.0, 150.0])
    assert run.values("val_bleu") == ([], [])


def test_a_missing_history_gives_none_and_an_invalid_one_an_error(tmp_path):
    assert read_training_run(tmp_path) is None
    with pytest.raises(InputError, match="none: found no such directory"):
        read_training_run(tmp_path / "none")
    numbers = {"updates": 1, "pairs": 1, "seconds": 1.0, "learning_rate": 0.5}
    wrong = [{**numbers, "pairs": "1"}], [{**numbers, "perplexity": [1]}], [{**numbers, "perplexity": float("nan")}]
    for number, rounds in enumerate(([{"updates": 1}], 3, [4], *wrong)):
        with pytest.raises(InputError, match="history.json: found an invalid history"):
            read_training_run(written(tmp_path / f"model{number}", rounds))


@pytest.mark.usefixtures("uncompiled")
def test_a_pruned_model_has_a_section_and_a_dense_one_has_none(tmp_path):
    dense = toy_models.save_model(tmp_path / "dense", WORDS, WORDS, cell="gru", attention="global", units=16)
    result = prune_model(dense, tmp_path / "pruned", share=0.6)
    directory = ModelDirectory.load(dense)
    embeddings = directory.model.weights[0]
    values = keras.ops.convert_to_numpy(embeddings).copy()
    values[0, 0] = 0  # as happens by chance
    embeddings.assign(values)
    assert "pruning" not in report(directory, tmp_path / "report").sections
    assert "pruning" in report(result.path, tmp_path / "pruned-report").sections
    lines = (tmp_path / "pruned-report" / "tables" / "pruning.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["class", "weights", "zeros", "share"]
    assert [(row[0], int(row[1]), int(row[2])) for row in rows[1:]] == [
        (each.name, each.weights, each.pruned) for each in result.classes
    ]
    drawing = pruning_section({each.name: (each.pruned, each.weights) for each in result.classes}).pictures["pruning"]
    assert b"<!-- all weights: 60.0 % -->" in drawing.svg, "the line in the figure has a name"
    page = (tmp_path / "pruned-report" / "index.html").read_text()
    assert "Pruned weights" in page and "60.0 % of the weights are exactly zero" in page
