"""encdec-average: averages the weights of models that were trained from the same weights into one model."""

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.command import UsageError
from keras_encdec.cli.flags import Repeated
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.configuration import Configuration
from keras_encdec.runtime.files import check_absent


def main(arguments: Arguments, options: Configuration) -> None:
    """Averages the models that the flags name."""
    if len(arguments["model_dir"]) < 2:
        raise UsageError("found one --model_dir, expected two or more: the flag is given once for each model.")
    check_absent(arguments["output"])
    check_paths(arguments["model_dir"], folders=[arguments["output"]])
    import_keras()
    from keras_encdec.model_average import average_models

    say(average_models(arguments["model_dir"], arguments["output"]))


COMMAND = task_command(
    "encdec-average",
    main,
    Configuration,
    required={
        "model_dir": Repeated("Directory of a model, which is not changed; given once for each model."),
        "output": "Model directory to write, which must not exist yet.",
    },
    example="encdec-average --model_dir=student1 --model_dir=student2 --output=average",
    guide="sentences",
)

if __name__ == "__main__":
    COMMAND.run()
