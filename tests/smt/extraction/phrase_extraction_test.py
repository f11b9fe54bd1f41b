from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.smt.extraction.phrase_extraction import extract_phrases, phrase_pair_keys

EUROPARL = Path(__file__).parents[4] / "shared" / "data" / "europarl10k"


def brute_force(source_length, target_length, alignment, max_length):
    """The definition itself: every pair of spans, tested point by point."""
    result = set()
    for s in range(source_length):
        for s_end in range(s + 1, min(source_length, s + max_length) + 1):
            for t in range(target_length):
                for t_end in range(t + 1, min(target_length, t + max_length) + 1):
                    inside = [(s <= i < s_end, t <= j < t_end) for i, j in alignment]
                    if any(a and b for a, b in inside) and all(a == b for a, b in inside):
                        result.add((s, s_end, t, t_end))
    return result


@st.composite
def aligned_pairs(draw):
    source_length, target_length = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    points = st.tuples(st.integers(0, source_length - 1), st.integers(0, target_length - 1))
    return source_length, target_length, draw(st.lists(points, max_size=10))


@given(aligned_pairs(), st.integers(1, 8))
@settings(max_examples=400)
def test_phrase_pairs_are_those_of_the_definition(pair, max_length):
    phrases = extract_phrases(*pair, max_length=max_length)
    assert len(phrases) == len(set(phrases))
    assert set(phrases) == brute_force(*pair, max_length)


def test_koehn_example():
    # "michael geht davon aus" - "michael assumes that": three source words make one target word, and
    # the unaligned word goes with either neighbour.
    assert set(extract_phrases(4, 3, [(0, 0), (1, 1), (2, 1), (3, 1)])) == {
        (0, 1, 0, 1),
        (1, 4, 1, 2),
        (1, 4, 1, 3),
        (0, 4, 0, 2),
        (0, 4, 0, 3),
    }


@given(aligned_pairs(), st.integers(1, 8))
@settings(max_examples=100)
def test_keys_have_the_words_and_the_links_inside_the_spans(pair, max_length):
    source_length, target_length, points = pair
    source, target = [b"s%d" % i for i in range(source_length)], [b"t%d" % j for j in range(target_length)]
    expected = []
    for s, s_end, t, t_end in brute_force(*pair, max_length):
        inside = sorted({(j - t, i - s) for i, j in points if s <= i < s_end and t <= j < t_end})
        links = b" ".join(b"%d-%d" % (i, j) for j, i in inside)
        expected.append(b" ||| ".join([b" ".join(source[s:s_end]), b" ".join(target[t:t_end]), links]))
    assert sorted(phrase_pair_keys(source, target, points, max_length)) == sorted(expected)


def test_an_unaligned_sentence_has_no_phrase_pairs():
    assert extract_phrases(3, 3, []) == []


def test_a_link_outside_the_sentences_is_an_error():
    with pytest.raises(ValueError, match="found the link 2-0, expected positions in sentences of 2 and 2 words"):
        extract_phrases(2, 2, [(2, 0)])


def test_europarl_count():
    if not EUROPARL.is_dir():
        pytest.skip(f"{EUROPARL} is not here")
    distinct = set()
    files = [(EUROPARL / name).open(encoding="utf-8") for name in ("train.fr", "train.en", "train.align.fr-en")]
    for french, english, points in zip(*files, strict=True):
        french, english = french.split(), english.split()
        points = [tuple(map(int, point.split("-"))) for point in points.split()]
        for f, f_end, e, e_end in extract_phrases(len(french), len(english), points):
            distinct.add((" ".join(french[f:f_end]), " ".join(english[e:e_end])))
    for file in files:
        file.close()
    assert len(distinct) == 756_882
