"""Tests of reading the kinds of input as the words the model reads."""

import gzip

import pytest

from keras_encdec.data import open_pairs
from keras_encdec.errors import InputError
from keras_encdec.text import Tokenizer

SOURCE = "l&apos; été\n10\u00a0000 chats\n\nR&amp;D |\n"
TARGET = "the summer\n10,000 cats\nempty\nR&D &#124;\n"
WORDS = [
    (["l'", "été"], ["the", "summer"]),
    (["10\u00a0000", "chats"], ["10,000", "cats"]),
    ([], ["empty"]),
    (["R&D", "|"], ["R&D", "|"]),
]


def write(folder, kind, encoding="utf-8"):
    """Writes the pairs in a format; returns the arguments for `open_pairs`."""
    both = list(zip(SOURCE.splitlines(), TARGET.splitlines(), strict=True))
    if kind == "parallel":
        (folder / "source").write_text(SOURCE, encoding=encoding)
        (folder / "target").write_bytes(gzip.compress(TARGET.encode(encoding)))
        return {"path": folder / "target", "source_path": folder / "source", "format": kind}
    if kind == "tsv":
        text = "".join(f"{source}\t{target}\tignored\n" for source, target in both)
    else:
        both[-1] = ("R&amp;D|NN &#124;|SYM", "R&D &#124;")  # where a bar is between factors
        text = "".join(f"{source} ||| {target} ||| 0.5 0.5 ||| 0-0\n" for source, target in both)
    (folder / kind).write_text(text, encoding=encoding)
    return {"path": folder / kind, "format": kind}


def test_sentences_are_read_as_targets_are(tmp_path):
    (tmp_path / "target").write_text(TARGET)
    with open_pairs(tmp_path / "target", "sentences") as (pairs, _):
        assert list(pairs) == [([], target) for _, target in WORDS]
    (tmp_path / "raw").write_text("The cat's\n\n")
    with open_pairs(tmp_path / "raw", "sentences", tokenizer=Tokenizer(lowercase=True)) as (pairs, _):
        assert list(pairs) == [([], ["the", "cat", "'", "s"]), ([], [])]


KINDS = pytest.mark.parametrize("kind", ["phrase_table", "tsv", "parallel"])


@KINDS
def test_words_are_read_without_escapes_and_factors(tmp_path, kind):
    with open_pairs(**write(tmp_path, kind)) as (pairs, reader):
        assert list(pairs) == WORDS
    assert reader.malformed == 0 and reader.lines.line_number == 4


@KINDS
def test_reverse_swaps_the_sides(tmp_path, kind):
    with open_pairs(**write(tmp_path, kind), reverse=True) as (pairs, _):
        assert list(pairs) == [(target, source) for source, target in WORDS]


@KINDS
def test_a_declared_encoding_is_used(tmp_path, kind):
    files = write(tmp_path, kind, "latin-1")
    with open_pairs(**files, encoding="latin-1") as (pairs, _):
        assert list(pairs) == WORDS
    with pytest.raises(InputError, match="line 1: found bytes that are not UTF-8"), open_pairs(**files) as (pairs, _):
        list(pairs)


@KINDS
def test_malformed_lines_stop_or_are_left_out_and_counted(tmp_path, kind):
    files = write(tmp_path, kind)
    data = files["path"].read_bytes()
    lines = (gzip.decompress(data) if kind == "parallel" else data).splitlines(keepends=True)
    files["path"].write_bytes(b"".join([lines[0], b"caf\xe9\n", *lines[2:]]))
    with pytest.raises(InputError, match="line 2: .*=keep to leave such lines out"), open_pairs(**files) as (pairs, _):
        list(pairs)
    with open_pairs(**files, on_error="keep") as (pairs, reader):
        assert list(pairs) == [WORDS[0], *WORDS[2:]]
    assert reader.malformed == 1


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("tensorflow_text")
    return Tokenizer(lowercase=True)


@pytest.mark.parametrize("kind", ["tsv", "parallel"])
@pytest.mark.parametrize("reverse", [False, True])
def test_raw_text_is_tokenized_as_it_stands(tmp_path, tokenizer, kind, reverse):
    with open_pairs(**write(tmp_path, kind), tokenizer=tokenizer, reverse=reverse) as (pairs, _):
        words = list(pairs)
    expected = [
        ("l & apos ; été", "the summer"),
        ("10 000 chats", "10 , 000 cats"),
        ("", "empty"),
        ("r & amp ; d |", "r & d & # 124 ;"),
    ]
    expected = [(source.split(), target.split()) for source, target in expected]
    assert words == [pair[::-1] for pair in expected] if reverse else words == expected


def test_raw_text_is_tokenized_across_batches(tmp_path, tokenizer):
    (tmp_path / "tsv").write_text("".join(f"Line {i}.\tZeile {i}\n" for i in range(3000)))
    with open_pairs(tmp_path / "tsv", "tsv", tokenizer=tokenizer) as (pairs, _):
        assert list(pairs) == [(["line", str(i), "."], ["zeile", str(i)]) for i in range(3000)]


def test_a_malformed_line_of_raw_text_is_reported(tmp_path, tokenizer):
    (tmp_path / "tsv").write_text("one\teins\ntwo\nthree\tdrei\n")
    with pytest.raises(InputError, match="tsv, line 2: found no tab, expected source and target"):
        with open_pairs(tmp_path / "tsv", "tsv", tokenizer=tokenizer) as (pairs, _):
            list(pairs)
    with open_pairs(tmp_path / "tsv", "tsv", tokenizer=tokenizer, on_error="keep") as (pairs, reader):
        assert list(pairs) == [(["one"], ["eins"]), (["three"], ["drei"])]
    assert reader.malformed == 1


def test_a_phrase_table_is_never_tokenized(tmp_path, tokenizer):
    with open_pairs(**write(tmp_path, "phrase_table"), tokenizer=tokenizer) as (pairs, _):
        assert list(pairs) == WORDS
