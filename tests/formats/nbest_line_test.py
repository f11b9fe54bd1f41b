"""The segmentation of n-best lists: its field, and the source spans between the words of a hypothesis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.formats import PhraseSpan, parse_nbest_line, parse_segmentation
from keras_encdec.formats.record_reader import MalformedLine

LINE = b"0 ||| le chat  ||| LM0= -4.5 ||| -3.25"


def field(spans):
    """The field as Moses writes it: -1, an unsigned number of 64 bits, ends a phrase without words at the beginning."""
    texts = []
    for span in spans:
        sides = []
        for start, end in (span[:2], span[2:]):
            last = (end - 1) % (1 << 64)
            sides.append(f"{start}-{last}" if start < last else f"{start}")
        texts.append("=".join(sides))
    return " ".join(texts)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=5), st.randoms())
def test_segmentations_of_moses_are_parsed(lengths, random):
    order = list(range(len(lengths)))
    random.shuffle(order)
    starts = [sum(size for size, _ in lengths[:place]) for place in range(len(lengths))]
    spans, position = [], 0
    for place in order:
        source, target = lengths[place]
        spans.append(PhraseSpan(starts[place], starts[place] + source, position, position + target))
        position += target
    line = LINE + f" ||| {field(spans)} ||| 0-0 1-1 ".encode()
    words = sum(size for size, _ in lengths)
    assert parse_segmentation(line, words, position) == spans


def test_an_empty_hypothesis_of_an_empty_sentence_has_no_phrases():
    assert parse_segmentation(b"0 |||  ||| LM0= 0 ||| 0 |||  ", 0, 0) == []


def test_other_fields_are_not_a_segmentation():
    assert parse_segmentation(LINE, 2, 2) is None
    assert parse_segmentation(LINE + b" ||| 0-0 1-1 ", 2, 2) is None


@pytest.mark.parametrize(
    "text",
    ["0=0", "0=0 2=1", "0=0 0=1", "0-1=1", "0=0-1 1=1", "0=0 1=2", "1-0=0-1", "0-5=0-1", "a=b", "0=0 x=", "1=1 0=0"],
)
def test_spans_that_do_not_cover_each_word_once_are_malformed(text):
    with pytest.raises(MalformedLine, match='found the segmentation ".*", expected spans .* of the 2 words of'):
        parse_segmentation(LINE + f" ||| {text}".encode(), 2, 2)


@pytest.mark.parametrize(
    ("hypothesis", "words"),
    [
        (b"le |0-0| petit chat |1-2| ", b"le petit chat"),
        (b"le|DET |0-0| chat|NOUN |1-1|", b"le|DET chat|NOUN"),
        (b"le |0-0,wa=0-0 ,total=-1.5,LM0= -2| chat |1-1,wa=0-0 1-1,total=-2|", b"le chat"),
        (b"|0-0| chat |1-1|", b"chat"),
        (b"chat|0-0| 3|4-5|6 &#124;0-0&#124;", b"chat|0-0| 3|4-5|6 &#124;0-0&#124;"),
    ],
)
def test_source_spans_between_the_words_of_a_hypothesis_are_not_words(hypothesis, words):
    assert parse_nbest_line(b"0 ||| " + hypothesis + b" ||| LM0= -4.5 ||| -3.25").hypothesis == words
