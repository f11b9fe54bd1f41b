"""Measures quality and speed of translation: BLEU and words per second of trained models, searches and shortlists.

    python benchmarks/translation.py --model_dir=teacher --input=test.en --reference=test.fr [--student_dir=student]
        [--shortlist=shortlist.tsv] [--shortlist_words 100 20] [--dictionary=words.tsv] [--unescape] [--backends jax]
        [--dtypes float32 bfloat16] [--peer]

Each row is measured in a separate process, one after another: the teacher with a beam and greedily, and the student
greedily and with small beams; each with all words and, given a table of `encdec-dictionary --shortlist`, with the words
of the shortlist. With `--peer`, the same models written in PyTorch translate first, with the same weights and all
words. The words that are counted are those of the translations. Prints a table with the ratios to the first row of the
same backend and to PyTorch's row of the same model and search; writes the results as JSON and, with matplotlib
installed, a chart of BLEU over words per second.
"""

import argparse
import importlib.util
import pathlib

from results_file import write_results
from run import BACKENDS, HERE, measured

from keras_encdec.formats.encodings import unescape
from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric, read_text

# The name of the models written in PyTorch, in the place of a backend.
PEER = "torch peer"


def main():
    """Measures everything, prints the table, and draws the chart."""
    options = parsed()
    metric = CorpusMetric("bleu", [read_text(options.reference, unescaped=options.unescape)])
    rows, first, peer = [], {}, {}
    for backend, dtype, search, shortlist, arguments in contestants(options):
        who = ", ".join((*search, f"shortlist {shortlist}")) if shortlist else ", ".join(search)
        script, backend_of = ("peer_translation.py", "torch") if backend == PEER else ("ours_translation.py", backend)
        figures = measured(script, *arguments, backend=backend_of)
        translations = figures["translations"]
        if options.unescape:
            translations = [unescape(line) for line in translations]
        bleu = metric.score(metric.corpus_counts(translations).sum(axis=0))
        rate = figures["words_per_second"]
        if not rate:
            raise SystemExit(f"{who} on {backend} translated no word; train the model longer")
        if backend == PEER:
            peer[search] = rate
        row = {"who": who, "backend": backend, "dtype": dtype, "bleu": bleu, "words_per_second": rate}
        row["ratio"] = rate / first.setdefault(backend, rate)
        row["peer_ratio"] = rate / peer[search] if search in peer else None
        rows.append({**row, "peak_mb": figures["peak_mb"]})
        print(line(row), flush=True)
    path = write_results({"rows": rows}, options.folder)
    print(path)
    draw(rows, path.with_suffix(".png"))


def parsed():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", required=True, help="the teacher")
    parser.add_argument("--student_dir", help="a student of encdec-distill")
    parser.add_argument("--student_beams", type=int, nargs="+", default=[1, 2, 4], help="its beams; 1 is greedy")
    parser.add_argument("--input", required=True, help="sentences to translate")
    parser.add_argument("--reference", required=True, help="their reference translations")
    parser.add_argument("--shortlist", help="table of encdec-dictionary --shortlist")
    parser.add_argument(
        "--shortlist_words",
        type=int,
        nargs="+",
        default=[100],
        help="translations of a source word; a row for each number",
    )
    parser.add_argument("--dictionary", help="dictionary that replaces unknown words")
    parser.add_argument("--unescape", action="store_true", help="undo Moses's character escapes before BLEU")
    parser.add_argument("--beam", type=int, default=12)
    parser.add_argument("--single", action="store_true", help="one sentence at a time, as a server gets them")
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=["float32", "bfloat16"])
    parser.add_argument("--peer", action="store_true", help="also the same models in PyTorch: GRUs, both directions")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "results", help="folder to write the results to")
    return parser.parse_args()


def contestants(options):
    """Yields what is measured: backend, dtype, model and search, words of the shortlist or 0, and the arguments."""
    systems = [("teacher", options.model_dir, options.beam), ("teacher", options.model_dir, 1)]
    systems += [("student", options.student_dir, beam) for beam in options.student_beams if options.student_dir]
    common = ["--input", options.input, *(["--dictionary", options.dictionary] if options.dictionary else [])]
    common += ["--single"] if options.single else []
    ours = [(backend, dtype) for backend in options.backends for dtype in options.dtypes]
    for backend, dtype in ([(PEER, "float32")] if options.peer else []) + ours:
        for name, model_dir, beam in systems:
            search = name, "greedy" if beam == 1 else f"beam {beam}"
            arguments = [model_dir, *common, "--beam", beam]
            if backend == PEER:
                yield backend, dtype, search, 0, arguments
                continue
            for words in [0, *(options.shortlist_words if options.shortlist else [])]:
                given = ["--shortlist", options.shortlist, "--shortlist_words", words] if words else []
                yield backend, dtype, search, words, [*arguments, "--dtype", dtype, *given]


def line(row):
    """Formats a row of the table."""
    rate = f"{row['bleu']:6.2f} BLEU {row['words_per_second']:9,.0f} words/s {row['ratio']:6.2f} x"
    peer = f"{row['peer_ratio']:7.2f} x PyTorch" if row["peer_ratio"] else ""
    return f"{row['who']:32} {row['backend']:11}{row['dtype']:9}{rate}{peer}"


def pareto_front(rows):
    """Returns the rows for which no other is as fast and has a higher BLEU, the slowest first."""
    front = []
    for row in sorted(rows, key=lambda row: (row["words_per_second"], row["bleu"]), reverse=True):
        if not front or row["bleu"] > front[-1]["bleu"]:
            front.append(row)
    return front[::-1]


def draw(rows, path):
    """Draws BLEU over words per second, as a PNG file. Without matplotlib, nothing is drawn."""
    if not importlib.util.find_spec("matplotlib"):
        print("no chart: matplotlib is not installed (pip install 'keras-encdec[dev]' has it)")
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, axis = pyplot.subplots(figsize=(10, 6), layout="constrained")
    for backend in dict.fromkeys(row["backend"] for row in rows):
        own = [row for row in rows if row["backend"] == backend]
        axis.scatter([row["words_per_second"] for row in own], [row["bleu"] for row in own], label=backend)
    front = pareto_front(rows)
    axis.plot(
        [row["words_per_second"] for row in front],
        [row["bleu"] for row in front],
        color="0.8",
        zorder=0,
        label="Pareto frontier",
    )
    for who, dtype in dict.fromkeys((row["who"], row["dtype"]) for row in rows):
        same = [row for row in rows if (row["who"], row["dtype"]) == (who, dtype)]
        fastest = max(same, key=lambda row: row["words_per_second"])
        name = who if dtype == "float32" else f"{who}, {dtype}"
        place = fastest["words_per_second"], fastest["bleu"]
        axis.annotate(name, place, xytext=(6, 0), textcoords="offset points", va="center", fontsize=7)
    axis.set_xscale("log")
    axis.set_xlim(right=2.5 * max(row["words_per_second"] for row in rows))  # room for the names
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    axis.set_xlabel("words per second")
    axis.set_ylabel("BLEU")
    axis.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(path)


if __name__ == "__main__":
    main()
