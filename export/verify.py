"""encdec-verify: compares the scores of an exported model with those of the model it was made from."""

import keras_encdec.export.on_tensorflow  # isort: skip  # noqa: F401

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
from absl import app, flags
from keras import ops

from keras_encdec.cli.command import run_command
from keras_encdec.data import pad
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.errors import InputError
from keras_encdec.export.server_error import ServerError
from keras_encdec.export.translation_directory import load_translation_model
from keras_encdec.export.versions import DESCRIPTION, versions
from keras_encdec.formats import PhraseTableReader, TsvReader, model_words
from keras_encdec.formats.escaping import surface
from keras_encdec.scoring.scorer import in_dtype
from keras_encdec.text import Tokenizer

flags.DEFINE_string("model_dir", None, "Directory of the model.")
flags.DEFINE_string("export_dir", None, "Folder of its exported versions.")
flags.DEFINE_integer("version", None, "Version to compare. Default: the newest.", lower_bound=1)
flags.DEFINE_string("input", None, "Pairs to score. Default: lines of the phrase table that the package carries.")
flags.DEFINE_enum("format", "tsv", ["phrase_table", "tsv"], "Format of the input.")
flags.DEFINE_string("encoding", None, "Encoding of the input. Default: UTF-8.")
flags.DEFINE_integer("pairs", 1000, "How many of the first pairs to compare.", lower_bound=1)
flags.DEFINE_list("backends", [], "Compare what encdec-score gives on these backends too: tensorflow, jax, torch.")

FLAGS = flags.FLAGS
BACKENDS = ["tensorflow", "jax", "torch"]
# Pairs that the model computes together; few, as it has the logits of all their tokens in memory.
BATCH = 16
# Nats. Of a score so low that float32 holds no more of it, the part that follows.
TOLERANCE, PART = 1e-5, 1e-6
# Between backends, and between the model's equations and the scorer that shares states: other roundings.
BACKENDS_TOLERANCE = 1e-4


