"""Tests of writing files again with a model's scores."""

import collections
import decimal
import gzip
import itertools
import math
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
from toy_models import TARGET_WORDS, save_model

from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring import TextScorer, score_file

TABLES = pathlib.Path(__file__).parents[3] / "shared" / "data" / "tables"

# Lines of two scores, of every form that Moses reads, and the words that the model is to see.
LINES = {
    "le chat ||| the cat ||| 0.5 0.25 ||| 0-0 1-1 ||| 3 4 2 ||| |||": ("le chat", "the cat"),
    "le chat ||| the cat ||| 0.125 1e-05 ||| 0-0 1-1 ||| 9 9 9": ("le chat", "the cat"),
    "la maison ||| house ||| 0.5 0.25": ("la maison", "house"),
    "la|||the|||.5 1.5E-05|||0-0": ("la", "the"),
    "l&apos; été ||| &apos;s summer ||| 1 1 |||  ||| 1 1 1": ("l' été", "'s summer"),
    "&quot; &#124; R&amp;D &lt;b&gt; &#91;X&#93; ||| &quot; &#124; R&amp;D &lt;b&gt; &#91;X&#93; ||| 1 1": (
        '" | R&D <b> [X]',
        '" | R&D <b> [X]',
    ),
    "le|DET|le chat|NOM|chat ||| the|DT cat|NN ||| 0.5 0.5 ||| 0-0 ||| 1 1 1 ||| dom 1 ||| {{Counts 1 2}}": (
        "le chat",
        "the cat",
    ),
    "  le   chat  |||\tthe\tcat ||| 0.5  0.5  ||| x": ("le chat", "the cat"),
    "chien inconnu ||| unknown the dog ||| 0.5 0.5 ||| ||| ||| ||| {{a b}} ||| eighth": (
        "chien inconnu",
        "unknown the dog",
    ),
    "||| the ||| 0.5 0.5": ("", "the"),
    "le ||| ||| 0.5 0.5": ("le", ""),
    f"{'le ' * 80}||| {'the ' * 70}||| 0.5 0.5 ||| 0-0": ("le " * 80, "the " * 70),
}


def read(path):
    data = path.read_bytes()
    return gzip.decompress(data) if path.name.endswith(".gz") else data


def write(path, data):
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith(".gz") else data)
    return path


def added(before, after):
    """The scores that were added to a table; asserts that nothing else changed, in any line."""
    assert before.count(b"\n") == after.count(b"\n")
    scores = []
    for old, new in zip(before.split(b"\n"), after.split(b"\n"), strict=True):
        if not old:
            assert not new
            continue
        fields = old.split(b"|||")
        head = b"|||".join(fields[:3]).rstrip(b" \t\r")
        tail = old[len(head) :]
        assert new.startswith(head + b" ") and new.endswith(tail), (old, new)
        scores.append([float(score) for score in new[len(head) : len(new) - len(tail)].split()])
    return np.array(scores)


def expected_probabilities(scorer, pairs):
    return np.exp(np.maximum(scorer.score([(source.split(), target.split()) for source, target in pairs]), -100))


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "table", "\n".join(LINES).encode())


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
    # What is written has six digits, and float32 computed it.
    np.testing.assert_allclose(scores[:, 0], expected_probabilities(forward_scorer, LINES.values()), rtol=2e-4)
    assert 0 < scores.min() < 1e-40, "too-long pairs are scored, and never 0"
    assert (summary.lines, summary.malformed, summary.output) == (len(LINES), 0, out / name_out)
    assert re.fullmatch(rf"{len(LINES)} lines in \d+\.\d s, [\d,]+ lines/s: {out / name_out}", str(summary))


def test_a_model_is_a_path_a_directory_or_a_scorer(model_dirs, forward_scorer, table, out):
    path = model_dirs / "forward"
    for name, model in {"path": path, "directory": ModelDirectory.load(path), "scorer": forward_scorer}.items():
        score_file(model, table, out / name)
    assert read(out / "path") == read(out / "directory") == read(out / "scorer")


def test_progress_is_told(forward_scorer, table, out):
    told = []

    class Counter:
        def __init__(self, lines):
            self.count, self.seconds, self.lines = 0, 2.0, lines

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
    # Byte 0x81 is nothing in cp1252, and neither is valid UTF-8.
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


INI = """[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=/old/table input-factor=0 output-factor=0

[weight]
UnknownWordPenalty0= 1
TranslationModel0= 0.25 0.35
# a comment
"""


@pytest.fixture
def inis(tmp_path, out):
    (tmp_path / "moses.ini").write_text(INI)
    return {"moses_ini": tmp_path / "moses.ini", "moses_ini_out": out / "moses.ini"}


