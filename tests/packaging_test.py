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


def test_its_commands_run_outside_the_checkout(wheel, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site")]
    subprocess.run([*install, str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    where = "import keras_encdec.trainers as t, keras_encdec.datasets as d"
    where += "; print(t.__file__, d.libreoffice_en_fr().phrase_table)"
    package, table = run("-c", where).split()
    assert package.startswith(str(tmp_path)) and table.startswith(str(tmp_path))
    with gzip.open(table) as lines:
        (tmp_path / "some").write_bytes(b"".join(line for _, line in zip(range(200), lines, strict=False)))
    run("-m", "keras_encdec.cli.train", "--phrase_table=some", "--model_dir=model", "--updates=1", "--preset=small",
        "--units=4", "--batch_size=4", "--held_out_pairs=4", "--jit_compile=false")  # fmt: skip
    run("-m", "keras_encdec.cli.score", "--model_dir=model", "--input=some", "--output=scored.gz")
    assert (tmp_path / "scored.gz").exists()
