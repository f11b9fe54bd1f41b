"""Translates sentences with a phrase table and an n-gram language model, and writes an n-best list."""

import contextlib
import dataclasses
import functools
import itertools
import os
import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, NamedTuple

from keras_encdec import __version__
from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.encodings import FileEncoding, model_words
from keras_encdec.formats.feature_weights import Weights
from keras_encdec.formats.phrase_table import OccurringPhrases, PhraseTableReader
from keras_encdec.formats.plain_text import read_sentences
from keras_encdec.runtime.files import absolute, check_can_be_read_again, check_distinct_files, file_checksum
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.progress import CountedWork, Progress, ShardedFileSummary, ShowProgress, counted
from keras_encdec.runtime.sharded_job import ShardedJob, check_sharded_outputs, run_in_shards
from keras_encdec.runtime.shards import Shard, ShardResult
from keras_encdec.runtime.unfinished import temporary_folder, writing_temporary_files
from keras_encdec.runtime.workers import available_processors, in_order, processes
from keras_encdec.smt.decoder.decoding_options import (
    MAX_SENTENCE_LENGTH,
    DecoderWeights,
    DecodingOptions,
    initial_weights,
)
from keras_encdec.smt.decoder.phrase_options import (
    MAX_SOURCE_PHRASE,
    PhraseTable,
    TranslationOptionFinder,
    read_phrases,
)
from keras_encdec.smt.decoder.phrase_search import PhraseSearch
from keras_encdec.smt.decoder.phrase_translation import PhraseTranslation, distinct_derivations
from keras_encdec.smt.ngrams.ngram_model import NgramModel, check_ngram_model
from keras_encdec.task_options import HIGH_UNKNOWN_SHARE

_SENTENCES_IN_BATCH = 8
# A rough size of a hypothesis in the list, to estimate the size of the output.
_LINE_BYTES = 200


@dataclasses.dataclass(frozen=True)
class DecodingSummary(ShardedFileSummary):
    """The result of `decode_nbest`.

    Attributes:
        lines: int. Number of hypotheses written.
        seconds, output: see `FileSummary`.
        sentences: int. Number of sentences translated.
        unknown_words: int. Number of words in the best hypotheses that were copied because the table lacks them.
        words: int. Number of words in the sentences.
        before: int. Sentences in shards that an interrupted earlier call had translated.
    """

    sentences: int = 0
    unknown_words: int = 0
    words: int = 0

    @property
    def rate(self) -> float:
        """Sentences per second, without those that were translated before."""
        return (self.sentences - self.before) / max(self.seconds, 1e-9)

    @property
    def notices(self) -> list[str]:
        """Warnings for the user, as sentences."""
        notices = []
        if self.before:
            notices.append(f"An interrupted command had already translated {counted(self.before, 'sentences')}.")
        if self.unknown_words > HIGH_UNKNOWN_SHARE * self.words:
            notices.append(
                "warning: most words were copied because the table lacks them, so the translations mean little; check "
                "that it is a phrase-based table for this direction, and how the text is tokenized."
            )
        return notices

    def __str__(self) -> str:
        return (
            f"{counted(self.lines, 'hypotheses')} of {counted(self.sentences, 'sentences')}, "
            f"{counted(self.unknown_words, 'words')} copied because the table lacks them, in {self.seconds:,.1f} s, "
            f"{self.rate:,.1f} sentences/s: {self._result}"
        )


class _Task(NamedTuple):
    """Everything that a process needs to translate sentences."""

    phrases: PhraseTable
    language_model: FilePath
    weights: DecoderWeights
    options: DecodingOptions


class _Written(NamedTuple):
    """Counts of lines written, unknown words in the best hypotheses, and sentences translated in earlier calls."""

    lines: int
    unknown_words: int
    before: int = 0


