"""The recurrent encoder-decoder of neural machine translation."""

import keras

from keras_encdec.models.presets import recurrent_preset
from keras_encdec.models.recurrent_decoder import RecurrentDecoder
from keras_encdec.models.recurrent_encoder import RecurrentEncoder
from keras_encdec.models.translation_model import SPECIAL_IDS, TranslationModel


@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentEncoderDecoder(TranslationModel):
    """Learns p(target | source) of sentence pairs with stacked recurrent layers, and translates.

        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l))          of the encoder, over the source and its end
        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l))          of the decoder, over that end and the target
        p(y_t | y_<t, x) = softmax(h_t^(L) W_hy + b_hy)

    f is a cell: `keras_encdec.layers.lstm_cell.LSTMCell`, `GRUCell` or `rnn_cell.RNNCell`. The thesis writes
    no biases; here the cells and the output have them. It lets the encoder read the words alone, here it
    reads the end of sequence, too, as all encoders of this package. See `RecurrentEncoder` and `RecurrentDecoder`.

    Ids: 0 padding, 1 unknown word, 2 end of sequence, words from 3. Source and target are both closed by 2 and
    then padded with 0. The loss is the model's own, minus the sum of the token log-probabilities of a pair, on average:

        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0), reduction="mean")
        model.fit({"source": source, "target": target}, batch_size=128)

    `fit` and `evaluate` report `perplexity`, per target token with the end of sequence, and `log_likelihood`,
    nats a pair.

    Args:
        source_words, target_words: int. Words in each shortlist, the three special ids not counted.
        cell: "lstm", "gru" or "rnn". Defaults to "lstm".
        layers: int. Layers of the encoder, and of the decoder. Defaults to `2`.
        units: int. Hidden units of each layer. Defaults to `256`.
        embedding_dim: int. Dimension of the word embeddings. Defaults to `256`.
        bidirectional: `None`, "concat" or "sum". Whether each layer of the encoder reads in both directions, and
            what the layer above reads then: the states of both side by side, or their sum. The decoder gets
            a projection of both last states either way, so with one layer the two are one model.
            Defaults to `None`: from left to right alone.
        condition: "states" or "context". Each layer of the decoder starts from the last state of the encoder's
            layer, h and c of an LSTM; or a summary of the last layer's is read at every step and gives
            the first states, too. Defaults to "states".
        reverse_source: bool. Whether the encoder reads the words in reverse order, the end of sequence still
            last. Defaults to `False`.
        dropout: float. Share of the connections that are not recurrent set to zero in training: of the inputs of
            each layer and of the output matrix. Defaults to `0.0`.
        initial_scale: float. The initial weights are uniform between minus and plus this; biases are zero, but
            for one of an LSTM's forget gates. Defaults to `0.1`.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, or the
            tuple of the two: integer ids.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a `cell`, `bidirectional` or `condition` there is none of, or less than one layer.

    Example:

    >>> model = RecurrentEncoderDecoder(20, 30, layers=2, units=8, embedding_dim=4)
    >>> tuple(model.score([[5, 6, 2]], [[7, 2]]).shape)
    (1,)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapters 2 and 3
        - Sutskever et al., 2014 (arXiv 1409.3215); Cho et al., 2014 (arXiv 1406.1078); Zaremba et al., 2014
          (arXiv 1409.2329)
    """

    def __init__(
        self,
        source_words,
        target_words,
        cell="lstm",
        layers=2,
        units=256,
        embedding_dim=256,
        bidirectional=None,
        condition="states",
        reverse_source=False,
        dropout=0.0,
        initial_scale=0.1,
        **kwargs,
    ):
        super().__init__(source_words, target_words, **kwargs)
        if bidirectional not in (None, "concat", "sum"):
            raise ValueError(f'found bidirectional={bidirectional!r}, expected None, "concat" or "sum"')
        if condition not in ("states", "context"):
            raise ValueError(f'found condition={condition!r}, expected "states" or "context"')
        self.cell = cell
        self.depth = layers
        self.units = units
        self.embedding_dim = embedding_dim
        self.bidirectional = bidirectional
        self.condition = condition
        self.reverse_source = reverse_source
        self.dropout = dropout
        self.initial_scale = initial_scale
        shared = {
            "embedding_dim": embedding_dim,
            "units": units,
            "cell": cell,
            "layers": layers,
            "summary": condition == "context",
            "dropout": dropout,
            "initial_scale": initial_scale,
            "dtype": self.dtype_policy,
        }
        self.encoder = RecurrentEncoder(
            source_words + SPECIAL_IDS,
            bidirectional=bidirectional,
            reverse_source=reverse_source,
            name="encoder",
            **shared,
        )
        self.decoder = RecurrentDecoder(target_words + SPECIAL_IDS, name="decoder", **shared)
        # Every size is known: the weights exist at once, to be counted, set or loaded.
        self.build()

    @classmethod
    def from_preset(cls, preset, source_words, target_words, **kwargs):
        """A new model of published or recommended sizes.

        Args:
            preset: `"luong2015"` (arXiv 1508.04025, without attention) or `"small_sentences"` (for CPUs).
            source_words, target_words: int. Words in each shortlist.
            **kwargs: further arguments of the constructor; they override the preset's.

        Raises:
            ValueError: for a preset there is none of, or of another model.
        """
        return cls(source_words, target_words, **{**recurrent_preset(preset), **kwargs})

    def get_config(self):
        return {
            **super().get_config(),
            "source_words": self.source_words,
            "target_words": self.target_words,
            "cell": self.cell,
            "layers": self.depth,
            "units": self.units,
            "embedding_dim": self.embedding_dim,
            "bidirectional": self.bidirectional,
            "condition": self.condition,
            "reverse_source": self.reverse_source,
            "dropout": self.dropout,
            "initial_scale": self.initial_scale,
        }
