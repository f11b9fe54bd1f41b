"""Builds the packaged phrase table from Debian's LibreOffice packages.

    python -m keras_encdec.cli.build_dataset --debs=DIR --output=DIR

On Debian 12, this command downloads the packages, into the current directory:

    apt-get download libreoffice-help-en-us libreoffice-help-fr libreoffice-l10n-fr
"""

import gzip
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from absl import logging
from tqdm import tqdm

from keras_encdec.data.alignment import align
from keras_encdec.datasets.libreoffice import TextPair, read_texts
from keras_encdec.errors import InputError
from keras_encdec.formats.fields import finite_number, split_tokens
from keras_encdec.smt.extraction.phrase_scoring import score_phrases

SentencePair = tuple[Sequence[str], Sequence[str]]

TABLE_LIMIT = 20
MAX_PAIRS = 50_000
MIN_COUNT = 2
MIN_PROBABILITY = 0.01
MIN_WORD_WEIGHT = 0.02

# Tokens other than words that a phrase may contain. A phrase begins and ends with a word; a target may end with &apos;.
_INSIDE = frozenset({",", "-", "&apos;"})
# French words that are incomplete without their apostrophe.
_ELIDED = frozenset({"c", "d", "j", "l", "m", "n", "qu", "s", "t"})
_SENTENCE_END = re.compile(r'(?<=[.!?])\s+(?=[^\W\d_a-zà-ÿ]|["“«(])')
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_MAX_WORDS = 60
_MAX_RATIO = 3


