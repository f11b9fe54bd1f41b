"""Tests of writing a moses.ini for a scored phrase table."""

import gzip
import os
import re

import pytest
from scored_tables import INI

from keras_encdec.errors import InputError
from keras_encdec.scoring import score_file


@pytest.fixture
def inis(tmp_path, out):
    (tmp_path / "moses.ini").write_text(INI)
    return {"moses_ini": tmp_path / "moses.ini", "moses_ini_out": out / "moses.ini"}


def test_moses_ini_is_rewritten_for_the_new_table(forward_scorer, reverse_scorer, table, out, inis):
    summary = score_file(forward_scorer, table, out / "table.gz", **inis)
    assert summary.moses_ini_notices == ()
    expected = INI.replace("num-features=2", "num-features=3").replace("/old/table", f"{out}/table.gz")
    assert (out / "moses.ini").read_text() == expected.replace("0.25 0.35", "0.25 0.35 0.3")
    more = {"reverse_model_dir": reverse_scorer, "unknown_count": True}
    inis["moses_ini"].write_bytes(gzip.compress(INI.encode()))  # like any input
    score_file(forward_scorer, table, out / "table.gz", **inis, **more)
    expected = expected.replace("num-features=3", "num-features=5")
    assert (out / "moses.ini").read_text() == expected.replace("0.25 0.35", "0.25 0.35 0.3 0.3 0")
    assert sorted(os.listdir(out)) == ["moses.ini", "table.gz"]


def test_notices_about_a_moses_ini_are_in_the_summary(forward_scorer, table, out, inis):
    inis["moses_ini"].write_text(INI.replace("PhraseDictionaryMemory", "PhraseDictionaryCompact"))
    summary = score_file(forward_scorer, table, out / "table", **inis)
    assert len(summary.moses_ini_notices) == 1 and "was a PhraseDictionaryCompact" in summary.notices[0]
    inis["moses_ini"].write_text(INI)
    summary = score_file(forward_scorer, table, "memory://tables/scored.gz", **inis)
    expected = "Moses cannot read memory://tables/scored.gz: copy the table, and set its path to the copy."
    assert summary.moses_ini_notices == (f"{out}/moses.ini: {expected}",)


def test_a_moses_ini_that_does_not_fit_leaves_no_table(forward_scorer, table, out, inis):
    def refused(sentence, **changed):
        with pytest.raises(InputError, match=re.escape(sentence)):
            score_file(forward_scorer, table, out / "table", **(inis | changed))

    ini = inis["moses_ini"]
    ini.write_text(INI.replace("num-features=2", "num-features=4"))
    refused(f"{ini}, line 3: found num-features=4, expected 2")
    ini.unlink()
    refused(f"{ini}: found no such file or directory when trying to read a file; check the path.")
    ini.write_text(INI)
    missing = out / "missing" / "ini"
    refused(f"{missing}: found no such file or directory", moses_ini_out=missing)
    refused("found 0 features named 'X'", moses_feature="X")
    assert os.listdir(out) == []
