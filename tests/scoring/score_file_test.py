"""Tests of writing copies of files with a model's scores."""

import collections
import dataclasses
import decimal
import gzip
import math
import os
import pathlib
import re

import numpy as np
import pytest
from close_texts import assert_close_texts
from plain_or_gzipped import read, write
from scored_tables import INI, LINES, added, expected_probabilities
from toy_models import TARGET_WORDS, save_model

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring import TextScorer, score_file
from keras_encdec.scoring.pair_scorer import UnknownWords

TABLES = pathlib.Path(__file__).parents[3] / "shared" / "data" / "tables"


@pytest.mark.parametrize(
    ("name_in", "name_out", "end", "last"),
    [
        ("table", "table", b"\n", b"\n"),
        ("table.gz", "table.gz", b"\n", b""),
        ("table", "table.gz", b"\r\n", b"\r\n"),
        ("table.gz", "table", b"\r\n", b""),
    ],
)
def test_a_table_comes_back_with_one_more_score_on_each_line(
    forward_scorer, tmp_path, out, name_in, name_out, end, last
):
    data = end.join(line.encode() for line in LINES) + last
    table = write(tmp_path / name_in, data)
    summary = score_file(forward_scorer, table, out / name_out)
    assert os.listdir(out) == [name_out]
    scores = added(data, read(out / name_out))
    assert scores.shape == (len(LINES), 1)
    # The scores are computed in float32, and written with six digits.
    np.testing.assert_allclose(scores[:, 0], expected_probabilities(forward_scorer, LINES.values()), rtol=2e-4)
    assert 0 < scores.min() < 1e-40, "too-long pairs are scored, and never 0"
    assert (summary.lines, summary.malformed, summary.output) == (len(LINES), 0, out / name_out)
    assert re.fullmatch(rf"{len(LINES)} lines in \d+\.\d s, [\d,.]+ lines/s: {out / name_out}", str(summary))


def test_a_model_is_a_path_a_directory_or_a_scorer(model_dirs, forward_scorer, table, out):
    path = model_dirs / "forward"
    for name, model in {"path": path, "directory": ModelDirectory.load(path), "scorer": forward_scorer}.items():
        score_file(model, table, out / name)
    assert read(out / "path") == read(out / "directory") == read(out / "scorer")


def test_progress_is_reported(forward_scorer, table, out):
    told = []

    class Counter:
        def __init__(self, lines):
            self.count, self.before, self.seconds, self.lines = 0, 0, 2.0, lines

        def add(self, count):
            self.count += count
            told.append((self.count, self.lines.path))

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            told.append("closed")

    summary = score_file(forward_scorer, table, out / "table", progress=Counter)
    assert told == [(len(LINES), table), "closed"]
    assert (summary.lines, summary.seconds) == (len(LINES), 2.0)


def test_all_scores_together(model_dirs, forward_scorer, reverse_scorer, tmp_path, table, out):
    data = table.read_bytes()
    models = {"model_dir": forward_scorer, "reverse_model_dir": reverse_scorer}
    score_file(input=table, output=out / "table", **models, unknown_count=True, length=True)
    forward, reverse, unknown, length = added(data, read(out / "table")).T
    np.testing.assert_allclose(forward, expected_probabilities(forward_scorer, LINES.values()), rtol=2e-4)
    outside = [sum(word not in TARGET_WORDS for word in target.split()) for _, target in LINES.values()]
    assert max(outside) == 2
    np.testing.assert_allclose(unknown, [math.exp(number) for number in outside], rtol=1e-5)
    tokens = [len(target.split()) + 1 for _, target in LINES.values()]
    np.testing.assert_allclose(length, [math.exp(number) for number in tokens], rtol=1e-5)

    # The reverse model's column is that of the same weights on the table with its sides swapped.
    swapped = []
    for line in LINES:
        source, target, rest = line.split("|||", 2)
        swapped.append("|||".join([target, source, rest]))
    table = write(tmp_path / "swapped", "\n".join(swapped).encode())
    score_file(model_dirs / "swapped", table, out / "swapped")
    np.testing.assert_allclose(added(table.read_bytes(), read(out / "swapped"))[:, 0], reverse, rtol=2e-4)


