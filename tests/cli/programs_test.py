"""All commands in one interpreter."""

import importlib
import json
import pathlib
import shutil
import subprocess
import sys
import tomllib
import zipfile

import h5py
import numpy as np
import pytest
from in_process import in_process

from keras_encdec.cli.command import GUIDES
from keras_encdec.model_config import model_path

SCRIPTS = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]


MODULES = {name: f"keras_encdec.cli.{target.partition(':')[2]}" for name, target in SCRIPTS.items()}


def command(name):
    return importlib.import_module(MODULES[name]).COMMAND


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_command_shows_its_help_although_the_others_are_imported(name):
    assert command(name).name == name
    process = in_process(command(name), "--help")
    assert process.returncode == 0 and process.stderr == ""
    assert name in process.stdout.splitlines()[0] and "  --" in process.stdout
    assert in_process(command(name), "--no_such_flag").returncode == 2
    assert in_process(command(name), "--version").stdout.startswith(f"{name} (keras-encdec ")


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_example_in_the_help_has_flags_of_the_command_and_the_guide_exists(name):
    shown = command(name)
    program, *arguments = shown.example.split(" ")
    values = shown.flag_values()
    assert values([program, *arguments]) == [name]  # all are flags
    assert all(values[flag].value is not None for flag in shown.required)
    guides = pathlib.Path(__file__).parents[2] / GUIDES
    assert (guides / f"{shown.guide}.md").exists()
    text = in_process(shown, "--help").stdout
    assert f"\nusage: {name} " in text and "\nexample:\n  encdec-" in text
    assert ("\nrequired flags:\n" in text) == bool(shown.required)
    groups = [group.count("\n  -") for group in text.split("\n\n")]
    assert max(groups) <= 16, groups  # flags under one heading
    formats = getattr(values["format"].parser.parameter, "choices", ()) if "format" in values else ()
    assert not formats or "n-best list" not in text or any("nbest" in choice for choice in formats)


def test_no_flag_is_global_and_nothing_heavy_is_imported():
    modules = list(MODULES.values())
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


SCORED = ["--model_dir=libreoffice_en_fr", "--input=input", "--moses_ini=input"]
SELECTED = [
    "--target=input",
    "--source_output=sources",
    "--share=1",
    "--model_dir=libreoffice_en_fr",
    "--reverse_model_dir=libreoffice_en_fr",
]
IN_DOMAIN = [
    "--source_output=sources",
    "--method=moore_lewis",
    "--top=1",
    "--in_domain_source=input",
    "--source=input",
    "--target=input",
]
DISTILLED = ["--model_dir=libreoffice_en_fr", "--source=input", "--target=input", "--output=out"]
WRONG_PATHS = [
    ("score", ["--model_dir=nowhere", "--input=input", "--output=out"]),
    ("generate", ["--model_dir=nowhere", "--input=input"]),
    ("select", [*SELECTED, "--source=nowhere", "--output=out"]),
    ("select", [*SELECTED, "--source=input", "--output=out", "--reverse_model_dir=nowhere"]),
    ("select", [*IN_DOMAIN, "--output=out", "--general_source=nowhere"]),
    ("report", ["--model_dir=nowhere", "--output=out"]),
    ("doctor", ["--path=nowhere"]),
    ("report", ["--model_dir=libreoffice_en_fr", "--output=out", "--compare_with=nowhere"]),
    ("serve", ["--model_dir=nowhere"]),
    ("export", ["--model_dir=nowhere", "--export_dir=out"]),
    ("verify", ["--model_dir=nowhere", "--export_dir=out"]),
    ("verify", ["--model_dir=libreoffice_en_fr", "--export_dir=nowhere"]),
    ("client", ["--server=localhost:1", "--input=nowhere", "--output=out"]),
    ("train", ["--model_dir=out", "--phrase_table=nowhere", "--updates=1"]),
    ("train", ["--model_dir=out", "--phrase_table=input", "--updates=1", "--initial_model=nowhere"]),
    ("train", ["--model_dir=out", "--phrase_table=input", "--updates=1", "--source_vocabulary=nowhere"]),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--lexical_shortlist=nowhere"]),
    ("experiment", ["--config=nowhere", "--output=out"]),
    ("distill", [*DISTILLED, "--dev_source=input", "--dev_target=nowhere"]),
    ("export", ["--export_dir=nowhere", "--stable_version=1"]),
    ("export", ["--export_dir=out", "--model_dir=libreoffice_en_fr", "--lexical_shortlist=nowhere"]),
    ("doctor", ["--folder=nowhere"]),
    ("export", ["--model_dir=libreoffice_en_fr", "--export_dir=out", "--replace_unknown", "--dictionary=nowhere"]),
]
WRONG_OUTPUTS = [
    ("score", ["--model_dir=libreoffice_en_fr", "--input=input", "--output=nowhere/out"]),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--output=nowhere/out"]),
    ("select", [*SELECTED, "--source=input", "--output=nowhere/out"]),
    ("select", [*SELECTED, "--source=input", "--output=out", "--source_output=nowhere/out"]),
    ("client", ["--server=localhost:1", "--input=input", "--output=nowhere/out"]),
    ("prune", ["--model_dir=libreoffice_en_fr", "--output=input"]),
    ("average", ["--model_dir=libreoffice_en_fr", "--model_dir=libreoffice_en_fr", "--output=input"]),
    ("score", ["--model_dir=libreoffice_en_fr", "--input=input", "--output=out", "--alignments=nowhere/out"]),
    ("score", [*SCORED, "--output=out", "--moses_ini_out=nowhere/out"]),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--alignments=nowhere/out"]),
    ("report", ["--model_dir=libreoffice_en_fr", "--output=input"]),
    ("experiment", ["--config=libreoffice", "--output=input"]),
    ("distill", ["--model_dir=libreoffice_en_fr", "--source=input", "--target=input", "--output=input"]),
    ("doctor", ["--output=nowhere/out"]),
    ("train", ["--model_dir=input", "--phrase_table=input", "--updates=1"]),
    ("export", ["--model_dir=libreoffice_en_fr", "--export_dir=input"]),
    ("demo", ["--output_dir=input"]),
]

