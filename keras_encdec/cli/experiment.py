"""encdec-experiment: measures what features add to a translation system, the paper's Table 1 on your own data."""

from typing import TYPE_CHECKING

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.configuration import Configuration
from keras_encdec.experiment.experiment_file import load_experiment
from keras_encdec.runtime.files import joined
from keras_encdec.runtime.imports import check_extra
from keras_encdec.smt.ngrams.ngram_model import check_ngram_model

if TYPE_CHECKING:
    from keras_encdec.experiment import Stage, StageResult


def main(arguments: Arguments, _options: Configuration) -> int:
    """Runs the experiment, and returns the exit status."""
    config = load_experiment(arguments["config"])
    check_extra("smt", "BLEU", "sacrebleu")
    check_extra("analysis", "The chart of the results")
    if config.baseline.system == "decoder":
        check_extra("smt", "The decoder", "kenlm")
        if config.baseline.language_model:
            check_ngram_model(config.baseline.language_model)
    check_paths(folders=[arguments["output"]])
    import_keras()
    from keras_encdec.experiment.experiment import experiment
    from keras_encdec.experiment.stage_functions import TrainingStopped
    from keras_encdec.runtime.progress import ReadingProgress

    done: list[StageResult] = []

    def begun(stage: "Stage", number_of_stages: int) -> None:
        say(f"[{len(done) + 1}/{number_of_stages}] {stage.name}")

    def ended(result: "StageResult") -> None:
        done.append(result)
        if result.was_run:
            values = {name: value for name, value in result.result.items() if name not in ("seconds", "notices")}
            results = [f"{name} {_shown(value)}" for name, value in values.items() if value != []]
            say(f"    {result.seconds:,.1f} s; {', '.join(results)}".rstrip("; "))
        else:
            say(f"[{len(done)}] {result.name}: nothing has changed")
        for notice in result.result.get("notices", ()):
            say(f"    {notice}")

    try:
        result = experiment(config, arguments["output"], begun=begun, ended=ended, progress=ReadingProgress)
    except TrainingStopped as stopped:
        say("Stopped by a signal; run the same command again to continue.")
        return 128 + stopped.signal
    print(f"{result.title}\n\n{result}\n\nWritten to {joined(arguments['output'], 'results.md')}")
    for notice in result.notices:
        say(notice)
    return 0


def _shown(value: object) -> str:
    """Formats a result: a float with two decimals, an integer with thousands separators, a list with spaces."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(_shown, value))
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


COMMAND = task_command(
    "encdec-experiment",
    main,
    Configuration,
    required={
        "config": "TOML file of the experiment, or the name of one that comes with the package: libreoffice.",
        "output": "Directory for the results and all intermediate files. Stages whose inputs and settings have not "
        "changed do not run again.",
    },
    interrupted="interrupted; run the same command again to continue.",
    progress=True,
    example="encdec-experiment --config=libreoffice --output=table1",
    guide="experiment",
)

if __name__ == "__main__":
    COMMAND.run()