def test_a_dry_run_reads_everything_and_leaves_nothing(model_dirs, forward_scorer, tmp_path, table, out):
    ini = write(tmp_path / "ini", INI.encode())
    inis = {"moses_ini": ini, "moses_ini_out": out / "ini"}
    summary = score_file(model_dirs / "forward", table, out / "table", **inis, dry_run=True)
    assert str(summary).endswith("a dry run, nothing was written") and os.listdir(out) == []
    write(tmp_path / "table", table.read_bytes() + b"\nbad")
    with pytest.raises(InputError, match=f"{table}, line {len(LINES) + 1}: found 1 field"):
        score_file(forward_scorer, table, out / "table", dry_run=True)
    assert score_file(forward_scorer, table, "-", dry_run=True, on_error="keep").malformed == 1


def test_bfloat16_gives_nearly_the_same_scores(model_dirs, forward_scorer, table, out):
    score_file(model_dirs / "forward", table, out / "table", dtype="bfloat16")
    scores = added(table.read_bytes(), read(out / "table"))[:, 0]
    expected = expected_probabilities(forward_scorer, LINES.values())
    assert not np.allclose(scores, expected, rtol=2e-4), "computed in float32 after all"
    likely = expected > 1e-30
    assert likely.sum() > 3
    np.testing.assert_allclose(np.log(scores[likely]), np.log(expected[likely]), rtol=0.1, atol=0.3)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_a_table_that_is_not_utf8_needs_its_encoding(forward_scorer, tmp_path, out, encoding):
    # Byte 0x81 stands for no character in cp1252. Neither line is valid UTF-8.
    data = b"l&apos; \xe9t\xe9 ||| summer caf\xe9 ||| 1 1 ||| \x81\nl' ||| \x81 \xff ||| 0.5 1\n"
    table = write(tmp_path / "table", data)
    with pytest.raises(InputError, match=f"{table}, line 1: found bytes that are not UTF-8.*--encoding=latin-1"):
        score_file(forward_scorer, table, out / "table")
    assert os.listdir(out) == []
    score_file(forward_scorer, table, out / "table", encoding=encoding)
    scores = added(data, read(out / "table"))[:, 0]
    source = "l' \udce9t\udce9" if encoding == "utf-8" else "l' été"
    target = "summer caf\udce9" if encoding == "utf-8" else "summer café"
    np.testing.assert_allclose(scores[0], expected_probabilities(forward_scorer, [(source, target)]), rtol=2e-4)


