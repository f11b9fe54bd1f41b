"""Draws the pictures of the documentation: `python docs/pictures/make_pictures.py` writes the SVG files beside it."""

import math
import pathlib

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch  # noqa: E402
from matplotlib.text import Text  # noqa: E402

FOLDER = pathlib.Path(__file__).parent
# Okabe and Ito's colours, which the colour-blind can tell apart. No information is in the colours alone.
BLUE, ORANGE, GREEN, RED, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#595959"
INK, PAPER, RUST = "#1a1a1a", "#fbfbf8", "#A84300"  # rust: the red of boxes, dark enough for letters
# ln p of each word of "le nombre de" and of its end, given "the number of", of a model that `make demo` trained.
WORD_SCORES = {"le": -0.035539, "nombre": -0.215025, "de": -0.285354, "end": -0.014816}


def canvas(width: float, height: float) -> Axes:
    """Axes in units of 1/10 inch on a card of paper colour, legible on light and on dark pages."""
    figure = plt.figure(figsize=(width / 10, height / 10))
    figure.patch.set_alpha(0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    card = FancyBboxPatch((0.7, 0.7), width - 1.4, height - 1.4, boxstyle="round,pad=0,rounding_size=1.5")
    axes.add_patch(card)
    card.set(facecolor=PAPER, edgecolor="#cccccc", linewidth=0.8)
    return axes


def box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str, **style: str | float
) -> None:
    """A rounded box with white text, its centre at (x, y)."""
    corner = (x - width / 2, y - height / 2)
    patch = FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=0.8")
    patch.set(facecolor=colour, edgecolor="none")
    axes.add_patch(patch)
    axes.text(x, y, text, **{"color": "white", "ha": "center", "va": "center", "fontsize": 10, **style})


