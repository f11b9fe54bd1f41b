"""encdec-dictionary: writes each word's most frequent translation in word-aligned text, to replace unknown words."""

from keras_encdec.cli.flags import ALIGNMENT, OUTPUT, TEXT, with_text_input
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.smt.extraction.extraction_options import DictionaryOptions


def main(arguments: Arguments, options: DictionaryOptions) -> None:
    """Makes a dictionary as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.extraction.dictionary import write_dictionary

    arguments = with_text_input(arguments)
    inputs = [arguments[name] for name in ("input", "source", "alignment")]
    check_paths(inputs=inputs, outputs=[arguments["output"]])
    show_summary(write_dictionary(**arguments, options=options, progress=ReadingProgress))


COMMAND = task_command(
    "encdec-dictionary",
    main,
    DictionaryOptions,
    required=OUTPUT,
    optional={**TEXT, **ALIGNMENT},
    example="encdec-dictionary --source=train.en --target=train.fr --output=words.tsv",
    guide="generating",
)

if __name__ == "__main__":
    COMMAND.run()
