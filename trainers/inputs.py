"""What the training command trains and validates on, as its flags say."""

import contextlib
import math

from absl import app

from keras_encdec.data import Batches, PreparedPairs, open_pairs, prepare
from keras_encdec.formats import open_output
from keras_encdec.formats.os_errors import explained
from keras_encdec.scoring import ModelDirectory
from keras_encdec.text import Tokenizer, Vocabulary
from keras_encdec.trainers.flags import FLAGS

LONGEST_VALIDATED = 1000


def prepared_pairs(folder):
    """The model directory, without a model yet, and the prepared pairs; made now or found."""
    if FLAGS.resume:
        directory = ModelDirectory.load(folder, weights=False)
        if directory.reverse != FLAGS.reverse:
            raise app.UsageError(f"{folder} was trained {'with' if directory.reverse else 'without'} --reverse.")
        vocabularies = directory.source_vocabulary, directory.target_vocabulary
        if (folder / "prepared").exists():
            return directory, PreparedPairs(folder / "prepared")
    else:
        directory = None
        vocabularies = tuple(
            Vocabulary.load(path) if path else None for path in (FLAGS.source_vocabulary, FLAGS.target_vocabulary)
        )
        if FLAGS.language_model:
            vocabularies = Vocabulary([]), vocabularies[1]
    with explained(folder, "to make a directory"):
        folder.mkdir(parents=True, exist_ok=True)
    tokenization = {"lowercase": FLAGS.lowercase} if FLAGS.tokenize else None
    given = [FLAGS[name].value for name in ("phrase_table", "tsv", "source", "target") if FLAGS[name].value]
    with _removed_if_empty(folder), _open(given, tokenization) as (records, reader):
        pairs, *vocabularies = prepare(
            records, folder / "prepared", FLAGS.shortlist, FLAGS.max_length, FLAGS.seed, vocabularies,
            empty_sources=FLAGS.language_model,
        )  # fmt: skip
        _print_prepared(pairs.summary, reader.malformed, vocabularies)
    if directory is None:
        directory = ModelDirectory(folder, *vocabularies, FLAGS.reverse, tokenization)
        with open_output(folder / "flags.txt") as file:
            file.write(FLAGS.flags_into_string().encode())
    return directory, pairs


@contextlib.contextmanager
def _removed_if_empty(folder):
    """After an exception removes the folder unless it holds something."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


@contextlib.contextmanager
def _open(paths, tokenization):
    """The pairs of one file or of two in the form of the training data, and their reader.

    A language model's pairs have no sources.
    """
    form = "phrase_table" if FLAGS.phrase_table else "tsv" if FLAGS.tsv else "parallel" if FLAGS.source else "sentences"
    with open_pairs(
        **{form: tuple(paths) if form == "parallel" else paths[0]},
        encoding=FLAGS.encoding,
        on_error=FLAGS.on_error,
        tokenizer=tokenization and Tokenizer(**tokenization),
        reverse=FLAGS.reverse,
    ) as (records, reader):
        yield (([], target) for _, target in records) if FLAGS.language_model else records, reader


def _print_prepared(summary, malformed, vocabularies):
    what = "targets" if FLAGS.language_model else "pairs"
    print(
        f"{summary['unique']:,} unique {what} of {summary['read']:,}; left out: {summary['too_long']:,} longer than "
        f"{FLAGS.max_length} words, {summary['empty']:,} with an empty side, {malformed:,} malformed."
    )
    for side, vocabulary in zip(("source", "target"), vocabularies, strict=True):
        if side == "source" and FLAGS.language_model:
            continue
        share = 100 * summary[f"{side}_unknown"] / summary[f"{side}_tokens"]
        print(f"{side}: {len(vocabulary):,} words in the shortlist; {share:.2f} % of the tokens are other words.")


def validation_batches(directory, pairs):
    """What to validate on, Batches or `None`, and the places of the pairs to train on."""
    if FLAGS.validation:
        with _open(FLAGS.validation, directory.tokenization) as (records, _):
            held_out, *_ = prepare(
                records, directory.path / "validation", max_length=LONGEST_VALIDATED,
                vocabularies=(directory.source_vocabulary, directory.target_vocabulary),
                empty_sources=FLAGS.language_model,
            )  # fmt: skip
        return Batches(held_out, FLAGS.batch_size), range(len(pairs))
    share = min(FLAGS.held_out_pairs, math.ceil(FLAGS.held_out_fraction * len(pairs)), len(pairs) - 1)
    if share <= 0:
        return None, range(len(pairs))
    # The pairs are in random order on disk: the first of them are a random sample.
    return Batches(pairs, FLAGS.batch_size, range(share)), range(share, len(pairs))
