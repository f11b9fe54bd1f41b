"""encdec-prune: sets the smallest weights of a trained model to zero, and stores the model in less space."""

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command, zeros_of_model
from keras_encdec.model_config import model_path
from keras_encdec.pruning.pruning_options import PruningOptions
from keras_encdec.runtime.files import check_absent


def main(arguments: Arguments, options: PruningOptions) -> None:
    """Prunes as the flags say."""
    check_absent(arguments["output"])
    check_paths([arguments["model_dir"]], folders=[arguments["output"]])
    model = model_path(arguments["model_dir"])
    if counts := zeros_of_model(model):
        options.check_zeros(*counts, model)
    import_keras()
    from keras_encdec.pruning.prune_model import prune_model

    say(prune_model(arguments["model_dir"], arguments["output"], options))


COMMAND = task_command(
    "encdec-prune",
    main,
    PruningOptions,
    required={
        "model_dir": "Directory of the model, which is not changed; or libreoffice_en_fr, the packaged model.",
        "output": "Model directory to write, which must not exist yet.",
    },
    example="encdec-prune --model_dir=model --share=0.8 --output=pruned",
    guide="pruning",
)

if __name__ == "__main__":
    COMMAND.run()
