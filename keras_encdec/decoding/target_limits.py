"""How long targets may become."""

import math

# A target has at most that many words for each of its source, or as many as a phrase of a word or two may need.
LENGTH_FACTOR, SHORTEST_LIMIT = 1.5, 10
# No target comes near; a search has room for as many words as its limit.
LONGEST_LIMIT = 100_000


def target_limit(source_length: int, max_length_factor: float = LENGTH_FACTOR, max_length: int | None = None) -> int:
    """Tokens of a target at most, its end counted.

    Args:
        source_length: int. Words of the source, its end not counted.
        max_length_factor: float. At most that many words for each of the source, or 10 if that is more; none for an
            empty source. Defaults to `1.5`.
        max_length: int. That many words at most instead, whatever the source. Defaults to `None`.

    Returns:
        int, 1 or more; no more than for 100,000 words, whatever is asked for.

    Example:

    >>> target_limit(20), target_limit(3), target_limit(0), target_limit(20, max_length=5)
    (31, 11, 1, 6)
    >>> target_limit(20, 1e308), target_limit(20, max_length=10**14)
    (100001, 100001)
    """
    if max_length is not None:
        return min(max_length, LONGEST_LIMIT) + 1
    longest = min(max_length_factor * source_length, LONGEST_LIMIT)
    return max(SHORTEST_LIMIT, math.ceil(longest)) + 1 if source_length else 1
