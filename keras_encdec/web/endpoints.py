"""Declares the API: for each endpoint, the fields of a request, the answer, and the method of `Explorer`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from keras_encdec import __version__
from keras_encdec.errors import InputError
from keras_encdec.web.request_limits import RequestLimits

#: A JSON Schema, or a part of an OpenAPI description.
Schema: TypeAlias = dict[str, Any]

# A page sends its own name in this field, so that its newer requests replace its older ones.
PAGE = "page"
LONGEST_NAME = 64
# Larger requests would keep other users waiting.
MOST_BEAMS, MOST_SAMPLES, MOST_NEIGHBOURS = 32, 200, 50


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
        if self.maximum is None:
            longest = LONGEST_NAME if self.name == PAGE else limits.max_characters
            return {"type": "string", "maxLength": longest, "description": self.description}
        kind = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return {**kind, "default": self.default, "description": self.description}

    def check(self, value: object, limits: RequestLimits) -> None:
        """Raises InputError for a value that the schema does not allow, or a text that is not Unicode."""
        schema = self.schema(limits)
        if schema["type"] == "integer":
            if isinstance(value, bool) or not isinstance(value, int) or not self.minimum <= value <= self.maximum:
                raise InputError(
                    f"found {self.name}={_shown(value)}",
                    f"expected a whole number from {self.minimum} to {self.maximum}",
                )
        elif not isinstance(value, str):
            raise InputError(f"found {self.name}={_shown(value)}", "expected a text")
        elif len(value) > schema["maxLength"]:
            raise InputError(
                f"found {self.name} of {len(value):,} characters", f"expected {schema['maxLength']:,} at most"
            )
        elif any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError(f"found half a surrogate pair in {self.name}", "expected Unicode text")


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An endpoint of the API. Clients post a JSON object to it.

    Attributes:
        name: str. Name of the method of `Explorer`, and last part of the path.
        summary: str. A sentence without full stop.
        fields: tuple of Field. Every request may also have the field `page`.
        answer: dict, JSON Schema of the answer.
        needs: str. Name of the attribute of `Explorer` that must be true; "" for none.
        lacking: str. What the model lacks if that attribute is false, for the error.
    """

    name: str
    summary: str
    fields: tuple[Field, ...]
    answer: Schema
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
        """Converts the body of a request to arguments of the method.

        Args:
            body: the parsed JSON.
            limits: RequestLimits.

        Returns:
            dict of name to value, without the name of the page.

        Raises:
            InputError: when a field is missing, unknown or out of bounds.
        """
        if not isinstance(body, Mapping):
            raise InputError("found no JSON object", f"expected one with {self._names()}")
        fields = self.all_fields()
        if unknown := next((name for name in body if name not in fields), None):
            raise InputError(f"found the field {_shown(unknown)}", f"expected {self._names()}")
        for field in fields.values():
            if field.name in body:
                field.check(body[field.name], limits)
            elif field.required:
                raise InputError(f"found no {field.name}", f"expected {self._names()}")
        return {name: value for name, value in body.items() if name != PAGE}

    def _names(self):
        return ", ".join(f"{field.name}" if field.required else f"{field.name} (optional)" for field in self.fields)


def _shown(value):
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _list(items: Schema, description: str = "") -> Schema:
    return {"type": "array", "items": items, **({"description": description} if description else {})}


def _described(kind: Schema, description: str) -> Schema:
    return {**kind, "description": description}


