"""A small hybrid word-character model, and pairs with words outside its shortlists."""

import keras
from gradients import in_one_program
from recurrent_toys import padded, stirred

from keras_encdec.data.rare_word_batches import with_source_characters, with_target_characters
from keras_encdec.models import RecurrentEncoderDecoder
from keras_encdec.text.vocabulary import SPELLING_WIDTH

SIZES = {"layers": 1, "units": 4, "embedding_dim": 3, "attention": "global"}
LONG = [3, 4, 5] * 20  # more characters than are read or spelled
# Words are ids, or lists of the ids of their characters.
PAIRS = [
    ([4, [3, 4], 5], [3, [4, 3, 3, 1], [5], 4]),
    ([[5, 1, 3, 3, 4, 4, 3, 5, 5, 3, 4, 4]], [[3, 4, 5, 3, 3, 3, 3, 3, 3], 5]),
    ([[3, 4], LONG], [LONG]),
    ([], []),
]


def hybrid(characters="both", **arguments):
    sizes = {**SIZES, "character_units": 5, "character_layers": 2, **arguments}
    numbers = {"source_characters": 3, "target_characters": 3}
    return stirred(RecurrentEncoderDecoder(3, 3, **numbers, characters=characters, **sizes))


def ids_of(pairs):
    """The ids of pairs for a model with 3 words on each side, rare words after these, and the rare words' spellings."""
    sides, spellings = ([], []), ([], [])
    for pair in pairs:
        for words, rows, known in zip(pair, sides, spellings, strict=True):
            ids = []
            for word in words:
                if isinstance(word, list):
                    known.append([*word[:50], 2])
                    word = 6 + len(known) - 1
                ids.append(word)
            rows.append([*ids, 2])
    return sides, [padded(known or [[2]], SPELLING_WIDTH) for known in spellings]


def inputs_of(pairs, width=None):
    """The inputs of a model with 3 words on each side."""
    sides, tables = ids_of(pairs)
    source, target = (padded(side, width) for side in sides)
    return {**with_source_characters(source, 6, tables[0]), **with_target_characters(target, 6, tables[1])}


def log_probs(model, pairs, width=None):
    return keras.ops.convert_to_numpy(in_one_program(model)(inputs_of(pairs, width))).sum(axis=1)
