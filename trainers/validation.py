"""BLEU of a model's translations of the validation pairs."""

import math
from collections.abc import Iterable, Mapping

import keras
import numpy as np

from keras_encdec.decoding import Generator
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.runtime.sacrebleu_import import import_sacrebleu
from keras_encdec.text.vocabulary import END, PADDING, UNKNOWN
from keras_encdec.trainers.checkpoints import building

WITHOUT = ", or train without --validation_bleu"


class ValidationBleu(keras.callbacks.Callback):
    """Adds "val_bleu" to the measurements after each round: corpus BLEU of greedy translations, 0 to 100.

    Words are compared by their ids, in the tokenization of the training text. An unknown word of a reference matches
    no word of a translation. This callback must come before all callbacks that read the measurements. The search is
    compiled once, in the first round.

    Args:
        model: TranslationModel with a source, the model that is trained.
        batches: iterable of dicts "source" and "target", integer arrays `(pairs, time)`: the validation pairs.

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
        if math.isfinite(logs["val_perplexity"]):  # a model that diverged generates nothing
            logs["val_bleu"] = self.measure()


def _text(ids: Iterable[int], unknown: str = str(UNKNOWN)) -> str:
    """Ids as words separated by spaces, without padding and the end of sequence."""
    return " ".join(unknown if i == UNKNOWN else str(i) for i in ids if i not in (PADDING, END))
