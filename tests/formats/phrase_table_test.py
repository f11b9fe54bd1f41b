"""Tests of reading phrase tables and of writing them with more scores."""

import gzip
import math
import pathlib
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.errors import InputError
from keras_encdec.formats.phrase_table import PhraseTableReader, format_exponential, format_probability, parse_line
from keras_encdec.runtime.open_output import open_output

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
NEEDS_DATA = pytest.mark.skipif(not DATA.is_dir(), reason=f"there are no more real phrase tables at {DATA}")
GOOD = b"le ||| the ||| 0.5 0.25 ||| 0-0 ||| 3 4 2 ||| |||"
KEEP = "--on_error=keep to write such lines with a neutral score, or unchanged if they have no field for it"

SPACES = st.sampled_from([b"", b" ", b"  ", b"\t", b" \t "])
PHRASES = st.lists(st.sampled_from([b"le", b"a|b", b"\xe9", b"&#124;", b"\xc2\xa0", b"||"])).map(b" ".join)
NUMBERS = st.sampled_from([b"1", b"0.5", b"1e-05", b"1.5E-05", b"2.718", b"-0.1", b".5", b"+3", b"0"])
FIELDS = st.lists(st.sampled_from([b"", b" ", b" 0-0 1-1 ", b" 3 ", b" {{Counts 1 2}}", b"|||"]), max_size=5)


def table(folder, *lines, end=b"\n"):
    path = folder / "table"
    path.write_bytes(b"".join(line + end for line in lines))
    return path


@given(
    source=PHRASES,
    target=PHRASES,
    scores=st.lists(NUMBERS, min_size=1),
    further=FIELDS,
    spaces=st.tuples(SPACES, SPACES, SPACES, SPACES, SPACES, SPACES),
    carriage_return=st.booleans(),
)
def test_only_the_new_scores_are_added_to_a_line(source, target, scores, further, spaces, carriage_return):
    # A bar that touches a separator would be taken for part of it, here as in Moses.
    left = spaces[0] + source + (spaces[1] or b" ") + b"|||" + (spaces[2] or b" ") + target
    left += (spaces[3] or b" ") + b"|||" + spaces[4] + b" ".join(scores)
    right = spaces[5] + b"".join(b"|||" + field for field in further) + b"\r" * carriage_return
    line = parse_line(left + right)
    assert (line.source, line.target, line.scores) == (source, target, scores)
    assert line.append_scores(["0.125", "7.38906"]) == left + b" 0.125 7.38906" + right
    assert line.append_scores(["1"]) == left + b" 1" + right
    assert line.append_scores([]) == line.raw == left + right
    again = parse_line(line.append_scores(["0.125"]))
    assert (again.source, again.target, again.scores) == (source, target, [*scores, b"0.125"])


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (b"a|||b|||0.1", b"a|||b|||0.1 9"),
        (b"a|||b|||0.1|||0-0", b"a|||b|||0.1 9|||0-0"),
        (b"a ||| b ||| 0.1 0.2\r", b"a ||| b ||| 0.1 0.2 9\r"),
        (b"a ||| b ||| 0.1 0.2 \r", b"a ||| b ||| 0.1 0.2 9 \r"),
        (b"a ||| b |||  0.1\t0.2   ||| 0-0\r", b"a ||| b |||  0.1\t0.2 9   ||| 0-0\r"),
        (b" |||  ||| 0.1 ||| ", b" |||  ||| 0.1 9 ||| "),
        (b"||||||1", b"||||||1 9"),
        (b"a ||| b ||| 1 ||| ||| ||| ||| {{x}} ||| |||", b"a ||| b ||| 1 9 ||| ||| ||| ||| {{x}} ||| |||"),
    ],
)
def test_scores_are_added_to_every_form_of_line_that_moses_reads(line, written):
    assert parse_line(line).append_scores(["9"]) == written


