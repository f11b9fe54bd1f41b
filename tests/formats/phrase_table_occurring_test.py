"""Tests of the phrases that occur in sentences."""

import itertools
import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.formats.phrase_table import OccurringPhrases

WORDS = st.lists(st.sampled_from(["a", "ab", "b", "é", "\u00a0", "!"]), max_size=5)


def spans(words, longest):
    """All phrases of a sentence with at most so many words."""
    ends = itertools.combinations(range(len(words) + 1), 2)
    return {" ".join(words[start:end]) for start, end in ends if end <= start + longest}


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=9), st.sampled_from([None, 1, 3]))
def test_phrases_are_those_of_the_sentences(sentences, others, longest):
    phrases = OccurringPhrases(sentences, longest)
    expected = set[str]().union(*(spans(words, longest or 5) for words in sentences))
    for phrase in set[str]().union(expected, *(spans(words, 5) for words in [*sentences, *others]), [""]):
        assert (phrase in phrases) == (phrase in expected)


def test_phrases_take_little_memory():
    rng = random.Random(1)
    sentences = [[f"word{rng.randrange(1000)}" for _ in range(30)] for _ in range(200)]
    sizes = []
    for phrases_of in (OccurringPhrases, lambda sentences, longest: {p for s in sentences for p in spans(s, longest)}):
        tracemalloc.start()
        phrases = phrases_of(sentences, 20)
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        del phrases
    assert sizes[0] < sizes[1] / 5
