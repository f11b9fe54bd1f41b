"""Measures perplexity and BLEU of a trained model for increasing shares of pruned weights.

    python benchmarks/pruning.py --model_dir=gru --validation val.en val.fr --test test.en test.fr --work_dir=pruning

For each scheme and share, the weights are pruned and the model is measured: held-out perplexity per token, and BLEU of
greedy translations. For the shares of `--retrain`, the pruned model is trained again with its mask kept, with the
model's settings (`settings.toml`) except `--epochs` and `--learning_rate`, and measured again. The figures are printed
one by one and kept in `curves.json` in the folder, so that a stopped run can continue; `curves.svg` shows them.
"""

import argparse
import json
import pathlib
import time

from keras_encdec.analysis import perplexity
from keras_encdec.data import Batches, prepare
from keras_encdec.decoding import TextGenerator
from keras_encdec.model_config import model_path
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.pruning import prune_model
from keras_encdec.pruning.pruning_masks import prune_weights
from keras_encdec.pruning.pruning_options import SCHEMES
from keras_encdec.runtime.imports import import_sacrebleu
from keras_encdec.trainers import TrainingConfig, TrainingData, train


def main():
    """Measures everything, prints the figures and draws the curves."""
    options = parsed()
    work = pathlib.Path(options.work_dir)
    work.mkdir(parents=True, exist_ok=True)
    figures = json.loads((work / "curves.json").read_text()) if (work / "curves.json").exists() else {}
    directory = ModelDirectory.load(options.model_dir)
    measure = Measurement(directory, options, work)
    dense = directory.model.get_weights()

    def keep(name, **values):
        figures[name] = {**values, **measure()}
        print(name, json.dumps(figures[name]), flush=True)
        (work / "curves.json").write_text(json.dumps(figures, indent=1) + "\n")

    if "dense" not in figures:
        keep("dense", share=0.0, size=(directory.path / "best.keras").stat().st_size)
    for share in options.shares:
        for scheme in options.schemes:
            if f"{scheme} {share}" not in figures:
                prune_weights(directory.model, share, scheme)
                keep(f"{scheme} {share}", scheme=scheme, share=share)
                directory.model.set_weights(dense)
    for share in options.retrain:
        for scheme in options.schemes:
            if f"{scheme} {share} retrained" not in figures:
                seconds = retrained(directory, options, work, share, scheme)
                name = f"{scheme} {share} retrained"
                path = work / name.replace(" ", "-")
                directory.model.set_weights(ModelDirectory.load(path).model.get_weights())
                size = (path / "best.keras").stat().st_size
                keep(name, scheme=scheme, share=share, retrained=True, size=size, seconds=seconds)
                directory.model.set_weights(dense)
    draw(figures, work / "curves.svg")


class Measurement:
    """Measures the model of a directory: perplexity of the validation pairs, and BLEU of the first test sentences.

    Args:
        directory: ModelDirectory.
        options: options of the command line.
        work: folder for the prepared pairs.
    """

    def __init__(self, directory, options, work):
        lines = [pathlib.Path(path).read_text(encoding="utf-8").splitlines() for path in options.validation]
        pairs = list(zip(*map(directory.words, lines), strict=True))
        vocabularies = directory.source_vocabulary, directory.target_vocabulary
        held_out, *_ = prepare(iter(pairs), work / "validation", max_length=1000, vocabularies=vocabularies)
        self._batches = Batches(held_out, 64)
        source, target = (pathlib.Path(path).read_text(encoding="utf-8").splitlines() for path in options.test)
        self._source, self._references = source[: options.sentences], target[: options.sentences]
        self._generator = TextGenerator([directory])
        self._directory = directory

    def __call__(self):
        best = [hypotheses[0].words for hypotheses in self._generator.generate(self._source)]
        references = [" ".join(words) for words in self._directory.words(self._references)]
        bleu = import_sacrebleu().corpus_bleu(
            [" ".join(words) for words in best], [references], tokenize="none", force=True
        )
        found = perplexity(self._directory.model, self._batches.once())
        return {"perplexity": round(float(found), 4), "bleu": round(bleu.score, 2)}


def retrained(directory, options, work, share, scheme):
    """Trains a pruned model again in a separate folder; returns the seconds."""
    name = f"{scheme} {share}".replace(" ", "-")
    pruned, path = work / name, work / f"{name}-retrained"
    if not pruned.exists():
        prune_model(directory.path, pruned, share=share, scheme=scheme)
    settings = model_path(directory.path) / "settings.toml"
    values = {"pad_to": tuple(options.pad_to)} if options.pad_to else {}
    config = TrainingConfig.from_preset(
        settings,
        initial_model=str(pruned),
        keep_pruned=True,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        warmup_updates=0,
        **values,
    )
    start = time.monotonic()
    train(config, TrainingData.from_preset(settings), path, resume=True)
    return round(time.monotonic() - start)


def draw(figures, path):
    """Draws the curves, as See et al. (2016) do."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    for axis, measure in zip(axes, ("perplexity", "bleu"), strict=True):
        for color, scheme in enumerate(SCHEMES):
            for again, style in ((None, "-"), (True, "--")):
                rows = [row for row in figures.values() if (row.get("scheme"), row.get("retrained")) == (scheme, again)]
                rows = sorted([figures["dense"], *rows], key=lambda row: row["share"])
                label = scheme.replace("_", "-") + (", retrained" if again else "")
                if len(rows) > 1:
                    x, y = [100 * row["share"] for row in rows], [row[measure] for row in rows]
                    axis.plot(x, y, style, color=f"C{color}", marker="o", label=label)
        axis.set_xlabel("weights pruned, %")
        axis.set_ylabel(measure if measure == "perplexity" else "BLEU")
    axes[0].set_yscale("log")
    axes[1].legend()
    figure.savefig(path)


def parsed():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--validation", nargs=2, required=True, help="source and target")
    parser.add_argument("--test", nargs=2, required=True, help="source and target")
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--shares", type=float, nargs="*", default=[0.2, 0.4, 0.6, 0.8, 0.9])
    parser.add_argument("--retrain", type=float, nargs="*", default=[], help="shares to train again")
    parser.add_argument("--schemes", nargs="+", default=list(SCHEMES), choices=SCHEMES)
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--learning_rate", type=float, default=0.0005)
    parser.add_argument(
        "--pad_to", type=int, nargs="*", help="widths of batches; fewer widths than the model's compile faster"
    )
    parser.add_argument("--sentences", type=int, default=1000, help="test sentences to translate")
    return parser.parse_args()


if __name__ == "__main__":
    main()
