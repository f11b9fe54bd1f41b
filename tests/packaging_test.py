"""The wheel: what is in it, and that it works outside the checkout."""

import gzip
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest
import toy_models
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from searchless import searchless

import keras_encdec

ROOT = pathlib.Path(__file__).parents[1]
OF_THE_PACKAGE = {"keras_encdec", "trainers", "export"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout."""
    folder = tmp_path_factory.mktemp("clone") / "checkout"
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "dist", "demo", "*.egg-info", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(checkout)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(checkout / "build")  # in a clone nothing was built
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The folder of the programs of an environment in which the wheel is installed, not the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    # Python does not read the .pth files in these folders, which may name the checkout.
    (site / "others.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    install = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--ignore-installed", str(wheel)], check=True)
    return folder / "bin"


def test_the_pinned_versions_install_with_every_release_of_the_supported_pythons():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonicalize_name(line.split("==")[0]) for line in lines if "==" in line}
    unsupported = [
        f"{package.name} {package.version} requires Python {required}"
        for package in importlib.metadata.distributions()
        if canonicalize_name(package.name) in pinned and (required := package.metadata["Requires-Python"])
        for release in ("3.11.0", "3.12.0", "3.13.0")
        if release not in SpecifierSet(required)
    ]
    assert not unsupported, "pin older versions in constraints.txt: Linux distributions have the first releases"


def test_it_has_one_top_level_module_and_the_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"keras_encdec"}
    packages = {str(p.parent.relative_to(ROOT)) for p in (ROOT / "keras_encdec").rglob("__init__.py")}
    packages |= {"keras_encdec/trainers", "keras_encdec/export", "keras_encdec/export/client"}
    assert packages == {str(pathlib.PurePath(name).parent) for name in names if name.endswith("__init__.py")}
    modules = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] in OF_THE_PACKAGE]
    assert len(modules) == sum(name.endswith(".py") for name in names)
    for needed in ("phrase-table.gz", "LICENSE", "NOTICE", "moses.ini", "dev.en", "dev.fr", "test.en", "test.fr"):
        assert f"keras_encdec/datasets/libreoffice_en_fr/{needed}" in names
    model = "keras_encdec/packaged_models/libreoffice_en_fr/"
    for needed in ("README.md", "LICENSE", "NOTICE", "config.json", "source.vocab", "target.vocab", "best.keras"):
        assert f"{model}{needed}" in names
    sizes = [file.compress_size for file in zipfile.ZipFile(wheel).infolist() if file.filename.startswith(model)]
    assert sum(sizes) < 3_000_000
    assert "keras_encdec/architectures/preset_files/cho2014.toml" in names
    for name in ("elements.html", "page.html", "sections.html", "report.css", "report.js"):
        assert f"keras_encdec/analysis/page/{name}" in names
    assert {f"keras_encdec/web/page/{name}" for name in ("index.html", "try.css", "try.js")} <= set(names)


def test_its_version_is_that_of_the_package(wheel):
    assert wheel.name == f"keras_encdec-{keras_encdec.__version__}-py3-none-any.whl"


RUN_OUTSIDE = """
import keras_encdec.datasets, keras_encdec.trainers
from keras_encdec.cli import score, train

print(keras_encdec.trainers.__file__, keras_encdec.datasets.libreoffice_en_fr().phrase_table)
sizes = "--preset=small", "--units=4", "--batch_size=4", "--held_out_pairs=4", "--jit_compile=false"
assert train.COMMAND.main(["--phrase_table=some", "--model_dir=model", "--updates=1", *sizes]) == 0
assert score.COMMAND.main(["--model_dir=model", "--input=some", "--output=scored.gz"]) == 0
"""


def test_its_commands_run_outside_the_checkout(programs, tmp_path):
    with gzip.open(ROOT / "keras_encdec" / "datasets" / "libreoffice_en_fr" / "phrase-table.gz") as lines:
        (tmp_path / "some").write_bytes(b"".join(line for _, line in zip(range(200), lines, strict=False)))
    command, environment = [programs / "python", "-c", RUN_OUTSIDE], {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    package, table = done.stdout.split()[:2]
    assert all(pathlib.Path(path).is_relative_to(programs.parent) for path in (package, table))
    assert (tmp_path / "scored.gz").exists()


IMPORT_ALL = "import keras_encdec.trainers, keras_encdec.export; print(keras_encdec.trainers.__file__)"


def test_a_checkout_uses_its_own_modules_although_the_wheel_is_installed(programs, checkout):
    run = {"check": True, "capture_output": True, "text": True}
    done = subprocess.run([programs / "python", "-c", IMPORT_ALL], cwd=checkout, **run)
    assert pathlib.Path(done.stdout.strip()) == checkout / "trainers" / "__init__.py"
    done = subprocess.run([programs / "python", "-c", IMPORT_ALL], cwd=checkout.parent, **run)
    assert pathlib.Path(done.stdout.strip()).is_relative_to(programs.parent)


def test_the_wheels_commands_verify_in_a_checkout(programs, checkout, tmp_path):
    from keras_encdec.export import export_model

    words = [f"w{i}" for i in range(9)]
    with searchless():
        export_model(toy_models.save_model(tmp_path / "model", words, words), tmp_path / "models")
    command = [programs / "encdec-verify", f"--model_dir={tmp_path / 'model'}", f"--export_dir={tmp_path / 'models'}"]
    done = subprocess.run([*command, "--pairs=4", "--backends=torch"], cwd=checkout, capture_output=True, text=True)
    assert "encdec-score on torch: 4 pairs" in done.stdout, done.stderr


@pytest.mark.parametrize("project", [None, '[project]\nname = "another"\n'])
def test_other_projects_folders_are_not_mistaken_for_the_packages(tmp_path, project):
    (tmp_path / "keras_encdec").mkdir()
    shutil.copy(ROOT / "keras_encdec" / "__init__.py", tmp_path / "keras_encdec")
    for name in ("trainers", "export"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    if project:
        (tmp_path / "pyproject.toml").write_text(project)
    done = subprocess.run([sys.executable, "-S", "-c", IMPORT_ALL], cwd=tmp_path, capture_output=True, text=True)
    assert "No module named 'keras_encdec.trainers'" in done.stderr