def build(
    debs: str | os.PathLike[str],
    output: str | os.PathLike[str],
    held_out: int = 1000,
    seed: int = 1,
    sentences: int = 20_000,
) -> None:
    """Writes `phrase-table.gz`, `train.en.gz`, `train.fr.gz`, `dev.en`, `dev.fr`, `test.en` and `test.fr`.

    Args:
        debs: path of the directory with the .deb files.
        output: path of the directory to write to, made if it is missing.
        held_out: int. Sentence pairs in each of dev and test. Defaults to 1000.
        seed: int. Random seed. Defaults to 1.
        sentences: int. Maximum number of sentence pairs in train, drawn from those that the table is extracted from.
            Defaults to 20,000.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    training, *held_out_sets = hold_out(make_corpus(read_texts(debs)), held_out, seed)
    logging.info("training: %d sentence pairs", len(training))
    alignments = align([source for source, _ in training], [target for _, target in training])
    table = list(tqdm(score_phrases(training, alignments), "scoring", disable=None))
    logging.info("phrase pairs: %d", len(table))
    chosen = select(table)
    logging.info("phrase pairs chosen: %d", len(chosen))

    drawn = sorted(random.Random(seed).sample(range(len(training)), min(sentences, len(training))))
    sets = {"train": [training[index] for index in drawn], **dict(zip(("dev", "test"), held_out_sets, strict=True))}
    for name, pairs in sets.items():
        for side, language in enumerate(("en", "fr")):
            path = folder / f"{name}.{language}{'.gz' if name == 'train' else ''}"
            _write(path, [" ".join(pair[side]) for pair in pairs])
    _write(folder / "phrase-table.gz", chosen)


def make_corpus(texts: Iterable[TextPair]) -> list[SentencePair]:
    """Splits pairs of texts into distinct, clean pairs of tokenized and lowercased sentences.

    Args:
        texts: list of `(english, french)`.

    Returns:
        list of `(source_words, target_words)`.
    """
    from keras_encdec.text.tokenizer import Tokenizer

    sentences = [pair for text in texts for pair in split_sentences(*text)]
    tokenizer = Tokenizer(lowercase=True)
    sides = [
        [line.decode("utf-8") for line in tokenizer([normalize(text) for text in side]).numpy()]
        for side in zip(*sentences, strict=True)
    ]
    distinct = [tuple(split_tokens(line) for line in pair) for pair in dict.fromkeys(zip(*sides, strict=True))]
    clean: list[SentencePair] = [(source, target) for source, target in distinct if is_clean(source, target)]
    logging.info("sentence pairs: %d, distinct: %d, clean: %d", len(sentences), len(distinct), len(clean))
    logging.info("up to 10 words on both sides: %d", sum(max(map(len, pair)) <= 10 for pair in clean))
    return clean


def select(lines: Iterable[str], max_pairs: int = MAX_PAIRS) -> list[str]:
    """Chooses the sources of a phrase table that cover most of its corpus, each with all its useful targets.

    A pair can be chosen when

    - it was extracted at least twice: most pairs that were extracted once come from a wrong alignment;
    - both phrases are made of words (letters only), commas, hyphens and apostrophes, and begin and end with a word; the
      target may also end with an apostrophe, but not with an elided word that lacks it (`l`, `qu`);
    - the longer phrase has at most 2 words more than twice the words of the shorter one;
    - p(e|f) is at least 0.01, and the geometric mean of each lexical weight over its words is at least 0.02.

    The options of a source are its 20 such pairs with the highest p(e|f); Moses also considers 20 by default. Sources
    are sorted by the number of words of the corpus that they cover (occurrences times length), and taken with all their
    options until the next one would exceed `max_pairs`. Scores and counts remain those of the whole table.

    Args:
        lines: iterable of str, the lines of the whole table, as `score_phrases` makes them.
        max_pairs: int. Maximum number of lines to choose. Defaults to 50,000.

    Returns:
        list of str: the chosen lines, in the order of their bytes.
    """
    options: dict[tuple[float, str], list[tuple[float, str]]] = {}
    for line in lines:
        source, target, score_field, _, counts = line.split(" ||| ")[:5]
        scores = [finite_number(score) for score in split_tokens(score_field)]
        _, source_count, count = map(finite_number, split_tokens(counts))
        if count >= MIN_COUNT and is_useful(split_tokens(source), split_tokens(target), scores):
            covered = source_count * len(split_tokens(source))
            options.setdefault((-covered, source), []).append((-scores[2], line))
    chosen: list[str] = []
    for coverage in sorted(options):
        best = sorted(options[coverage])[:TABLE_LIMIT]
        if len(chosen) + len(best) > max_pairs:
            break
        chosen.extend(line for _, line in best)
    return sorted(chosen)


def is_useful(source: Sequence[str], target: Sequence[str], scores: Sequence[float]) -> bool:
    """Whether `select` can choose a phrase pair that was extracted at least twice.

    Args:
        source, target: lists of str, escaped tokens.
        scores: list of the four scores.
    """
    short, long = sorted((len(source), len(target)))
    _, lexical_source, probability, lexical_target = scores
    return (
        long <= 2 * short + 2
        and probability >= MIN_PROBABILITY
        and lexical_source >= MIN_WORD_WEIGHT ** len(source)
        and lexical_target >= MIN_WORD_WEIGHT ** len(target)
        and all(word.isalpha() or word in _INSIDE for word in (*source, *target))
        and all(word.isalpha() for word in (source[0], source[-1], target[0]))
        and (target[-1].isalpha() or target[-1] == "&apos;")
        and target[-1] not in _ELIDED
    )


def split_sentences(source: str, target: str) -> list[tuple[str, str]]:
    """Splits a pair of paragraphs into sentences if both have the same number of sentences.

    >>> split_sentences("Click it. Close.", "Cliquez. Fermez.")
    [('Click it.', 'Cliquez.'), ('Close.', 'Fermez.')]
    """
    sources, targets = _SENTENCE_END.split(source), _SENTENCE_END.split(target)
    return list(zip(sources, targets, strict=True)) if len(sources) == len(targets) else [(source, target)]


def normalize(text: str) -> str:
    """Removes invisible characters and replaces the typographic apostrophe with the plain one.

    >>> normalize("l’\u200bété")
    "l'été"
    """
    return _INVISIBLE.sub("", text).replace("’", "'")


def is_clean(source: Sequence[str], target: Sequence[str]) -> bool:
    """Whether two token lists look like a sentence and its translation.

    Both have a letter and at most 60 tokens. One side is at most 3 times as long as the other, or at most 3 tokens
    longer. If the two sides are equal, they have at most two tokens: a longer text was not translated.

    Args:
        source, target: lists of str.
    """
    short, long = sorted((len(source), len(target)))
    return (
        short > 0
        and long <= _MAX_WORDS
        and (long <= _MAX_RATIO * short or long - short <= 3)
        and (source != target or long <= 2)
        and all(any(map(_has_letter, side)) for side in (source, target))
    )


def hold_out(pairs: Sequence[SentencePair], count: int, seed: int) -> tuple[list[SentencePair], ...]:
    """Draws sentence pairs at random for development and testing.

    Only pairs with 3 to 40 tokens on each side are drawn, if at least two thirds of the tokens on each side have a
    letter. A sentence that occurs twice is not drawn; sentences that differ only in punctuation count as the same.

    Args:
        pairs: list of distinct `(source_words, target_words)`.
        count: int. Number of pairs in each of the two sets.
        seed: int. Random seed.

    Returns:
        `(training, development, testing)`: lists of pairs. Training keeps the order of `pairs`.

    Raises:
        InputError: if fewer than `2 * count` pairs can be drawn.
    """
    keys = [tuple(_wording(side) for side in pair) for pair in pairs]
    occurrences = Counter(side for key in keys for side in enumerate(key))
    candidates = [
        index
        for index, (pair, key) in enumerate(zip(pairs, keys, strict=True))
        if all(3 <= len(words) <= 40 and 3 * sum(map(_has_letter, words)) >= 2 * len(words) for words in pair)
        and all(occurrences[side] == 1 for side in enumerate(key))
    ]
    if len(candidates) < 2 * count:
        found = f"found {len(candidates)} sentence pairs that can be held out"
        raise InputError(found, f"expected {2 * count} or more", "hold out fewer pairs, or give more text")
    drawn = random.Random(seed).sample(candidates, 2 * count)
    held_out = set(drawn)
    training = [pair for index, pair in enumerate(pairs) if index not in held_out]
    return training, [pairs[index] for index in drawn[:count]], [pairs[index] for index in drawn[count:]]


def _wording(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if any(map(str.isalnum, word)))


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def _write(path: Path, lines: Iterable[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode("utf-8")
    if path.suffix == ".gz":
        # No time stamp, so that the same input gives the same bytes.
        content = gzip.compress(content, compresslevel=9, mtime=0)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)
