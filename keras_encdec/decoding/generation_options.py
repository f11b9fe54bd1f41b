"""The options of generating a file of targets."""

import dataclasses
import functools
from collections.abc import Sequence

from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.errors import FilePath
from keras_encdec.formats.fields import LARGEST
from keras_encdec.formats.nbest_line import check_feature_name
from keras_encdec.scoring.scoring_options import DTYPES
from keras_encdec.task_options import (
    AlignmentOptions,
    EncodingOption,
    ReplacementOptions,
    ShardOptions,
    ShortlistOptions,
    TranslationOptions,
    UnknownWordsOption,
)
from keras_encdec.text.tokenizer import SUBWORD_JOINERS
from keras_encdec.trained_model import (
    TRANSLATE_INSTEAD,
    TranslatingModel,
    check_can_replace_unknown,
    check_can_translate,
)

_output_form = functools.partial(hyperparameter, group="form of the output")


@dataclasses.dataclass(frozen=True)
class GenerationOptions(
    ShortlistOptions,
    ShardOptions,
    AlignmentOptions,
    TranslationOptions,
    ReplacementOptions,
    UnknownWordsOption,
    EncodingOption,
):
    """Options of `generate_file`, apart from those of the sampler.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
    """

    weights: tuple[float, ...] | None = hyperparameter(
        None,
        "Weights of an ensemble, one for each model. Default: equal weights.",
        above=0,
        maximum=LARGEST,
        group="ensembles",
    )
    average: str | None = hyperparameter(
        None,
        "How an ensemble averages the probabilities that its models give a word. Default: arithmetic.",
        choices=("arithmetic", "geometric"),
        group="ensembles",
    )
    dtype: str | None = hyperparameter(
        None,
        "Dtype of the computation. bfloat16 and int8 are faster only on hardware that supports them, see encdec-score. "
        "Default: the model's own, which is float32 unless it was trained with another --dtype_policy.",
        choices=DTYPES,
    )
    format: str = _output_form(
        "text",
        "text: the best target of each source, one per line. tsv: lines of source (if any), target, ln p and, for "
        "samples, count. moses_nbest: a Moses n-best list.",
        choices=("text", "tsv", "moses_nbest"),
    )
    most: int | None = _output_form(
        None,
        "Number of distinct samples to write for each source, the most probable first. Default: 5 with "
        "encdec-generate, otherwise all.",
        minimum=1,
    )
    max_length_factor: float | None = hyperparameter(
        None, "Maximum target length per source word; at least 10 words are always allowed. Default: 1.5.", minimum=0
    )
    max_length: int | None = hyperparameter(
        None,
        "Maximum target length in words, whatever the source. Default: set by the maximum length per source word; 50 "
        "for a language model.",
        minimum=1,
    )
    character_beam: int | None = hyperparameter(
        None,
        "For a model that spells words outside its shortlist: partial spellings that a beam search keeps for each of "
        "these words. Default: 5.",
        minimum=1,
        group="unknown words",
    )
    escape: bool = _output_form(
        False, "Write targets with Moses's escapes, such as &apos;. An n-best list always has them."
    )
    feature_name: str | None = _output_form(None, "Name of ln p in a Moses n-best list. Default: RNN0.")
    full_scores: bool = hyperparameter(
        False,
        "With --lexical_shortlist: after the search, score its hypotheses again, with all words, and rank them by "
        "these scores.",
        group="lexical shortlist",
        needs="lexical_shortlist",
    )
    join_subwords: str | None = _output_form(
        None,
        "Join subwords into words: byte-pair encoding (@@) or SentencePiece (\u2581).",
        choices=tuple(SUBWORD_JOINERS),
    )

    def check(self) -> None:
        super().check()
        if self.format == "text" and (self.most or 1) > 1:
            raise ConfigurationError(
                "found {most} with {format}=text, which writes one target per source; give {format}=tsv"
            )
        if self.feature_name is not None:
            if self.format != "moses_nbest":
                raise ConfigurationError(
                    "found {feature_name} with {format}=%s, expected it with {format}=moses_nbest", self.format
                )
            check_feature_name(self.feature_name)
        if self.max_length_factor is not None and self.max_length is not None:
            raise ConfigurationError("found {max_length_factor} with {max_length}, expected one of them")

    @property
    def tables(self) -> dict[str, str | None]:
        """The files of word translations that the task reads, by option."""
        return {name: getattr(self, name) for name in ("dictionary", "lexical_shortlist", "word_translations")}

    def check_model_count(self, number: int) -> None:
        """Checks that the weights and the average suit the number of models.

        Raises:
            ConfigurationError: a ValueError, if they do not.
        """
        if self.weights is not None and len(self.weights) != number:
            raise ConfigurationError(
                "found %d {weights} for %d {model_dirs}, expected a weight for each model", len(self.weights), number
            )
        for name in ("average", "weights"):
            if getattr(self, name) is not None and number == 1:
                raise ConfigurationError(f"found {{{name}}} with one {{model_dirs}}, expected several to average")

    def check_input(self, input: FilePath | None) -> None:
        """Checks that there is an input, if the work is done in shards.

        Raises:
            ConfigurationError: a ValueError, if there is none.
        """
        if self.in_shards and input is None:
            raise ConfigurationError("found work in shards without {input}, expected the source text to translate")

    def check_models(self, models: Sequence[TranslatingModel], input: FilePath | None) -> None:
        """Checks that the input and the options suit the models.

        Args:
            models: list of models, an ensemble.
            input: the source text; `None` if there is none.

        Raises:
            ConfigurationError: a ValueError, if they do not.
        """
        first = models[0]
        if not input and first.has_source:
            raise ConfigurationError("found no {input}, expected the source text to translate")
        source_options = {"input": input, "lexical_shortlist": self.lexical_shortlist, "max_unknown": self.max_unknown}
        for name, given in source_options.items():
            if given is not None and not first.has_source:
                raise ConfigurationError(f"found {{{name}}} with a language model, which has no source; drop it")
        if self.max_length_factor is not None and not first.has_source:
            raise ConfigurationError(
                "found {max_length_factor} with a language model, which has no source; drop it, and give {max_length}"
            )
        if self.character_beam is not None and not first.spells_words:
            raise ConfigurationError(
                "found {character_beam} with a model that spells no words, expected one trained with "
                "--characters=target or --characters=both"
            )
        if self.word_translations:
            check_can_translate(first.spells_words, draws=False)
        has_attention = any(model.has_attention for model in models)
        self.check_attention(has_attention)
        if self.replace_unknown:
            check_can_replace_unknown(has_attention, first.has_position_words, first.spells_words, TRANSLATE_INSTEAD)


def check_together(options: GenerationOptions, sampler: Sampler) -> None:
    """Checks that the options of `generate_file` suit its sampler.

    Raises:
        ConfigurationError: a ValueError, if they contradict each other.
    """
    if options.replace_unknown and sampler.suppress_unknown:
        raise ConfigurationError(
            "found {replace_unknown} with {suppress_unknown}, which never generates <unk>; drop one of them"
        )
    for name in ("word_translations", "character_beam"):
        if getattr(options, name) is not None and sampler.suppress_unknown:
            raise ConfigurationError(
                f"found {{{name}}} with {{suppress_unknown}}, with which no word is spelled; drop one of them"
            )
    if options.word_translations:
        check_can_translate(spells_words=True, draws=sampler.needs_draws)
    if options.character_beam is not None and sampler.character_sampler() is not None:
        raise ConfigurationError("found {character_beam} with samples, whose characters are drawn, too; drop it")
