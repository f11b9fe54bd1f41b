"""encdec-demo: trains a model on a phrase table and adds its score to the table, in a few minutes."""

import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, task_command
from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.runtime.imports import LIBRARIES

if TYPE_CHECKING:
    from keras_encdec.model_directory import ModelDirectory
    from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingResult

HELD_OUT = 1000
HELD_OUT_FRACTION = 0.02
SHOWN = 5

NEXT = """
What to do next{activation}
  In a browser        {web}encdec-serve --model_dir={model_dir}
  Your own table      encdec-train --preset=small --phrase_table=YOUR.gz --model_dir=model --minutes=20 \\
                          --schedule=cosine
                      encdec-score --model_dir=model --input=YOUR.gz --output=SCORED.gz
  The paper's sizes   --preset=cho2014 instead of --preset=small, and hours or days instead of minutes
  Moses               {moses}
  More                README.md, docs/tutorial.md, encdec-train --help, encdec-score --help"""


def demonstrate(output_dir: str | os.PathLike[str] = "demo", minutes: float = 3.0) -> "TrainingResult":
    """Trains a small model on the packaged phrase table, scores the table, and shows what it learned.

    Args:
        output_dir: directory for the model, the scored table, its moses.ini and the report, or its URL. Those of an
            earlier demonstration are replaced. Defaults to "demo".
        minutes: float. Minutes of training. Defaults to `3`.

    Returns:
        TrainingResult. If a signal stops the training, the demonstration ends, too.

    Raises:
        ConfigurationError: a ValueError, if `minutes` is not a positive number.
        InputError: if another demonstration is training in `output_dir`, or if it holds a model, a table or a moses.ini
            that is not from an earlier demonstration.
    """
    from keras_encdec.datasets import libreoffice_en_fr
    from keras_encdec.formats.moses_ini import is_moses_path
    from keras_encdec.model_directory import ModelDirectory
    from keras_encdec.runtime.files import absolute, joined
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.scoring.score_file import score_file
    from keras_encdec.scoring.scoring_options import ScoringOptions
    from keras_encdec.trainers import train

    dataset = libreoffice_en_fr()
    names = "model", "phrase-table.gz", "moses.ini", "report"
    model_dir, table, ini, page_folder = (joined(output_dir, name) for name in names)
    config, data = demonstration_settings(minutes)
    _remove_earlier_demonstration(model_dir, (table, ini, joined(page_folder, "index.html")), config, data)

    unit = "minute" if minutes == 1 else "minutes"
    print(f"1. Train on the pairs of an English-French phrase table of LibreOffice, for {minutes:g} {unit}.\n")
    _show(
        "encdec-train",
        preset="small",
        phrase_table=dataset.phrase_table,
        model_dir=model_dir,
        minutes=f"{minutes:g}",
        schedule="cosine",
        held_out_fraction=HELD_OUT_FRACTION,
        held_out_pairs=HELD_OUT,
    )
    training = train(config, data, model_dir)
    if training.signal is not None:
        return training

    directory = ModelDirectory.load(model_dir)
    _show_perplexities(directory, model_dir)
    print("\n3. Score the whole table: one more p(target | source) on each line.\n")
    if is_moses_path(absolute(table)):
        options = ScoringOptions(moses_ini=str(dataset.moses_ini), moses_ini_out=ini)
        moses = f"{ini} names the new table with one more score; tune its weights again"
    else:
        options = ScoringOptions()
        moses = "found spaces or # in the path of the new table: move it before you name it in a moses.ini"
    named = {name: path for name in ("moses_ini", "moses_ini_out") if (path := getattr(options, name))}
    _show("encdec-score", model_dir=model_dir, input=dataset.phrase_table, output=table, **named)
    say(score_file(directory, dataset.phrase_table, table, options, progress=ReadingProgress))
    _show_preferences(table)
    write_report(model_dir, dataset.phrase_table, page_folder)
    model = shlex.quote(model_dir)
    print(NEXT.format(moses=moses, model_dir=model, activation=_activation(), web=_installation("web")))
    return training


def _show_perplexities(directory: "ModelDirectory", model_dir: str) -> None:
    """Shows the perplexity of held-out pairs with the source and without it."""
    from keras_encdec.analysis import perplexity
    from keras_encdec.data import Batches, PreparedPairs
    from keras_encdec.runtime.files import is_url, joined
    from keras_encdec.runtime.remote_folders import copied_folder
    from keras_encdec.trainers.training_files import PREPARED

    print("\n2. Does the source matter? Perplexity per target token, on pairs held out of the training:\n")
    pairs = joined(model_dir, PREPARED)
    with copied_folder(pairs) if is_url(pairs) else contextlib.nullcontext(pathlib.Path(pairs)) as folder:
        held_out = Batches(PreparedPairs(folder), 128, range(HELD_OUT)).once()
        print(f"   {perplexity(directory.model, held_out):10.2f}   the model")
        without_source = perplexity(directory.model, held_out, with_source=False)
        print(f"   {without_source:10.2f}   the same decoder with the summary zeroed")


def _activation() -> str:
    """Returns a line that says how the commands are found, if they are in a virtual environment that is not active."""
    activate = pathlib.Path(sys.prefix, "bin", "activate")
    if shutil.which("encdec-train") or not activate.exists():
        return ""
    return f"\n  First               source {shlex.quote(os.path.relpath(activate))}"


def _installation(extra: str) -> str:
    """Returns a line that installs an extra, and the indentation of the next, if a library of the extra is missing."""
    if all(map(importlib.util.find_spec, LIBRARIES[extra])):
        return ""
    return f'pip install "keras-encdec[{extra}]"\n                      '


