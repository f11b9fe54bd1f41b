"""Batches with the characters of rare words."""

import itertools

import numpy as np
import pytest

from keras_encdec.data import Batches, prepare
from keras_encdec.text.vocabulary import UNKNOWN, spelled_word


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Prepared pairs of four frequent words and many rare ones, and the vocabularies."""
    random = np.random.default_rng(0)
    rare = ["".join(random.choice(list("xyz"), random.integers(1, 14))) for _ in range(900)]
    frequent = ["a", "b", "c", "d"]

    def sentence():
        return [str(random.choice(rare if random.random() < 0.2 else frequent)) for _ in range(random.integers(1, 9))]

    pairs = [(sentence(), sentence()) for _ in range(600)]
    folder = tmp_path_factory.mktemp("rare") / "prepared"
    return prepare(pairs, folder, 4, characters=(3, 3))


def shapes(batch):
    return tuple((name, array.shape) for name, array in sorted(batch.items()))


def words_of(vocabulary, characters, rows):
    return [spelled_word(row.tolist(), vocabulary.characters) for row in characters[rows]]


@pytest.mark.parametrize("widths", [None, (4, 9)])
def test_each_rare_word_has_its_characters(prepared, widths):
    pairs, source, target = prepared
    [batch] = itertools.islice(Batches(pairs, 32, widths=widths).stream(), 1)
    spelled = []
    for width in (10, 20, 51):
        characters, positions = batch[f"target_characters_{width}"], batch[f"target_positions_{width}"]
        used = characters[:, 0] > 0
        assert widths or used.all()
        assert (batch["target"].ravel()[positions[used]] == UNKNOWN).all()
        spelled += words_of(target, characters, used)
    assert len(spelled) == np.count_nonzero(batch["target"] == UNKNOWN) > 10
    rows = np.concatenate([np.pad(batch[f"source_characters_{w}"], ((0, 0), (0, 51 - w))) for w in (10, 20, 51)])
    rare = batch["source"][batch["source"] >= pairs.first_rare_id("source")] - pairs.first_rare_id("source")
    assert (rows[rare, 0] > 0).all() and len(np.unique(rare)) == np.count_nonzero(rows[:, 0])
    assert len(set(words_of(source, rows, rare))) > 5


def test_batches_of_the_same_widths_have_the_same_shapes(prepared):
    batches = Batches(prepared[0], 32, widths=(4, 9))
    stream = itertools.islice(batches.stream(), 4 * batches.updates_per_epoch)
    found = {shapes(batch) for batch in stream}
    widths = {tuple(shape for name, shape in each if name in ("source", "target")) for each in found}
    assert len(found) <= len(widths) + 2