NEW = ["--model_dir=new", "--phrase_table=input", "--updates=1"]
CONTRADICTIONS = [
    ("score", ["--model_dir=a", "--input=b", "--output=-", "--moses_ini=c", "--moses_ini_out=d"]),
    ("score", ["--model_dir=a", "--input=b", "--output=-", "--alignments=-"]),
    ("average", ["--model_dir=libreoffice_en_fr", "--output=out"]),
    ("generate", ["--model_dir=a", "--input=b", "--alignments=-"]),
    ("generate", ["--model_dir=a", "--input=b", "--model_weight=1", "--model_weight=2"]),
    ("generate", ["--model_dir=a", "--input=b", "--model_weight=1"]),
    ("export", ["--export_dir=a", "--stable_version=1", "--beam_size=7"]),
    ("verify", ["--model_dir=a", "--export_dir=b", "--encoding=latin-1"]),
    ("report", ["--model_dir=a", "--output=b", "--target=c"]),
    ("report", ["--model_dir=a", "--output=b", "--phrase=c"]),
    ("report", ["--model_dir=a", "--output=b", "--source=c", "--samples=3"]),
    ("select", ["--tsv=a", "--output=b", "--source_output=c", "--share=1"]),
    ("select", ["--tsv=a", "--output=b", "--model_dir=c", "--reverse_model_dir=d"]),
    ("serve", ["--model_dir=a", "--phrase_table=b", "--input=c"]),
    ("train", ["--model_dir=trained", "--phrase_table=input", "--updates=1"]),
    ("train", [*NEW, "--architecture=recurrent", "--cell=transformer"]),
    ("train", [*NEW, "--architecture=recurrent", "--attention=hard"]),
    ("distill", [*DISTILLED, "--dev_source=input", "--updates=1"]),
]

