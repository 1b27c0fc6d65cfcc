"""The one error shape, for everything: {"error": {"message", "type", "param", "code"}}.

Our own refusals are raised as ApiError; the framework's (404, 405, validation) and faults of our own are
turned into the same body here.
"""

import logging
import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.model.inputs import InvalidInput
from scanline.server.api.disconnect import ClientGoneError
from scanline.server.engine.client.handle import EngineUnavailableError, QueueFullError
from scanline.server.engine.client.job import EngineFailedError
from scanline.server.lifecycle import TimeIsUpError

log = logging.getLogger("scanline.server")

AGAIN_IS_NO_BETTER = {"x-should-retry": "false"}  # the official clients ask again after every other 500
PLAIN = re.compile(r"[\w\[\]-]{1,64}")  # names of fields that are worth repeating
WANTED = {  # what pydantic's kinds of errors mean, after "PARAM must be"
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_type": "text",
}
FRAMEWORK = {  # what its own refusals mean, by their status
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "This address does not take this method."),
}


class ApiError(Exception):
    """A refusal: one sentence, the parameter it is about, a code that programs can read."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.headers = status, message, param, code, headers

    @property
    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error"
        if self.status == 429:
            kind = "rate_limit_error"
        elif self.status >= 500:
            kind = "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def from_validation(errors: Sequence[Any]) -> ApiError | InvalidInput:
    """The first thing that pydantic found wrong, as one sentence that names the parameter."""
    first = errors[0]
    kind, context = first["type"], first.get("ctx", {})
    place = [str(part) for part in first["loc"] if part != "body"]
    if kind == "value_error" and isinstance(context["error"], InvalidInput):
        return context["error"]
    if kind == "json_invalid":
        return ApiError(400, "The body is not valid JSON.", code="invalid_json")
    if not place:
        return ApiError(400, "The body must be a JSON object.", code="invalid_body")
    param = place[0]
    if kind == "extra_forbidden":
        return unknown_field(param)
    if kind == "missing":
        return InvalidInput(f"{param} is missing.", param, "missing_parameter")
    if wanted := WANTED.get(kind):
        return InvalidInput(f"{param} must be {wanted.format(**context)}.", param)
    return InvalidInput(f"{param}: {first['msg'][0].lower()}{first['msg'][1:]}.", param)


def unknown_field(name: str) -> InvalidInput:
    """A field that nobody asked for, by its name where that is one."""
    if PLAIN.fullmatch(name):
        return InvalidInput(f"{name} is not a field of this request.", name, "unknown_parameter")
    return InvalidInput("A field has a name that no field of this request has.", None, "unknown_parameter")


def from_exception(error: Exception) -> ApiError:
    """What a client is told of an exception that a request ended with."""
    match error:
        case ApiError():
            return error
        case InvalidInput():
            return ApiError(400, error.message, param=error.param, code=error.code)
        case ValidationError() | RequestValidationError():
            return from_exception(from_validation(error.errors()))
        case QueueFullError():
            message = "Too many images are waiting; try again in a moment."
            return ApiError(429, message, code="queue_full", headers={"retry-after": "2"})
        case EngineUnavailableError():
            message = "The model is not ready to paint; try again in a moment."
            return ApiError(503, message, code="not_ready", headers={"retry-after": "2"})
        case ClientGoneError() | ClientDisconnect() | HTTPException(__cause__=ClientDisconnect()):
            return ApiError(499, "The client has gone.", code="client_gone")
        case TimeIsUpError():
            message = "The server shut down before this was done; ask again, for the one that comes after it."
            return ApiError(503, message, code="shutting_down", headers={"retry-after": "2"})
        case EngineFailedError():
            return ApiError(500, str(error), code="engine_failed", headers=AGAIN_IS_NO_BETTER)
        case HTTPException(__cause__=ApiError() as refused):  # the framework's wrapping of what reading a body raised
            return refused
        case HTTPException(__cause__=ValueError() | RecursionError()):
            return ApiError(400, "The body is not valid JSON.", code="invalid_json")
        case HTTPException():
            code, message = FRAMEWORK.get(error.status_code, (None, f"{error.detail}."))
            return ApiError(error.status_code, message, code=code, headers=dict(error.headers or {}))
    log.error("a request failed", exc_info=error)
    message = "The server failed on this request; its log says why."
    return ApiError(500, message, code="internal_error", headers=AGAIN_IS_NO_BETTER)


async def refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    """The answer of a middleware that lets a request, or a websocket not yet accepted, go no further."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 4000 + error.status, "reason": error.message})
        return
    await response(error)(scope, receive, send)


def response(error: ApiError) -> JSONResponse:
    """The answer to a request that ends with an error; the request's line in the log tells its code."""
    bind_contextvars(error=error.code or "other")
    return JSONResponse(error.body, error.status, error.headers)


def install(app: FastAPI) -> None:
    """Errors of `app` leave in the one shape; those that nobody expects are for CatchFaults."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        return response(from_exception(error))

    framework = (RequestValidationError, ValidationError, HTTPException, ClientDisconnect)
    ours = (ApiError, InvalidInput, ClientGoneError, QueueFullError, EngineUnavailableError, EngineFailedError)
    for kind in (*framework, *ours):
        app.add_exception_handler(kind, answer)
