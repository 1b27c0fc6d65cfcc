"""The description of the API at /docs and /openapi.json: request bodies
in both encodings, responses, errors.

Nothing here changes what the server does.
"""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from scanline.model.formats.code_file import MEDIA_TYPE
from scanline.server.api.base.error_codes import MEANINGS
from scanline.server.api.middleware.auth import OPEN_PATHS
from scanline.server.api.payload import schemas
from scanline.server.api.payload.image_output import MEDIA_TYPES
from scanline.server.api.payload.response_schemas import ErrorAnswer
from scanline.server.api.payload.schemas import ModelField

Responses = dict[int | str, dict[str, Any]]

# of requests that paint or score
WORK_ERRORS = (400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504)

UPLOADS: tuple[type[ModelField], ...] = (
    schemas.EditRequest,
    schemas.LikelihoodRequest,
    schemas.ClassificationRequest,
    schemas.StepsRequest,
    schemas.CodesRequest,
    schemas.DecodingRequest,
)
BODIES: tuple[type[ModelField], ...] = (schemas.GenerationRequest, *UPLOADS)
JSON = "application/json"
EXAMPLE_PICTURE = (  # black, 28 x 28
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAAAAABXZoBIAAAAEElEQVR42mNgGAWjYBQQAwADLAAB1wvpfAAAAABJRU5ErkJggg=="
)
FILES = {"image": "picture", "code": "code"}  # fields of several files, and what each is
EXAMPLE_CODE = "data:application/x-scanline-code;base64,k3NjYW4NCgE="
_FILE = {"type": "string", "format": "binary"}
_REQUEST_ID = {
    "name": "X-Request-ID",
    "in": "header",
    "required": False,
    "description": "returned with the answer and logged; drawn if absent",
    "schema": {"type": "string"},
}
_TEXT = {"type": "string", "description": "base64 or a data URL"}


def errors(*statuses: int) -> Responses:
    """Describe error responses with these statuses, each in the one shape,
    and with those that follow from them.

    Any route may be asked under a foreign host name (421); where a key is
    needed, too many may be wrong (429).
    """
    all_statuses = {*statuses, 421, *({429} if 401 in statuses else ())}
    return {
        status: {"model": ErrorAnswer, "description": f"Codes: {', '.join(MEANINGS[status])}."}
        for status in sorted(all_statuses)
    }


def painted() -> Responses:
    """Describe the responses of a painting route: JSON, pictures, an array, events, and errors."""
    files = (*dict.fromkeys(MEDIA_TYPES.values()), "application/x-npy")
    content = {
        **{kind: {"schema": _FILE} for kind in files},
        "text/event-stream": {"schema": {"type": "string"}},
    }
    return {200: {"description": "The images.", "content": content}, **errors(*WORK_ERRORS, 406)}


def coded() -> Responses:
    """Describe the responses of codes: JSON, one file, and errors."""
    return {
        200: {"description": "The codes.", "content": {MEDIA_TYPE: {"schema": _FILE}}},
        **errors(*WORK_ERRORS),
    }


def json_body(schema: type[ModelField], example: dict[str, Any]) -> dict[str, Any]:
    """Describe a JSON body."""
    return _body({JSON: _named(schema.__name__, example)})


def upload_body(schema: type[ModelField], example: dict[str, Any]) -> dict[str, Any]:
    """Describe a body with pictures: a form, or JSON with base64."""
    as_json = _named(schema.__name__, {"image": EXAMPLE_PICTURE, **example})
    return _body({"multipart/form-data": _named(_form_name(schema)), JSON: as_json})


def code_body(schema: type[ModelField]) -> dict[str, Any]:
    """Describe a body with codes: a form, JSON with base64, or a code itself."""
    as_json = _named(schema.__name__, {"code": EXAMPLE_CODE, "images": "0"})
    form = _named(_form_name(schema))
    # openapi-python-client 0.29 knows no other media type for a file.
    return _body(
        {"multipart/form-data": form, JSON: as_json, "application/octet-stream": {"schema": _FILE}}
    )


def operation_id(route: APIRoute) -> str:
    """Return the name of a route's function, from which
    generators make those of their functions.
    """
    return route.name


