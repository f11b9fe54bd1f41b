"""Scores the translations of systems, and tests which differences from a baseline are significant."""

import dataclasses
import reprlib
from collections.abc import Mapping, Sequence
from unicodedata import category, east_asian_width

import numpy as np

from keras_encdec.configuration import ConfigurationError, check_choice, hyperparameter
from keras_encdec.formats import FilePath
from keras_encdec.runtime.files import check_lists
from keras_encdec.smt.evaluation.corpus_metric import (
    METRICS,
    TOKENIZERS,
    CorpusMetric,
    check_lines,
    is_escaped,
    read_references,
    read_text,
)
from keras_encdec.smt.evaluation.significance import (
    BOOTSTRAP_SAMPLES,
    RANDOMIZATION_TRIALS,
    SEED,
    approximate_randomization,
    bootstrap_scores,
    confidence_interval,
    paired_bootstrap,
)
from keras_encdec.task_options import EncodingOption

BASELINE = "baseline"


@dataclasses.dataclass(frozen=True)
class EvaluationOptions(EncodingOption):
    """Options of `evaluate`."""

    tokenize: str = hyperparameter(
        "13a", "Sacrebleu's tokenizer for BLEU: none for tokenized text, 13a for raw text.", choices=TOKENIZERS
    )
    unescape: bool = hyperparameter(False, "Remove Moses's escapes, such as &apos;, from all texts.")
    bootstrap_samples: int = hyperparameter(
        BOOTSTRAP_SAMPLES, "Number of bootstrap samples of the test set.", minimum=1, group="significance"
    )
    trials: int = hyperparameter(
        RANDOMIZATION_TRIALS, "Number of trials of approximate randomization.", minimum=1, group="significance"
    )
    seed: int = hyperparameter(
        SEED, "Random seed of both tests. The default is sacrebleu's.", minimum=0, group="significance"
    )


@dataclasses.dataclass(frozen=True)
class BaselineComparison:
    """The comparison of a system with the baseline.

    Attributes:
        difference: float. The score of the system minus the score of the baseline.
        p_bootstrap: float. P-value of paired bootstrap resampling.
        p_randomization: float. P-value of approximate randomization.
    """

    difference: float
    p_bootstrap: float
    p_randomization: float


@dataclasses.dataclass(frozen=True)
class SystemScore:
    """The score of a system by a metric.

    Attributes:
        system: str. The system's name.
        scores: tuple of float, the score of each run.
        interval: float. Half the width of the 95 % confidence interval, by bootstrap resampling of the sentences.
        comparison: BaselineComparison; `None` for the baseline itself, and without a baseline.
    """

    system: str
    scores: tuple[float, ...]
    interval: float
    comparison: BaselineComparison | None = None

    @property
    def mean(self) -> float:
        """The mean of the runs' scores."""
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the runs' scores; `None` for one run."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The scores of all systems by a metric.

    Attributes:
        metric: str. Sacrebleu's name of the metric, such as "BLEU".
        signature: str. Sacrebleu's signature.
        systems: tuple of SystemScore, the baseline first.
        bootstrap_samples, trials, seed: int. Options of the significance tests.
        unlike_references: tuple of str. The systems' files that have Moses's escapes while the references have none, or
            the other way round, so that escaped words count as wrong.
    """

    metric: str
    signature: str
    systems: tuple[SystemScore, ...]
    bootstrap_samples: int = EvaluationOptions.bootstrap_samples
    trials: int = EvaluationOptions.trials
    seed: int = EvaluationOptions.seed
    unlike_references: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Returns the evaluation as values that JSON can represent."""
        systems = [
            {**dataclasses.asdict(system), "mean": system.mean, "deviation": system.deviation}
            for system in self.systems
        ]
        return {**dataclasses.asdict(self), "systems": systems}

    def __str__(self) -> str:
        head = ("system", "runs", self.metric, "deviation", "95 %", "difference", "p bootstrap", "p randomization")
        return f"{self.metric}|{self.signature}\n{text_table([head, *map(_row, self.systems)])}"


def _row(system: SystemScore) -> tuple[str, ...]:
    """Returns the cells of a system in the table of an evaluation."""
    row = (
        system.system,
        str(len(system.scores)),
        f"{system.mean:.2f}",
        "" if system.deviation is None else f"{system.deviation:.2f}",
        f"± {system.interval:.2f}",
    )
    if system.comparison is None:
        return (*row, "", "", "")
    compared = system.comparison
    return (*row, f"{compared.difference:+.2f}", f"{compared.p_bootstrap:.4f}", f"{compared.p_randomization:.4f}")