TSV = {
    "le chat\tthe cat": ("le chat", "the cat"),
    "l&apos; été\t&apos;s summer dog\tkept": ("l' été", "'s summer dog"),
    "\tthe": ("", "the"),
    "le\t": ("le", ""),
    f"{'le ' * 80}\t{'the ' * 70}\t7\t": ("le " * 80, "the " * 70),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("format", ["tsv", "parallel"])
def test_columns_of_log_probabilities_are_added(forward_scorer, reverse_scorer, tmp_path, out, end, format):
    before, source = list(TSV), None
    pairs = tmp_path / "pairs"
    if format == "tsv":
        write(pairs, end.join(TSV).encode())
    else:
        before = ["\t".join(line.split("\t")[:2]) for line in TSV]
        source = write(tmp_path / "source", end.join(line.split("\t")[0] for line in before).encode())
        write(pairs, end.join(line.split("\t")[1] for line in before).encode())
    score_file(
        forward_scorer,
        pairs,
        out / "scored",
        format=format,
        source=source,
        reverse_model_dir=reverse_scorer,
        unknown_count=True,
        length=True,
        token_scores=True,
    )
    scored = (out / "scored").read_bytes().decode().split(end)
    assert len(scored) == len(TSV)
    words = [(source.split(), target.split()) for source, target in TSV.values()]
    expected, backward = forward_scorer.score(words), reverse_scorer.score(words)
    for line, start, total, reverse, (_, target) in zip(scored, before, expected, backward, words, strict=True):
        assert line.startswith(start + "\t")
        columns = line[len(start) + 1 :].split("\t")
        assert len(columns) == 5
        np.testing.assert_allclose([float(x) for x in columns[:2]], [total, reverse], rtol=1e-5, atol=2e-4)
        assert columns[2] == str(sum(word not in TARGET_WORDS for word in target))
        assert columns[3] == str(len(target) + 1)
        tokens = [decimal.Decimal(token) for token in columns[4].split(" ")]
        assert len(tokens) == len(target) + 1, "the end of sequence has its score"
        assert sum(tokens) == decimal.Decimal(columns[0]), "to the digit"


def test_raw_text_is_tokenized_as_the_model_was_trained(tmp_path, out):
    pytest.importorskip("tensorflow_text")
    save_model(tmp_path / "raw", ["le", "chat", ".", "&"], ["the", "cat", "."], tokenization={"lowercase": True})
    pairs = write(tmp_path / "pairs.tsv", b"Le chat.\tThe CAT.\nle chat &amp;\tthe cat .\n")
    scorer = TextScorer(tmp_path / "raw")
    score_file(scorer, pairs, out / "tsv", format="tsv", token_scores=True)
    lines = (out / "tsv").read_text().splitlines()
    words = ["le", "chat"], ["the", "cat", "."]
    expected = scorer.score([([*words[0], "."], words[1]), ([*words[0], "&", "amp", ";"], words[1])])
    np.testing.assert_allclose([float(line.split("\t")[2]) for line in lines], expected, atol=1e-4)
    assert [len(line.split("\t")[3].split()) for line in lines] == [4, 4]


@pytest.mark.parametrize(
    "format, neutral", [("tsv", b"\t0\t0\t"), ("phrase_table", b" 1 1"), ("nbest", b"RNN0= 0 Unknown0= 0")]
)
def test_pairs_of_too_many_tokens_get_a_neutral_score(forward_scorer, tmp_path, out, format, neutral):
    sides = [("le chat", "the cat"), ("le " * 4, "the"), ("le", "the " * 4), ("le", "the " * 3)]
    if format == "nbest":
        lines = [f"{i} ||| {target} ||| LM0= 1 ||| 1" for i, (_, target) in enumerate(sides)]
    else:
        line = "{}\t{}" if format == "tsv" else "{} ||| {} ||| 1"
        lines = [line.format(source, target) for source, target in sides]
    table = write(tmp_path / "input", "".join(f"{line}\n" for line in lines).encode())
    sources = write(tmp_path / "source", "".join(f"{source}\n" for source, _ in sides).encode())
    arguments = {"source": sources} if format == "nbest" else {}
    arguments |= {"token_scores": True} if format == "tsv" else {}
    for max_tokens in (None, 3):
        summary = score_file(
            forward_scorer,
            table,
            out / f"{max_tokens}",
            format=format,
            unknown_count=True,
            max_tokens=max_tokens,
            **arguments,
        )
        assert (summary.lines, summary.malformed, summary.too_long) == (4, 0, 2 if max_tokens else 0)
    assert "2 lines of more than 3 tokens (max_tokens) got a neutral score." in summary.notices
    for_one = dataclasses.replace(summary, max_tokens=1)
    assert "2 lines of more than 1 token (max_tokens) got a neutral score." in for_one.notices
    everything, bounded = ((out / name).read_bytes().splitlines() for name in ("None", "3"))
    assert [neutral in line for line in bounded] == [False, True, True, False]
    for line in (0, 3):
        assert_close_texts(bounded[line], everything[line])


@pytest.mark.parametrize("dry_run", [False, True])
def test_unknown_words_are_counted_and_many_are_warned_of(forward_scorer, reverse_scorer, tmp_path, out, dry_run):
    table = write(tmp_path / "table", b"le chien dort ||| the dog ||| 1\nle chat ||| a b c ||| 1\nbad\n")
    summary = score_file(
        forward_scorer, table, out / "table", reverse_model_dir=reverse_scorer, on_error="keep", dry_run=dry_run
    )
    assert [(words.model, words.side, words.words, words.unknown) for words in summary.unknown_words] == [
        ("model", "source", 5, 2),
        ("model", "target", 5, 4),
        ("reverse model", "source", 5, 2),
        ("reverse model", "target", 5, 4),
    ]
    assert summary.notices[0].startswith("source: 40.00 % of the 5 words are unknown to the model; target: 80.00 %")
    assert [notice[:50] for notice in summary.notices if "warning" in notice] == [
        "warning: most of the target words are unknown to t"
    ] * 2


def test_a_name_in_a_long_text_is_no_reason_to_warn_of_capital_letters():
    few, many = (UnknownWords("model", "source", words, 1, in_lower_case=1) for words in (99, 100))
    assert few.warnings("scores", "the file") and not many.warnings("scores", "the file")


@pytest.mark.parametrize("shard_lines", [None, 1])
def test_capital_letters_are_warned_of_if_the_model_knows_only_lower_case(tmp_path, out, shard_lines):
    save_model(tmp_path / "lower", ["le", "chat"], ["the", "cat"])
    table = write(tmp_path / "table", b"Le chat ||| The cat ||| 1\nle Chat ||| the dog ||| 1\n")
    summary = score_file(tmp_path / "lower", table, out / "table", shard_lines=shard_lines)
    assert [(words.unknown, words.in_lower_case) for words in summary.unknown_words] == [(2, 2), (2, 1)]
    assert [notice for notice in summary.notices if "warning" in notice] == [
        "warning: most of the source words that the model does not know have capital letters, and it knows them in "
        "lower case; lowercase the text, as the training text was."
    ]


def test_a_language_models_sources_have_no_unknown_words(tmp_path, out):
    save_model(tmp_path / "lm", [], TARGET_WORDS, language_model=True)
    table = write(tmp_path / "table", b"le chien ||| the dog ||| 1\n")
    [words] = score_file(tmp_path / "lm", table, out / "table", max_unknown=0.5).unknown_words
    assert (words.side, words.words, words.unknown) == ("target", 2, 1)


REAL = [libreoffice_en_fr().phrase_table, *sorted(TABLES.glob("*.phrase-table.gz"))]


@pytest.mark.parametrize("table", REAL, ids=lambda path: path.name.removesuffix("phrase-table.gz"))
def test_real_tables_come_back_line_for_line(tmp_path, out, table):
    data = b"\n".join(gzip.decompress(table.read_bytes()).split(b"\n")[:30_000])
    part = write(tmp_path / "part.gz", data)
    words = collections.Counter(data.decode("latin-1").replace("|||", " ").split(" "))
    shortlist = [word for word, _ in words.most_common(500) if word.isascii() and word.isalpha()]
    save_model(tmp_path / "model", shortlist, shortlist)
    encoding = "latin-1" if table.name.startswith("de-en.basic-surface-only") else None
    score_file(tmp_path / "model", part, out / "scored.gz", unknown_count=True, encoding=encoding)
    probability, unknown = added(data, read(out / "scored.gz")).T
    assert len(probability) == len(data.splitlines())
    assert (probability > 0).all() and (probability < 1).all() and (unknown >= 1).all()
    assert len(set(probability)) > 500


def test_too_many_unknown_words_stop_the_work(forward_scorer, table, out):
    largest = max(each.share for each in score_file(forward_scorer, table, out / "table").unknown_words)
    os.unlink(out / "table")
    sentence = (
        r"found [1-9]\.\d % of the \d+ (source|target) words so far outside the vocabulary of the model, "
        r"expected [\d.]+ % at most"
    )
    with pytest.raises(InputError, match=sentence):
        score_file(forward_scorer, table, out / "table", max_unknown=largest - 0.01)
    assert os.listdir(out) == []
    assert score_file(forward_scorer, table, out / "table", max_unknown=largest).lines == len(LINES)
