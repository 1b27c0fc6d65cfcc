"""scanline serve: options to settings, the socket, and the lines that say what is served where."""

import asyncio
import logging
import os
import socket
import sys
from typing import Annotated, Any

import typer

from scanline.model.precision import PRECISION_HELP
from scanline.server.settings import Settings

# one a time, many together
REPEATED = {"models": "--model", "api_keys": "--api-key", "allow_origins": "--allow-origin"}


def _option(name: str, text: str) -> Any:
    """An option without a default of its own: what is not given, Settings decides."""
    default = Settings.model_fields[name].default
    shown = ", ".join(default) or "none" if isinstance(default, tuple) else str(default)
    return typer.Option(_flag(name), help=text, show_default=shown)


def _flag(name: str) -> str:
    return REPEATED.get(name, f"--{name.replace('_', '-')}")


def serve(
    models: Annotated[
        list[str] | None,
        _option("models", "A shipped model's name or a model directory. Repeatable; the first is the default."),
    ] = None,
    host: Annotated[str | None, _option("host", "Address to listen on.")] = None,
    port: Annotated[int | None, _option("port", "Port to listen on.")] = None,
    device: Annotated[str | None, _option("device", "auto, cpu or cuda.")] = None,
    slots: Annotated[str | None, _option("slots", "Images in flight at once, of each model: auto or a number.")] = None,
    threads: Annotated[str | None, _option("threads", "Of the CPU, for each model: auto or a number.")] = None,
    precision: Annotated[str | None, _option("precision", PRECISION_HELP)] = None,
    engine_timeout: Annotated[
        float | None, _option("engine_timeout", "Seconds of silence after which an engine is taken for hung.")
    ] = None,
    load_timeout: Annotated[float | None, _option("load_timeout", "The same while it loads its model.")] = None,
    max_images_per_request: Annotated[int | None, _option("max_images_per_request", "More are refused.")] = None,
    max_waiting_images: Annotated[int | None, _option("max_waiting_images", "Beyond the slots; then 429.")] = None,
    max_body_bytes: Annotated[int | None, _option("max_body_bytes", "Of a request or message; then 413.")] = None,
    max_head_bytes: Annotated[
        int | None, _option("max_head_bytes", "Of an address and headers; then 414, 431.")
    ] = None,
    max_websockets: Annotated[int | None, _option("max_websockets", "Open at once; then 503.")] = None,
    max_jobs_per_websocket: Annotated[int | None, _option("max_jobs_per_websocket", "At once; then 429.")] = None,
    max_messages_per_second: Annotated[
        int | None, _option("max_messages_per_second", "On one websocket; then it is closed.")
    ] = None,
    max_frames_per_second: Annotated[
        int | None, _option("max_frames_per_second", "Of all websockets together; none: as fast as they are read.")
    ] = None,
    request_timeout: Annotated[
        float | None, _option("request_timeout", "Seconds from a request's acceptance to its last pixel; then 504.")
    ] = None,
    receive_timeout: Annotated[
        float | None, _option("receive_timeout", "Seconds for a request to arrive; then 408.")
    ] = None,
    keep_alive_timeout: Annotated[
        float | None, _option("keep_alive_timeout", "Seconds an idle connection stays open.")
    ] = None,
    drain_seconds: Annotated[
        float | None, _option("drain_seconds", "Seconds for work in hand when the server is stopped.")
    ] = None,
    api_keys: Annotated[
        list[str] | None,
        _option("api_keys", "Wanted of all but probes. Repeatable; process lists show it, not SCANLINE_API_KEYS."),
    ] = None,
    allow_origins: Annotated[
        list[str] | None, _option("allow_origins", "Of pages that may use this server, * for all. Repeatable.")
    ] = None,
    log_format: Annotated[str | None, _option("log_format", "console or json.")] = None,
    log_level: Annotated[str | None, _option("log_level", "debug, info, warning or error.")] = None,
    otlp_endpoint: Annotated[
        str | None, _option("otlp_endpoint", "Of an OpenTelemetry collector, for traces: http://host:4318.")
    ] = None,
) -> None:
    """Serves models over HTTP and websocket. SCANLINE_* variables set what no option does."""
    given = {name: value for name, value in locals().items() if value is not None}
    sys.exit(asyncio.run(_serve(given)))


async def _serve(given: dict[str, Any]) -> int:
    """Runs until the server is stopped; its exit status."""
    from scanline.server import logs
    from scanline.server.environment import check
    from scanline.server.registry import served_models
    from scanline.server.running import run

    check(os.environ, given)
    settings = _settings(given)
    logs.configure(settings.log_format, settings.log_level)
    models = served_models(settings)
    listening = _listen(settings.host, settings.port)
    address = f"http://{settings.host}:{listening.getsockname()[1]}"
    _say(settings, f"Scanline paints with {', '.join(models.all)} at {address}, described at {address}/docs")
    _say(settings, _who_may(len(settings.api_keys)))
    return await run(settings, models, listening)


def _say(settings: Settings, line: str) -> None:
    """A greeting: to people as it is, to programs that read the log as one of its lines."""
    if settings.log_format == "console":
        print(line, file=sys.stderr)
    else:
        logging.getLogger("scanline.server").info(line)


def _who_may(keys: int) -> str:
    if not keys:
        return "Whoever reaches it may paint; --api-key or SCANLINE_API_KEYS lets in only those with a key"
    return f"It wants {'its key' if keys == 1 else f'one of its {keys} keys'} of everybody but probes"


def _listen(host: str, port: int) -> socket.socket:
    """The socket to listen on; ValueError where it is taken or cannot be."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    # connections inherit it; asyncio sets it only where a socket names its protocol, and answers would wait for ACKs
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _settings(given: dict[str, Any]) -> Settings:
    """Settings with what was given; ValueError that names the option where a value is wrong."""
    from pydantic import ValidationError

    try:
        return Settings(**{name: _number(value) for name, value in given.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name, *branch = first["loc"]
        reason = "must be auto or a whole number from 1" if branch else first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{_flag(str(name))}: {reason}") from None


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value
