"""What a trained model can be used for, read from its directory without Keras, and checks of it.

Commands make these checks before Keras is imported, and tasks make them again with the loaded model.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from keras_encdec.architectures.architecture_registry import architecture, architecture_names
from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.errors import FilePath, InputError
from keras_encdec.model_config import (
    SOURCE_CHARACTERS,
    SOURCE_VOCABULARY,
    TARGET_CHARACTERS,
    TARGET_VOCABULARY,
    model_path,
    read_model_config,
)
from keras_encdec.runtime.settings_files import Json
from keras_encdec.text.vocabulary import Vocabulary, is_position_word

# What to do with a language model instead of exporting it.
NOT_SERVED = "score with encdec-score"
# What to do in a search instead of replacing unknown words, if the model spells them.
TRANSLATE_INSTEAD = "drop it, or give {word_translations} instead"


class KnownModel(Protocol):
    """A model whose directory, direction and texts are known, such as a `TrainedModel` or a `ModelDirectory`.

    Attributes:
        path: path of the directory.
        reverse: bool. Whether the model was trained with the sides swapped.
        tokenization: dict of arguments of `Tokenizer` for raw text; `None` for tokenized text.
        source_vocabulary, target_vocabulary: Vocabulary, of the model's source and target.
    """

    @property
    def path(self) -> pathlib.Path: ...

    @property
    def reverse(self) -> bool: ...

    @property
    def tokenization(self) -> dict[str, bool] | None: ...

    @property
    def source_vocabulary(self) -> Vocabulary: ...

    @property
    def target_vocabulary(self) -> Vocabulary: ...


class TranslatingModel(Protocol):
    """A model, or an ensemble of models, that generates: a `TrainedModel`, or a `TextGenerator`.

    Attributes:
        has_source: bool. Whether targets depend on a source; those of a language model do not.
        has_attention: bool. Whether the model has attention.
        spells_words: bool. Whether the model spells unknown words by their characters.
        has_position_words: bool. Whether the target vocabulary has position words, such as "unkpos_0".
    """

    @property
    def has_source(self) -> bool: ...

    @property
    def has_attention(self) -> bool: ...

    @property
    def spells_words(self) -> bool: ...

    @property
    def has_position_words(self) -> bool: ...


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model as its configuration file describes it.

    Attributes:
        path: pathlib.Path of the model directory.
        config: dict, see `read_model_config`.

    Example:

    >>> model = TrainedModel.read("libreoffice_en_fr")
    >>> model.has_source, model.reverse, model.has_attention
    (True, False, False)
    """

    path: pathlib.Path
    config: Mapping[str, Json]

    @classmethod
    def read(cls, model: FilePath) -> Self:
        """Reads the configuration file of a model directory.

        Args:
            model: path of the directory, or the name of a packaged model.

        Raises:
            InputError: if it is not a model directory.
        """
        path = model_path(model)
        return cls(path, read_model_config(path))

    @property
    def reverse(self) -> bool:
        """Whether the model was trained with the sides swapped."""
        return bool(self.config["direction"] == "reverse")

    @property
    def tokenization(self) -> dict[str, bool] | None:
        """Arguments of `Tokenizer` for raw text; `None` for tokenized text."""
        found: dict[str, bool] | None = self.config["tokenization"]
        return found

    @property
    def has_source(self) -> bool:
        """See `TranslatingModel`."""
        return bool(self.config["has_source"])

    @property
    def has_attention(self) -> bool:
        """Whether the model has attention; true if only the loaded model can tell, as for an unknown architecture."""
        return bool(getattr(self.hyperparameters, "has_attention", True))

    @property
    def spells_words(self) -> bool:
        """See `TranslatingModel`."""
        return TARGET_CHARACTERS in self.config["sha256"]

    @property
    def has_position_words(self) -> bool:
        """See `TranslatingModel`."""
        return any(map(is_position_word, self.target_vocabulary.words))

    @functools.cached_property
    def hyperparameters(self) -> Configuration | None:
        """The model's hyper-parameters; `None` if this program does not know its architecture, or they are invalid."""
        name, values = self.config.get("architecture"), self.config.get("model", {})
        if name not in architecture_names():
            return None
        kind = architecture(name).config
        names = {parameter.name for parameter in kind.hyperparameters()}
        try:
            return kind.from_dict({key: value for key, value in kind.upgraded(values).items() if key in names})
        except (TypeError, ValueError):
            return None

    @functools.cached_property
    def source_vocabulary(self) -> Vocabulary:
        """The vocabulary of the model's source; a language model's has no words."""
        return self._vocabulary(SOURCE_VOCABULARY, SOURCE_CHARACTERS) if self.has_source else Vocabulary([])

    @functools.cached_property
    def target_vocabulary(self) -> Vocabulary:
        """The vocabulary of the model's target."""
        return self._vocabulary(TARGET_VOCABULARY, TARGET_CHARACTERS)

    def _vocabulary(self, words: str, characters: str) -> Vocabulary:
        vocabulary = Vocabulary.load(self.path / words)
        if characters in self.config["sha256"]:
            vocabulary.characters = Vocabulary.load(self.path / characters)
        return vocabulary


