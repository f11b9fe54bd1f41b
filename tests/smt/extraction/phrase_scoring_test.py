import pytest

from keras_encdec.formats import escape
from keras_encdec.smt.extraction.lexical_table import NULL, LexicalTable, WordPairCounts
from keras_encdec.smt.extraction.phrase_scoring import score_phrases


def lexical_table(pairs, alignments):
    sentences = [
        ([word.encode() for word in source], [word.encode() for word in target], links)
        for (source, target), links in zip(pairs, alignments, strict=True)
    ]
    words = {word for source, target, _ in sentences for side in (source, target) for word in side}
    vocabulary = {word: number for number, word in enumerate([NULL, *sorted(words), b"unseen"])}
    return LexicalTable(vocabulary, WordPairCounts.of_sentences(sentences, vocabulary))


def test_one_pair_by_hand():
    # "la maison" - "the house", monotone: every word translates with certainty.
    assert list(score_phrases([(["la", "maison"], ["the", "house"])], [[(0, 0), (1, 1)]])) == [
        "la maison ||| the house ||| 1 1 1 1 ||| 0-0 1-1 ||| 1 1 1 ||| |||",
        "la ||| the ||| 1 1 1 1 ||| 0-0 ||| 1 1 1 ||| |||",
        "maison ||| house ||| 1 1 1 1 ||| 0-0 ||| 1 1 1 ||| |||",
    ]


def test_relative_frequencies_and_order_of_scores():
    # f=a: twice x, once y. e=x: twice a, once b. So p(x|a) = 2/3, p(a|y) = 1, p(b|x) = 1/3.
    pairs = [(["a"], ["x"]), (["a"], ["x"]), (["a"], ["y"]), (["b"], ["x"])]
    assert list(score_phrases(pairs, [[(0, 0)]] * 4)) == [
        "a ||| x ||| 0.666667 0.666667 0.666667 0.666667 ||| 0-0 ||| 3 3 2 ||| |||",
        "a ||| y ||| 1 1 0.333333 0.333333 ||| 0-0 ||| 1 3 1 ||| |||",
        "b ||| x ||| 0.333333 0.333333 1 1 ||| 0-0 ||| 3 1 1 ||| |||",
    ]


def test_lexical_weights_by_hand():
    # Points a-x twice and b-x once; y is unaligned in one of its two occurrences, c-y in the other.
    pairs = [(["a", "b"], ["x", "y"]), (["a", "c"], ["x", "y"])]
    alignments = [[(0, 0), (1, 0)], [(0, 0), (1, 1)]]
    table = lexical_table(pairs, alignments)
    assert table.target_probability(b"NULL", b"y") == 1  # NULL explains y and nothing else
    assert table.source_probability(b"a", b"x") == pytest.approx(2 / 3, abs=1e-7)  # a, b, a
    assert table.source_probability(b"c", b"y") == 0.5  # NULL, c
    # lex(e|f) of "a b - x y": x by the mean of w(x|a) = 1 and w(x|b) = 1, y by w(y|NULL) = 1;
    # lex(f|e): w(a|x) w(b|x) = 2/3 1/3. "a b" also goes with "x", and "x y" with "a c".
    line = next(line for line in score_phrases(pairs, alignments) if line.startswith("a b ||| x y"))
    assert line.split(" ||| ")[2:4] == ["0.5 0.222222 0.5 1", "0-0 1-0"]


def test_unaligned_source_word_costs_its_null_probability():
    # b is unaligned in the first pair, e in the third.
    pairs = [(["a", "b"], ["x"]), (["b"], ["z"]), (["d", "e"], ["x"])]
    lines = list(score_phrases(pairs, [[(0, 0)], [(0, 0)], [(0, 0)]]))
    scores = {tuple(line.split(" ||| ")[:2]): line.split(" ||| ")[2].split() for line in lines}
    # w(b|NULL) = 1/2, for NULL explains e as well; w(a|x) = 1/2.
    assert scores["a b", "x"] == ["0.25", "0.25", "1", "1"]
    assert scores["a", "x"] == ["0.25", "0.5", "1", "1"]


def test_the_most_frequent_alignment_is_written():
    pairs = [(["a", "b"], ["x", "y"])] * 3
    alignments = [[(0, 0), (1, 1)], [(0, 1), (1, 0)], [(0, 1), (1, 0)]]
    line = next(line for line in score_phrases(pairs, alignments) if line.startswith("a b |||"))
    assert line.split(" ||| ")[3:5] == ["1-0 0-1", "3 3 3"]


def test_tied_alignments_go_to_the_greater_over_the_explained_side():
    pairs = [(["a", "b"], ["x", "y"])] * 2
    alignments = [[(0, 0), (1, 1)], [(0, 0), (0, 1), (1, 0)]]
    line = next(line for line in score_phrases(pairs, alignments) if line.startswith("a b |||"))
    # Over target words ((0,), (1,)) loses to ((0, 1), (0,)); over source words ((0,), (1,)) loses to
    # ((0, 1), (0,)).
    assert line.split(" ||| ")[3] == "0-0 1-0 0-1"
    # w(x|a) = 2/3, w(x|b) = 1/2, w(y|a) = 1/3: the mean of the first two, times the third.
    assert line.split(" ||| ")[2].split()[3] == "0.194444"


def test_max_length():
    pairs, alignments = [(list("abc"), list("xyz"))], [[(0, 0), (1, 1), (2, 2)]]
    assert len(list(score_phrases(pairs, alignments, max_length=2))) == 5


def test_lines_are_in_the_order_of_their_bytes_and_escaped():
    pairs = [(["a", "b"], ["x", "|"]), (["a!"], ["[é]"]), (["a", "'"], ["ÿ", "\U0001f600"])]
    lines = list(score_phrases(pairs, [[(0, 0), (1, 1)], [(0, 0)], [(0, 1), (1, 0)]]))
    assert lines == sorted(lines, key=str.encode)
    assert "b ||| &#124; ||| 1 1 1 1 ||| 0-0 ||| 1 1 1 ||| |||" in lines
    assert any(line.startswith("a! ||| &#91;é&#93; |||") for line in lines)


def test_escape_does_the_ampersand_once():
    assert escape("<&>") == "&lt;&amp;&gt;"
    assert escape("\"'|[]") == "&quot;&apos;&#124;&#91;&#93;"


def test_words_never_aligned_to_each_other_have_probability_one():
    table = lexical_table([(["a"], ["x"])], [[(0, 0)]])
    assert table.target_probability(b"a", b"unseen") == 1
