"""The server's file of models: versions and their labels."""

import shutil
import threading

import pytest
from commands import fail, succeed
from export_folders import labels, models_config, names

from keras_encdec.errors import InputError
from keras_encdec.export import export_model, move_stable_label, remove_version


def test_versions_are_numbered_upward_and_labels_move(quick_export, model_dir, tmp_path):
    folder = tmp_path / "models"
    versions = [export_model(model_dir, folder, version=version).version for version in (None, 5, None)]
    assert versions == [1, 5, 6]
    assert names(folder) == ["1", "5", "6", "batching_parameters.txt", "models.config"]
    (config,) = models_config(folder)
    assert dict(config.version_labels) == {"stable": 1, "canary": 6}
    assert (config.name, config.base_path, config.model_platform) == ("encdec", str(folder), "tensorflow")
    assert config.model_version_policy.WhichOneof("policy_choice") == "all"

    move_stable_label(folder, "encdec", 6)
    assert labels(folder) == {"stable": 6, "canary": 6}
    with pytest.raises(InputError, match="found versions 1, 5, 6, expected version 7; give a version that exists"):
        move_stable_label(folder, "encdec", 7)
    before = (folder / "5" / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(InputError, match="found an existing version"):
        export_model(model_dir, folder, version=5)
    assert (folder / "5" / "saved_model.pb").stat().st_mtime_ns == before
    assert not [name for name in names(folder) if name.startswith(".")]


def test_labels_of_removed_versions_are_dropped(quick_export, model_dir, export_command, tmp_path):
    """A server rejects a file with such a label."""
    folder = tmp_path / "models"
    for _ in range(3):
        export_model(model_dir, folder)
    move_stable_label(folder, "encdec", 3)
    # The number of a removed version with a label is not used again. Only folders are versions.
    shutil.rmtree(folder / "3")
    (folder / "9").write_text("")
    (folder / "007").mkdir()
    done = succeed(export_command(f"--model_dir={model_dir}", f"--export_dir={folder}"))
    assert "version 4, stable is none" in done.stderr and "names a version that does not exist" in done.stderr
    assert labels(folder) == {"canary": 4}
    export_model(model_dir, folder)
    assert labels(folder) == {"canary": 5}, "only move_stable_label sets the label stable again"
    for number in "45":
        shutil.rmtree(folder / number)
    done = succeed(export_command(f"--export_dir={folder}", "--stable_version=2"))
    assert done.stderr == f"{folder / 'models.config'}: stable is version 2\n"
    assert labels(folder) == {"stable": 2}


def test_a_version_is_removed_with_its_labels(quick_export, model_dir, export_command, tmp_path):
    folder = tmp_path / "models"
    for _ in range(2):
        export_model(model_dir, folder)
    with pytest.raises(InputError, match="found the label stable at version 1, expected a version without it"):
        remove_version(folder, "encdec", 1)
    with pytest.raises(InputError, match="found versions 1, 2, expected version 0"):
        remove_version(folder, "encdec", 0)
    succeed(export_command(f"--export_dir={folder}", "--remove_version=2"))
    assert names(folder) == ["1", "batching_parameters.txt", "models.config"] and labels(folder) == {"stable": 1}
    fail(export_command(f"--export_dir={folder}", "--remove_version=2"), 1, "expected version 2")


def test_a_label_moved_during_an_export_keeps_its_version(scores_only, quick_export, model_dir, monkeypatch, tmp_path):
    folder, at_work, moved = tmp_path / "models", threading.Barrier(3), threading.Event()

    def write(directory, path, *arguments):
        shutil.copytree(scores_only / "1", path, dirs_exist_ok=True)
        if len(names(folder)) > 4:  # from the third export on: two versions and two files
            at_work.wait(60)
            moved.wait(60)

    monkeypatch.setattr("keras_encdec.export.saved_model.write_saved_model", write)
    for _ in range(2):
        export_model(model_dir, folder)
    results = []
    threads = [threading.Thread(target=lambda: results.append(export_model(model_dir, folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    at_work.wait(60)
    assert [name for name in names(folder) if name.startswith(".version")]
    move_stable_label(folder, "encdec", 2)
    moved.set()
    for thread in threads:
        thread.join()
    # Two exports at the same time make two versions.
    assert sorted(result.version for result in results) == [3, 4] and {result.stable for result in results} == {2}
    assert names(folder) == ["1", "2", "3", "4", "batching_parameters.txt", "models.config"]
    assert labels(folder) == {"stable": 2, "canary": 4}


def test_the_path_on_the_server_is_kept_until_another_is_given(quick_export, model_dir, export_command, tmp_path):
    folder = tmp_path / "models"
    done = succeed(export_command(f"--model_dir={model_dir}", f"--export_dir={folder}", "--base_path=/models/encdec"))
    assert "models.config: the server finds the versions in /models/encdec (--base_path)" in done.stderr
    for change in (
        lambda: export_model(model_dir, folder),
        lambda: move_stable_label(folder, "encdec", 2),
        lambda: remove_version(folder, "encdec", 1),
    ):
        change()
        assert [model.base_path for model in models_config(folder)] == ["/models/encdec"]
    move_stable_label(folder, "encdec", 2, base_path="gs://bucket/encdec")
    assert [model.base_path for model in models_config(folder)] == ["gs://bucket/encdec"]
    with pytest.raises(InputError, match="found the model 'encdec' for this folder"):
        move_stable_label(folder, "other", 2)
    fail(export_command(f"--export_dir={folder}", "--stable_version=2", "--base_path=models"), 2, "--base_path=models")


def test_a_folder_belongs_to_a_single_model(quick_export, model_dir, tmp_path):
    export_model(model_dir, tmp_path, model_name="phrases")
    before = (tmp_path / "models.config").read_text()
    for wrong in (
        lambda: move_stable_label(tmp_path, "encdec", 1),
        lambda: export_model(model_dir, tmp_path),
    ):
        with pytest.raises(InputError, match="'phrases' for this.*give --model_name=phrases"):
            wrong()
    assert (tmp_path / "models.config").read_text() == before and not (tmp_path / "2").exists()


def test_a_name_that_is_not_utf8_is_an_error_before_the_export(model_dir, tmp_path):
    for folder, model_name in (("ex\udce9", "encdec"), ("export", "m\udce9")):
        with pytest.raises(InputError, match="found bytes that are not UTF-8 in the path .* expected UTF-8, which"):
            export_model(model_dir, tmp_path / folder, model_name=model_name)


def test_the_users_changes_to_the_servers_files_are_kept(quick_export, model_dir, tmp_path):
    (tmp_path / "batching_parameters.txt").write_text("max_batch_size { value: 7 }\n")
    others = 'model_config_list {\n  # of another team\n  config { name: "other" base_path: "/else#where" } # stay\n}\n'
    (tmp_path / "models.config").write_text(f"# édité par nous\n{others}", encoding="utf-8")
    export_model(model_dir, tmp_path, model_name="phrases", base_path="/models/phrases")
    for _ in range(2):
        text = (tmp_path / "models.config").read_text(encoding="utf-8")
        comments = "# édité par nous\n# of another team\n# stay\n# --base_path was given for phrases\n"
        assert text.startswith(f"{comments}model_config")
        move_stable_label(tmp_path, "phrases", 1)
    assert (tmp_path / "batching_parameters.txt").read_text() == "max_batch_size { value: 7 }\n"
    assert [(c.name, c.base_path) for c in models_config(tmp_path)] == [
        ("other", "/else#where"),
        ("phrases", "/models/phrases"),
    ]

    (tmp_path / "models.config").write_text("model_config_list [")
    with pytest.raises(InputError, match="models.config: .*ModelServerConfig"):
        export_model(model_dir, tmp_path)
    assert not (tmp_path / "2").exists()
