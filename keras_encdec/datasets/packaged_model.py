"""Makes the small trained model that comes with the package, from the phrase table that comes with it."""

import dataclasses
import pathlib
import shutil

from keras_encdec.analysis import perplexity
from keras_encdec.data import PreparedPairs
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.decoding import BeamSampler, TextGenerator
from keras_encdec.errors import FilePath
from keras_encdec.model_config import (
    HISTORY,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    WEIGHTS,
    read_model_config,
    replace_weights,
    write_model_config,
)
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.pruning import prune_model
from keras_encdec.runtime.files import check_absent
from keras_encdec.sparse_weights import store_half
from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingResult, train
from keras_encdec.trainers.model_card import ModelCard
from keras_encdec.trainers.preparation import unigram_perplexity, validation_batches
from keras_encdec.trainers.training_files import PREPARED, save_settings

SIZES = {"embedding_dim": 64, "units": 200, "maxout_units": 128, "output_rank": 64}
# Share of the weights that are pruned, and how the rest is trained afterwards.
PRUNED, RETRAINED = 0.4, {"epochs": 2.0, "learning_rate": 0.004, "round_updates": 100}
EXAMPLES = (
    "the number of",
    "open the file",
    "in the following example",
    "the selected cells",
    "click the right mouse button",
    "at the end of the document",
)
NOTICE = """\
The model in this folder was trained on phrase-table.gz of keras_encdec/datasets/libreoffice_en_fr, which is derived
from LibreOffice (https://www.libreoffice.org), Copyright 2000, 2010 Oracle and/or its affiliates, Copyright 2000, 2010
LibreOffice contributors and/or their affiliates. The NOTICE file in that folder says how the table was made. Like the
table, the model, with its vocabularies, is subject to the terms of the Mozilla Public License, v. 2.0, in the file
LICENSE beside this one, also at https://mozilla.org/MPL/2.0/. The LibreOffice contributors and The Document Foundation
have not endorsed it.

`make packaged-model` makes it again; the seed is fixed.
"""
REMARK = """\
A small English-French model to start with, trained on phrases from LibreOffice's help and user interface. It comes with
keras-encdec, whose commands find it by its name; `make packaged-model` makes it again. The phrase table comes with
keras-encdec, too, and is derived from LibreOffice; see `NOTICE` and `LICENSE`. After {epochs:g} epochs of training with
the settings below, {share:.0%} of the weights were pruned and the others trained for {more:g} epochs more
(`--initial_model`, `--keep_pruned`), from a learning rate of {rate:g} on. The weights are stored in float16, without
the zeros. A unigram model has a perplexity of {unigrams:.1f} per token on the same held-out pairs.
"""


@dataclasses.dataclass(frozen=True)
class PackagedModel:
    """The result of `build_packaged_model`.

    Attributes:
        path: pathlib.Path. The model directory.
        perplexity: float. Per token, on the pairs held out of the training, with the weights as they are stored.
        unigram_perplexity: float. The same for a unigram model of the training targets.
        size: int. Bytes of the files in the directory.
    """

    path: pathlib.Path
    perplexity: float
    unigram_perplexity: float
    size: int

    def __str__(self) -> str:
        return (
            f"{self.size:,} bytes; held-out perplexity {self.perplexity:.3f} per token, {self.unigram_perplexity:.1f} "
            f"for a unigram model: {self.path}"
        )


def build_packaged_model(work_dir: FilePath, output: FilePath, epochs: float = 7.0) -> PackagedModel:
    """Trains and prunes the model that comes with the package, and writes it without the files for training.

    The weights are stored in float16, compressed, without zeros; the loaded model has float32.

    Args:
        work_dir: directory for the model before it is pruned and after it. A training run that was stopped there
            continues; the model of a run that has ended is used.
        output: the model directory to write, which must not exist yet.
        epochs: float. Passes over the pairs before the model is pruned. Defaults to `7`.

    Raises:
        InputError: if `output` exists; see also `train`.
        KeyboardInterrupt: if a signal stops the training.
    """
    check_absent(output)
    folder, dataset = pathlib.Path(output), libreoffice_en_fr()
    config = TrainingConfig.from_preset("small", epochs=epochs, schedule="cosine", model=SIZES, tensorboard=False)
    table = str(dataset.phrase_table)
    data = TrainingData.from_preset("small", phrase_table=table, held_out_fraction=0.02, held_out_pairs=1000)
    dense, pruned, work = (pathlib.Path(work_dir) / name for name in ("dense", "pruned", "retrained"))
    first = _trained(config, data, dense)
    if not pruned.exists():
        prune_model(dense, pruned, share=PRUNED)
    again = config.replace(initial_model=str(pruned), keep_pruned=True, **RETRAINED)
    second = _trained(again, data, work)
    assert second.best is not None
    best = dataclasses.replace(second.best, updates=first.updates + second.best.updates)
    result = dataclasses.replace(
        second, best=best, updates=first.updates + second.updates, seconds=first.seconds + second.seconds
    )
    folder.mkdir(parents=True)
    for name in (SOURCE_VOCABULARY, TARGET_VOCABULARY, HISTORY):
        shutil.copyfile(work / name, folder / name)
    described = read_model_config(work)
    described["training"]["initial_model"] = pruned.name  # without the path on this machine
    write_model_config(folder, described)
    shutil.copyfile(dataset.phrase_table.parent / "LICENSE", folder / "LICENSE")
    (folder / "NOTICE").write_text(NOTICE, encoding="utf-8")
    relative = pathlib.Path("..", "..", *dataset.phrase_table.parts[-3:])  # from the folder of the packaged model
    save_settings(folder, config, data.replace(phrase_table=str(relative)))
    written = folder / f"{WEIGHTS}.partial"
    shutil.copyfile(work / WEIGHTS, written)  # sparse, as the training wrote it
    store_half(written)
    replace_weights(folder, written)
    return _described(config, data, result, work, folder)


def _trained(config: TrainingConfig, data: TrainingData, folder: pathlib.Path) -> TrainingResult:
    result = train(config, data, folder, resume=True)
    if result.signal is not None:
        raise KeyboardInterrupt
    return result


def _described(
    config: TrainingConfig, data: TrainingData, result: TrainingResult, work: pathlib.Path, folder: pathlib.Path
) -> PackagedModel:
    """Measures the model as it is stored, and writes its card."""
    directory, pairs = ModelDirectory.load(folder), PreparedPairs(work / PREPARED)
    held_out, trained = validation_batches(config, data, directory, pairs)
    assert held_out is not None and result.best is not None
    measured = perplexity(directory.model, held_out.once())
    unigrams = unigram_perplexity(pairs, trained, held_out, directory.target_vocabulary)
    result = dataclasses.replace(result, best=dataclasses.replace(result.best, val_perplexity=measured))
    generated = TextGenerator([directory]).generate(EXAMPLES, BeamSampler(1))
    lines = [f"| {source} | {' '.join(best.words)} |" for source, [best] in zip(EXAMPLES, generated, strict=True)]
    more, rate = RETRAINED["epochs"], RETRAINED["learning_rate"]
    remark = REMARK.format(epochs=config.epochs, share=PRUNED, more=more, rate=rate, unigrams=unigrams)
    remark += "\n| source | greedy translation |\n|---|---|\n" + "\n".join(lines)
    weights, numbers = directory.model.count_params(), (len(trained), len(held_out.indices))
    ModelCard(config, data, result, directory, weights, *numbers, ("en", "fr"), "mpl-2.0", remark).write()
    return PackagedModel(folder, measured, unigrams, sum(path.stat().st_size for path in folder.iterdir()))
