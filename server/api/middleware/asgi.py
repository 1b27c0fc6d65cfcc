"""What several middlewares read from ASGI's scopes and messages, in the words of the log and the metrics."""

from starlette.types import Message, Scope

STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


def path_of(scope: Scope) -> str:
    """The route's own path, once there is a route; never what a client made up."""
    return getattr(scope.get("route"), "path", "other")


def method_of(scope: Scope) -> str:
    """The method of a request; websockets have none."""
    return scope.get("method", "WEBSOCKET")


def status_of(start: Message) -> int:
    """The status of an answer, of one of the messages that start it."""
    return 101 if start["type"] == "websocket.accept" else start["status"]
