"""The description of the API at /docs and /openapi.json: request bodies in both encodings, responses, errors.

Nothing here changes what the server does.
"""

from typing import Any

from fastapi import FastAPI

from scanline.model.pictures import MEDIA_TYPES
from scanline.server.api.middleware.auth import OPEN_PATHS
from scanline.server.api.payload.response_schemas import ErrorAnswer
from scanline.server.api.payload.schemas import IGNORED_VALUES, NULL_IS_DEFAULT, ModelField

Responses = dict[int | str, dict[str, Any]]

MEANINGS = {
    400: "The request is invalid; param names the parameter.",
    401: "Missing or unknown API key.",
    403: "A browser sent the request for a page of an origin that is not allowed, or the server has no API keys.",
    404: "Unknown model, or unknown path.",
    408: "The request was not received in time.",
    409: "The model cannot be loaded, or is being loaded already.",
    413: "The body is too large.",
    415: "The body has an unsupported media type.",
    421: "The Host header names a host that is not allowed.",
    429: "Too many images wait, of this client or of all, or too many wrong API keys were sent; see Retry-After.",
    500: "The server or its engine failed.",
    503: "The model is loading or has failed, or the server is shutting down; see Retry-After.",
    504: "The request exceeded the server's time limit.",
}
WORK_ERRORS = (400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504)  # of requests that paint or score

_FILE = {"type": "string", "format": "binary"}
_TEXT = {"type": "string", "description": "base64 or a data URL"}


def errors(*statuses: int) -> Responses:
    """Describe error responses with these statuses, each in the one shape, and with those that follow from them.

    Any route may be asked under a foreign host name (421); where a key is needed, too many may be wrong (429).
    """
    all_statuses = {*statuses, 421, *({429} if 401 in statuses else ())}
    return {status: {"model": ErrorAnswer, "description": MEANINGS[status]} for status in sorted(all_statuses)}


def painted() -> Responses:
    """Describe the responses of a painting route: JSON, pictures, an array, events, and errors."""
    files = (*MEDIA_TYPES.values(), "application/x-npy")
    content = {**{kind: {"schema": _FILE} for kind in files}, "text/event-stream": {}}
    return {200: {"description": "The images.", "content": content}, **errors(*WORK_ERRORS)}


def json_body(schema: type[ModelField]) -> dict[str, Any]:
    """Describe a JSON body."""
    return _body({"application/json": _described(schema)})


def upload_body(schema: type[ModelField]) -> dict[str, Any]:
    """Describe a body with pictures: a form, or JSON with base64."""
    form, as_json = _described(schema), _described(schema)
    files = {"type": "array", "items": _FILE, "minItems": 1}
    form["properties"] |= {"image": files, "image[]": files}
    form["required"] = []
    form["anyOf"] = [{"required": ["image"]}, {"required": ["image[]"]}]
    as_json["properties"]["image"] = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
    if "mask" in schema.model_fields:
        form["properties"]["mask"] = _FILE
        as_json["properties"]["mask"] = {"anyOf": [_TEXT, {"type": "null"}]}
    return _body({"multipart/form-data": form, "application/json": as_json})


def install(app: FastAPI, needs_key: bool) -> None:
    """Take FastAPI's 422 out of its description of `app` (we answer 400), and add whether API keys are needed."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        description = described()
        for path in description["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            description["components"]["schemas"].pop(name, None)
        if needs_key:
            description["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            description["security"] = [{"key": []}]
            for path in OPEN_PATHS & description["paths"].keys():
                for operation in description["paths"][path].values():
                    operation["security"] = []
        return description

    app.openapi = openapi  # type: ignore[method-assign]


def _body(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    content = {kind: {"schema": schema} for kind, schema in kinds.items()}
    return {"requestBody": {"required": True, "content": content}}


def _described(schema: type[ModelField]) -> dict[str, Any]:
    """Return the schema's fields, with what its validators allow besides the declared types."""
    described = schema.model_json_schema()
    fields = described["properties"]
    for name in fields.keys() & set(NULL_IS_DEFAULT):
        fields[name] = {"anyOf": [fields[name], {"type": "null"}]}
    for name in fields.keys() & IGNORED_VALUES.keys():
        fields[name] = {
            "enum": [None, *IGNORED_VALUES[name]],
            "description": "accepted for compatibility with the official API; has no effect",
        }
    return described
