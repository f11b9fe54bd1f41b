"""The endpoints of the API: the fields of their requests, the limits, and the schemas of their responses."""

import dataclasses
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.errors import FilePath, InputError
from keras_encdec.task_options import EncodingOption


@dataclasses.dataclass(frozen=True)
class RequestLimits(Configuration):
    """Limits of requests."""

    max_words: int = hyperparameter(60, "Maximum number of words of a phrase or sentence.", minimum=1)
    requests_per_minute: int = hyperparameter(
        600, "Maximum number of requests from one IP address within a minute.", minimum=1
    )

    @property
    def max_characters(self) -> int:
        """Maximum number of characters of a phrase or sentence: 20 for each word."""
        return 20 * self.max_words

    @property
    def max_bytes(self) -> int:
        """Maximum number of bytes of a request: two texts, with at most 12 bytes (two JSON escapes) per character."""
        return 1024 + 24 * self.max_characters


@dataclasses.dataclass(frozen=True)
class ServeOptions(EncodingOption, RequestLimits):
    """Options of `serve`: where it listens, the limits of requests, and the encoding of its files."""

    host: str = hyperparameter(
        "127.0.0.1",
        "Name or address to listen on. With 127.0.0.1, only this machine can open the page; with 0.0.0.0, others can.",
    )
    port: int = hyperparameter(8080, "Port to listen on; 0 for any free port.", minimum=0, maximum=65535)

    def check(self) -> None:
        super().check()
        if not self.host:  # it would be any address of this machine
            raise ConfigurationError("found an empty {host}, expected a name or an address")

    @staticmethod
    def check_files(phrase_table: FilePath | None, input: FilePath | None) -> None:
        """Raises ConfigurationError if both a phrase table and a text are given."""
        if phrase_table is not None and input is not None:
            raise ConfigurationError("found {phrase_table} with {input}, expected one of them")

    def listen(self) -> socket.socket:
        """Opens a listening socket, before Keras is imported and the model is loaded, to report a taken port at once.

        Raises:
            InputError: if the port is taken or may not be used, or the address belongs to no network of this machine.
        """
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else f"{error.strerror}"
            reason = reason.partition(" (while attempting")[0]  # `socket.create_server` appends the address
            expected, remedy = "expected an address of this machine and a free port", "give another --port or --host"
            raise InputError(f"cannot listen on {self.host}, port {self.port} ({reason})", expected, remedy) from error


#: A value of JSON.
JSON: TypeAlias = "str | float | None | Sequence[JSON] | Mapping[str, JSON]"
#: A JSON Schema, or a part of an OpenAPI description.
Schema: TypeAlias = Mapping[str, JSON]

# A page sends its own name in this field, so that its newer requests replace its older ones.
PAGE, MAX_NAME_LENGTH = "page", 64
BEAMS, BEST, SAMPLES, BEST_SAMPLES, NEIGHBOURS = 12, 5, 50, 10, 10  # defaults
# Larger requests would keep other users waiting.
MAX_BEAMS, MAX_SAMPLES, MAX_NEIGHBOURS = 32, 200, 50


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a request.

    Attributes:
        name: str.
        description: str. A sentence.
        minimum, maximum: int. Bounds of a whole number; `None` for a text.
        default: int. Default of a whole number; `None` for a text.
        required: bool. Whether a request must have the field.
    """

    name: str
    description: str
    minimum: int | None = None
    maximum: int | None = None
    default: int | None = None
    required: bool = False

    def schema(self, limits: RequestLimits) -> Schema:
        """Returns the JSON Schema of the field."""
        if self.minimum is None or self.maximum is None:
            return {"type": "string", "maxLength": self._longest(limits), "description": self.description}
        kind: Schema = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum, "default": self.default}
        return described(kind, self.description)

    def check(self, value: object, limits: RequestLimits) -> None:
        """Raises InputError for a value that the schema does not allow, or a text that is not Unicode."""
        if self.minimum is not None and self.maximum is not None:
            if isinstance(value, bool) or not isinstance(value, int) or not self.minimum <= value <= self.maximum:
                raise InputError(
                    f"found {self.name}={_shown(value)}",
                    f"expected a whole number from {self.minimum} to {self.maximum}",
                )
        elif not isinstance(value, str):
            raise InputError(f"found {self.name}={_shown(value)}", "expected a text")
        elif len(value) > (longest := self._longest(limits)):
            raise InputError(f"found {self.name} of {len(value):,} characters", f"expected {longest:,} at most")
        elif any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError(f"found half a surrogate pair in {self.name}", "expected Unicode text")

    def _longest(self, limits: RequestLimits) -> int:
        return MAX_NAME_LENGTH if self.name == PAGE else limits.max_characters


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An endpoint of the API. Clients post a JSON object to it.

    Attributes:
        name: str. Name of the method of `Explorer`, and last part of the path.
        summary: str. A sentence without full stop.
        fields: tuple of Field. Every request may also have the field `page`.
        response: dict, JSON Schema of the response.
        needs: str. Name of the attribute of `Explorer` that must be true; "" for none.
        lacking: str. What the model lacks if that attribute is false, for the error.
    """

    name: str
    summary: str
    fields: tuple[Field, ...]
    response: Schema
    needs: str = ""
    lacking: str = ""

    @property
    def path(self) -> str:
        """Path of the endpoint, such as "/api/translate"."""
        return f"/api/{self.name}"

    def all_fields(self) -> dict[str, Field]:
        """Returns the fields by name, including the name of the page."""
        return {field.name: field for field in (*self.fields, PAGE_FIELD)}

    def arguments(self, body: object, limits: RequestLimits) -> dict[str, str | int]:
        """Converts the parsed body of a request to arguments of the method by name, without the name of the page.

        Raises:
            InputError: if a field is missing, unknown or out of bounds.
        """
        if not isinstance(body, Mapping):
            raise InputError("found no JSON object", f"expected one with {self._names()}")
        fields = self.all_fields()
        if unknown := [name for name in body if name not in fields]:
            raise InputError(f"found the field {_shown(unknown[0])}", f"expected {self._names()}")
        for field in fields.values():
            if field.name in body:
                field.check(body[field.name], limits)
            elif field.required:
                raise InputError(f"found no {field.name}", f"expected {self._names()}")
        return {name: value for name, value in body.items() if name != PAGE}

    def _names(self) -> str:
        return ", ".join(f"{field.name}" if field.required else f"{field.name} (optional)" for field in self.fields)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def record(**properties: Schema) -> Schema:
    """Returns the schema of an object with these properties, all of them required."""
    return {"type": "object", "required": list(properties), "additionalProperties": False, "properties": properties}


