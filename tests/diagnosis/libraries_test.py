"""Versions of libraries, and which backend is chosen, where packages are missing or of a wrong version."""

import importlib.metadata
import json

import pytest

from keras_encdec.diagnosis.libraries import find_backend, find_versions


@pytest.fixture
def versions_are(monkeypatch):
    """A function that fakes installed versions; `None` stands for a missing library."""

    def become(**versions):
        real = importlib.metadata.version

        def version(name):
            if name.replace("-", "_") not in versions:
                return real(name)
            if versions[name.replace("-", "_")] is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name.replace("-", "_")]

        monkeypatch.setattr(importlib.metadata, "version", version)

    return become


def test_installed_libraries_are_listed_with_their_extras():
    versions = find_versions()
    libraries = {library.name: library for library in versions.libraries}
    assert libraries["numpy"].version == importlib.metadata.version("numpy") and libraries["numpy"].extras == ()
    assert libraries["kenlm"].extras == ("ngram", "smt") and "pytest" not in libraries
    assert versions.installed and not versions.problems
    assert dict(versions.rows())["starlette"].endswith(" (extra web)")


def test_a_missing_extra_is_named_but_is_not_a_problem(versions_are):
    versions_are(kenlm=None)
    versions = find_versions()
    assert not versions.problems
    assert dict(versions.rows())["kenlm"] == 'not found; pip install "keras-encdec[ngram]" or "keras-encdec[smt]"'


def test_a_required_library_is_a_problem_if_it_is_missing_or_of_another_version(versions_are):
    versions_are(numpy="1.26.4", isal=None)
    versions = find_versions()
    assert versions.problems == (
        'isal is not installed; install it: pip install "isal>=1.7".',
        'numpy is 1.26.4, expected <3,>=2.0; install it: pip install "numpy<3,>=2.0".',
    )
    assert dict(versions.rows())["isal"] == "NOT FOUND, but needed"
    assert dict(versions.rows())["numpy"] == "1.26.4, BUT EXPECTED <3,>=2.0"


def test_a_checkout_that_is_not_installed_is_found(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    versions = find_versions()
    assert {library.name for library in versions.libraries} == {"keras", "numpy", "tensorflow", "jax", "torch"}
    assert not versions.installed and "keras-encdec is not installed" in versions.problems[-1]


def test_the_backend_is_chosen_as_keras_chooses_it(monkeypatch, tmp_path, versions_are):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert (find_backend().name, find_backend().chosen_by) == ("tensorflow", "default")
    (tmp_path / "keras.json").write_text(json.dumps({"backend": "jax"}))
    assert (find_backend().name, find_backend().chosen_by) == ("jax", str(tmp_path / "keras.json"))
    (tmp_path / "keras.json").write_text("{")
    assert find_backend().chosen_by == "default"
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert (find_backend().name, find_backend().chosen_by) == ("torch", "KERAS_BACKEND")
    versions_are(torch=None)
    [problem] = find_backend().problems
    assert problem.startswith("The backend torch, chosen by KERAS_BACKEND, is not installed; pip install torch, or set")
    monkeypatch.setenv("KERAS_BACKEND", "theano")
    [problem] = find_backend().problems
    assert "theano, chosen by KERAS_BACKEND, is not a backend of this package; set KERAS_BACKEND (installed:" in problem