def demonstration_settings(minutes: float) -> "tuple[TrainingConfig, TrainingData]":
    """Returns a demonstration's training settings, by which the model of an earlier demonstration is recognized."""
    from keras_encdec.datasets import libreoffice_en_fr
    from keras_encdec.trainers import TrainingConfig, TrainingData

    table = libreoffice_en_fr().phrase_table
    config = TrainingConfig.from_preset("small", minutes=minutes, schedule="cosine")
    held_out = {"held_out_fraction": HELD_OUT_FRACTION, "held_out_pairs": HELD_OUT}
    return config, TrainingData.from_preset("small", phrase_table=table, **held_out)


def _remove_earlier_demonstration(
    model_dir: str, outputs: Sequence[str], config: "TrainingConfig", data: "TrainingData"
) -> None:
    """Removes the output of an earlier demonstration; raises InputError for a file that is not from one."""
    from keras_encdec.errors import InputError
    from keras_encdec.runtime.files import exists, is_url, joined, remove
    from keras_encdec.runtime.remote import remote_sizes
    from keras_encdec.trainers.train import training_lock

    expected, remedy = "expected that of an earlier demonstration", "give another --output_dir"
    # The lock fails if another process is training there.
    local = os.path.isdir(model_dir)
    with training_lock(model_dir) if local else contextlib.nullcontext():
        found = remote_sizes(model_dir, deep=False) if is_url(model_dir) else os.listdir(model_dir) if local else ()
        models = [joined(model_dir, name) for name in found if name.endswith(".keras")]
        if _is_from_demonstration(model_dir, config, data):
            # The settings go last: if this process is killed, the next one still recognizes the demonstration.
            for path in (*outputs, *models, model_dir):
                remove(path)
        elif models:
            raise InputError("found another model", expected, remedy, model_dir)
    for path in outputs:
        if exists(path):
            raise InputError("found another file", expected, remedy, path)


def _is_from_demonstration(model_dir: str, config: "TrainingConfig", data: "TrainingData") -> bool:
    """Whether a model has the settings of a demonstration, with any duration and any path of the package."""
    from keras_encdec.runtime.files import exists, joined
    from keras_encdec.trainers.training_files import SETTINGS

    settings = joined(model_dir, SETTINGS)
    if not exists(settings):
        return False
    saved = type(data).from_preset(settings)
    tables = [pathlib.Path(table or "").parts[-2:] for table in (saved.phrase_table, data.phrase_table)]
    return (
        tables[0] == tables[1]
        and saved.replace(phrase_table=data.phrase_table) == data
        and type(config).from_preset(settings, minutes=config.minutes) == config
    )


def _show(command: str, **arguments: object) -> None:
    """Prints the command line that does the same as the next step."""
    given = [shlex.quote(f"--{name}={value}") for name, value in arguments.items()]
    print(f"   $ {command} " + " \\\n       ".join(given) + "\n", flush=True)


def write_report(model_dir: str, table: pathlib.Path, folder: str) -> None:
    """Writes the report; if plotting libraries are missing, prints the reason."""
    print("\n5. Look at it: the paper's tables and figures, as a page.\n")
    _show("encdec-report", model_dir=model_dir, phrase_table=table, output=folder)
    try:
        from keras_encdec.analysis.report import report
    except ImportError as error:
        print(f"   Skipped: {error}")
        return
    written = report(model_dir, folder, table, say=lambda line: print(f"   {line}", flush=True))
    print(f"   {written}")


def _show_preferences(table: str) -> None:
    """Shows what the table and the model prefer for five frequent phrases.

    The phrases have three to five words and at least four options, and share no long words.
    """
    from keras_encdec.analysis import read_preferences
    from keras_encdec.formats.fields import split_tokens

    print("\n4. What the table's own p(target | source) prefers, and what the model prefers (the paper's Table 2):\n")
    candidates = [
        phrase
        for phrase in read_preferences(table, model_score=4)
        if len(phrase.options) >= 4 and 3 <= len(split_tokens(phrase.source)) <= 5
    ]
    candidates.sort(key=lambda phrase: (-phrase.occurrences, phrase.source))
    shown = 0
    used: set[str] = set()
    for phrase in candidates:
        words = {word for word in split_tokens(phrase.source) if len(word) > 3}
        if words and not words & used and shown < SHOWN:
            shown += 1
            used |= words
            print(f"   {phrase.source}")
            for by_table, by_model in zip(phrase.by_table(), phrase.by_model(), strict=True):
                print(f"      {by_table:<38}{by_model}")


@dataclasses.dataclass(frozen=True)
class DemonstrationOptions(Configuration):
    """Options of the command."""

    output_dir: str = hyperparameter(
        "demo", "Directory, or its URL, to write the model, the scored table, its moses.ini and the report to."
    )
    minutes: float = hyperparameter(3.0, "Minutes of training.", minimum=0.01)


def main(_arguments: Arguments, options: DemonstrationOptions) -> int:
    """Runs the demonstration, and returns the exit status."""
    from keras_encdec.runtime.files import check_folder

    check_folder(options.output_dir)
    import_keras()
    training = demonstrate(options.output_dir, options.minutes)
    if training.signal is None:
        return 0
    say("Stopped by a signal; run the same command to start again.")
    return 128 + training.signal


COMMAND = task_command(
    "encdec-demo", main, DemonstrationOptions, example="encdec-demo --minutes=3", guide="../tutorial"
)

if __name__ == "__main__":
    COMMAND.run()
