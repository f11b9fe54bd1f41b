"""Generating as a function: a file of targets for a file of sources."""

import contextlib
import dataclasses
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding.generator import LENGTH_FACTOR
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.samplers import sampler_of
from keras_encdec.decoding.target_files import TARGET_WRITERS, TargetFiles
from keras_encdec.decoding.text_generator import TextGenerator, UnknownReplacement
from keras_encdec.formats.alignments import alignment_line, check_carries_attention
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable
from keras_encdec.formats.nbest_line import check_feature_name
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import STANDARD_STREAM, InputLines, check_distinct_files, open_output
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.text.subwords import SUBWORD_JOINERS, read_dictionary

# Lines decoded together: sources of like length among them share a batch.
WINDOW = 2048
# Words of a sentence that a language model generates, at most.
LANGUAGE_MODEL_LIMIT = 50
FEATURE_NAME = "RNN0"

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class GenerationSummary(FileSummary):
    """What `generate_file` did.

    Attributes:
        lines: int. Sources for which targets were generated; 1 where a language model generated without any.
        seconds: float.
        output: the file.
    """


def generate_file(
    model_dirs: Path | ModelDirectory | TextGenerator | Sequence[Path | ModelDirectory],
    input: Path | None,
    output: Path = STANDARD_STREAM,
    sampler: Sampler | str = "beam",
    format: str = "text",
    *,
    weights: Sequence[float] | None = None,
    average: str | None = None,
    most: int | None = None,
    max_length_factor: float | None = None,
    max_length: int | None = None,
    escape: bool = False,
    feature_name: str | None = None,
    encoding: str | None = None,
    replace_unknown: bool = False,
    dictionary: Path | None = None,
    join_subwords: str | None = None,
    alignments: Path | None = None,
    alignment_format: str | None = None,
    progress: Callable[[InputLines], Progress] = Progress,
) -> GenerationSummary:
    """Writes targets for each line of a file, or what a language model generates.

    The output appears when it is complete.

    Args:
        model_dirs: directory of a model, a loaded ModelDirectory, or a list of such, an ensemble of models with the
            same vocabularies; or a TextGenerator, which keeps from file to file what was compiled.
        input: source text, a phrase or sentence a line, plain or gzipped, read as the training text was; "-" is the
            standard input. `None` for a language model.
        output: file to write, gzipped if its name ends in .gz. Defaults to "-", the standard output.
        sampler: Sampler, or the name of a registered one, with its usual options. Defaults to "beam".
        format: str. "text": the best target a line; "tsv": lines of source (if any), target, ln p and (of samples)
            count; "moses_nbest": a Moses n-best list. Defaults to "text".
        weights: list of float. See `Ensemble`. Optional.
        average: str. See `Ensemble`. Defaults to `None`: "arithmetic".
        most: int. Distinct hypotheses of a source that are written, at most. Defaults to `None`: all.
        max_length_factor: float. A target has at most that many words for each of its source, or 10 if that is
            more. Defaults to `None`: 1.5.
        max_length: int. A target has at most that many words, whatever its source. Defaults to `None`:
            `max_length_factor`; 50 for a language model.
        escape: bool. Whether targets get Moses's escapes, such as `&apos;`; an n-best list always has them.
            Defaults to `False`.
        feature_name: str. Name of ln p in a Moses n-best list. Defaults to `None`: "RNN0".
        encoding: str. Encoding of input, output and dictionary. Defaults to `None`: UTF-8, and other bytes are an
            error.
        replace_unknown: bool. Whether unknown words are replaced from the source, see `UnknownReplacement`; of a model
            with attention, or with position words in its vocabulary. Defaults to `False`.
        dictionary: file for it, see `read_dictionary`. Optional.
        join_subwords: str. "bpe" or "sentencepiece": targets are written as words, of which the model's words are
            pieces. Defaults to `None`: as the model has them.
        alignments: file to write the attention to, a line for each target that is written. Optional.
        alignment_format: str. "links", such as "0-0 2-1"; or "weights", a JSON object a line. Defaults to `None`:
            "links".
        progress: callable of the InputLines that are read, which gives a Progress, such as `ReadingProgress`.
            Defaults to `Progress`, which shows nothing.

    Returns:
        GenerationSummary.

    Raises:
        ConfigurationError: a ValueError, for arguments that contradict one another.
        InputError: when a model, the input or the output cannot be used.

    Example:

        generate_file("model", "sentences.txt", "nbest.gz", BeamSampler(12, num_best=12), "moses_nbest")
    """
    sampler = sampler_of(sampler)
    lent = model_dirs if isinstance(model_dirs, TextGenerator) else None
    directories = model_dirs if isinstance(model_dirs, list | tuple) else [model_dirs]
    if lent is None:
        _check_ensemble(directories, weights, average)
    else:
        _check_no_weights(weights, average)
    _check_format(format, most, feature_name)
    _check_lengths(max_length_factor, max_length)
    check_distinct_files(input, output, dictionary, alignments)
    _check_choices(sampler, replace_unknown, dictionary, join_subwords)
    link_line = alignment_line(alignments, alignment_format, output)
    translations = read_dictionary(dictionary, encoding) if dictionary else None
    replacement = UnknownReplacement(translations) if replace_unknown else None
    file_encoding = FileEncoding(encoding)
    name = FEATURE_NAME if feature_name is None else feature_name
    join = SUBWORD_JOINERS[join_subwords] if join_subwords else " ".join
    writer = TARGET_WRITERS[format](escape, most, bool(input), sampler.needs_draws, name, join)
    with contextlib.ExitStack() as files:
        lines = files.enter_context(InputLines(input)) if input else None
        output_file = files.enter_context(open_output(output))
        alignment_file = files.enter_context(open_output(alignments)) if alignments else None
        targets = TargetFiles(writer, output_file, alignment_file, link_line, encoding, input)
        start = time.monotonic()
        generator = lent or TextGenerator(directories, weights, average or "arithmetic")
        _check_source(generator, input, max_length_factor, max_length)
        _check_attention(generator, replace_unknown, alignments)
        limits = _limits(input, max_length_factor, max_length)
        options = {"sampler": sampler, "replacement": replacement, "with_attention": bool(alignments), **limits}
        if lines is None:
            targets.write(0, [""], generator.generate([""], first=0, **options))
            return GenerationSummary(1, time.monotonic() - start, output)
        texts = _texts(lines, file_encoding)
        with progress(lines) as read:
            while window := list(itertools.islice(texts, WINDOW)):
                targets.write(read.count, window, generator.generate(window, first=read.count, **options))
                read.add(len(window))
    return GenerationSummary(read.count, read.seconds, output)


