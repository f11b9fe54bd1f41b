"""The command that evaluates; what it does is tested with `keras_encdec.smt.evaluation.evaluate`."""

import json

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.evaluate import COMMAND


@pytest.fixture
def files(tmp_path):
    for name, text in {"ref": "a b c d e", "base": "a b c d f", "one": "a b c d e", "two": "a b c e d"}.items():
        (tmp_path / name).write_text(f"{text}\nthe cat is here today\n")
    return tmp_path


def test_flags_are_passed_on(files):
    flags = [f"--reference={files}/ref", f"--baseline={files}/base", "--bootstrap_samples=10", "--trials=20"]
    systems = [f"--hypotheses=ours={files}/{name}" for name in ("one", "two")]
    done = succeed(in_process(COMMAND, *flags, *systems, "--metric=bleu", "--metric=chrf", f"--json_out={files}/out"))
    assert done.stdout.count("tok:13a") == 1 and done.stdout.count("ours") == 2
    bleu, chrf = json.loads((files / "out").read_text())
    assert (bleu["metric"], chrf["metric"], bleu["trials"]) == ("BLEU", "chrF2", 20)
    assert [len(system["scores"]) for system in bleu["systems"]] == [1, 2]
    done = succeed(in_process(COMMAND, f"--reference={files}/ref", f"--hypotheses={files}/one", "--tokenize=none"))
    assert f"{files}/one     1  100.00" in done.stdout and "tok:none" in done.stdout and not done.stderr
    (files / "beam=4").mkdir()
    path = (files / "two").rename(files / "beam=4" / "two")
    done = succeed(in_process(COMMAND, f"--reference={files}/ref", f"--hypotheses={path}", f"--hypotheses=ours={path}"))
    assert f"\n{path} " in done.stdout and "\nours " in done.stdout
    (files / "ref").write_text("l'eau\n")
    (files / "one").write_text("l&apos;eau\n")
    done = succeed(in_process(COMMAND, f"--reference={files}/ref", f"--hypotheses={files}/one"))
    assert done.stderr.startswith(f"{files}/one: only one of this file and the references has Moses's escapes")


def test_wrong_use_is_reported(files):
    fail(in_process(COMMAND), 2, "--reference: expected reference translations, or --alignments")
    flags = [f"--reference={files}/ref"]
    fail(in_process(COMMAND, *flags), 2, "found neither --hypotheses nor --baseline, expected translations to score.")
    fail(in_process(COMMAND, *flags, "--hypotheses=x="), 2, "--hypotheses=x=: expected NAME=FILE, or a file.")
    fail(in_process(COMMAND, *flags, f"--baseline={files}/one", f"--json_out={files}/one"), 2, "found one file for two")
    wrong = [f"--hypotheses={files}/none", "--metric=bleu", "--metric=meteor"]
    fail(in_process(COMMAND, *flags, *wrong), 2, "found --metric='meteor', expected one of bleu, chrf, ter")
    (files / "two").write_text("x\n")
    fail(in_process(COMMAND, *flags, f"--baseline={files}/two"), 1, "two: found 1 line, expected 2")


def test_alignments_are_evaluated_alone(files):
    for name, text in {"links": "0-0 1-1 2-1 3-3", "gold": "0-0 1-1 2?1", "more": "2-2 3-3"}.items():
        (files / name).write_text(f"{text}\n")
    flags = [f"--alignments=ours={files}/links", f"--reference_alignments={files}/gold"]
    done = succeed(in_process(COMMAND, *flags, f"--possible_alignments={files}/more", f"--json_out={files}/out"))
    assert done.stdout.splitlines() == [
        "1 sentence pair, 2 sure links, 5 possible",
        "system  links  precision  recall    AER",
        "ours        4      1.000   1.000  0.000",
    ]
    [score] = json.loads((files / "out").read_text())
    assert (score["links"], score["error_rate"], score["found_possible"]) == (4, 0.0, 4)
    fail(in_process(COMMAND, *flags[:1]), 2, "expected --alignments with --reference_alignments.")
    fail(
        in_process(COMMAND, *flags, f"--reference={files}/ref"),
        2,
        "found --reference with --alignments: alignments are evaluated alone",
    )
    possible = f"--possible_alignments={files}/more"
    fail(in_process(COMMAND, possible, f"--reference={files}/ref"), 2, "found --reference with --possible_alignments:")
    fail(in_process(COMMAND, *flags, "--unescape", "--trials=9"), 2, "found --unescape with --alignments")
    fail(in_process(COMMAND, *flags, flags[0]), 2, "--alignments: found the name ours twice")
