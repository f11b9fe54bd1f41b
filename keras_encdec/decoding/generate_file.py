"""Generates a file of targets for a file of sources."""

import contextlib
import dataclasses
import functools
import io
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from keras_encdec.backend.startup import KerasWork, software
from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding.generation_options import GenerationOptions, check_together
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.sampler_registry import sampler_of
from keras_encdec.decoding.search_batches import LENGTH_FACTOR
from keras_encdec.decoding.target_files import AlignmentFile, TargetFiles
from keras_encdec.decoding.text_generator import TextGenerator, TextHypothesis, UnknownReplacement
from keras_encdec.errors import FilePath
from keras_encdec.formats.alignments import alignment_line
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import STANDARD_STREAM, check_distinct_files, file_checksum
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.progress import Progress, ShardedFileSummary
from keras_encdec.runtime.sharded_job import ShardedJob, run_in_shards
from keras_encdec.runtime.shards import Shard, ShardResult
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.scoring.pair_scorer import UnknownWords
from keras_encdec.text.lexical_shortlist import (
    LexicalShortlist,
    RareTranslations,
    read_dictionary,
    read_translations,
)
from keras_encdec.text.vocabulary import UNKNOWN

# Lines decoded together: sources of similar length among them share a batch.
WINDOW = 2048
# Maximum number of words of a sentence from a language model.
LANGUAGE_MODEL_LIMIT = 50

# A model, the models of an ensemble, or a generator that has loaded them.
ModelsOrGenerator = FilePath | ModelDirectory | TextGenerator | Sequence[FilePath | ModelDirectory]


