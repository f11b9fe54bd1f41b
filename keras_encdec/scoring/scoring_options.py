"""The options of scoring a file, and the columns that scoring adds."""

import dataclasses
import functools
import re
from collections.abc import Sequence

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.errors import FilePath
from keras_encdec.formats import Column, ColumnKind, PairFormat, format_names, pair_format, rewrite_moses_ini
from keras_encdec.formats.moses_ini import read_moses_ini
from keras_encdec.formats.nbest_line import check_feature_name
from keras_encdec.runtime.files import STANDARD_STREAM, absolute, is_url
from keras_encdec.task_options import (
    AlignmentOptions,
    EncodingOption,
    MalformedLinesOption,
    ShardOptions,
    ShortlistOptions,
    UnknownWordsOption,
)
from keras_encdec.trained_model import KnownModel, check_direction

DTYPES = ("float32", "bfloat16", "int8")
FEATURE_NAME = "RNN0"
_column = functools.partial(hyperparameter, group="columns to add")


@dataclasses.dataclass(frozen=True)
class ColumnOptions(Configuration):
    """The columns that a local model or a server can add to a file in addition to ln p."""

    unknown_count: bool = _column(
        False,
        "Add the number of target words outside the shortlist: n is written as e^n in a phrase table, as n in TSV, as "
        "feature Unknown0 in an n-best list.",
    )
    token_scores: bool = _column(False, "TSV: add a column with ln p of each target token, the end of sequence last.")


@dataclasses.dataclass(frozen=True)
class ScoringOptions(
    ShardOptions,
    ColumnOptions,
    AlignmentOptions,
    ShortlistOptions,
    UnknownWordsOption,
    EncodingOption,
    MalformedLinesOption,
):
    """Options of `score_file`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another or the format.
    """

    format: str = hyperparameter(
        "phrase_table",
        "Format of the input. It determines how scores are written: as probabilities in a phrase table, as ln p in new "
        "columns of a TSV file, as ln p in new features of a Moses n-best list. Parallel text is written as TSV.",
        choices=lambda: format_names(ColumnKind.LOG_PROB),
    )
    source: str | None = hyperparameter(
        None,
        "N-best list: the sentences that were translated, plain or gzipped; id 0 is the first line. Parallel text: "
        "the sources.",
    )
    length: bool = _column(
        False,
        "Add the number of target tokens, the end of sequence included: n is written as e^n in a phrase table, as n in "
        "TSV, as feature Length0 in an n-best list.",
    )
    surprisal_per_character: bool = _column(
        False,
        "TSV and n-best lists: add -log2 p of the target per character, spaces and the end of the line included, in "
        "bits, as feature Surprisal0 in an n-best list. It makes models with different vocabularies comparable.",
    )
    feature_name: str | None = _column(
        None,
        "N-best list: name of the new feature. A second model's feature has the next number, such as RNN1 after RNN0. "
        "Default: RNN0.",
    )
    lexical_shortlist: str | None = hyperparameter(
        None,
        "Table of word translations, written by encdec-dictionary --shortlist. To be faster, the probability of a "
        "target word is then one among translations of the words of the source, the most frequent words and the word "
        "itself; it is at least that among all words. A reverse model still uses all words.",
        group="lexical shortlist",
    )
    dtype: str | None = hyperparameter(
        "float32",
        "Dtype of the computation. bfloat16 is faster only on hardware that supports it: on a GPU, and with "
        "KERAS_BACKEND=torch on a CPU with the instructions AVX512_BF16 or AMX-BF16, or ARM's BF16. int8 rounds the "
        "factors of matrix products to 8 bits: faster still, only with KERAS_BACKEND=torch on a CPU with VNNI or AMX.",
        choices=DTYPES,
    )
    max_tokens: int | None = hyperparameter(
        10_000,
        "Maximum number of tokens on either side, not counting the end of sequence. A longer line is written with a "
        "neutral score and counted, whatever --on_error says.",
        minimum=1,
    )
    moses_ini: str | None = hyperparameter(None, "moses.ini of the input table.", group="moses.ini")
    moses_ini_out: str | None = hyperparameter(
        None, "moses.ini to write for the output table, with the added scores.", group="moses.ini"
    )
    moses_feature: str | None = hyperparameter(
        None,
        "Name of the table's feature in a moses.ini that has several tables.",
        group="moses.ini",
        needs="moses_ini",
    )
    dry_run: bool = hyperparameter(
        False,
        "Do everything except run the model, and write no output: finds malformed lines, and measures the speed of "
        "reading and writing alone.",
    )

    def check(self) -> None:
        super().check()
        known = pair_format(self.format)
        if (self.moses_ini is None) != (self.moses_ini_out is None):
            raise ConfigurationError("found one of {moses_ini} and {moses_ini_out}, expected both")
        if self.moses_ini is not None and not known.in_moses_ini:
            raise ConfigurationError("found {moses_ini} with {format}=%s, expected it with a phrase table", self.format)
        if known.has_source_file and not self.source:
            raise ConfigurationError("found {format}=%s without {source}, expected the file of sources", self.format)
        for name, attribute in (("source", "has_source_file"), ("feature_name", "has_column_names")):
            if getattr(self, name) is not None and not getattr(known, attribute):
                able = " or ".join(format_names(**{attribute: True}))
                raise ConfigurationError(
                    f"found {{{name}}} with {{format}}=%s, expected it with {{format}}=%s", self.format, able
                )
        if self.dry_run and self.in_shards:
            raise ConfigurationError("found {dry_run} with work in shards, expected one of them")
        if self.feature_name is not None:
            check_feature_name(self.feature_name)

    def check_output(self, output: FilePath) -> None:
        """Checks that the output of `score_file` suits the options.

        Raises:
            ConfigurationError: a ValueError, if moses.ini cannot name it, or if it and the alignments are the standard
                output.
        """
        if self.moses_ini is not None and output == STANDARD_STREAM:
            raise ConfigurationError("found {moses_ini} with {output}=-, expected a file that moses.ini can name")
        self.outputs(output)

    def check_models(self, model: KnownModel, reverse_model: KnownModel | None, has_attention: bool) -> None:
        """Checks that the models of `score_file` suit the options.

        Args:
            model, reverse_model: the model, and the reverse model if there is one.
            has_attention: bool. Whether `model` has attention.

        Raises:
            InputError: for a model of the other direction.
            ConfigurationError: a ValueError, if alignments are requested from a model without attention, or a lexical
                shortlist is given with a language model.
        """
        check_direction(model, False, "--model_dir")
        if reverse_model is not None:
            check_direction(reverse_model, True, "--reverse_model_dir")
        if self.lexical_shortlist is not None and not len(model.source_vocabulary):
            raise ConfigurationError("found {lexical_shortlist} with a language model, which has no source; drop it")
        self.check_attention(has_attention)

    def scored_moses_ini(
        self, table: FilePath, columns: Sequence[Column], table_scores: int = 0
    ) -> tuple[bytes, list[str]]:
        """Makes the moses.ini of a phrase table with added scores from the moses.ini of the input table.

        An added probability gets the mean of the absolute values of the table's weights. An added count gets the weight
        0: it is written as e^n, which is not a probability, and a positive weight would reward words outside the
        shortlist. Tuning sets the weights.

        Args:
            table: path of the table with added scores.
            columns: list of Column, the added scores.
            table_scores: int. Number of scores on each line of the input table, to be checked. Defaults to `0`:
                unknown.

        Returns:
            tuple of the new file's bytes and notices for the user, list of str; both are empty without `moses_ini`.

        Raises:
            InputError: if the file cannot be read, or does not match the table.
        """
        if self.moses_ini is None:
            return b"", []
        weights = [None if column.kind is ColumnKind.LOG_PROB else 0.0 for column in columns]
        text, notices = rewrite_moses_ini(
            read_moses_ini(self.moses_ini),
            absolute(table),
            len(weights),
            self.moses_feature,
            weights,
            table_scores or None,
            self.moses_ini,
        )
        if is_url(table):
            notices.append(f"Moses cannot read {table}: copy the table, and set its path to the copy.")
        return text.encode("utf-8", "surrogateescape"), notices


