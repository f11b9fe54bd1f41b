"""The demonstration, cut short."""

import dataclasses
import re

import pytest
from in_process import in_process
from tiny_trainings import rounds

from keras_encdec.cli.demo import COMMAND, demonstrate
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import InputLines, open_output
from keras_encdec.trainers import TrainingConfig, TrainingData
from keras_encdec.trainers.settings_file import save_settings


def test_it_trains_compares_scores_and_shows(tmp_path, capsys, monkeypatch):
    dataset = dataclasses.replace(libreoffice_en_fr(), phrase_table=tmp_path / "table.gz")
    with InputLines(libreoffice_en_fr().phrase_table) as lines, open_output(dataset.phrase_table) as table:
        table.write(b"".join(line + b"\n" for _, line in zip(range(6000), lines, strict=False)))
    monkeypatch.setattr("keras_encdec.datasets.libreoffice_en_fr", lambda: dataset)
    monkeypatch.setattr("keras_encdec.cli.demo.HELD_OUT", 100)
    earlier = tmp_path / "out" / "model"
    data = TrainingData(phrase_table=str(dataset.phrase_table))
    earlier.mkdir(parents=True)
    save_settings(earlier, TrainingConfig(updates=1), data)
    (earlier / "last.keras").write_bytes(b"of an earlier demonstration")
    result = demonstrate(tmp_path / "out", minutes=0.05)
    output = capsys.readouterr().out
    perplexities = re.findall(r"^ +([\d.]+)   the (?:model|same decoder)", output, re.M)
    expected = [result.perplexity, result.perplexity_without_source]
    assert [float(one) for one in perplexities] == pytest.approx(expected, abs=0.01) and min(expected) > 1
    listing = output.partition("Table 2):")[2].partition("What to do next")[0]
    sources = re.findall(r"^   (\S.*)$", listing, re.M)
    assert sources == [one.source for one in result.preferences] and len(sources) == 5
    assert len(re.findall(r"^      \S.* +\S", listing, re.M)) == 15
    for program in ("encdec-train --preset=small", "encdec-score --model_dir="):
        assert f"   $ {program}" in output
    table = tmp_path / "out" / "phrase-table.gz"
    assert result.phrase_table == table
    with InputLines(table) as scored, InputLines(dataset.phrase_table) as lines:
        for after, before in zip(scored, lines, strict=True):
            fields = after.split(b" ||| ")
            *scores, added = fields[2].split()
            fields[2] = b" ".join(scores)
            assert b" ||| ".join(fields) == before and 0 < float(added) <= 1
    ini = (tmp_path / "out" / "moses.ini").read_text()
    assert "num-features=5" in ini and str(table) in ini
    assert result.training.last.updates == rounds(earlier)[-1]["updates"], "the earlier model is gone"


def test_a_model_of_the_users_is_not_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "best.keras").write_bytes(b"years of work")
    process = in_process(COMMAND, f"--output_dir={tmp_path}")
    expected = f"{tmp_path}/model: found another model, expected that of an earlier demonstration; give another --outp"
    assert process.returncode == 1 and expected in process.stderr
    assert (tmp_path / "model" / "best.keras").read_bytes() == b"years of work"
