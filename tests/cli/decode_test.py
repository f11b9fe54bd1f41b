"""The command that translates; what it does is tested with `keras_encdec.smt.decoder.phrase_decoder`."""

import math

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.decode import COMMAND
from keras_encdec.smt import estimate_ngrams


@pytest.fixture
def files(tmp_path):
    (tmp_path / "text").write_text("x y\ny x\n")
    (tmp_path / "en").write_text("a b\nb a\n")
    (tmp_path / "table").write_text("a ||| x ||| 0.5 0.5\na ||| y ||| 0.4 0.4\nb ||| y ||| 0.5 0.5\n")
    estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
    return tmp_path


def flags(files, **others):
    names = {"source": "en", "phrase_table": "table", "language_model": "arpa", "output": "out"}
    paths = {name: files / path for name, path in names.items()}
    return [f"--{name}={value}" for name, value in {**paths, "processes": 1, **others}.items()]


def test_flags_are_passed_on(files):
    done = succeed(in_process(COMMAND, *flags(files)))
    assert "hypotheses of 2 sentences, 0 words copied because the table lacks them, in " in done.stderr
    first = (files / "out").read_text().splitlines()[0]
    assert first.startswith("0 ||| x y  ||| Distortion0= 0 ") and first.endswith(" ||| 0=0 1=1")
    limits = {"nbest_size": 1, "pop_limit": 20, "distortion_limit": 0, "table_limit": 1, "encoding": "latin-1"}
    succeed(in_process(COMMAND, *flags(files, **limits)))
    lines = (files / "out").read_text().splitlines()
    assert [line.split(" ||| ")[1].strip() for line in lines] == ["x y", "y x"]


def test_weights_come_from_a_file_and_from_flags(files):
    weights = "Distortion0= 1", "LM0= 0", "WordPenalty0= 0", "PhrasePenalty0= 0", "LexicalReordering0= 1 2"
    (files / "weights").write_text("\n".join(weights))
    given = [*flags(files, nbest_size=1, weights=files / "weights"), "--weight=TranslationModel0=1 0"]
    zeros = "--weight=LexicalReordering0=0 0"
    fail(in_process(COMMAND, *given), 1, "found weights of LexicalReordering0, expected weights of the decoder's")
    succeed(in_process(COMMAND, *given, zeros))
    assert " ||| -1.38629 ||| " in (files / "out").read_text().splitlines()[0]  # 2 ln 0.5


def test_a_single_weight_replaces_an_initial_weight(files):
    totals = []
    for weight in ("LM0=0.5", "LM0=0", "TranslationModel0=0 0"):
        succeed(in_process(COMMAND, *flags(files, nbest_size=1, weight=weight)))
        totals.append(float((files / "out").read_text().splitlines()[0].split(" ||| ")[3]))
    succeed(in_process(COMMAND, *flags(files, nbest_size=1)))
    line = (files / "out").read_text().splitlines()[0].split(" ||| ")
    lm = float(line[2].split("LM0= ")[1].split()[0])
    assert totals == pytest.approx([float(line[3]), totals[0] - lm / 2, totals[0] - 0.4 * 2 * math.log(0.5)], abs=1e-4)


def test_wrong_use_is_reported(files):
    fail(
        in_process(COMMAND),
        2,
        "--source, --phrase_table, --language_model and --output are missing",
        "encdec-decode --help lists the flags.",
    )
    fail(in_process(COMMAND, *flags(files, max_sentence_length=1)), 1, "en, line 1: found 2 words, expected at most 1")
    fail(in_process(COMMAND, *flags(files, weight="LM0")), 2, '--weight: found "LM0", expected "Name= w [w ...]"')
    fail(in_process(COMMAND, *flags(files, weight="LM0=1 2")), 1, "found 2 weights of LM0, expected 1")
    assert not (files / "out").exists()


def test_a_table_without_the_words_of_the_text_is_reported(files):
    (files / "en").write_text("v w\n\n")
    done = succeed(in_process(COMMAND, *flags(files, nbest_size=1)))
    assert "2 words copied because the table lacks them" in done.stderr
    assert "\nwarning: most words were copied because the table lacks them, so the translations mean" in done.stderr
    assert (files / "out").read_text().startswith("0 ||| v w  ||| ")
