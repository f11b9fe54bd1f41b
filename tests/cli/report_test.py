"""The command that writes reports; what it writes is tested with `keras_encdec.analysis.report`."""

import sys

from commands import fail, succeed
from in_process import in_process

from keras_encdec.analysis import ReportOptions, ReportSummary, report
from keras_encdec.cli.report import COMMAND


def test_flags_are_passed_on(tmp_path, monkeypatch):
    calls = []

    def stub(*arguments, say, **named):
        calls.append((arguments, named))
        say("Scoring.")
        page = tmp_path / "index.html"
        return ReportSummary(page, ("scores", "words"), 2.0, ("warning: Most words are unknown.",), 1_200_000)

    monkeypatch.setattr(sys.modules[report.__module__], "report", stub)
    monkeypatch.setattr("keras_encdec.cli.report.check_paths", lambda *paths, folders: None)
    monkeypatch.setattr("keras_encdec.cli.report.check_has_history", lambda path: None)
    options = {
        "samples": 2,
        "pairs": 7,
        "map_words": 8,
        "map_phrases": 9,
        "seed": 4,
        "encoding": "latin-1",
    }
    given = [f"--{name}={value}" for name, value in options.items()]
    done = succeed(
        in_process(
            COMMAND,
            "--model_dir=libreoffice_en_fr",
            "--output=o",
            "--phrase_table=t",
            "--source=s",
            "--target=r",
            "--phrase=le chat, noir",
            "--phrase=été",
            "--compare_with=n",
            *given,
        )
    )
    files = {
        "model_dir": "libreoffice_en_fr",
        "output": "o",
        "phrase_table": "t",
        "source": "s",
        "target": "r",
        "compare_with": ["n"],
    }
    expected = ReportOptions(phrases=("le chat, noir", "été"), **options)
    assert calls == [((), {**files, "options": expected})]
    expected = f"Report of 2 sections in 2.0 s, a page of 1.2 MB: {tmp_path}/index.html"
    assert done.stderr.splitlines() == ["Scoring.", expected, "warning: Most words are unknown."]


def test_unusable_arguments_are_errors(tmp_path, monkeypatch):
    fail(in_process(COMMAND), 2, "--model_dir and --output are missing")
    fail(in_process(COMMAND, "--model_dir=m", "--output=o", "--samples=0"), 2, "samples=0")
    fail(in_process(COMMAND, "--model_dir=/none", f"--output={tmp_path}"), 1, "/none: found no such directory")
    monkeypatch.setattr("keras_encdec.cli.report.check_paths", lambda *paths, folders: None)
    fail(
        in_process(COMMAND, "--model_dir=m", "--output=o", "--target=t"),
        2,
        "found --target without --source",
    )
    fail(in_process(COMMAND, "--model_dir=m", "--output=o", "--phrase=p"), 2, "found --phrase without --phrase_table")
