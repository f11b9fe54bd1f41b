"""encdec-generate: writes target phrases or sentences for source text: samples, or what a search finds."""

import keras_encdec.cli.quiet_keras  # isort: skip  # noqa: F401

import contextlib
import itertools
import math
import sys

import keras
from absl import app, flags

from keras_encdec.cli.command import run_command
from keras_encdec.cli.flag_checks import check_distinct_files, check_feature_name
from keras_encdec.cli.memory import keep_freed_memory
from keras_encdec.cli.progress import ReadingProgress
from keras_encdec.cli.scored_file import summary
from keras_encdec.decoding import BeamSampler, GreedySampler, RandomSampler, TextGenerator
from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines, escape, open_output
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable
from keras_encdec.formats.files import STANDARD_OUTPUT

flags.DEFINE_multi_string("model_dir", None, "Directory of a model; given several times, an ensemble of models with the same vocabularies.")
flags.DEFINE_multi_float("model_weight", None, "Weight of each model of an ensemble, as often as --model_dir. Default: equal ones.")
flags.DEFINE_enum("average", "arithmetic", ["arithmetic", "geometric"], "How an ensemble's probabilities of a word are averaged.")
flags.DEFINE_string("input", None, "Source text, a phrase or sentence a line, plain or gzipped, read as the training text was. None for a language model.")
flags.DEFINE_string("output", STANDARD_OUTPUT, "File to write; gzipped if its name ends in .gz. It appears when it is complete.")
flags.DEFINE_enum("mode", "beam", ["sample", "greedy", "beam"], "Draw samples, take the most probable word each time, or search with a beam.")
flags.DEFINE_enum("format", "text", ["text", "tsv", "moses_nbest"], "The best target a line; or lines of source (if any), target, ln p and (samples) count; or a Moses n-best list.")
flags.DEFINE_integer("num_samples", 50, "Samples to draw for each source.", lower_bound=1)
flags.DEFINE_integer("top", 5, "Of the distinct samples so many are written, the most probable first.", lower_bound=1)
flags.DEFINE_float("temperature", 1.0, "Of samples: below 1, probable words become more so.")
flags.DEFINE_integer("top_k", None, "Of samples: draw from so many most probable words. Default: all.", lower_bound=1)
flags.DEFINE_float("top_p", 1.0, "Of samples: draw from the most probable words that have this probability together.")
flags.DEFINE_integer("seed", 0, "Of samples.", lower_bound=0)
flags.DEFINE_integer("beam_size", 12, "Partial sequences that a beam search keeps for each source.", lower_bound=1)
flags.DEFINE_integer("nbest", 1, "Hypotheses of a beam search that are written, at most --beam_size.", lower_bound=1)
flags.DEFINE_float("length_penalty", 0.0, "Beam: rank by ln p / ((5 + tokens) / 6)^x. Default: by ln p.", lower_bound=0.0)
flags.DEFINE_float("max_length_factor", 1.5, "A target has at most so many words for each of its source, or 10 if that is more.", lower_bound=0.0)
flags.DEFINE_integer("max_length", None, "A target has at most so many words, whatever its source. Default: --max_length_factor; 50 for a language model.", lower_bound=0)
flags.DEFINE_bool("suppress_unknown", False, "Generate no unknown word; otherwise it is written <unk>.")
flags.DEFINE_bool("escape", False, "Write targets with Moses's escapes, such as &apos;, as its data have them. An n-best list always has them.")
flags.DEFINE_string("feature_name", "RNN0", "Name of ln p in a Moses n-best list.")
flags.DEFINE_string("encoding", None, "Encoding of input and output. Default: UTF-8, and other bytes are an error.")

FLAGS = flags.FLAGS
# Lines decoded together: sources of like length among them share a batch.
WINDOW = 2048
# Words of a sentence that a language model generates, at most.
LONGEST = 50


def main(arguments):
    """Generates as the flags say."""
    sampler = _sampler()
    encoding = FileEncoding(FLAGS.encoding)
    if keras.backend.backend() != "tensorflow":
        keep_freed_memory()  # a quarter of the time under JAX and PyTorch; TensorFlow keeps it itself
    with InputLines(FLAGS.input) if FLAGS.input else contextlib.nullcontext() as lines, open_output(FLAGS.output) as output:
        generator = TextGenerator(FLAGS.model_dir, FLAGS.model_weight, FLAGS.average)
        _check_source(generator)
        limits = {"max_length_factor": FLAGS.max_length_factor, "max_length": FLAGS.max_length}
        if lines is None:
            limits["max_length"] = LONGEST if FLAGS.max_length is None else FLAGS.max_length
            _write(output, encoding, 0, [""], generator.generate([""], sampler, **limits))
            return
        texts, first = _texts(lines, encoding), 0
        with ReadingProgress(lines) as progress:
            while window := list(itertools.islice(texts, WINDOW)):
                _write(output, encoding, first, window, generator.generate(window, sampler, first=first, **limits))
                output.flush()
                first += len(window)
                progress.add(len(window))
    print(summary(progress, FLAGS.output), file=sys.stderr)


