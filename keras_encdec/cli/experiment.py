"""encdec-experiment: measures what features add to a translation system, the paper's Table 1 on your own data."""

import pathlib
import sys

from absl import flags

from keras_encdec.cli.command import Command


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-experiment`."""
    flags.DEFINE_string(
        "config",
        None,
        "TOML file of the experiment, or the name of one that comes with the package: libreoffice.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "output",
        None,
        "Directory for the results and everything that they are made of. Stages whose results are there already, from "
        "the same inputs and settings, do not run again.",
        flag_values=flag_values,
    )


def main(flag_values: flags.FlagValues) -> int:
    """Runs the experiment; returns the exit status."""
    import keras_encdec.backend.startup  # noqa: F401
    from keras_encdec.experiment.experiment import experiment
    from keras_encdec.experiment.stage_functions import TrainingStopped

    done = []

    def begun(stage, number):
        print(f"[{len(done) + 1}/{number}] {stage.name}", file=sys.stderr, flush=True)

    def ended(result):
        done.append(result)
        if result.was_run:
            results = [f"{name} {_shown(value)}" for name, value in result.result.items() if name != "seconds"]
            print(f"    {result.seconds:,.1f} s; {', '.join(results)}".rstrip("; "), file=sys.stderr, flush=True)
        else:
            print(f"[{len(done)}] {result.name}: nothing has changed", file=sys.stderr, flush=True)

    try:
        result = experiment(flag_values.config, flag_values.output, begun=begun, ended=ended)
    except TrainingStopped as stopped:
        print("Stopped by a signal; run the same command again to continue.", file=sys.stderr)
        return 128 + stopped.signal
    print(f"{result.title}\n\n{result}\n\nWritten to {pathlib.Path(flag_values.output) / 'results.md'}")
    return 0


def _shown(value):
    """A result in a line: numbers with two decimals or thousands separated, lists with spaces."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(_shown, value))
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


COMMAND = Command(
    "encdec-experiment",
    define_flags,
    main,
    required=("config", "output"),
    interrupted="interrupted; run the same command again to continue.",
)

if __name__ == "__main__":
    COMMAND.run()
