"""The one error shape, for everything: {"error": {"message", "type", "param", "code"}}.

Our own refusals are raised as ApiError; the framework's (404, 405, validation) and faults of our own are
turned into the same body here.
"""

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from server.engine.client import EngineFailedError, EngineUnavailableError, QueueFullError

log = logging.getLogger("scanline.server")


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


def bad_request(message: str, param: str | None = None, code: str | None = "invalid_value") -> ApiError:
    return ApiError(400, message, param=param, code=code)


def from_validation(errors: Sequence[Any]) -> ApiError:
    """The first thing that pydantic found wrong, as one sentence that names the parameter."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    param = place[0] if place else None
    if first["type"] == "json_invalid":
        return ApiError(400, "The body is not valid JSON.", code="invalid_json")
    if first["type"] in ("model_attributes_type", "model_type", "dict_type") or not param:
        return ApiError(400, "The body must be a JSON object.", code="invalid_body")
    if first["type"] == "extra_forbidden":
        return ApiError(400, f"{param} is not a field of this request.", param=param, code="unknown_parameter")
    if first["type"] == "missing":
        return ApiError(400, f"{param} is missing.", param=param, code="missing_parameter")
    reason = str(first.get("ctx", {}).get("error") or first["msg"])
    if first["type"] == "value_error":
        return bad_request(reason, param, getattr(first["ctx"]["error"], "code", "invalid_value"))
    if wanted := WANTED.get(first["type"]):
        return bad_request(f"{param} must be {wanted.format(**first.get('ctx', {}))}.", param)
    return bad_request(f"{param}: {reason[0].lower()}{reason[1:]}.", param)


def from_exception(error: Exception) -> ApiError:
    """What a client is told of an exception that a request ended with."""
    match error:
        case ApiError():
            return error
        case ValidationError() | RequestValidationError():
            return from_validation(error.errors())
        case QueueFullError():
            message = "Too many images are waiting; try again in a moment."
            return ApiError(429, message, code="queue_full", headers={"retry-after": "2"})
        case EngineUnavailableError():
            message = "The model is not ready to paint; try again in a moment."
            return ApiError(503, message, code="not_ready", headers={"retry-after": "2"})
        case EngineFailedError():
            return ApiError(500, str(error), code="engine_failed")
        case HTTPException():
            codes = {404: "not_found", 405: "method_not_allowed"}
            message = "There is nothing at this address." if error.status_code == 404 else f"{error.detail}."
            headers = dict(error.headers or {})
            return ApiError(error.status_code, message, code=codes.get(error.status_code), headers=headers)
    log.error("a request failed", exc_info=error)
    return ApiError(500, "The server failed on this request; its log says why.", code="internal_error")


def install(app: FastAPI) -> None:
    """Every error of `app` leaves in the one shape."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        told = from_exception(error)
        return JSONResponse(told.body, told.status, told.headers)

    for kind in (ApiError, RequestValidationError, ValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)
    for kind in (QueueFullError, EngineUnavailableError, EngineFailedError):
        app.add_exception_handler(kind, answer)