def install(app: FastAPI, needs_key: bool, max_images: int) -> None:
    """Take FastAPI's 422 out of its description of `app` (we answer 400), and add the bodies'
    schemas, with the images that a request may have, and whether API keys are needed. The list of
    models comes before their weights."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        description = described()
        paths = description["paths"]
        by_use = sorted(paths, key=lambda path: path.endswith("/weights"))
        description["paths"] = {path: paths[path] for path in by_use}
        for path in description["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        components = description["components"]
        for name in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(name, None)
        for schema in BODIES:
            components["schemas"][schema.__name__] = _described(schema)
        for schema in UPLOADS:
            components["schemas"][_form_name(schema)] = _form(schema)
        for body in components["schemas"].values():
            n = body.get("properties", {}).get("n")
            if n is not None:
                # of JSON it may be null, too
                number = n["anyOf"][0] if "anyOf" in n else n
                number["maximum"] = max_images
        components["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer"},
            "key_header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        # A server without keys ignores the headers: what is generated from
        # its description may have keys, too.
        description["security"] = [*([] if needs_key else [{}]), {"key": []}, {"key_header": []}]
        for path in OPEN_PATHS & description["paths"].keys():
            for operation in description["paths"][path].values():
                operation["security"] = []
        return description

    app.openapi = openapi  # type: ignore[method-assign]


def _body(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    # openapi-python-client 0.29 imports a type of several bodies only where
    # there is an optional parameter, too.
    return {"requestBody": {"required": True, "content": kinds}, "parameters": [_REQUEST_ID]}


def _named(name: str, example: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a media type whose schema is among the components that `install` adds."""
    examples = {} if example is None else {"example": example}
    return {"schema": {"$ref": f"#/components/schemas/{name}"}, **examples}


def _form_name(schema: type[ModelField]) -> str:
    return f"{schema.__name__.removesuffix('Request')}Form"


def _form(schema: type[ModelField]) -> dict[str, Any]:
    """Return the schema of a form: pictures and codes are files, and nothing is null.
    The parts of several pictures have one name, `image`; other spellings are read,
    but have no place in a description."""
    form = _described(schema)
    form["title"] = _form_name(schema)
    fields = form["properties"]
    for name in fields.keys() & schemas.IGNORED_VALUES.keys():
        del fields[name]
    for name, field in fields.items():
        kinds = [kind for kind in field.pop("anyOf", ()) if kind != {"type": "null"}]
        fields[name] = {**field, **(kinds[0] if kinds else {})}
    for name in sorted(schemas.IGNORED_VALUES.keys() & schema.model_fields.keys()):
        if values := [str(value) for value in schemas.IGNORED_VALUES[name]]:
            fields[name] = {"type": "string", "enum": values, "description": schemas.NO_EFFECT}
    for name, what in FILES.items():
        if name in fields:
            fields[name] = {
                "type": "array",
                "items": _FILE,
                "minItems": 1,
                "description": f"one part for each {what}",
            }
    if "mask" in fields:
        fields["mask"] = _FILE
    return form


def _described(schema: type[ModelField]) -> dict[str, Any]:
    """Return the schema of a JSON object, with what its validators allow besides the declared
    types. Descriptions name the defaults: with the keyword `default`, openapi-python-client sends
    each of them, of which some requests refuse one, and openapi-typescript takes the
    field for one that is always there."""
    described = schema.model_json_schema()
    fields = described["properties"]
    for field in fields.values():
        default = field.pop("default", None)
        if default is not None:
            field["description"] = "; ".join(
                filter(None, [field.get("description"), f"default {json.dumps(default)}"])
            )
    for name in fields.keys() & set(schemas.NULL_IS_DEFAULT):
        description = fields[name].pop("description")
        fields[name] = {"anyOf": [fields[name], {"type": "null"}], "description": description}
    for name in fields.keys() & schemas.IGNORED_VALUES.keys():
        fields[name] = {
            "enum": [None, *schemas.IGNORED_VALUES[name]],
            "description": schemas.NO_EFFECT,
        }
    for name in fields.keys() & FILES.keys():
        kinds = [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]
        fields[name] = {"anyOf": kinds, "description": fields[name]["description"]}
    if "mask" in fields:
        fields["mask"] = {
            "anyOf": [_TEXT, {"type": "null"}],
            "description": fields["mask"]["description"],
        }
    return described
