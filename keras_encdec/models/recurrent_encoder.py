"""Encoder of stacked recurrent layers."""

import keras
from keras import ops

from keras_encdec.layers.scanned_recurrence import run_through_time
from keras_encdec.models.recurrent_cells import dense, recurrent_cell
from keras_encdec.models.recurrent_layers import RecurrentLayers


@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentEncoder(RecurrentLayers):
    """Reads a source with stacked recurrent layers, in one direction or in both.

        h_t^(0) = e(x_t)
        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l)),   s_0^(l) = 0,   l = 1 .. L

    s is the state of a cell, [h c] of an LSTM and h of the others. Of s_N^(l), the states after the last
    symbol, the decoder gets those of every layer, or of the last alone a summary, c = tanh(h_N^(L) V + b_V).

    With two directions, a second cell in each layer reads from the right, and the layer above reads
    [h_t right-going, h_t left-going] ("concat") or the sum of the two ("sum"). Either way what the decoder gets
    of a layer is a projection of both last states, [h h'] P = h P_1 + h' P_2, and so for the c of an LSTM.

    Padding is skipped, and an all-padding source leaves the states at zero.

    Args:
        vocabulary_size: int. Number of source ids, specials included.
        embedding_dim: int. Dimension of the word embeddings.
        units: int. Number of hidden units of each layer and direction.
        cell: "lstm", "gru" or "rnn". Defaults to "lstm".
        layers: int. Defaults to `1`.
        bidirectional: `None`, "concat" or "sum". Defaults to `None`: from left to right alone.
        reverse_source: bool. Whether the words are read in reverse order, the end of sequence still last.
            Defaults to `False`.
        summary: bool. Whether the decoder gets the summary c instead of all states. Defaults to `False`.
        dropout: float. Share of the inputs of each layer that are set to zero in training. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.1`.

    Call arguments:
        source: integer tensor `(batch, time)`: ids closed by the end of sequence (2), then padding (0).

    Returns:
        list of float tensors: for each layer the state `(batch, units)`, of an LSTM `(batch, 2 * units)`; or the
        summary `(batch, units)` alone.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2, algorithm 3
        - Sutskever et al., 2014 (arXiv 1409.3215): reversed sources
        - Zaremba et al., 2014 (arXiv 1409.2329): dropout of the connections that are not recurrent
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        units,
        cell="lstm",
        layers=1,
        bidirectional=None,
        reverse_source=False,
        summary=False,
        **kwargs,
    ):
        super().__init__(vocabulary_size, embedding_dim, units, cell, layers, summary, **kwargs)
        self.bidirectional = bidirectional
        self.reverse_source = reverse_source
        policy, initial_scale = self.dtype_policy, self.initial_scale
        directions = 2 if bidirectional else 1
        self.cells = [
            [recurrent_cell(cell, units, initial_scale, policy) for _ in range(directions)] for _ in range(layers)
        ]
        parts = self.cells[0][0].state_size // units
        if summary:
            self.projections = [[dense(units, initial_scale, policy, "tanh")]]
        elif bidirectional:
            self.projections = [[dense(units, initial_scale, policy) for _ in range(parts)] for _ in range(layers)]
        else:
            self.projections = []

    def build(self, source_shape=None):
        self.embedding.build((None, None))
        directions, width = len(self.cells[0]), self.embedding_dim
        for cells in self.cells:
            for cell in cells:
                cell.build((None, width))
            width = self.units * (2 if self.bidirectional == "concat" else 1)
        for projections in self.projections:
            for projection in projections:
                projection.build((None, directions * self.units))
        self.built = True

    def call(self, source):
        if self.reverse_source:
            source = words_reversed(source)
        mask, inputs = ops.not_equal(source, 0), self.embedding(source)
        lasts = []
        for cells in self.cells:
            inputs = self.input_dropout(inputs)
            # The second cell of a layer, where there is one, reads from the right.
            runs = [self._run(cell, inputs, mask, backwards=bool(i)) for i, cell in enumerate(cells)]
            outputs, last = zip(*runs, strict=True)
            lasts.append(last)
            inputs = ops.concatenate(outputs, axis=-1) if self.bidirectional == "concat" else sum(outputs)
        if self.summary:
            return [self.projections[0][0](self._parts(lasts[-1])[0])]
        if not self.bidirectional:
            return [last for (last,) in lasts]
        return [
            ops.concatenate([one(part) for one, part in zip(projections, self._parts(last), strict=True)], axis=-1)
            for projections, last in zip(self.projections, lasts, strict=True)
        ]

    def _run(self, cell, inputs, mask, backwards):
        """Outputs `(batch, time, units)` and the last state of a cell."""
        if backwards:
            # Padding then stands first, where it leaves the state at zero.
            inputs, mask = ops.flip(inputs, axis=1), ops.flip(mask, axis=1)
        first = ops.zeros((ops.shape(inputs)[0], cell.state_size), inputs.dtype)
        states = run_through_time(cell.step, cell.parameters(), cell.project_inputs(inputs), first, mask)
        outputs = states[..., : self.units]
        return (ops.flip(outputs, axis=1) if backwards else outputs), states[:, -1]

    def _parts(self, states):
        """h of all directions side by side, and, of an LSTM, c."""
        places = range(0, self.cells[0][0].state_size, self.units)
        return [ops.concatenate([s[:, i : i + self.units] for s in states], axis=-1) for i in places]

    def get_config(self):
        return {
            **super().get_config(),
            "bidirectional": self.bidirectional,
            "reverse_source": self.reverse_source,
        }


def words_reversed(source):
    """Sources with their words in reverse order; the end of sequence and the padding stay where they are.

    Args:
        source: integer tensor `(batch, time)`: ids closed by the end of sequence, then padding (0).

    Returns:
        integer tensor of the same shape.
    """
    words = ops.sum(ops.cast(ops.not_equal(source, 0), "int32"), axis=1, keepdims=True) - 1
    places = ops.expand_dims(ops.arange(ops.shape(source)[1], dtype="int32"), 0)
    return ops.take_along_axis(source, ops.where(places < words, words - 1 - places, places), axis=1)
