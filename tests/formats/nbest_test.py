"""Tests of reading n-best lists and of writing their lines with more features or another total."""

import gzip
import pathlib
import warnings

import pytest
from decoded_list import SENTENCES, WEIGHTS, decoded_list
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.errors import InputError
from keras_encdec.formats import (
    Column,
    ColumnKind,
    NBestFormat,
    NBestPairReader,
    NBestReader,
    append_features,
    parse_features,
    parse_nbest_line,
    read_sentences,
    replace_total,
)
from keras_encdec.formats.record_reader import MalformedLine

LISTS = pathlib.Path(__file__).parents[3] / "shared" / "data" / "multi30k-moses"
GOOD = b"0 ||| le chat  ||| LM0= -4.5 TM0= -1 -2 ||| -3.25 ||| 0=0 ||| 0-0 "
KEEP = "--on_error=keep to write such lines with a neutral score, or unchanged if they have no field for it"

SPACES = st.sampled_from([b"", b" ", b"  ", b"\t"])
NUMBERS = st.sampled_from([b"1", b"-0.5", b"1e-05", b"-1.5E+05", b".5", b"+3", b"0", b"-103.662", b"7."])
WORDS = st.sampled_from([b"le", b"a|b|c", b"\xe9", b"&#124;", b"\xc2\xa0", b"x=", b"0"])
NAMES = st.sampled_from(["LM0", "TM0", "Word_penalty", "WordPenalty0", "d\udce9"])
FEATURES = st.dictionaries(NAMES, st.lists(NUMBERS, min_size=1, max_size=3))


def nbest(folder, *lines, end=b"\n"):
    path = folder / "nbest"
    path.write_bytes(b"".join(line + end for line in lines))
    return path


@given(
    number=st.integers(0, 10**9 - 1),
    hypothesis=st.lists(WORDS, max_size=4).map(b" ".join),
    features=FEATURES,
    total=NUMBERS,
    further=st.lists(st.sampled_from([b"", b" ", b" 0-1=0-1 2=2 ", b" 0-0 "]), max_size=2),
    spaces=st.lists(SPACES, min_size=8, max_size=8),
    carriage_return=st.booleans(),
)
def test_a_line_is_parsed_and_only_features_or_total_change(
    number, hypothesis, features, total, further, spaces, carriage_return
):
    written = " ".join(f"{name}= {b' '.join(values).decode()}" for name, values in features.items())
    written = written.encode("utf-8", "surrogateescape")
    left = spaces[0] + b"%d" % number + spaces[1] + b"|||" + spaces[2] + hypothesis + spaces[3] + b"|||" + spaces[4]
    # What separates the features from the new ones is theirs; with no features, all space comes after.
    left, after = (left + written, spaces[5]) if written else (left.rstrip(), left[len(left.rstrip()) :] + spaces[5])
    right = b"".join(b"|||" + field for field in further) + b"\r" * carriage_return
    line = left + after + b"|||" + spaces[6] + total + spaces[7] + right
    parsed = parse_nbest_line(line)
    assert parsed == (number, hypothesis, written, float(total))
    assert parse_features(parsed.features) == {name: list(map(float, values)) for name, values in features.items()}
    assert append_features(line, []) == replace_total(line, total.decode()) == line
    again = append_features(line, [("RNN0", "-12.345678"), ("Length0", "3")])
    assert again == left + b" RNN0= -12.345678 Length0= 3" + line[len(left) :]
    added = {"RNN0": [-12.345678], "Length0": [3.0]}
    assert parse_features(parse_nbest_line(again).features) == parse_features(written) | added
    again = replace_total(line, "-0.125")
    assert again == left + after + b"|||" + spaces[6] + b"-0.125" + spaces[7] + right
    assert parse_nbest_line(again) == parsed._replace(total=-0.125)


@pytest.mark.parametrize(
    ("line", "scored", "ranked"),
    [
        (b"0|||a|||X= 1|||-1", b"0|||a|||X= 1 R= 9|||-1", b"0|||a|||X= 1|||-7"),
        (b"7 ||| a b  ||| X= 1 ||| 1\r", b"7 ||| a b  ||| X= 1 R= 9 ||| 1\r", b"7 ||| a b  ||| X= 1 ||| -7\r"),
        (b"0 ||| a  |||  ||| -1", b"0 ||| a  ||| R= 9  ||| -1", b"0 ||| a  |||  ||| -7"),
        (b"0 |||  ||| X= 1 |||  1  |||", b"0 |||  ||| X= 1 R= 9 |||  1  |||", b"0 |||  ||| X= 1 |||  -7  |||"),
        (
            b"1 ||| 1 ||| X= 1 ||| 1 ||| 1 ||| 1",
            b"1 ||| 1 ||| X= 1 R= 9 ||| 1 ||| 1 ||| 1",
            b"1 ||| 1 ||| X= 1 ||| -7 ||| 1 ||| 1",
        ),
    ],
)
def test_every_other_byte_of_a_line_is_kept(line, scored, ranked):
    assert append_features(line, [("R", "9")]) == scored
    assert replace_total(line, "-7") == ranked


