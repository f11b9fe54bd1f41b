"""Scores pairs of source and target words with a model on a server."""

import re
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.export.client.connection import retrying
from keras_encdec.export.client.model_server import Server, ServerError
from keras_encdec.formats import escape, model_words
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.runtime.metrics import measured_request
from keras_encdec.runtime.progress import counted
from keras_encdec.scoring.pair_scorer import PairScores

# The log-probability of a token that is certain may be rounded to a number of up to this size.
_ROUNDING = 1e-3


class ServedScorer:
    """A PairScorer that calls a model on a server. It reads the same words as `TextScorer`.

    A model with the signature "tokenize" reads raw text and tokenizes it, including the words of a phrase table. Other
    models read strings of tokens and remove Moses's escapes.

    Args:
        server: Server.
        patience: float. Seconds for which a call is repeated while the server is UNAVAILABLE.

    Raises:
        ServerError: if the call for the model's signatures fails.
        InputError: if the model lacks the signature "score" or "score_tokens".
    """

    def __init__(self, server: Server, patience: float) -> None:
        self._server, self._closed = server, threading.Event()
        self._retries = retrying(patience, self._closed)
        _, signatures = self._retries(server.metadata)
        for name in ("score", "score_tokens"):
            if {"source", "target"} - signatures.get(name, {}).get("inputs", {}).keys():
                raise InputError(
                    f"found a model with the signatures {', '.join(sorted(signatures))} on the server at "
                    f"{server.address}",
                    f"expected {name} of source and target",
                    "check --model_name, or export the model with keras-encdec",
                )
        self._raw = "tokenize" in signatures

    def close(self) -> None:
        """Cancels calls in other threads; later calls fail."""
        self._closed.set()
        self._server.close()

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """See `PairScorer.all_words`. For a model of raw text, each side is a single word: the server tokenizes it."""
        if self._raw:
            return [([source], [target]) for source, target in pairs]
        return [(model_words(source, factored), model_words(target, factored)) for source, target in pairs]

    def score_pairs(
        self,
        pairs: Sequence[WordPair],
        *,
        token_log_probs: bool = False,
        unknown_count: bool = False,
        attention: bool = False,
    ) -> PairScores:
        """See `PairScorer.score_pairs`. Makes a single call to the server.

        Raises:
            ServerError: if the call fails.
            ValueError: for `attention=True`, because a served model does not return attention with scores.
        """
        if attention:
            raise ValueError("found attention=True with a served model, expected False")
        if not pairs:
            return PairScores(np.zeros(0))
        sources, targets = zip(*pairs, strict=True)
        inputs = {"source": self._strings(sources), "target": self._strings(targets)}
        signature = "score_tokens" if token_log_probs else "score"
        names = ["token_log_probs", "token_count"] if token_log_probs else ["log_prob"]
        names += ["unknown_count"] if unknown_count else []
        outputs = self._retries(self._predict, signature, inputs, names)
        for name in names:
            _check_shape(name, outputs.get(name, np.zeros(0)), len(pairs))
        counts = _counts(outputs["unknown_count"]) if unknown_count else []
        if not token_log_probs:
            return PairScores(_checked_log_probs("log_prob", outputs), unknown_count=counts)
        rows = zip(_checked_log_probs("token_log_probs", outputs), outputs["token_count"].tolist(), strict=True)
        tokens = [row[: _checked_count(count, len(row))] for row, count in rows]
        return PairScores(np.array([row.sum() for row in tokens]), tokens, counts)

    def _predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, np.ndarray]:
        """Calls the server once. Raises UNAVAILABLE if the server refuses another request merged with this one."""
        try:
            with measured_request():
                return self._server.predict(signature, inputs, outputs)
        except ServerError as error:
            if self._is_about_another_request(error, inputs):
                raise ServerError(
                    "UNAVAILABLE", f"it refused a request merged with this one: {error.message}"
                ) from error
            raise

    def _is_about_another_request(self, error: ServerError, inputs: Mapping[str, Sequence[bytes]]) -> bool:
        if re.search("have different shapes|have different data types", error.message):
            return True  # the inputs of this request have the same shape and data type
        if error.code != "INVALID_ARGUMENT":
            return False
        # The error message describes a bad pair. If no pair of this request matches, it belongs to another request.
        if size := re.search(r"found a (source|target) of (\d+) (tokens|bytes)", error.message):
            side, number, unit = size.groups()
            if unit == "tokens" and self._raw:
                return False  # only the server knows the tokens, so that this cannot be checked
            sizes = {len(string if unit == "bytes" else re.findall(rb"[^ \t]+", string)) for string in inputs[side]}
            return int(number) not in sizes
        if "not UTF-8" in error.message:
            texts = (string for strings in inputs.values() for string in strings)
            return all(text.decode(errors="ignore").encode() == text for text in texts)
        return bool(re.search("of shape|sources and targets", error.message))

    def _strings(self, phrases: Sequence[Sequence[str]]) -> list[bytes]:
        if self._raw:
            # The tokenizer reads only UTF-8: a byte that could not be decoded becomes "?".
            return [" ".join(words).encode("utf-8", "replace") for words in phrases]
        return [escape(" ".join(words)).encode("utf-8", "surrogateescape") for words in phrases]


def _check_shape(name: str, values: np.ndarray, pairs: int) -> None:
    """Raises ServerError for an output without a row for each pair."""
    if values.ndim != 1 + (name == "token_log_probs") and values.size:
        raise ServerError("INTERNAL", f"{name} of shape {values.shape} for {counted(pairs, 'pairs')}")
    if len(values) != pairs:
        raise ServerError("INTERNAL", f"{counted(len(values), 'values')} of {name} for {counted(pairs, 'pairs')}")


def _counts(values: np.ndarray) -> list[int]:
    """Converts an output to numbers of unknown words. Raises ServerError for a value that is not such a number."""
    if values.dtype.kind != "i" or values.min() < 0:
        raise ServerError("INTERNAL", "an unknown_count that is not a number of words")
    counts: list[int] = values.tolist()
    return counts


def _checked_count(count: int, width: int) -> int:
    """Returns the number of tokens of a row. Raises ServerError if the row cannot have it."""
    if not (isinstance(count, int) and 1 <= count <= width):
        raise ServerError("INTERNAL", f"a token_count of {count} for {width} token_log_probs")
    return count


def _checked_log_probs(name: str, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Converts an output to a float64 array. Raises ServerError for a number that is not a log-probability."""
    values = outputs[name].astype(np.float32).astype(np.float64)
    if not np.isfinite(values).all():
        raise ServerError("INTERNAL", f"a {name} that is not a number")
    if (values > _ROUNDING).any():
        raise ServerError("INTERNAL", f"a {name} of {values.max():.6g}, more than 0")
    return values
