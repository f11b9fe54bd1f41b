"""The API, declared once: what is asked, what is answered, and by which method of `Explorer`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_encdec import __version__
from keras_encdec.errors import InputError
from keras_encdec.web.request_limits import RequestLimits

# A page gives itself such a name, so that newer requests of it take the place of older ones.
PAGE = "page"
LONGEST_NAME = 64
# Of any server of models: more would keep others waiting for long.
MOST_BEAMS, MOST_SAMPLES, MOST_NEIGHBOURS = 32, 200, 50


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a request.

    Attributes:
        name: str.
        description: str. A sentence.
        minimum, maximum: int. Bounds of a whole number; `None` for a text.
        default: int. `None` for a text.
        required: bool. Whether it must be given.
    """

    name: str
    description: str
    minimum: int | None = None
    maximum: int | None = None
    default: int | None = None
    required: bool = False

    def schema(self, limits: RequestLimits) -> dict[str, Any]:
        """JSON Schema of the field."""
        if self.maximum is None:
            longest = LONGEST_NAME if self.name == PAGE else limits.max_characters
            return {"type": "string", "maxLength": longest, "description": self.description}
        kind = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return {**kind, "default": self.default, "description": self.description}

    def check(self, value: Any, limits: RequestLimits) -> None:
        """Raises InputError for a value that the schema does not allow, or that is no Unicode text."""
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
    """An address of the API, to which a JSON object is posted.

    Attributes:
        name: str. Of the method of `Explorer`, and the last part of the address.
        summary: str.
        fields: tuple of Field; each may also have a `page`.
        answer: dict, JSON Schema of the answer.
        needs: str. The attribute of `Explorer` that must be true; "" for none.
        lacking: str. What a model lacks for which it is not.
    """

    name: str
    summary: str
    fields: tuple[Field, ...]
    answer: dict[str, Any]
    needs: str = ""
    lacking: str = ""

    @property
    def path(self) -> str:
        """Such as "/api/translate"."""
        return f"/api/{self.name}"

    def all_fields(self) -> dict[str, Field]:
        """By name, the name of the page among them."""
        return {field.name: field for field in (*self.fields, PAGE_FIELD)}

    def arguments(self, body: Any, limits: RequestLimits) -> dict[str, Any]:
        """Arguments of the method from what was posted.

        Raises:
            InputError: when something is missing, unknown or out of bounds.
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


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _list(items: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"type": "array", "items": items, **({"description": description} if description else {})}


def _described(kind: dict[str, Any], description: str) -> dict[str, Any]:
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
    "tokens": _list(TOKEN, "Each token after those before it; the last is the end of sequence, (end)."),
    "attention": {
        "anyOf": [MATRIX, {"type": "null"}],
        "description": "Of each token, its weight on each word of the source, the end of sequence last; null of a "
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
    name=_described(TEXT, "The last parts of the model directory's path."),
    **{"class": _described(TEXT, "The model's class.")},
    reads=_described({"enum": ["source", "target"]}, "What it reads; the target, if it was trained with --reverse."),
    predicts=_described({"enum": ["source", "target"]}, "What it predicts."),
    weights=_described(COUNT, "Number of weights."),
    source_words=_described(COUNT, "Words of the vocabulary that it reads."),
    target_words=_described(COUNT, "Words of the vocabulary that it predicts."),
    has_attention=FLAG,
    has_gates=FLAG,
    has_neighbours=FLAG,
    phrases=_described(COUNT, "Phrases among which neighbours are found."),
    max_words=COUNT,
    max_characters=COUNT,
    examples=_list(TEXT, "Phrases to begin with."),
    version=_described(TEXT, "Version of keras-encdec."),
)

ENDPOINTS = (
    Endpoint(
        "translate",
        "The best targets of a source, by beam search, and what each of their tokens adds",
        (
            SOURCE,
            Field("beams", "Partial targets that the search keeps.", 1, MOST_BEAMS, 12),
            Field("best", "Targets in the answer; no more than beams.", 1, MOST_BEAMS, 5),
        ),
        _object(source=WORDS, targets=_list(_object(**TARGET), "The best first.")),
    ),
    Endpoint(
        "sample",
        "Targets drawn word by word from the model's probabilities",
        (
            SOURCE,
            Field("samples", "Targets that are drawn.", 1, MOST_SAMPLES, 50),
            Field("best", "Distinct targets in the answer.", 1, MOST_SAMPLES, 10),
            Field("seed", "The same seed draws the same targets.", 0, 2**31 - 1, 0),
        ),
        _object(
            source=WORDS,
            samples=COUNT,
            distinct=_described(COUNT, "Distinct targets among the samples."),
            targets=_list(
                _object(
                    text=TEXT,
                    count=_described(COUNT, "How often it was drawn."),
                    log_prob=LOG_PROB,
                    probability=PROBABILITY,
                ),
                "Those drawn most often first.",
            ),
        ),
    ),
    Endpoint(
        "score",
        "ln p(target | source) of a pair, and what each token of the target adds",
        (SOURCE, Field("target", "What the model is to predict; may be empty.", required=True)),
        _object(
            source=WORDS,
            target=_object(**TARGET, words=WORDS),
            perplexity={"type": "number", "description": "exp(-ln p / tokens), the end of sequence counted."},
        ),
    ),
    Endpoint(
        "gates",
        "Update and reset gates of the encoder, its first layer from left to right, at each word of a source",
        (SOURCE,),
        _object(
            words=_list(TEXT, "In the order in which they are read, the end of sequence last, (end)."),
            units=_described(COUNT, "Units of the encoder."),
            chosen=_list(COUNT, "Indices of the units in the answer: all, or 512 of them, evenly chosen."),
            update=_described(MATRIX, "z of each word and unit; near 1, the unit keeps its old state."),
            reset=_described(MATRIX, "r of each word and unit; near 0, the unit forgets what came before."),
            mean_update=_list(SHARE, "Of each word, the mean of z over all units."),
            share_reset=_list(SHARE, "Of each word, the share of all units with r < 0.5."),
        ),
        "has_gates",
        "gates",
    ),
    Endpoint(
        "neighbours",
        "The known phrases nearest to a source, by cosine similarity of what the encoder makes of them",
        (SOURCE, Field("size", "Phrases in the answer.", 1, MOST_NEIGHBOURS, 10)),
        _object(
            phrases=_described(COUNT, "Phrases compared with; fewer while the server is still reading them."),
            neighbours=_list(
                _object(text=TEXT, similarity=_described({"type": "number"}, "Cosine, from -1 to 1.")),
                "The nearest first.",
            ),
        ),
        "has_neighbours",
        "phrases to compare with",
    ),
)


ERRORS = {
    "400": "The request is not HTTP as the server understands it, or names another host.",
    "404": "The model lacks what is asked for.",
    "408": "The request was still incomplete when its time was over.",
    "409": "A newer request of the same page took this one's place.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "The body is not what is described here, or a text is too long.",
    "429": "Too many requests; the header Retry-After tells after how many seconds to ask again.",
    "500": "The server failed; its log tells how.",
}


def openapi(limits: RequestLimits) -> dict[str, Any]:
    """The description, OpenAPI 3.1, as a dict for JSON.

    Args:
        limits: RequestLimits that the requests are checked against.
    """
    paths: dict[str, Any] = {
        "/api/model": {
            "get": {
                "operationId": "model",
                "summary": "What is known of the model",
                "responses": {"200": _content("What is known of the model.", MODEL), **_errors("400", "429", "500")},
            }
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "keras-encdec",
            "version": __version__,
            "description": "Asks a translation model for its best targets, samples, scores, gates and neighbours.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths | {endpoint.path: _path(endpoint, limits) for endpoint in ENDPOINTS},
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "additionalProperties": False,
                    "properties": {"error": {"type": "string", "description": "What is wrong, one sentence."}},
                }
            }
        },
    }


def _path(endpoint: Endpoint, limits: RequestLimits) -> dict[str, Any]:
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


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*statuses: str) -> dict[str, Any]:
    error = {"$ref": "#/components/schemas/Error"}
    return {status: _content(ERRORS[status], error) for status in statuses}
