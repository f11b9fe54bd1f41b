"""Commands that are made from a task and its options."""

import dataclasses
import types

import pytest
from commands import fail
from in_process import in_process

from keras_encdec.cli.flags import Repeated
from keras_encdec.cli.task_command import show_summary, task_command
from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.task_options import EncodingOption, MalformedLinesOption


@dataclasses.dataclass(frozen=True)
class CountingOptions(EncodingOption, MalformedLinesOption):
    """Options of a task that counts words."""

    longest: int = hyperparameter(7, "Longest word.", minimum=1)
    shortest: int | None = hyperparameter(None, "Shortest word.", minimum=1)

    def check(self):
        if self.shortest is not None and self.shortest > self.longest:
            raise ConfigurationError("found {shortest}=%s above {longest}=%s", self.shortest, self.longest)


def command(work, **settings):
    files = {"input": "Text."}, {"word_list": "Words."}
    return task_command("encdec-count", work, CountingOptions, *files, **settings)


def test_a_task_gets_its_arguments_and_its_options():
    calls = []
    count = command(lambda *given: calls.append(given), flag_names={"word_list": "words", "longest": "max_length"})
    assert in_process(count, "--input=a", "--max_length=9", "--encoding=latin-1").returncode == 0
    assert in_process(count, "--input=a", "--words=b").returncode == 0
    assert calls == [
        ({"input": "a", "word_list": None}, CountingOptions(longest=9, encoding="latin-1")),
        ({"input": "a", "word_list": "b"}, CountingOptions()),
    ]
    assert command(lambda arguments, options: 3).main(["--input=a"]) == 3


def test_an_option_with_several_texts_has_a_flag_for_each():
    @dataclasses.dataclass(frozen=True)
    class WordOptions(Configuration):
        words: tuple[str, ...] = hyperparameter((), "A word.")

    calls = []
    settings = {"required": {}, "flag_names": {"words": "word"}, "repeated": ("words",)}
    count = task_command("encdec-count", lambda _, options: calls.append(options.words), WordOptions, **settings)
    assert [count.main(given) for given in ([], ["--word=a, b", "--word=c"])] == [0, 0]
    assert calls == [(), ("a, b", "c")]
    assert "  --word: A word.\n" in in_process(count, "--help").stdout


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], "--input is missing."),
        (["--input=a", "--max_length=0"], "flag --max_length=0: expected a whole number, 1 or more."),
        (["--input=a", "--shortest=8"], "found --shortest=8 above --max_length=7."),
        (["--input=a", "--on_error=x"], "flag --on_error=x: expected one of stop, keep."),
        (["--input=a", "b"], "found the argument 'b', expected flags only."),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(arguments, expected):
    count = command(lambda *given: 1 / 0, flag_names={"longest": "max_length"})
    fail(in_process(count, *arguments), 2, f"encdec-count: {expected} encdec-count --help lists the flags.")


def test_help_shows_files_then_options_then_the_options_that_tasks_share():
    done = in_process(command(lambda *given: 1 / 0), "--help")
    assert done.stdout.startswith(
        "Commands that are made from a task and its options.\n\nusage: encdec-count --input=INPUT"
    )
    assert "\n\nrequired flags:\n  --input: Text." in done.stdout
    flags = [line.split(":")[0].strip() for line in done.stdout.splitlines() if line.startswith("  --")]
    assert flags[:6] == ["--input", "--word_list", "--longest", "--shortest", "--on_error", "--encoding"]


def test_a_summary_is_shown_with_its_notices(capsys):
    class Summary(types.SimpleNamespace):
        def __str__(self):
            return "3 lines"

    show_summary(Summary(notices=["1 of them empty", "2 of them long"]))
    show_summary(Summary())
    captured = capsys.readouterr()
    assert captured.err == "3 lines\n1 of them empty\n2 of them long\n3 lines\n" and captured.out == ""


@pytest.mark.parametrize("text, status", [("Model.", 2), (Repeated("Models."), 0)])
def test_a_command_that_uses_one_model_refuses_several(text, status):
    score = task_command("encdec-score", lambda *given: None, CountingOptions, {"model_dir": text})
    done = in_process(score, "--model_dir=a", "--model_dir=b")
    assert done.returncode == status
    found = "encdec-score: found --model_dir more than once, expected one model, not an ensemble. encdec-score --help"
    assert done.stderr == (f"{found} lists the flags.\n" if status else "")


def test_the_model_of_a_flagfile_is_overridden(tmp_path):
    calls = []
    score = task_command("encdec-score", lambda *given: calls.append(given[0]), CountingOptions, {"model_dir": "A."})
    (tmp_path / "flags").write_text("--model_dir=a\n")
    assert in_process(score, f"--flagfile={tmp_path}/flags", "--model_dir=b").stderr == ""
    assert calls == [{"model_dir": "b"}]
