"""The OpenAPI description of the API."""

from typing import Any

from keras_encdec import __version__
from keras_encdec.web.endpoints import ENDPOINTS, MODEL, Endpoint
from keras_encdec.web.request_limits import RequestLimits

ERRORS = {
    "400": "The request is not HTTP as the server understands it, or names another host.",
    "404": "The model lacks what is asked for.",
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
                "operationId": "model", "summary": "What is known of the model",
                "responses": {"200": _content("What is known of the model.", MODEL), **_errors("400", "429", "500")},
            }
        }
    }  # fmt: skip
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
                    "type": "object", "required": ["error"], "additionalProperties": False,
                    "properties": {"error": {"type": "string", "description": "What is wrong, one sentence."}},
                }
            }
        },
    }  # fmt: skip


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
