"""The decoder over a group of pairs, every state computed once, as one compiled call."""

import keras
from keras import ops

from keras_encdec.scoring.log_sum_exp import log_sum_exp
from keras_encdec.scoring.pools import repeat, rows, stored
from keras_encdec.text.vocabulary import END


class Walk(keras.layers.Layer):
    """Walks the tree of (source, target prefix), batch by batch.

    It runs on a built decoder and has no weights of its own. The states lie in pools, where each batch
    finds those of its parents. All logits are taken as they are, without the maximum subtracted first,
    which saves a pass over them; `careful` subtracts it, for a sum that float32 cannot hold otherwise.

    Args:
        decoder: a model's decoder, such as `keras_encdec.models.Decoder`.
        careful: bool. Defaults to `False`.

    Call arguments:
        previous: int32 tensor `(batches, size)`, the last word of each target prefix, 0 for the empty one,
            in an order in which each prefix follows its parent's batch.
        parents: int32 tensor, likewise: the slot of the parent, that is batch * size + place, or -1.
        sources: int32 tensor, likewise: the place of each prefix's source in what the decoder starts with.
        batches: int32 scalar, how many of the batches are in use.
        *started: tensors `(sources, width)`, what the decoder's `start` gives: states, then what it remembers.

    Returns:
        float32 tensor `(3, batches * size)`, of each target prefix in nats: the logit of its last word
        after its parent, the logit of the end of sequence after it, and the logarithm of the sum of exp
        of all logits after it.
    """

    def __init__(self, decoder, careful=False):
        super().__init__(name="walk", dtype=decoder.dtype_policy)
        self.decoder = decoder
        self.careful = careful
        self.built = True

    def call(self, previous, parents, sources, batches, *started):
        started = [ops.cast(part, self.compute_dtype) for part in started]
        states = len(self.decoder.state_sizes)
        first_states, memory = started[:states], started[states:]
        matrix, bias = map(ops.convert_to_tensor, self.decoder.output_weights)
        total = log_sum_exp(matrix, bias, self.careful)
        roots, size = first_states[0].shape[0], previous.shape[1]

        def body(batch, features_pool, totals, *pools):
            # A root starts from its source's state; the pools have these first.
            source = sources[batch]
            places = ops.where(parents[batch] < 0, source, parents[batch] + roots)
            states = [rows(pool, places, batches > 0) for pool in pools]
            remembered = [rows(table, source, batches > 0) for table in memory]
            features, states = self.decoder.advance(previous[batch], states, remembered)
            return (
                batch + 1,
                stored(features_pool, batch * size, features),
                stored(totals, batch * size, total(ops.cast(features, matrix.dtype))),
                *(stored(pool, roots + batch * size, state) for pool, state in zip(pools, states, strict=True)),
            )

        slots = previous.shape[0] * size
        pools = [ops.concatenate([first, ops.zeros((slots, first.shape[1]), first.dtype)]) for first in first_states]
        features_pool, totals = ops.zeros((slots, matrix.shape[0]), "float32"), ops.zeros((slots,), "float32")
        features, totals = repeat(body, batches, features_pool, totals, *pools)[:2]
        # After the loop: a pool that is read and written in it would be copied at each turn.
        output, bias = ops.cast(ops.transpose(matrix), "float32"), ops.cast(bias, "float32")
        word, parent = ops.reshape(previous, (-1,)), ops.maximum(ops.reshape(parents, (-1,)), 0)
        before = ops.take(features, parent, axis=0)
        into = ops.sum(before * ops.take(output, word, axis=0), axis=-1) + ops.take(bias, word)
        end = ops.sum(features * output[END], axis=-1) + bias[END]
        return ops.stack([into, end, totals])