PARALLEL = ["--format=parallel", "--source=input", "--input=input", "--output=out"]
INI = ["--model_dir=libreoffice_en_fr", "--moses_ini_out=new.ini"]
NBEST = ["--model_dir=libreoffice_en_fr", "--format=nbest", "--source=input"]
BEGUN = [*NEW, "--initial_model=libreoffice_en_fr"]
RESUMED = ["--model_dir=begun", "--phrase_table=input", "--updates=1", "--resume"]
# A model of a kind or direction that the command cannot use, and what the error says.
WRONG_MODELS = [
    ("generate", ["--model_dir=language", "--input=input"], "found --input with a language model"),
    ("generate", ["--model_dir=language", "--shard_lines=5"], "found work in shards without --input"),
    ("generate", ["--model_dir=language", "--max_unknown=0.5"], "found --max_unknown with a language model"),
    ("generate", ["--model_dir=libreoffice_en_fr"], "found no --input"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--alignments=out"], "that has no attention"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--coverage_penalty=1"], "that has no attention"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--replace_unknown"], "neither attention nor"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--character_beam=2"], "that spells no words"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=input", "--word_translations=input"], "that spells no wo"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--model_dir=reverse", "--input=input"], "found a different dir"),
    ("score", ["--model_dir=reverse", *PARALLEL], "found a model of p.source . target."),
    ("score", ["--model_dir=libreoffice_en_fr", "--reverse_model_dir=libreoffice_en_fr", *PARALLEL], "--reverse_model"),
    ("score", ["--model_dir=libreoffice_en_fr", "--alignments=links", *PARALLEL], "that has no attention"),
    ("select", ["--source=input", "--output=out", *SELECTED], "expected one of p.source . target."),
    ("select", [*SELECTED[:3], "--model_dir=language", "--source=input", "--output=out", SELECTED[4]], "found a lang"),
    ("select", [*IN_DOMAIN, "--output=out", "--general_source=libreoffice_en_fr"], "check --general_source"),
    ("report", ["--model_dir=reverse", "--output=out"], "found a model of p.source . target."),
    ("report", ["--model_dir=language", "--output=out"], "found a language model"),
    ("serve", ["--model_dir=language"], "found a language model"),
    ("export", ["--model_dir=language", "--export_dir=served"], "found a language model"),
    ("export", ["--model_dir=libreoffice_en_fr", "--export_dir=served", "--version=3"], "found an existing version"),
    ("export", ["--model_dir=libreoffice_en_fr", "--export_dir=served", "--replace_unknown"], "neither attention nor"),
    ("export", ["--model_dir=libreoffice_en_fr", "--export_dir=served", "--coverage_penalty=1"], "has no attention"),
    ("verify", ["--model_dir=language", "--export_dir=served"], "found a language model"),
    ("distill", [*DISTILLED, "--model_dir=language", "--updates=1"], "found a language model"),
    ("verify", ["--model_dir=libreoffice_en_fr", "--export_dir=served"], "best.keras: found weights that differ from"),
    ("distill", [*DISTILLED, "--target=empty", "--updates=1"], "empty: found an empty file"),
    ("train", [*RESUMED, "--batch_size=4"], "--batch_size=4, expected --units=8, --batch_size=3"),
    ("train", [*RESUMED, "--batch_size=3"], "found --units=1000, expected --units=8 as in the run to resume"),
    ("train", [*RESUMED, "--batch_size=3", "--units=8", "--reverse"], "found --reverse, expected none as in the run"),
    ("train", [RESUMED[0], *RESUMED[2:], "--tasks=tasks.toml"], "found --tasks, expected none as in the run to resume"),
    (
        "train",
        [*NEW, "--initial_model=dense", "--keep_pruned"],
        "found no weight that is zero, expected a pruned model with --keep_pruned",
    ),
    ("prune", ["--model_dir=pruned", "--output=out", "--share=0.4"], "50.0 % of the weights already z"),
    ("score", ["--input=input", "--output=out", *INI, "--moses_ini=links"], "links: found no phrase table"),
    ("score", ["--input=input", "--output=out", *INI, "--moses_ini=ini"], "ini, line 2: found num-features=2, exp"),
    ("score", ["--input=nbest", "--output=out", *NBEST], "nbest, line 1: found the feature RNN0, expected"),
    ("score", ["--input=nbest", "--output=out", *NBEST, "--feature_name=Length0", "--length"], "found the names Len"),
    ("score", ["--model_dir=libreoffice_en_fr", "--input=empty", "--output=out"], "empty: found an empty file"),
    ("score", ["--model_dir=libreoffice_en_fr", "--input=two", "--output=out"], "two, line 1: found 1 field"),
    ("score", ["--model_dir=libreoffice_en_fr", *PARALLEL, "--input=two"], "found [12] lines?, and [12] line"),
    (
        "select",
        ["--source=two", "--output=out", *SELECTED[:-1], "--reverse_model_dir=reverse"],
        "found [12] lines?, and",
    ),
    ("train", ["--model_dir=new", "--phrase_table=two", "--updates=1"], "two, line 1: found 1 field.*leave such lines"),
    ("train", [*NEW, "--validation=empty"], "empty: found an empty file"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=empty"], "empty: found an empty file"),
    ("generate", ["--model_dir=libreoffice_en_fr", "--input=latin"], "latin, line 1: found bytes that are not UTF-8"),
    ("report", ["--model_dir=libreoffice_en_fr", "--output=out", "--phrase_table=two"], "two, line 1: found 1 field"),
    ("report", ["--model_dir=libreoffice_en_fr", "--output=out", "--source=latin"], "latin, line 1: found bytes that"),
    ("client", ["--server=localhost:1", "--input=empty", "--output=out"], "empty: found an empty file"),
    ("score", ["--model_dir=libreoffice_en_fr", *PARALLEL, "--source=two", "--input=two"], "one file for two purposes"),
    ("serve", ["--host=203.0.113.1"], "cannot listen on 203.0.113.1, port 8080"),
    ("verify", ["--model_dir=libreoffice_en_fr", "--export_dir=input"], "input: found a file, expected the folder"),
    ("train", [*BEGUN, "--units=32"], "found --units=32, expected --units=200 as in the model of --initial_model"),
    ("train", [*BEGUN, "--reverse"], "found --reverse=True, expected --reverse=False"),
    ("train", [*BEGUN, "--architecture=recurrent"], "expected --architecture=encdec"),
    ("train", [*BEGUN, "--source_vocabulary=input"], "found --source_vocabulary with --initial_model"),
]