def score_columns(pair_format: PairFormat, options: ScoringOptions, num_scorers: int = 1) -> list[Column]:
    """Returns the columns that scoring adds to each line, in their order.

    Args:
        pair_format: PairFormat.
        options: ScoringOptions.
        num_scorers: int. Number of models, each of which adds a log-probability. Defaults to `1`.

    Raises:
        ConfigurationError: if lines of the format cannot hold them, or two would have the same name.
    """
    first = options.feature_name or FEATURE_NAME
    stem = re.sub(r"\d+\Z", "", first)
    number = int(first[len(stem) :] or 0)
    names = [first] + [f"{stem}{number + i}" for i in range(1, num_scorers)]
    columns = [Column(ColumnKind.LOG_PROB, name) for name in names]
    optional = (
        ("unknown_count", Column(ColumnKind.COUNT, "Unknown0")),
        ("length", Column(ColumnKind.COUNT, "Length0")),
        ("surprisal_per_character", Column(ColumnKind.NUMBER, "Surprisal0")),
        ("token_scores", Column(ColumnKind.TOKEN_LOG_PROBS, "Tokens0")),
    )
    if ColumnKind.LOG_PROB not in pair_format.column_texts:
        able = ", ".join(format_names(ColumnKind.LOG_PROB))
        raise ConfigurationError("found {format}=%r, expected one of %s to score", pair_format.name, able)
    for argument, column in optional:
        if not getattr(options, argument):
            continue
        if column.kind not in pair_format.column_texts:
            able = " or ".join(format_names(column.kind))
            raise ConfigurationError(
                f"found {{{argument}}} with {{format}}=%s, expected it with {{format}}=%s", pair_format.name, able
            )
        columns.append(column)
    names = [column.name for column in columns]
    if pair_format.has_column_names and len(set(names)) < len(names):
        raise ConfigurationError("found the names %s of new features, expected different names", ", ".join(names))
    return columns
