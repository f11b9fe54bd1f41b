"""Writes the model card of a model directory: a README.md with the front matter that Hugging Face reads."""

import dataclasses
import datetime
import json
import math
import pathlib
from collections.abc import Mapping, Sequence

from keras_encdec import __version__
from keras_encdec.errors import FilePath, explained
from keras_encdec.model_config import WEIGHTS
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.open_output import write_file
from keras_encdec.trainers.reporting import TrainingResult, TrainingRound
from keras_encdec.trainers.tasks import TrainingTasks
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData
from keras_encdec.trainers.training_files import SETTINGS

CARD = "README.md"
# A card without this line belongs to the user, who wrote or changed it.
MARK = "<!-- encdec-train wrote this card, and replaces it when the training goes on. Remove this line to keep it. -->"
LIBRARY = "keras-encdec"
# Training settings that the card shows; settings.toml has all of them.
_SHOWN = ("optimizer", "learning_rate", "schedule", "batch_size", "label_smoothing", "dtype_policy", "seed")

# Flags that name the files to score, by the format of the training data.
_FILES = {
    "phrase_table": "--input=phrase-table.gz --output=scored.gz",
    "parallel": "--format=parallel --source=source.txt --input=target.txt --output=scored.tsv",
    "tsv": "--format=tsv --input=pairs.tsv --output=scored.tsv",
}


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """The contents of the card of a trained model.

    Attributes:
        config: TrainingConfig.
        data: TrainingData. Only the names of its files are shown, without their folders.
        result: TrainingResult.
        directory: ModelDirectory, with the vocabularies.
        weights: int. Number of weights.
        pairs: int. Number of pairs that were trained on.
        held_out: int. Number of pairs that were validated on.
        languages: codes of the source and target language, such as ("en", "fr"). Defaults to unknown.
        license: str. Identifier of the licence, as Hugging Face writes it. Defaults to `None`: unknown.
        remark: str. Markdown to put below the title. Defaults to none.
        tasks: TrainingTasks that were trained together; `None` if there was one task. Defaults to `None`.
    """

    config: TrainingConfig
    data: TrainingData
    result: TrainingResult
    directory: ModelDirectory
    weights: int
    pairs: int
    held_out: int
    languages: Sequence[str] = ()
    license: str | None = None
    remark: str = ""
    tasks: TrainingTasks | None = None

    def write(self) -> None:
        """Writes the card into the model directory, unless the card there is the user's.

        Raises:
            InputError: if it cannot be written.
        """
        path = self.directory.path / CARD
        if path.exists():
            with explained(path, "to read a file"):
                if MARK not in path.read_text(encoding="utf-8", errors="replace"):
                    return
        write_file(path, self.text().encode())

    def text(self) -> str:
        """Returns the card in Markdown."""
        predicted = "p(target)" if not self.config.has_source else "p(target | source)"
        if self.directory.reverse:
            predicted = "p(source | target)"
        made = f"A model of {predicted}, trained by {LIBRARY} {__version__}."
        sections = {
            "Data": _table(self._data()),
            **({"Tasks": _tasks_table(self.tasks)} if self.tasks else {}),
            "Sizes": _table(self._sizes()),
            "Settings": f"{_table(self._settings())}\n\nAll settings are in `{SETTINGS}`.",
            "Perplexity": _table(self._measurements()),
            "Date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            "How to use it": self._usage(),
        }
        parts = [self._front_matter(), MARK, f"# {self.name}", made, *([self.remark] if self.remark else [])]
        return "\n\n".join([*parts, *(f"## {title}\n\n{text}" for title, text in sections.items())]) + "\n"

    @property
    def name(self) -> str:
        """The name of the model: that of its directory."""
        return _file_name(self.directory.path.resolve())

    def _front_matter(self) -> str:
        """Writes YAML. Texts are written in JSON, a part of YAML, so that no file name breaks the front matter."""
        task = "translation" if self.config.has_source else "text-generation"
        tags = ["keras", "rnn-encoder-decoder", "statistical-machine-translation", self.config.architecture]
        lines = [f"library_name: {LIBRARY}", f"pipeline_tag: {task}", f"tags: {json.dumps(tags)}"]
        if self.languages:
            lines.append(f"language: {json.dumps(list(self.languages))}")
        if self.license:
            lines.append(f"license: {json.dumps(self.license)}")
        if self.result.best:
            dataset = {"name": self._dataset, "type": self.data.registered_format}
            metrics = [{"type": "perplexity", "name": _perplexity_name(self.result.best), "value": self._perplexity}]
            if self.result.best.val_bleu is not None:
                metrics.append({"type": "bleu", "name": "BLEU", "value": round(self.result.best.val_bleu, 2)})
            results = [{"task": {"type": task}, "dataset": dataset, "metrics": metrics}]
            lines.append(f"model-index: {json.dumps([{'name': self.name, 'results': results}])}")
        return "\n".join(["---", *lines, "---"])

    @property
    def _dataset(self) -> str:
        return ", ".join(map(_file_name, self.data.files.values()))

    @property
    def _perplexity(self) -> float:
        """The perplexity of the best round; not a number before the first round."""
        if (best := self.result.best) is None:
            return math.nan
        perplexity = best.perplexity if best.val_perplexity is None else best.val_perplexity
        return math.nan if perplexity is None else round(perplexity, 3)

    def _data(self) -> dict[str, object]:
        return {
            "Files": f"`{self._dataset}` ({self.data.registered_format})",
            "Distinct pairs trained on": f"{self.pairs:,}",
            "Pairs validated on": f"{self.held_out:,}",
            "Longest side, in words": self.data.max_length,
            "Text": "raw" if self.data.tokenize else "tokens, separated by spaces",
        }

    def _sizes(self) -> dict[str, object]:
        sides = {"target": self.directory.target_vocabulary}
        if self.config.has_source:
            sides = {"source": self.directory.source_vocabulary, **sides}
        with explained(self.directory.path / WEIGHTS, "to read a file"):
            size = (self.directory.path / WEIGHTS).stat().st_size
        return {
            "Architecture": f"`{self.config.architecture}`",
            **{f"Words of the model's {side}": f"{len(vocabulary):,}" for side, vocabulary in sides.items()},
            "Weights": f"{self.weights:,}",
            f"`{WEIGHTS}`": f"{size / 1e6:.1f} MB",
            **{f"`{name}`": value for name, value in self.config.model_config.to_dict().items() if value is not None},
        }

    def _settings(self) -> dict[str, object]:
        values = self.config.to_dict()
        result = self.result
        return {
            **{f"`{name}`": values[name] for name in _SHOWN},
            "Updates": f"{result.updates:,}",
            "Minutes of training": f"{result.seconds / 60:.1f}",
            "Stopped by a signal": "no" if result.signal is None else f"yes ({result.signal})",
        }

    def _measurements(self) -> dict[str, object]:
        best = self.result.best
        if best is None:
            return {"Not measured": "the training was stopped before its first round was complete"}
        measured: dict[str, object] = {_perplexity_name(best): f"{self._perplexity:.3f}"}
        if best.val_bleu is not None:
            measured["BLEU of greedy translations"] = f"{best.val_bleu:.2f}"
        return {**measured, "After updates": f"{best.updates:,}"}

    def _usage(self) -> str:
        name = self.name
        if not self.config.has_source:
            return (
                f"    encdec-generate --model_dir={name} --mode=sample --num_samples=5\n"
                f"    encdec-score --model_dir={name} --format=sentences --input=text --output=scored"
            )
        files = _FILES.get(self.data.registered_format, _FILES["tsv"])
        return (
            f"    encdec-score --model_dir={name} {files}\n"
            f"    encdec-generate --model_dir={name} --input=phrases\n\n"
            "In Python:\n\n```python\n"
            "from keras_encdec.decoding import BeamSampler, TextGenerator\n\n"
            f'[targets] = TextGenerator(["{name}"]).generate(["a phrase"], BeamSampler(12))\n'
            "print(*targets[0].words)\n```"
        )


def _file_name(path: FilePath) -> str:
    """Returns the name of a file or folder, with "?" in place of bytes that are not UTF-8."""
    return pathlib.PurePath(path).name.encode("utf-8", "replace").decode()


def _perplexity_name(best: TrainingRound) -> str:
    """Names a round's perplexity by the pairs on which it was measured."""
    return f"Perplexity per token, {'training' if best.val_perplexity is None else 'held-out'} pairs"


def _tasks_table(tasks: TrainingTasks) -> str:
    """Writes a table of the tasks, and how to open one."""
    rows = [
        f"| `{name}` | {task.kind} | `{task.encoder}` | `{task.decoder}` | {tasks.ratios[name]:g} "
        f"| {', '.join(f'`{_file_name(path)}`' for path in task.files.values())} |"
        for name, task in tasks.tasks.items()
    ]
    head = ["| task | kind | encoder | decoder | ratio | files |", "|---|---|---|---|---|---|"]
    text = "This folder is the model of the first task. Commands take `--task=NAME` to use the model of another task."
    return "\n".join([*head, *rows, "", text])


def _table(values: Mapping[str, object]) -> str:
    """Writes a table of two columns."""
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in values.items())])