def arrow(axes: Axes, start: tuple, end: tuple, colour: str = GREY, bend: float = 0.0, **style: str | float) -> None:
    """An arrow between two points."""
    shape = {"arrowstyle": "-|>", "mutation_scale": 9, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    connection = f"arc3,rad={bend}"
    axes.add_patch(FancyArrowPatch(start, end, color=colour, connectionstyle=connection, **{**shape, **style}))


def label(axes: Axes, x: float, y: float, text: str, **style: str | float) -> Text:
    """Text centred at a point."""
    return axes.text(x, y, text, **{"color": INK, "ha": "center", "va": "center", "fontsize": 10, **style})


def model_picture() -> None:
    """The RNN Encoder-Decoder, scoring "le nombre de" as a translation of "the number of"."""
    axes = canvas(84, 43)
    words = ["the", "number", "of", "end"]
    xs = [6.5, 14.5, 22.5, 30.5]
    row = 17.5
    label(axes, 18.5, 26.6, "encoder", fontsize=12, color=BLUE, weight="bold")
    label(axes, 18.5, 23.6, "reads the source phrase, word by word", fontsize=9, color=GREY)
    for number, (x, word) in enumerate(zip(xs, words, strict=True)):
        box(axes, x, row, 5.6, 5, "GRU", BLUE)
        label(axes, x, 7, word, fontsize=11, style="italic" if word == "end" else "normal")
        arrow(axes, (x, 9), (x, row - 2.7))
        if number:
            arrow(axes, (xs[number - 1] + 2.8, row), (x - 2.8, row), BLUE)

    summary = 39.5
    box(axes, summary, row, 4.6, 5, "c", ORANGE, color=INK, fontsize=13, weight="bold")
    arrow(axes, (xs[-1] + 2.8, row), (summary - 2.4, row), BLUE)
    label(axes, summary, 11.6, "summary of\nthe source", fontsize=9, color=GREY)

    xs = [49.5, 58.5, 67.5, 76.5]
    previous = ["", "le", "nombre", "de"]
    label(axes, 63, 39.2, "decoder", fontsize=12, color=GREEN, weight="bold")
    label(axes, 63, 36.2, "predicts the target phrase, word by word", fontsize=9, color=GREY)
    # The summary reaches every step by a line below the boxes.
    rail = 12.6
    axes.plot([summary + 2.3, 44.3, 44.3, xs[-1] - 1.5], [row - 1, row - 1, rail, rail], color=ORANGE, linewidth=1.6)
    arrow(axes, (summary + 2.3, row + 0.7), (xs[0] - 2.8, row + 0.7), ORANGE)
    for number, (x, word, target) in enumerate(zip(xs, previous, WORD_SCORES, strict=True)):
        box(axes, x, row, 5.6, 5, "GRU", GREEN)
        box(axes, x, 25.2, 7.4, 3.8, "maxout", RED, fontsize=9)
        arrow(axes, (x, row + 2.5), (x, 23.1))
        arrow(axes, (x - 1.5, rail), (x - 1.5, row - 2.7), ORANGE)
        label(axes, x + 1, 7, word or "(none)", fontsize=11, color=INK if word else GREY)
        arrow(axes, (x + 1, 9), (x + 1, row - 2.7))
        arrow(axes, (x, 27.1), (x, 29.2))
        label(axes, x, 30.8, target, fontsize=11, weight="bold", style="italic" if target == "end" else "normal")
        label(axes, x, 33.4, f"{WORD_SCORES[target]:.3f}".replace("-", "\N{MINUS SIGN}"), fontsize=9.5, color=RUST)
        if number:
            arrow(axes, (xs[number - 1] + 2.8, row), (x - 2.8, row), GREEN)
    score = sum(WORD_SCORES.values())
    total = f"sum = ln p = {score:.3f}".replace("-", "\N{MINUS SIGN}")
    label(axes, 63, 3.4, f"{total},  p = {math.exp(score):.2f}", fontsize=10, color=RUST)
    label(axes, 4, 39.2, "a line of the phrase table, with its new score", ha="left", fontsize=9, color=GREY)
    label(axes, 4, 36, "the number of ||| le nombre de |||", ha="left", family="monospace", fontsize=10)
    label(axes, 4, 33.2, "0.83 0.11 0.65 0.07", ha="left", family="monospace", fontsize=10)
    label(axes, 20.7, 33.2, f"{math.exp(score):.2f}", ha="left", family="monospace", color=RUST, weight="bold")
    save("model.svg")


def architecture_picture() -> None:
    """Files in, files and a server out; what each package does on the way."""
    axes = canvas(84, 50)
    label(axes, 4, 46, "training", ha="left", fontsize=11, color=BLUE, weight="bold")
    top, middle, bottom = 38.8, 23.2, 10.8
    label(axes, 8.5, top, "phrase table,\nTSV,\nparallel text", fontsize=9.5)
    boxes = [(22.5, "formats", "lines to records"), (37, "text, data", "records to ids,\nbatches")]
    boxes += [(51.5, "trainers", "fit, checkpoints,\nresume")]
    for x, name, about in boxes:
        box(axes, x, top + 1.4, 11.5, 4.4, name, BLUE, weight="bold")
        label(axes, x, top - 3.2, about, fontsize=8.5, color=GREY)
        arrow(axes, (x - 8.6 if x > 23 else x - 8.2, top + 1.4), (x - 5.9, top + 1.4))
    box(axes, 71.5, top + 1.4, 17, 4.4, "model directory", ORANGE, color=INK, weight="bold")
    label(axes, 71.5, top - 3.2, "weights, vocabularies,\nsettings", fontsize=8.5, color=GREY)
    arrow(axes, (57.3, top + 1.4), (62.9, top + 1.4))

    label(axes, 4, 32.6, "use", ha="left", fontsize=11, color=GREEN, weight="bold")
    box(axes, 66, middle, 28, 7.4, "", RED)
    label(axes, 66, middle + 1.7, "models: the decoder contract", color="white", weight="bold")
    label(axes, 66, middle - 1.5, "encoded, start, advance, features", color="white", fontsize=8.5, family="monospace")
    arrow(axes, (71.5, top - 5.4), (71.5, middle + 3.8), ORANGE)
    rows = [("scoring", "log-probabilities", 29), ("decoding", "search, samples", 23.2), ("export", "SavedModel", 17.4)]
    results = ["scored table, TSV,\nn-best list", "translations,\nsamples", "TensorFlow Serving"]
    for (name, about, y), result in zip(rows, results, strict=True):
        box(axes, 38, y, 11.5, 4, name, GREEN, weight="bold")
        label(axes, 25.8, y + 1.3, about, fontsize=8.5, color=GREY)
        arrow(axes, (51.9, middle + (y - middle) * 0.3), (43.9, y), RED)
        arrow(axes, (32.1, y), (19.5, y))
        label(axes, 18.6, y, result, ha="right", fontsize=9.5)
    box(axes, 42, bottom - 0.6, 76, 4.2, "layers: cells, one recurrence, embeddings, readout", SKY, color=INK)
    box(axes, 42, bottom - 5.8, 76, 4.2, "backend: what differs between TensorFlow, JAX and PyTorch", GREY)
    save("architecture.svg")


def commands_picture() -> None:
    """The commands, without "encdec-", between the files that they read and write."""
    axes = canvas(84, 50)
    files = {
        "parallel text": (13, 43),
        "phrase table": (13, 30),
        "n-gram model": (13, 11),
        "model directory": (42, 36.5),
        "scored table": (73, 30),
        "n-best list": (42, 11),
        "translations": (73, 11),
        "SavedModel": (73, 43),
    }
    for name, (x, y) in files.items():
        box(axes, x, y, 15, 4.4, name, ORANGE, color=INK, weight="bold")
    steps = [
        ("extract", (13, 40.6), (13, 32.4), (17.5, 36.5)),
        ("train", (20.8, 42), (34.3, 37.6), (28, 42)),
        ("train", (20.8, 31), (34.3, 35.6), (28, 31.2)),
        ("score", (49.7, 35.6), (65.3, 31.2), (57.5, 31.4)),
        ("export, verify", (49.7, 37.6), (65.3, 42), (56, 42.2)),
        ("decode", (20.8, 11), (34.3, 11), (27.5, 9.2)),
        ("score, phrase-features,\nngram-posteriors", (42, 34.1), (42, 13.4), (42, 22.5)),
        ("tune, rerank", (49.7, 11), (65.3, 11), (57.5, 9.2)),
        ("generate", (49.7, 34.3), (67, 13.4), (63.8, 22.5)),
    ]
    for name, start, end, place in steps:
        arrow(axes, start, end)
        text = label(axes, *place, name, fontsize=9.5, color=BLUE, weight="bold", linespacing=1.5)
        text.set_bbox({"facecolor": PAPER, "edgecolor": "none", "pad": 1.5})
    notes = [
        (42, 46.9, "prune: smaller      distill: a fast student"),
        (42, 44.2, "serve, report: look at a model"),
        (73, 47.1, "client: asks TensorFlow Serving"),
        (13, 47.2, "select: filters it\ndictionary: translates its words"),
        (73, 7, "evaluate: BLEU, significance"),
        (42, 4, "experiment: all of these, for the paper's Table 1      doctor: what is wrong here?      demo: try it"),
    ]
    for x, y, text in notes:
        label(axes, x, y, text, fontsize=8.5, color=GREY)
    arrow(axes, (5.4, 42), (5.4, 12), bend=0.2)
    label(axes, 6, 20.5, "ngram", fontsize=9.5, color=BLUE, weight="bold")
    arrow(axes, (14.5, 27.6), (34.3, 12.6), bend=0.1)  # the table, for decoding
    save("commands.svg")


def narrow_commands_picture() -> None:
    """The same commands for a narrow screen: a row for each file, command and file that it writes."""
    rows = [
        ("parallel text", "extract", "phrase table"),
        ("parallel text", "ngram", "n-gram model"),
        ("parallel text", "train", "model directory"),
        ("phrase table", "train", "model directory"),
        ("model directory", "score", "scored table"),
        ("model directory", "score", "n-best list"),
        ("phrase table", "phrase-\nfeatures", "n-best list"),
        ("phrase table", "decode", "n-best list"),
        ("n-best list", "tune,\nrerank", "translations"),
        ("model directory", "generate", "translations"),
        ("model directory", "export,\nverify", "SavedModel"),
    ]
    notes = [
        ("select", "filters parallel text"),
        ("dictionary", "translates its words"),
        ("prune, distill", "smaller models"),
        ("serve, report", "look at a model"),
        ("ngram-posteriors", "features of a list"),
        ("client", "asks TensorFlow Serving"),
        ("evaluate", "BLEU, significance"),
        ("experiment", "the paper's Table 1"),
        ("doctor", "what is wrong here?"),
        ("demo", "try it"),
    ]
    row, line = 6.2, 2.4
    height = row * len(rows) + line * len(notes) + 3.5
    axes = canvas(37, height)
    for i, (read, command, written) in enumerate(rows):
        y = height - 4.4 - row * i
        for x, name in ((8.2, read), (28.8, written)):
            box(axes, x, y, 13.2, 4, name, ORANGE, color=INK, weight="bold", fontsize=9.5)
        arrow(axes, (15.1, y), (21.9, y))
        label(axes, 18.4, y + 0.4, command, fontsize=9, color=BLUE, weight="bold", va="bottom")
    for i, (command, does) in enumerate(notes):
        y = line * (len(notes) - i)
        label(axes, 14.4, y, command, fontsize=9, color=BLUE, weight="bold", ha="right")
        label(axes, 15.4, y, does, fontsize=9, color=GREY, ha="left")
    save("commands-narrow.svg")


def save(name: str) -> None:
    """Writes the current figure, letters as outlines, without a date: the same picture gives the same file."""
    plt.savefig(FOLDER / name, metadata={"Date": None})
    plt.close()


if __name__ == "__main__":
    matplotlib.rcParams.update({"svg.hashsalt": "keras-encdec", "font.family": "DejaVu Sans", "svg.fonttype": "path"})
    model_picture()
    architecture_picture()
    commands_picture()
    narrow_commands_picture()
