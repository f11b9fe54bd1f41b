"""The model directories that can be served."""

from keras_encdec.errors import InputError
from keras_encdec.models import RecurrentLanguageModel
from keras_encdec.scoring import ModelDirectory


def load_translation_model(path):
    """Loads a model directory whose model has a source.

    Args:
        path: of the directory.

    Returns:
        ModelDirectory.

    Raises:
        InputError: see `ModelDirectory.load`; for a language model.
    """
    directory = ModelDirectory.load(path)
    if isinstance(directory.model, RecurrentLanguageModel):
        raise InputError("found a language model", "expected one that has a source", "score with encdec-score", path)
    return directory