def _check_source(generator):
    if FLAGS.input and not generator.has_source:
        raise app.UsageError("found --input with a language model, expected none: it has no source.")
    if not FLAGS.input and generator.has_source:
        raise app.UsageError("found no --input, expected the source text to translate.")
    if FLAGS["max_length_factor"].present and (FLAGS.max_length is not None or not FLAGS.input):
        other = "with --max_length" if FLAGS.input else "with a language model, which has no source"
        raise app.UsageError(f"found --max_length_factor {other}; drop it, and give --max_length.")


def _write(output, encoding, first, sources, found):
    """Writes what was found for some sources, of which the first has this number."""
    write = {"text": _text, "tsv": _tsv, "moses_nbest": _moses_nbest}[FLAGS.format]
    for number, (source, hypotheses) in enumerate(zip(sources, found, strict=True), start=first):
        output.write(_encoded(write(number, source, hypotheses), encoding, number + 1))


def _sampler():
    if FLAGS.model_weight and len(FLAGS.model_weight) != len(FLAGS.model_dir):
        raise app.UsageError(
            f"found {len(FLAGS.model_weight)} --model_weight for {len(FLAGS.model_dir)} --model_dir, expected as many."
        )
    if wrong := [one for one in FLAGS.model_weight or () if not 0 < one < math.inf]:
        raise app.UsageError(f"found --model_weight={wrong[0]}, expected positive numbers.")
    if len(FLAGS.model_dir) == 1 and FLAGS["average"].present:
        raise app.UsageError("found --average with one --model_dir, expected several to average.")
    if not math.isfinite(FLAGS.max_length_factor):
        raise app.UsageError(f"found --max_length_factor={FLAGS.max_length_factor}, expected a number.")
    for name in ("nbest", "top"):
        if FLAGS.format == "text" and FLAGS[name].present and FLAGS[name].value > 1:
            raise app.UsageError(f"found --{name} with --format=text, which writes one a line; give --format=tsv.")
    if FLAGS.format != "moses_nbest" and FLAGS["feature_name"].present:
        raise app.UsageError(f"found --feature_name with --format={FLAGS.format}, expected it with --format=moses_nbest.")
    check_feature_name(FLAGS.feature_name)
    check_distinct_files(FLAGS.input, FLAGS.output if FLAGS.output != STANDARD_OUTPUT else None)
    for mode, names in {
        "sample": ("num_samples", "top", "temperature", "top_k", "top_p", "seed"),
        "beam": ("beam_size", "nbest", "length_penalty"),
    }.items():
        for name in names:
            if FLAGS[name].present and FLAGS.mode != mode:
                raise app.UsageError(f"found --{name} with --mode={FLAGS.mode}, expected it with --mode={mode}.")
    try:
        if FLAGS.mode == "sample":
            return RandomSampler(
                FLAGS.num_samples, FLAGS.temperature, FLAGS.top_k, FLAGS.top_p, FLAGS.seed, FLAGS.suppress_unknown
            )
        if FLAGS.mode == "beam":
            return BeamSampler(FLAGS.beam_size, FLAGS.nbest, FLAGS.length_penalty, FLAGS.suppress_unknown)
    except ValueError as error:
        sentence = str(error).replace("num_beams", "--beam_size").replace("num_best", "--nbest")
        raise app.UsageError(f"{sentence}.") from None
    return GreedySampler(FLAGS.suppress_unknown)


def _texts(lines, encoding):
    for raw in lines:
        try:
            text = encoding.decode(raw.removesuffix(b"\r"))
        except UnicodeDecodeError as error:
            raise undecodable(error, lines.path, lines.line_number) from None
        first = lines.line_number == 1 and encoding.is_utf8
        yield text.removeprefix(BYTE_ORDER_MARK) if first else text


def _encoded(text, encoding, line):
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"found that {error.object[error.start]!r} in what was generated is not in the encoding {FLAGS.encoding}",
            "expected one that has all of the model's words", "leave --encoding out, for UTF-8", FLAGS.input, line,
        ) from None  # fmt: skip


def _text(number, source, hypotheses):
    return _words(hypotheses[0]) + "\n"


def _tsv(number, source, hypotheses):
    given = [source.replace("\t", " ")] if FLAGS.input else []
    rows = [[*given, _words(one), f"{one.log_prob:.6f}"] for one in hypotheses]
    if FLAGS.mode == "sample":
        rows = [[*row, str(one.count)] for row, one in zip(rows, hypotheses, strict=True)]
    return "".join("\t".join(row) + "\n" for row in rows[: _written()])


def _words(hypothesis):
    text = " ".join(hypothesis.words)
    return escape(text) if FLAGS.escape else text


def _moses_nbest(number, source, hypotheses):
    return "".join(
        f"{number} ||| {escape(' '.join(one.words))}  ||| {FLAGS.feature_name}= {one.log_prob:.6f} ||| {one.score:.6g}\n"
        for one in hypotheses[: _written()]
    )


def _written():
    return FLAGS.top if FLAGS.mode == "sample" else FLAGS.nbest


def run():
    """Entry point of `encdec-generate`."""
    run_command(main, ("model_dir",))


if __name__ == "__main__":
    run()
