"""The hyper-parameters of the models, and the names of the cells and of the kinds of attention, without Keras."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.registry import Registry

if TYPE_CHECKING:
    from keras_encdec.layers.attention import Attention
    from keras_encdec.layers.recurrent_cell import RecurrentCell

# The classes register themselves when `keras_encdec.layers` is imported; commands need the names before that.
CELLS: "Registry[type[RecurrentCell]]" = Registry("cell", expected=["rnn", "lstm", "gru"])
ATTENTIONS: "Registry[type[Attention]]" = Registry(
    "attention", others=["none"], expected=["global", "local_m", "local_p"]
)

_CHO = "Cho et al., 2014, section 4.1"
_CSLM = "CSLM of Cho et al., 2014, section 4.1.2"
_SUPPLEMENT = "Cho et al., 2014, supplement (v1)"
_LUONG = "Luong et al., 2015, section 4.1"
_ATTENTION = "Luong et al., 2015, section 4.3"

DEFAULT_SCORE = "general"
# The hyper-parameters that apply only with attention.
ATTENTION_OPTIONS = ("attention_score", "attention_units", "attention_window", "input_feeding")
_HYBRID = "Luong and Manning, 2016, sections 4 and 5"
# The default values of hyper-parameters that apply only with characters, and the names of all of these.
DEFAULT_CHARACTER_OPTIONS = {"character_units": 128, "character_layers": 1, "character_shortlist": 200}
CHARACTER_OPTIONS = (*DEFAULT_CHARACTER_OPTIONS, "character_dropout", "character_path")


@dataclasses.dataclass(frozen=True)
class RNNEncoderDecoderConfig(Configuration):
    """Hyper-parameters of `RNNEncoderDecoder`; the defaults are those of the body of the paper."""

    embedding_dim: int = hyperparameter(
        100, "Dimension of the word embeddings.", minimum=1, published={_CHO: 100, _SUPPLEMENT: 500}
    )
    units: int = hyperparameter(
        1000, "Hidden units of the encoder, and of the decoder.", minimum=1, published={_CHO: 1000, _SUPPLEMENT: 1000}
    )
    maxout_units: int = hyperparameter(
        500, "Maxout units of the readout.", minimum=1, published={_CHO: 500, _SUPPLEMENT: 1000}
    )
    output_rank: int = hyperparameter(
        100, "Rank of the factorized output matrix.", minimum=1, published={_CHO: 100, _SUPPLEMENT: 500}
    )
    reset_after: bool = hyperparameter(
        False,
        "Whether the encoder's reset gate is applied after the recurrent matrix, as in the paper's supplement.",
        published={_CHO: False, _SUPPLEMENT: True},
    )
    initial_stddev: float = hyperparameter(
        0.01,
        "Standard deviation of the initial non-recurrent weights; models learn faster with 0.1 than the paper's 0.01.",
        minimum=0,
        published={_CHO: 0.01},
    )
    # Whether the decoder has attention.
    has_attention: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True)
class RecurrentLanguageModelConfig(Configuration):
    """Hyper-parameters of `RecurrentLanguageModel`; `RecurrentEncoderDecoder` has them, too."""

    cell: str = hyperparameter(
        "lstm", "Recurrent cell of the layers.", choices=lambda: CELLS.choices, published={_LUONG: "lstm"}
    )
    layers: int = hyperparameter(
        2, "Recurrent layers of the encoder, and of the decoder.", minimum=1, published={_LUONG: 4}
    )
    units: int = hyperparameter(256, "Hidden units of each layer.", minimum=1, published={_LUONG: 1000})
    embedding_dim: int = hyperparameter(256, "Dimension of the word embeddings.", minimum=1, published={_LUONG: 1000})
    dropout: float = hyperparameter(
        0.0,
        "Dropout rate of the inputs of each layer and of the output matrix; recurrent connections are kept.",
        minimum=0,
        maximum=0.99,
        published={_LUONG: 0.2},
    )
    initial_scale: float = hyperparameter(
        0.1, "The initial weights are drawn uniformly from [-x, x] for this x.", minimum=0, published={_LUONG: 0.1}
    )

    @property
    def has_attention(self) -> bool:
        """Whether the decoder has attention."""
        return False


_attention_option = functools.partial(hyperparameter, group="attention")
_character_option = functools.partial(hyperparameter, group="characters")


@dataclasses.dataclass(frozen=True)
class RecurrentEncoderDecoderConfig(RecurrentLanguageModelConfig):
    """Hyper-parameters of `RecurrentEncoderDecoder`."""

    bidirectional: str = hyperparameter(
        "none",
        "Whether the encoder's layers are bidirectional, and how the states of both directions are combined for the "
        "next layer: concatenated (concat) or added (sum).",
        choices=("none", "concat", "sum"),
        published={_LUONG: "none"},
    )
    condition: str = hyperparameter(
        "states",
        "The decoder starts from the encoder's last states, or reads a summary of the source at every step (context).",
        choices=("states", "context"),
        published={_LUONG: "states"},
    )
    reverse_source: bool = hyperparameter(
        False,
        "Whether the encoder reads the words in reverse order; the end of sequence stays last.",
        published={_LUONG: True},
    )

    attention: str = _attention_option(
        "none",
        "Attention of the decoder to the source positions: to all (global), to those around the target's position "
        "(local_m) or around a predicted one (local_p), or none.",
        choices=lambda: ATTENTIONS.choices,
        published={_ATTENTION: "local_p"},
    )
    attention_score: str | None = _attention_option(
        None,
        "With attention, how a state of the decoder is compared with a source position; general by default.",
        choices=("dot", "general", "concat"),
        published={_ATTENTION: "general"},
    )
    attention_units: int | None = _attention_option(
        None,
        "With the attention score concat, the width of its hidden layer; as wide as the decoder by default.",
        minimum=1,
    )
    attention_window: int | None = _attention_option(
        None,
        "With local attention, the number of source positions on each side of its centre; 10 by default.",
        minimum=1,
        published={_ATTENTION: 10},
    )
    input_feeding: bool | None = _attention_option(
        None,
        "With attention, whether the decoder also reads the previous step's attentional state (input feeding); it does "
        "by default.",
        published={_ATTENTION: True},
    )
    characters: str = _character_option(
        "none",
        "How words outside the shortlist are treated: they are read by their characters (source), spelled by their "
        "characters (target, which needs attention), both, or are one unknown word (none).",
        choices=("none", "source", "target", "both"),
        published={_HYBRID: "both"},
    )
    character_units: int | None = _character_option(
        None,
        "With characters, the hidden units of their layers and the dimension of their embeddings; 128 by default.",
        minimum=1,
    )
    character_layers: int | None = _character_option(
        None, "With characters, the number of recurrent layers over them; 1 by default.", minimum=1
    )
    character_shortlist: int | None = _character_option(
        None,
        "With characters, the number of characters, the most frequent ones, in each character vocabulary; 200 by "
        "default.",
        minimum=1,
        maximum=60_000,
    )
    character_dropout: float | None = _character_option(
        None,
        "With characters, the dropout rate of the layers over them; that of the other layers by default.",
        minimum=0,
        maximum=0.99,
    )
    character_path: str | None = _character_option(
        None,
        "With characters of the target, what the spelling of a word starts from: a state computed for it (separate) "
        "or the one that the word is predicted from (same); separate by default.",
        choices=("separate", "same"),
        published={_HYBRID: "separate"},
    )

    @property
    def has_attention(self) -> bool:
        return self.attention != "none"

    @property
    def reads_characters(self) -> bool:
        """Whether source words outside the shortlist are read by their characters."""
        return self.characters in ("source", "both")

    @property
    def spells_words(self) -> bool:
        """Whether target words outside the shortlist are spelled by their characters."""
        return self.characters in ("target", "both")

    def _check_without(self, choice: str, options: Sequence[str]) -> None:
        """Raises ConfigurationError for `options` that are given although the hyper-parameter `choice` is none."""
        for name in options:
            if getattr(self, choice) == "none" and getattr(self, name) is not None:
                raise ConfigurationError(
                    f"found {{{name}}}=%s without {{{choice}}}, expected {{{choice}}} with it", getattr(self, name)
                )

    def _check_characters(self) -> None:
        self._check_without("characters", CHARACTER_OPTIONS)
        if not self.spells_words:
            if self.character_path is not None:
                raise ConfigurationError(
                    "found {character_path} with {characters}=%s, expected it with target or both", self.characters
                )
            return
        if self.attention == "none":
            raise ConfigurationError(
                "found {characters}=%s without {attention}, expected {attention} with it", self.characters
            )
        if self.character_path == "same" and self.character_units != self.units:
            raise ConfigurationError(
                "found {character_path}=same with {character_units}=%d and {units}=%d, expected equal numbers",
                self.character_units,
                self.units,
            )

    def check(self) -> None:
        self._check_characters()
        self._check_without("attention", ATTENTION_OPTIONS)
        if self.attention_units is not None and self.attention_score != "concat":
            raise ConfigurationError(
                "found {attention_units} with {attention_score}=%s, expected it with concat", self.attention_score
            )
        if self.attention_window is not None and self.attention == "global":
            raise ConfigurationError("found {attention_window} with {attention}=global, expected local attention")
        if self.attention != "none" and self.attention_score == "dot" and self.bidirectional == "concat":
            raise ConfigurationError(
                "found {attention_score}=dot with {bidirectional}=concat, whose source positions are twice as wide as "
                "the decoder's states; give {attention_score}=general or {bidirectional}=sum"
            )

    def __post_init__(self) -> None:
        if self.attention != "none" and self.attention_score is None:
            object.__setattr__(self, "attention_score", DEFAULT_SCORE)
        if self.characters != "none":
            defaults: dict[str, object] = dict(DEFAULT_CHARACTER_OPTIONS)
            if self.spells_words:
                defaults["character_path"] = "separate"
            if self.character_path == "same":
                defaults["character_units"] = self.units
            for name, value in defaults.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, value)
        super().__post_init__()

    @classmethod
    def upgraded(cls, values: Mapping[str, object]) -> dict[str, object]:
        known = dict(values)
        if "bidirectional" in known and known["bidirectional"] is None:  # written by the first version
            known["bidirectional"] = "none"
        # Earlier versions saved these values in models without attention, too.
        if known.get("attention", "none") == "none":
            for name, unused in (("attention_score", DEFAULT_SCORE), ("input_feeding", False)):
                if known.get(name) == unused:
                    del known[name]
        return known


@dataclasses.dataclass(frozen=True)
class FeedForwardLanguageModelConfig(Configuration):
    """Hyper-parameters of `FeedForwardLanguageModel`; the defaults are those of the paper's CSLM."""

    ngram_order: int = hyperparameter(
        7,
        "Words of an n-gram, including the predicted word, which depends on the words before it in the n-gram.",
        minimum=2,
        published={_CSLM: 7},
    )
    embedding_dim: int = hyperparameter(512, "Dimension of the word embeddings.", minimum=1, published={_CSLM: 512})
    hidden_units: tuple[int, ...] = hyperparameter(
        (1536, 1024), "Units of each rectified layer.", minimum=1, published={_CSLM: (1536, 1024)}
    )
    dropout: float = hyperparameter(
        0.0, "Dropout rate of the inputs of each layer and of the output matrix.", minimum=0, maximum=0.99
    )
    initial_scale: float = hyperparameter(
        0.01, "The initial weights are drawn uniformly from [-x, x] for this x.", minimum=0, published={_CSLM: 0.01}
    )
    # Whether the decoder has attention.
    has_attention: ClassVar[bool] = False
