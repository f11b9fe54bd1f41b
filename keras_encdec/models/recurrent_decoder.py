"""Decoder of stacked recurrent layers."""

import keras
from keras import ops

from keras_encdec.layers.scanned_recurrence import run_through_time
from keras_encdec.models.recurrent_cells import dense, recurrent_cell
from keras_encdec.models.recurrent_layers import RecurrentLayers
from keras_encdec.text.vocabulary import END


@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentDecoder(RecurrentLayers):
    """Predicts each target word from the words before it, with stacked recurrent layers.

        h_t^(0) = e(y_{t-1}),   y_0 the end of sequence, which marks that the source is over
        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l)),   l = 1 .. L
        logits  = h_t^(L) W_hy + b_hy

    s is the state of a cell, [h c] of an LSTM and h of the others. The first states s_0^(l) are given, or, with
    a summary c of the source, made of it, s_0^(l) = tanh(c V^(l) + b_V^(l)), and c is then read by the first
    layer at every step, beside the word.

    Args:
        vocabulary_size: int. Number of target ids, specials included.
        embedding_dim: int. Dimension of the word embeddings.
        units: int. Number of hidden units of each layer.
        cell: "lstm", "gru" or "rnn". Defaults to "lstm".
        layers: int. Defaults to `1`.
        summary: bool. Whether what is given of the source is a summary c instead of the first states.
            Defaults to `False`.
        dropout: float. Share of the inputs of each layer, and of the output matrix, that are set to zero in
            training. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.1`.

    Call arguments:
        previous: integer tensor `(batch, time)`: y_0 .. y_{T-1}, that is 0 and then the target without its
            last id. 0 is taken for the end of sequence.
        encoded: list of float tensors, of `RecurrentEncoder`.

    Returns:
        float tensor `(batch, time, vocabulary_size)`: logits.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2, algorithm 3
        - Cho et al., 2014 (arXiv 1406.1078), section 2.2: the summary at every step
    """

    def __init__(self, vocabulary_size, embedding_dim, units, cell="lstm", layers=1, summary=False, **kwargs):
        super().__init__(vocabulary_size, embedding_dim, units, cell, layers, summary, **kwargs)
        policy, initial_scale = self.dtype_policy, self.initial_scale
        self.cells = [recurrent_cell(cell, units, initial_scale, policy) for _ in range(layers)]
        self.output_matrix = dense(vocabulary_size, initial_scale, policy)
        if summary:
            state_size = self.cells[0].state_size
            self.first_states = [dense(state_size, initial_scale, policy, "tanh") for _ in range(layers)]
            # Its rows below those of the words in the first layer's matrix, whose bias is enough for both.
            self.context = dense(self.cells[0].gates * units, initial_scale, policy, use_bias=False)

    def build(self, previous_shape=None, encoded_shape=None):
        self.embedding.build((None, None))
        for cell, width in zip(self.cells, [self.embedding_dim] + [self.units] * (self.layers - 1), strict=True):
            cell.build((None, width))
        self.output_matrix.build((None, None, self.units))
        if self.summary:
            for layer in (*self.first_states, self.context):
                layer.build((None, self.units))
        self.built = True

    def call(self, previous, encoded):
        states, memory = self.start(encoded)

        # No mask: padding follows the end of sequence, so no state that counts comes after it.
        def run(cell, inputs, state):
            return run_through_time(cell.step, cell.parameters(), inputs, state)

        memory = [ops.expand_dims(one, 1) for one in memory]
        return self.output_matrix(self._through(self._embedded(previous), states, memory, run)[0])

    def start(self, encoded):
        """What decoding word by word begins with, see `TranslationModel.start`."""
        if not self.summary:
            return list(encoded), []
        (summary,) = encoded
        return [first(summary) for first in self.first_states], [self.context(summary)]

    def step(self, previous, states, memory):
        """The logits of the next word, see `TranslationModel.step`."""
        features, states = self.advance(previous, states, memory)
        return self.output_matrix(features), states

    def advance(self, previous, states, memory):
        """As `step`, but h of the last layer `(batch, units)` instead of the logits."""

        def run(cell, inputs, state):
            return cell.step.forward(inputs, state, cell.parameters())[0]

        return self._through(self._embedded(previous), states, memory, run)

    @property
    def output_weights(self):
        """The output matrix `(units, vocabulary_size)` and its bias."""
        return self.output_matrix.kernel, self.output_matrix.bias

    @property
    def state_sizes(self):
        """Widths of the states of `start`: list of int."""
        return [cell.state_size for cell in self.cells]

    def _embedded(self, previous):
        return self.embedding(ops.where(ops.equal(previous, 0), ops.full_like(previous, END), previous))

    def _through(self, inputs, states, memory, run):
        """What the output matrix multiplies and the new states, from the embedded words up through all layers."""
        new = []
        for cell, state in zip(self.cells, states, strict=True):
            projected = cell.project_inputs(self.input_dropout(inputs))
            if memory and not new:
                projected = projected + memory[0]
            new.append(run(cell, projected, state))
            inputs = new[-1][..., : self.units]
        return self.input_dropout(inputs), new
