"""The rule that chooses which part of a whole phrase table is packaged."""

from collections.abc import Iterable
from typing import Any

from keras_encdec.formats.numbers import finite_number
from keras_encdec.formats.tokens import split_tokens

TABLE_LIMIT = 20
MAX_PAIRS = 50_000
MIN_COUNT = 2
MIN_PROBABILITY = 0.01
MIN_WORD_WEIGHT = 0.02

# What may stand inside a phrase; at its edges only words may, and an apostrophe at a target's end.
_INSIDE = frozenset({",", "-", "&apos;"})
# French words that end in an apostrophe when whole.
_ELIDED = frozenset({"c", "d", "j", "l", "m", "n", "qu", "s", "t"})


def select(lines: Iterable[Any], max_pairs: int = MAX_PAIRS) -> list[Any]:
    """Chooses whole sources of a phrase table, those that cover most of its corpus.

    A pair can be chosen when

    - it was extracted at least twice: most that were extracted once owe it to a wrong alignment;
    - both phrases are made of words (letters only), commas, hyphens and apostrophes, and begin and end
      with a word; the target may end with an apostrophe but not with half an elided word (`l`, `qu`);
    - the longer has at most 2 words more than twice those of the shorter;
    - p(e|f) is at least 0.01, and both lexical weights are, as a mean per word explained, at least 0.02.

    Of each source, the 20 such pairs of highest p(e|f) are its options, as many as Moses considers by
    default. Sources are taken in the order of the words of the corpus that they cover (occurrences
    times length), each with all its options, until the next would go over `max_pairs`. Scores and
    counts stay those of the whole table.

    Args:
        lines: iterable of str, the lines of the whole table, as `score_phrases` makes them.
        max_pairs: int. Defaults to 50,000.

    Returns:
        list of str: the lines chosen, in the order of their bytes.
    """
    options = {}
    for line in lines:
        source, target, scores, _, counts = line.split(" ||| ")[:5]
        scores = [finite_number(score) for score in split_tokens(scores)]
        _, source_count, count = map(finite_number, split_tokens(counts))
        if count >= MIN_COUNT and is_useful(split_tokens(source), split_tokens(target), scores):
            covered = source_count * len(split_tokens(source))
            options.setdefault((-covered, source), []).append((-scores[2], line))
    chosen = []
    for source in sorted(options):
        best = sorted(options[source])[:TABLE_LIMIT]
        if len(chosen) + len(best) > max_pairs:
            break
        chosen.extend(line for _, line in best)
    return sorted(chosen)


def is_useful(source: str, target: str, scores: Any) -> bool:
    """Whether a phrase pair can be chosen, by the rule of `select` but for its count.

    Args:
        source, target: lists of str, escaped tokens.
        scores: list of the four scores.

    Returns:
        bool.
    """
    short, long = sorted((len(source), len(target)))
    _, lexical_source, probability, lexical_target = scores
    return (
        long <= 2 * short + 2
        and probability >= MIN_PROBABILITY
        and lexical_source >= MIN_WORD_WEIGHT ** len(source)
        and lexical_target >= MIN_WORD_WEIGHT ** len(target)
        and all(word.isalpha() or word in _INSIDE for word in source + target)
        and all(word.isalpha() for word in (source[0], source[-1], target[0]))
        and (target[-1].isalpha() or target[-1] == "&apos;")
        and target[-1] not in _ELIDED
    )
