"""Computes the encoder's vectors of words and phrases, and projects vectors to two dimensions."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from keras import ops

from keras_encdec.backend.types import Encoded, Structure
from keras_encdec.data.batches import length_batches, pad
from keras_encdec.data.rare_word_batches import by_length, local_sources
from keras_encdec.formats import FilePath, model_words
from keras_encdec.formats.fields import check_texts, split_tokens
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.vocabulary import FIRST_WORD, OpenVocabulary, spelled

# Maximum number of sources that are encoded together, and of their tokens, including padding.
MAX_ROWS, MAX_TOKENS = 512, 1 << 14


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Vectors with names.

    Attributes:
        names: list of n str.
        array: float32 array `(n, width)`.
    """

    names: list[str]
    array: np.ndarray

    def with_others(self, others: "Vectors") -> "Vectors":
        """Returns other vectors of the same width, followed by these vectors."""
        return Vectors([*others.names, *self.names], np.concatenate([others.array, self.array]))

    def neighbours(self, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
        """Finds the nearest neighbours of each vector by cosine similarity.

        Args:
            size: int. Number of neighbours, limited to n - 1. Defaults to `8`.

        Returns:
            tuple of arrays `(n, size)`: int64 indices, the nearest first, and float32 similarities.

        Example:

        >>> vectors = Vectors(["a", "b", "c"], np.array([[1, 0], [0, 1], [2, 1]], "float32"))
        >>> [vectors.names[i] for i in vectors.neighbours(1)[0][:, 0]]
        ['c', 'c', 'a']
        """
        units = self.array / np.maximum(np.linalg.norm(self.array, axis=1, keepdims=True), 1e-12)
        size = min(size, len(units) - 1)
        indices, similarities = [], []
        for start in range(0, len(units), 1024):
            near = units[start : start + 1024] @ units.T
            near[np.arange(len(near)), start + np.arange(len(near))] = -np.inf  # a vector is not its own neighbour
            best = np.argpartition(-near, size - 1, axis=1)[:, :size]
            order = np.argsort(-np.take_along_axis(near, best, axis=1), axis=1, kind="stable")
            indices.append(np.take_along_axis(best, order, axis=1))
            similarities.append(np.take_along_axis(near, indices[-1], axis=1))
        return np.concatenate(indices), np.concatenate(similarities)


# Frequency ranks at which the words of a map are divided into groups. Most words up to the first are function words.
RANKS = (100, 500)


def word_groups(words: Sequence[str]) -> dict[str, np.ndarray]:
    """Groups words into those without letters or with digits, capitalized words, and the others by their frequency.

    Args:
        words: list of str, the most frequent first.

    Returns:
        dict from the name of a group to int array, the indices of its words. Each word is in one; no group is empty.

    Example:

    >>> {name: group.tolist() for name, group in word_groups(["the", ",", "2nd", "Paris"]).items()}
    {'rank 1 to 100': [0], 'digits and punctuation': [1, 2], 'capitalized': [3]}
    """
    first, second = RANKS
    frequent, common, rare = f"rank 1 to {first}", f"rank {first + 1} to {second}", f"rank above {second}"
    other, capitalized = "digits and punctuation", "capitalized"

    def group(index: int, word: str) -> str:
        if any(letter.isdigit() for letter in word) or not any(letter.isalpha() for letter in word):
            return other
        if word[0].isupper():
            return capitalized
        return frequent if index < first else common if index < second else rare

    return _grouped(
        [group(index, word) for index, word in enumerate(words)], (frequent, common, other, capitalized, rare)
    )


def length_groups(phrases: Sequence[str]) -> dict[str, np.ndarray]:
    """Groups phrases by their number of words, the longest together; returns a dict like `word_groups`."""
    lengths = [len(split_tokens(phrase)) for phrase in phrases]
    distinct = sorted(set(lengths))
    names = [f"{length} words" if length != 1 else "1 word" for length in distinct]
    if len(distinct) > 5:
        names[4:] = [f"{distinct[4]} words or more"] * len(names[4:])
    return _grouped([names[distinct.index(length)] for length in lengths], list(dict.fromkeys(names)))


def _grouped(group_of: Sequence[str], names: Sequence[str]) -> dict[str, np.ndarray]:
    groups = {name: np.flatnonzero([group == name for group in group_of]) for name in names}
    return {name: members for name, members in groups.items() if len(members)}


def encoder_symbols(directory: ModelDirectory) -> dict[str, Structure]:
    """Returns the encoder's weights by their symbols, see `Encoder.symbols`; an empty dict if it defines none."""
    try:
        return directory.model.encoder.symbols()
    except NotImplementedError:
        return {}


def word_vectors(directory: FilePath | ModelDirectory, size: int) -> Vectors | None:
    """Returns the embeddings of the most frequent source words; `None` if the encoder has no symbol "source.E".

    Args:
        directory: ModelDirectory, or the path of one.
        size: int. Maximum number of words.
    """
    directory = ModelDirectory.open(directory)
    if "source.E" not in (symbols := encoder_symbols(directory)):
        return None
    words = directory.source_vocabulary.words[:size]
    embeddings, columns = symbols["source.E"]
    rows = ops.convert_to_numpy(embeddings)[FIRST_WORD : FIRST_WORD + len(words), columns]
    return Vectors(list(words), np.asarray(rows, np.float32))


def rare_word_vectors(directory: ModelDirectory, words: Sequence[str]) -> Vectors:
    """Computes the vectors of words from their characters, as the encoder reads words outside its shortlist."""
    reader, characters = directory.model.encoder.reader, directory.source_vocabulary.characters
    assert reader is not None and characters is not None
    array = np.zeros((len(words), reader.width), np.float32)
    for start in range(0, len(words), MAX_ROWS):
        for group in by_length(spelled(words[start : start + MAX_ROWS], characters)):
            if rows := len(group.indices):
                vectors = ops.convert_to_numpy(ops.cast(reader(group.characters), "float32"))
                array[start + group.indices] = vectors[:rows]
    return Vectors(list(words), array)


def phrase_vectors(
    directory: FilePath | ModelDirectory,
    phrases: Sequence[str],
    encode: Callable[[np.ndarray, list[np.ndarray]], Encoded] | None = None,
) -> Vectors:
    """Encodes phrases: the vectors are the summary c, or the last states of all layers, concatenated.

    Args:
        directory: ModelDirectory, or the path of one.
        phrases: list of str, source phrases as in a phrase table.
        encode: callable with the arguments and the result of `model.encode`: ids, and the characters of rare words.
            Defaults to `None`: `model.encode`.

    Returns:
        Vectors. The names are the phrases without factors and Moses's escapes.
    """
    check_texts(phrases)
    directory = ModelDirectory.open(directory)
    words = list(map(model_words, phrases))
    vocabulary = OpenVocabulary(directory.source_vocabulary)
    ids = [vocabulary.encode(phrase) for phrase in words]
    model, spellings = directory.model, vocabulary.spellings
    names = [name for name, spec in model.encoder.encoded_spec.items() if spec.time_axis is None]
    array = np.empty((0, 0), np.float32)
    for indices, _, width in length_batches(list(map(len, ids)), MAX_ROWS, MAX_TOKENS):
        batch, characters = pad([ids[index] for index in indices], width), []
        if spellings is not None:
            batch, characters = local_sources(batch, FIRST_WORD + len(directory.source_vocabulary), spellings)
        encoded = (encode or model.encode)(batch, characters)
        tensors = [np.asarray(ops.convert_to_numpy(ops.cast(encoded[name], "float32"))) for name in names]
        rows = np.concatenate(tensors, axis=1)
        if not array.size:
            array = np.empty((len(ids), rows.shape[1]), np.float32)
        array[indices] = rows
    return Vectors([" ".join(phrase) for phrase in words], array)


PERPLEXITY = 30
# With fewer points, t-SNE has no neighbourhoods to preserve.
LEAST = 8


def project(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """Projects vectors to two dimensions by Barnes-Hut t-SNE, so that near vectors stay near.

    Args:
        vectors: float array `(n, width)`.
        seed: int. Defaults to `0`.

    Returns:
        float64 array `(n, 2)`, of mean 0. With fewer than 8 vectors, it is their first two principal components.

    Reference:
        - van der Maaten, 2013 (arXiv 1301.3342): Barnes-Hut-SNE, as in section 4.4 of the paper
    """
    centred = np.asarray(vectors, np.float64)
    centred = centred - centred.mean(axis=0)
    if len(centred) < LEAST:
        left, scales, _ = np.linalg.svd(centred, full_matrices=False)
        plane = np.zeros((len(centred), 2))
        plane[:, : min(2, len(scales))] = (left * scales)[:, :2]
        return plane
    from openTSNE import TSNE

    tsne = TSNE(
        perplexity=min(PERPLEXITY, (len(centred) - 1) / 3),
        initialization="pca",
        negative_gradient_method="bh",
        metric="cosine",
        n_jobs=1,
        random_state=seed,
    )
    # Without noise, equal vectors, such as those of phrases of unknown words only, would have the distance 0.
    noise = np.random.default_rng(seed).normal(0, 1e-6 * max(float(centred.std()), 1e-12), centred.shape)
    plane = np.asarray(tsne.fit(np.asarray(vectors, np.float64) + noise))
    plane -= plane.mean(axis=0)
    return plane
