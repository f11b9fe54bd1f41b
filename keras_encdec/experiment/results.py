"""The results of an experiment: the table as Markdown, JSON and a plot."""

import dataclasses
import os
import pathlib
import re
import statistics
from collections.abc import Mapping, Sequence

from keras_encdec.experiment.experiment_config import ExperimentConfig
from keras_encdec.experiment.stage_runner import StageResult
from keras_encdec.runtime.imports import check_extra
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.settings_files import Json, write_json

#: The files that `write_results` and `draw_results` write.
RESULTS = ("results.json", "results.md", "results.svg", "results.png")


@dataclasses.dataclass(frozen=True)
class RowResult:
    """A row of the table.

    Attributes:
        name: str.
        dev, test: tuple of float. The metric with the weights of each tuning, 0 to 100.
        interval: float. Half the width of the 95 % confidence interval of the test score.
        gain: float. Mean test score minus that of the first row; `None` for the first row.
        p_bootstrap, p_randomization: float. P-values of the gain, by paired bootstrap resampling and by approximate
            randomization; `None` for the first row.
        published_gain: float. From the configuration; `None` if it has none.
    """

    name: str
    dev: tuple[float, ...]
    test: tuple[float, ...]
    interval: float
    gain: float | None = None
    p_bootstrap: float | None = None
    p_randomization: float | None = None
    published_gain: float | None = None


@dataclasses.dataclass(frozen=True)
class ExperimentResult:
    """The result of an experiment.

    Attributes:
        title: str.
        metric: str. Sacrebleu's name of the metric, such as "BLEU".
        signature: str. Sacrebleu's signature of the test scores.
        algorithm: str. The tuning algorithm.
        rows: tuple of RowResult.
        stages: tuple of StageResult.
        notices: tuple of str, warnings for the user.
    """

    title: str
    metric: str
    signature: str
    algorithm: str
    rows: tuple[RowResult, ...]
    stages: tuple[StageResult, ...]
    notices: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Returns the result as values that JSON can hold."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """The table in Markdown."""
        has_published = any(row.published_gain is not None for row in self.rows)
        head = ["", f"{self.metric}, development", f"{self.metric}, test", "gain", "p (bootstrap)", "p (randomization)"]
        lines = [head + ["published gain"] * has_published]
        lines.append(["---"] * len(lines[0]))
        for row in self.rows:
            name = _in_one_line(row.name).replace("|", r"\|")
            cells = [name, _mean_and_deviation(row.dev), _mean_and_deviation(row.test)]
            cells += ["" if row.gain is None else f"{row.gain:+.2f}"]
            cells += ["" if p is None else f"{p:.4f}" for p in (row.p_bootstrap, row.p_randomization)]
            if has_published:
                cells.append("" if row.published_gain is None else f"{row.published_gain:+.2f}")
            lines.append(cells)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def read_result(
    config: ExperimentConfig, evaluation: Mapping[str, Json], stages: Sequence[StageResult]
) -> ExperimentResult:
    """Makes the result of an experiment from its evaluation.

    Args:
        config: ExperimentConfig.
        evaluation: dict from "dev" and "test" to `Evaluation.to_dict()`, with the systems in the order of the rows.
        stages: list of StageResult.
    """
    rows = []
    systems = zip(config.rows, evaluation["dev"]["systems"], evaluation["test"]["systems"], strict=True)
    for row, dev, test in systems:
        compared = test["comparison"] or {}
        rows.append(
            RowResult(
                row.name,
                tuple(dev["scores"]),
                tuple(test["scores"]),
                test["interval"],
                compared.get("difference"),
                compared.get("p_bootstrap"),
                compared.get("p_randomization"),
                row.published_gain,
            )
        )
    test = evaluation["test"]
    return ExperimentResult(
        config.title, test["metric"], test["signature"], config.tuning.algorithm, tuple(rows), tuple(stages)
    )


def write_results(result: ExperimentResult, folder: str | os.PathLike[str]) -> None:
    """Writes `results.md` and `results.json` into a directory."""
    folder = pathlib.Path(folder)
    write_json(folder / "results.json", result.to_dict())
    write_file(folder / "results.md", _markdown(result).encode())


def _markdown(result: ExperimentResult) -> str:
    tunings = len(result.rows[0].test)
    stages = "\n".join(f"| {stage.name} | {stage.seconds:,.1f} |" for stage in result.stages)
    total = sum(stage.seconds for stage in result.stages)
    return f"""# {_in_one_line(result.title)}

{result}

Mean and standard deviation over {tunings} {"tuning" if tunings == 1 else "tunings"} of each row with
{result.algorithm.upper()}. Gains and p-values compare the test scores with those of the first row. Approximate
randomization pools all tunings (Clark et al., 2011). Signature: `{result.metric}|{result.signature}`.

| stage | seconds |
| --- | --- |
{stages}
| total | {total:,.1f} |
"""


def _in_one_line(text: str) -> str:
    return re.sub(r"[\r\n]+", " ", text)


def _mean_and_deviation(scores: Sequence[float]) -> str:
    mean = f"{statistics.fmean(scores):.2f}"
    return mean if len(scores) == 1 else f"{mean} ± {statistics.stdev(scores):.2f}"


def draw_results(result: ExperimentResult, folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Writes `results.svg` and `results.png`: the scores of each tuning, and their means, in the style of a report.

    Args:
        result: ExperimentResult.
        folder: directory to write to.

    Returns:
        tuple of str: a warning if no installed font has some characters of the rows' names; otherwise empty.

    Raises:
        ImportError: if the extra `analysis` is not installed.
    """
    check_extra("analysis", "The plot")
    from keras_encdec.analysis.page.figures import BLUE, VERMILION, drawing_style, literal, new_figure, rendered
    from keras_encdec.analysis.page.fonts import boxes_notice

    rows = result.rows
    with drawing_style():
        figure, axes = new_figure(7.2, 1.4 + 0.5 * len(rows))
        for offset, colour, marker, label in ((-0.13, BLUE, "o", "development"), (0.13, VERMILION, "s", "test")):
            scores = [row.dev if label == "development" else row.test for row in rows]
            positions = [number + offset for number in range(len(rows))]
            for position, values in zip(positions, scores, strict=True):
                axes.plot(values, [position] * len(values), "|", color=colour, markersize=10, alpha=0.6)
            means = [sum(values) / len(values) for values in scores]
            axes.plot(means, positions, marker, color=colour, label=label, markersize=6)
            for mean, values, position in zip(means, scores, positions, strict=True):
                axes.annotate(
                    f"{mean:.2f}",
                    (max(values), position),  # to the right of the marks of all tunings
                    (10, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=9,
                    color=colour,
                )
        axes.set_yticks(range(len(rows)), [literal(row.name) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.margins(x=0.12)
        axes.set_xlabel(f"{result.metric} (0 to 100): mean, and each tuning")
        axes.grid(axis="y", visible=False)
        figure.legend(loc="outside upper right", ncols=2)
        drawing = rendered(figure)
    for name, content in (("results.svg", drawing.svg), ("results.png", drawing.png)):
        write_file(pathlib.Path(folder) / name, content)
    if not drawing.boxes:
        return ()
    return (f"warning: {boxes_notice(drawing.boxes, 'results.md and results.json', 'experiment')}",)