MALFORMED = {
    b"": 'found a blank line, expected at least 3 fields separated by "|||"',
    b" \r": 'found a blank line, expected at least 3 fields separated by "|||"',
    b"le the": 'found 1 field, expected at least 3 fields separated by "|||"',
    b"le ||| the": 'found 2 fields, expected at least 3 fields separated by "|||"',
    b"le ||| the |||": "found no scores, expected at least one score in the third field",
    b"le ||| the ||| ||| 0-0": "found no scores, expected at least one score in the third field",
    b"le ||| the ||| 0.5 x ||| 0-0": 'found the score "x", expected a finite number',
    b"le ||| the ||| 0.5 1_0": 'found the score "1_0", expected a finite number',
    b"le ||| the ||| 1e400 0.5": 'found the score "1e400", expected a finite number',
    b"le ||| the ||| 0.5\x0b0.25": r'found the score "0.5\x0b0.25", expected a finite number',
    b"le ||| the ||| nan 0.5": 'found the score "nan", expected a finite number',
    b"le ||| the ||| 0.5 -inf": 'found the score "-inf", expected a finite number',
    b"le ||| the ||| 0.5 \xff": 'found the score "\\xff", expected a finite number',
    b"le ||| the ||| 0.5": "found 1 score, expected 2 as on line 1",
    b"le ||| the ||| 0.5 0.5 0.5": "found 3 scores, expected 2 as on line 1",
}


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_stops(tmp_path, line):
    path = table(tmp_path, GOOD, line, GOOD)
    with PhraseTableReader(path, on_error="stop") as reader:
        assert next(iter(reader)).raw == GOOD
        with pytest.raises(InputError) as caught:
            next(iter(reader))
    expected = f"{path}, line 2: {MALFORMED[line]}; repair or remove the line, or give {KEEP}."
    assert str(caught.value) == expected


def test_malformed_lines_are_kept_on_request(tmp_path):
    lines = [line for malformed in MALFORMED for line in (GOOD, malformed)]
    path = table(tmp_path, *lines)
    with PhraseTableReader(path, on_error="keep") as reader:
        records = list(reader)
    assert [record.raw for record in records] == lines
    assert reader.malformed == len(MALFORMED) and reader.num_scores == 2
    for number, record in enumerate(records, start=1):
        if record.raw == GOOD:
            assert record.problem is None and record.parsed.source == b"le"
        else:
            assert record.parsed is None and (record.source, record.target) == ("", "")
            assert record.problem.startswith(f"{path}, line {number}: {MALFORMED[record.raw]}; ")


def test_the_first_well_formed_line_sets_the_number_of_scores(tmp_path):
    path = table(tmp_path, b"no table", b"a ||| b ||| 1 2 3", b"a ||| b ||| 1 2")
    with PhraseTableReader(path, on_error="keep") as reader:
        problems = [record.problem for record in reader]
    assert reader.num_scores == 3 and problems[1] is None
    assert "found 2 scores, expected 3 as on line 2" in problems[2]


def test_empty_phrases_and_many_fields_are_not_malformed(tmp_path):
    path = table(tmp_path, b" ||| the ||| 1", b"le |||  ||| 1", b"a ||| b ||| 1 |||" + b" x |||" * 20)
    with PhraseTableReader(path) as reader:
        phrases = [(record.source, record.target) for record in reader]
    assert phrases == [("", "the"), ("le", ""), ("a", "b")]


