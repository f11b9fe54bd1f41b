"""Prepares the pairs to train and validate on."""

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from keras_encdec.configuration import product_rounded_up
from keras_encdec.data import Batches, PreparedPairs, open_pairs, prepare
from keras_encdec.data.pairs import open_aligned_pairs
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.formats import InputLines, pair_format
from keras_encdec.formats.fields import split_tokens
from keras_encdec.formats.record_reader import LEFT_OUT, RecordReader
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring.pair_scorer import UnknownWords
from keras_encdec.text import Tokenizer, Vocabulary
from keras_encdec.text.vocabulary import FIRST_WORD, POSITION_WORDS
from keras_encdec.trainers.job import TrainingJob
from keras_encdec.trainers.reporting import TrainingReporter
from keras_encdec.trainers.settings_checks import (
    check_same_direction,
    check_same_reading,
    has_same_files,
    validation_files,
)
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData
from keras_encdec.trainers.training_files import PREPARED, data_before

# Maximum number of words on a side of a pair in validation files, unless pairs to train on may be longer.
MAX_VALIDATED_LENGTH = 1000
# Folder of the model directory with the pairs of validation files.
VALIDATION = "validation"
# Maximum number of pairs whose target words `unigram_perplexity` counts.
COUNTED = 100_000


def prepare_pairs(job: TrainingJob, resume: bool) -> tuple[ModelDirectory, PreparedPairs]:
    """Prepares the pairs to train on, or opens the pairs that an earlier process of the same run prepared.

    Args:
        job: TrainingJob, whose folder must exist.
        resume: bool. Whether the run is resumed.

    Returns:
        tuple: ModelDirectory without a model; PreparedPairs.

    Raises:
        ConfigurationError: if `data.reverse` differs from that of the run to resume.
        InputError: if an input file cannot be used.
    """
    config, data, folder, reporter = job.config, job.data, job.folder, job.reporter
    _check_validation_files(config, data)
    directory = None
    if resume:
        directory = ModelDirectory.load(folder, weights=False)
        check_same_direction(directory.reverse, data, folder)
        before = data_before(folder)
        check_same_reading(data, before)
        if (folder / PREPARED).exists():
            pairs = PreparedPairs(folder / PREPARED)
            if before and before.files and not has_same_files(data.files, before.files):
                reporter.prepared_before(before.files.values(), data.files.values())
            return directory, pairs
        given: tuple[Vocabulary | None, Vocabulary | None] = directory.source_vocabulary, directory.target_vocabulary
    else:
        given = _given_vocabularies(config, data)
    tokenization = {"lowercase": data.lowercase} if data.tokenize else None
    paths = tuple(data.files.values())
    with _open(config, data, paths, data.alignment, data.max_length, tokenization) as (records, reader):
        pairs, source, target = prepare(
            records,
            folder / PREPARED,
            data.shortlist,
            data.max_length,
            config.seed,
            given,
            empty_sources=not config.has_source,
            position_words=data.has_position_words,
            characters=_character_counts(config),
        )
        sizes = {"source": len(source)} if config.has_source else {}
        sizes["target"] = len(target)
        reporter.prepared(pairs.summary, reader.malformed, sizes, data.max_length)
    return directory or ModelDirectory(folder, source, target, data.reverse, tokenization), pairs


def _character_counts(config: TrainingConfig) -> tuple[int | None, int | None]:
    """Returns the number of characters of source and target, `None` for a side without characters."""
    model = config.model_config
    count = getattr(model, "character_shortlist", None)
    reads, spells = (getattr(model, name, False) for name in ("reads_characters", "spells_words"))
    return count if reads else None, count if spells else None


def _check_validation_files(config: TrainingConfig, data: TrainingData) -> None:
    """Reads the validation files to find their errors before the pairs to train on are prepared."""
    paths = validation_files(data)
    if not paths or any(os.path.exists(path) and not os.path.isfile(path) for path in paths):
        return  # a pipe can be read only once
    for path in paths:
        with InputLines(path):
            pass
    *sources, path = data.validation
    file_format = pair_format(data.registered_format)
    with file_format.open_reader(path, next(iter(sources), None), data.encoding, data.on_error) as reader:
        reader.kept = LEFT_OUT
        usable = 0
        for record in reader:
            sides = (record.source, record.target) if config.has_source else (record.target,)
            usable += record.problem is None and all(map(split_tokens, sides))
    if not usable:
        remedy = "check that --validation names the right files"
        raise InputError("found no usable pair to validate on", "expected pairs with words on both sides", remedy, path)


def _given_vocabularies(config: TrainingConfig, data: TrainingData) -> tuple[Vocabulary | None, Vocabulary | None]:
    """Reads the vocabularies that the user gives for a new run; `None` for one to make from the data."""
    source, target = (
        Vocabulary.from_word_list(path) if path else None for path in (data.source_vocabulary, data.target_vocabulary)
    )
    if data.has_position_words and target and data.target_vocabulary:
        _check_position_words(target, data.target_vocabulary)
    if config.initial_model:
        initial = ModelDirectory.load(config.initial_model, weights=False)
        for vocabulary, known in ((source, initial.source_vocabulary), (target, initial.target_vocabulary)):
            if vocabulary is not None:
                vocabulary.characters = known.characters
    return source if config.has_source else Vocabulary([]), target


def _check_position_words(vocabulary: Vocabulary, path: str) -> None:
    for word in POSITION_WORDS:
        if word not in vocabulary.words:
            expected = f"expected {POSITION_WORDS[0]} to {POSITION_WORDS[-1]} with posunk"
            remedy = "add the position words to the vocabulary, or train with --unknown=unk"
            raise InputError(f"found no word {word}", expected, remedy, path)


