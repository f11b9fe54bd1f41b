"""Tests of re-ranking n-best lists."""

import collections
import gzip
import os
import pathlib
import re

import pytest
from decoded_list import decoded_list

from keras_encdec.errors import InputError
from keras_encdec.formats import parse_nbest_line
from keras_encdec.smt.nbest.rerank import rerank

DATA = pathlib.Path(__file__).parents[4] / "shared" / "data" / "multi30k-moses"
WEIGHTS = "LM0= 0.5\nTM0= 1 -0.25 # of two values\n\n"
INI = f"""[feature]
UnknownWordPenalty
KENLM name=LM0 factor=0
Silent name=Silent0 tuneable=false

[weight]
UnknownWordPenalty0= 1
Silent0= 2
{WEIGHTS}[threads]
2
"""
# Lines and their totals; those of ids 1 and 2 are missing.
LINES = {
    "0 ||| un|DET chat  ||| LM0= -4 TM0= -1 -2 ||| 9 ||| 0=0 ||| 0-0 ": -2.5,
    "0 ||| le  chat &amp;  ||| LM0= -2 TM0= -1 -4 ||| 8 ||| 0=0 ||| 0-0 ": -1,
    "0 |||  |||   TM0= 0 4  LM0= 0 |||  7  ": -1,
    "3|||la maison|||LM0= -2 TM0= -1e6 0 Sparse_x= 2|||6|||": -1000001,
    "3 ||| maison  ||| LM0= -2 TM0= 1e-3 0 ||| -103.662": -0.999,
    "4 ||| x  ||| LM0= 1 TM0= 0 0 ||| 9": 0.5,
}
RANKED = """0 ||| le  chat &amp;  ||| LM0= -2 TM0= -1 -4 ||| -1 ||| 0=0 ||| 0-0 
0 |||  |||   TM0= 0 4  LM0= 0 |||  -1  
0 ||| un|DET chat  ||| LM0= -4 TM0= -1 -2 ||| -2.5 ||| 0=0 ||| 0-0 
3 ||| maison  ||| LM0= -2 TM0= 1e-3 0 ||| -0.999
3|||la maison|||LM0= -2 TM0= -1e6 0 Sparse_x= 2|||-1e+06|||
4 ||| x  ||| LM0= 1 TM0= 0 0 ||| 0.5"""  # noqa: W291
TEXT = "le  chat &amp;\n\n\nmaison\nx"


@pytest.fixture
def files(tmp_path):
    """A folder with a list, weights, and an empty folder `out`."""
    (tmp_path / "out").mkdir()
    (tmp_path / "nbest").write_text("\n".join(LINES) + "\n")
    (tmp_path / "weights").write_text("\ufeff" + WEIGHTS + "Sparse_x= 0\n")  # with a byte order mark
    (tmp_path / "moses.ini").write_text(INI.replace("[threads]", "Sparse_x= 0\n[threads]"))
    return tmp_path


def test_a_byte_order_mark_stays_at_the_beginning_if_the_first_line_moves(files):
    (files / "nbest").write_text("\ufeff" + "\n".join(LINES))
    rerank(files / "nbest", files / "out" / "best", files / "weights")
    assert (files / "out" / "best").read_text() == "\ufeff" + RANKED
    rerank(files / "nbest", files / "out" / "best", files / "weights", format="text")
    assert (files / "out" / "best").read_text() == TEXT


def ranked(folder, **changed):
    """Re-ranks the list of the folder, and returns what was written."""
    arguments = {"input": folder / "nbest", "output": folder / "out" / "best", "weights": folder / "weights"} | changed
    rerank(**arguments)
    return arguments["output"].read_bytes()


@pytest.mark.parametrize("weights", ["weights", "moses.ini"])
@pytest.mark.parametrize("form", ["nbest", "text"])
@pytest.mark.parametrize("last", ["\n", ""])
def test_hypotheses_are_sorted_by_their_weighted_sums(files, weights, form, last):
    (files / "nbest").write_text("\n".join(LINES) + last)
    summary = rerank(files / "nbest", files / "out" / "best", files / weights, format=form)
    written = (files / "out" / "best").read_text()
    assert written == (RANKED if form == "nbest" else TEXT) + last
    assert summary.lines == written.count("\n") + (not last) and summary.output == files / "out" / "best"
    assert os.listdir(files / "out") == ["best"]


def test_gzipped_lists_are_read_and_written(files):
    (files / "nbest").write_bytes(gzip.compress("\r\n".join([*LINES, ""]).encode()))
    written = gzip.decompress(ranked(files, output=files / "out" / "best.gz"))
    assert written == (RANKED + "\n").replace("\n", "\r\n").encode()


