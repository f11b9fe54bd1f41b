"""Options of the data that a model is trained and validated on."""

import dataclasses
import functools
import itertools
import os
from typing import Self

from keras_encdec.architectures.architecture_registry import load_preset
from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.formats.format_registry import pair_format
from keras_encdec.task_options import EncodingOption, MalformedLinesOption, RawTextOptions
from keras_encdec.text.vocabulary import POSITION_WORDS

_CHO = "Cho et al., 2014, section 4.1"
_LUONG = "Luong et al., 2015, section 4.1"
_vocabularies = functools.partial(hyperparameter, group="vocabularies")
_validation = functools.partial(hyperparameter, group="validation data")
# The options that name the pairs to train on, by kind of file, and those that name files that belong to such pairs.
_PAIRS = (("phrase_table",), ("tsv",), ("source", "target"), ("input", "format"))
_WITH_PAIRS = ("alignment", "validation", "validation_alignment")


@dataclasses.dataclass(frozen=True)
class TrainingData(RawTextOptions, EncodingOption, MalformedLinesOption):
    """The data that a model is trained and validated on, and how to read it.

    The data is a phrase table; a TSV file; a source and a target file; only a target file, for a language model; or a
    file in another registered format.

    Example:

    >>> TrainingData(tsv="pairs.tsv", shortlist=8000).files
    {'tsv': 'pairs.tsv'}
    """

    phrase_table: str | None = hyperparameter(None, "Moses phrase table to train on, plain or gzipped.", is_path=True)
    tsv: str | None = hyperparameter(
        None, "Pairs to train on: source, tab, target; further columns are ignored.", is_path=True
    )
    source: str | None = hyperparameter(
        None, "Source sentences to train on, one per line; needs target sentences.", is_path=True
    )
    target: str | None = hyperparameter(
        None,
        "Target sentences, aligned line by line with the source; alone, they train a language model.",
        is_path=True,
    )
    input: str | None = hyperparameter(None, "Pairs to train on in another format, which must be named.", is_path=True)
    format: str | None = hyperparameter(
        None, "Format of the input: phrase_table, tsv, or one that you have registered, with its pairs in one file."
    )
    reverse: bool = hyperparameter(False, "Learn p(source | target): swap the sides.")
    max_length: int = hyperparameter(
        30,
        "Pairs with a side longer than this, in words, are dropped and counted.",
        minimum=1,
        maximum=60_000,
        published={_CHO: 30, _LUONG: 50},
        fixed=True,
    )
    shortlist: int = _vocabularies(
        15_000,
        "Words in each vocabulary: the most frequent ones.",
        minimum=1,
        published={_CHO: 15_000, _LUONG: 50_000},
        fixed=True,
    )
    source_vocabulary: str | None = _vocabularies(
        None, "Vocabulary file for the model's source, one word per line, instead of a new vocabulary.", is_path=True
    )
    target_vocabulary: str | None = _vocabularies(
        None, "Vocabulary file for the model's target, one word per line, instead of a new vocabulary.", is_path=True
    )
    unknown: str = _vocabularies(
        "unk",
        "What replaces a target word outside the shortlist in training: the unknown word (unk), or a position word "
        "unkpos_d (posunk), where d is the target word's position minus that of its source word; the 16 position words "
        "are part of the shortlist.",
        choices=("unk", "posunk"),
        fixed=True,
    )
    alignment: str | None = _vocabularies(
        None,
        "With posunk: file with the word alignment of the input, lines of links such as 0-0 2-1, source-target in the "
        "order of the files. Default: the alignment in a phrase table; other pairs are aligned by sil-thot.",
        is_path=True,
    )
    validation: tuple[str, ...] = _validation(
        (),
        "Pairs to validate on, in the format of the training data: one file, or two for parallel text.",
        is_path=True,
    )
    validation_alignment: str | None = _validation(
        None,
        "With posunk: file with the word alignment of the pairs to validate on. Default: as for the input; without a "
        "phrase table these pairs are aligned separately.",
        is_path=True,
        needs="validation",
    )
    held_out_fraction: float = _validation(
        0.01,
        "Random fraction of the unique pairs that is held out to validate on if no validation files are given.",
        minimum=0,
        maximum=0.5,
        published={"CSLM of Cho et al., 2014, section 4.1.2": 0.001},
        fixed=True,
    )
    held_out_pairs: int = _validation(2000, "Maximum number of held-out pairs.", minimum=1, fixed=True)

    def check(self) -> None:
        super().check()
        if bool(self.input) != bool(self.format):
            raise ConfigurationError("found one of {input} and {format}, expected both")
        if self.format and pair_format(self.format).has_source_file:
            raise ConfigurationError(
                "found {format}=%s, whose pairs are in two files; give {source} and {target}", self.format
            )
        if self.tokenize and self.phrase_table:
            raise ConfigurationError(
                "found {tokenize} with {phrase_table}, whose text is tokenized already; drop {tokenize}"
            )
        if self.has_position_words:
            if self.shortlist <= len(POSITION_WORDS):
                raise ConfigurationError(
                    "found {shortlist}=%d with {unknown}=posunk, expected more than %d, the number of position words",
                    self.shortlist,
                    len(POSITION_WORDS),
                )
        elif self.alignment or self.validation_alignment:
            name = "alignment" if self.alignment else "validation_alignment"
            raise ConfigurationError(f"found {{{name}}} without {{unknown}}=posunk, expected both")
        num_files, example = (2, ", such as {validation}=val.en,val.fr") if self.source else (1, "")
        if self.files and self.validation and len(self.validation) != num_files:
            found = "1 file" if len(self.validation) == 1 else f"{len(self.validation)} files"
            raise ConfigurationError(
                f"found %s in {{validation}}, expected %d as for training{example}", found, num_files
            )

    @property
    def has_position_words(self) -> bool:
        """Whether position words, which name the source word, replace unknown target words."""
        return self.unknown == "posunk"

    @property
    def files(self) -> dict[str, str]:
        """The files to train on by the names of their options, such as "phrase_table"."""
        named = {name: getattr(self, name) for name in ("phrase_table", "tsv", "source", "target", "input")}
        return {name: path for name, path in named.items() if path}

    @property
    def registered_format(self) -> str:
        """The name of the registered format of the files."""
        kind = next(iter(self.files))
        return {"source": "parallel", "target": "sentences", "input": self.format}.get(kind) or kind

    def without_files(self) -> Self:
        """Returns a copy without the pairs to train and validate on, and without their alignments."""
        names = *itertools.chain(*_PAIRS), "alignment", "validation_alignment"
        return self.replace(**dict.fromkeys(names), validation=())

    @classmethod
    def from_preset(cls, preset: str | os.PathLike[str], **values: object) -> Self:
        """Reads the data options of a preset; `values` override them, see `TrainingConfig.from_preset`.

        If `values` name pairs of another kind than the preset, such as TSV instead of a phrase table, the preset's
        pairs to train and validate on, and their alignments, are ignored.
        """
        known = load_preset(preset).table(cls, "data")
        given = [names for names in _PAIRS if any(values.get(name) for name in names)]
        others = {name for names in _PAIRS if given and names not in given for name in names}
        if any(known.get(name) for name in others):
            known = {name: value for name, value in known.items() if name not in {*others, *_WITH_PAIRS}}
        return cls.from_dict({**known, **values})