def validation_batches(
    config: TrainingConfig,
    data: TrainingData,
    directory: ModelDirectory,
    pairs: PreparedPairs,
    reporter: TrainingReporter | None = None,
) -> tuple[Batches | None, range]:
    """Makes batches of the pairs to validate on, and selects the pairs to train on.

    Args:
        config: TrainingConfig.
        data: TrainingData: the validation files, or the number of pairs to hold out.
        directory: ModelDirectory, with the vocabularies.
        pairs: PreparedPairs. Without validation files, the first of them are held out.
        reporter: TrainingReporter, which gets counts of the pairs of the validation files. Defaults to `None`, if
            another process has prepared these pairs.

    Returns:
        tuple: Batches to validate on, `None` if no pair can be held out; range, the indices of the pairs to train on.

    Raises:
        InputError: if a validation file cannot be used.
    """
    if data.validation:
        folder = directory.path / VALIDATION
        held_out = _prepared_validation(config, data, directory, reporter) if reporter else PreparedPairs(folder)
        return Batches(held_out, config.batch_size), range(len(pairs))
    share = int(product_rounded_up(data.held_out_fraction, len(pairs)))
    held_out_pairs = min(data.held_out_pairs, share, len(pairs) - 1)
    if held_out_pairs <= 0:
        return None, range(len(pairs))
    # The pairs are in random order on disk: the first pairs are a random sample.
    return Batches(pairs, config.batch_size, range(held_out_pairs)), range(held_out_pairs, len(pairs))


def _prepared_validation(
    config: TrainingConfig, data: TrainingData, directory: ModelDirectory, reporter: TrainingReporter
) -> PreparedPairs:
    max_length = max(MAX_VALIDATED_LENGTH, data.max_length)
    reading = data.validation, data.validation_alignment, max_length, directory.tokenization
    with _open(config, data, *reading) as (records, reader):
        try:
            held_out, *_ = prepare(
                records,
                directory.path / VALIDATION,
                max_length=max_length,
                vocabularies=(directory.source_vocabulary, directory.target_vocabulary),
                empty_sources=not config.has_source,
                position_words=data.has_position_words,
            )
        except InputError as error:
            if error.path is not None:
                raise
            remedy = "give shorter pairs as --validation"
            raise InputError(error.found, "expected at least one to validate on", remedy, data.validation[-1]) from None
        reporter.validated_on(held_out.summary, reader.malformed, max_length)
    _warn_if_mostly_unknown(held_out.summary, directory)
    return held_out


def _warn_if_mostly_unknown(summary: Mapping[str, int], directory: ModelDirectory) -> None:
    """Warns if most words of a side of the validation pairs are unknown: the files may be in the wrong order."""
    for side, vocabulary in (("source", directory.source_vocabulary), ("target", directory.target_vocabulary)):
        words, spells = summary[f"{side}_tokens"] - summary["unique"], vocabulary.characters is not None
        found = UnknownWords("model", side, words, summary[f"{side}_unknown"], spells)
        if found.is_high:
            remedy = "check that its order of sides, letter case and tokenization are those of the training data"
            warnings.warn(EncdecWarning(f"--validation, {found}; {remedy}."), stacklevel=2)


def unigram_perplexity(pairs: PreparedPairs, trained: range, held_out: Batches, vocabulary: Vocabulary) -> float:
    """Computes the perplexity of held-out targets by a model that knows only the frequencies of target words.

    A translation model that is no better has learned nothing from word order or from sources.

    Args:
        pairs: PreparedPairs, in random order.
        trained: range. Indices of the pairs to train on; at most 100,000 of them are counted.
        held_out: Batches to validate on.
        vocabulary: Vocabulary of targets.

    Returns:
        float: perplexity per token, including the end of sequence. Add-one smoothing is applied to the frequencies.
    """
    # In batches of similar lengths: padded to the longest target, the pairs could take gigabytes.
    counted = Batches(pairs, held_out.batch_size, trained[:COUNTED])
    known, seen = (
        np.concatenate([batch["target"][batch["target"] != 0] for batch in batches.once()])
        for batches in (counted, held_out)
    )
    counts = np.bincount(known - 1, minlength=FIRST_WORD - 1 + len(vocabulary)) + 1
    return float(np.exp(-np.log(counts[seen - 1] / counts.sum()).mean()))


@contextlib.contextmanager
def _open(
    config: TrainingConfig,
    data: TrainingData,
    paths: Sequence[str],
    alignment: str | None,
    max_length: int,
    tokenization: dict[str, bool] | None,
) -> Iterator[tuple[Iterator, RecordReader]]:
    """Opens pairs in the format of the training data.

    Args:
        config: TrainingConfig.
        data: TrainingData.
        paths: a file, or the source and target files of parallel text.
        alignment: file of word alignments, for position words; `None` for the alignments in the format, or computed
            alignments.
        max_length: maximum length of the pairs to align, in words.
        tokenization: arguments of `Tokenizer`; `None` for tokenized text.

    Yields:
        tuple: iterator of pairs; their RecordReader. Pairs for a language model have empty sources. Pairs with position
        words have links.
    """
    *source_paths, path = paths
    source_path = next(iter(source_paths), None)
    tokenizer = Tokenizer(**tokenization) if tokenization else None
    opened: Callable[..., contextlib.AbstractContextManager[tuple[Iterator, RecordReader]]] = open_pairs
    if data.has_position_words:
        opened = functools.partial(open_aligned_pairs, alignment=alignment, max_length=max_length)
    with opened(
        path,
        data.registered_format,
        source_path=source_path,
        encoding=data.encoding,
        on_error=data.on_error,
        tokenizer=tokenizer,
        reverse=data.reverse,
    ) as (records, reader):
        yield records if config.has_source else (([], target) for _, target in records), reader