def _check_ensemble(directories: Sequence, weights: Sequence[float] | None, average: str | None) -> None:
    if weights and len(weights) != len(directories):
        raise ConfigurationError(
            "found %d {weights} for %d {model_dirs}, expected as many", len(weights), len(directories)
        )
    if wrong := [weight for weight in weights or () if not 0 < weight < math.inf]:
        raise ConfigurationError("found {weights}=%s, expected positive numbers", wrong[0])
    if len(directories) == 1 and average is not None:
        raise ConfigurationError("found {average} with one {model_dirs}, expected several to average")


def _check_no_weights(weights: Sequence[float] | None, average: str | None) -> None:
    if weights is not None or average is not None:
        given = "weights" if weights is not None else "average"
        raise ConfigurationError(f"found {{{given}}} with a TextGenerator, which has its own; make it with them")


def _check_format(format: str, most: int | None, feature_name: str | None) -> None:
    if format not in TARGET_WRITERS:
        raise ConfigurationError("found {format}=%s, expected one of %s", format, ", ".join(TARGET_WRITERS))
    if most is not None and most < 1:
        raise ConfigurationError("found {most}=%s, expected 1 or more", most)
    if format == "text" and most is not None and most > 1:
        raise ConfigurationError("found {most} with {format}=text, which writes one a line; give {format}=tsv")
    if feature_name is not None:
        if format != "moses_nbest":
            raise ConfigurationError(
                "found {feature_name} with {format}=%s, expected it with {format}=moses_nbest", format
            )
        check_feature_name(feature_name)


def _check_lengths(max_length_factor: float | None, max_length: int | None) -> None:
    if max_length_factor is not None and not 0 <= max_length_factor < math.inf:
        raise ConfigurationError("found {max_length_factor}=%s, expected a number, 0 or more", max_length_factor)
    if max_length is not None and max_length < 0:
        raise ConfigurationError("found {max_length}=%s, expected 0 or more", max_length)


def _check_choices(
    sampler: Sampler,
    replace_unknown: bool,
    dictionary: Path | None,
    join_subwords: str | None,
) -> None:
    if replace_unknown and sampler.suppress_unknown:
        raise ConfigurationError("found {replace_unknown} with {suppress_unknown}, which leaves none; drop one of them")
    if dictionary and not replace_unknown:
        raise ConfigurationError("found {dictionary} without {replace_unknown}, which it is for")
    if join_subwords is not None and join_subwords not in SUBWORD_JOINERS:
        raise ConfigurationError(
            "found {join_subwords}=%s, expected one of %s", join_subwords, ", ".join(SUBWORD_JOINERS)
        )


def _check_attention(generator: TextGenerator, replace_unknown: bool, alignments: Path | None) -> None:
    check_carries_attention(alignments, generator.carries_attention)
    if replace_unknown and not (generator.carries_attention or generator.has_position_words):
        raise ConfigurationError(
            "found {replace_unknown} with a model that has neither attention nor position words such as unkpos_0, so "
            "that it is not known where an unknown word comes from; train one with attention"
        )


def _check_source(
    generator: TextGenerator, input: Path | None, max_length_factor: float | None, max_length: int | None
) -> None:
    if input and not generator.has_source:
        raise ConfigurationError("found {input} with a language model, expected none: it has no source")
    if not input and generator.has_source:
        raise ConfigurationError("found no {input}, expected the source text to translate")
    if max_length_factor is not None and (max_length is not None or not input):
        other = "with {max_length}" if input else "with a language model, which has no source"
        raise ConfigurationError(f"found {{max_length_factor}} {other}; drop it, and give {{max_length}}")


def _limits(input: Path | None, max_length_factor: float | None, max_length: int | None) -> dict[str, float | None]:
    """The arguments of `TextGenerator.generate` that bound the length of targets, with their defaults."""
    if not input and max_length is None:
        max_length = LANGUAGE_MODEL_LIMIT
    factor = LENGTH_FACTOR if max_length_factor is None else max_length_factor
    return {"max_length_factor": factor, "max_length": max_length}


def _texts(lines: InputLines, encoding: FileEncoding) -> Iterator[str]:
    for raw in lines:
        try:
            text = encoding.decode(raw.removesuffix(b"\r"))
        except UnicodeDecodeError as error:
            raise undecodable(error, lines.path, lines.line_number) from None
        is_first = lines.line_number == 1 and encoding.is_utf8
        yield text.removeprefix(BYTE_ORDER_MARK) if is_first else text
