"""scanline serve: from options to settings, the two start-up lines, the server."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from scanline.model.device import BACKEND_HELP
from scanline.model.precision import PRECISION_HELP
from scanline.server.settings import Settings

# settings that are tuples: their option is given once for each item
REPEATED = {
    "models": "--model",
    "api_keys": "--api-key",
    "allow_origins": "--allow-origin",
    "allow_hosts": "--allow-host",
    "trusted_proxies": "--trusted-proxy",
}


def _option(name: str, text: str) -> Any:
    """Declare an option for a setting, which has its default in Settings."""
    default = Settings.model_fields[name].default
    shown = ", ".join(default) if isinstance(default, tuple) else str(default or "")
    return typer.Option(_flag(name), help=text, show_default=shown or "none")


def _flag(name: str) -> str:
    return REPEATED.get(name, f"--{name.replace('_', '-')}")


def serve(
    models: Annotated[
        list[str] | None,
        _option("models", "Name of a shipped model, or a model directory. Repeatable; the first is the default."),
    ] = None,
    host: Annotated[str | None, _option("host", "Address to listen on.")] = None,
    port: Annotated[int | None, _option("port", "Port to listen on; 0 picks a free one.")] = None,
    api_processes: Annotated[
        int | None, _option("api_processes", "Processes that speak HTTP; more than one share the models' engines.")
    ] = None,
    device: Annotated[str | None, _option("device", "auto, cpu or cuda.")] = None,
    slots: Annotated[str | None, _option("slots", "Images in flight at once, per model: auto or a number.")] = None,
    threads: Annotated[str | None, _option("threads", "CPU threads per model: auto or a number.")] = None,
    precision: Annotated[str | None, _option("precision", PRECISION_HELP)] = None,
    backend: Annotated[str | None, _option("backend", BACKEND_HELP)] = None,
    engine_timeout: Annotated[
        float | None,
        _option("engine_timeout", "Seconds of silence after which an engine or an API process is restarted."),
    ] = None,
    load_timeout: Annotated[float | None, _option("load_timeout", "The same while an engine loads its model.")] = None,
    max_images_per_request: Annotated[
        int | None, _option("max_images_per_request", "Maximum number of images in one request.")
    ] = None,
    max_waiting_images: Annotated[
        int | None, _option("max_waiting_images", "Maximum number of images queued for a slot; beyond it, 429.")
    ] = None,
    max_body_bytes: Annotated[
        int | None, _option("max_body_bytes", "Maximum size of a request body or websocket message; beyond it, 413.")
    ] = None,
    max_head_bytes: Annotated[
        int | None, _option("max_head_bytes", "Maximum size of a request's URL and headers; beyond it, 414 or 431.")
    ] = None,
    max_websockets: Annotated[int | None, _option("max_websockets", "Maximum open websockets; beyond it, 503.")] = None,
    max_connections: Annotated[
        int | None, _option("max_connections", "Maximum open connections, websockets included; beyond it, 503.")
    ] = None,
    max_arriving_bytes: Annotated[
        int | None,
        _option("max_arriving_bytes", "Maximum bytes of bodies and messages in arrival, all clients together."),
    ] = None,
    max_unread_bytes: Annotated[
        int | None, _option("max_unread_bytes", "Maximum bytes of answers that wait to be read, all clients together.")
    ] = None,
    client_share: Annotated[
        float | None, _option("client_share", "Fraction of the queue and of each limit that one client may hold.")
    ] = None,
    max_jobs_per_websocket: Annotated[
        int | None, _option("max_jobs_per_websocket", "Maximum concurrent jobs on one websocket; beyond it, 429.")
    ] = None,
    max_messages_per_second: Annotated[
        int | None,
        _option("max_messages_per_second", "Maximum message rate of one websocket; then it is closed."),
    ] = None,
    max_overhead_per_second: Annotated[
        int | None,
        _option("max_overhead_per_second", "Rate of one client's requests without images; beyond it they are delayed."),
    ] = None,
    max_frames_per_second: Annotated[
        int | None,
        _option("max_frames_per_second", "Maximum frame rate over all websockets; none sends as fast as clients read."),
    ] = None,
    request_timeout: Annotated[
        float | None, _option("request_timeout", "Seconds from accepting a request to its last pixel; then 504.")
    ] = None,
    receive_timeout: Annotated[
        float | None, _option("receive_timeout", "Seconds for a request to arrive; then 408.")
    ] = None,
    send_timeout: Annotated[
        float | None, _option("send_timeout", "Seconds without progress after which an unread answer is dropped.")
    ] = None,
    keep_alive_timeout: Annotated[
        float | None, _option("keep_alive_timeout", "Seconds an idle connection stays open.")
    ] = None,
    drain_seconds: Annotated[
        float | None, _option("drain_seconds", "Seconds for running requests to finish at shutdown.")
    ] = None,
    api_keys: Annotated[
        list[str] | None,
        _option(
            "api_keys",
            "API key required on every route except probes, the page and /docs. Repeatable. Visible in `ps`; prefer"
            " SCANLINE_API_KEYS or --api-keys-file.",
        ),
    ] = None,
    api_keys_file: Annotated[
        Path | None, _option("api_keys_file", "File with a NAME and a KEY on each line; read again when it changes.")
    ] = None,
    allow_origins: Annotated[
        list[str] | None,
        _option("allow_origins", "Origin of web pages that may use this server, * for all. Repeatable."),
    ] = None,
    allow_hosts: Annotated[
        list[str] | None,
        _option(
            "allow_hosts",
            "Host name that requests may use, * for all; on loopback without keys, besides localhost. Repeatable.",
        ),
    ] = None,
    trusted_proxies: Annotated[
        list[str] | None,
        _option("trusted_proxies", "Proxy whose X-Forwarded-For is believed: address, network or unix. Repeatable."),
    ] = None,
    tls_cert: Annotated[Path | None, _option("tls_cert", "Certificate chain (PEM) for HTTPS; with --tls-key.")] = None,
    tls_key: Annotated[Path | None, _option("tls_key", "Private key (PEM) of the certificate.")] = None,
    unix_socket: Annotated[
        Path | None, _option("unix_socket", "Unix socket to listen on instead of host and port.")
    ] = None,
    log_format: Annotated[str | None, _option("log_format", "console or json.")] = None,
    log_level: Annotated[str | None, _option("log_level", "debug, info, warning or error.")] = None,
    otlp_endpoint: Annotated[
        str | None, _option("otlp_endpoint", "OpenTelemetry collector for traces, like http://host:4318.")
    ] = None,
) -> None:
    """Serve models over HTTP and websocket. Every option can also be set by a variable: SCANLINE_PORT for --port."""
    given = {name: value for name, value in locals().items() if value is not None}
    sys.exit(asyncio.run(_serve(given)))


async def _serve(given: dict[str, Any]) -> int:
    """Run the server until it is stopped and return its exit status."""
    from scanline.server.api.api_keys import api_keys
    from scanline.server.environment import check
    from scanline.server.process import logs, supervisor
    from scanline.server.process.listening import listen
    from scanline.server.process.memory import give_back_freed_memory
    from scanline.server.process.registry import served_models
    from scanline.server.process.running import run
    from scanline.server.process.tls import tls_certificate

    check(os.environ, given)
    give_back_freed_memory()
    settings = _settings(given)
    logs.configure(settings.log_format, settings.log_level)
    models, keys, certificate = served_models(settings), api_keys(settings), tls_certificate(settings)
    with listen(settings) as listening:
        place = f"{listening.url} (API documentation at {listening.url}/docs)" if listening.url else listening.name
        _announce(settings, f"Serving {', '.join(models.all)} at {place}")
        _announce(settings, _access(0 if keys is None else len(keys)))
        if settings.api_processes > 1:
            return await supervisor.run(settings, models, listening)
        return await run(settings, models, listening, keys, certificate)


def _announce(settings: Settings, line: str) -> None:
    """Print a start-up line, or log it where the log is JSON, so that every line is."""
    if settings.log_format == "console":
        print(line, file=sys.stderr)
    else:
        logging.getLogger("scanline.server").info(line)


def _access(keys: int) -> str:
    if not keys:
        return "No API key set: anyone who can reach this address can use it."
    return f"API key required on every route except probes, the page and /docs ({keys} key{'s' * (keys > 1)} set)."


def _settings(given: dict[str, Any]) -> Settings:
    """Return Settings with the given options; ValueError names the option whose value is wrong."""
    from pydantic import ValidationError

    try:
        return Settings(**{name: _number(value) for name, value in given.items()})
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # about several settings, which the message names
            raise ValueError(first["msg"].removeprefix("Value error, ")) from None
        name, *branch = first["loc"]
        reason = "must be auto or a whole number from 1" if branch else first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{_flag(str(name))}: {reason}") from None


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value
