"""The recurrent encoder-decoder of neural machine translation."""

import keras
from keras import ops

from keras_encdec.architectures.configurations import (
    DEFAULT_SCORE,
    RecurrentEncoderDecoderConfig,
    RecurrentLanguageModelConfig,
)
from keras_encdec.backend.operations import sums_at
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.data.rare_word_batches import SPELLING_WIDTHS, characters_key, positions_key
from keras_encdec.models.attention_decoder import AttentionDecoder
from keras_encdec.models.language_model import LanguageModel
from keras_encdec.models.log_probs import SPECIAL_IDS
from keras_encdec.models.recurrent_decoder import RecurrentDecoder
from keras_encdec.models.recurrent_encoder import RecurrentEncoder
from keras_encdec.models.translation_model import EncoderDecoder, register_model


@register_model("recurrent")
@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentEncoderDecoder(EncoderDecoder):
    """Learns p(target | source) of sentence pairs with stacked recurrent layers, and translates.

        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l))          of the encoder, over the source and its end of sequence
        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l))          of the decoder, over that end of sequence and the target
        p(y_t | y_<t, x) = softmax(h_t^(L) W_hy + b_hy)

    With attention, h~_t = tanh(c_t W_c + h_t^(L) W_h) replaces h_t^(L) in the last line; c_t is an average of the
    encoder's states, with new weights for each target word. See `AttentionDecoder`.

    f is a cell of `keras_encdec.layers`: `LSTMCell`, `GRUCell`, `RNNCell` or another registered cell. The thesis has no
    biases; here the cells and the output have biases. The encoder of the thesis reads only the words; the encoders of
    this package also read the end of sequence. See `RecurrentEncoder` and `RecurrentDecoder`.

    Ids: 0 padding, 1 unknown word, 2 end of sequence, words from 3. Source and target are both closed by 2 and
    then padded with 0. The loss is minus the sum of the token log-probabilities of a pair, here averaged over the
    pairs:

        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0), reduction="mean")
        model.fit({"source": source, "target": target}, batch_size=128)

    `fit` and `evaluate` report `perplexity`, per target token including the end of sequence, and `log_likelihood`, in
    nats per pair.

    With characters (a hybrid model), the vector of a source word outside the shortlist is computed from its characters,
    see `CharacterReader`. A target word outside the shortlist is predicted as the unknown word and then spelled, see
    `Speller`: ln p of its characters is added to that of the unknown word. The decoder reads the unknown word next. The
    inputs contain the ids and characters of these words, see `keras_encdec.data.rare_word_batches`.

    Args:
        source_words, target_words: int. Words in each shortlist, without the three special ids.
        source_characters, target_characters: int. Number of characters in each character vocabulary. Default to the
            hyper-parameter `character_shortlist`.
        **arguments: hyper-parameters of `RecurrentEncoderDecoderConfig`, and arguments of `keras.Model`, such as
            `dtype`. With `bidirectional` the decoder gets a projection of both last states of each layer, so that with
            one layer "concat" and "sum" are the same model. Biases start at zero, those of an LSTM's forget gates at
            one.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, integer ids; or a tuple
            of the two. A hybrid model also reads the arrays of `RareWordBatches` in the dict.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of a wrong type or out of bounds, or a cell that is not registered.

    Example:

    >>> model = RecurrentEncoderDecoder(20, 30, layers=2, units=8, embedding_dim=4)
    >>> tuple(model.score([[5, 6, 2]], [[7, 2]]).shape)
    (1,)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapters 2 to 4
        - Sutskever et al., 2014 (arXiv 1409.3215); Cho et al., 2014 (arXiv 1406.1078); Zaremba et al., 2014
          (arXiv 1409.2329)
        - Luong and Manning, 2016 (arXiv 1604.00788): characters
    """

    config_class = RecurrentEncoderDecoderConfig
    config: RecurrentEncoderDecoderConfig

    def __init__(
        self,
        source_words: int,
        target_words: int,
        source_characters: int | None = None,
        target_characters: int | None = None,
        **arguments: object,
    ) -> None:
        super().__init__(source_words, target_words, **arguments)
        config = self.config
        self.source_characters = self.target_characters = None
        if config.reads_characters:
            self.source_characters = config.character_shortlist if source_characters is None else source_characters
        if config.spells_words:
            self.target_characters = config.character_shortlist if target_characters is None else target_characters
        shared = {
            "embedding_dim": config.embedding_dim,
            "units": config.units,
            "cell": config.cell,
            "layers": config.layers,
            "summary": config.condition == "context",
            "dropout": config.dropout,
            "initial_scale": config.initial_scale,
            "dtype": self.dtype_policy,
        }
        self.encoder = RecurrentEncoder(
            source_words + SPECIAL_IDS,
            bidirectional=config.bidirectional,
            reverse_source=config.reverse_source,
            annotations=config.attention != "none",
            reader=self._character_arguments(self.source_characters),
            name="encoder",
            **shared,
        )
        if config.attention == "none":
            self.decoder = RecurrentDecoder(target_words + SPECIAL_IDS, name="decoder", **shared)
        else:
            given = {"score_units": config.attention_units, "half_width": config.attention_window}
            spelling = self._character_arguments(self.target_characters)
            self.decoder = AttentionDecoder(
                target_words + SPECIAL_IDS,
                annotation_width=self.encoder.annotation_width,
                attention=config.attention,
                attention_score=config.attention_score or DEFAULT_SCORE,
                attention_arguments={name: value for name, value in given.items() if value is not None},
                input_feeding=config.input_feeding is not False,
                speller=spelling and {**spelling, "character_path": config.character_path},
                name="decoder",
                **shared,
            )
        # All sizes are known: build the weights now, so that they can be counted, set or loaded.
        self.build()

    def _character_arguments(self, number: int | None) -> dict[str, object] | None:
        """Returns the arguments of a reader or a speller of this number of characters; `None` without characters."""
        config = self.config
        if number is None:
            return None
        return {
            "characters": number,
            "units": config.character_units,
            "cell": config.cell,
            "layers": config.character_layers,
            "dropout": config.dropout if config.character_dropout is None else config.character_dropout,
            "initial_scale": config.initial_scale,
        }

    def call(self, inputs: Structure, training: bool | None = None) -> Structure:
        if self.config.characters == "none":
            return super().call(inputs, training=training)
        source, target = self.sides(inputs)
        rare = None
        if self.encoder.reader is not None:
            rare = self.encoder.reader.read(character_groups(inputs, "source"), training)
        encoded = self.encoder(source, rare, training=training)
        previous = self.decoder.previous_words(target)
        if self.decoder.speller is None:
            return self.log_probs_for_loss(self.decoder(previous, encoded, training=training), target, training)
        positions = ops.concatenate([ops.zeros(0, "int32"), *position_groups(inputs)], axis=0)
        logits, first = self.decoder(previous, encoded, spelled_positions=positions, training=training)
        start, scores = 0, [ops.zeros(0, "float32")]
        for characters in character_groups(inputs, "target"):
            stop = start + ops.shape(characters)[0]
            scores.append(self.decoder.speller(first[start:stop], characters, training=training))
            start = stop
        spelling = added_at(ops.concatenate(scores, axis=0), positions, target)
        log_probs = self.log_probs_for_loss(logits, target, training)
        return keras.tree.map_structure(lambda tensor: tensor + ops.cast(spelling, tensor.dtype), log_probs)

    def _check_rare_words(self, x: Structure) -> None:
        if self.config.characters != "none":
            raise ValueError(
                "found arrays, but a model with characters is trained on batches with the characters of their rare "
                "words; pass ((batch,) for batch in stream) with the stream of keras_encdec.data.Batches"
            )

    def get_config(self) -> dict[str, object]:
        numbers = {"source_characters": self.source_characters, "target_characters": self.target_characters}
        return {**super().get_config(), **{name: number for name, number in numbers.items() if number is not None}}