def test_bytes_that_are_not_utf8_are_refused_or_kept_in_a_declared_encoding(files):
    data = b"0 ||| caf\xe9 \xff\t ||| LM0= -4 ||| -1\n"
    (files / "nbest").write_bytes(data)
    weights = {"weights": None, "other_weights": {"LM0": [0.5]}}
    with pytest.raises(InputError, match=r"nbest, line 1: found bytes that are not UTF-8 \(0xe9 .*--encoding=latin-1"):
        ranked(files, **weights)
    for encoding in ("latin-1", "utf-8"):
        assert ranked(files, **weights, encoding=encoding) == data.replace(b"-1", b"-2")
        assert ranked(files, **weights, format="text", encoding=encoding) == b"caf\xe9 \xff\n"


def test_other_weights_override_and_add(files):
    (files / "nbest").write_text("2 ||| a ||| LM0= -4 TM0= 1 1 R= 3 ||| 9\n2 ||| b ||| LM0= -4 TM0= 0 0 R= 9 ||| 9\n")
    written = ranked(files, other_weights={"TM0": [10, 20], "R": [0.25]})
    assert [parse_nbest_line(line).total for line in written.splitlines()] == [28.75, 0.25]
    assert ranked(files, format="text", other_weights={"R": [10]}) == b"\n\nb\n"


def test_values_that_moses_does_not_tune_are_missing_from_its_lists(files):
    """TM0 has three scores, of which the list has the first and the last."""
    ini = INI.replace("TM0= 1 -0.25 #", "TM0= 1 9 -0.25 #")
    table = "PhraseDictionaryMemory name=TM0 num-features=3 tuneable-components=1,0,1\n"
    (files / "moses.ini").write_text(ini.replace("[weight]", f"{table}[weight]"))
    assert ranked(files, weights=files / "moses.ini").decode() == RANKED + "\n"


def test_weights_and_features_that_do_not_fit_are_reported(files):
    start = f"{files}/nbest, line "
    for name, values, sentence in (
        ("TM0", [1], "1: found 2 values of TM0, expected 1, one for each of its weights; give the --weights that bel"),
        ("Other0", [1], "1: found no values of Other0, expected one for each weight"),
        ("UnknownWordPenalty0", [1], "1: found no values of UnknownWordPenalty0, expected one for each"),
    ):
        with pytest.raises(InputError, match=re.escape(start + sentence)):
            ranked(files, weights=files / "moses.ini", other_weights={name: values})
    (files / "huge").write_text("0 ||| a ||| LM0= 1e300 ||| 9\n")
    with pytest.raises(InputError, match="huge, line 1: found features whose weighted sum is too large, expected a"):
        rerank(files / "huge", files / "out" / "x", other_weights={"LM0": [1e30]})
    (files / "weights").write_text("LM0= 0.5\n")
    with pytest.raises(InputError, match="line 1: found the feature TM0 without weights, expected 2"):
        ranked(files)
    (files / "weights").write_text(WEIGHTS)
    # A weight of 0 needs no feature, and a sparse feature is not on every line. Without a weight it counts 0.
    unweighted = ranked(files)
    assert ranked(files, other_weights={"Other0": [0], "Sparse_x": [0], "Sparse_y": [1]}) == unweighted
    assert ranked(files, other_weights={"Sparse_x": [1e9]}) != unweighted


def test_unreadable_weights_are_reported(files):
    for text, sentence in {
        "LM0= 1\nTM0 1 2\n": ', line 2: found "TM0 1 2", expected "Name= w [w ...]" with numbers from -1e+30 to',
        "LM0= x": ', line 1: found "LM0= x", expected',
        "LM0= 1e400": ', line 1: found "LM0= 1e400", expected',
        "LM0= 1e31": ', line 1: found "LM0= 1e31", expected',
        "LM0= nan": ', line 1: found "LM0= nan", expected',
        "LM0=": ', line 1: found "LM0=", expected',
        "= 1": ', line 1: found "= 1", expected',
        "LM0= 1\n\nLM0= 2": ", line 3: found weights of LM0 twice, expected them once",
        "# nothing": ": found no weights, expected a section [weight] or lines",
        "LM0= 1\n[feature]\nKENLM name=LM0\n": ": found no weights, expected a section [weight] or lines",
        INI + "[weight-overwrite]\nLM0= 3\n": "found weights in [weight-overwrite], expected them in [weight]",
        "[weight-l]\n0.5\n[weight-w]\n-1\n": ", line 1: found the old section [weight-l], expected a section [weight]",
        "": ": found an empty file",
    }.items():
        (files / "weights").write_text(text)
        with pytest.raises(InputError, match=re.escape(f"{files}/weights")) as caught:
            ranked(files)
        assert sentence in str(caught.value)
    with pytest.raises(InputError, match=f"{files}/none: found no such file"):
        ranked(files, weights=files / "none")
    assert os.listdir(files / "out") == []


