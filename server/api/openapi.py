"""How /docs and /openapi.json describe the API: bodies in both dresses, answers of every kind, every error.

What stands here changes nothing of what the server does.
"""

from typing import Any

from fastapi import FastAPI

from scanline.model.pictures import MEDIA_TYPES
from scanline.server.api.middleware.auth import OPEN
from scanline.server.api.schemas import HARMLESS, NULL_IS_DEFAULT, EditRequest, ErrorAnswer, ModelField

Responses = dict[int | str, dict[str, Any]]

MEANINGS = {
    400: "The request is wrong; param names what of it.",
    401: "The server wants a key (--api-key), and this is none of its own.",
    404: "There is no such model, or nothing at all at this address.",
    408: "The request took longer to come than the server waits.",
    413: "The body is too large.",
    415: "The body is of another media type.",
    429: "Too many images wait; Retry-After says when to come back.",
    500: "The server or its engine failed; the request is not to blame.",
    503: "The model is loading or gone, or the server is about to stop; Retry-After says when to come back.",
    504: "The request took longer than the server lets one take.",
}
WORK = (400, 401, 404, 408, 413, 415, 429, 500, 503, 504)  # what a request that is painted or scored can end with

_FILE = {"type": "string", "format": "binary"}
_TEXT = {"type": "string", "description": "base64 or a data URL"}


def errors(*statuses: int) -> Responses:
    """Those that a route can answer with, each in the one shape."""
    return {status: {"model": ErrorAnswer, "description": MEANINGS[status]} for status in statuses}


def painted() -> Responses:
    """What paintings answer with: pictures or numbers beside JSON, events for streams, and errors."""
    files = (*MEDIA_TYPES.values(), "application/x-npy")
    content = {**{kind: {"schema": _FILE} for kind in files}, "text/event-stream": {}}
    return {200: {"description": "The images.", "content": content}, **errors(*WORK)}


def json_body(schema: type[ModelField]) -> dict[str, Any]:
    """A body that comes as JSON."""
    return _body({"application/json": _described(schema)})


def upload_body(schema: type[ModelField]) -> dict[str, Any]:
    """A body with pictures, that comes as a form or as JSON with base64."""
    form, as_json = _described(schema), _described(schema)
    files = {"type": "array", "items": _FILE, "minItems": 1}
    form["properties"] |= {"image": files, "image[]": files}
    form["required"] = []
    form["anyOf"] = [{"required": ["image"]}, {"required": ["image[]"]}]
    as_json["properties"]["image"] = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
    if issubclass(schema, EditRequest):
        form["properties"]["mask"] = _FILE
        as_json["properties"]["mask"] = {"anyOf": [_TEXT, {"type": "null"}]}
    return _body({"multipart/form-data": form, "application/json": as_json})


def install(app: FastAPI, wants_key: bool) -> None:
    """The framework's description, without its 422: what is wrong is 400 here. It tells whether keys are wanted."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        description = described()
        for path in description["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            description["components"]["schemas"].pop(name, None)
        if wants_key:
            description["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            description["security"] = [{"key": []}]
            for path in OPEN & description["paths"].keys():
                for operation in description["paths"][path].values():
                    operation["security"] = []
        return description

    app.openapi = openapi  # type: ignore[method-assign]


def _body(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    content = {kind: {"schema": schema} for kind, schema in kinds.items()}
    return {"requestBody": {"required": True, "content": content}}


def _described(schema: type[ModelField]) -> dict[str, Any]:
    """The schema's fields, with what its validators allow."""
    described = schema.model_json_schema()
    fields = described["properties"]
    for name in fields.keys() & set(NULL_IS_DEFAULT):
        fields[name] = {"anyOf": [fields[name], {"type": "null"}]}
    for name in fields.keys() & HARMLESS.keys():
        fields[name] = {"enum": [None, *HARMLESS[name]], "description": "of the official API; means nothing here"}
    return described