@settings(max_examples=80)
@given(
    lines=st.lists(
        st.lists(st.sampled_from([b"|||", b" ", b"a", b"0.5", b"\r", b"\xff", b"\xc3\xa9", b"nan", b"\x85"]))
        .map(b"".join)
        .flatmap(lambda line: st.sampled_from([line, GOOD, GOOD + line])),
        min_size=1,
    ),
    encoding=st.sampled_from([None, "utf-8", "latin-1", "cp1252", "gbk"]),
    newline=st.booleans(),
)
def test_every_line_gives_one_record(tmp_path_factory, lines, encoding, newline):
    path = tmp_path_factory.getbasetemp() / "random table"
    path.write_bytes(b"\n".join(lines) + b"\n" * (newline or lines[-1] == b"" or b"\r" in lines[0]))
    with PhraseTableReader(path, encoding=encoding, on_error="keep") as reader:
        records = list(reader)
    assert [record.raw for record in records] == lines
    assert reader.malformed == sum(record.parsed is None for record in records)
    assert all((record.parsed is None) == (record.problem is not None) for record in records)
    assert all(record.parsed.append_scores([]) == record.raw for record in records if record.parsed)


def test_phrases_stay_escaped_and_factored(tmp_path):
    with PhraseTableReader(table(tmp_path, b" l&apos;|DET  x|Y |||\tthe|DT\t||| 1")) as reader:
        record = next(iter(reader))
    assert (record.source, record.target) == ("l&apos;|DET  x|Y", "the|DT")


def test_bytes_that_are_not_utf8_ask_for_the_encoding(tmp_path):
    line = b"\xe9t\xe9 ||| summer ||| 1"
    path = table(tmp_path, b"a ||| b ||| 1", line)
    with PhraseTableReader(path, on_error="stop") as reader, pytest.raises(InputError) as caught:
        list(reader)
    assert str(caught.value) == (
        f'{path}, line 2: found bytes that are not UTF-8 (0xe9 in "\\xe9t\\xe9"), expected UTF-8; '
        f"name the file's encoding, such as --encoding=latin-1, or give {KEEP}."
    )
    with PhraseTableReader(path, on_error="keep") as reader:
        assert [record.parsed is None for record in reader] == [False, True]
    with PhraseTableReader(path, encoding="latin-1") as reader:
        assert [record.source for record in reader] == ["a", "été"]
    with PhraseTableReader(path, encoding="utf-8") as reader:
        source = list(reader)[1].source
    assert source == "\udce9t\udce9" and source.encode("utf-8", "surrogateescape") == b"\xe9t\xe9"


@pytest.mark.parametrize("encoding", [None, "utf-8", "UTF8", "utf-8-sig"])
def test_a_byte_order_mark_is_not_part_of_the_first_word(tmp_path, encoding):
    mark = b"\xef\xbb\xbf"
    path = table(tmp_path, mark + GOOD, mark + GOOD)
    with PhraseTableReader(path, encoding=encoding) as reader:
        records = list(reader)
    assert [record.source for record in records] == ["le", "\ufeffle"]
    assert records[0].parsed.append_scores([]) == mark + GOOD


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-32-be", "utf-7", "cp037", "hz", "iso2022_jp", "idna", "unicode_escape"]
)
def test_encodings_without_ascii_are_refused(tmp_path, encoding):
    with pytest.raises(InputError) as caught:
        PhraseTableReader(table(tmp_path, GOOD), encoding=encoding)
    assert str(caught.value) == (
        f"found the encoding '{encoding}', which is not compatible with ASCII; "
        "name one that contains ASCII, such as utf-8, latin-1 or cp1252, or convert the file to UTF-8."
    )


@pytest.mark.parametrize("encoding", ["latin2000", "", "hex", "rot13"])
def test_unknown_encodings_are_refused(tmp_path, encoding):
    with pytest.raises(InputError, match=f"found the unknown encoding '{encoding}'; name one that"):
        PhraseTableReader(table(tmp_path, GOOD), encoding=encoding)


def test_an_unknown_on_error_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="on_error='skip'"):
        PhraseTableReader(table(tmp_path, GOOD), on_error="skip")


