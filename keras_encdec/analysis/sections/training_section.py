"""Trainings as a section of the report."""

import dataclasses
from collections.abc import Sequence

from keras_encdec.analysis.drawing.curves import draw_training
from keras_encdec.analysis.drawing.style import drawn
from keras_encdec.analysis.page.elements import Table, picture
from keras_encdec.analysis.page.section import Section
from keras_encdec.analysis.training_runs import TrainingRun
from keras_encdec.trainers.training_result import TrainingRound

HELD_OUT, TRAINED = "held out", "in training"
MEASURES = {
    "perplexity": ((("val_perplexity", HELD_OUT), ("perplexity", TRAINED)), "perplexity of a target token"),
    "log_likelihood": ((("val_log_likelihood", HELD_OUT), ("log_likelihood", TRAINED)), "log-likelihood (nats a pair)"),
    "bleu": ((("val_bleu", ""),), "BLEU of held-out pairs (0 to 100)"),
    "learning_rate": ((("learning_rate", ""),), "step size"),
    "speed": ((("pairs_per_second", ""),), "pairs a second"),
}


def training_section(runs: Sequence[TrainingRun]) -> Section:
    """Perplexity, log-likelihood, step size and speed over the updates of trainings.

    Args:
        runs: list of TrainingRun.
    """
    pictures = {
        f"training_{name}": drawn(draw_training(runs, names, label))
        for name, (names, label) in MEASURES.items()
        if any(run.values(one)[1] for run in runs for one, _ in names)
    }
    shown = "".join(
        picture(drawing.svg, f"{MEASURES[name.removeprefix('training_')][1]} over the updates of the training")
        for name, drawing in pictures.items()
    )
    fields = [field.name for field in dataclasses.fields(TrainingRound) if field.name != "averaged_rounds"]
    rows = [
        (run.name, *("" if getattr(one, name) is None else getattr(one, name) for name in fields))
        for run in runs for one in run.rounds
    ]  # fmt: skip
    body = (
        "<p>A point a round of training. Perplexity is per target token, the end of sequence among them; "
        "pairs held out were never trained on.</p>"
    )
    table = Table("Rounds of training", ("run", *fields), rows)
    return Section("training", "Training", f'{body}<div class="pictures">{shown}</div>', {"training": table}, pictures)
