"""Headers of what a client accepts, and media types that pictures do not have."""

import re

from fastapi import Request
from starlette.datastructures import Headers

JSON = "application/json"
NPY = "application/x-npy"
MAX_TYPES = 64  # of one Accept: browsers send ten at most
MAX_PARAMETERS = 8  # of one type: browsers send two at most
WEIGHT = re.compile(r"[01](\.\d*)?|\.\d+")  # of a media type; Java writes .2


def accepted(request: Request) -> list[str]:
    """Return the media types of a request's Accept, those of the greatest weight first."""
    weights = _weights(request.headers.getlist("accept"))
    kinds = [kind for kind in weights if weights[kind]]
    return sorted(kinds, key=lambda kind: -weights[kind])


def takes_gzip(headers: Headers) -> bool:
    """Return whether an answer may be compressed with gzip (RFC 9110, 12.5.3)."""
    weights = _weights(headers.getlist("accept-encoding"))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weights(values: list[str]) -> dict[str, float]:
    """Return the weight of each name in the values of a header (RFC 9110, 12.4.2). What is beyond
    MAX_TYPES is not read: the event loop would take long for 30 kB of commas."""
    weights: dict[str, float] = {}
    for part in ",".join(values).lower().split(",", MAX_TYPES)[:MAX_TYPES]:
        kind, *parameters = map(str.strip, part.split(";", MAX_PARAMETERS))
        weights[kind] = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name == "q":
                if WEIGHT.fullmatch(value):
                    weights[kind] = float(value)
                break  # the first one counts
    return weights


def takes_json(kind: str) -> bool:
    """Return whether a media type of Accept, or of a body, is that of
    JSON, or one for any kind of answer.
    """
    return kind in ("*/*", "*", "application/*") or kind.endswith(("/json", "+json"))
