"""The demonstration, cut short, through its entry point in a new process."""

import pathlib
import re
import subprocess
import sys

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import InputLines


def test_demo_trains_compares_scores_and_shows(tmp_path):
    command = [str(pathlib.Path(sys.executable).parent / "encdec-demo"), "--minutes=0.05", "--output_dir=out"]
    for _ in range(2):  # a second demonstration replaces the first
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    perplexities = re.findall(r"^ +([\d.]+)   the (?:model|same decoder)", done.stdout, re.M)
    assert len(perplexities) == 2 and all(float(perplexity) > 1 for perplexity in perplexities)
    listing = done.stdout.partition("Table 2):")[2].partition("What to do next")[0]
    sources = re.findall(r"^   (\S.*)$", listing, re.M)
    assert len(sources) == 5 and len(re.findall(r"^      \S.* +\S", listing, re.M)) == 15
    table = tmp_path / "out" / "phrase-table.gz"
    with InputLines(table) as scored, InputLines(libreoffice_en_fr().phrase_table) as lines:
        for after, before in zip(scored, lines, strict=True):
            fields = after.split(b" ||| ")
            *scores, added = fields[2].split()
            fields[2] = b" ".join(scores)
            assert b" ||| ".join(fields) == before and 0 < float(added) <= 1
    ini = (tmp_path / "out" / "moses.ini").read_text()
    assert "num-features=5" in ini and str(table) in ini
