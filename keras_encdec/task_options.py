"""Options that several tasks share, each declared once.

The options of a task are a `Configuration` that inherits the options that the task shares with others. The task's
command has a flag for each option.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.errors import FilePath, InputError
from keras_encdec.runtime.files import STANDARD_STREAM

if TYPE_CHECKING:
    from keras_encdec.runtime.engines import Engine

ALIGNMENT_FORMATS = ("links", "weights")


@dataclasses.dataclass(frozen=True)
class EncodingOption(Configuration):
    """The encoding of a task's text files."""

    encoding: str | None = hyperparameter(
        None,
        "Encoding of the text files that are read and written. Default: UTF-8; bytes that are not UTF-8 are an error.",
    )


@dataclasses.dataclass(frozen=True)
class RawTextOptions(Configuration):
    """Whether and how the text that a task reads is tokenized."""

    tokenize: bool = hyperparameter(False, "The text is raw: normalize and tokenize it.")
    lowercase: bool = hyperparameter(False, "Fold case when tokenizing.", needs="tokenize")


@dataclasses.dataclass(frozen=True)
class MalformedLinesOption(Configuration):
    """How a task treats malformed lines."""

    on_error: str = hyperparameter(
        "stop",
        "What to do with a malformed line: stop with an error (stop); or count it and continue (keep). An output that "
        "repeats the lines of the input then has the line with a neutral score, or unchanged if it has no field for "
        "it; other outputs leave it out.",
        choices=("stop", "keep"),
    )


# More unknown words than this share suggest text in another language, tokenization or letter case. A shortlist usually
# covers 90 % or more of the text in its language, and little more than numbers, punctuation and names in another one.
HIGH_UNKNOWN_SHARE = 0.5
_unknown_words = functools.partial(hyperparameter, group="unknown words")


@dataclasses.dataclass(frozen=True)
class UnknownWordsOption(Configuration):
    """How many unknown words a task accepts."""

    max_unknown: float | None = _unknown_words(
        None,
        "Maximum share of unknown words, 0 to 1. For a model that reads or spells words by their characters, these are "
        "the words outside its shortlist. If more of the source's or of the target's words are unknown, stop with an "
        "error: the languages may be swapped, or the text tokenized in another way. The share of the words so far is "
        "checked while the file is read. Default: no limit, but encdec-score and encdec-generate warn at the end if "
        "the share is above 0.5.",
        minimum=0,
        maximum=1,
    )

    def check_unknown(self, side: str, words: int, unknown: int, model: str = "the model") -> None:
        """Checks the words that have been read so far.

        Args:
            side: str. "source" or "target", for the error.
            words: int. Words of the side so far.
            unknown: int. Words among them that the model does not know.
            model: str. The name of the model, for the error. Defaults to "the model".

        Raises:
            InputError: if too many of them are unknown.
        """
        if self.max_unknown is not None and words and unknown / words > self.max_unknown:
            raise InputError(
                f"found {100 * unknown / words:.1f} % of the {words:,} {side} words so far outside the vocabulary of "
                f"{model}",
                f"expected {100 * self.max_unknown:.3g} % at most",
                "check the language of the file, which side is which, its letter case, and how its text is tokenized, "
                "or raise --max_unknown",
            )


@dataclasses.dataclass(frozen=True)
class AlignmentOptions(Configuration):
    """The file of alignments that a task writes in addition to its output, see `keras_encdec.formats.alignments`."""

    alignments: str | None = hyperparameter(
        None,
        "File to write alignments to: for each target that is written, a line with the source words that its words "
        "attend to. Needs a model with attention.",
        group="alignments",
    )
    alignment_format: str | None = hyperparameter(
        None,
        "With --alignments: the source word that each target word attends to most, as in 0-0 2-1 (links); or all "
        "weights, as JSON (weights). Default: links.",
        choices=ALIGNMENT_FORMATS,
        group="alignments",
        needs="alignments",
    )

    def outputs(self, output: FilePath) -> list[FilePath]:
        """Lists the files that the task writes: its output, and that of the alignments if there is one.

        Raises:
            ConfigurationError: a ValueError, if both are standard output.
        """
        if self.alignments == output == STANDARD_STREAM:
            raise ConfigurationError("found {alignments}=- with {output}=-, expected a file for one of them")
        return [output, *([self.alignments] if self.alignments else [])]

    def check_attention(self, has_attention: bool) -> None:
        """Raises ConfigurationError if alignments are requested from a model without attention."""
        if self.alignments and not has_attention:
            raise ConfigurationError("found {alignments} with a model that has no attention; train one with attention")


#: Default numbers of translations of each source word, and of most frequent target words, in a lexical shortlist.
SHORTLIST_WORDS, FREQUENT_WORDS = 100, 100


@dataclasses.dataclass(frozen=True)
class ShortlistOptions(Configuration):
    """The words among which a task searches for targets, see `keras_encdec.text.lexical_shortlist`."""

    lexical_shortlist: str | None = hyperparameter(
        None,
        "Table of word translations, written by encdec-dictionary --shortlist. To be faster, the search then chooses "
        "only among translations of the words of a source and the most frequent words.",
        group="lexical shortlist",
    )
    shortlist_words: int | None = hyperparameter(
        None,
        f"With --lexical_shortlist: number of translations of each source word. Default: {SHORTLIST_WORDS}.",
        minimum=1,
        group="lexical shortlist",
        needs="lexical_shortlist",
    )
    frequent_words: int | None = hyperparameter(
        None,
        "With --lexical_shortlist: number of the most frequent target words, which are always allowed. Default: "
        f"{FREQUENT_WORDS}.",
        minimum=0,
        group="lexical shortlist",
        needs="lexical_shortlist",
    )


