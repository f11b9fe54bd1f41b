"""The command that extracts phrase tables; what it does is tested with `keras_encdec.smt.extraction.extract`."""

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.extract import COMMAND


@pytest.fixture
def files(tmp_path):
    (tmp_path / "en").write_text("the cat\nthe dog\na b c\n")
    (tmp_path / "fr").write_text("le chat\nle chien\nx\n")
    (tmp_path / "tsv").write_text("the cat\tle chat\nthe dog\tle chien\n\n")
    (tmp_path / "align").write_text("0-0 1-1\n0-0 1-1\n0-0\n")
    return tmp_path


def test_flags_are_passed_on(files):
    flags = f"--alignment={files}/align", f"--output={files}/out", "--processes=1"
    done = succeed(in_process(COMMAND, f"--source={files}/en", f"--target={files}/fr", *flags, "--max_phrase_length=1"))
    lines = (files / "out").read_text().splitlines()
    assert lines[-1] == "the ||| le ||| 1 1 1 1 ||| 0-0 ||| 2 2 2 ||| |||" and len(lines) == 4
    assert done.stderr.startswith("4 phrase pairs, 5 occurrences, from 3 sentence pairs in ")
    assert done.stderr.endswith(f" s: {files}/out\n")
    more = ["--max_sentence_length=2", "--on_error=keep", "--smoothing=good_turing", "--encoding=latin-1"]
    done = succeed(in_process(COMMAND, f"--tsv={files}/tsv", *flags, *more))
    # One pair extracted twice, four once: 2 (1 + 0.1) / (4 + 0.1), and 3 (0 + 0.1) / 2 (1 + 0.1), raised to that.
    assert "the ||| le ||| 0.536585 1 0.536585 1 ||| 0-0 ||| 2 2 2 ||| |||" in (files / "out").read_text()
    assert ", 1 line left out in " in done.stderr


def test_wrong_use_is_an_error_before_any_work(files):
    fail(in_process(COMMAND), 2, "--output is missing", "encdec-extract --help lists the flags.")
    output, tsv = f"--output={files}/out", f"--tsv={files}/tsv"
    for given, found in {
        (): "no text",
        (f"--source={files}/en",): "--source",
        (tsv, f"--target={files}/fr"): "--target and --tsv",
    }.items():
        expected = f"found {found}, expected --source with --target, or --tsv."
        fail(in_process(COMMAND, output, *given), 2, expected)
    for wrong, expected in {
        "--lowercase": "found --lowercase without --tokenize",
        "--max_phrase_length=0": "max_phrase_length=0",
        "--processes=0": "processes=0",
        "--smoothing=some": "smoothing=some",
        "--aligner=giza": "aligner=giza",
    }.items():
        fail(in_process(COMMAND, output, tsv, wrong), 2, expected)
    links = f"--alignment={files}/align"
    fail(in_process(COMMAND, output, tsv, links, "--aligner=hmm"), 2, "found --aligner with --alignment")
    fail(in_process(COMMAND, output, tsv, f"--alignment={files}/none"), 1, f"{files}/none: found no such file")
    assert not (files / "out").exists()
