"""Lexical weights."""

import pytest

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


def test_lexical_weights_by_hand():
    # Points a-x twice and b-x once; y is unaligned in one of its two occurrences, c-y in the other.
    pairs = [(["a", "b"], ["x", "y"]), (["a", "c"], ["x", "y"])]
    alignments = [[(0, 0), (1, 0)], [(0, 0), (1, 1)]]
    table = lexical_table(pairs, alignments)
    assert table.look_up(b"NULL", b"y")[0] == 1  # NULL explains y and nothing else
    assert table.look_up(b"a", b"x")[1] == pytest.approx(2 / 3, abs=1e-7)  # a, b, a
    assert table.look_up(b"c", b"y")[1] == 0.5  # NULL, c
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


def test_words_never_aligned_to_each_other_have_probability_one():
    table = lexical_table([(["a"], ["x"])], [[(0, 0)]])
    assert table.look_up(b"a", b"unseen")[0] == 1