def main(arguments):
    """Compares as the flags say."""
    unknown = [backend for backend in FLAGS.backends if backend not in BACKENDS]
    if unknown:
        raise app.UsageError(f"found the backend {unknown[0]!r}, expected some of {', '.join(BACKENDS)}.")
    version = _version()
    description = _description(version)
    directory = load_translation_model(FLAGS.model_dir)
    texts = _given_texts() if FLAGS.input else _own_texts(directory)
    raw = description["reads"] == "raw text"
    sides = [side for pair in texts for side in pair]
    # As the exported model reads them, which may be tokens although the model was trained on raw text.
    tokenize = Tokenizer(**description["tokenization"]).words if raw else _tokens
    read = tokenize(sides)
    words = list(zip(read[::2], read[1::2], strict=True))
    expected = _scores(directory, words)
    request = {"path": os.fspath(version), "pairs": texts, "text": raw}
    # By its path, so that this package is not imported.
    script = [sys.executable, "-P", os.fspath(pathlib.Path(__file__).with_name("saved_model_scores.py"))]
    exported = _run(script, {**request, "batch_size": 64}, version)
    tolerance = np.maximum(TOLERANCE, PART * np.abs(expected))
    _compare("exported", exported, expected, texts, tolerance)
    alone = texts[: len(texts) // 10 + 1]
    scores = _run(script, {**request, "pairs": alone, "batch_size": 1}, version)
    _compare("exported, one at a time", scores, expected[: len(alone)], alone, tolerance[: len(alone)])
    for backend in FLAGS.backends:
        script = [sys.executable, "-m", "keras_encdec.export.backend_scores"]
        scores = _run(script, {"path": FLAGS.model_dir, "pairs": words}, FLAGS.model_dir, KERAS_BACKEND=backend)
        tolerance = np.maximum(BACKENDS_TOLERANCE, 10 * PART * np.abs(expected))
        _compare(f"encdec-score on {backend}", scores, expected, texts, tolerance)


def _version():
    folder = pathlib.Path(FLAGS.export_dir)
    found = versions(folder)
    number = FLAGS.version or max(found, default=0)
    if number not in found:
        listed = ", ".join(map(str, found)) or "none"
        raise InputError(
            f"found the versions {listed}", f"expected {number or 'one'} among them",
            "export one first (encdec-export)", folder,
        )  # fmt: skip
    return folder / str(number)


def _description(version):
    path = version / "assets.extra" / DESCRIPTION
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        return {name: description[name] for name in ("reads", "tokenization")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"found no description of the version that reads ({error})", "expected what encdec-export writes",
            "export the model again", path,
        ) from None  # fmt: skip


def _given_texts():
    """Pairs of str as a client would send them."""
    table = FLAGS.format == "phrase_table"
    with (PhraseTableReader if table else TsvReader)(FLAGS.input, FLAGS.encoding, "keep") as reader:
        good = (record for record in reader if not record.problem)
        some = [(record.source, record.target) for record in itertools.islice(good, FLAGS.pairs)]
    if reader.malformed:
        print(f"{reader.malformed:,} malformed lines were left out.", file=sys.stderr)
    if not some:
        raise InputError("found no pair", "expected one at least", "check --format", FLAGS.input)
    return [tuple(map(surface, pair)) for pair in some] if table else some


def _own_texts(directory):
    """Half of them from the table that the package carries, half of the model's own words."""
    with PhraseTableReader(libreoffice_en_fr().phrase_table) as reader:
        carried = [(record.source, record.target) for record in itertools.islice(reader, FLAGS.pairs // 2)]
    vocabularies = _ordered(directory, (directory.source_vocabulary, directory.target_vocabulary))
    random = np.random.default_rng(0)
    made = [
        tuple(" ".join(random.choice(vocabulary.words, random.integers(1, 8))) for vocabulary in vocabularies)
        for _ in range(FLAGS.pairs - len(carried))
    ]
    return carried + made


def _ordered(directory, sides):
    """The user's source and target to the model's own, and back."""
    return sides[::-1] if directory.reverse else sides


def _tokens(texts):
    return [model_words(text, factored=False) for text in texts]


def _scores(directory, words):
    """ln p by the equations as they stand, in float32: float64 array `(n,)`, nats."""
    model = in_dtype(directory.model, "float32")
    read, predicted = directory.source_vocabulary, directory.target_vocabulary
    scores = []
    for start in range(0, len(words), BATCH):
        pairs = [_ordered(directory, pair) for pair in words[start : start + BATCH]]
        source, target = pad([read.encode(s) for s, _ in pairs]), pad([predicted.encode(t) for _, t in pairs])
        scores.extend(ops.convert_to_numpy(model.token_log_probs(source, target)).sum(axis=1, dtype=np.float64))
    return np.array(scores)


def _run(command, request, path, **environment):
    """What a process of its own answers to a request that is about a path."""
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        told = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .*|^.*assertion failed: .*", done.stderr, re.MULTILINE)
        reason = (told or done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise InputError(
            f"found that scoring failed ({ServerError('', reason).message})", "expected scores",
            "give pairs within the limits, or export the model again", path,
        )  # fmt: skip
    return np.array(json.loads(done.stdout))


def _compare(what, scores, expected, texts, tolerance):
    differences = np.abs(scores - expected)
    worst = int((differences / tolerance).argmax())
    # Not "over", which no comparison with NaN would be.
    if not (differences <= tolerance).all():
        source, target = texts[worst]
        raise InputError(
            f"found ln p {scores[worst]:.7f} ({what}) of the pair {source!r}, {target!r}",
            f"expected the model's own {expected[worst]:.7f}, within {tolerance[worst]:.0e}",
            "check that --model_dir is what was exported, and export it again", FLAGS.export_dir,
        )  # fmt: skip
    print(f"{what}: {len(texts):,} pairs, largest difference {differences.max():.1e} nats")


def run():
    """Entry point of `encdec-verify`."""
    run_command(main, ("model_dir", "export_dir"))


if __name__ == "__main__":
    run()
