"""encdec-distill: trains a small model on translations of the training text by a large model or an ensemble."""

from typing import TYPE_CHECKING

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.flags import Repeated
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.experiment.distillation_options import (
    TEXTS,
    DistillationOptions,
    check_bleu,
    check_student,
    check_teachers,
    check_test_sets,
)
from keras_encdec.formats import pair_format
from keras_encdec.model_config import model_path
from keras_encdec.runtime.files import check_can_be_read_again

if TYPE_CHECKING:
    from keras_encdec.experiment.stage_runner import Stage, StageResult


def main(arguments: Arguments, options: DistillationOptions) -> int:
    """Distills as the flags say."""
    teachers = arguments.pop("model_dirs")
    check_test_sets(arguments)
    inputs = [*(arguments[name] for name in TEXTS), options.dictionary]
    check_paths(teachers, inputs, folders=[arguments["output"]])
    # Raises before Keras is imported if the preset cannot be used.
    config = options.training_config([model_path(path) for path in teachers])
    check_teachers(teachers, options)
    check_student(config, options.preset)
    check_bleu(config, options, arguments)
    for path in filter(None, inputs):
        check_can_be_read_again(path)
    for path in filter(None, (arguments[name] for name in TEXTS)):
        pair_format("sentences").check_beginning(path, on_error="keep")
    import_keras()
    from keras_encdec.experiment.distillation import distill
    from keras_encdec.experiment.stage_functions import TrainingStopped
    from keras_encdec.runtime.progress import ReadingProgress

    def begun(stage: "Stage", _: int) -> None:
        say(f"{stage.name} ...")

    def ended(result: "StageResult") -> None:
        state = f"{result.seconds:,.1f} s" if result.was_run else "nothing has changed"
        say(f"{result.name}: {state}")

    try:
        result = distill(teachers, options=options, begun=begun, ended=ended, progress=ReadingProgress, **arguments)
    except TrainingStopped as stopped:
        say("Stopped by a signal; run the same command again to continue.")
        return 128 + stopped.signal
    for name, score in result.scores.items():
        print(f"BLEU of the {name}: {score:.2f}")
    print(f"The student is in {result.student}; translate with --mode=greedy.")
    return 0


COMMAND = task_command(
    "encdec-distill",
    main,
    DistillationOptions,
    required={
        "model_dirs": Repeated("Directory of the teacher's model. Give it several times for an ensemble of teachers."),
        "source": "Sentences of the training text, one per line, plain or gzipped.",
        "target": "Their reference translations.",
        "output": "Directory for the student and all intermediate files. Stages whose inputs and settings have not "
        "changed do not run again.",
    },
    optional={
        "dev_source": "Sentences to validate the student on. Default: pairs held out of the training text.",
        "dev_target": "Their reference translations.",
        "test_source": "Sentences on which teacher and student are compared.",
        "test_target": "Their reference translations.",
    },
    flag_names={"model_dirs": "model_dir", "num_beams": "beam_size", "number_of_processes": "processes"},
    interrupted="interrupted; run the same command again to continue.",
    progress=True,
    example="encdec-distill --model_dir=teacher --source=train.en --target=train.fr --output=distilled",
    guide="sentences",
)

if __name__ == "__main__":
    COMMAND.run()