def test_moses_ini_is_rewritten_for_the_new_table(forward_scorer, reverse_scorer, table, out, inis):
    summary = score_file(forward_scorer, table, out / "table.gz", **inis)
    assert summary.notices == ()
    expected = INI.replace("num-features=2", "num-features=3").replace("/old/table", f"{out}/table.gz")
    assert (out / "moses.ini").read_text() == expected.replace("0.25 0.35", "0.25 0.35 0.3")
    more = {"reverse_model_dir": reverse_scorer, "unknown_count": True}
    score_file(forward_scorer, table, out / "table.gz", **inis, **more)
    expected = expected.replace("num-features=3", "num-features=5")
    assert (out / "moses.ini").read_text() == expected.replace("0.25 0.35", "0.25 0.35 0.3 0.3 0")
    assert sorted(os.listdir(out)) == ["moses.ini", "table.gz"]


def test_what_is_to_be_known_of_a_moses_ini_is_in_the_summary(forward_scorer, table, out, inis):
    inis["moses_ini"].write_text(INI.replace("PhraseDictionaryMemory", "PhraseDictionaryCompact"))
    summary = score_file(forward_scorer, table, out / "table", **inis)
    assert len(summary.notices) == 1 and "was a PhraseDictionaryCompact" in summary.notices[0]


def test_a_moses_ini_that_does_not_fit_leaves_no_table(forward_scorer, table, out, inis):
    def refused(sentence, **changed):
        with pytest.raises(InputError, match=re.escape(sentence)):
            score_file(forward_scorer, table, out / "table", **(inis | changed))

    ini = inis["moses_ini"]
    ini.write_text(INI.replace("num-features=2", "num-features=4"))
    refused(f"{ini}, line 3: found num-features=4, expected 2")
    ini.unlink()
    refused(f"{ini}: could not be read (No such file or directory); check --moses_ini.")
    ini.write_text(INI)
    missing = out / "missing" / "ini"
    refused(f"{missing}: found no such file or directory", moses_ini_out=missing)
    refused("found 0 features named 'X'", moses_feature="X")
    assert os.listdir(out) == []


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
        forward_scorer, pairs, out / "scored", format, source=source, reverse_model_dir=reverse_scorer,
        unknown_count=True, length=True, token_scores=True,
    )  # fmt: skip
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
    score_file(scorer, pairs, out / "tsv", "tsv", token_scores=True)
    lines = (out / "tsv").read_text().splitlines()
    words = ["le", "chat"], ["the", "cat", "."]
    expected = scorer.score([([*words[0], "."], words[1]), ([*words[0], "&", "amp", ";"], words[1])])
    np.testing.assert_allclose([float(line.split("\t")[2]) for line in lines], expected, atol=1e-4)
    assert [len(line.split("\t")[3].split()) for line in lines] == [4, 4]


