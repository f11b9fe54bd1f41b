"""Compares the scores of an exported model with the scores of the model itself."""

import dataclasses
import itertools
import os
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_encdec.data import pad
from keras_encdec.data.rare_word_batches import with_source_characters, with_target_characters
from keras_encdec.errors import InputError
from keras_encdec.formats import model_words, pair_format
from keras_encdec.formats.encodings import surface
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.translation_model import ModelInDtype
from keras_encdec.runtime.progress import counted
from keras_encdec.text import Tokenizer
from keras_encdec.text.vocabulary import FIRST_WORD, OpenVocabulary, Vocabulary

# Number of pairs in a batch. It is small because the logits of all tokens are in memory.
BATCH = 16
# Allowed difference in nats, and that of models with characters, where ln p of a word is a sum over its characters, all
# rounded.
TOLERANCE, CHARACTERS_TOLERANCE = 1e-5, 1e-4


@dataclasses.dataclass(frozen=True)
class ScoreDifference:
    """The largest difference between a scorer's scores and the model's own. It is within the tolerance.

    Attributes:
        scorer: str. Name of the scorer, such as "exported".
        pairs: int. Number of pairs.
        largest_difference: float. Nats.
    """

    scorer: str
    pairs: int
    largest_difference: float

    def __str__(self) -> str:
        pairs = counted(self.pairs, "pairs")
        return f"{self.scorer}: {pairs}, largest difference {self.largest_difference:.1e} nats"


def random_pairs(directory: ModelDirectory, number: int) -> list[tuple[str, str]]:
    """Makes pairs of random words from a model's vocabularies, and of random characters if it has characters.

    It leaves out words that are not valid UTF-8.
    """
    vocabularies = directory.user_vocabularies
    sources, targets = ([word for word in each.words if is_utf8(word)] for each in vocabularies)
    random = np.random.default_rng(0)

    def rare_words(characters: Vocabulary | None) -> list[str]:
        letters = ["\u0301", *filter(is_utf8, characters.words)] if characters is not None else ()
        return ["".join(random.choice(letters, random.integers(1, 20))) for _ in range(number if letters else 0)]

    sources, targets = (
        words + rare_words(vocabulary.characters)
        for words, vocabulary in zip((sources, targets), vocabularies, strict=True)
    )

    def phrase(words: Sequence[str]) -> str:
        return " ".join(random.choice(words, random.integers(1, 8)) if words else ())

    return [(phrase(sources), phrase(targets)) for _ in range(number)]


def pairs_of_words(
    texts: Sequence[tuple[str, str]], tokenization: dict[str, bool] | None
) -> list[tuple[list[str], list[str]]]:
    """Splits pairs of texts into words as an exported model with this `tokenization`, or with none, does."""
    words = served_words([side for pair in texts for side in pair], tokenization)
    return list(zip(words[::2], words[1::2], strict=True))


def served_words(texts: Sequence[str], tokenization: dict[str, bool] | None) -> list[list[str]]:
    """Splits each text into words as the exported model does, see `pairs_of_words`."""
    if tokenization is None:
        return [model_words(text, factored=False) for text in texts]
    return Tokenizer(**tokenization).words(texts)


def fitting_pairs(
    texts: Sequence[tuple[str, str]], tokenization: dict[str, bool] | None, max_tokens: int
) -> list[tuple[str, str]]:
    """Returns the pairs whose sides both have at most `max_tokens` tokens, as an exported model reads them."""
    words = pairs_of_words(texts, tokenization)
    return [text for text, sides in zip(texts, words, strict=True) if max(map(len, sides)) <= max_tokens]