def array(items: Schema, description: str = "") -> Schema:
    """Returns the schema of a list."""
    return {"type": "array", "items": items, **({"description": description} if description else {})}


def described(kind: Schema, description: str) -> Schema:
    """Returns a schema with a description."""
    return {**kind, "description": description}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
LOG_PROB: Schema = {"type": "number", "description": "ln p in nats."}
PROBABILITY = described(SHARE, "p = exp(ln p).")
MATRIX = array(array(SHARE))
WORDS = array(
    record(word=TEXT, known=described(FLAG, "Whether the model knows it: by its vocabulary, or by its characters."))
)
TOKEN = record(word=TEXT, log_prob=LOG_PROB, probability=PROBABILITY)
TARGET: dict[str, Schema] = {
    "text": TEXT,
    "log_prob": LOG_PROB,
    "probability": PROBABILITY,
    "tokens": array(
        TOKEN, "Each token, with its probability after the tokens before it; the last is the end of sequence, (end)."
    ),
    "attention": {
        "anyOf": [MATRIX, {"type": "null"}],
        "description": "For each token, its weight on each word of the source, the end of sequence last; null for a "
        "model without attention.",
    },
}

SOURCE = Field("source", "What the model reads: a phrase or a sentence.", required=True)
PAGE_FIELD = Field(
    PAGE,
    "Name of the requesting page: a newer request with the same name to this path replaces one that is still "
    "waiting, which gets status 409.",
)

ENDPOINTS = (
    Endpoint(
        "translate",
        "The best targets of a source, by beam search, with the probability of each token",
        (
            SOURCE,
            Field("beams", "Number of partial targets that the search keeps.", 1, MAX_BEAMS, BEAMS),
            Field(
                "best",
                f"Number of targets in the response, at most beams; the search may find fewer. With fewer than {BEST} "
                "beams, the default is their number.",
                1,
                MAX_BEAMS,
                BEST,
            ),
        ),
        record(source=WORDS, targets=array(record(**TARGET), "Targets, the best first.")),
    ),
    Endpoint(
        "sample",
        "Targets drawn word by word from the model's probabilities",
        (
            SOURCE,
            Field("samples", "Number of targets to draw.", 1, MAX_SAMPLES, SAMPLES),
            Field("best", "Maximum number of distinct targets in the response.", 1, MAX_SAMPLES, BEST_SAMPLES),
            Field("seed", "The same seed draws the same targets.", 0, 2**31 - 1, 0),
        ),
        record(
            source=WORDS,
            samples=COUNT,
            distinct=described(COUNT, "Number of distinct targets among the samples."),
            targets=array(
                record(
                    text=TEXT,
                    count=described(COUNT, "Number of times that the target was drawn."),
                    log_prob=LOG_PROB,
                    probability=PROBABILITY,
                ),
                "Targets, those drawn most often first.",
            ),
        ),
    ),
    Endpoint(
        "score",
        "ln p(target | source) of a pair, with the probability of each token of the target",
        (SOURCE, Field("target", "The text whose probability is computed; may be empty.", required=True)),
        record(
            source=WORDS,
            target=record(**TARGET, words=WORDS),
            perplexity={"type": "number", "description": "exp(-ln p / tokens), counting the end of sequence."},
        ),
    ),
    Endpoint(
        "gates",
        "Update and reset gates of the encoder (first layer, left to right) at each word of a source",
        (SOURCE,),
        record(
            words=array(
                TEXT, "Words in the order in which the encoder reads them; the last is the end of sequence, (end)."
            ),
            units=described(COUNT, "Number of units of the encoder."),
            chosen=array(COUNT, "Indices of the units in the response: all units, or 512 evenly spaced ones."),
            update=described(MATRIX, "z for each word and unit; near 1, the unit keeps its old state."),
            reset=described(MATRIX, "r for each word and unit; near 0, the unit ignores its old state."),
            mean_update=array(SHARE, "For each word, the mean of z over all units."),
            share_reset=array(SHARE, "For each word, the share of all units with r < 0.5."),
        ),
        "has_gates",
        "gates",
    ),
    Endpoint(
        "neighbours",
        "The known phrases nearest to a source, by cosine similarity of the encoder's vectors",
        (SOURCE, Field("size", "Maximum number of phrases in the response.", 1, MAX_NEIGHBOURS, NEIGHBOURS)),
        record(
            phrases=described(COUNT, "Number of phrases searched; it grows while the server is still encoding them."),
            neighbours=array(
                record(text=TEXT, similarity=described({"type": "number"}, "Cosine, from -1 to 1.")),
                "Phrases, the nearest first.",
            ),
        ),
        "has_neighbours",
        "phrases to compare with",
    ),
)
