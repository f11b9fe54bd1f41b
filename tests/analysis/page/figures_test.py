import itertools
import re

import numpy as np
import pytest

from keras_encdec.analysis import PhraseGates, ScoreComparison, TablePair, UnitGates
from keras_encdec.analysis.page.figures import (
    draw_attention,
    draw_binned_scores,
    draw_bleu,
    draw_gates,
    draw_scores,
    draw_units,
    drawing_style,
    rendered,
)
from keras_encdec.analysis.page.fonts import boxes_notice
from keras_encdec.analysis.page.map_sections import draw_map
from keras_encdec.analysis.page.training_sections import TrainingRun, draw_training
from keras_encdec.analysis.score_statistics import BinnedScores, LengthBleu
from keras_encdec.trainers.reporting import TrainingRound

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


def test_characters_that_the_font_lacks_are_drawn_with_another_or_named():
    rare, nowhere = "\u1d81", "\U0010fffd"  # a letter of the STIX fonts, which matplotlib brings; a private-use one
    figure = draw_attention([f"a{rare}", "b"], [nowhere, "\u200bc\t"], np.eye(3))
    assert rendered(figure).boxes == nowhere
    labels = {label.get_text(): label.get_fontfamily() for label in figure.axes[0].get_xticklabels()}
    others = set(labels[f"a{rare}"]) - set(labels["b"])
    assert any("STIX" in family or "Serif" in family or "Noto" in family for family in others)
    assert rendered(draw_attention(["a"], ["b"], np.eye(2))).boxes == ""
    notices = [boxes_notice(boxes, "the tables", "report") for boxes in ({nowhere, "b", "c", "d"}, {"b", "c"})]
    assert "in place of 4 characters, such as b, c and d, because" in notices[0]
    assert "in place of 2 characters, b and c, because" in notices[1]


@pytest.mark.parametrize("words", [3, 12, 40])
def test_the_words_of_a_long_sentence_do_not_cover_one_another(words):
    values = np.zeros((words + 1, 4))
    figure = draw_gates(PhraseGates([*["word"] * words, "(end)"], values, values), np.arange(4))
    figure.draw_without_rendering()
    for axes in figure.axes[:2]:
        first, second = (axes.transData.transform((x, 0))[0] for x in (0, 1))
        assert second - first > 10.4 / 72 * figure.dpi, "9 points, rotated by 60 degrees"


def test_axes_are_named_with_their_units():
    pairs = [TablePair("s", "t", 0.5, 1), TablePair("s", "u", 0.25, 1)]
    axes = draw_scores(ScoreComparison.of(pairs, np.array([-1.0, -2.0]))).axes[0]
    for label in (axes.get_xlabel(), axes.get_ylabel()):
        assert re.fullmatch(r"ln p\(target \| source\) by the (phrase table|model) \(nats\)", label)
    many = ScoreComparison.of(pairs * 1500, np.tile([-1.0, -2.0], 1500))
    assert [axes.get_ylabel() for axes in draw_scores(many).axes][1] == "pairs", "a density with its scale"


def test_axes_of_shares_and_bleu_show_no_values_that_cannot_be():
    (bleu,) = draw_bleu([LengthBleu(1, 4, 2, 0.0)], 0.0).axes
    assert bleu.get_ylim() == (0, 1.2)
    words = np.full((2, 3), 0.7)
    (units,) = draw_units(UnitGates.of([PhraseGates(["a", "(end)"], words, words)])).axes  # no unit resets
    assert -1 < units.get_ylim()[0] < 0 and not any(-1 < tick < 0 for tick in units.get_yticks())
    only = TrainingRound(1, 64, 2.0, 0.1, perplexity=20_000.0, val_perplexity=9.0, clipped_share=1.0)
    run = TrainingRun("run", (only,))
    (clipped,) = draw_training([run], [("clipped_share", "")], "share (0 to 1)").axes
    assert clipped.get_ylim() == (-0.05, 1.05)
    names = [("val_perplexity", "held out"), ("perplexity", "in training")]
    (perplexity,) = draw_training([run], names, "perplexity").axes
    assert "20,000" in [label.get_text() for label in perplexity.get_yticklabels()]
    solid, dashed = perplexity.lines
    assert solid.get_markerfacecolor() != dashed.get_markerfacecolor(), "so that single rounds can be told apart"


@pytest.mark.parametrize("most", [4, 14, 22])
def test_large_frequencies_do_not_cover_one_another(most):
    bins = BinnedScores([2.0**power for power in range(most)], [10] * most, np.tile([-3.0, -2.0, -1.0], (most, 1)))
    figure = draw_binned_scores(bins, "occurrences", logarithmic=True)
    figure.canvas.draw()
    axes = figure.axes[0]
    left, right = axes.get_xlim()
    shown = [label for label in axes.get_xticklabels() if left <= label.get_position()[0] <= right]
    boxes = [label.get_window_extent() for label in shown]
    assert len(boxes) >= 3
    assert all(before.x1 + 3 < after.x0 for before, after in itertools.pairwise(boxes)), [x.get_text() for x in shown]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("word", ["word", "猫猫猫猫"])
def test_names_on_a_map_do_not_cover_one_another(word):
    points = np.random.default_rng(0).uniform(0, 1, (60, 2))
    names = [f"{word} {i}" for i in range(60)]
    figure = draw_map(points, names, [(0, 0, 1, 1)])
    whole, region = figure.axes
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in region.texts if text.get_text() != "A"]
    assert len(boxes) > 20
    for i, one in enumerate(boxes):
        frame = region.get_window_extent().padded(1)
        assert frame.contains(*one.min) and frame.contains(*one.max)
        assert not any(one.padded(-2).overlaps(other.padded(-2)) for other in boxes[:i])
