"""Tests of the re-ranking command, each run in a process of its own."""

import collections
import gzip
import os
import pathlib

import pytest
from commands import Command, fail, succeed

from keras_encdec.formats import parse_nbest_line

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data" / "multi30k-moses"
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


@pytest.fixture(scope="module")
def rerank():
    command = Command("keras_encdec.cli.rerank", "encdec-rerank")
    yield command
    command.close()


@pytest.fixture
def files(tmp_path):
    """A folder with a list, weights, and an empty folder `out`."""
    (tmp_path / "out").mkdir()
    (tmp_path / "nbest").write_text("\n".join(LINES) + "\n")
    (tmp_path / "weights").write_text(WEIGHTS + "Sparse_x= 0\n")
    (tmp_path / "moses.ini").write_text(INI.replace("[threads]", "Sparse_x= 0\n[threads]"))
    return tmp_path


def flags(folder, **changed):
    values = {"input": folder / "nbest", "output": folder / "out" / "best", "weights": folder / "weights"}
    return [f"--{name}={value}" for name, value in (values | changed).items()]


@pytest.mark.parametrize("weights", ["weights", "moses.ini"])
@pytest.mark.parametrize("form", ["nbest", "text"])
@pytest.mark.parametrize("last", ["\n", ""])
def test_hypotheses_are_sorted_by_their_weighted_sums(rerank, files, weights, form, last):
    (files / "nbest").write_text("\n".join(LINES) + last)
    process = succeed(rerank(*flags(files, weights=files / weights, format=form)))
    written = (files / "out" / "best").read_text()
    assert written == (RANKED if form == "nbest" else TEXT) + last
    count = written.count("\n") + (not last)
    assert process.stderr.startswith(f"{count} lines in ") and os.listdir(files / "out") == ["best"]


def test_the_installed_command_reads_and_writes_gzipped_lists(rerank, files):
    (files / "nbest").write_bytes(gzip.compress("\r\n".join([*LINES, ""]).encode()))
    process = rerank.installed(*flags(files, output=files / "out" / "best.gz"))
    output, errors = process.communicate()
    assert process.returncode == 0 and output == "", errors
    written = gzip.decompress((files / "out" / "best.gz").read_bytes())
    assert written == (RANKED + "\n").replace("\n", "\r\n").encode()


def test_bytes_that_are_not_utf8_are_kept(rerank, files):
    data = b"0 ||| caf\xe9 \xff\t ||| LM0= -4 ||| -1\n"
    (files / "nbest").write_bytes(data)
    given = [f"--input={files}/nbest", f"--output={files}/out/best", "--weight=LM0=0.5"]
    succeed(rerank(*given))
    assert (files / "out" / "best").read_bytes() == data.replace(b"-1", b"-2")
    succeed(rerank(*given, "--format=text"))
    assert (files / "out" / "best").read_bytes() == b"caf\xe9 \xff\n"


def test_single_weights_override_and_add(rerank, files):
    (files / "nbest").write_text("2 ||| a ||| LM0= -4 TM0= 1 1 R= 3 ||| 9\n2 ||| b ||| LM0= -4 TM0= 0 0 R= 9 ||| 9\n")
    succeed(rerank(*flags(files), "--weight=R=0.5", "--weight=TM0= 10 20", "--weight=R= 0.25"))
    totals = [parse_nbest_line(line).total for line in (files / "out" / "best").read_bytes().splitlines()]
    assert totals == [28.75, 0.25]
    succeed(rerank(*flags(files, format="text"), "--weight=R=10"))
    assert (files / "out" / "best").read_text() == "\n\nb\n"