def test_the_file_is_closed_when_only_part_of_it_is_read(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with PhraseTableReader(table(tmp_path, GOOD, GOOD)) as reader:
            next(iter(reader))
        assert reader.lines._raw.closed and list(reader) == []


@pytest.mark.parametrize(
    ("path", "num_scores", "num_lines"),
    [
        (libreoffice_en_fr().phrase_table, 4, 50000),
        pytest.param(DATA / "tables/de-en.basic-surface-only.phrase-table.gz", 5, 52567, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/en-de.sparse-features.phrase-table.gz", 12, 25918, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/en-x.2fac.phrase-table.gz", 4, 33282, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/es-en.promix-nc.phrase-table.gz", 5, 15117, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/fr-en.TargetNGram.phrase-table.gz", 12, 24085, marks=NEEDS_DATA),
        pytest.param(DATA / "tables/fr-en.multi-lm.phrase-table.gz", 4, 181047, marks=NEEDS_DATA),
        pytest.param(DATA / "multi30k-moses/phrase-table.gz", 4, 839210, marks=NEEDS_DATA),
    ],
)
def test_real_tables_are_written_back_byte_for_byte(tmp_path, path, num_scores, num_lines):
    encoding = "latin-1" if "de-en" in path.name else None
    added = b" 0.125 7.38906"
    count, out = 0, tmp_path / "out.gz"
    with PhraseTableReader(path, encoding=encoding) as reader, open_output(out) as file:
        for record in reader:
            scored = record.parsed.append_scores(["0.125", "7.38906"])
            file.write(scored + b"\n")
            assert len(scored) == len(record.raw) + len(added)
            count += 1
    assert (reader.num_scores, count, reader.malformed) == (num_scores, num_lines, 0)
    with gzip.open(out) as file, gzip.open(path) as original:
        assert file.read().replace(added, b"") == original.read()


@NEEDS_DATA
def test_a_real_table_in_another_encoding_is_recognized():
    path = DATA / "tables" / "de-en.basic-surface-only.phrase-table.gz"
    with PhraseTableReader(path) as reader, pytest.raises(InputError, match=r"line \d+: found bytes that"):
        list(reader)
    with PhraseTableReader(path, on_error="keep") as reader:
        assert sum(1 for _ in reader) == 52567 and 0 < reader.malformed < 52567


def moses_log(text):
    """What Moses's loader stores: max(ln p, -100) in single precision."""
    probability = np.float32(text)
    assert probability > 0, "0 becomes -100 only because its logarithm is floored"
    return max(float(np.log(probability)), -100.0)


@given(st.floats(-150.0, 0.0))
def test_moses_reads_the_log_probability_back(log_probability):
    tolerance = 1e-5 if log_probability > -87 else 0.02
    expected = pytest.approx(max(log_probability, -100.0), abs=tolerance)
    assert moses_log(format_probability(log_probability)) == expected


@given(st.floats(max_value=0.0))
def test_the_order_of_scores_is_kept(log_probability):
    assert float(format_probability(log_probability)) >= float(format_probability(log_probability - 1))


def test_digits_are_those_of_c():
    assert [format_probability(value) for value in (0.0, -math.log(2), -20.0, -100.0)] == [
        "1",
        "0.5",
        "2.06115e-09",
        "3.72008e-44",
    ]


def test_the_extremes_stay_in_range():
    assert format_probability(-math.inf) == format_probability(-1e300) == format_probability(-100.0)
    assert format_probability(1e-6) == "1"
    assert float(format_probability(-100.0)) >= math.exp(-100.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity_are_errors(value):
    with pytest.raises(ValueError, match="expected a number up to 0"):
        format_probability(value)


def test_moses_reads_counts_back():
    assert [round(moses_log(format_exponential(count))) for count in range(89)] == list(range(89))
    assert f"{sum(math.log(float(format_exponential(2))) for _ in range(9)):.6f}" == "18.000000", "of nine phrases"
    assert np.isfinite(np.float32(format_exponential(10**9)))
    with pytest.raises(ValueError, match="expected 0 or more"):
        format_exponential(-1)
