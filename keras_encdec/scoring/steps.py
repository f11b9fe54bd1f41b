"""The model cut into single steps, each to be compiled for batches of fixed size."""

import keras
from keras import ops


class _Step(keras.layers.Layer):
    """A call on parts of a built model; it has no weights of its own."""

    def __init__(self, name, part):
        super().__init__(name=name, dtype=part.dtype_policy)
        self.part = part
        self.built = True


class EncoderStep(_Step):
    """One step of the encoder.

    Args:
        encoder: `keras_encdec.models.Encoder`.

    Call arguments:
        ids: integer tensor `(batch,)`.
        states: float tensor `(batch, units)`.

    Returns:
        float tensor `(batch, units)`.
    """

    def __init__(self, encoder):
        super().__init__("encoder_step", encoder)

    def call(self, ids, states):
        cell = self.part.gru.cell
        return cell.stepper()(cell.project_inputs(self.part.embedding(ids)), states)


class Summary(_Step):
    """All that depends on the source alone, from the encoder's last state.

    Args:
        encoder: `keras_encdec.models.Encoder`.
        decoder: `keras_encdec.models.Decoder`.

    Call arguments:
        states: float tensor `(batch, units)`.

    Returns:
        tuple: the decoder's first state h_0 `(batch, units)`, c [C_r C_z C] `(batch, 3 * units)`, and
        c O_c + b_O `(batch, 2 * maxout_units)`.
    """

    def __init__(self, encoder, decoder):
        super().__init__("summary_step", decoder)
        self.encoder = encoder

    def call(self, states):
        decoder, context = self.part, self.encoder.summary(states)
        return (
            decoder.initial_state(context),
            decoder.cell.project_context(context),
            decoder.readout.project_context(context),
        )


class DecoderStep(_Step):
    """One step of the decoder.

    Args:
        decoder: `keras_encdec.models.Decoder`.

    Call arguments:
        previous: integer tensor `(batch,)`, the words before; 0 where there is none.
        states: float tensor `(batch, units)`.
        cell_context, readout_context: float tensors of `Summary`.

    Returns:
        tuple: the new states `(batch, units)`, s G_r `(batch, rank)` in float32, and the logarithm of
        the sum of exp of all logits, `(batch,)` in float32.
    """

    def __init__(self, decoder):
        super().__init__("decoder_step", decoder)

    def call(self, previous, states, cell_context, readout_context):
        cell, readout = self.part.cell, self.part.readout
        embedded = self.part.embedding(previous)
        states = cell.stepper(cell_context)(cell.project_inputs(embedded), states)
        reduced = readout.reduce(states, embedded, readout_context)
        logits = ops.cast(readout.logits(reduced), "float32")
        return states, ops.cast(reduced, "float32"), ops.logsumexp(logits, axis=-1)