def test_a_list_that_cannot_be_ranked_is_reported(files):
    first, *_, last = LINES
    for lines, sentence in {
        (first, last, first): ", line 3: found the id 0 after 4, expected the hypotheses of each sentence together",
        (first, "", last): ", line 2: found a blank line, expected 4 to 6 fields",
        (first, "1 ||| a ||| LM0= x ||| 1"): ', line 2: found the value of LM0, "x", expected a finite number; repair',
    }.items():
        (files / "nbest").write_text("\n".join(lines))
        with pytest.raises(InputError, match=re.escape(f"{files}/nbest{sentence}")):
            ranked(files)
    with pytest.raises(InputError, match=f"{files}/none: found no such file"):
        ranked(files, input=files / "none")
    assert os.listdir(files / "out") == []


@pytest.mark.parametrize("before", [[], ["0 ||| x  ||| LM0= 1 TM0= 0 0 ||| 9"]])
def test_an_absurd_id_is_an_error_and_not_a_file_of_empty_lines(files, before):
    line = "999999999 ||| x  ||| LM0= 1 TM0= 0 0 ||| 0.5"
    (files / "nbest").write_text("\n".join([*before, line]))
    which = "999999999 after 0" if before else "999999999, the first one"
    sentence = f"line {len(before) + 1}: found the id {which}, expected at most 1,000,000 sentences without hypotheses"
    with pytest.raises(InputError, match=sentence):
        ranked(files, format="text")
    assert os.listdir(files / "out") == []
    assert ranked(files).endswith(line.encode()), "sorting needs no empty lines"
    (files / "nbest").write_text("1000000 ||| x  ||| LM0= 1 TM0= 0 0 ||| 9")
    assert ranked(files, format="text") == b"\n" * 1_000_000 + b"x"
    (files / "nbest").write_text("1000000 |||  ||| LM0= 1 TM0= 0 0 ||| 9")
    assert ranked(files, format="text") == b"\n" * 1_000_001, "the last sentence has an empty line, too"


def test_contradictory_arguments_are_refused(files):
    with pytest.raises(ValueError, match="found neither weights nor other_weights, expected the weights to rank by"):
        ranked(files, weights=None)
    with pytest.raises(ValueError, match="found format='xml', expected one of nbest, text"):
        ranked(files, format="xml")
    with pytest.raises(ValueError, match="found one file for two purposes"):
        ranked(files, output=files / "weights")
    assert os.listdir(files / "out") == []


@pytest.mark.parametrize("decoder", ["ours", "Moses"])
def test_the_decoders_own_weights_give_back_its_totals_and_order(files, decoder):
    if decoder == "ours":
        path, weights = decoded_list(files)
    elif DATA.is_dir():
        path, weights = DATA / "test_2016_flickr.nbest100.gz", DATA / "moses.ini"
    else:
        pytest.skip(f"there is no list of Moses at {DATA}")
    rerank(path, files / "out" / "best", weights)
    before = gzip.decompress(path.read_bytes()).split(b"\n")
    after = (files / "out" / "best").read_bytes().split(b"\n")
    assert before.pop() == after.pop() == b"" and len(before) == len(after) > 500

    def body(line):
        fields = line.split(b"|||")
        return b"|||".join(fields[:3] + fields[4:])

    old, new = ([(parse_nbest_line(line), body(line)) for line in lines] for lines in (before, after))
    assert [line.id for line, _ in old] == [line.id for line, _ in new]
    totals = collections.defaultdict(list)
    for line, text in old:
        totals[text].append(line.total)
    moved, penalties = 0, collections.defaultdict(set)
    for (line, text), (_, there) in zip(new, old, strict=True):
        total = totals[text].pop(0)
        # The list has six digits of each number, and not the penalty of 100 for each unknown word.
        unknown = round((line.total - total) / 100)
        assert abs(line.total - total - 100 * unknown) < 1e-3
        penalties[line.id].add(unknown)
        moved += text != there
    assert all(len(counts) == 1 for counts in penalties.values())
    assert moved < len(old) / 300, "the order is the decoder's, except where rounding makes totals equal"
    for (line, text), (other, there) in zip(new, old, strict=True):
        if text != there:
            assert abs(line.total + 100 * -max(penalties[line.id]) - other.total) < 1e-3
