"""The command that makes dictionaries; what it does is tested with `keras_encdec.smt.extraction.dictionary`."""

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.dictionary import COMMAND


@pytest.fixture
def files(tmp_path):
    (tmp_path / "en").write_text("The cat\nThe dog\n")
    (tmp_path / "fr").write_text("Le chat\nLe chien\n")
    (tmp_path / "tsv").write_text("The cat\tLe chat\nThe dog\tLe chien\n")
    (tmp_path / "align").write_text("0-0 1-1\n0-0 1-1\n")
    return tmp_path


def test_flags_are_passed_on(files):
    flags = f"--alignment={files}/align", f"--output={files}/out"
    done = succeed(in_process(COMMAND, f"--source={files}/en", f"--target={files}/fr", *flags))
    assert (files / "out").read_text() == "The\tLe\t2\n"
    assert done.stderr.startswith("1 entry from 2 pairs in ") and done.stderr.endswith(f" s: {files}/out\n")
    more = ["--tokenize", "--lowercase", "--min_count=1", "--reverse", "--on_error=keep", "--encoding=utf-8"]
    done = succeed(in_process(COMMAND, f"--tsv={files}/tsv", *flags, *more))
    assert done.stderr.startswith("3 entries from 2 pairs in ") and done.stderr.count("\n") == 1
    assert (files / "out").read_text() == "chat\tcat\t1\nchien\tdog\t1\nle\tthe\t2\n"


def test_wrong_use_is_an_error_before_any_work(files):
    fail(in_process(COMMAND), 2, "--output is missing", "encdec-dictionary --help lists the flags.")
    output = f"--output={files}/out"
    for given, found in {
        (): "no text",
        (f"--source={files}/en",): "--source",
        (f"--tsv={files}/tsv", f"--target={files}/fr"): "--target and --tsv",
    }.items():
        expected = f"found {found}, expected --source with --target, or --tsv."
        fail(in_process(COMMAND, output, *given), 2, expected)
    fail(in_process(COMMAND, output, f"--tsv={files}/tsv", "--lowercase"), 2, "found --lowercase without --tokenize")
    fail(in_process(COMMAND, output, f"--tsv={files}/tsv", "--min_count=0"), 2, "min_count=0")
    given = f"--tsv={files}/tsv", f"--alignment={files}/none"
    fail(in_process(COMMAND, output, *given), 1, f"{files}/none: found no such file")
    assert not (files / "out").exists()