def check_direction(model: KnownModel, reverse: bool, flag: str) -> None:
    """Checks the direction of a model.

    Args:
        model: TrainedModel or ModelDirectory.
        reverse: bool. Whether the model has to give p(source | target).
        flag: str. Name of the argument that gave the directory, for the error.

    Raises:
        InputError: for a model of the other direction.
    """
    if model.reverse != reverse:
        kinds = "p(source | target), trained with --reverse", "p(target | source), trained without --reverse"
        found, expected = kinds if model.reverse else kinds[::-1]
        raise InputError(f"found a model of {found}", f"expected one of {expected}", f"check {flag}", model.path)


def check_has_source(has_source: bool, path: FilePath, remedy: str = "check --model_dir") -> None:
    """Checks that a model has a source.

    Args:
        has_source: bool. Whether the model has a source.
        path: path of the model directory.
        remedy: str. What to do. Defaults to "check --model_dir".

    Raises:
        InputError: for a language model.
    """
    if not has_source:
        raise InputError("found a language model", "expected a model with a source", remedy, path)


def check_translates(model: TrainedModel, reverse: bool = False, flag: str = "--model_dir") -> None:
    """Checks that a model has a source and the expected direction.

    Args:
        model: TrainedModel.
        reverse, flag: see `check_direction`. Default to `False` and "--model_dir".

    Raises:
        InputError: for a language model, or a model of the other direction.
    """
    check_has_source(model.has_source, model.path, remedy=f"check {flag}")
    check_direction(model, reverse, flag)


def check_is_language_model(has_source: bool, path: FilePath, flag: str) -> None:
    """Checks that a model has no source.

    Args:
        has_source: bool. Whether the model has a source.
        path: path of the model directory.
        flag: str. Name of the argument that gave the directory, for the error.

    Raises:
        InputError: for a translation model.
    """
    if has_source:
        raise InputError("found a translation model", "expected a language model", f"check {flag}", path)


def can_replace_unknown(has_attention: bool, has_position_words: bool, spells_words: bool) -> bool:
    """Returns whether a model writes unknown words, and their source words can be found; see `TranslatingModel`."""
    return (has_attention or has_position_words) and not spells_words


def check_can_replace_unknown(
    has_attention: bool, has_position_words: bool, spells_words: bool, remedy: str = "drop it"
) -> None:
    """Checks that a model writes unknown words, and that their source words can be found.

    Args:
        has_attention, has_position_words, spells_words: see `TranslatingModel`.
        remedy: str. What to do with a model that spells words. Defaults to "drop it".

    Raises:
        ConfigurationError: a ValueError, for any other model.
    """
    if can_replace_unknown(has_attention, has_position_words, spells_words):
        return
    if spells_words:
        raise ConfigurationError(
            "found {replace_unknown} with a model that spells the words outside its shortlist, and so writes no <unk>; "
            + remedy
        )
    raise ConfigurationError(
        "found {replace_unknown} with a model that has neither attention nor position words such as unkpos_0, "
        "expected one of them, to find the source word of an unknown word; train a model with attention"
    )


def check_can_translate(spells_words: bool, draws: bool) -> None:
    """Checks that translations of source words can compete with the spellings of a model.

    Args:
        spells_words: bool. Whether the model spells words.
        draws: bool. Whether targets are drawn.

    Raises:
        ConfigurationError: a ValueError, for a model that spells no words, or targets that are drawn.
    """
    if not spells_words:
        raise ConfigurationError(
            "found {word_translations} with a model that spells no words, expected one trained with "
            "--characters=target or --characters=both; other models have {replace_unknown} and {lexical_shortlist}"
        )
    if draws:
        raise ConfigurationError("found {word_translations} with samples, whose characters are drawn; drop it")


def check_ensemble(models: Sequence[KnownModel]) -> None:
    """Checks that models can be used together, in an ensemble or an average.

    Raises:
        InputError: for a model whose vocabularies, tokenization or direction differ from those of the first one.
    """
    first, *others = models
    for other in others:
        for name, flags, value in (
            ("direction", "--reverse", lambda model: model.reverse),
            ("source vocabulary", "--shortlist", lambda model: model.source_vocabulary.words),
            ("target vocabulary", "--shortlist", lambda model: model.target_vocabulary.words),
            ("set of source characters", _CHARACTER_FLAGS, lambda model: _characters(model.source_vocabulary)),
            ("set of target characters", _CHARACTER_FLAGS, lambda model: _characters(model.target_vocabulary)),
            ("tokenization", "--tokenize and --lowercase", lambda model: model.tokenization),
        ):
            if value(first) != value(other):
                found = f"found a different {name} from that of {first.path}"
                expected = "expected the same in all models that are used together"
                raise InputError(found, expected, f"train them on the same data, with equal {flags}", other.path)


_CHARACTER_FLAGS = "--characters and --character_shortlist"


def _characters(vocabulary: Vocabulary) -> list[str] | None:
    return None if vocabulary.characters is None else vocabulary.characters.words
