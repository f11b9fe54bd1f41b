import numpy as np
import pytest

from keras_encdec.scoring import ngram_scorer as distinct_ngrams
from keras_encdec.scoring.ngram_scorer import DistinctNgrams


@pytest.mark.parametrize("largest", [2**62, 100], ids=["packed at once", "packed in steps"])
def test_ngrams_are_those_of_a_dictionary(monkeypatch, largest):
    monkeypatch.setattr(distinct_ngrams, "LARGEST", largest)
    random = np.random.default_rng(0)
    rows = random.integers(1, 6, (50, 9)) * (np.arange(9) < random.integers(1, 10, (50, 1)))
    found = DistinctNgrams(rows, 3)
    expected = set()
    for row, numbers in zip(rows.tolist(), found.numbers, strict=True):
        before = [0, 0, 0, *row]
        for t, word in enumerate(row):
            if word:
                number = numbers[t]
                context = found.contexts[found.context_of_ngram[number]].tolist()
                assert (context, found.words[number]) == (before[t : t + 3], word)
                expected.add((*context, word))
            else:
                assert numbers[t] == 0
    assert len(found.words) == len(found.context_of_ngram) == len(expected)
    assert len(found.contexts) == len({ngram[:-1] for ngram in expected})
    assert (np.diff(found.context_of_ngram) >= 0).all()
