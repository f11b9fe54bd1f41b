"""The description of the API in OpenAPI."""

from keras_encdec import __version__
from keras_encdec.web.endpoints import (
    COUNT,
    ENDPOINTS,
    FLAG,
    TEXT,
    Endpoint,
    RequestLimits,
    Schema,
    array,
    described,
    record,
)

MODEL = record(
    name=described(TEXT, "The last two parts of the path of the model directory."),
    **{"class": described(TEXT, "The model's class.")},
    reads=described(
        {"enum": ["source", "target"]}, "What the model reads; the target, if it was trained with --reverse."
    ),
    predicts=described({"enum": ["source", "target"]}, "What the model predicts."),
    weights=described(COUNT, "Number of weights."),
    source_words=described(COUNT, "Size of the vocabulary that the model reads."),
    target_words=described(COUNT, "Size of the vocabulary that the model predicts."),
    has_attention=FLAG,
    has_gates=FLAG,
    has_neighbours=FLAG,
    phrases=described(COUNT, "Number of phrases to search for neighbours."),
    max_words=COUNT,
    max_characters=COUNT,
    examples=array(TEXT, "Example phrases."),
    version=described(TEXT, "Version of keras-encdec."),
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
    "503": "The server is stopping, or has too many connections.",
}


def openapi(limits: RequestLimits, prefix: str = "") -> Schema:
    """Describes the API of a server with these limits in OpenAPI 3.1, for JSON.

    Args:
        limits: RequestLimits.
        prefix: str. The path below which the application is, such as "/try". Defaults to none.
    """
    paths: dict[str, Schema] = {
        "/api/model": {
            "get": {
                "operationId": "model",
                "summary": "Description of the model",
                "responses": {
                    "200": _content("Description of the model.", MODEL),
                    **_errors("400", "429", "500", "503"),
                },
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
        "servers": [{"url": prefix or "/"}],
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
    body: Schema = {
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
            "responses": {"200": _content(f"{endpoint.summary}.", endpoint.response), **_errors(*ERRORS)},
        }
    }


def _content(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*statuses: str) -> Schema:
    error = {"$ref": "#/components/schemas/Error"}
    return {status: _content(ERRORS[status], error) for status in statuses}
