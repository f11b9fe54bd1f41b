"""Every command and every line of Python in the README runs."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from serving_process import ServingProcess

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import InputLines, open_output

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BIN = pathlib.Path(sys.executable).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the README speaks of, and the model that its first command makes."""
    folder = tmp_path_factory.mktemp("readme")
    data = libreoffice_en_fr()
    with InputLines(data.phrase_table) as lines, open_output(folder / "phrase-table.gz") as table:
        table.write(b"".join(line + b"\n" for _, line in zip(range(500), lines, strict=False)))
    (folder / "moses.ini").write_bytes(pathlib.Path(data.moses_ini).read_bytes())
    pairs = [pathlib.Path(side).read_text(encoding="utf-8").splitlines() for side in (data.dev_source, data.dev_target)]
    text = "".join(f"{source}\t{target}\n" for source, target in list(zip(*pairs, strict=True))[:50])
    (folder / "phrases.en").write_text("open the file\nthe number of\n")
    (folder / "pairs.tsv").write_text(text, encoding="utf-8")
    for language, side in zip(("en", "fr"), pairs, strict=True):
        for name, lines in (("train", side[:100]), ("val", side[100:120]), ("test", side[120:125])):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "input.en").write_text("open the file\nthe next page\n", encoding="utf-8")
    features = "WordPenalty0= -3 PhrasePenalty0= 1 TranslationModel0= -1 -2 -1 -2 Distortion0= 0"
    hypotheses = {"0 ||| ouvrir le fichier": -4.4, "0 ||| le fichier": -5, "1 ||| la page suivante": -3.5}
    with open_output(folder / "nbest.gz") as nbest:
        nbest.write("".join(f"{text}  ||| {features} ||| {total}\n" for text, total in hypotheses.items()).encode())
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """A server with the ports that README names, or rather those that replace them, once there is a model."""
    running = []

    def addressed(text):
        if not running:
            flags = {"model_config_file": folder / "served" / "models.config", "rest_api_port": 0}
            running.append(ServingProcess(**flags, allow_version_labels_for_unavailable_models=True))
        rest = running[0].rest_address.removeprefix("http://")
        return text.replace("localhost:8500", running[0].grpc_address).replace("localhost:8501", rest)

    yield addressed
    for process in running:
        process.close()


def test_commands_run_as_written_in_their_order(folder, server):
    commands = re.findall(r"^ {4,}((?:encdec-|curl ).*)", README.replace("\\\n", ""), re.MULTILINE)
    assert [shlex.split(command)[0] for command in commands] == [
        "encdec-train", "encdec-train", "encdec-train", "encdec-generate", "encdec-train", "encdec-generate",
        "encdec-score", "encdec-score", "encdec-score", "encdec-score", "encdec-rerank",
        "encdec-generate", "encdec-generate", "encdec-generate", "encdec-export", "encdec-verify",
        "encdec-client", "encdec-client", "encdec-client", "curl", "encdec-export", "encdec-export",
    ]  # fmt: skip
    for command in commands:
        command = re.sub("--minutes=.*", "--updates=3", command)
        if "sentences" in command:
            command += " --units=16 --jit_compile=false"
        if command.startswith("curl") and not shutil.which("curl"):
            continue
        if "localhost" in command:
            command = server(command)
        if "--stable_version=2" in command:
            run(folder, "encdec-export --model_dir=model --export_dir=served")
        out = run(folder, command)
        if command.startswith("curl"):
            assert json.loads(out)["predictions"][0]["log_prob"] < 0
    for made in ("model/best.keras", "scored.gz", "scored.ini", "scored.tsv"):
        assert (folder / made).exists(), made
    with InputLines(folder / "scored.gz") as lines:
        assert all(len(line.split(b"|||")[2].split()) == 5 for line in lines)
    assert (folder / "test.fr").read_text(encoding="utf-8").count("\n") == 5
    with InputLines(folder / "lm.gz") as lines:
        assert [line.count(b"LM1= -") for line in lines] == [1, 1, 1]
    with InputLines(folder / "reranked.gz") as lines:
        assert [line.count(b"RNN0= -") for line in lines] == [1, 1, 1]
    assert (folder / "served.gz").exists() and (folder / "served.tsv").exists()


def run(folder, command):
    """What a command writes on standard output."""
    program, *flags = shlex.split(command)
    program = str(BIN / program) if program.startswith("encdec-") else program
    return subprocess.run([program, *flags], cwd=folder, check=True, capture_output=True).stdout


def test_servers_are_started_with_files_and_flags_that_exist(folder):
    """What README hands to TensorFlow Serving is what the test server is started with, or named in its files."""
    for name in re.findall(r"served/(\w+\.\w+)", README):
        assert (folder / "served" / name).exists(), name
    commands = re.findall(r"^ {4,}(?:docker|tensorflow_model).*\n(?: {8}.*\n)*", README, re.MULTILINE)
    flags = set(re.findall(r"--(\w+)=", "".join(commands)))
    peer = (pathlib.Path(__file__).parent / "helpers" / "serving_peer.py").read_text(encoding="utf-8")
    assert flags and all(f"--{flag}" in peer for flag in flags), flags


def test_python_runs_as_written_in_its_order(folder, server):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        if "localhost" in block:
            block = server(block)
        subprocess.run([sys.executable, "-c", block], cwd=folder, check=True, capture_output=True, env={**os.environ})


def test_every_flag_and_target_it_names_exists():
    makefile = (pathlib.Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (\w+)`?", README):
        if target not in ("it",):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    programs = sorted(set(re.findall(r"encdec-\w+", README)) - {"encdec-demo"})
    helps = "".join(
        subprocess.run([str(BIN / name), "--help"], capture_output=True, text=True).stdout for name in programs
    )
    # Of other programs: docker, TensorFlow Serving, and the benchmarks.
    others = {"help", "full", "rm"} | set(re.findall(r"--(\w+)", "".join(re.findall(r"^ {8}--.*", README, re.M))))
    others |= {"port", "rest_api_port", "server"}
    for flag in set(re.findall(r"--(\w+)", README)) - others:
        assert re.search(rf"--(\[no\])?{flag}\b", helps), flag
