"""Smoothed phrase probabilities, against the formulas written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.smt.extraction.count_smoothing import CountSmoothing, PhraseCounts

# Extracted pairs (source, target) with their counts.
TABLES = st.dictionaries(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), st.integers(1, 12), min_size=1, max_size=30
)


def smoothed(name, table):
    """What CountSmoothing gives for each pair of a table."""
    sources, targets = [[pair[side] for pair in table] for side in (0, 1)]

    def columns(words):
        totals = {word: sum(count for pair, count in table.items() if word in pair) for word in words}
        return [totals[word] for word in words], [words.count(word) for word in words]

    (source, source_distinct), (target, target_distinct) = columns(sources), columns(targets)
    arrays = list(table.values()), source, target, source_distinct, target_distinct
    counts_of_counts = [len(table), *(list(table.values()).count(r) for r in range(1, 11))]
    counts = PhraseCounts(*(np.array(values, np.float32) for values in arrays))
    return zip(*CountSmoothing(name, counts_of_counts).probabilities(counts), strict=True)


def relations(table):
    """For each pair its count c, and for its source and for its target: count and number of distinct pairs."""
    for (s, t), c in table.items():
        of_source = [count for pair, count in table.items() if pair[0] == s]
        of_target = [count for pair, count in table.items() if pair[1] == t]
        yield c, sum(of_source), len(of_source), sum(of_target), len(of_target)


@given(TABLES)
@settings(max_examples=50)
def test_without_smoothing_probabilities_are_relative_frequencies(table):
    expected = [(c / target, c / source) for c, source, _, target, _ in relations(table)]
    np.testing.assert_allclose(list(smoothed("none", table)), expected, rtol=1e-6)


@given(TABLES)
@settings(max_examples=50)
def test_good_turing_discounts_small_counts(table):
    n = [0, *(list(table.values()).count(r) for r in range(1, 11))]
    factors = [0.01]
    for r in range(1, 10):
        factors.append(max(min(1, (r + 1) / r * (n[r + 1] + 0.1) / (n[r] + 0.1)), factors[-1]))
    adjusted = [(c * factors[c] if c < 9 else c, source, target) for c, source, _, target, _ in relations(table)]
    expected = [(count / target, count / source) for count, source, target in adjusted]
    np.testing.assert_allclose(list(smoothed("good_turing", table)), expected, rtol=1e-5)


@given(TABLES)
@settings(max_examples=50)
def test_kneser_ney_redistributes_discounts_by_distinct_pairs(table):
    table = {**table, ("g", "x"): 1, ("g", "y"): 2, ("h", "x"): 3}
    n = [0, *(list(table.values()).count(r) for r in range(1, 11))]
    share = n[1] / (n[1] + 2 * n[2])
    discounts = [0, *(min(r - (r + 1) * share * n[r + 1] / n[r], r - 0.1) for r in (1, 2, 3))]
    expected = []
    for c, source, source_distinct, target, target_distinct in relations(table):
        d = discounts[min(c, 3)]
        both = d * source_distinct * target_distinct / len(table)
        expected.append(((c - d + both) / target, (c - d + both) / source))
    np.testing.assert_allclose(list(smoothed("kneser_ney", table)), expected, rtol=1e-4)


def test_missing_counts_of_counts_are_reported():
    with pytest.raises(InputError, match=r"no phrase pair that was extracted twice.*use another --smoothing"):
        CountSmoothing("kneser_ney", [2, 1, 0, 1])
    with pytest.raises(
        ConfigurationError, match="found smoothing='some', expected one of none, good_turing, kneser_ney"
    ):
        CountSmoothing("some", [0])
