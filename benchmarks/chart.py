"""Draws the figures of a run as a chart."""

import importlib.util


def draw(results, path):
    """Draws each contestant's pairs per second and share of the limit, as a PNG file.

    Args:
        results: dict that `run.py` writes as JSON.
        path: path of the chart. Without matplotlib, nothing is drawn.
    """
    if not importlib.util.find_spec("matplotlib"):
        print("no chart: matplotlib is not installed (pip install 'keras-encdec[dev]' has it)")
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    works = list(dict.fromkeys((row["work"], row["batch"]) for row in results["rows"]))
    figure, axes = pyplot.subplots(1, len(works), figsize=(5 * len(works), 5), layout="constrained")
    for axis, (work, batch) in zip(axes, works, strict=True):
        rows = [row for row in results["rows"] if (row["work"], row["batch"]) == (work, batch)][::-1]
        names = [f"{row['who']}\n{row['dtype']}" for row in rows]
        colours = ["tab:gray" if "peer" in row["who"] else "tab:blue" for row in rows]
        bars = axis.barh(names, [row["pairs_per_second"] for row in rows], color=colours)
        axis.bar_label(bars, [f"{row['share']:.0%}" for row in rows], padding=3)
        axis.margins(x=0.12)
        axis.set_title("scoring" if work == "score" else f"training, batch {batch}")
        axis.set_xlabel("pairs per second (at the bar's end: share of the matrix limit)")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(path)
