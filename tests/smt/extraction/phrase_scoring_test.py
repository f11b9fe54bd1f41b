from keras_encdec.formats import escape
from keras_encdec.smt.extraction.phrase_scoring import score_phrases


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


def test_the_most_frequent_alignment_is_written():
    pairs = [(["a", "b"], ["x", "y"])] * 3
    alignments = [[(0, 0), (1, 1)], [(0, 1), (1, 0)], [(0, 1), (1, 0)]]
    line = next(line for line in score_phrases(pairs, alignments) if line.startswith("a b |||"))
    assert line.split(" ||| ")[3:5] == ["1-0 0-1", "3 3 3"]


def test_of_equally_frequent_alignments_the_greater_over_the_explained_side_is_written():
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


def test_escape_replaces_an_ampersand_only_once():
    assert escape("<&>") == "&lt;&amp;&gt;"
    assert escape("\"'|[]") == "&quot;&apos;&#124;&#91;&#93;"
