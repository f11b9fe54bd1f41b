# ---
# jupyter:
#   jupytext: {formats: "py:percent"}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Your own Keras model
#
# The layers of this package are ordinary Keras layers. This notebook builds a small encoder-decoder from `GRUCell`,
# `ContextGRUCell` and `GlobalAttention` with the functional API, feeds it from `tf.data`, and trains it with `fit` and
# a callback. It learns to write a sequence of digits backwards. It runs on any backend: set `KERAS_BACKEND` before
# Keras is imported.

# %%
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_encdec.layers import ContextGRUCell, FactorizedEmbedding, GlobalAttention, GRUCell, Maxout

print(keras.backend.backend(), keras.__version__)
keras.utils.set_random_seed(0)
epochs = int(os.environ.get("NOTEBOOK_EPOCHS", 2))

# %% [markdown]
# ## Data
#
# Ids 1 to 9 are digits, 10 begins a target, 0 is padding.

# %%
DIGITS, BEGIN, LENGTH = 9, 10, 6


def make(number, seed):
    """Makes sequences of digits and the reversed targets: inputs and targets `(number, LENGTH)`, int32."""
    rng = np.random.default_rng(seed)
    source = np.zeros((number, LENGTH), "int32")
    target = np.zeros((number, LENGTH), "int32")
    for row, length in enumerate(rng.integers(3, LENGTH + 1, number)):
        digits = rng.integers(1, DIGITS + 1, length)
        source[row, :length], target[row, :length] = digits, digits[::-1]
    before = np.concatenate([np.full((number, 1), BEGIN, "int32"), target[:, :-1]], axis=1)
    return {"source": source, "before": before}, target


def dataset(number, seed):
    """Makes shuffled batches of inputs, targets, and weights that are 0 for padding."""
    inputs, target = make(number, seed)
    weights = (target > 0).astype("float32")  # padding does not count
    return tf.data.Dataset.from_tensor_slices((inputs, target, weights)).shuffle(number, seed=seed).batch(128)


training, validation = dataset(20_000, 1), dataset(1_000, 2)

# %% [markdown]
# ## Model
#
# - The encoder is `keras.layers.RNN(GRUCell(...))`; its last state is the summary *c* of the source.
# - The decoder's cell reads the summary at every step. In `keras.layers.RNN` the summary is its second state.
# - `GlobalAttention` looks back at the encoder's states; it takes the padding from Keras's mask.
# - `Maxout` takes the larger of every two numbers, and so halves the width.

# %%
UNITS = 64

source = keras.Input((None,), dtype="int32", name="source")
before = keras.Input((None,), dtype="int32", name="before")
annotations, summary = keras.layers.RNN(GRUCell(UNITS), return_sequences=True, return_state=True)(
    keras.layers.Embedding(DIGITS + 1, 32, mask_zero=True)(source)
)
states = keras.layers.RNN(ContextGRUCell(UNITS, context_units=UNITS), return_sequences=True)(
    keras.layers.Embedding(BEGIN + 1, 32)(before), initial_state=[summary, summary]
)
context, weights = GlobalAttention("general", name="attention")(states, annotations, return_weights=True)
hidden = Maxout(UNITS)(keras.layers.Dense(2 * UNITS)(ops.concatenate([states, context], axis=-1)))
logits = keras.layers.Dense(DIGITS + 1)(hidden)
model = keras.Model({"source": source, "before": before}, logits)
model.summary()

# %% [markdown]
# ## Training
#
# A callback translates one example after each epoch.

# %%


def reverse(digits):
    """Writes digits backwards, each time with the most probable next digit."""
    inputs = np.zeros((1, LENGTH), "int32")
    inputs[0, : len(digits)] = digits
    written = [BEGIN]
    for _ in digits:
        padded = np.array([written + [0] * (LENGTH - len(written))], "int32")
        scores = ops.convert_to_numpy(model({"source": inputs, "before": padded}))
        written.append(int(scores[0, len(written) - 1].argmax()))
    return written[1:]


class Example(keras.callbacks.Callback):
    """Writes one sequence backwards after each epoch."""

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1}: loss {logs['loss']:.3f}, 1 2 3 4 5 -> {reverse([1, 2, 3, 4, 5])}")


model.compile(
    keras.optimizers.Adam(3e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["sparse_categorical_accuracy"],
)
history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0, callbacks=[Example()])
print("share of correct digits:", round(history.history["val_sparse_categorical_accuracy"][-1], 3))

# %% [markdown]
# ## Where it looks
#
# The attention of each step to the source: a model that has learned to reverse goes from right to left.

# %%
attention = keras.Model(model.inputs, weights)
inputs = {"source": np.array([[1, 2, 3, 4, 5, 6]], "int32"), "before": np.array([[10, 6, 5, 4, 3, 2]], "int32")}
print(np.round(ops.convert_to_numpy(attention(inputs))[0], 1))

# %% [markdown]
# ## Save and load
#
# The layers are registered with Keras: a saved model loads without further arguments once `keras_encdec.layers` is
# imported, on any backend.

# %%
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model.keras")
    loaded = keras.saving.load_model(f"{folder}/model.keras")
difference = np.abs(ops.convert_to_numpy(loaded(inputs)) - ops.convert_to_numpy(model(inputs))).max()
print(difference)
assert difference < 1e-5

# %% [markdown]
# With a large vocabulary, most of the weights are in the embedding. `FactorizedEmbedding` is a matrix of low rank, as
# in the paper:

# %%
embedding = FactorizedEmbedding(15_000, rank=50, units=500)
print(embedding(np.array([[3, 4]])).shape, sum(int(np.prod(weight.shape)) for weight in embedding.weights))
