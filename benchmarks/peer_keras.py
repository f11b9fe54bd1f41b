"""The same model as a Keras user would write it: keras.layers.GRU, padded batches, nothing shared."""

import time

import keras
import numpy as np
from keras import ops
from workload import (
    SHORTLIST,
    SIZES,
    arguments,
    batches_of_one_length,
    dtype_policy,
    full_batches,
    plain_operations,
    read_ids,
    report,
    train_seconds,
)


class KerasEncoderDecoder(keras.Model):
    """Sizes and arithmetic of the RNN Encoder-Decoder; the summary is an input of every decoder step."""

    def __init__(self, embedding_dim, units, maxout_units, output_rank):
        super().__init__()
        words, layers = SHORTLIST + 3, keras.layers
        self.source, self.target = layers.Embedding(words, embedding_dim), layers.Embedding(words, embedding_dim)
        self.encoder = layers.GRU(units, reset_after=False)
        self.decoder = layers.GRU(units, return_sequences=True)
        # Not `summary`: under PyTorch, that is the method of keras.Model.
        self.summarize, self.first = layers.Dense(units, "tanh"), layers.Dense(units, "tanh")
        self.readout = layers.Dense(2 * maxout_units)
        self.right, self.left = layers.Dense(output_rank, use_bias=False), layers.Dense(words, dtype="float32")

    def call(self, inputs):
        source, target = inputs
        c = self.summarize(self.encoder(self.source(source)))
        previous = self.target(ops.pad(target[:, :-1], [[0, 0], [1, 0]]))
        context = ops.repeat(ops.expand_dims(c, 1), ops.shape(target)[1], axis=1)
        states = self.decoder(ops.concatenate([previous, context], -1), initial_state=self.first(c))
        wide = self.readout(ops.concatenate([states, previous, context], -1))
        maxout = ops.max(ops.reshape(wide, (*ops.shape(wide)[:-1], -1, 2)), -1)
        return self.left(self.right(maxout))


def score(model, pairs, size):
    """Returns the pairs per second, in batches of one source length and one target length each."""
    data = list(batches_of_one_length(pairs, size))

    def log_prob(batch):
        logits = model.predict_on_batch([ops.convert_to_tensor(side) for side in batch])
        rows = logits - logits.max(-1, keepdims=True)
        rows = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        return np.take_along_axis(rows, batch[1][..., None], -1).sum((1, 2))

    for batch in data:
        log_prob(batch)  # each shape is compiled once; only the later calls are timed
    start = time.perf_counter()
    for batch in data:
        log_prob(batch)
    return len(pairs) / (time.perf_counter() - start)


def main():
    """Measures what the command line says, and reports it."""
    options = arguments().parse_args()
    keras.config.set_dtype_policy(dtype_policy(options.dtype))
    sizes = SIZES[options.sizes]
    model = KerasEncoderDecoder(**sizes)
    optimizer = keras.optimizers.Adadelta(1.0, 0.95, 1e-6, global_clipnorm=1.0)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"))
    pairs = read_ids(options.table, options.pairs)
    if options.what == "score":
        rate = score(model, pairs, options.batch)
        report(pairs_per_second=rate, gflops=rate / len(pairs) * plain_operations(sizes, pairs) / 1e9)
    else:
        batches = full_batches(pairs, options.batch)
        data = [(list(batch), batch[1]) for batch in batches]
        seconds = train_seconds(lambda i: model.train_on_batch(*data[i]), options.steps, len(data))
        work = 3 * plain_operations(sizes, list(zip(*batches[0], strict=True)))
        report(pairs_per_second=options.batch / seconds, gflops=work / seconds / 1e9)


if __name__ == "__main__":
    main()
