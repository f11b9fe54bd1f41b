"""Exports in an object store."""

import pytest
from object_store import moto_port, store  # noqa: F401  # fixtures

from keras_encdec.errors import InputError
from keras_encdec.export import export_model, move_stable_label, remove_version, verify_export
from keras_encdec.export.models_config import ModelsConfig
from keras_encdec.export.versions import export_folder, versions

URL = "s3://bucket/served"


def test_versions_are_exported_published_and_removed_in_a_bucket(store, model_dir, quick_export, scores_here):  # noqa: F811
    store.files.pipe("bucket/other", b"")
    for number in (1, 2):
        assert export_model(model_dir, URL).path == f"{URL}/{number}"
    written = [path.removeprefix("/bucket/served/") for method, path, _ in store.requests if method == "PUT"]
    first = [name.partition("?")[0] for name in written]
    first = first[: first.index("models.config") + 1]
    assert first[-2:] == ["1/saved_model.pb", "models.config"] and "1/variables/variables.index" in first
    with export_folder(URL) as folder:
        labels = ModelsConfig(folder, "encdec")
        assert versions(folder) == [1, 2] and (labels.stable, labels.canary) == (1, 2)
        assert f'base_path: "{URL}"' in (folder / "models.config").read_text()
    assert verify_export(model_dir, URL, made_pairs=2).path == f"{URL}/2"
    assert move_stable_label(URL, "encdec", 2) == f"{URL}/models.config"
    remove_version(URL, "encdec", 1)
    assert sorted(store.files.ls("bucket/served", detail=False)) == [
        f"bucket/served/{name}" for name in ("2", "batching_parameters.txt", "models.config")
    ]
    with pytest.raises(InputError, match=f"{URL}: found version 2, expected version 1"):
        move_stable_label(URL, "encdec", 1)
    with pytest.raises(InputError, match=f"{URL}/2: found an existing version"):
        export_model(model_dir, URL, version=2)
