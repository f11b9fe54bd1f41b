"""The demonstration, with a short training and a small report."""

import dataclasses
import re
import shlex
import sys

import pytest
from eagerly import eagerly
from in_process import in_process
from tiny_trainings import rounds
from undrawn import undrawn

from keras_encdec.analysis import ReportOptions, report
from keras_encdec.cli.demo import COMMAND, demonstrate, demonstration_settings, write_report
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import InputLines, open_output
from keras_encdec.trainers.training_files import save_settings


def small_report(*arguments, **named):
    """A report of few words and phrases, whose maps take a moment."""
    return report(*arguments, **named, options=ReportOptions(samples=2, pairs=100, map_words=5, map_phrases=5))


@pytest.mark.parametrize("scheme, folder", [("", "my files"), ("file://", "out")])
def test_it_trains_compares_scores_and_shows(tmp_path, capsys, monkeypatch, scheme, folder):
    if scheme:
        pytest.importorskip("fsspec", reason="the extra remote is not installed")
    dataset = dataclasses.replace(libreoffice_en_fr(), phrase_table=tmp_path / "table.gz")
    with InputLines(libreoffice_en_fr().phrase_table) as lines, open_output(dataset.phrase_table) as table:
        table.write(b"".join(line + b"\n" for _, line in zip(range(2000), lines, strict=False)))
    monkeypatch.setattr("keras_encdec.datasets.libreoffice_en_fr", lambda: dataset)
    monkeypatch.setattr("keras_encdec.cli.demo.HELD_OUT", 100)
    earlier = tmp_path / folder / "model"
    earlier.mkdir(parents=True)
    save_settings(earlier, *demonstration_settings(minutes=3))
    (earlier / "last.keras").write_bytes(b"of an earlier demonstration")
    (tmp_path / folder / "moses.ini").write_bytes(b"of an earlier demonstration")
    (tmp_path / folder / "report").mkdir()
    (tmp_path / folder / "report" / "index.html").write_bytes(b"of an earlier demonstration")
    monkeypatch.setattr(sys.modules[report.__module__], "report", small_report)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # a virtual environment whose commands are not found
    monkeypatch.setenv("PATH", "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "activate").touch()
    if scheme:
        monkeypatch.setitem(sys.modules, "uvicorn", None)  # as if the extra web were not installed
    with eagerly(), undrawn():
        training = demonstrate(scheme + str(tmp_path / folder), minutes=0.05)
    output = capsys.readouterr().out
    model = shlex.quote(f"{scheme}{tmp_path}/{folder}/model")
    assert f"encdec-serve --model_dir={model}\n" in output and "/bin/activate" in output
    assert ('In a browser        pip install "keras-encdec[web]"\n' in output) == bool(scheme)
    assert f"{tmp_path}/{folder}/report/index.html\n" in output
    assert (tmp_path / folder / "report" / "index.html").read_bytes().startswith(b"<!doctype html>")
    perplexities = re.findall(r"^ +([\d.]+)   the (?:model|same decoder)", output, re.M)
    assert len(perplexities) == 2 and min(map(float, perplexities)) > 1
    listing = output.partition("Table 2):")[2].partition("\n5. Look")[0]
    assert len(re.findall(r"^   \S.*$", listing, re.M)) == 5
    assert len(re.findall(r"^      \S.* +\S", listing, re.M)) == 15
    for program in ("encdec-train --preset=small", "encdec-score", "encdec-report"):
        assert f"   $ {program} " in output
    table = tmp_path / folder / "phrase-table.gz"
    with InputLines(table) as scored, InputLines(dataset.phrase_table) as lines:
        for after, before in zip(scored, lines, strict=True):
            fields = after.split(b" ||| ")
            *scores, added = fields[2].split()
            fields[2] = b" ".join(scores)
            assert b" ||| ".join(fields) == before and 0 < float(added) <= 1
    ini = tmp_path / folder / "moses.ini"
    if " " in folder:
        assert not ini.exists() and "found spaces or # in the path of the new table" in output
    else:
        assert "num-features=5" in ini.read_text() and f"path={scheme}{table}" in ini.read_text()
    assert training.last.updates == rounds(earlier)[-1]["updates"], "the earlier model is gone"


def test_the_report_is_left_out_without_the_libraries_that_draw(tmp_path, capsys, monkeypatch):
    loaded = [name for name in sys.modules if name.startswith("keras_encdec.analysis.")]
    for name in loaded:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_report(tmp_path / "model", tmp_path / "table", tmp_path / "report")
    assert 'Skipped: The report needs matplotlib, which is not installed: pip install "keras-encdec[analysis]".' in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    "name, settings, minutes, expected",
    [
        ("model/best.keras", None, 0.01, "model: found another model, expected that of an earlier"),
        ("model/best.keras", {"schedule": "linear"}, 0.01, "model: found another model, expected that of an earlier"),
        ("model/best.keras", {}, "nan", "flag --minutes=nan: expected a number, 0.01 or more"),
        ("phrase-table.gz", None, 0.01, "phrase-table.gz: found another file, expected that of an earlier"),
        ("moses.ini", None, 0.01, "moses.ini: found another file, expected that of an earlier"),
        ("report/index.html", None, 0.01, "index.html: found another file, expected that of an earlier"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_files_of_the_user_are_not_replaced(tmp_path, name, settings, minutes, expected, scheme):
    if scheme:
        pytest.importorskip("fsspec", reason="the extra remote is not installed")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"years of work")
    if settings is not None:  # trained on the packaged table
        config, data = demonstration_settings(minutes=3)
        save_settings(file.parent, config.replace(**settings), data)
    process = in_process(COMMAND, f"--output_dir={scheme}{tmp_path}", f"--minutes={minutes}")
    assert process.returncode in (1, 2) and expected in process.stderr
    assert file.read_bytes() == b"years of work"