def character_groups(inputs: Structure, side: str) -> list[Tensor]:
    """Returns the spellings of the rare words on one side of a model's inputs, without the empty groups.

    Args:
        inputs: see `RecurrentEncoderDecoder`. Inputs without arrays of characters have no rare words.
        side: "source" or "target".
    """
    return _groups(inputs, [characters_key(side, width) for width in SPELLING_WIDTHS])


def position_groups(inputs: Structure) -> list[Tensor]:
    """Returns the positions, row * time + column, of the target words in `character_groups`."""
    return _groups(inputs, [positions_key(width) for width in SPELLING_WIDTHS])


def _groups(inputs: Structure, keys: list[str]) -> list[Tensor]:
    groups = [inputs[key] for key in keys if isinstance(inputs, dict) and key in inputs]
    return [group for group in groups if group.shape[0] != 0]


def added_at(scores: Tensor, positions: Tensor, target: Tensor) -> Tensor:
    """Adds up the scores of spelled words at their positions.

    Args:
        scores: float tensor `(words,)`.
        positions: int32 tensor `(words,)`, row * time + column.
        target: tensor `(batch, time)`.

    Returns:
        float tensor `(batch, time)`; 0 at all other positions.
    """
    shape = ops.shape(target)
    return ops.reshape(sums_at(scores, positions, shape[0] * shape[1]), shape)


@register_model("language_model")
@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentLanguageModel(LanguageModel):
    """Learns p(target) of sentences with stacked recurrent layers: a decoder without a source.

        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l)),   h_t^(0) = e(y_{t-1}),   s_0^(l) = 0
        p(y_t | y_<t) = softmax(h_t^(L) W_hy + b_hy)

    y_0 is the end of sequence, as if of the previous sentence. The model is the decoder of `RecurrentEncoderDecoder`,
    with the same ids, loss and metrics:

        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0), reduction="mean")
        model.fit({"target": target}, batch_size=128)

    Args:
        words: int. Words in the shortlist, without the three special ids.
        **arguments: hyper-parameters of `RecurrentLanguageModelConfig`, and arguments of `keras.Model`, such as
            `dtype`.

    Call arguments:
        inputs: dict with "target" `(batch, time)`, integer ids; or the ids alone.

    Returns:
        float32 tensor `(batch, time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of a wrong type or out of bounds, or a cell that is not registered.

    Example:

    >>> model = RecurrentLanguageModel(30, layers=1, units=8, embedding_dim=4)
    >>> tuple(model.score([[7, 8, 2], [9, 2, 0]]).shape)
    (2,)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2
    """

    config_class = RecurrentLanguageModelConfig
    config: RecurrentLanguageModelConfig

    def new_decoder(self, vocabulary_size: int) -> RecurrentDecoder:
        config = self.config
        return RecurrentDecoder(
            vocabulary_size,
            config.embedding_dim,
            config.units,
            config.cell,
            config.layers,
            dropout=config.dropout,
            initial_scale=config.initial_scale,
            dtype=self.dtype_policy,
            name="decoder",
        )
