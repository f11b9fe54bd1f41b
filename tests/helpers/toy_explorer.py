"""Explorers of small models, for tests of the page."""

from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model

from keras_encdec.web import Explorer, RequestLimits

PHRASES = ["le chat la maison", "la maison", "l' été", "R&D <b> [X]", '| " la']


def toy_explorer(path, phrases=PHRASES, limits=None, **arguments):
    """An Explorer of a model that is written to a folder; its phrases are encoded.

    Args:
        path: of the model directory, which is made if there is none.
        phrases: see `Explorer`.
        limits: dict of arguments of RequestLimits. Defaults to none.
        **arguments: see `save_model`.
    """
    if not path.exists():
        save_model(path, SOURCE_WORDS, TARGET_WORDS, seed=1, **arguments)
    explorer = Explorer(path, phrases, RequestLimits(**(limits or {})))
    steps = [*explorer.preparations()]
    if phrases:
        steps[1]()  # encodes the phrases; the first step would compile what few tests need
    return explorer
