"""Which parts a diagnosis has, in which order, and that a broken backend does not stop it."""

import importlib.metadata
import json

import pytest

from keras_encdec.diagnosis import BackendProbe, diagnose


@pytest.fixture
def started(monkeypatch):
    """The backends that are started, of which PyTorch fails."""
    names = []

    def probe(name):
        names.append(name)
        failed = name == "torch"
        return BackendProbe(name, None if failed else 1.0, (), {}, ("torch fails; mend it.",) if failed else ())

    monkeypatch.setattr("keras_encdec.diagnosis.diagnosis.probe_backend", probe)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    return names


def test_sections_that_do_not_need_keras_are_shown_first(started, tmp_path):
    shown = []
    found = diagnose(show=lambda section: shown.append((section.title, list(started))), folder=tmp_path)
    assert shown[:3] == [("Versions", []), ("Backend", []), ("Machine", [])]
    assert shown[3:] == [("Computing with tensorflow", ["tensorflow"])]
    assert found.problems == () and found.machine.folder == str(tmp_path)


def test_all_backends_are_started_on_request(started):
    found = diagnose(all_backends=True)
    assert started == ["tensorflow", "jax", "torch"] == [probe.backend for probe in found.computing]
    assert found.problems == ("torch fails; mend it.",)
    assert json.loads(json.dumps(found.to_dict()))["problems"] == ["torch fails; mend it."]


def test_a_model_is_not_loaded_with_a_backend_that_fails(started, monkeypatch, model_dirs):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    found = diagnose(paths=[model_dirs / "forward"])
    assert len(found.problems) == 2 and "without a working backend" in found.problems[1]


def test_a_backend_that_is_not_installed_is_not_started(started, monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: None if name == "tensorflow" else real(name))
    found = diagnose()
    assert started == [] and found.computing == ()
    assert any(
        "The backend tensorflow, chosen by KERAS_BACKEND, is not installed" in problem for problem in found.problems
    )