def test_weights_and_features_that_do_not_fit_are_named(rerank, files):
    place = f"encdec-rerank: {files}/nbest, line "
    for extra, sentence in {
        "--weight=TM0=1": "1: found 2 values of TM0, expected 1, as it has weights; give the weights that belong",
        "--weight=Other0=1": "1: found no values of Other0, expected some for its weights",
        "--weight=UnknownWordPenalty0=1": "1: found no values of UnknownWordPenalty0, expected some",
        "--weight=TM0=1e308 1e308": "1: found features whose weighted sum is too large, expected a finite number",
    }.items():
        fail(rerank(*flags(files, weights=files / "moses.ini"), extra), 1, place + sentence)
    (files / "weights").write_text(WEIGHTS)
    process = rerank(*flags(files))
    fail(process, 1, place + "4: found the feature Sparse_x without weights, expected 1", 'give --weight="Sparse_x= 0"')
    # A weight of 0 needs no feature, and a sparse feature is not on every line.
    succeed(rerank(*flags(files), "--weight=Other0=0", "--weight=Sparse_x=1", "--weight=Sparse_y=1"))


def test_weights_that_cannot_be_read_are_named(rerank, files):
    given = flags(files)
    for text, sentence in {
        "LM0= 1\nTM0 1 2\n": ', line 2: found "TM0 1 2", expected "Name= w [w ...]" with numbers for w; correct',
        "LM0= x": ', line 1: found "LM0= x", expected',
        "LM0= nan": ', line 1: found "LM0= nan", expected',
        "LM0=": ', line 1: found "LM0=", expected',
        "= 1": ', line 1: found "= 1", expected',
        "LM0= 1\n\nLM0= 2": ", line 3: found weights of LM0 twice, expected them once",
        "# nothing": ": found no weights, expected a section [weight] or lines",
        "LM0= 1\n[feature]\nKENLM name=LM0\n": ": found no weights, expected a section [weight] or lines",
        INI + "[weight-overwrite]\nLM0= 3\n": "found weights in [weight-overwrite], expected them in [weight]",
        "": ": found an empty file",
    }.items():
        (files / "weights").write_text(text)
        fail(rerank(*given), 1, f"{files}/weights", sentence)
    fail(rerank(*flags(files, weights=files / "none")), 1, f"{files}/none: found no such file")
    assert os.listdir(files / "out") == []


def test_a_list_that_cannot_be_ranked_is_named(rerank, files):
    first, *_, last = LINES
    for lines, sentence in {
        (first, last, first): ", line 3: found the id 0 after 4, expected the hypotheses of each sentence together",
        (first, "", last): ", line 2: found a blank line, expected 4 to 6 fields",
        (first, "1 ||| a ||| LM0= x ||| 1"): ', line 2: found the value of LM0, "x", expected a number; repair',
    }.items():
        (files / "nbest").write_text("\n".join(lines))
        fail(rerank(*flags(files)), 1, f"{files}/nbest{sentence}")
    fail(rerank(*flags(files, input=files / "none")), 1, f"{files}/none: found no such file")
    assert os.listdir(files / "out") == []


def test_wrong_use_is_told_before_anything_is_done(rerank, files):
    fail(rerank(), 2, "--input must have a value", "--output must have", "encdec-rerank --help lists the flags.")
    fail(rerank(*flags(files)[:2]), 2, "found neither --weights nor --weight, expected the weights to rank by.")
    for extra, sentence in {
        "--weight=R": '--weight: found "R", expected "Name= w [w ...]" with numbers for w.',
        "--weight=R=much": '--weight: found "R=much", expected',
        "--format=xml": "value should be one of <nbest|text>",
        f"--output={files}/weights": "found one file for two purposes",
    }.items():
        fail(rerank(*flags(files), extra), 2, sentence)
    assert os.listdir(files / "out") == []


@pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no real n-best list at {DATA}")
def test_the_decoders_own_weights_give_back_its_totals_and_order(rerank, files):
    path = DATA / "test_2016_flickr.nbest100.gz"
    succeed(rerank(*flags(files, input=path, weights=DATA / "moses.ini")))
    before = gzip.decompress(path.read_bytes()).split(b"\n")
    after = (files / "out" / "best").read_bytes().split(b"\n")
    assert before.pop() == after.pop() == b"" and len(before) == len(after) == 69135

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
    assert moved < 200, "but for what rounding makes of equal totals, the order is the decoder's"
    for (line, text), (other, there) in zip(new, old, strict=True):
        if text != there:
            assert abs(line.total + 100 * -max(penalties[line.id]) - other.total) < 1e-3