#: Default weight of a table of word translations; the spelling of a word gets the rest.
TRANSLATION_WEIGHT = 0.5


@dataclasses.dataclass(frozen=True)
class TranslationOptions(Configuration):
    """The translations that compete with the spellings of a model, see `keras_encdec.decoding.UnknownSpeller`."""

    word_translations: str | None = _unknown_words(
        None,
        "For a model that spells words outside its shortlist: table of word translations, written by encdec-dictionary "
        "--shortlist. In a search, translations of the source words that such a word attends to compete with its "
        "spelling, and so do copies of source words that have none.",
    )
    translation_weight: float | None = _unknown_words(
        None,
        "With --word_translations: weight of the table's probabilities, from 0 to 1; the spellings get the rest. "
        f"Default: {TRANSLATION_WEIGHT}.",
        minimum=0,
        maximum=1,
        needs="word_translations",
    )


@dataclasses.dataclass(frozen=True)
class ReplacementOptions(Configuration):
    """What replaces the unknown words of targets, see `keras_encdec.decoding.UnknownReplacement`."""

    replace_unknown: bool = _unknown_words(
        False,
        "Replace each unknown word with the translation of the source word that it attends to, or that its position "
        "word names; see --dictionary.",
    )
    dictionary: str | None = _unknown_words(
        None,
        "With --replace_unknown: file with a source word, a tab and its translation on each line. Source words that "
        "it lacks are copied.",
        needs="replace_unknown",
    )


@dataclasses.dataclass(frozen=True)
class ProcessesOption(Configuration):
    """The number of processes that share a task's work."""

    number_of_processes: int | None = hyperparameter(
        None, "Processes that share the work. Default: the number of processors.", minimum=1
    )


ENGINES = ("local", "ray")
_sharding = functools.partial(hyperparameter, group="shards and processes")


@dataclasses.dataclass(frozen=True)
class ShardOptions(Configuration):
    """How a task divides its input into shards, and where they are processed.

    A task with one of these options keeps finished shards in a folder next to its output until all are done. If it is
    killed and started again, it does only the missing ones.
    """

    number_of_processes: int | None = _sharding(
        None,
        "Processes that share the work, each with its own model and its share of the processors. Default: this process "
        "alone; with Ray, as many as the cluster's processors and GPUs allow.",
        minimum=1,
    )
    shard_lines: int | None = _sharding(
        None,
        "Work in shards of this many lines, rounded up to a multiple of what is processed at once (32,768 lines to "
        "score, 4,096 to select from, 2,048 to generate from, 8 to decode): a command that is killed and started again "
        "does only the shards that are missing.",
        minimum=1,
    )

    engine: str = _sharding(
        "local",
        "Where shards are processed: on this machine (local), or on a Ray cluster (ray), which needs the extra ray.",
        choices=ENGINES,
    )
    ray_address: str | None = _sharding(
        None, "Address of the Ray cluster, such as auto, or ray://head:10001. Default: Ray is started on this machine."
    )
    num_cpus: float | None = _sharding(None, "Processors that each of Ray's workers needs. Default: 1.", minimum=0)
    num_gpus: float | None = _sharding(None, "GPUs that each of Ray's workers needs. Default: 0.", minimum=0)

    @property
    def in_shards(self) -> bool:
        """Whether the task works in shards."""
        return bool(self.number_of_processes or self.shard_lines or self.engine != "local")

    @property
    def uses_other_processes(self) -> bool:
        """Whether processes other than this one do the work."""
        return bool(self.number_of_processes or self.engine != "local")

    @property
    def output_settings(self) -> dict[str, object]:
        """The options that determine the output, by name.

        All except those of this class, and those that only decide when the task stops: after such an error, a user may
        change them and continue.
        """
        stopping = (ShardOptions, MalformedLinesOption, UnknownWordsOption)
        names = {parameter.name for options in stopping for parameter in options.hyperparameters()}
        return {name: value for name, value in self.to_dict().items() if name not in names}

    def check(self) -> None:
        super().check()
        for name in ("ray_address", "num_cpus", "num_gpus"):
            if getattr(self, name) is not None and self.engine != "ray":
                raise ConfigurationError(f"found {{{name}}} without {{engine}}=ray, expected both")

    def open_engine(self) -> "Engine":
        """Returns the engine that processes the shards.

        Raises:
            ImportError: if the engine needs a library that is not installed.
        """
        if self.engine == "ray":
            from keras_encdec.runtime.ray_engine import RayActors

            cpus = 1.0 if self.num_cpus is None else self.num_cpus
            return RayActors(self.number_of_processes, self.ray_address, cpus, self.num_gpus or 0.0)
        # Imported late: encdec-doctor needs these options for its flags even where a library is missing.
        from keras_encdec.runtime.engines import LocalProcesses, ThisProcess

        return LocalProcesses(self.number_of_processes) if self.number_of_processes else ThisProcess()


def shared_option_names(options: type[Configuration]) -> set[str]:
    """Returns the names of the options that a task's options inherit from the classes of this module."""
    shared = [base for base in options.__mro__ if issubclass(base, Configuration) and base.__module__ == __name__]
    return {parameter.name for base in shared for parameter in base.hyperparameters()}
