"""Joining subwords to words."""

from keras_encdec.text.tokenizer import join_bpe, join_sentencepiece


def test_a_no_break_space_at_an_end_is_kept_where_pieces_are_joined():
    assert join_bpe(["\u00a0", "a@@", "b\u3000"]) == "\u00a0 ab\u3000"
    assert join_sentencepiece(["\u2581\u00a0", "\u2581a", "b\u3000"]) == "\u00a0 ab\u3000"
