"""Error responses, all of one shape: {"error": {"message", "type", "param", "code"}}.

Our own refusals are raised as ApiError; the framework's (404, 405, validation) and unexpected
exceptions are turned into the same body here.
"""

import logging
import re
import reprlib
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.model.base.inputs import InvalidInput
from scanline.server.api.base.error_codes import STATUSES
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.queue_limits import QueueFullError
from scanline.server.models.registry import ModelFailedError, UnknownModelError
from scanline.server.models.reload import ReloadError
from scanline.server.runtime.lifecycle import DrainTimeoutError

log = logging.getLogger("scanline.server")

RETRY_SOON = {"retry-after": "2"}
# without it the official clients retry every response of 500 and above
NO_RETRY = {"x-should-retry": "false"}
FIELD_NAME = re.compile(r"[\w\[\]-]{1,64}")  # other names are not repeated in messages
PATH = re.compile(r"[\w/.-]{1,128}", re.ASCII)  # other paths are not repeated either
MAX_QUOTED = 64  # characters of a client's value that a message repeats
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = MAX_QUOTED
_SHORT.maxlevel = 2  # of lists and objects in each other
FRAMEWORK_CODES = {404: "not_found", 405: "method_not_allowed"}  # of starlette's own refusals
EXPECTED = {  # by pydantic's type of error: what follows "PARAM must be"
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_too_long": "at most {max_length} characters long",
    "string_type": "text",
    "too_short": "a list of at least {min_length}",
}


class ApiError(Exception):
    """An error response: a code for programs, which has a status, one sentence, the parameter
    it is about.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = STATUSES[code]
        self.message = message
        self.param = param
        self.code = code
        self.headers = headers

    @property
    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error"
        if self.status == 429:
            kind = "rate_limit_error"
        elif self.status >= 500:
            kind = "server_error"
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        }


class ClientGoneError(Exception):
    """The client closed its connection before it was answered."""


def quoted(value: object) -> str:
    """Return a client's value as Python writes it, at most MAX_QUOTED characters of it, at a cost
    that does not grow with the value."""
    text = _SHORT.repr(value)
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 3]}..."


def from_validation(errors: Sequence[Any]) -> ApiError | InvalidInput:
    """Return the first of pydantic's errors, as one sentence that names the parameter."""
    first = errors[0]
    kind = first["type"]
    context = first.get("ctx", {})
    place = [str(part) for part in first["loc"] if part != "body"]
    if kind == "value_error" and isinstance(context["error"], InvalidInput):
        return context["error"]
    if kind == "json_invalid":
        return ApiError("invalid_json", "The body is not valid JSON.")
    if not place:
        return ApiError("invalid_body", "The body must be a JSON object.")
    param = place[0]
    if kind == "extra_forbidden":
        return unknown_field(param)
    if kind == "missing":
        return InvalidInput(f"{param} is missing.", param, "missing_parameter")
    if expected := EXPECTED.get(kind):
        return InvalidInput(f"{param} must be {expected.format(**context)}.", param)
    return InvalidInput(f"{param}: {first['msg'][0].lower()}{first['msg'][1:]}.", param)


def unknown_field(name: str) -> InvalidInput:
    """Return the error for a field that the schema does not have; it repeats
    the name only if that is harmless.
    """
    if FIELD_NAME.fullmatch(name):
        return InvalidInput(f"{name} is not a field of this request.", name, "unknown_parameter")
    return InvalidInput("The request has an unknown field.", None, "unknown_parameter")


