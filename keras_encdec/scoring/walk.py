"""The model over a group of pairs, every state computed once, as one compiled call."""

import keras
from keras import ops

from keras_encdec.scoring.compiled import xla_on_cpu
from keras_encdec.scoring.log_sum_exp import log_sum_exp
from keras_encdec.text.vocabulary import END


class Walk(keras.layers.Layer):
    """Walks the tree of source prefixes, then that of (source, target prefix), batch by batch.

    It runs on the parts of a built model and has no weights of its own. The states lie in a pool, where
    each batch finds those of its parents. All logits are taken as they are, without the maximum
    subtracted first, which saves a pass over them; `careful` subtracts it, for a sum that float32 cannot
    hold otherwise.

    Args:
        model: `keras_encdec.models.RNNEncoderDecoder`.
        careful: bool. Defaults to `False`.

    Call arguments:
        source_ids: int32 tensor `(batches, size)`, the last ids of source prefixes, in an order in which
            each follows its parent's batch.
        source_parents: int32 tensor, likewise: the slot of the parent, that is batch * size + place, or -1.
        source_batches: int32 scalar, how many of the batches are in use.
        lasts: int32 tensor `(groups, size)`, the slots of whole sources.
        last_batches: int32 scalar, how many groups are in use.
        previous, parents, batches: likewise of the targets: the last word of each prefix, 0 for the empty one.
        sources: int32 tensor `(batches, size)`, the place of each prefix's source in `lasts`.

    Returns:
        float32 tensor `(3, batches * size)`, of each target prefix in nats: the logit of its last word
        after its parent, the logit of the end of sequence after it, and the logarithm of the sum of exp
        of all logits after it.
    """

    def __init__(self, model, careful=False):
        super().__init__(name="walk", dtype=model.dtype_policy)
        self.encoder, self.decoder = model.encoder, model.decoder
        self.careful = careful
        self.built = True

    def call(
        self, source_ids, source_parents, source_batches, lasts, last_batches,
        previous, parents, sources, batches,
    ):  # fmt: skip
        states = self._encode(source_ids, source_parents, source_batches)
        first_states, cell_context, readout_context = self._summarize(states, lasts, last_batches)
        return self._decode(first_states, cell_context, readout_context, previous, parents, sources, batches)

    def _encode(self, ids, parents, batches):
        """The pool of the encoder's states, `(1 + slots, units)`, the first of them zero."""
        size, cell = ids.shape[1], self.encoder.gru.cell
        parameters = cell.parameters()

        def body(batch, pool):
            states = _rows(pool, parents[batch] + 1, batches > 0)
            inputs = cell.project_inputs(self.encoder.embedding(ids[batch]))
            states, _ = cell.step.forward(inputs, states, parameters)
            return batch + 1, _stored(pool, 1 + batch * size, states)

        pool = ops.zeros((1 + ids.shape[0] * size, cell.units), dtype=self.compute_dtype)
        return _repeat(body, batches, pool)[0]

    def _summarize(self, states, lasts, batches):
        """All that depends on the source alone, of each source."""
        size, decoder = lasts.shape[1], self.decoder
        widths = decoder.units, 3 * decoder.units, 2 * decoder.maxout_units

        def body(batch, *pools):
            context = self.encoder.summary(ops.take(states, lasts[batch] + 1, axis=0))
            parts = (
                decoder.initial_state(context),
                decoder.cell.project_context(context),
                decoder.readout.project_context(context),
            )
            return batch + 1, *(_stored(p, batch * size, part) for p, part in zip(pools, parts, strict=True))

        slots = lasts.shape[0] * size
        return _repeat(body, batches, *(ops.zeros((slots, width), dtype=self.compute_dtype) for width in widths))

    def _decode(self, first_states, cell_context, readout_context, previous, parents, sources, batches):
        decoder, size = self.decoder, previous.shape[1]
        cell, readout, roots = decoder.cell, decoder.readout, first_states.shape[0]
        total = log_sum_exp(readout, self.careful)

        def body(batch, pool, reduced_pool, totals):
            # A root starts from its source's state; the pool has these first.
            source = sources[batch]
            places = ops.where(parents[batch] < 0, source, parents[batch] + roots)
            embedded = decoder.embedding(previous[batch])
            parameters = cell.parameters(_rows(cell_context, source, batches > 0))
            before = _rows(pool, places, batches > 0)
            states, _ = cell.step.forward(cell.project_inputs(embedded), before, parameters)
            reduced = readout.reduce(states, embedded, ops.take(readout_context, source, axis=0))
            return (
                batch + 1,
                _stored(pool, roots + batch * size, states),
                _stored(reduced_pool, batch * size, reduced),
                _stored(totals, batch * size, total(reduced)),
            )

        slots = previous.shape[0] * size
        pool = ops.concatenate([first_states, ops.zeros((slots, decoder.units), first_states.dtype)])
        reduced_pool = ops.zeros((slots, decoder.output_rank), "float32")
        _, reduced, totals = _repeat(body, batches, pool, reduced_pool, ops.zeros((slots,), "float32"))
        # After the loop: a pool that is read and written in it would be copied at each turn.
        output, bias = ops.cast(ops.transpose(readout.left_factor), "float32"), ops.cast(readout.output_bias, "float32")
        word, parent = ops.reshape(previous, (-1,)), ops.maximum(ops.reshape(parents, (-1,)), 0)
        before = ops.take(reduced, parent, axis=0)
        into = ops.sum(before * ops.take(output, word, axis=0), axis=-1) + ops.take(bias, word)
        end = ops.sum(reduced * output[END], axis=-1) + bias[END]
        return ops.stack([into, end, totals])


def _repeat(body, times, *pools):
    """Runs `body(batch, *pools)` for batch 0 to times - 1 and returns the pools."""
    if keras.backend.backend() == "torch":
        for batch in range(int(times)):
            _, *pools = body(batch, *pools)
        return pools
    return ops.while_loop(lambda batch, *_: batch < times, body, (ops.zeros((), "int32"), *pools))[1:]


def _rows(table, places, always):
    """Rows of a table, fetched before they are used.

    On a CPU, XLA would fetch them number by number in the middle of the arithmetic that follows, and do
    all that without vectors. It does not look into a branch, here one that is always taken.
    """
    if not xla_on_cpu():
        return ops.take(table, places, axis=0)
    shape, dtype = (places.shape[0], table.shape[1]), table.dtype
    return ops.cond(always, lambda: ops.take(table, places, axis=0), lambda: ops.zeros(shape, dtype))


def _stored(pool, start, rows):
    """The pool with some rows replaced, in place."""
    if keras.backend.backend() == "torch":
        pool[start : start + rows.shape[0]] = rows
        return pool
    return ops.slice_update(pool, (start, *[0] * (len(pool.shape) - 1)), ops.cast(rows, pool.dtype))
