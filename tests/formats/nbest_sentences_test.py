"""Sentences of n-best lists: their word penalty, and files that are not n-best lists."""

import pytest

from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines
from keras_encdec.formats.nbest import hypotheses_by_sentence, with_word_penalty


def test_lines_get_minus_the_number_of_words(tmp_path):
    (tmp_path / "nbest").write_text("0 ||| le|DET  chat  ||| LM0= -4 ||| 9 ||| 0=0\n0 |||  ||| LM0= 0 ||| 9\n")
    with InputLines(tmp_path / "nbest") as lines:
        (sentence,) = hypotheses_by_sentence(lines)
    added = [with_word_penalty(hypothesis) for hypothesis in sentence.hypotheses]
    assert [hypothesis.raw for hypothesis in added] == [
        b"0 ||| le|DET  chat  ||| LM0= -4 WordPenalty0= -2 ||| 9 ||| 0=0",
        b"0 |||  ||| LM0= 0 WordPenalty0= 0 ||| 9",
    ]
    with pytest.raises(InputError, match="nbest, line 1: found the feature WordPenalty0, expected it to be new"):
        with_word_penalty(added[0], tmp_path / "nbest")


@pytest.mark.parametrize(
    ("text", "remedy"), [("a b\n", "1: .*check that the file is an"), ("0 ||| a\n", "1: .*repair")]
)
def test_a_first_line_of_one_field_is_probably_in_another_file(tmp_path, text, remedy):
    (tmp_path / "list").write_text(text)
    with InputLines(tmp_path / "list") as lines, pytest.raises(InputError, match=f"line {remedy}"):
        list(hypotheses_by_sentence(lines))
