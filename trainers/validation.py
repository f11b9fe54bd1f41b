"""BLEU of what a model makes of the sources of the pairs to validate on."""

import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_encdec.decoding import Generator
from keras_encdec.formats import open_output
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.runtime.sacrebleu_import import import_sacrebleu
from keras_encdec.text.vocabulary import END, PADDING, UNKNOWN
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import building

WITHOUT = ", or train without --validation_bleu"


class ValidationBleu(keras.callbacks.Callback):
    """Adds "val_bleu" to what is measured after each round: corpus BLEU of greedy translations, 0 to 100.

    Words are compared by their ids, as they were tokenized. An unknown word of a reference counts as a word that no
    translation has. The callback comes before all that read what was measured. What is compiled in the first round
    serves the others.

    Args:
        model: TranslationModel, with a source, that is trained.
        batches: iterable of dicts "source" and "target", integer arrays `(pairs, time)`: what is validated on.

    Raises:
        ImportError: when sacrebleu is not installed.
    """

    def __init__(self, model: TranslationModel, batches: Iterable[Mapping[str, np.ndarray]]) -> None:
        super().__init__()
        self._corpus_bleu = import_sacrebleu(WITHOUT).corpus_bleu
        with building():
            self._generator = Generator(model)
        self._sources, self._references = [], []
        for batch in batches:
            self._sources.extend(batch["source"])
            self._references.extend(_text(target.tolist(), unknown="unknown") for target in batch["target"])

    def measure(self) -> float:
        """BLEU of the model as it is now."""
        hypotheses = self._generator.generate(self._sources)
        translations = [_text(best.ids) for best, *_ in hypotheses]
        return self._corpus_bleu(translations, [self._references], tokenize="none", force=True).score

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if math.isfinite(logs["val_perplexity"]):  # a model that diverged makes nothing of any source
            logs["val_bleu"] = self.measure()


def _text(ids: Iterable[int], unknown: str = str(UNKNOWN)) -> str:
    """Ids as words of a text that needs no tokenizing; padding and the end of sequence are left out."""
    return " ".join(unknown if i == UNKNOWN else str(i) for i in ids if i not in (PADDING, END))


ROUNDS = "rounds"


class RoundAverage(keras.callbacks.Callback):
    """Keeps the weights after each of the last rounds, and averages them.

    They are files in the model directory, so that a training that was killed goes on with those before.
    The callback comes before the one that keeps the last model: a round that is on record has its file.

    Args:
        folder: path of the model directory.
        budget: Budget, for the updates so far.
        number: int. Rounds to average over; fewer while there are fewer.
        rounds: list of dict, the history before. Defaults to none.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        budget: Budget,
        number: int,
        rounds: Sequence[dict[str, Any]] = (),
    ) -> None:
        super().__init__()
        self._folder, self._budget, self._number = pathlib.Path(folder) / ROUNDS, budget, number
        last = [kept["updates"] for kept in rounds if "averaged_rounds" not in kept][-number:]
        for updates, path in self._kept().items():
            if updates not in last:
                path.unlink()  # of a round long ago, or one that was not put on record

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._folder.mkdir(exist_ok=True)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        with open_output(self._folder / f"{self._budget.updates_done}.npz") as file:
            # NumPy files have no bfloat16.
            np.savez(file, *(weight.astype(np.float32) for weight in self.model.get_weights()))
        kept = self._kept()
        for updates in sorted(kept)[: -self._number]:
            kept[updates].unlink()

    def mean(self) -> tuple[list[np.ndarray], int]:
        """The average: list of arrays as of `model.get_weights`, and the number of rounds it is of."""
        total, paths = None, list(self._kept().values())
        for path in paths:
            with np.load(path) as file:
                weights = [file[name].astype(np.float64) for name in file.files]
            total = weights if total is None else [a + b for a, b in zip(total, weights, strict=True)]
        return [weight / len(paths) for weight in total], len(paths)

    @property
    def rounds(self) -> int:
        """Number of rounds that are kept: int."""
        return len(self._kept())

    def _kept(self):
        return {int(path.stem): path for path in self._folder.glob("*.npz") if path.stem.isdecimal()}
