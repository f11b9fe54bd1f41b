"""How much a report shows."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """How much a report shows.

    Attributes:
        phrases: tuple of str. Source phrases, without Moses's escapes, to show instead of those that are drawn.
        phrases_per_kind: int. Frequent phrases, and rare ones, of Tables 2 and 3.
        samples: int. Samples of each phrase.
        pairs: int. Pairs of the table that are scored, at most.
        map_words: int. Most frequent source words of the map of words; 0 for no map.
        map_phrases: int. Source phrases of the map of phrases, which are drawn; 0 for no map.
        seed: int. Of all that is drawn.
        encoding: str. Of text and table; `None` is UTF-8.
    """

    phrases: tuple[str, ...] = ()
    phrases_per_kind: int = 5
    samples: int = 50
    pairs: int = 100_000
    map_words: int = 2000
    map_phrases: int = 5000
    seed: int = 0
    encoding: str | None = None
