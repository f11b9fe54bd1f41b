"""Reads the histories of training runs, and writes the section that shows them."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from keras_encdec.analysis.page.figures import BLUE, COLOURS, GREY, literal, new_figure, rendered
from keras_encdec.analysis.page.page import Section, Table, fill
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath
from keras_encdec.model_config import HISTORY, model_path, short_name
from keras_encdec.runtime.settings_files import read_parsed
from keras_encdec.trainers.reporting import TrainingRound


@dataclasses.dataclass(frozen=True)
class TrainingRun:
    """The history of a training run.

    Attributes:
        name: str. The last two parts of the path of the model directory.
        rounds: tuple of TrainingRound, without those that measured an average of earlier rounds.
    """

    name: str
    rounds: tuple[TrainingRound, ...]

    def values(self, name: str) -> tuple[list[int], list[float]]:
        """Lists the values of a measurement, and the updates after which it was taken.

        Args:
            name: str. An attribute of TrainingRound; or "pairs_per_second", the speed within each round.

        Returns:
            tuple: list of int, the updates at the end of each round; list of float, the values.
        """
        if name == "pairs_per_second":
            return self._pairs_per_second()
        known = [(each.updates, getattr(each, name)) for each in self.rounds if getattr(each, name) is not None]
        return [updates for updates, _ in known], [value for _, value in known]

    def _pairs_per_second(self) -> tuple[list[int], list[float]]:
        updates, values = list[int](), list[float]()
        pairs, seconds = 0, 0.0
        for each in self.rounds:
            if each.seconds > seconds:
                updates.append(each.updates)
                values.append((each.pairs - pairs) / (each.seconds - seconds))
            pairs, seconds = each.pairs, each.seconds
        return updates, values


def read_training_run(folder: FilePath) -> TrainingRun | None:
    """Reads the history of a training run; returns `None` for a directory without it, such as a copy for scoring.

    Raises:
        InputError: if there is no such directory, or its history is invalid.
    """
    folder = model_path(folder)
    if not folder.is_dir():
        raise InputError("found no such directory", "expected a model directory made by encdec-train", path=folder)
    try:
        rounds = read_parsed(folder / HISTORY, json.loads)["rounds"]
        if not all(math.isfinite(value) for entry in rounds for value in entry.values()):
            raise ValueError("a number is not finite")
        rounds = tuple(map(TrainingRound.from_dict, rounds))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        found, expected = f"found an invalid history ({error})", "expected the file that encdec-train writes"
        raise InputError(found, expected, "remove or restore it", folder / HISTORY) from None
    return TrainingRun(short_name(folder), tuple(each for each in rounds if each.averaged_rounds is None))


HELD_OUT, TRAINED = "held out", "in training"
MEASURES = {
    "perplexity": ((("val_perplexity", HELD_OUT), ("perplexity", TRAINED)), "perplexity per target token"),
    "log_likelihood": (
        (("val_log_likelihood", HELD_OUT), ("log_likelihood", TRAINED)),
        "log-likelihood (nats per pair)",
    ),
    "bleu": ((("val_bleu", ""),), "BLEU of held-out pairs (0 to 100)"),
    "gradient_norm": ((("gradient_norm", ""),), "norm of the gradient before clipping"),
    "clipped_share": ((("clipped_share", ""),), "share of clipped updates (0 to 1)"),
    "learning_rate": ((("learning_rate", ""),), "learning rate"),
    "speed": ((("pairs_per_second", ""),), "pairs per second"),
}


def training_section(runs: Sequence[TrainingRun]) -> Section:
    """Writes perplexity, log-likelihood, gradients, learning rate and speed over the updates of training runs."""
    pictures = {
        f"training_{name}": rendered(draw_training(runs, names, label), f"{label} over the updates of the training")
        for name, (names, label) in MEASURES.items()
        if any(run.values(measurement)[1] for run in runs for measurement, _ in names)
    }
    fields = [field.name for field in dataclasses.fields(TrainingRound) if field.name != "averaged_rounds"]
    rows = [
        (run.name, *("" if getattr(each, name) is None else getattr(each, name) for name in fields))
        for run in runs
        for each in run.rounds
    ]
    body = fill("training", drawings=pictures.values())
    table = Table("Rounds of training", ("run", *fields), rows)
    return Section("training", "Training", body, {"training": table}, pictures)


def draw_training(runs: Sequence[TrainingRun], names: Sequence[tuple[str, str]], label: str) -> Figure:
    """Draws a measurement of training runs over their updates.

    Args:
        runs: list of TrainingRun. Each has its own colour.
        names: list of pairs: name for `TrainingRun.values`, and label. The second is drawn dashed, with hollow points.
        label: str. Label of the vertical axis.
    """
    figure, axes = new_figure()
    for number, run in enumerate(runs):
        colour = COLOURS[number % len(COLOURS)]
        for (name, what), line, face in zip(names, ("-", "--"), (colour, "none"), strict=False):
            updates, values = run.values(name)
            if values:
                shown = ", ".join(part for part in (literal(run.name) if len(runs) > 1 else "", what) if part)
                (drawn,) = axes.plot(updates, values, line, color=colour, marker="o", markersize=3, label=shown)
                drawn.set_markerfacecolor(face)
    axes.set(xlabel="updates", ylabel=label)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if "perplexity" in label:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.9g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    if "(0 to 1)" in label:
        axes.set_ylim(-0.05, 1.05)
    if any(axes.get_legend_handles_labels()[1]):
        axes.legend()
    return figure


def pruning_section(shares: Mapping[str, tuple[int, int]]) -> Section:
    """Writes the share of the weights that is pruned, by class and layer, from what `zero_counts` returns."""
    zeros, weights = (sum(column) for column in zip(*shares.values(), strict=True))
    percentage = 100 * zeros / weights
    names, percent = list(shares)[::-1], [100 * pruned / size for pruned, size in shares.values()][::-1]
    figure, axes = new_figure(height=1.1 + 0.28 * len(names))
    bars = axes.barh(names, percent, color=BLUE, height=0.7)
    axes.axvline(percentage, color=GREY, linestyle="--", linewidth=1.2, label=f"all weights: {percentage:.1f} %")
    background = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # the line does not cross out a number
    axes.bar_label(bars, [f"{value:.0f}" for value in percent], padding=3, fontsize=9, bbox=background)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    axes.set(xlabel="weights that are zero (%)", xlim=(0, 108))
    axes.grid(axis="y", visible=False)
    drawing = rendered(figure, f"Share of the weights that is zero, by class; {percentage:.1f} % of all weights")
    rows = [(name, size, pruned, round(pruned / size, 4)) for name, (pruned, size) in shares.items()]
    table = Table("Pruned weights by class", ("class", "weights", "zeros", "share"), rows)
    body = fill("pruning", share=f"{percentage:.1f} %", drawing=drawing, classes=table)
    return Section("pruning", "Pruned weights", body, {"pruning": table}, {"pruning": drawing})
