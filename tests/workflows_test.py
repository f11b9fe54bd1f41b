"""The workflows test every platform that the project supports."""

import pathlib
import re
import runpy
import tomllib

import yaml

ROOT = pathlib.Path(__file__).parents[1]


def jobs(workflow):
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text(encoding="utf-8"))["jobs"]


def matrix(workflow, job):
    return jobs(workflow)[job]["strategy"]["matrix"]


def test_every_backend_is_tested():
    backends = runpy.run_path(str(ROOT / "tests" / "run.py"))["BACKENDS"]
    for workflow, job in (("ci", "tests"), ("scheduled", "keras-nightly")):
        assert matrix(workflow, job)["backend"] == list(backends)


def test_every_version_of_python_that_the_package_names_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    [demo] = [step["with"]["python-version"] for step in jobs("ci")["demo"]["steps"] if "with" in step]
    assert [*matrix("ci", "tests")["python"], demo] == named


def test_the_targets_that_workflows_make_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        steps = [step.get("run", "") for job in jobs(path.stem).values() for step in job["steps"]]
        assert steps and {made for step in steps for made in re.findall(r"\bmake ([\w-]+)", step)} <= targets, path
