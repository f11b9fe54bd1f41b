"""Tests of the scoring command, each run in a process of its own."""

import collections
import decimal
import fcntl
import gzip
import itertools
import math
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest
from commands import Command, fail, succeed
from toy_models import save_model

from keras_encdec.scoring import TextScorer

TABLES = pathlib.Path(__file__).parents[3] / "shared" / "data" / "tables"
SOURCE = ["le", "la", "chat", "maison", "l'", "été", '"', "|", "R&D", "<b>", "[X]"]
TARGET = ["the", "cat", "house", "'s", "summer", '"', "|", "R&D", "<b>", "caf\udce9", "[X]"]

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


@pytest.fixture(scope="module")
def score():
    command = Command("keras_encdec.cli.score", "encdec-score")
    yield command
    command.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A forward and a reverse model, and the reverse one again as what it is inside: a forward one."""
    folder = tmp_path_factory.mktemp("models")
    save_model(folder / "forward", SOURCE, TARGET, seed=1)
    save_model(folder / "reverse", TARGET, SOURCE, reverse=True, seed=2)
    save_model(folder / "swapped", TARGET, SOURCE, seed=2)
    return folder


@pytest.fixture(scope="module")
def scorer(models):
    return TextScorer(models / "forward")


@pytest.fixture
def out(tmp_path):
    """A folder for nothing but what the command writes."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


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
    score, models, scorer, tmp_path, out, name_in, name_out, end, last
):
    data = end.join(line.encode() for line in LINES) + last
    table = write(tmp_path / name_in, data)
    succeed(score(f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/{name_out}"))
    assert os.listdir(out) == [name_out]
    scores = added(data, read(out / name_out))
    assert scores.shape == (len(LINES), 1)
    # What is written has six digits, and float32 computed it.
    np.testing.assert_allclose(scores[:, 0], expected_probabilities(scorer, LINES.values()), rtol=2e-4)
    assert 0 < scores.min() < 1e-40, "too-long pairs are scored, and never 0"


def test_the_installed_command_says_what_it_did_and_nothing_else(score, models, tmp_path, out):
    table = write(tmp_path / "table", "\n".join(LINES).encode())
    process = score.installed(f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table")
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output == "" and len(errors.splitlines()) == 1
    assert errors.startswith(f"{len(LINES)} lines in ") and errors.endswith(f" lines/s: {out}/table\n")
    again = score(f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/again")
    succeed(again)
    assert read(out / "table") == read(out / "again")


def test_progress_is_shown_on_a_terminal(score, models, tmp_path, out):
    table = write(tmp_path / "table", "\n".join(LINES).encode())
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    script = pathlib.Path(sys.executable).with_name("encdec-score")
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table"]
    subprocess.run([script, *flags], stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "100%" in shown and shown.count("lines/s") > 1


def test_all_scores_together(score, models, scorer, tmp_path, out):
    data = "\n".join(LINES).encode()
    table = write(tmp_path / "table", data)
    flags = [f"--reverse_model_dir={models}/reverse", "--unknown_count"]
    succeed(score(f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table", *flags))
    forward, reverse, unknown = added(data, read(out / "table")).T
    np.testing.assert_allclose(forward, expected_probabilities(scorer, LINES.values()), rtol=2e-4)
    outside = [sum(word not in TARGET for word in target.split()) for _, target in LINES.values()]
    assert max(outside) == 2
    np.testing.assert_allclose(unknown, [math.exp(number) for number in outside], rtol=1e-5)

    # The reverse model's column is that of the same weights on the table with its sides swapped.
    swapped = []
    for line in LINES:
        source, target, rest = line.split("|||", 2)
        swapped.append("|||".join([target, source, rest]))
    table = write(tmp_path / "swapped", "\n".join(swapped).encode())
    succeed(score(f"--model_dir={models}/swapped", f"--input={table}", f"--output={out}/swapped"))
    np.testing.assert_allclose(added(table.read_bytes(), read(out / "swapped"))[:, 0], reverse, rtol=2e-4)


def test_a_dry_run_reads_everything_and_leaves_nothing(score, models, tmp_path, out):
    data = "\n".join(LINES).encode()
    table, ini = write(tmp_path / "table", data), write(tmp_path / "ini", INI.encode())
    flags = [f"--model_dir={models}/forward", f"--output={out}/table", "--dry_run"]
    done = score(f"--input={table}", f"--moses_ini={ini}", f"--moses_ini_out={out}/ini", *flags)
    succeed(done)
    assert "a dry run, nothing was written" in done.stderr and os.listdir(out) == []
    write(tmp_path / "table", data + b"\nbad")
    fail(score(f"--input={table}", *flags), 1, f"{table}, line {len(LINES) + 1}: found 1 field")
    succeed(score(f"--input={table}", flags[0], "--output=/dev/stdout", "--dry_run", "--on_error=keep"))


def test_bfloat16_gives_nearly_the_same_scores(score, models, scorer, tmp_path, out):
    data = "\n".join(LINES).encode()
    table = write(tmp_path / "table", data)
    succeed(score(f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table", "--dtype=bfloat16"))
    scores, expected = added(data, read(out / "table"))[:, 0], expected_probabilities(scorer, LINES.values())
    assert not np.allclose(scores, expected, rtol=2e-4), "computed in float32 after all"
    likely = expected > 1e-30
    assert likely.sum() > 3
    np.testing.assert_allclose(np.log(scores[likely]), np.log(expected[likely]), rtol=0.1, atol=0.3)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_a_table_that_is_not_utf8_needs_its_encoding(score, models, scorer, tmp_path, out, encoding):
    # Byte 0x81 is nothing in cp1252, and neither is valid UTF-8.
    data = b"l&apos; \xe9t\xe9 ||| summer caf\xe9 ||| 1 1 ||| \x81\nl' ||| \x81 \xff ||| 0.5 1\n"
    table = write(tmp_path / "table", data)
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table"]
    fail(score(*flags), 1, f"{table}, line 1: found bytes that are not UTF-8", "--encoding=latin-1")
    assert os.listdir(out) == []
    succeed(score(*flags, f"--encoding={encoding}"))
    scores = added(data, read(out / "table"))[:, 0]
    source = "l' \udce9t\udce9" if encoding == "utf-8" else "l' été"
    target = "summer caf\udce9" if encoding == "utf-8" else "summer café"
    np.testing.assert_allclose(scores[0], expected_probabilities(scorer, [(source, target)]), rtol=2e-4)


INI = """[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=/old/table input-factor=0 output-factor=0

[weight]
UnknownWordPenalty0= 1
TranslationModel0= 0.25 0.35
# a comment
"""


def test_moses_ini_is_rewritten_for_the_new_table(score, models, tmp_path, out):
    table = write(tmp_path / "table", "\n".join(LINES).encode())
    (tmp_path / "moses.ini").write_text(INI)
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table.gz"]
    flags += [f"--moses_ini={tmp_path}/moses.ini", f"--moses_ini_out={out}/moses.ini"]
    succeed(score(*flags))
    expected = INI.replace("num-features=2", "num-features=3").replace("/old/table", f"{out}/table.gz")
    assert (out / "moses.ini").read_text() == expected.replace("0.25 0.35", "0.25 0.35 0.3")
    succeed(score(*flags, f"--reverse_model_dir={models}/reverse", "--unknown_count"))
    expected = expected.replace("num-features=3", "num-features=5")
    assert (out / "moses.ini").read_text() == expected.replace("0.25 0.35", "0.25 0.35 0.3 0.3 0")
    assert sorted(os.listdir(out)) == ["moses.ini", "table.gz"]


def test_a_moses_ini_that_does_not_fit_leaves_no_table(score, models, tmp_path, out):
    table = write(tmp_path / "table", "\n".join(LINES).encode())
    ini = tmp_path / "moses.ini"
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table", f"--moses_ini={ini}"]
    ini.write_text(INI.replace("num-features=2", "num-features=4"))
    fail(score(*flags, f"--moses_ini_out={out}/ini"), 1, f"{ini}, line 3: found num-features=4, expected 2")
    ini.unlink()
    fail(score(*flags, f"--moses_ini_out={out}/ini"), 1, f"{ini}: could not be read", "check --moses_ini")
    ini.write_text(INI)
    missing = out / "missing" / "ini"
    fail(score(*flags, f"--moses_ini_out={missing}"), 1, f"{missing}: found no such file or directory")
    fail(score(*flags, f"--moses_ini_out={out}/ini", "--moses_feature=X"), 1, "found 0 features named 'X'")
    assert os.listdir(out) == []


TSV = {
    "le chat\tthe cat": ("le chat", "the cat"),
    "l&apos; été\t&apos;s summer dog\tkept": ("l' été", "'s summer dog"),
    "\tthe": ("", "the"),
    "le\t": ("le", ""),
    f"{'le ' * 80}\t{'the ' * 70}\t7\t": ("le " * 80, "the " * 70),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv_gets_log_probabilities(score, models, scorer, tmp_path, out, end):
    pairs = write(tmp_path / "pairs.tsv", end.join(TSV).encode())
    flags = [f"--model_dir={models}/forward", f"--input={pairs}", f"--output={out}/scored.tsv", "--format=tsv"]
    flags += [f"--reverse_model_dir={models}/reverse", "--unknown_count", "--token_scores"]
    succeed(score(*flags))
    scored = (out / "scored.tsv").read_bytes().decode().split(end)
    assert len(scored) == len(TSV)
    words = [(source.split(), target.split()) for source, target in TSV.values()]
    expected, backward = scorer.score(words), TextScorer(models / "reverse").score(words)
    for line, before, total, reverse, (_, target) in zip(scored, TSV, expected, backward, words, strict=True):
        assert line.startswith(before + "\t")
        columns = line[len(before) + 1 :].split("\t")
        assert len(columns) == 4
        np.testing.assert_allclose([float(x) for x in columns[:2]], [total, reverse], rtol=1e-5, atol=2e-4)
        assert columns[2] == str(sum(word not in TARGET for word in target))
        tokens = [decimal.Decimal(token) for token in columns[3].split(" ")]
        assert len(tokens) == len(target) + 1, "the end of sequence has its score"
        assert sum(tokens) == decimal.Decimal(columns[0]), "to the digit"


def test_tsv_of_raw_text_is_tokenized_as_the_model_was_trained(score, models, tmp_path, out):
    pytest.importorskip("tensorflow_text")
    save_model(tmp_path / "raw", ["le", "chat", ".", "&"], ["the", "cat", "."], tokenization={"lowercase": True})
    pairs = write(tmp_path / "pairs.tsv", b"Le chat.\tThe CAT.\nle chat &amp;\tthe cat .\n")
    flags = [f"--model_dir={tmp_path}/raw", f"--input={pairs}", f"--output={out}/tsv", "--format=tsv"]
    succeed(score(*flags, "--token_scores"))
    lines = (out / "tsv").read_text().splitlines()
    scorer = TextScorer(tmp_path / "raw")
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
def test_a_malformed_line_stops_and_leaves_nothing(score, models, tmp_path, out, case):
    line, sentence = MALFORMED[case]
    table = write(tmp_path / "table.gz", b"\n".join([GOOD, GOOD, line, GOOD]) + b"\n")
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table"]
    fail(score(*flags), 1, f"encdec-score: {table}, line 3: {sentence}", "or give --on_error=keep to leave such lines")
    assert os.listdir(out) == []


def test_malformed_lines_are_kept_if_asked_for(score, models, scorer, tmp_path, out):
    bad = [line for line, _ in MALFORMED.values()]
    lines = [bad[0], GOOD, *itertools.chain.from_iterable((line, GOOD) for line in bad)]
    table = write(tmp_path / "table", b"\n".join(lines) + b"\n")
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table", "--on_error=keep"]
    process = succeed(score(*flags, "--unknown_count"))
    assert f"{len(bad) + 1} malformed lines were passed through unscored." in process.stderr
    result = (out / "table").read_bytes().split(b"\n")
    assert result.pop() == b"" and len(result) == len(lines)
    probability = expected_probabilities(scorer, [("le", "the")])[0]
    for before, after in zip(lines, result, strict=True):
        if before == GOOD:
            scores = added(before, after)[0]
            np.testing.assert_allclose(scores, [probability, 1], rtol=2e-4)
        elif after != before:
            # A line that has scores gets neutral ones, whose logarithm is 0.
            assert added(before, after).tolist() == [[1, 1]]
    assert [before == after for before, after in zip(lines, result, strict=True)].count(True) == 5

    table = write(tmp_path / "pairs", b"le\tthe\nno tab\nle\tcaf\xe9\n\nle\tthe")
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/tsv", "--format=tsv"]
    fail(score(*flags), 1, f"{table}, line 2: found no tab, expected source and target separated by one")
    process = succeed(score(*flags, "--on_error=keep", "--unknown_count", "--token_scores"))
    assert "3 malformed lines were passed through unscored." in process.stderr
    result = (out / "tsv").read_bytes().split(b"\n")
    assert result[0] == result[4] and result[0].startswith(b"le\tthe\t-")
    assert result[1:4] == [b"no tab\t0\t0\t", b"le\tcaf\xe9\t0\t0\t", b"\t0\t0\t"]


def test_an_input_that_cannot_be_read_is_named(score, models, tmp_path, out):
    flags = [f"--model_dir={models}/forward", f"--output={out}/table.gz"]
    data = gzip.compress(b"\n".join(b"%s %d" % (GOOD, i * i) for i in range(100_000)))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(data[: len(data) // 2])
    process = score(*flags, f"--input={cut}")
    fail(process, 1, f"{cut}, line ", "found the end of the file inside gzipped data, expected a complete gzip file")
    (tmp_path / "empty").touch()
    fail(score(*flags, f"--input={tmp_path}/empty"), 1, f"{tmp_path}/empty: found an empty file, expected at least one")
    fail(score(*flags, f"--input={tmp_path}"), 1, f"{tmp_path}: found a directory", "name a file")
    fail(score(*flags, f"--input={tmp_path}/none"), 1, f"{tmp_path}/none: found no such file", "check the path")
    write(tmp_path / "table", GOOD)
    process = score(*flags, f"--input={tmp_path}/table", "--encoding=klingon")
    fail(process, 1, "found the unknown encoding 'klingon'", "such as utf-8, latin-1")
    assert os.listdir(out) == []


def test_an_output_that_cannot_be_written_is_named(score, models, tmp_path, out):
    table = write(tmp_path / "table", GOOD)
    flags = [f"--model_dir={models}/forward", f"--input={table}"]
    fail(score(*flags, f"--output={out}/none/x"), 1, f"{out}/none/x: found no such file or directory", "check the path")
    fail(score(*flags, f"--output={out}"), 1, f"{out}: found a directory", "name a file")
    assert os.listdir(out) == []


def test_a_model_that_cannot_be_used_is_named(score, models, tmp_path, out):
    table = write(tmp_path / "table", GOOD)
    flags = [f"--input={table}", f"--output={out}/table"]
    fail(score(*flags, "--model_dir=/none"), 1, "/none: found no such directory, expected a model directory")
    process = score(*flags, f"--model_dir={models}/reverse")
    fail(process, 1, f"{models}/reverse: found a model of p(source | target)", "expected one of p(target | source)")
    process = score(*flags, f"--model_dir={models}/forward", f"--reverse_model_dir={models}/forward")
    fail(process, 1, f"{models}/forward: found a model of p(target | source)", "check --reverse_model_dir")
    model = shutil.copytree(models / "forward", tmp_path / "model")
    (model / "target.vocab").write_text("the\n")
    fail(score(*flags, f"--model_dir={model}"), 1, f"{model}/target.vocab: found 1 words, expected {len(TARGET)}")
    (model / "config.json").write_text('{"format": 99, "made_by": "keras-encdec 9.9"}')
    fail(score(*flags, f"--model_dir={model}"), 1, "found a model directory of format 99, made by keras-encdec 9.9")
    assert os.listdir(out) == []


def test_wrong_use_is_told_before_anything_is_done(score, models, tmp_path, out):
    table = write(tmp_path / "table", GOOD)
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table"]
    hint = "encdec-score --help lists the flags."
    fail(score(), 2, "--model_dir must have a value", "--input must have", "--output must have", hint)
    for extra, sentence in {
        "--modeldir=x": "Unknown command line flag 'modeldir'. Did you mean: model_dir",
        "--format=xml": "value should be one of <phrase_table|tsv|nbest>",
        "table.gz": "found the argument 'table.gz', expected flags only.",
        "--moses_ini=x": "found one of --moses_ini and --moses_ini_out, expected both.",
        "--moses_feature=TM": "found --moses_feature without --moses_ini, expected both.",
        "--token_scores": "found --token_scores with --format=phrase_table, expected it with --format=tsv.",
        f"--output={table}": "found one file for two purposes, expected another for each input and output.",
        "--flagfile=/none": "/none",
    }.items():
        fail(score(*flags, extra), 2, sentence, hint)
    ini = [f"--moses_ini={table}x", f"--moses_ini_out={out}/ini", "--format=tsv"]
    fail(score(*flags, *ini), 2, "found --moses_ini with --format=tsv, expected it with a phrase table.", hint)
    assert os.listdir(out) == [] and table.read_bytes() == GOOD


def test_help_lists_the_flags(score):
    process = succeed(score("--help"))
    assert "writes a phrase table, a list of pairs or an n-best list again" in process.stdout
    assert "--model_dir: Directory of the model" in process.stdout and "--[no]unknown_count" in process.stdout
    assert process.stderr == ""


def test_an_unusable_backend_is_told_in_a_sentence(score):
    process = score.installed("--model_dir=x", env={**os.environ, "KERAS_BACKEND": "abacus"})
    process = subprocess.CompletedProcess([], process.wait(), *process.communicate())
    fail(process, 1, "found no usable backend of Keras", "abacus")


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_left_clean(score, models, tmp_path, small_disk):
    table = write(tmp_path / "table", b"\n".join([GOOD] * 5000))
    flags = [f"--model_dir={models}/forward", f"--input={table}", f"--output={small_disk}/table"]
    fail(score(*flags), 1, f"{small_disk}/table: found the disk full when trying to write; free space or name a path")
    assert os.listdir(small_disk) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_stopped_leaves_nothing(score, models, tmp_path, out, number):
    words = [f"w{i}" for i in range(300)]
    lines = (f"{a} {b} ||| {b} {a} {c} ||| 0.5\n" for a in words for b in words for c in words[:5])
    table = write(tmp_path / "table", "".join(lines).encode())
    process = score.installed(f"--model_dir={models}/forward", f"--input={table}", f"--output={out}/table")
    while not os.listdir(out):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(2)  # among the scores
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 128 + number, errors
    assert errors == "encdec-score: interrupted; unfinished output was removed.\n"
    assert os.listdir(out) == []


REAL = sorted(TABLES.glob("*.phrase-table.gz")) if TABLES.is_dir() else []


@pytest.mark.skipif(not REAL, reason="no real tables in ../shared/data/tables")
@pytest.mark.parametrize("table", REAL, ids=lambda path: path.name.removesuffix(".phrase-table.gz"))
def test_real_tables_come_back_line_for_line(score, tmp_path, out, table):
    data = b"\n".join(gzip.decompress(table.read_bytes()).split(b"\n")[:30_000])
    part = write(tmp_path / "part.gz", data)
    words = collections.Counter(data.decode("latin-1").replace("|||", " ").split(" "))
    shortlist = [word for word, _ in words.most_common(500) if word.isascii() and word.isalpha()]
    save_model(tmp_path / "model", shortlist, shortlist)
    latin = table.name.startswith("de-en.basic-surface-only")
    flags = [f"--model_dir={tmp_path}/model", f"--input={part}", f"--output={out}/scored.gz", "--unknown_count"]
    flags += ["--encoding=latin-1"] * latin
    succeed(score(*flags))
    probability, unknown = added(data, read(out / "scored.gz")).T
    assert len(probability) == len(data.splitlines())
    assert (probability > 0).all() and (probability < 1).all() and (unknown >= 1).all()
    assert len(set(probability)) > 500