MALFORMED = {
    b"": 'found a blank line, expected 4 to 6 fields separated by "|||"',
    b" \r": 'found a blank line, expected 4 to 6 fields separated by "|||"',
    b"le chat": 'found 1 field, expected 4 to 6 fields separated by "|||"',
    b"0 ||| a ||| X= 1": 'found 3 fields, expected 4 to 6 fields separated by "|||"',
    GOOD + b"||| x": 'found 7 fields, expected 4 to 6 fields separated by "|||"',
    b"x ||| a ||| X= 1 ||| 1": 'found the id "x", expected the number of a source sentence, from 0',
    b"-1 ||| a ||| X= 1 ||| 1": 'found the id "-1", expected the number of a source sentence, from 0',
    b"1_0 ||| a ||| X= 1 ||| 1": 'found the id "1_0", expected the number of a source sentence, from 0',
    b" ||| a ||| X= 1 ||| 1": 'found the id "", expected the number of a source sentence, from 0',
    b"0 ||| a ||| X= 1 ||| one": 'found the total "one", expected a finite number',
    b"0 ||| a ||| X= 1 ||| ": 'found the total "", expected a finite number',
    b"0 ||| a ||| X= 1 ||| -1 -2": 'found the total "-1 -2", expected a finite number',
    b"0 ||| a ||| X= 1 ||| nan": 'found the total "nan", expected a finite number',
    b"0 ||| a ||| X= 1 ||| 1e999": 'found the total "1e999", expected a finite number',
    b"0 ||| a ||| X= 1_0 ||| 1": 'found the value of X, "1_0", expected a finite number',
    b"0 ||| a ||| X= -inf ||| 1": 'found the value of X, "-inf", expected a finite number',
    b"0 ||| a ||| X=1 ||| 1": 'found "X=1" before any feature, expected name, space and value, such as "LM0= -1"',
    b"0 ||| a ||| lm: -1 ||| 1": 'found "lm:", as old versions of Moses write, expected features such as "LM0= -1"',
    b"0 ||| a ||| 1 X= 1 ||| 1": 'found "1" before any feature, expected name, space and value, such as "LM0= -1"',
    b"0 ||| a ||| X= Y= 1 ||| 1": "found the feature X without a value, expected at least one",
    b"0 ||| a ||| X= 1 X= 2 ||| 1": 'found "X=", expected the name of a new feature',
    b"0 ||| a ||| = 2 ||| 1": 'found "=", expected the name of a new feature',
    b"0 ||| a ||| X= \xff ||| 1": 'found the value of X, "\\xff", expected a finite number',
}


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_stops(tmp_path, line):
    path = nbest(tmp_path, GOOD, line, GOOD)
    with NBestReader(path) as reader:
        assert next(iter(reader)).raw == GOOD
        with pytest.raises(InputError) as caught:
            next(iter(reader))
    assert str(caught.value) == f"{path}, line 2: {MALFORMED[line]}; repair or remove the line, or give {KEEP}."


def test_malformed_lines_are_kept_on_request(tmp_path):
    lines = [line for malformed in MALFORMED for line in (GOOD, malformed)]
    path = nbest(tmp_path, *lines)
    with NBestReader(path, on_error="keep") as reader:
        records = list(reader)
    assert [record.raw for record in records] == lines and reader.malformed == len(MALFORMED)
    for number, record in enumerate(records, start=1):
        if record.raw == GOOD:
            assert record[1:] == (0, "le chat", b"LM0= -4.5 TM0= -1 -2", -3.25, None)
        else:
            assert record[1:5] == (None, "", b"", None)
            assert record.problem.startswith(f"{path}, line {number}: {MALFORMED[record.raw]}; ")


@settings(max_examples=80)
@given(
    lines=st.lists(
        st.lists(st.sampled_from([b"|||", b" ", b"a", b"0", b"X=", b"-1", b"\r", b"\xff", b"\xc3\xa9", b"nan"]))
        .map(b"".join)
        .flatmap(lambda line: st.sampled_from([line, GOOD, b"0|||" + line + b"|||X= 1|||2"])),
        min_size=1,
    ),
    encoding=st.sampled_from([None, "utf-8", "latin-1", "gbk"]),
    newline=st.booleans(),
    gzipped=st.booleans(),
)
def test_every_line_gives_one_record(tmp_path_factory, lines, encoding, newline, gzipped):
    path = tmp_path_factory.getbasetemp() / "random list"
    data = b"\n".join(lines) + b"\n" * (newline or lines[-1] == b"" or b"\r" in lines[0])
    path.write_bytes(gzip.compress(data, 1) if gzipped else data)
    with NBestReader(path, encoding=encoding, on_error="keep") as reader:
        records = list(reader)
    assert [record.raw for record in records] == lines
    assert reader.malformed == sum(record.problem is not None for record in records)
    assert all((record.id is None) == (record.problem is not None) for record in records)


