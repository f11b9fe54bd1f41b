"""Scores of pairs, from a server."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.export.retries import Retries
from keras_encdec.export.server_connection import Server
from keras_encdec.export.server_error import ServerError
from keras_encdec.formats import escape, model_words
from keras_encdec.scoring.pair_scorer import WordPair


class ServedScorer:
    """A PairScorer by a model on a server, which reads the words that `TextScorer` would read.

    A model that has the signature "tokenize" reads raw text and tokenizes it, a phrase table's words
    too; another reads strings of tokens and takes Moses's escapes off.

    Args:
        server: Server.
        retries: Retries.

    Raises:
        ServerError: when the server does not say which signatures the model has.
        InputError: when the model has not the signatures needed.
    """

    def __init__(self, server: Server, retries: Retries) -> None:
        self._server, self._retries = server, retries
        _, signatures = retries(server.metadata)
        for name in ("score", "score_tokens"):
            if {"source", "target"} - signatures.get(name, {}).get("inputs", {}).keys():
                raise InputError(
                    f"found a model with the signatures {', '.join(sorted(signatures))} on the server at "
                    f"{server.address}", f"expected {name} of source and target",
                    "check --model_name, or export the model with keras-encdec",
                )  # fmt: skip
        self._raw = "tokenize" in signatures

    def close(self) -> None:
        """Ends calls that are under way in other threads; further ones fail."""
        self._retries.close()
        self._server.close()

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """Pairs of lists of words from pairs of str; raw text is one word, which the server takes apart."""
        if self._raw:
            return [([source], [target]) for source, target in pairs]
        return [tuple(model_words(side, factored) for side in pair) for pair in pairs]

    def columns(self, pairs: Sequence[WordPair], names: Sequence[str]) -> list[Sequence[Any]]:
        """See `PairScorer.columns`: one call to the server, whatever the names.

        Raises:
            ServerError: when the call fails.
        """
        if not pairs:
            return [[] for _ in names]
        sources, targets = zip(*pairs, strict=True)
        inputs = {"source": self._strings(sources), "target": self._strings(targets)}
        tokens = "token_log_probs" in names
        signature, outputs = ("score_tokens", [*names, "token_count"]) if tokens else ("score", list(names))
        results = self._retries(self._predict, signature, inputs, outputs)
        for name in outputs:
            count = len(results.get(name, ()))
            if count != len(pairs):
                raise ServerError("INTERNAL", f"{count} values of {name} for {len(pairs)} pairs")
        return [_column(name, results) for name in names]

    def _predict(self, signature, inputs, outputs):
        """One call; the refusal of a request of somebody else's, merged with this one, is UNAVAILABLE."""
        try:
            return self._server.predict(signature, inputs, outputs)
        except ServerError as error:
            if self._is_of_others(error, inputs):
                raise ServerError("UNAVAILABLE", f"merged with a request that it refused: {error.message}") from error
            raise

    def _is_of_others(self, error, inputs):
        if re.search("have different shapes|have different data types", error.message):
            return True  # this one's are strings in a row
        if error.code != "INVALID_ARGUMENT":
            return False
        # What a server says of a pair is about one of these only if one of these is so.
        if size := re.search(r"found a (source|target) of (\d+) (tokens|bytes)", error.message):
            side, number, unit = size.groups()
            if unit == "tokens" and self._raw:
                return False  # the tokens are the server's
            sizes = {len(string if unit == "bytes" else re.findall(rb"[^ \t]+", string)) for string in inputs[side]}
            return int(number) not in sizes
        if "not UTF-8" in error.message:
            return all(map(_is_utf8, (string for strings in inputs.values() for string in strings)))
        return bool(re.search("of shape|sources and targets", error.message))

    def _strings(self, phrases):
        if self._raw:
            # A byte that the file's encoding does not have is "?" to the tokenizer.
            return [" ".join(words).encode("utf-8", "replace") for words in phrases]
        return [escape(" ".join(words)).encode("utf-8", "surrogateescape") for words in phrases]


def _is_utf8(string):
    try:
        string.decode()
    except UnicodeDecodeError:
        return False
    return True


def _column(name, outputs):
    if name == "unknown_count":
        return [int(count) for count in outputs[name]]
    values = np.asarray(outputs[name], np.float32).astype(np.float64)
    if not np.isfinite(values).all():
        raise ServerError("INTERNAL", f"a {name} that is not a number")
    if name == "token_log_probs":
        return [row[:count] for row, count in zip(values, outputs["token_count"], strict=True)]
    return values
