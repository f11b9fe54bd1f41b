"""Options of serving the page, and the limits of its requests."""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.task_options import EncodingOption


@dataclasses.dataclass(frozen=True)
class RequestLimits(Configuration):
    """Limits of requests.

    Args:
        max_words: int. Largest number of words of a phrase or sentence. Defaults to `60`.
        requests_per_minute: int. Largest number of API requests from an address within a minute. Defaults to `600`.
    """

    max_words: int = hyperparameter(60, "Largest number of words of a phrase or sentence.", minimum=1)
    requests_per_minute: int = hyperparameter(
        600, "Largest number of requests from an address within a minute.", minimum=1
    )

    @property
    def max_characters(self) -> int:
        """Largest number of characters of a phrase or sentence: 20 for each word."""
        return 20 * self.max_words

    @property
    def max_bytes(self) -> int:
        """Largest number of bytes of a request: two texts, with at most 12 bytes (two JSON escapes) per character."""
        return 1024 + 24 * self.max_characters


@dataclasses.dataclass(frozen=True)
class ServeOptions(EncodingOption, RequestLimits):
    """Options of `serve`: where it listens, the limits of requests, and the encoding of its files."""

    host: str = hyperparameter(
        "127.0.0.1",
        "Name or address to listen at. With 127.0.0.1, only this machine can open the page; with 0.0.0.0, others can.",
    )
    port: int = hyperparameter(8080, "Port to listen at; 0 for any free port.", minimum=0, maximum=65535)