def save_description(folder, **values):
    """Writes the files of a model that commands read before Keras is imported: all but the weights."""
    folder.mkdir()
    config = {"format": 1, "direction": "forward", "tokenization": None, "has_source": True, "sha256": {}, "model": {}}
    (folder / "config.json").write_text(json.dumps({**config, "architecture": "encdec", **values}))
    for name in ("best.keras", "source.vocab", "target.vocab"):
        (folder / name).write_text("mot\n")


def test_a_model_that_a_command_cannot_use_is_found_before_keras_is_imported(tmp_path):
    save_description(tmp_path / "reverse", direction="reverse")
    save_description(tmp_path / "language", architecture="language_model", has_source=False)
    save_description(tmp_path / "begun", training={"batch_size": 3}, model={"units": 8})
    (tmp_path / "begun" / "last.keras").touch()
    (tmp_path / "served" / "3" / "assets.extra").mkdir(parents=True)
    description = {"reads": "tokens separated by spaces", "tokenization": None, "model_weights": "0"}
    (tmp_path / "served" / "3" / "assets.extra" / "keras_encdec.json").write_text(json.dumps(description))
    for name in ("input", "links"):
        (tmp_path / name).write_text("a ||| b ||| 1\n")
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "nbest").write_text("0 ||| b ||| RNN0= -1 ||| -1\n")
    (tmp_path / "ini").write_text("[feature]\nPhraseDictionaryMemory name=T num-features=2 path=t\n[weight]\nT= 1 1\n")
    save_description(tmp_path / "pruned")
    shutil.copytree(model_path("libreoffice_en_fr"), tmp_path / "dense")
    for name, matrix in (("pruned", np.eye(2)), ("dense", np.ones((2, 2)))):
        with h5py.File(tmp_path / "weights", "w") as weights:
            weights["matrix"] = matrix
        with zipfile.ZipFile(tmp_path / name / "best.keras", "w") as archive:
            archive.write(tmp_path / "weights", "model.weights.h5")
    (tmp_path / "empty").touch()
    (tmp_path / "latin").write_bytes(b"\xe9t\xe9\n")
    parts = 'encoder = "s"\ndecoder = "t"\n'
    copy = '[tasks.copy]\nkind = "autoencoder"\ntext = "input"\nencoder = "s"\ndecoder = "s"\nratio = 0.5\n'
    (tmp_path / "tasks.toml").write_text(f'main = "t"\n[tasks.t]\nphrase_table = "input"\n{parts}{copy}')
    code = f"""
import contextlib, importlib, io, re, sys
for name, arguments, expected in {WRONG_MODELS!r}:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        status = importlib.import_module("keras_encdec.cli." + name).COMMAND.main(arguments)
    assert status in (1, 2) and re.search(expected, errors.getvalue()), (name, arguments, errors.getvalue())
    assert "keras" not in sys.modules, (name, arguments)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert not (tmp_path / "out").exists() and not (tmp_path / "new").exists()


def test_wrong_paths_and_contradictions_are_found_before_keras_is_imported(tmp_path):
    (tmp_path / "input").write_text("le chat\n")
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "last.keras").touch()
    code = f"""
import contextlib, importlib, io, re, sys
for name, arguments in {WRONG_PATHS + WRONG_OUTPUTS!r}:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        status = importlib.import_module("keras_encdec.cli." + name).COMMAND.main(arguments)
    sentence = errors.getvalue()
    assert status == 1, (name, sentence)
    assert re.search(": (nowhere: found no|nowhere/out: found no|input: found a)", sentence), (name, sentence)
for name, arguments in {CONTRADICTIONS!r}:
    with contextlib.redirect_stderr(io.StringIO()):
        status = importlib.import_module("keras_encdec.cli." + name).COMMAND.main(arguments)
    assert status == 2, (name, arguments)
assert "keras" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_interrupt_while_a_command_is_imported_is_one_line(name, signals_obeyed):
    """Also where Python ignores exceptions, as in import callbacks."""
    module, _, function = SCRIPTS[name].partition(":")
    interrupted = f"""
import contextlib, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{MODULES[name]}":
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from {module} import {function}
{function}()
"""
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, f"{name}: interrupted before it began.\n")
