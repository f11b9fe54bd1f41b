"""The wheel: what is in it, and that it works outside the checkout."""

import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "dist", "demo", "*.egg-info", ".*_cache")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(checkout)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_it_has_one_top_level_module_and_the_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"keras_encdec"}
    packages = {str(p.parent.relative_to(ROOT)) for p in (ROOT / "keras_encdec").rglob("__init__.py")}
    packages |= {"keras_encdec/trainers", "keras_encdec/export"}
    assert packages == {str(pathlib.PurePath(name).parent) for name in names if name.endswith("__init__.py")}
    for needed in ("phrase-table.gz", "LICENSE", "NOTICE", "moses.ini", "dev.en", "dev.fr", "test.en", "test.fr"):
        assert f"keras_encdec/datasets/libreoffice_en_fr/{needed}" in names
    assert "keras_encdec/architectures/preset_files/cho2014.toml" in names
    assert {"keras_encdec/analysis/page/report.css", "keras_encdec/analysis/page/report.js"} <= set(names)
    assert {f"keras_encdec/web/page/{name}" for name in ("index.html", "try.css", "try.js")} <= set(names)


RUN_OUTSIDE = """
import keras_encdec.datasets, keras_encdec.trainers
from keras_encdec.cli import score, train

print(keras_encdec.trainers.__file__, keras_encdec.datasets.libreoffice_en_fr().phrase_table)
sizes = "--preset=small", "--units=4", "--batch_size=4", "--held_out_pairs=4", "--jit_compile=false"
assert train.COMMAND.main(["--phrase_table=some", "--model_dir=model", "--updates=1", *sizes]) == 0
assert score.COMMAND.main(["--model_dir=model", "--input=some", "--output=scored.gz"]) == 0
"""


def test_its_commands_run_outside_the_checkout(wheel, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site")]
    subprocess.run([*install, str(wheel)], check=True)
    with gzip.open(ROOT / "keras_encdec" / "datasets" / "libreoffice_en_fr" / "phrase-table.gz") as lines:
        (tmp_path / "some").write_bytes(b"".join(line for _, line in zip(range(200), lines, strict=False)))
    command, environment = [sys.executable, "-c", RUN_OUTSIDE], {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    package, table = done.stdout.split()[:2]
    assert package.startswith(str(tmp_path)) and table.startswith(str(tmp_path))
    assert (tmp_path / "scored.gz").exists()
