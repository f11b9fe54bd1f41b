"""encdec-demo: from a phrase table to the same table with the model's score, in a few minutes."""

import keras_encdec.cli.quiet_keras  # isort: skip  # noqa: F401

import pathlib
import shutil
import subprocess
import sys

from absl import flags

from keras_encdec.analysis import perplexity, read_preferences
from keras_encdec.cli.command import run_command
from keras_encdec.data import Batches, PreparedPairs
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.errors import InputError
from keras_encdec.scoring import ModelDirectory

flags.DEFINE_string("output_dir", "demo", "Where the model, the scored table and its moses.ini are written.")
flags.DEFINE_float("minutes", 3.0, "Minutes of training.", lower_bound=0.01)

FLAGS = flags.FLAGS
HELD_OUT = 1000
SHOWN = 5

NEXT = """
What to do next
  Your own table      encdec-train --preset=small --phrase_table=YOUR.gz --model_dir=model --minutes=20 \\
                          --schedule=cosine
                      encdec-score --model_dir=model --input=YOUR.gz --output=SCORED.gz
  The paper's sizes   --preset=cho2014 instead of --preset=small, and hours or days instead of minutes
  Moses               {ini} names the new table with one more score; tune its weights again
  More                README.md, encdec-train --help, encdec-score --help"""


def main(arguments):
    """Trains, compares, scores and shows."""
    folder = pathlib.Path(FLAGS.output_dir)
    data = libreoffice_en_fr()
    model, table, ini = folder / "model", folder / "phrase-table.gz", folder / "moses.ini"
    if model.exists():
        shutil.rmtree(model)  # of an earlier demonstration

    print(f"1. Train on the pairs of an English-French phrase table of LibreOffice, for {FLAGS.minutes:g} minutes.\n")
    _run(
        "trainers.train", "encdec-train", "--preset=small", f"--phrase_table={data.phrase_table}",
        f"--model_dir={model}", f"--minutes={FLAGS.minutes:g}", "--schedule=cosine",
        "--held_out_fraction=0.02", f"--held_out_pairs={HELD_OUT}",
    )  # fmt: skip

    print("\n2. Does the source matter? Perplexity per target token, on pairs held out of the training:\n")
    trained = ModelDirectory.load(model).model
    held_out = Batches(PreparedPairs(model / "prepared"), 128, range(HELD_OUT)).once()
    print(f"   {perplexity(trained, held_out):10.2f}   the model")
    print(f"   {perplexity(trained, held_out, with_source=False):10.2f}   the same decoder with the summary zeroed")

    print("\n3. Score the whole table: one more p(target | source) on each line.\n")
    _run(
        "cli.score", "encdec-score", f"--model_dir={model}", f"--input={data.phrase_table}", f"--output={table}",
        f"--moses_ini={data.moses_ini}", f"--moses_ini_out={ini}",
    )  # fmt: skip

    print("\n4. What the table's own p(target | source) prefers, and what the model prefers (the paper's Table 2):\n")
    _show_preferences(table)
    print(NEXT.format(ini=ini))


def _run(module, name, *arguments):
    """Runs a command of this package in a process of its own, and shows it."""
    print(f"   $ {name} " + " \\\n       ".join(arguments) + "\n", flush=True)
    command = [sys.executable, "-m", f"keras_encdec.{module}", *arguments]
    if subprocess.run(command).returncode:
        raise InputError(f"{name} failed, as it says above")


def _show_preferences(table):
    """Five frequent phrases of three to five words that have a choice, no two of which share a long word."""
    candidates = [
        one for one in read_preferences(table, model_score=4)
        if len(one.options) >= 4 and 3 <= len(one.source.split()) <= 5
    ]  # fmt: skip
    candidates.sort(key=lambda one: (-one.occurrences, one.source))
    shown, used = [], set()
    for one in candidates:
        words = {word for word in one.source.split() if len(word) > 3}
        if words and not words & used and len(shown) < SHOWN:
            shown.append(one)
            used |= words
    for one in shown:
        print(f"   {one.source}")
        for by_table, by_model in zip(one.by_table(), one.by_model(), strict=True):
            print(f"      {by_table:<38}{by_model}")


def run():
    """Entry point of `encdec-demo`."""
    run_command(main)


if __name__ == "__main__":
    run()
