"""Tests of packages that import exported names on first use, in new interpreters."""

import subprocess
import sys

import pytest


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_package_imports_nothing_heavy_until_a_name_is_used():
    run(
        "import sys, keras_encdec.architectures, keras_encdec.trainers, keras_encdec.scoring, keras_encdec.decoding\n"
        "assert 'TrainingConfig' in dir(keras_encdec.trainers) and 'train' in keras_encdec.trainers.__all__\n"
        "keras_encdec.trainers.TrainingConfig(updates=1)\n"
        "assert not {'keras', 'tensorflow'} & set(sys.modules)\n"
    )


@pytest.mark.parametrize("first", ["import package.count", "import package", "from package import other"])
def test_a_function_is_not_hidden_by_the_module_of_its_name(first, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\nfrom keras_encdec.runtime.imports import lazy_imports\n"
        "if TYPE_CHECKING:\n    from package.count import count as count\nlazy_imports(__name__)\n"
    )
    (tmp_path / "package" / "count.py").write_text("def count():\n    return 7\n")
    (tmp_path / "package" / "other.py").write_text("from package import count\nseven = count()\n")
    run(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{first}\nfrom package import count\nimport package\n"
        "from package.count import count as same\n"
        "assert count is same is package.count and count() == 7\nimport package.other\n"
        "assert package.other.seven == 7\n"
    )


def test_an_unknown_name_is_an_attribute_error():
    run(
        "import keras_encdec.models\n"
        "try:\n    keras_encdec.models.Transformer\n"
        "except AttributeError as error:\n    assert \"has no attribute 'Transformer'\" in str(error)\n"
    )


@pytest.mark.parametrize("before", ["", "sys.modules['tensorflow'] = sys\n"])
def test_triton_is_imported_unless_tensorflow_was(before, tmp_path):
    (tmp_path / "triton.py").write_text("")
    run(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{before}"
        "from keras_encdec.runtime.imports import import_triton\nimport_triton()\n"
        "assert ('triton' in sys.modules) != ('tensorflow' in sys.modules)\n"
    )
