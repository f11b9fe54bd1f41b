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

from keras_encdec.backend.startup import KerasWork, software
from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding.file_generator import FileGenerator, Window
from keras_encdec.decoding.generation_options import GenerationOptions, check_together
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.sampler_registry import sampler_of
from keras_encdec.decoding.text_generator import TextGenerator
from keras_encdec.errors import FilePath
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import STANDARD_STREAM, check_distinct_files, file_checksum
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import open_outputs
from keras_encdec.runtime.progress import Progress, ShardedFileSummary, counted
from keras_encdec.runtime.sharded_job import ShardedJob, run_in_shards
from keras_encdec.runtime.shards import Shard, ShardResult
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.scoring.pair_scorer import UnknownWords

# Lines decoded together: sources of similar length among them share a batch.
WINDOW = 2048

# A model, the models of an ensemble, or a generator that has loaded them.
ModelsOrGenerator = FilePath | ModelDirectory | TextGenerator | Sequence[FilePath | ModelDirectory]


@dataclasses.dataclass(frozen=True)
class GenerationSummary(ShardedFileSummary):
    """Summary of a call of `generate_file`.

    Attributes:
        lines: int. Sources for which targets were generated; 1 for a language model, which has no source.
        seconds, output: see `FileSummary`.
        before: int. Lines in shards that an interrupted earlier call had finished.
        unknown_words: UnknownWords of the input; `None` for a language model.
        empty: int. Sources whose best target is empty, although they have words.
    """

    unknown_words: UnknownWords | None = None
    empty: int = 0

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about the lines."""
        words, notices = self.unknown_words, []
        if words is not None and words.unknown:
            notices.append(f"{words}.")
        if self.before:
            notices.append(f"An interrupted command had already generated targets for {counted(self.before, 'lines')}.")
        if words is not None:
            notices += words.warnings("targets", "the language of the file")
        if self.empty > self.lines / 2:
            notices.append(
                f"warning: most targets are empty ({self.empty:,} of {self.lines:,}), because the model finds their "
                "end most probable; train it longer, or favour longer targets with a beam and a higher "
                "--length_penalty."
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
            means standard input. `None` for a language model.
        output: file to write, gzipped if its name ends in .gz. Defaults to "-", standard output.
        sampler: Sampler, or the name of a registered one, with its default options. Defaults to "beam".
        options: GenerationOptions. Defaults to `None`: the defaults.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        show: function that is called with sentences for the user before the processing of shards starts. Defaults to
            `None`.
        **values: options by name, which override those in `options`.

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
    for table in options.tables.values():  # one table can be that of two options
        check_distinct_files(input, output, table, options.alignments)
    files = options.outputs(output)
    _check_models(model_dirs, options)
    options.check_input(input)
    if options.in_shards and input is not None:
        return _generate_in_shards(model_dirs, input, files, sampler, options, progress, show)
    return _generate_in_order(model_dirs, input, files, sampler, options, progress)


def _generate_in_order(
    model_dirs: ModelsOrGenerator,
    input: FilePath | None,
    files: Sequence[FilePath],
    sampler: Sampler,
    options: GenerationOptions,
    progress: Callable[[InputLines], Progress],
) -> GenerationSummary:
    """Generates the targets from the first line to the last; `files` are those of the targets and the alignments."""
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(InputLines(input)) if input else None
        outputs = stack.enter_context(open_outputs(files))
        start = time.monotonic()
        models = _opened(model_dirs, options)
        generator = FileGenerator(models, sampler, options, input)
        if lines is None:
            generator.write(generator.search(Window(0, [""])), outputs)
            return GenerationSummary(1, time.monotonic() - start, files[0])
        with progress(lines) as read, threads(1) as executor:
            searched = map(generator.search, _windows(lines, options.encoding))
            write = functools.partial(generator.write, outputs=outputs)
            # A window is written during the search for the next.
            for written in in_order(executor, write, searched, ahead=1):
                read.add(written)
    counts = generator.counts
    unknown_words = _unknown_words(counts, models.directories[0])
    return GenerationSummary(read.count, read.seconds, files[0], unknown_words, counts["empty"])


def _generate_in_shards(
    model_dirs: ModelsOrGenerator,
    input: FilePath,
    files: Sequence[FilePath],
    sampler: Sampler,
    options: GenerationOptions,
    progress: Callable[[InputLines], Progress],
    show: Callable[[str], object] | None,
) -> GenerationSummary:
    """Generates the targets as `_generate_in_order` does, but in shards."""
    directories = [ModelDirectory.open(model, weights=False) for model in _models(model_dirs)]
    models = _paths(model_dirs, directories) if options.uses_other_processes else model_dirs
    work = KerasWork(functools.partial(ShardGenerator, models, input, sampler, options), options.uses_other_processes)
    settings = _settings(model_dirs, directories, sampler, options)
    job = ShardedJob("generation", [input], files, settings, WINDOW, options.shard_lines)
    counts: Counter[str] = Counter()

    def check(shard_counts: dict[str, int]) -> None:
        counts.update(shard_counts)
        options.check_unknown("source", counts["words"], counts["unknown"])

    run = run_in_shards(job, options.open_engine(), work, check=check, progress=progress, show=show)
    summary = run.written.count, run.written.seconds, files[0], _unknown_words(counts, directories[0]), counts["empty"]
    return GenerationSummary(*summary, before=run.written.before)


def _unknown_words(counts: Counter[str], directory: ModelDirectory) -> UnknownWords:
    reads_characters = directory.source_vocabulary.characters is not None
    return UnknownWords("model", "input", counts["words"], counts["unknown"], reads_characters, counts["in_lower_case"])


class ShardGenerator:
    """Generates the targets of shards in a worker.

    Args:
        model_dirs, input: see `generate_file`.
        sampler: Sampler.
        options: GenerationOptions.

    Raises:
        InputError: if a model or a table of word translations cannot be used.
    """

    def __init__(
        self, model_dirs: ModelsOrGenerator, input: FilePath, sampler: Sampler, options: GenerationOptions
    ) -> None:
        self._options = options
        self._generator = FileGenerator(_opened(model_dirs, options), sampler, options, input)
        # Threads search in turn, as one search already works on several batches at once. While one thread searches,
        # others read and write lines.
        self._turn = threading.Lock()

    def __call__(self, shard: Shard) -> ShardResult:
        """Generates the targets of a shard."""
        options, [part] = self._options, shard.parts
        outputs = [io.BytesIO() for _ in range(2 if options.alignments else 1)]
        # The share of unknown words refers to all words so far: after the first shard, `generate_file` checks it.
        generator = self._generator.of_part(part, checks_unknown=not shard.number)
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
    """Returns the paths of models for other processes, which cannot use a TextGenerator."""
    if isinstance(model_dirs, TextGenerator):
        raise ConfigurationError(
            "found a TextGenerator, which other processes cannot use, expected the paths of models as {model_dirs}"
        )
    models = zip(_models(model_dirs), directories, strict=True)
    return [directory.path_elsewhere(model) for model, directory in models]


def _settings(
    model_dirs: ModelsOrGenerator, directories: Sequence[ModelDirectory], sampler: Sampler, options: GenerationOptions
) -> dict[str, object]:
    """Describes everything that determines the targets, apart from the sources."""
    own = model_dirs.settings if isinstance(model_dirs, TextGenerator) else {}
    return {
        "software": software(),
        "model": {f"{number}": directory.checksums() for number, directory in enumerate(directories, start=1)},
        "table": {name: path and file_checksum(path) for name, path in options.tables.items()},
        "sampler": {"name": type(sampler).__name__, **sampler.to_dict()},
        "settings": {**options.output_settings, **own},
    }


def _check_models(model_dirs: ModelsOrGenerator, options: GenerationOptions) -> None:
    """Raises ConfigurationError for options of an ensemble that do not suit the models or belong to a TextGenerator."""
    if not isinstance(model_dirs, TextGenerator):
        options.check_model_count(len(_models(model_dirs)))
        return
    for name in ("weights", "average", "dtype"):
        if getattr(options, name) is not None:
            raise ConfigurationError(
                f"found {{{name}}} with a TextGenerator, expected it as an argument of the TextGenerator"
            )


def _opened(model_dirs: ModelsOrGenerator, options: GenerationOptions) -> TextGenerator:
    """Loads the models, which is slow, unless they are a TextGenerator."""
    if isinstance(model_dirs, TextGenerator):
        return model_dirs
    return TextGenerator(_models(model_dirs), options.weights, options.average or "arithmetic", options.dtype)
