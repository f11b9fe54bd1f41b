"""Tests of rewriting moses.ini for a phrase table to which scores were added, and with other weights."""

import difflib
import pathlib
import re

import pytest

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.errors import InputError
from keras_encdec.formats import read_nbest_weights, read_weights
from keras_encdec.formats.moses_ini import replace_moses_weights, rewrite_moses_ini

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
NEEDS_DATA = pytest.mark.skipif(not DATA.is_dir(), reason=f"there are no more real moses.ini at {DATA}")
FACTORS = "input-factor=0 output-factor=0"
INI = """# PhraseDictionaryMemory name=NotThis num-features=9
[input-factors]
0

[feature] # first
UnknownWordPenalty
PhraseDictionaryMemory name=TM0 num-features=4 path=old.gz input-factor=0 output-factor=0 table-limit=20
LexicalReordering name=LR0 num-features=6 path=reordering.gz
[feature]
Distortion
[weight-file]
${HOME}/sparse PhraseDictionaryMemory

[weight]
TM= 1 2 3
TM00= 1
TM0= 0.1 -0.2 0.3 0.2   # tuned
LR0= 1 1 1 1 1 1"""


def changes(old, new):
    old, new = old.split("\n"), new.split("\n")
    assert len(old) == len(new)
    return [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]


@pytest.mark.parametrize("end", ["", "\r"])
def test_only_path_num_features_and_weights_change(end):
    text = INI.replace("\n", end + "\n") + end
    new, notices = rewrite_moses_ini(text, "/new/t.gz", 2, path="moses.ini", table_scores=4)
    assert notices == []
    assert changes(text, new) == [
        (
            f"PhraseDictionaryMemory name=TM0 num-features=4 path=old.gz {FACTORS} table-limit=20{end}",
            f"PhraseDictionaryMemory name=TM0 num-features=6 path=/new/t.gz {FACTORS} table-limit=20{end}",
        ),
        ("TM0= 0.1 -0.2 0.3 0.2   # tuned" + end, "TM0= 0.1 -0.2 0.3 0.2 0.2 0.2   # tuned" + end),
    ]


def test_new_scores_are_among_the_components_to_tune():
    """Moses expects one number in the list for each score of the table."""
    text = INI.replace("table-limit=20", "tuneable-components=1,0,1,1")
    assert (
        " num-features=6 path=new input-factor=0 output-factor=0 tuneable-components=1,0,1,1,1,1\n"
        in (rewrite_moses_ini(text, "new", 2)[0])
    )


def test_a_byte_order_mark_may_begin_the_file():
    text = "\ufeff[feature]\nPhraseDictionaryMemory name=TM num-features=1 path=a\n[weight]\nTM= 0.2\n"
    assert rewrite_moses_ini(text, "b", 1)[0] == text.replace("1 path=a", "2 path=b").replace("0.2", "0.2 0.2")


def test_new_weights_can_be_given():
    new, _ = rewrite_moses_ini(INI, "t", 2, new_weights=[0.123456789, -3])
    assert "\nTM0= 0.1 -0.2 0.3 0.2 0.123457 -3   # tuned\n" in new
    with pytest.raises(ValueError, match="extra_scores=1 and new_weights=\\[1, 2\\]"):
        rewrite_moses_ini(INI, "t", 1, new_weights=[1, 2])
    with pytest.raises(ValueError, match="extra_scores=0"):
        rewrite_moses_ini(INI, "t", 0)


UNNAMED = """[feature]
PhraseDictionaryMemory name=PhraseDictionaryMemory7 num-features=1 path=a
PhraseDictionaryMemory num-features=2 path=b
PhraseDictionaryMemory other-path=z num-features=3 path=c
[weight]
PhraseDictionaryMemory7= 1
PhraseDictionaryMemory0= 1 1
PhraseDictionaryMemory1= 1 1 1
"""


def test_features_without_a_name_are_numbered_as_moses_does():
    new, _ = rewrite_moses_ini(UNNAMED, "new", 1, feature="PhraseDictionaryMemory1")
    assert changes(UNNAMED, new) == [
        (
            "PhraseDictionaryMemory other-path=z num-features=3 path=c",
            "PhraseDictionaryMemory other-path=z num-features=4 path=new",
        ),
        ("PhraseDictionaryMemory1= 1 1 1", "PhraseDictionaryMemory1= 1 1 1 1"),
    ]


