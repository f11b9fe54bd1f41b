import re

import numpy as np
import pytest

from keras_encdec.analysis import PhraseGates, ScoreComparison, TablePair
from keras_encdec.analysis.page.figures import draw_attention, draw_gates, draw_scores, drawing_style, rendered
from keras_encdec.analysis.page.map_sections import draw_map

WORDS = ["$x$", "<b>", "caf\udce9", "\\alpha", "猫"]


@pytest.fixture(autouse=True)
def style():
    with drawing_style():
        yield


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in (*axes.get_xticklabels(), *axes.texts)]


def test_words_are_not_read_as_formulas_and_may_have_undecodable_bytes():
    figure = draw_attention(WORDS, WORDS[:2], np.eye(3, 6))
    assert texts(figure)[:3] == [r"\$x\$", "<b>", "caf\ufffd"]
    drawing = rendered(figure)
    assert drawing.svg.startswith(b"<?xml") and drawing.png.startswith(b"\x89PNG")
    gates = PhraseGates([*WORDS[:2], "(end)"], np.zeros((3, 4)), np.ones((3, 4)))
    assert r"\$x\$" in texts(draw_gates(gates, np.arange(4)))


def test_axes_are_named_with_their_units():
    pairs = [TablePair("s", "t", 0.5, 1), TablePair("s", "u", 0.25, 1)]
    axes = draw_scores(ScoreComparison.of(pairs, np.array([-1.0, -2.0]))).axes[0]
    for label in (axes.get_xlabel(), axes.get_ylabel()):
        assert re.fullmatch(r"ln p\(target \| source\) by the (phrase table|model) \(nats\)", label)
    many = ScoreComparison.of(pairs * 1500, np.tile([-1.0, -2.0], 1500))
    assert [axes.get_ylabel() for axes in draw_scores(many).axes][1] == "pairs", "a density with its scale"


def test_names_on_a_map_do_not_cover_one_another():
    points = np.random.default_rng(0).uniform(0, 1, (60, 2))
    names = [f"word {i}" for i in range(60)]
    figure = draw_map(points, names, [(0, 0, 1, 1)])
    whole, region = figure.axes
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in region.texts if text.get_text() != "A"]
    assert len(boxes) > 20
    for i, one in enumerate(boxes):
        frame = region.get_window_extent().padded(1)
        assert frame.contains(*one.min) and frame.contains(*one.max)
        assert not any(one.padded(-2).overlaps(other.padded(-2)) for other in boxes[:i])