TEXT, COUNT, FLAG = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
LOG_PROB = {"type": "number", "description": "ln p in nats."}
PROBABILITY = _described(SHARE, "p = exp(ln p).")
MATRIX = _list(_list(SHARE))
WORDS = _list(_object(word=TEXT, known=_described(FLAG, "Whether it is in the model's vocabulary.")))
TOKEN = _object(word=TEXT, log_prob=LOG_PROB, probability=PROBABILITY)
TARGET = {
    "text": TEXT,
    "log_prob": LOG_PROB,
    "probability": PROBABILITY,
    "tokens": _list(
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

MODEL = _object(
    name=_described(TEXT, "The last two parts of the path of the model directory."),
    **{"class": _described(TEXT, "The model's class.")},
    reads=_described(
        {"enum": ["source", "target"]}, "What the model reads; the target, if it was trained with --reverse."
    ),
    predicts=_described({"enum": ["source", "target"]}, "What the model predicts."),
    weights=_described(COUNT, "Number of weights."),
    source_words=_described(COUNT, "Size of the vocabulary that the model reads."),
    target_words=_described(COUNT, "Size of the vocabulary that the model predicts."),
    has_attention=FLAG,
    has_gates=FLAG,
    has_neighbours=FLAG,
    phrases=_described(COUNT, "Number of phrases to search for neighbours."),
    max_words=COUNT,
    max_characters=COUNT,
    examples=_list(TEXT, "Example phrases."),
    version=_described(TEXT, "Version of keras-encdec."),
)

ENDPOINTS = (
    Endpoint(
        "translate",
        "The best targets of a source, by beam search, with the probability of each token",
        (
            SOURCE,
            Field("beams", "Number of partial targets that the search keeps.", 1, MOST_BEAMS, 12),
            Field("best", "Largest number of targets in the answer; at most beams.", 1, MOST_BEAMS, 5),
        ),
        _object(source=WORDS, targets=_list(_object(**TARGET), "Targets, the best first.")),
    ),
    Endpoint(
        "sample",
        "Targets drawn word by word from the model's probabilities",
        (
            SOURCE,
            Field("samples", "Number of targets to draw.", 1, MOST_SAMPLES, 50),
            Field("best", "Largest number of distinct targets in the answer.", 1, MOST_SAMPLES, 10),
            Field("seed", "The same seed draws the same targets.", 0, 2**31 - 1, 0),
        ),
        _object(
            source=WORDS,
            samples=COUNT,
            distinct=_described(COUNT, "Number of distinct targets among the samples."),
            targets=_list(
                _object(
                    text=TEXT,
                    count=_described(COUNT, "Number of times that the target was drawn."),
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
        _object(
            source=WORDS,
            target=_object(**TARGET, words=WORDS),
            perplexity={"type": "number", "description": "exp(-ln p / tokens), counting the end of sequence."},
        ),
    ),
    Endpoint(
        "gates",
        "Update and reset gates of the encoder (first layer, left to right) at each word of a source",
        (SOURCE,),
        _object(
            words=_list(
                TEXT, "Words in the order in which the encoder reads them; the last is the end of sequence, (end)."
            ),
            units=_described(COUNT, "Number of units of the encoder."),
            chosen=_list(COUNT, "Indices of the units in the answer: all units, or 512 evenly spaced ones."),
            update=_described(MATRIX, "z for each word and unit; near 1, the unit keeps its old state."),
            reset=_described(MATRIX, "r for each word and unit; near 0, the unit ignores its old state."),
            mean_update=_list(SHARE, "For each word, the mean of z over all units."),
            share_reset=_list(SHARE, "For each word, the share of all units with r < 0.5."),
        ),
        "has_gates",
        "gates",
    ),
    Endpoint(
        "neighbours",
        "The known phrases nearest to a source, by cosine similarity of the encoder's vectors",
        (SOURCE, Field("size", "Largest number of phrases in the answer.", 1, MOST_NEIGHBOURS, 10)),
        _object(
            phrases=_described(COUNT, "Number of phrases searched; it grows while the server is still encoding them."),
            neighbours=_list(
                _object(text=TEXT, similarity=_described({"type": "number"}, "Cosine, from -1 to 1.")),
                "Phrases, the nearest first.",
            ),
        ),
        "has_neighbours",
        "phrases to compare with",
    ),
)


ERRORS = {
    "400": "The request is not valid HTTP, or names another host.",
    "404": "The model lacks what the endpoint needs.",
    "408": "The request did not arrive completely within the time limit.",
    "409": "A newer request of the same page replaced this one.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "The body does not match its schema, or a text is too long.",
    "429": "Too many requests; the header Retry-After gives the number of seconds to wait.",
    "500": "The server failed; see its log.",
}


def openapi(limits: RequestLimits) -> Schema:
    """Describes the API in OpenAPI 3.1.

    Args:
        limits: RequestLimits of the server.

    Returns:
        dict for JSON.
    """
    paths: Schema = {
        "/api/model": {
            "get": {
                "operationId": "model",
                "summary": "Description of the model",
                "responses": {"200": _content("Description of the model.", MODEL), **_errors("400", "429", "500")},
            }
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "keras-encdec",
            "version": __version__,
            "description": "Best targets, samples, scores, gates and neighbours from a translation model.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths | {endpoint.path: _path(endpoint, limits) for endpoint in ENDPOINTS},
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "additionalProperties": False,
                    "properties": {"error": {"type": "string", "description": "The error, in a sentence."}},
                }
            }
        },
    }


def _path(endpoint: Endpoint, limits: RequestLimits) -> Schema:
    fields = endpoint.all_fields().values()
    body = {
        "type": "object",
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
        "properties": {field.name: field.schema(limits) for field in fields},
    }
    return {
        "post": {
            "operationId": endpoint.name,
            "summary": endpoint.summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {"200": _content(f"{endpoint.summary}.", endpoint.answer), **_errors(*ERRORS)},
        }
    }


def _content(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*statuses: str) -> Schema:
    error = {"$ref": "#/components/schemas/Error"}
    return {status: _content(ERRORS[status], error) for status in statuses}