def test_bytes_that_are_not_utf8_ask_for_the_encoding(tmp_path):
    path = nbest(tmp_path, GOOD, b"0 ||| l' \xe9t\xe9 ||| X= 1 ||| 1")
    with NBestReader(path) as reader, pytest.raises(InputError) as caught:
        list(reader)
    assert str(caught.value) == (
        f'{path}, line 2: found bytes that are not UTF-8 (0xe9 in "l\' \\xe9t\\xe9"), expected UTF-8; '
        f"name the file's encoding, such as --encoding=latin-1, or give {KEEP}."
    )
    with NBestReader(path, on_error="keep") as reader:
        assert [record.problem is None for record in reader] == [True, False]
    with NBestReader(path, encoding="latin-1") as reader:
        assert [record.hypothesis for record in reader] == ["le chat", "l' été"]
    with NBestReader(path, encoding="utf-8") as reader:
        assert list(reader)[1].hypothesis == "l' \udce9t\udce9"


def test_an_unknown_on_error_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="on_error='skip'"):
        NBestReader(nbest(tmp_path, GOOD), on_error="skip")


def test_the_file_is_closed_when_only_part_of_it_is_read(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with NBestReader(nbest(tmp_path, GOOD, GOOD)) as reader:
            next(iter(reader))
        assert reader.lines._raw.closed and list(reader) == []


def test_features_without_a_line_are_refused_with_a_value_error():
    with pytest.raises(MalformedLine, match='found "-1" before any feature'):
        parse_features(b"-1 -2")


def test_a_byte_order_mark_is_kept_in_the_line_and_is_not_part_of_the_id(tmp_path):
    path, lines = tmp_path / "nbest", ["\ufeff0 ||| le  ||| LM0= -1 ||| -1\r", "0 ||| la  ||| LM0= -2 ||| -2\r"]
    path.write_text("\n".join(lines), newline="")
    with NBestReader(path) as reader:
        assert [(record.id, record.raw.decode()) for record in reader] == [(0, line) for line in lines]
    path.write_text("\n".join(lines[::-1]), newline="")
    with NBestReader(path) as reader, pytest.raises(InputError, match=r'line 2: found the id "\\ufeff0"'):
        list(reader)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_every_line_of_a_source_file_is_a_sentence(tmp_path, compress):
    path = tmp_path / "source"
    path.write_bytes(compress("\ufeffle chat\r\n\n l' été \nthe".encode()))
    assert read_sentences(path) == ["le chat", "", " l' été ", "the"]
    path.write_bytes(compress(b"le\ncaf\xe9\n"))
    assert read_sentences(path, "latin-1") == ["le", "café"]
    assert read_sentences(path, "utf-8") == ["le", "caf\udce9"]
    with pytest.raises(InputError, match="line 2: found bytes that are not UTF-8"):
        read_sentences(path)


def written_back(path, values):
    """Reads a list, checks how many values each feature has, and adds a feature to every line."""
    written = bytearray()
    with NBestReader(path) as reader:
        for record in reader:
            total = replace_total(record.raw, f"{record.total:.6g}")
            written += append_features(total, [("RNN0", "-12.345678")]) + b"\n"
            assert {name: len(texts) for name, texts in parse_features(record.features).items()} == values
        assert reader.malformed == 0
    assert written.count(b" RNN0= -12.345678") == reader.lines.line_number
    return reader.lines.line_number, bytes(written.replace(b" RNN0= -12.345678", b""))


def test_the_decoders_list_is_read_and_written_back_byte_for_byte(tmp_path):
    path, _ = decoded_list(tmp_path)
    count, written = written_back(path, {name: len(weights) for name, weights in WEIGHTS.items()})
    assert count > SENTENCES and written == gzip.decompress(path.read_bytes())


@pytest.mark.skipif(not LISTS.is_dir(), reason=f"there are no lists of Moses at {LISTS}")
@pytest.mark.parametrize(("name", "count"), [("test_2016_flickr", 69135), ("val", 69402)])
def test_real_lists_are_read_and_written_back_byte_for_byte(name, count):
    path = LISTS / f"{name}.nbest100.gz"
    values = {"LexicalReordering0": 6, "Distortion0": 1, "LM0": 1, "WordPenalty0": 1, "PhrasePenalty0": 1}
    assert written_back(path, values | {"TranslationModel0": 4}) == (count, gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("total", ["0", "x"])
def test_a_feature_that_the_list_has_is_refused_on_malformed_lines_too(tmp_path, total):
    (tmp_path / "source").write_text("a\n")
    (tmp_path / "nbest").write_text(f"0 ||| b ||| LM0= 1 ||| 0\n0 ||| b ||| LM0= 1 R0= 2 ||| {total}\n")
    with NBestPairReader(tmp_path / "nbest", tmp_path / "source", on_error="keep") as reader:
        records = NBestFormat().check_columns(reader, [Column(ColumnKind.LOG_PROB, "R0")])
        with pytest.raises(InputError, match="nbest, line 2: found the feature R0, expected it to be new; rename"):
            list(records)
