"""encdec-export: writes a version of a trained model that TensorFlow Serving loads."""

import keras_encdec.export.on_tensorflow  # isort: skip  # noqa: F401

import os
import sys

from absl import app, flags

from keras_encdec.cli.command import run_command
from keras_encdec.errors import InputError
from keras_encdec.export.translation_directory import load_translation_model
from keras_encdec.export.versions import LARGEST, locked, versions

flags.DEFINE_string("model_dir", None, "Directory of the model, made by encdec-train on any backend.")
flags.DEFINE_string("export_dir", None, "Folder of the served model's versions, a folder each. A server may be polling it.")
flags.DEFINE_integer("version", None, "Number of the version. Default: one more than the newest there.", lower_bound=1, upper_bound=LARGEST)
flags.DEFINE_string("model_name", "encdec", "What the server calls the model.")
flags.DEFINE_integer("max_tokens", 256, "Longest phrase that is scored, in tokens; longer ones are refused, to protect the server.", lower_bound=1)
flags.DEFINE_bool("raw_text", False, "Read raw text, tokenized in the graph by operations of tensorflow-text, and not tokens.")
flags.DEFINE_integer("beam_size", 5, "Of the signature `generate`: targets that the search keeps for each source, and gives back.", lower_bound=1, upper_bound=100)
flags.DEFINE_integer("stable_version", None, "Export nothing: move the label `stable` in models.config to this version, to publish or roll back.", lower_bound=1, upper_bound=LARGEST)

FLAGS = flags.FLAGS


def main(arguments):
    """Exports as the flags say."""
    if bool(FLAGS.model_dir) == bool(FLAGS.stable_version):
        raise app.UsageError("found both or neither of --model_dir and --stable_version, expected one.")
    for name in ("export_dir", "model_name"):
        if not FLAGS[name].value:
            raise app.UsageError(f"found an empty --{name}, expected a name.")
    try:
        from keras_encdec.export.saved_model import export_version
        from keras_encdec.export.server_files import MODELS, ModelsConfig, move_stable, write_batching_parameters
    except ImportError as error:
        if "tensorflow_serving" not in str(error) and "grpc" not in str(error):
            raise
        raise ImportError(
            f"Exporting needs tensorflow-serving-api, which is not installed ({error}): "
            "pip install 'keras-encdec[serving]'."
        ) from error
    folder = FLAGS.export_dir
    if FLAGS.stable_version:
        move_stable(folder, FLAGS.model_name, FLAGS.stable_version)
        print(f"{os.path.join(folder, MODELS)}: stable is version {FLAGS.stable_version}", file=sys.stderr)
        return
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise InputError("found a file", "expected a folder, or none yet", "check --export_dir", folder)
    config = ModelsConfig(folder, FLAGS.model_name)  # what is wrong with it is found before the work
    directory = load_translation_model(FLAGS.model_dir)
    tokenization = _tokenization(directory) if FLAGS.raw_text else None
    version = export_version(
        directory, folder, FLAGS.version, FLAGS.max_tokens, tokenization, FLAGS.beam_size, FLAGS.model_name,
        above=config.largest_labelled,
    )  # fmt: skip
    with locked(folder):
        config = ModelsConfig(folder, FLAGS.model_name)  # labels may have been moved meanwhile
        config.write(config.stable or version, max(version, config.largest_labelled))
    write_batching_parameters(folder)
    print(f"{os.path.join(folder, str(version))}: version {version}, stable is {config.stable}", file=sys.stderr)
    if config.stable not in versions(folder):
        print(f"{os.path.join(folder, MODELS)}: stable is no version that is there; --stable_version moves it.", file=sys.stderr)


def _tokenization(directory):
    """How raw text is to be tokenized: as for training, or as is likely where that had tokens."""
    if directory.tokenization is not None:
        return directory.tokenization
    words = [*directory.source_vocabulary.words, *directory.target_vocabulary.words]
    lowercase = all(word == word.lower() for word in words)
    print(
        f"{FLAGS.model_dir}: the model was trained on tokens: raw text will be tokenized by this package's tokenizer, "
        f"{'case folded' if lowercase else 'its case kept'} as in the vocabularies; check that the two agree.",
        file=sys.stderr,
    )  # fmt: skip
    return {"lowercase": lowercase}


def run():
    """Entry point of `encdec-export`."""
    run_command(main, ("export_dir",))


if __name__ == "__main__":
    run()