def model_scores(directory: ModelDirectory, words: Sequence[tuple[list[str], list[str]]]) -> np.ndarray:
    """Computes ln p of n pairs of words with the Keras model in float32: float64 array `(n,)`, nats.

    Unlike the scorers, it shares no states between pairs.
    """
    model = ModelInDtype(directory.model, "float32").model
    read, predicted = directory.source_vocabulary, directory.target_vocabulary
    scores = []
    for start in range(0, len(words), BATCH):
        pairs = [directory.reordered(pair) for pair in words[start : start + BATCH]]
        sources, targets = OpenVocabulary(read), OpenVocabulary(predicted)
        source, target = pad([sources.encode(s) for s, _ in pairs]), pad([targets.encode(t) for _, t in pairs])
        inputs: dict[str, np.ndarray] = {"source": source, "target": target}
        if sources.spellings is not None:
            inputs |= with_source_characters(source, FIRST_WORD + len(read), sources.spellings)
        if targets.spellings is not None:
            inputs |= with_target_characters(target, FIRST_WORD + len(predicted), targets.spellings)
        scores.extend(ops.convert_to_numpy(model(inputs)).sum(axis=1, dtype=np.float64))
    return np.array(scores)


def allowed_difference(directory: ModelDirectory) -> float:
    """Returns the `tolerance` of a model's scores, see `check_scores`."""
    vocabularies = directory.source_vocabulary, directory.target_vocabulary
    return TOLERANCE if all(each.characters is None for each in vocabularies) else CHARACTERS_TOLERANCE


def check_scores(
    scorer: str,
    scores: np.ndarray,
    expected: np.ndarray,
    texts: Sequence[tuple[str, str]],
    export_dir: str | os.PathLike[str],
    remedy: str,
    tolerance: float,
) -> ScoreDifference:
    """Checks that scores agree with the model's own.

    Args:
        scorer: str. Name of the scorer, for the error and the result.
        scores: float array `(n,)`, nats, of the first n pairs.
        expected: float array of the model's own scores, at least n, nats.
        texts: list of pairs, for the error.
        export_dir: path, for the error.
        remedy: str. What the user should do, for the error.
        tolerance: float. Allowed difference in nats; below ln p = -10, it grows in proportion to -ln p.

    Raises:
        InputError: if a score differs by more than the tolerance, or is NaN.
    """
    expected = expected[: len(scores)]
    allowed = tolerance * np.maximum(1, np.abs(expected) / 10)
    differences = np.abs(scores - expected)
    worst = int((differences / allowed).argmax())
    # `(differences > allowed).any()` would be false for NaN.
    if not (differences <= allowed).all():
        source, target = texts[worst]
        raise InputError(
            f"found ln p {scores[worst]:.7f} ({scorer}) of the pair {source!r}, {target!r}",
            f"expected the model's own {expected[worst]:.7f}, within {allowed[worst]:.0e}",
            remedy,
            export_dir,
        )
    return ScoreDifference(scorer, len(scores), float(differences.max()))


def is_utf8(text: str) -> bool:
    """Returns whether a text has no lone surrogates, which stand for bytes that could not be decoded."""
    return text.encode("utf-8", "ignore").decode() == text


def read_pairs(
    path: str | os.PathLike[str], format: str = "tsv", encoding: str | None = None, number: int | None = None
) -> tuple[list[tuple[str, str]], int]:
    """Reads the first pairs of a file.

    Args:
        path: the file, plain or gzipped.
        format: str. Name of a registered format with its pairs in one file. Defaults to "tsv".
        encoding: str. Defaults to `None`: UTF-8.
        number: int. Pairs to read at most. Defaults to `None`: all.

    Returns:
        tuple: list of pairs, source and target; int, the number of malformed lines that were skipped.

    Raises:
        InputError: if the file cannot be read, or has no well-formed pair.
    """
    file_format = pair_format(format)
    if number == 0:
        return [], 0
    with file_format.open_reader(path, None, encoding, "keep") as reader:
        good = (record for record in reader if not record.problem)
        pairs = [(record.source, record.target) for record in itertools.islice(good, number)]
    if not pairs:
        raise InputError("found no pair", "expected at least one", "check --format", path)
    if file_format.is_factored:
        pairs = [(surface(source), surface(target)) for source, target in pairs]
    return pairs, reader.malformed
