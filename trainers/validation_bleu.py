"""BLEU of what a model makes of the sources of the pairs to validate on."""

import math
from collections.abc import Iterable, Mapping

import keras
import numpy as np

from keras_encdec.decoding import Generator
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.sacrebleu_import import import_sacrebleu
from keras_encdec.text.vocabulary import END, PADDING, UNKNOWN
from keras_encdec.trainers.building import building

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