def decode_nbest(
    source: FilePath,
    phrase_table: FilePath,
    language_model: FilePath,
    output: FilePath,
    weights: Weights | None = None,
    options: DecodingOptions | None = None,
    *,
    other_weights: Weights | None = None,
    progress: ShowProgress = Progress,
    show: Callable[[str], object] | None = None,
    **values: object,
) -> DecodingSummary:
    """Translates sentences with a phrase table and an n-gram language model, and writes an n-best list as Moses does.

    A line is `id ||| hypothesis  ||| features ||| total ||| segmentation`. The features are those of Moses:
    `Distortion0`, minus the sum of the distances between the end of a phrase's source and the start of the next one's;
    `LM0`, ln p of the sentence with its end; `WordPenalty0`, minus the number of words; `PhrasePenalty0`, the number of
    phrases; `TranslationModel0`, for each score of the table, the sum of its ln over the phrases, where each ln counts
    as at least -100. The total is the weighted sum of the features. The segmentation has for each phrase, in the order
    of the target, the first and last word of its source and of its target, counted from 0: `0=0 1-2=1-3`.

    Tokens of the text, the table and the language model may or may not have Moses's escapes; hypotheses have them. A
    factored word is reduced to its first factor. A word without a phrase in the table is copied. It adds -100 times the
    weight `UnknownWordPenalty0` to the total; as in Moses, the list has no such feature. An empty sentence has one
    empty hypothesis.

    The search is Moses's cube pruning without lexicalized reordering; see `PhraseSearch`.

    Every process holds in memory the phrase pairs whose source occurs in the sentences, and the language model, unless
    that is a binary file of KenLM, which the processes share. Processes are spawned, so a program must keep its own
    work under `if __name__ == "__main__":`, except with `number_of_processes=1`.

    With `shard_lines` or `engine="ray"`, the work is done in shards, as in `keras_encdec.scoring.score_file`.

    Args:
        source: sentences, one per line, words separated by spaces, plain or gzipped.
        phrase_table: Moses phrase table with any number of scores, plain or gzipped.
        language_model: n-gram model of the target language: ARPA file, plain or gzipped, or binary file of KenLM.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        weights: dict from feature to list of float, as `read_weights` returns it. A missing `UnknownWordPenalty0`
            counts as 1. Defaults to `initial_weights`.
        options: DecodingOptions. Defaults to `None`: those of the command.
        other_weights: dict from feature to list of float; they replace those of the same names in `weights`. Optional.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        show: function that is called with sentences for the user before the processing of shards starts. Defaults to
            `None`.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used.
        ImportError: if kenlm is not installed, which the extra `ngram` installs.
        InputError: if a file cannot be read, the weights do not fit the table, or a sentence is too long.

    Example:

        decode_nbest("val.en", "phrase-table.gz", "lm.arpa.gz", "val.nbest.gz")
    """
    check_distinct_files(source, phrase_table, language_model, output)
    options = DecodingOptions.combined(options, values)
    start = time.monotonic()
    check_ngram_model(language_model)  # rather than after the table is read
    if options.in_shards:
        check_sharded_outputs([output])
        for path in (source, phrase_table):
            check_can_be_read_again(path)
    with contextlib.nullcontext() if options.in_shards else open_output(output) as file:
        sentences = _sentences(source, options)
        phrases, checked_weights = _phrases(
            phrase_table, sentences, weights, other_weights or {}, options.encoding, progress
        )
        task = _Task(phrases, language_model, checked_weights, options)
        if file is None:
            written = _decode_in_shards(task, source, phrase_table, output, progress, show)
        else:
            written = _decode_in_order(task, sentences, file, progress)
    seconds, counts = time.monotonic() - start, (len(sentences), written.unknown_words, sum(map(len, sentences)))
    return DecodingSummary(written.lines, seconds, output, *counts, before=written.before)


def _sentences(source: FilePath, options: DecodingOptions) -> list[list[str]]:
    """Reads the words of all sentences; raises InputError for a sentence that is too long."""
    sentences = [model_words(line) for line in read_sentences(source, options.encoding)]
    raise_limit = "raise --max_sentence_length, or " * (options.max_sentence_length < MAX_SENTENCE_LENGTH)
    for number, words in enumerate(sentences, start=1):
        if len(words) > options.max_sentence_length:
            found, expected = f"found {len(words)} words", f"expected at most {options.max_sentence_length}"
            raise InputError(found, expected, f"{raise_limit}shorten the sentence", source, number)
    return sentences


def _phrases(
    path: FilePath,
    sentences: Sequence[Sequence[str]],
    weights: Weights | None,
    other_weights: Weights,
    encoding: str | None,
    progress: ShowProgress,
) -> tuple[PhraseTable, DecoderWeights]:
    """Reads the phrases of the table that occur in the sentences, and checks the weights at the first line."""
    sources = OccurringPhrases(sentences, MAX_SOURCE_PHRASE)
    with PhraseTableReader(path, encoding) as reader, progress(reader.lines, "phrase pairs") as shown:
        records = iter(reader)
        first = next(records)
        named_weights = initial_weights(reader.num_scores) if weights is None else weights
        decoder_weights = DecoderWeights.of_features({**named_weights, **other_weights}, reader.num_scores)
        phrases = read_phrases(itertools.chain([first], records), reader.lines, sources, shown)
    return phrases, decoder_weights


