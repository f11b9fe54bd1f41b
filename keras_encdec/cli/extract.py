"""encdec-extract: makes a Moses phrase table from parallel text: aligns words, extracts and scores phrase pairs."""

from keras_encdec.cli.flags import ALIGNMENT, TEXT, with_text_input
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.smt.extraction.extraction_options import ExtractionOptions


def main(arguments: Arguments, options: ExtractionOptions) -> None:
    """Makes a phrase table as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.extraction.extract import extract_phrase_table

    arguments = with_text_input(arguments)
    inputs = [arguments[name] for name in ("input", "source", "alignment")]
    check_paths(inputs=inputs, outputs=[arguments["output"]])
    show_summary(extract_phrase_table(**arguments, options=options, progress=ReadingProgress))


COMMAND = task_command(
    "encdec-extract",
    main,
    ExtractionOptions,
    required={
        "output": "Phrase table to write; gzipped if its name ends in .gz. It appears when it is complete. - means "
        "standard output. Sorting needs several times its size, for temporary files in a hidden folder next to it."
    },
    optional={**TEXT, **ALIGNMENT},
    flag_names={"number_of_processes": "processes"},
    progress=True,
    example="encdec-extract --source=train.en --target=train.fr --output=phrase-table.gz",
    guide="extraction",
)

if __name__ == "__main__":
    COMMAND.run()