GOOD = b"le ||| the ||| 0.5 0.25 ||| 0-0"
MALFORMED = {
    "missing field": (b"le ||| the", "found 2 fields, expected at least 3 fields"),
    "number of scores": (b"le ||| the ||| 0.5", "found 1 score, expected 2 as on line 1"),
    "no scores": (b"le ||| the ||| ||| 0-0", "found no scores, expected at least one score"),
    "score": (b"le ||| the ||| 0.5 nan", 'found the score "nan", expected a number'),
    "blank": (b"", "found a blank line, expected at least 3 fields"),
    "not UTF-8": (b"le ||| caf\xe9 ||| 0.5 0.5", 'found bytes that are not UTF-8 (0xe9 in "caf\\xe9"), expected UTF-8'),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_line_stops_and_leaves_nothing(forward_scorer, tmp_path, out, case):
    line, sentence = MALFORMED[case]
    table = write(tmp_path / "table.gz", b"\n".join([GOOD, GOOD, line, GOOD]) + b"\n")
    with pytest.raises(InputError, match=re.escape(f"{table}, line 3: {sentence}")) as caught:
        score_file(forward_scorer, table, out / "table")
    assert "or give --on_error=keep to write such lines with a neutral score" in str(caught.value)
    assert os.listdir(out) == []


def test_malformed_lines_are_kept_if_asked_for(forward_scorer, tmp_path, out):
    bad = [line for line, _ in MALFORMED.values()]
    lines = [bad[0], GOOD, *itertools.chain.from_iterable((line, GOOD) for line in bad)]
    table = write(tmp_path / "table", b"\n".join(lines) + b"\n")
    summary = score_file(forward_scorer, table, out / "table", on_error="keep", unknown_count=True)
    assert summary.malformed == len(bad) + 1
    result = (out / "table").read_bytes().split(b"\n")
    assert result.pop() == b"" and len(result) == len(lines)
    probability = expected_probabilities(forward_scorer, [("le", "the")])[0]
    for before, after in zip(lines, result, strict=True):
        if before == GOOD:
            scores = added(before, after)[0]
            np.testing.assert_allclose(scores, [probability, 1], rtol=2e-4)
        elif after != before:
            # A line that has scores gets neutral ones, whose logarithm is 0.
            assert added(before, after).tolist() == [[1, 1]]
    assert [before == after for before, after in zip(lines, result, strict=True)].count(True) == 5

    pairs = write(tmp_path / "pairs", b"le\tthe\nno tab\nle\tcaf\xe9\n\nle\tthe")
    with pytest.raises(InputError, match=f"{pairs}, line 2: found no tab, expected source and target separated by one"):
        score_file(forward_scorer, pairs, out / "tsv", "tsv")
    columns = {"unknown_count": True, "token_scores": True}
    assert score_file(forward_scorer, pairs, out / "tsv", "tsv", on_error="keep", **columns).malformed == 3
    result = (out / "tsv").read_bytes().split(b"\n")
    assert result[0] == result[4] and result[0].startswith(b"le\tthe\t-")
    assert result[1:4] == [b"no tab\t0\t0\t", b"le\tcaf\xe9\t0\t0\t", b"\t0\t0\t"]


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
            forward_scorer, table, out / f"{max_tokens}", format, unknown_count=True, max_tokens=max_tokens, **arguments
        )
        assert (summary.lines, summary.malformed, summary.too_long) == (4, 0, 2 if max_tokens else 0)
    assert "2 lines of more than 3 tokens (max_tokens) were written with a neutral score." in summary.remarks
    everything, bounded = ((out / name).read_bytes().splitlines() for name in ("None", "3"))
    assert [neutral in line for line in bounded] == [False, True, True, False]
    assert bounded[0] == everything[0] and bounded[3] == everything[3]


@pytest.mark.parametrize("dry_run", [False, True])
def test_unknown_words_are_counted_and_many_are_warned_of(forward_scorer, reverse_scorer, tmp_path, out, dry_run):
    table = write(tmp_path / "table", b"le chien dort ||| the dog ||| 1\nle chat ||| a b c ||| 1\nbad\n")
    summary = score_file(
        forward_scorer, table, out / "table", reverse_model_dir=reverse_scorer, on_error="keep", dry_run=dry_run
    )
    assert [(words.model, words.side, words.words, words.unknown) for words in summary.unknown_words] == [
        ("model", "source", 5, 2), ("model", "target", 5, 4),
        ("reverse model", "source", 5, 2), ("reverse model", "target", 5, 4),
    ]  # fmt: skip
    assert summary.remarks[0].startswith("source: 40.00 % of the 5 words are unknown to the model; target: 80.00 %")
    assert [remark[:50] for remark in summary.remarks if "warning" in remark] == [
        "warning: most of the target words are unknown to t"
    ] * 2


def test_a_language_models_sources_have_no_unknown_words(tmp_path, out):
    save_model(tmp_path / "lm", [], TARGET_WORDS, language_model=True)
    table = write(tmp_path / "table", b"le chien ||| the dog ||| 1\n")
    [words] = score_file(tmp_path / "lm", table, out / "table").unknown_words
    assert (words.side, words.words, words.unknown) == ("target", 2, 1)


def test_a_model_without_its_weights_is_refused(model_dirs, tmp_path, table, out):
    without = ModelDirectory.load(model_dirs / "forward", weights=False)
    with pytest.raises(InputError, match="forward: found a model directory without its weights"):
        score_file(without, table, out / "table")
    assert os.listdir(out) == []