def from_exception(error: Exception) -> ApiError:
    """Return the error response to a request that ended with this exception."""
    # The first case that matches answers: one with a condition stands before its class alone.
    match error:
        case ApiError():
            return error
        case InvalidInput():
            return ApiError(error.code, error.message, param=error.param)
        case ValidationError():
            return from_exception(
                from_validation(error.errors(include_url=False, include_input=False))
            )
        case RequestValidationError():
            return from_exception(from_validation(error.errors()))
        case UnknownModelError(args=(name,)):
            message = (
                f"The model {quoted(name)} does not exist; GET /v1/models lists those that do."
            )
            return ApiError("model_not_found", message, param="model")
        case ModelFailedError():
            return ApiError("model_failed", str(error), param="model", headers=NO_RETRY)
        case ReloadError():
            retry = RETRY_SOON if error.code == "reload_in_progress" else None
            return ApiError(error.code, str(error), headers=retry)
        case QueueFullError():
            retry = (
                NO_RETRY if error.retry_after is None else {"retry-after": str(error.retry_after)}
            )
            return ApiError(error.code, str(error), headers=retry)
        case EngineUnavailableError():
            message = "The model is not ready to paint; try again in a moment."
            return ApiError("not_ready", message, headers=RETRY_SOON)
        case ClientGoneError() | ClientDisconnect() | HTTPException(__cause__=ClientDisconnect()):
            return ApiError("client_gone", "The client closed the connection.")
        case DrainTimeoutError():
            message = "The server shut down before this request was done; retry in a moment."
            return ApiError("shutting_down", message, headers=RETRY_SOON)
        case EngineFailedError(code="model_changed"):
            return ApiError("model_changed", str(error), headers=NO_RETRY)
        # the engine has been replaced by one of fewer slots
        case EngineFailedError(param=str(param)):
            return ApiError(error.code, str(error), param=param)
        case EngineFailedError():
            return ApiError("engine_failed", str(error), headers=NO_RETRY)
        case HTTPException(__cause__=ApiError() as refused):  # raised while FastAPI read the body
            return refused
        case HTTPException(__cause__=ValueError() | RecursionError()):
            return ApiError("invalid_json", "The body is not valid JSON.")
        case HTTPException():
            code = FRAMEWORK_CODES.get(error.status_code, "invalid_body")
            message = f"{error.detail.capitalize()}."
            return ApiError(code, message, headers=dict(error.headers or {}))
    # Whatever no case expects is a fault of the server: its text, which may have
    # paths or data, is for the log alone.
    log.error("request failed", exc_info=error)
    message = "Internal server error; the server's log has the details."
    return ApiError("internal_error", message, headers=NO_RETRY)


def _no_route(request: Request) -> ApiError:
    """Return the error for a path that no route has; it names the route that
    was meant, where that can be seen.
    """
    path = request.url.path
    meant = "/" + "/".join(filter(None, path.split("/")))

    def is_route(path: str, kind: str) -> bool:
        scope = {**request.scope, "path": path, "type": kind}
        return any(route.matches(scope)[0] is not Match.NONE for route in request.app.routes)

    if is_route(path, "websocket"):
        upgrade = {"upgrade": "websocket", "connection": "upgrade"}
        return ApiError(
            "upgrade_required", f"{path} is a websocket; open it as one.", headers=upgrade
        )
    message = "Not found."
    if meant != path and PATH.fullmatch(meant) and is_route(meant, "http"):
        message = f"Not found; {meant} is the path."
    return ApiError("not_found", message)


async def refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the error in answer to a request, or to a websocket that is not accepted yet."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get(
        "extensions", {}
    ):
        await send(
            {"type": "websocket.close", "code": 4000 + error.status, "reason": error.message}
        )
        return
    await response(error)(scope, receive, send)


def response(error: ApiError) -> JSONResponse:
    """Return the error as a response; its code is added to the request's log line."""
    bind_contextvars(error=error.code)
    return JSONResponse(error.body, error.status, error.headers)


def install(app: FastAPI) -> None:
    """Let `app` answer expected exceptions in the one shape; the
    others reach ExceptionMiddleware.
    """

    async def answer(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, HTTPException) and error.status_code == 404:
            return response(_no_route(request))
        return response(from_exception(error))

    framework = (RequestValidationError, ValidationError, HTTPException, ClientDisconnect)
    models = (UnknownModelError, ModelFailedError, ReloadError)
    ours = (
        ApiError,
        InvalidInput,
        ClientGoneError,
        QueueFullError,
        EngineUnavailableError,
        EngineFailedError,
    )
    for kind in (*framework, *models, *ours):
        app.add_exception_handler(kind, answer)
