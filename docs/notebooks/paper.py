# ---
# jupyter:
#   jupytext: {formats: "py:percent"}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # The paper in ten minutes
#
# Cho et al., 2014 ([arXiv 1406.1078](https://arxiv.org/abs/1406.1078)) taught a recurrent network to give the
# probability of a target phrase given a source phrase, and put it into a phrase table as one more score. This notebook
# computes the paper's new unit by hand, trains a small model on an English-French phrase table, and compares the
# targets that the model prefers with those of the table: the paper's Table 2.
#
# In a clone of the repository, `pip install ".[analysis]"` installs what it needs. Elsewhere, give pip the wheel that
# `make wheel` writes: `pip install "WHEEL[analysis]"`, with its path for WHEEL. Set `KERAS_BACKEND` to `tensorflow`,
# `jax` or `torch`.

# %%
import os
import pathlib
import tempfile

import numpy as np
from keras import ops

from keras_encdec.analysis import perplexity, read_preferences
from keras_encdec.data import Batches, PreparedPairs
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.decoding import BeamSampler, TextGenerator
from keras_encdec.layers import GRUCell
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import to_symbols
from keras_encdec.scoring import TextScorer, score_file
from keras_encdec.trainers import TrainingConfig, TrainingData, train

minutes = float(os.environ.get("NOTEBOOK_MINUTES", 3))  # of training; compilation is extra

# %% [markdown]
# ## A unit with two gates
#
# The reset gate *r* decides what the candidate *n* sees of the old state; the update gate *z* decides how much of the
# old state is kept (equations 5 to 8):
#
#     r = sigmoid(x W_r + h U_r + b_r)
#     z = sigmoid(x W_z + h U_z + b_z)
#     n = tanh(x W + b + (r * h) U)
#     h = z * h + (1 - z) * n
#
# `GRUCell` keeps the matrices of the gates side by side. One step by hand:

# %%
cell = GRUCell(4)
x, h = np.random.default_rng(0).normal(size=(2, 1, 4)).astype("float32")
new, _ = cell(x, [h])

kernel, gate_recurrent_kernel, U, bias = map(ops.convert_to_numpy, cell.weights)
W_r, W_z, W = np.split(kernel, 3, axis=1)
U_r, U_z = np.split(gate_recurrent_kernel, 2, axis=1)
b_r, b_z, b = np.split(bias, 3)


def sigmoid(values):
    """The logistic function of each value."""
    return 1 / (1 + np.exp(-values))


r = sigmoid(x @ W_r + h @ U_r + b_r)
z = sigmoid(x @ W_z + h @ U_z + b_z)
n = np.tanh(x @ W + b + (r * h) @ U)
by_hand = z * h + (1 - z) * n
print(np.abs(ops.convert_to_numpy(new) - by_hand).max())
assert np.allclose(ops.convert_to_numpy(new), by_hand, atol=1e-6)

# %% [markdown]
# ## Train on a phrase table
#
# The package carries a table of 50,000 phrase pairs from LibreOffice. `train` is what `encdec-train` calls.

# %%
folder = pathlib.Path(tempfile.mkdtemp())
dataset = libreoffice_en_fr()
config = TrainingConfig.from_preset("small", minutes=minutes, schedule="cosine", model={"units": 128})
data = TrainingData(phrase_table=str(dataset.phrase_table), shortlist=5000, held_out_fraction=0.02, held_out_pairs=1000)
result = train(config, data, folder / "model")

# %% [markdown]
# Does the source matter? The perplexity of held-out targets, with the summary of the source and with zeros in its
# place:

# %%
directory = ModelDirectory.load(folder / "model")
held_out = Batches(PreparedPairs(folder / "model" / "prepared"), 128, range(1000)).once()
print(f"with the source    {perplexity(directory.model, held_out):8.2f}")
print(f"without the source {perplexity(directory.model, held_out, with_source=False):8.2f}")

# %% [markdown]
# The weights have the names of [the equations](../equations.md):

# %%
for name, value in to_symbols(directory.model).items():
    if name.startswith("encoder"):
        print(f"{name:14} {value.shape}")

# %% [markdown]
# ## Score, and compare: Table 2
#
# `score_file` appends the model's p(target | source) to each line of the table. The targets of each source phrase can
# then be ranked in two ways: by the table's own p(target | source), and by the model's.

# %%
scored = folder / "scored.gz"
print(score_file(directory, dataset.phrase_table, scored))
preferences = [
    phrase
    for phrase in read_preferences(scored, model_score=4)
    if len(phrase.options) >= 3 and 3 <= len(phrase.source.split()) <= 5
]
for phrase in sorted(preferences, key=lambda phrase: -phrase.occurrences)[:5]:
    print(phrase.source)
    for by_table, by_model in zip(phrase.by_table()[:3], phrase.by_model()[:3], strict=True):
        print(f"    {by_table:<36}{by_model}")

# %% [markdown]
# ## Score and generate text

# %%
scorer = TextScorer(directory)
pairs = [scorer.words("the file", target) for target in ("le fichier", "la page", "fichier le")]
print(scorer.score(pairs))  # ln p, in nats

generator = TextGenerator([directory])
for hypotheses in generator.generate(["the file", "of the document"], BeamSampler(6, num_best=3)):
    print([" ".join(hypothesis.words) for hypothesis in hypotheses])