@pytest.mark.parametrize(
    "binary", ["PhraseDictionaryBinary", "PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "ProbingPT"]
)
def test_a_binarized_table_becomes_a_text_table(binary):
    text = INI.replace("PhraseDictionaryMemory name=TM0", f"{binary} load=lazy name=TM0")
    text = text.replace("20\n", "20 \n")
    new, notices = rewrite_moses_ini(text, "new.gz", 1)
    assert [pair[1] for pair in changes(text, new)] == [
        f"PhraseDictionaryMemory name=TM0 num-features=5 path=new.gz {FACTORS} table-limit=20 ",
        "TM0= 0.1 -0.2 0.3 0.2 0.2   # tuned",
    ]
    assert notices == [
        f"TM0 was a {binary}. The new table is text, which PhraseDictionaryMemory reads. "
        f"Binarize the new table to use {binary} again. Left out: load."
    ]


def test_unnamed_binarized_tables_keep_their_numbered_names():
    text = UNNAMED.replace("PhraseDictionaryMemory", "ProbingPT")
    new, _ = rewrite_moses_ini(text, "new", 1, feature="ProbingPT0")
    assert [pair[1] for pair in changes(text, new)] == [
        "PhraseDictionaryMemory num-features=3 path=new name=ProbingPT0",
        "ProbingPT other-path=z num-features=3 path=c name=ProbingPT1",
        "ProbingPT0= 1 1 1",
    ]
    again, _ = rewrite_moses_ini(new, "newer", 1, feature="ProbingPT1")
    assert "PhraseDictionaryMemory other-path=z num-features=4 path=newer name=ProbingPT1" in again


MEMORY_OR = (
    "expected a feature PhraseDictionaryMemory, PhraseDictionaryScope3, PhraseDictionaryBinary, "
    "PhraseDictionaryCompact, PhraseDictionaryOnDisk or ProbingPT"
)
ONE_LINE = 'expected one in [weight]; write it as "TM0=", a space and 4 weights'
ERRORS = {
    "two tables": (
        (r"UnknownWordPenalty\n", "ProbingPT name=Other num-features=1 path=x\n"),
        {},
        ": found the phrase tables Other, TM0, expected one; name one of them with --moses_feature.",
    ),
    "no such feature": (
        None,
        {"feature": "TM9"},
        ": found 0 features named 'TM9', expected one; name one of the phrase tables: TM0.",
    ),
    "not a table": (
        None,
        {"feature": "LR0"},
        ", line 8: found 'LR0', a feature of the class LexicalReordering, expected a phrase table; "
        "name one of the phrase tables: TM0.",
    ),
    "two of one name": (
        (r"Distortion\n", "PhraseDictionaryMemory name=TM0 num-features=4 path=x\n"),
        {"feature": "TM0"},
        ": found 2 features named 'TM0', expected one; name one of the phrase tables: TM0, TM0.",
    ),
    "no table": (
        (r"PhraseDictionaryMemory name=TM0", "PhraseDictionaryTransliteration name=TM0"),
        {},
        f": found no phrase table in a section [feature], {MEMORY_OR}; give the moses.ini that uses the table.",
    ),
    "old format": (
        (r"(?s)\[feature\].*", "[ttable-file]\n0 0 0 5 table.gz"),
        {},
        f": found the old section [ttable-file], {MEMORY_OR}; convert the file to the format of Moses 2 and later.",
    ),
    "no number": (
        (r"num-features=4 ", ""),
        {},
        ", line 7: found no num-features= for TM0; add it to the line.",
    ),
    "no path": ((r" path=old.gz", ""), {}, ", line 7: found no path= for TM0; add it to the line."),
    "not a number": (
        (r"num-features=4", "num-features=four"),
        {},
        ", line 7: found num-features=four, expected a whole number, 1 or more; correct it.",
    ),
    "another table": (
        None,
        {"table_scores": 5},
        ", line 7: found num-features=4, expected 5, the number of scores on each line of the table; "
        "give the moses.ini that belongs to the table, or name the table's feature with --moses_feature.",
    ),
    "no weights": (
        (r"TM0= .*", ""),
        {},
        f": found no lines of weights for TM0, {ONE_LINE}.",
    ),
    "weights elsewhere": (
        (r"\[weight\]", "[weights]"),
        {},
        f": found no lines of weights for TM0, {ONE_LINE}.",
    ),
    "weights twice": (
        (r"TM=", "TM0="),
        {},
        f", line 17: found 2 lines of weights for TM0, {ONE_LINE}.",
    ),
    "no space": (
        (r"TM0= 0.1", "TM0=0.1"),
        {},
        ', line 17: found "TM0=0.1 -0.2 0.3 0.2", expected "TM0=", a space and 4 numbers from -1e+30 to 1e+30; correct '
        "it.",
    ),
    "no numbers": (
        (r"-0.2", "UNTUNEABLE"),
        {},
        ', line 17: found "TM0= 0.1 UNTUNEABLE 0.3 0.2", expected "TM0=", a space and 4 numbers from -1e+30 to 1e+30; '
        "correct it.",
    ),
    "too few weights": (
        (r"TM0= 0.1", "TM0="),
        {},
        ", line 17: found 3 weights for TM0, expected 4, its num-features; correct one of them.",
    ),
    "overwritten weights": (
        (r"\[weight\]", "[weight-overwrite]\nTM0= 1 1 1 1\n[weight]"),
        {},
        ", line 15: found weights of TM0 in [weight-overwrite], expected them in [weight]; move them there.",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_file_line_and_remedy(case):
    edit, arguments, sentence = ERRORS[case]
    text = INI
    if edit:
        text, count = re.subn(*edit, INI, count=1)
        assert count == 1
    with pytest.raises(InputError) as caught:
        rewrite_moses_ini(text, "new.gz", 1, path="moses.ini", **arguments)
    assert str(caught.value) == "moses.ini" + sentence


@pytest.mark.parametrize("table_path", ["my table.gz", "tab\tle", "table#1.gz", "new\nline", ""])
def test_a_path_that_moses_cannot_read_is_refused(table_path):
    with pytest.raises(InputError) as caught:
        rewrite_moses_ini(INI, table_path, 1, path="moses.ini")
    shown = table_path.replace("\t", r"\t").replace("\n", r"\n")
    assert str(caught.value) == (
        f'moses.ini: found the path "{shown}" of the table, expected a path without spaces and #; '
        "rename the table or its directory: moses.ini cannot hold such a path."
    )


@pytest.mark.parametrize(
    ("path", "scores", "notice"),
    [
        (libreoffice_en_fr().moses_ini, 4, False),
        pytest.param(DATA / "multi30k-moses/moses.ini", 4, False, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/de-en.basic-surface-only.moses.ini", 5, False, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/en-x.2fac.moses.ini", 4, False, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/fr-en.TargetNGram.moses.ini", 12, True, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/fr-en.multi-lm.moses.ini", 4, True, marks=NEEDS_DATA),
    ],
)
def test_real_files_change_in_two_lines(path, scores, notice):
    text = path.read_bytes().decode()
    new, notices = rewrite_moses_ini(text, "${X}/scored.gz", 2, table_scores=scores)
    assert bool(notices) == notice
    delta = [line for line in difflib.ndiff(text.split("\n"), new.split("\n")) if line[0] in "+-"]
    assert len(delta) == 4, delta
    (feature,) = [line for line in delta if line.startswith("+ PhraseDictionaryMemory ")]
    assert f" num-features={scores + 2} " in feature and " path=${X}/scored.gz " in feature
    (weights,) = [line for line in delta if line.startswith("+ ") and line != feature]
    assert len(weights.split()) == 2 + scores + 2
    assert rewrite_moses_ini(new, "again.gz", 1, table_scores=scores + 2)[1] == []


WEIGHTS = {"LM0": [0.5], "TM0": [-1e-7, 0.123456789]}


def test_only_weights_in_their_section_are_replaced():
    text = "[feature]\nKENLM name=LM0\nLM0= 9\n[weight]\n\t LM0=  1 2  # LM0= 1 2\r\n\nTM0=1\nOther0= 3\n[x]\nTM0= 4\n"
    expected = text.replace("LM0=  1 2  #", "LM0= 0.5  #").replace("TM0=1\n", "TM0= -1e-07 0.123457\n")
    assert replace_moses_weights(text, WEIGHTS) == expected


def test_values_that_moses_does_not_tune_are_left_out_of_lists_and_keep_their_weights(tmp_path):
    text = (
        "[feature]\nTable name=TM0 num-features=3 tuneable-components=1,n,true\nKENLM name=LM0\n"
        "Table name=TM1 tuneable-components=0\nKENLM name=LM1 tuneable=False\n"
        "[weight]\nLM0= 0.5\nTM0= 1 2 3 # all\nTM1= 4\nLM1= 5\n"
    )
    (tmp_path / "ini").write_text(text)
    assert read_weights(tmp_path / "ini") == {"LM0": [0.5], "TM0": [1, 2, 3], "TM1": [4], "LM1": [5]}
    weights, unlisted = read_nbest_weights(tmp_path / "ini")
    assert weights == {"LM0": [0.5], "TM0": [1, 3], "TM1": [4], "LM1": [5]}
    assert unlisted == {"TM1", "LM1", "UnknownWordPenalty0"}
    expected = text.replace("LM0= 0.5", "LM0= 6").replace("TM0= 1 2 3", "TM0= 7 2 8")
    assert replace_moses_weights(text, {"LM0": [6.0], "TM0": [7.0, 8.0]}) == expected
    assert "TM0= 7 8 9 # all" in replace_moses_weights(text, {"TM0": [7.0, 8.0, 9.0]})


def test_features_without_weights_are_named():
    with pytest.raises(InputError, match=r"x.ini: found no weights of LM0, R0 in \[weight\], expected weights of all"):
        replace_moses_weights("[feature]\nLM0= 1\n[weight]\nTM0= 1\n", {**WEIGHTS, "R0": [1]}, "x.ini")


def test_sparse_features_are_added_to_the_weights():
    text = "[weight]\nWT_=~b= 1\r\nLM0= 1\r\n\n[weight-file]\nsparse\n"
    expected = "[weight]\nWT_=~b= 2\r\nLM0= 0.5\r\nWT_a= 3\r\nWT_b= 0\r\n\n[weight-file]\nsparse\n"
    weights = {"WT_b": [0], "WT_a": [3], "LM0": [0.5], "WT_=~b": [2]}
    assert replace_moses_weights(text, weights) == expected
    with pytest.raises(InputError, match="x.ini: found the feature WT_#, expected no #, which begins a comment; rem"):
        replace_moses_weights(text, {"WT_#": [1]}, "x.ini")