def _decode_in_shards(
    task: _Task,
    source: FilePath,
    phrase_table: FilePath,
    output: FilePath,
    progress: ShowProgress,
    show: Callable[[str], object] | None,
) -> _Written:
    options, language_model = task.options, task.language_model
    task = task._replace(language_model=absolute(language_model))
    settings = {
        "software": {"keras-encdec": __version__},
        "phrase table": file_checksum(phrase_table),
        "language model": file_checksum(language_model),
        "weights": task.weights._asdict(),
        "settings": options.output_settings,
    }
    added = _LINE_BYTES * options.nbest_size
    job = ShardedJob(
        "decoding", [source], [output], settings, _SENTENCES_IN_BATCH, options.shard_lines, added_bytes=added
    )
    if options.engine == "local":  # never threads: the decoder is in Python, so they would wait for one another
        options = options.replace(number_of_processes=options.number_of_processes or available_processors())
    opener, engine = functools.partial(_open_decoder, task), options.open_engine()
    run = run_in_shards(job, engine, opener, progress=lambda lines: progress(lines, "sentences"), show=show)
    lines, unknown_words = (sum(counts[name] for counts in run.counts) for name in ("lines", "unknown_words"))
    return _Written(lines, unknown_words, run.written.before)


def _open_decoder(task: _Task) -> Callable[[Shard], ShardResult]:
    """Loads the language model in a worker, and returns the function that translates shards."""
    return functools.partial(_translate_shard, _Decoder(task), task.options.encoding)


def _translate_shard(decoder: "_Decoder", encoding: str | None, shard: Shard) -> ShardResult:
    [part] = shard.parts
    sentences = map(model_words, read_sentences(part, encoding))
    lines, unknown_words = decoder.translate(enumerate(sentences, start=part.first_line - 1))
    return ShardResult((b"".join(lines),), {"lines": len(lines), "unknown_words": unknown_words})


def _decode_in_order(task: _Task, sentences: list[list[str]], file: BinaryIO, progress: ShowProgress) -> _Written:
    numbered = list(enumerate(sentences))
    batches = [numbered[first : first + _SENTENCES_IN_BATCH] for first in range(0, len(numbered), _SENTENCES_IN_BATCH)]
    number_of_processes = min(task.options.number_of_processes or available_processors(), len(batches))
    number_of_lines = unknown_words = 0
    work = CountedWork(len(sentences))
    with temporary_folder() as folder:
        path = os.path.join(folder, "task")
        with writing_temporary_files(), open(path, "wb") as task_file:
            pickle.dump(task, task_file, protocol=pickle.HIGHEST_PROTOCOL)
        try:
            with processes(number_of_processes) as executor, progress(work, "sentences") as shown:
                translated = in_order(executor, functools.partial(_translate, path), batches, number_of_processes + 1)
                for batch, (lines, unknown) in zip(batches, translated, strict=True):
                    file.writelines(lines)
                    number_of_lines += len(lines)
                    unknown_words += unknown
                    work.size_done += len(batch)
                    shown.add(len(batch))
        finally:
            _decoder.cache_clear()
    return _Written(number_of_lines, unknown_words)


def _translate(path: str, batch: list[tuple[int, list[str]]]) -> tuple[list[bytes], int]:
    return _decoder(path).translate(batch)


@functools.lru_cache(maxsize=1)
def _decoder(path: str) -> "_Decoder":
    with open(path, "rb") as file:
        return _Decoder(pickle.load(file))


class _Decoder:
    """Translates sentences into lines of an n-best list."""

    def __init__(self, task: _Task) -> None:
        options = self._options = task.options
        self._weights, self._encode = task.weights, FileEncoding(options.encoding).encode
        self._model = NgramModel(task.language_model, options.encoding)
        self._finder = TranslationOptionFinder(task.phrases, self._model, task.weights, options.table_limit)

    def translate(self, sentences: Iterable[tuple[int, list[str]]]) -> tuple[list[bytes], int]:
        """Translates numbered sentences; returns the lines of the list, and how many words the best hypotheses copy."""
        lines: list[bytes] = []
        unknown_words = 0
        for number, words in sentences:
            spans = self._finder.of_sentence(words)
            goal = PhraseSearch(self._model, self._weights, self._options, len(words), spans).search()
            arcs_of_each = distinct_derivations(goal, self._options.nbest_size)
            translations = [PhraseTranslation(arcs, self._weights) for arcs in arcs_of_each]
            translations.sort(key=lambda translation: -translation.total)  # rounding may have changed the order
            lines += [self._encode(f"{translation.line(number)}\n") for translation in translations]
            unknown_words += translations[0].unknown_words
        return lines, unknown_words
