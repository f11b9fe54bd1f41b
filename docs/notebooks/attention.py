# ---
# jupyter:
#   jupytext: {formats: "py:percent"}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Sentences with attention
#
# A recurrent model with Luong's global attention (Luong et al., 2015, [arXiv
# 1508.04025](https://arxiv.org/abs/1508.04025)) on short sentences of LibreOffice's help, English to French: training,
# a word alignment from the attention, and good pairs told from bad ones by their scores.
#
# In a clone of the repository, `pip install ".[analysis]"` installs what it needs. Elsewhere, give pip the wheel that
# `make wheel` writes: `pip install "WHEEL[analysis]"`, with its path for WHEEL.

# %%
import gzip
import itertools
import os
import pathlib
import tempfile

import matplotlib.pyplot as plt

# PyTorch's waiting threads then leave a busy processor to others. Must be set before PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.decoding import BeamSampler, TextGenerator
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring import TextScorer
from keras_encdec.trainers import TrainingConfig, TrainingData, train

updates = int(os.environ.get("NOTEBOOK_UPDATES", 600))  # of the weights; about a minute of work
folder = pathlib.Path(tempfile.mkdtemp())

# %% [markdown]
# ## Data: short sentences and phrases
#
# The package carries sentence pairs and a phrase table. Those of at most five words on each side teach a small model
# enough in a minute.

# %%
dataset = libreoffice_en_fr()
with (
    gzip.open(dataset.train_source, "rt", encoding="utf-8") as source,
    gzip.open(dataset.train_target, "rt", encoding="utf-8") as target,
    gzip.open(dataset.phrase_table, "rt", encoding="utf-8") as table,
    open(folder / "pairs.tsv", "w", encoding="utf-8") as pairs,
):
    sentences = zip(map(str.strip, source), map(str.strip, target), strict=True)
    phrases = (tuple(line.split(" ||| ")[:2]) for line in table)
    short = {pair for pair in itertools.chain(sentences, phrases) if max(len(text.split()) for text in pair) <= 5}
    pairs.writelines(f"{english}\t{french}\n" for english, french in sorted(short))
print(len(short), "pairs")

# %% [markdown]
# ## Training
#
# All batches have one width, so that the backend compiles one step. Training ends after a number of updates, not of
# minutes, so that a model learns as much on a slow computer as on a fast one. Short pairs, few words, little dropout,
# a high learning rate and input feeding, which tells the decoder where it looked before, let the attention find the
# alignment soon.

# %%
config = TrainingConfig.from_preset(
    "small_sentences",
    updates=updates,
    batch_size=128,
    warmup_updates=50,
    learning_rate=0.005,
    schedule="cosine",
    pad_to=(6,),
    model={"units": 128, "embedding_dim": 96, "dropout": 0.1, "input_feeding": True},
)
data = TrainingData(tsv=str(folder / "pairs.tsv"), shortlist=1000, max_length=5, held_out_pairs=200)
result = train(config, data, folder / "model")

# %% [markdown]
# ## Alignments
#
# The attention of each target word to the source words, and to the end of the source.

# %%
directory = ModelDirectory.load(folder / "model")
scorer = TextScorer(directory)


def draw(english, french):
    """Draws how much each French word attends to each English word: one row per target word, darker for more."""
    pair = scorer.words(english, french)
    [weights] = scorer.attention([pair])
    columns, rows = [*english.split(), "</s>"], [*french.split(), "</s>"]
    figure, axes = plt.subplots(figsize=(0.8 * len(columns) + 1, 0.5 * len(rows) + 1))
    axes.imshow(weights[: len(rows), : len(columns)], cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="left")
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    figure.tight_layout()
    plt.show()


draw("open the file", "ouvrir le fichier")
draw("click the new button", "cliquez sur le nouveau bouton")

# %% [markdown]
# ## Scores tell good pairs from bad ones
#
# ln p per pair, in nats: the basis for filtering a parallel corpus.

# %%
english = "open the file"
for french in ("ouvrir le fichier", "fichier le ouvrir", "fermer la page", "open the file"):
    print(f"{scorer.score([scorer.words(english, french)])[0]:8.2f}  {french}")

# %% [markdown]
# ## Translations

# %%
generator = TextGenerator([directory])
for hypotheses in generator.generate(["open the file", "the selected cell"], BeamSampler(6, num_best=2)):
    print([" ".join(hypothesis.words) for hypothesis in hypotheses])
