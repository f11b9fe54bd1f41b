"""All commands in one interpreter."""

import importlib
import pathlib
import subprocess
import sys
import tomllib

import pytest
from in_process import in_process

SCRIPTS = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]


def command(name):
    module, _, function = SCRIPTS[name].partition(":")
    assert function == "run"
    return importlib.import_module(module).COMMAND


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_shows_its_help_beside_the_others(name):
    assert command(name).name == name
    process = in_process(command(name), "--help")
    assert process.returncode == 0 and process.stderr == ""
    assert name in process.stdout.splitlines()[0] and "  --" in process.stdout
    assert in_process(command(name), "--no_such_flag").returncode == 2


def test_no_flag_is_global_and_nothing_heavy_is_imported():
    modules = [target.partition(":")[0] for target in SCRIPTS.values()]
    check = f"""
import importlib, sys
from absl import flags
modules = [importlib.import_module(name) for name in {modules}]
assert [module.COMMAND.main(["--help"]) for module in modules] == [0] * len(modules)
heavy = [name for name in ("keras", "tensorflow", "jax", "torch") if name in sys.modules]
own = [name for name in flags.FLAGS.flags_by_module_dict() if name.startswith("keras_encdec")]
sys.exit(f"{{heavy}} {{own}}" if heavy or own else 0)
"""
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