@dataclasses.dataclass(frozen=True)
class GenerationSummary(ShardedFileSummary):
    """Summary of a call of `generate_file`.

    Attributes:
        lines: int. Sources for which targets were generated; 1 for a language model, which has no source.
        seconds: float.
        output: the file.
        before: int. Lines in shards that an interrupted earlier call had done.
        unknown_words: UnknownWords of the input; `None` for a language model.
    """

    unknown_words: UnknownWords | None = None

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about the lines."""
        words, notices = self.unknown_words, []
        if words is not None and words.unknown:
            notices.append(f"{words}.")
        if self.before:
            notices.append(f"{self.before:,} of the lines were already done by a command that was interrupted.")
        if words is not None and words.is_high:
            notices.append(
                f"warning: most of the {words.side}'s words are unknown to the {words.model}, so its targets mean "
                "little; check the language of the file and how its text is tokenized."
            )
        return notices


def generate_file(
    model_dirs: ModelsOrGenerator,
    input: FilePath | None,
    output: FilePath = STANDARD_STREAM,
    sampler: Sampler | str = "beam",
    options: GenerationOptions | None = None,
    *,
    progress: Callable[[InputLines], Progress] = Progress,
    show: Callable[[str], object] | None = None,
    **values: object,
) -> GenerationSummary:
    """Writes targets for each line of a file, or sentences of a language model.

    The output appears when it is complete. With `number_of_processes` or `shard_lines` the work is done in shards, as
    `keras_encdec.scoring.score_file` does it.

    Args:
        model_dirs: directory of a model, a loaded ModelDirectory, or a list of these, an ensemble of models with the
            same vocabularies; or a TextGenerator, whose compiled functions then serve several files.
        input: source text, one phrase or sentence per line, plain or gzipped, tokenized as the training text was. "-"
            is the standard input. `None` for a language model.
        output: file to write, gzipped if its name ends in .gz. Defaults to "-", the standard output.
        sampler: Sampler, or the name of a registered one, with its default options. Defaults to "beam".
        options: GenerationOptions. Defaults to `None`: the defaults.
        progress: function that takes the InputLines of the input and returns a Progress, such as `ReadingProgress`.
            Defaults to `Progress`, which shows nothing.
        show: function that is called with sentences for the user before the processing of shards starts. Defaults to
            `None`.
        **values: options by name, which override those in `options`.

    Returns:
        GenerationSummary.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another or the model.
        InputError: if a model, the input or the output cannot be used.

    Example:

        options = GenerationOptions(format="moses_nbest")
        generate_file("model", "sentences.txt", "nbest.gz", BeamSampler(12, num_best=12), options)
    """
    sampler = sampler_of(sampler)
    options = GenerationOptions.combined(options, values)
    check_together(options, sampler)
    check_distinct_files(input, output, *options.tables.values(), options.alignments)
    alignment_line(options.alignments, options.alignment_format, output)  # checks that there are two outputs
    make_generator = _generator_maker(model_dirs, options)
    files = [output, *([options.alignments] if options.alignments else [])]
    options.check_input(input)
    if options.in_shards and input is not None:
        directories = [ModelDirectory.open(model, weights=False) for model in _models(model_dirs)]
        models = _paths(model_dirs, directories) if options.uses_other_processes else model_dirs
        work = KerasWork(functools.partial(ShardGenerator, models, sampler, options), options.uses_other_processes)
        job = ShardedJob(
            "generation", [input], files, _settings(directories, sampler, options), WINDOW, options.shard_lines
        )
        counts: Counter[str] = Counter()

        def check(of_shard: dict[str, int]) -> None:
            counts.update(of_shard)
            options.check_unknown("source", counts["words"], counts["unknown"])

        run = run_in_shards(job, options.open_engine(), work, check=check, progress=progress, show=show)
        return GenerationSummary(
            run.written.count, run.written.seconds, output, _unknown_words(counts), before=run.before
        )
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(InputLines(input)) if input else None
        opened = [stack.enter_context(open_output(path)) for path in files]
        start = time.monotonic()
        generator = FileGenerator(make_generator(), sampler, options, input)
        if lines is None:
            generator.write(generator.search(Window(0, [""])), opened)
            return GenerationSummary(1, time.monotonic() - start, output)
        with progress(lines) as read, threads(1) as executor:
            searched = map(generator.search, _windows(lines, options.encoding))
            write = functools.partial(generator.write, outputs=opened)
            # A window is written during the search for the next.
            for written in in_order(executor, write, searched, ahead=1):
                read.add(written)
    return GenerationSummary(read.count, read.seconds, output, unknown_words=_unknown_words(generator.counts))


def _unknown_words(counts: Counter[str]) -> UnknownWords:
    return UnknownWords("model", "input", counts["words"], counts["unknown"], bool(counts["known_by_characters"]))


class Window(NamedTuple):
    """Consecutive `sources` of the input, and the index of the `first` of them, from 0."""

    first: int
    sources: list[str]


class FoundTargets(NamedTuple):
    """The `hypotheses` of each source of a `window`, the best first."""

    window: Window
    hypotheses: list[list[TextHypothesis]]


class FileGenerator:
    """Generates the targets of a file, or of a part of it.

    Args:
        generator: TextGenerator.
        sampler: Sampler.
        options: GenerationOptions.
        input: the path of the sources; `None` for a language model.

    Attributes:
        counts: Counter of the sources' "words" so far, of the "unknown" ones, which are outside the shortlist, and of
            those "known_by_characters", which are unknown words that the model reads by their characters.

    Raises:
        ConfigurationError: a ValueError, if the options do not suit the model.
    """

    def __init__(
        self, generator: TextGenerator, sampler: Sampler, options: GenerationOptions, input: FilePath | None
    ) -> None:
        options.check_models([generator], input)
        self.counts: Counter[str] = Counter()
        self._directory = generator.directories[0]
        self._options, self._input = options, input
        self._writer = options.target_writer(with_source=bool(input), with_count=sampler.needs_draws)
        self._link_line = alignment_line(options.alignments, options.alignment_format, output="")
        limit = None if generator.has_source else LANGUAGE_MODEL_LIMIT
        further = {name: getattr(options, name) for name in ("character_beam", "translation_weight")}
        self._generate: Callable[..., list[list[TextHypothesis]]] = functools.partial(
            generator.generate_words,
            sampler=sampler,
            replacement=_unknown_replacement(options),
            with_attention=self._link_line is not None,
            lexical_shortlist=_lexical_shortlist(options, generator),
            word_translations=_word_translations(options, generator),
            full_scores=options.full_scores,
            max_length_factor=LENGTH_FACTOR if options.max_length_factor is None else options.max_length_factor,
            max_length=limit if options.max_length is None else options.max_length,
            **{name: value for name, value in further.items() if value is not None},
        )

    def search(self, window: Window) -> FoundTargets:
        """Searches for the targets of a window.

        Raises:
            InputError: if too many of the words so far are unknown to the model.
        """
        words = self._directory.words(window.sources)
        self._count_words(words)
        return FoundTargets(window, self._generate(words, first=window.first))

    def write(self, found: FoundTargets, outputs: Sequence[BinaryIO]) -> int:
        """Writes the targets of a window, and returns the number of its sources.

        Args:
            found: FoundTargets.
            outputs: list of binary files: one for the targets, and, if the options name one, one for the alignments.
        """
        alignments = AlignmentFile(outputs[1], self._link_line) if self._link_line else None
        files = TargetFiles(self._writer, outputs[0], alignments, self._options.encoding, self._input)
        files.write(*found.window, found.hypotheses)
        return len(found.window.sources)

    def _count_words(self, sources: Sequence[Sequence[str]]) -> None:
        """Counts the words of sources before the search, which takes long and might be for nothing."""
        for words in sources:
            unknown = self._directory.source_vocabulary.encode(words).count(UNKNOWN)
            self.counts.update(words=len(words), unknown=unknown)
            if self._directory.source_vocabulary.characters is not None:
                self.counts["known_by_characters"] += unknown
        self._options.check_unknown("source", self.counts["words"], self.counts["unknown"])


class ShardGenerator:
    """Generates the targets of shards in a worker.

    Args:
        model_dirs: see `generate_file`.
        sampler: Sampler.
        options: GenerationOptions.

    Raises:
        InputError: if a model cannot be used.
    """

    def __init__(self, model_dirs: ModelsOrGenerator, sampler: Sampler, options: GenerationOptions) -> None:
        self._sampler, self._options = sampler, options
        self._generator = _generator_maker(model_dirs, options)()
        # Threads search in turn, as one search already works on several batches at once. While one thread searches,
        # others read and write lines.
        self._turn = threading.Lock()

    def __call__(self, shard: Shard) -> ShardResult:
        """Generates the targets of a shard."""
        options, [part] = self._options, shard.parts
        if shard.number:
            # The share of unknown words refers to all words so far: `generate_file` checks it.
            options = options.replace(max_unknown=None)
        outputs = [io.BytesIO() for _ in range(2 if options.alignments else 1)]
        generator = FileGenerator(self._generator, self._sampler, options, part)
        with InputLines(part) as lines:
            for window in _windows(lines, options.encoding, part.first_line - 1):
                with self._turn:
                    found = generator.search(window)
                generator.write(found, outputs)
        return ShardResult(tuple(output.getvalue() for output in outputs), dict(generator.counts))


def _windows(lines: InputLines, encoding: str | None, first: int = 0) -> Iterator[Window]:
    texts = FileEncoding(encoding).texts(lines)
    while sources := list(itertools.islice(texts, WINDOW)):
        yield Window(first, sources)
        first += len(sources)


def _models(model_dirs: ModelsOrGenerator) -> Sequence[FilePath | ModelDirectory]:
    """Returns a list of the models: a single one, or those of an ensemble."""
    if isinstance(model_dirs, TextGenerator):
        return model_dirs.directories
    return [model_dirs] if isinstance(model_dirs, str | os.PathLike | ModelDirectory) else model_dirs


def _paths(model_dirs: ModelsOrGenerator, directories: Sequence[ModelDirectory]) -> list[FilePath]:
    """Returns the paths of models, for other processes.

    Args:
        model_dirs: see `generate_file`.
        directories: list of ModelDirectory, those of the models.

    Raises:
        ConfigurationError: a ValueError, for a TextGenerator, which other processes cannot use.
    """
    if isinstance(model_dirs, TextGenerator):
        raise ConfigurationError(
            "found a TextGenerator, which other processes cannot use, expected the paths of models as {model_dirs}"
        )
    models = zip(_models(model_dirs), directories, strict=True)
    return [directory.path_elsewhere(model) for model, directory in models]


def _settings(directories: Sequence[ModelDirectory], sampler: Sampler, options: GenerationOptions) -> dict[str, object]:
    """Describes everything that determines the targets, apart from the sources."""
    return {
        "software": software(),
        "model": {f"{number}": directory.checksums() for number, directory in enumerate(directories, start=1)},
        "table": {name: path and file_checksum(path) for name, path in options.tables.items()},
        "sampler": {"name": type(sampler).__name__, **sampler.to_dict()},
        "settings": options.output_settings,
    }


def _generator_maker(model_dirs: ModelsOrGenerator, options: GenerationOptions) -> Callable[[], TextGenerator]:
    """Checks the options of the models, and returns a function that loads them. Loading is slow."""
    if isinstance(model_dirs, TextGenerator):
        for name in ("weights", "average", "dtype"):
            if getattr(options, name) is not None:
                raise ConfigurationError(
                    f"found {{{name}}} with a TextGenerator, expected it as an argument of the TextGenerator"
                )
        return lambda: model_dirs
    models = _models(model_dirs)
    options.check_model_count(len(models))
    average = options.average or "arithmetic"
    return lambda: TextGenerator(models, options.weights, average, options.dtype)


def _unknown_replacement(options: GenerationOptions) -> UnknownReplacement | None:
    if not options.replace_unknown:
        return None
    return UnknownReplacement(read_dictionary(options.dictionary, options.encoding) if options.dictionary else None)


def _word_translations(options: GenerationOptions, generator: TextGenerator) -> RareTranslations | None:
    if not options.word_translations:
        return None
    translations = read_translations(options.word_translations, options.encoding)
    return RareTranslations(translations, generator.directories[0].target_vocabulary)


def _lexical_shortlist(options: GenerationOptions, generator: TextGenerator) -> LexicalShortlist | None:
    if not options.lexical_shortlist:
        return None
    vocabulary = generator.directories[0].target_vocabulary
    return LexicalShortlist.read(
        options.lexical_shortlist, vocabulary, options.shortlist_words, options.frequent_words, options.encoding
    )