def evaluate(
    references: Sequence[FilePath],
    systems: Mapping[str, Sequence[FilePath]],
    baseline: Sequence[FilePath] = (),
    metrics: Sequence[str] = ("bleu",),
    options: EvaluationOptions | None = None,
    **values: object,
) -> list[Evaluation]:
    """Scores systems against references, and tests their differences from a baseline for significance.

    A system may have several runs, such as tunings with several seeds. Its score is their mean. Approximate
    randomization shuffles the hypotheses of all runs, so that the randomness of tuning is not taken for a difference
    between systems.

    Args:
        references: files of reference translations, one sentence per line.
        systems: dict from name to the system's files, one for each run.
        baseline: the baseline's files, one for each run. Optional; without them no differences are tested.
        metrics: list of str, each "bleu", "chrf" or "ter". Defaults to BLEU.
        options: EvaluationOptions. Defaults to `None`: those of the command.
        **values: options by name, which override those in `options`.

    Returns:
        list of Evaluation, one for each metric.

    Raises:
        ConfigurationError: a ValueError, for options and metrics that cannot be used.
        ImportError: if sacrebleu is not installed.
        InputError: if a file cannot be read, or its number of lines differs from that of the references.

    Example:

        for evaluation in evaluate(["test.fr"], {"rnn": ["rnn.1.fr", "rnn.2.fr"]}, ["moses.1.fr", "moses.2.fr"]):
            print(evaluation)
    """
    options = EvaluationOptions.combined(options, values)
    if not isinstance(systems, Mapping):
        found = reprlib.repr(systems)
        raise ConfigurationError("found systems=%s, expected a dict from the name of each system to its files", found)
    if BASELINE in systems:
        raise ConfigurationError("found a system named %s, expected this name for {baseline} only", BASELINE)
    check_lists(("baseline",), references=references, baseline=baseline)
    check_lists(**systems)
    if not systems and not baseline:
        raise ConfigurationError("found neither {systems} nor {baseline}, expected translations to score")
    check_metrics(metrics)
    if options.tokenize not in ("none", EvaluationOptions.tokenize) and "bleu" not in metrics:
        raise ConfigurationError(
            "found {tokenize}=%s with {metrics}=%s, expected it with bleu", options.tokenize, " and ".join(metrics)
        )
    files = {BASELINE: baseline, **systems} if baseline else dict(systems)
    sentences = read_references(references, options.encoding, options.unescape)
    corpus_metrics = [CorpusMetric(name, sentences, options.tokenize) for name in metrics]
    runs: dict[str, list[list[str]]] = {name: [] for name in files}
    escaped = None if options.unescape else is_escaped([sentence for reference in sentences for sentence in reference])
    unlike: list[str] = []
    for name, paths in files.items():
        for path in paths:
            text = read_text(path, options.encoding, options.unescape)
            check_lines(path, len(text), references[0], len(sentences[0]))
            runs[name].append(text)
            if escaped is not None and is_escaped(text) is (not escaped):
                unlike.append(str(path))
    tests = {name: getattr(options, name) for name in ("bootstrap_samples", "trials", "seed")}
    return [
        Evaluation(
            metric.label, metric.signature, _compared(metric, runs, **tests), **tests, unlike_references=tuple(unlike)
        )
        for metric in corpus_metrics
    ]


def check_metrics(names: Sequence[str]) -> None:
    """Checks that metrics are known, and that there is at least one.

    Raises:
        ConfigurationError: a ValueError, if not.
    """
    if not names:
        raise ConfigurationError("found no {metrics}, expected at least one of %s", ", ".join(METRICS))
    for name in names:
        check_choice("metrics", name, METRICS)


def _compared(
    metric: CorpusMetric, runs: Mapping[str, Sequence[Sequence[str]]], bootstrap_samples: int, trials: int, seed: int
) -> tuple[SystemScore, ...]:
    """Scores all systems, the baseline first, and compares the others with it."""
    counts = {name: [metric.corpus_counts(text) for text in texts] for name, texts in runs.items()}
    systems: list[SystemScore] = []
    for name, matrices in counts.items():
        scores = tuple(metric.score(matrix.sum(axis=0)) for matrix in matrices)
        if BASELINE not in counts or name == BASELINE:
            sampled = bootstrap_scores(matrices, metric.scores, bootstrap_samples, seed)
            systems.append(SystemScore(name, scores, confidence_interval(sampled)))
            continue
        baseline = counts[BASELINE]
        p_bootstrap, interval = paired_bootstrap(matrices, baseline, metric.scores, bootstrap_samples, seed)
        p_randomization = approximate_randomization(matrices, baseline, metric.scores, trials, seed)
        difference = float(np.mean(scores)) - systems[0].mean
        systems.append(
            SystemScore(name, scores, interval, BaselineComparison(difference, p_bootstrap, p_randomization))
        )
    return tuple(systems)


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows of cells as lines: the first column is aligned on the left, the others on the right.

    Args:
        rows: list of rows of equal length, the header first.

    Example:

    >>> print(text_table([("system", "BLEU"), ("rnn", "9.5"), ("baseline", "31.2")]))
    system    BLEU
    rnn        9.5
    baseline  31.2
    """
    widths = [max(map(_columns, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([first + " " * (widths[0] - _columns(first)), *map(str.rjust, others, widths[1:])]).rstrip()
        for first, *others in rows
    )


def _columns(text: str) -> int:
    """Returns how many columns of a terminal a text takes: a Chinese character two, an accent of its own none."""
    visible = [each for each in text if category(each) not in ("Mn", "Me", "Cf")]
    return len(visible) + sum(east_asian_width(each) in "WF" for each in visible)
