"""The command that estimates n-gram models; what it does is tested with `keras_encdec.smt.ngrams.ngram_estimation`."""

from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.ngram import COMMAND
from keras_encdec.smt import NgramModel


def test_flags_are_passed_on(tmp_path):
    (tmp_path / "text").write_text("a b\nb a\n")
    files = f"--input={tmp_path}/text", f"--output={tmp_path}/arpa"
    done = succeed(in_process(COMMAND, *files, "--order=2"))
    assert done.stderr.startswith("n-grams of order 1 to 2: 5, 6, from 2 sentences") and not done.stdout
    assert NgramModel(tmp_path / "arpa").order == 2
    assert "n-grams of order 1 to 4: " in succeed(in_process(COMMAND, *files)).stderr  # of 5: four words at most


def test_wrong_use_is_reported(tmp_path):
    fail(in_process(COMMAND), 2, "--input and --output are missing", "encdec-ngram --help lists the flags.")
    files = f"--input={tmp_path}/none", f"--output={tmp_path}/arpa"
    fail(in_process(COMMAND, *files, "--order=0"), 2, "order=0")
    fail(in_process(COMMAND, *files), 1, f"{tmp_path}/none: found no such file")


def test_the_encoding_is_passed_on(tmp_path):
    (tmp_path / "text").write_bytes(b"caf\xe9\n")
    files = f"--input={tmp_path}/text", f"--output={tmp_path}/arpa"
    fail(in_process(COMMAND, *files), 1, f"{tmp_path}/text, line 1: found bytes that are not UTF-8", "latin-1")
    succeed(in_process(COMMAND, *files, "--encoding=latin-1"))
    assert b"\tcaf\xe9\t" in (tmp_path / "arpa").read_bytes()
