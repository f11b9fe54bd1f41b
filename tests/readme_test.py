"""Every command and every line of Python in the README runs."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

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
    (folder / "pairs.tsv").write_text(text, encoding="utf-8")
    return folder


def test_commands_run_as_written_in_their_order(folder):
    commands = [line.strip() for line in README.splitlines() if line.startswith("    encdec-")]
    assert [shlex.split(command)[0] for command in commands] == ["encdec-train", "encdec-score", "encdec-score"]
    for command in commands:
        program, *flags = shlex.split(command.replace("--minutes=20 --schedule=cosine", "--updates=3"))
        subprocess.run([str(BIN / program), *flags], cwd=folder, check=True, capture_output=True)
    for made in ("model/best.keras", "scored.gz", "scored.ini", "scored.tsv"):
        assert (folder / made).exists(), made
    with InputLines(folder / "scored.gz") as lines:
        assert all(len(line.split(b"|||")[2].split()) == 5 for line in lines)


def test_python_runs_as_written_in_its_order(folder):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], cwd=folder, check=True, capture_output=True, env={**os.environ})


def test_every_flag_and_target_it_names_exists():
    makefile = (pathlib.Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (\w+)`?", README):
        if target not in ("it",):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    helps = "".join(
        subprocess.run([str(BIN / name), "--help"], capture_output=True, text=True).stdout
        for name in ("encdec-train", "encdec-score")
    )
    for flag in set(re.findall(r"--(\w+)", README)) - {"help", "full"}:
        assert re.search(rf"--(\[no\])?{flag}\b", helps), flag