def test_an_input_that_cannot_be_read_is_named(forward_scorer, tmp_path, out):
    def refused(path, sentence, remedy="", **arguments):
        with pytest.raises(InputError, match=re.escape(sentence)) as caught:
            score_file(forward_scorer, path, out / "table.gz", **arguments)
        assert remedy in str(caught.value)

    data = gzip.compress(b"\n".join(b"%s %d" % (GOOD, i * i) for i in range(20_000)))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(data[: len(data) // 2])
    refused(cut, f"{cut}, line ", "found the end of the file inside gzipped data, expected a complete gzip file")
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", f"{tmp_path}/empty: found an empty file, expected at least one")
    refused(tmp_path, f"{tmp_path}: found a directory", "name a file")
    refused(tmp_path / "none", f"{tmp_path}/none: found no such file", "check the path")
    write(tmp_path / "table", GOOD)
    unknown = "found the unknown encoding 'klingon'"
    refused(tmp_path / "table", unknown, "such as utf-8, latin-1", encoding="klingon")
    assert os.listdir(out) == []


def test_an_output_that_cannot_be_written_is_named(forward_scorer, table, out):
    with pytest.raises(InputError, match=f"{out}/none/x: found no such file or directory.*check the path"):
        score_file(forward_scorer, table, out / "none" / "x")
    with pytest.raises(InputError, match=f"{out}: found a directory.*name a file"):
        score_file(forward_scorer, table, out)
    assert os.listdir(out) == []


def test_a_model_that_cannot_be_used_is_named(model_dirs, tmp_path, table, out):
    def refused(model, *sentences, **arguments):
        with pytest.raises(InputError) as caught:
            score_file(model, table, out / "table", **arguments)
        for sentence in sentences:
            assert sentence in str(caught.value)

    forward, reverse = model_dirs / "forward", model_dirs / "reverse"
    refused("/none", "/none: found no such directory, expected a model directory")
    refused(reverse, f"{reverse}: found a model of p(source | target)", "expected one of p(target | source)")
    reversed_twice = f"{forward}: found a model of p(target | source)"
    refused(forward, reversed_twice, "check --reverse_model_dir", reverse_model_dir=forward)
    model = shutil.copytree(forward, tmp_path / "model")
    (model / "target.vocab").write_text("the\n")
    refused(model, f"{model}/target.vocab: found it changed since the model was trained, expected the file of")
    (model / "config.json").write_text('{"format": 99, "made_by": "keras-encdec 9.9"}')
    refused(model, "found a model directory of format 99, made by keras-encdec 9.9")
    assert os.listdir(out) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"format": "xml"}, "found format=xml, expected one of phrase_table, tsv, parallel, nbest"),
        ({"format": "sentences"}, "found format=sentences, expected one of phrase_table, tsv, parallel, nbest"),
        ({"moses_ini": "x"}, "found one of moses_ini and moses_ini_out, expected both"),
        ({"moses_feature": "TM"}, "found moses_feature without moses_ini, expected both"),
        (
            {"moses_ini": "x", "moses_ini_out": "y", "format": "tsv"},
            "found moses_ini with format=tsv, expected it with a phrase table",
        ),
        (
            {"moses_ini": "x", "moses_ini_out": "y", "output": "-"},
            "found moses_ini with output=-, expected a file, which it is to name",
        ),
        (
            {"token_scores": True},
            "found token_scores with format=phrase_table, expected it with format=tsv or parallel",
        ),
        ({"source": "x"}, "found source with format=phrase_table, expected it with format=parallel or nbest"),
        ({"feature_name": "R"}, "found feature_name with format=phrase_table, expected it with format=nbest"),
        ({"format": "parallel"}, "found format=parallel without source, expected the sentences that were translated"),
        ({"dtype": "float16"}, "found dtype='float16', expected 'float32' or 'bfloat16'"),
        ({"on_error": "skip"}, "found on_error='skip', expected 'stop' or 'keep'"),
        ({"max_tokens": 0}, "found max_tokens=0, expected 1 or more"),
    ],
)
def test_arguments_that_contradict_are_refused(forward_scorer, table, out, arguments, sentence):
    with pytest.raises(ValueError) as caught:
        score_file(**({"model_dir": forward_scorer, "input": table, "output": out / "table"} | arguments))
    assert str(caught.value).startswith(sentence)
    assert os.listdir(out) == []


def test_an_output_that_is_an_input_is_refused(forward_scorer, tmp_path, table):
    before = table.read_bytes()
    (tmp_path / "link").symlink_to(table)
    with pytest.raises(ValueError, match="found one file for two purposes, expected another for each input and output"):
        score_file(forward_scorer, table, tmp_path / "link")
    assert table.read_bytes() == before


@pytest.fixture
def small_disk(disk):
    return disk("100k")


def test_a_full_disk_is_told_and_left_clean(forward_scorer, tmp_path, small_disk):
    table = write(tmp_path / "table", b"\n".join([GOOD] * 5000))
    full = f"{small_disk}/table: found the disk full when trying to write; free space or name a path"
    with pytest.raises(InputError, match=full):
        score_file(forward_scorer, table, small_disk / "table")
    assert os.listdir(small_disk) == []


REAL = sorted(TABLES.glob("*.phrase-table.gz")) if TABLES.is_dir() else []


@pytest.mark.skipif(not REAL, reason="no real tables in ../shared/data/tables")
@pytest.mark.parametrize("table", REAL, ids=lambda path: path.name.removesuffix(".phrase-table.gz"))
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
