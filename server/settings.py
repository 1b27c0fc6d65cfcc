"""Settings of a server, from `scanline serve`'s options or SCANLINE_*
variables: validated once, then frozen.
"""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from scanline.model import zoo
from scanline.model.base.device import AUTO, BACKEND_HELP, BackendName
from scanline.model.base.precision import DEFAULT, PRECISION_HELP, PrecisionName
from scanline.server.runtime.logs import Format, Level

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Items = Annotated[tuple[str, ...], NoDecode]  # of a variable, whose text is split at commas
KEY = re.compile(r"[!-+\--~]+")  # printable ASCII without space and comma
COMMA_SEPARATED = (
    "models",
    "served_model_names",
    "api_keys",
    "allow_origins",
    "frame_ancestors",
    "allow_hosts",
    "trusted_proxies",
)
ORIGIN = r"\*|[a-z][a-z0-9+.-]*://[^/?#@,\sA-Z]+"
HOST_NAME = r"\*|\[?[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\]?|[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?"
# nothing that a shell or HTML reads
MODEL_NAME = r"[^\s,=$`'\"<>&;|\\*?!\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069]+"
FORMS = {  # of each item of a setting, and the same in words
    "models": (r"(?s).+", "a model must be a name or a directory"),
    "served_model_names": (
        rf"{MODEL_NAME}(=[^,=]+)?",
        "a name must be NAME or NAME=MODEL, without spaces, commas and what a shell or HTML reads",
    ),
    **dict.fromkeys(
        ("allow_origins", "frame_ancestors"),
        (ORIGIN, "an origin must be * or like https://example.com, without a path"),
    ),
    "allow_hosts": (HOST_NAME, "a host must be * or a name like example.com, without a port"),
}
MAX_SOCKET_PATH_BYTES = 107  # of a unix socket's address


def setting(default: Any, text: str, **limits: Any) -> Any:
    """Return the field of a setting: its default, the help of its
    option, and the limits of its value.
    """
    return Field(default, description=text, **limits)


class Settings(BaseSettings):
    """Every setting, with its default and its help, from which
    `scanline serve` makes its options.
    """

    model_config = SettingsConfigDict(env_prefix="SCANLINE_", frozen=True, extra="forbid")

    models: Items = setting(
        tuple(zoo.names()),
        "Name of a shipped model, a model directory, or of the Hugging Face Hub ORG/NAME or ORG/NAME@REVISION."
        " Repeatable; the first is the default.",
    )
    served_model_names: Items = setting(
        (),
        "Name by which requests select the first model, or NAME=MODEL. Repeatable; the first is what answers call it.",
    )
    host: str = setting("127.0.0.1", "Address to listen on; :: is IPv4 and IPv6.")
    port: int = setting(8000, "Port to listen on; 0 picks a free one.", ge=0, le=65535)
    api_processes: Positive = setting(
        1, "Processes that speak HTTP; more than one share the models' engines."
    )
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "auto, cpu or cuda.")
    slots: Literal["auto"] | Positive = setting(
        "auto", "Images in flight at once, per model: auto or a number."
    )
    threads: Literal["auto"] | Positive = setting(
        "auto", "CPU threads per model: a number, or auto, the CPUs divided among the models."
    )
    precision: PrecisionName = setting(DEFAULT, PRECISION_HELP)
    backend: BackendName = setting(AUTO, BACKEND_HELP)
    # includes compiling the kernels in a GPU's first tick
    engine_timeout: Seconds = setting(
        120, "Seconds of silence after which an engine or API process is restarted."
    )
    load_timeout: Seconds = setting(600, "The same while an engine loads its model.")
    max_images_per_request: Positive = setting(1024, "Maximum number of images in one request.")
    max_waiting_images: Positive = setting(
        10_000, "Maximum number of images queued for a slot; beyond it, 429."
    )
    max_body_bytes: Positive = setting(
        16_000_000, "Maximum size of a body or websocket message; beyond it, 413."
    )
    max_head_bytes: Positive = setting(
        32_768, "Maximum size of a request's URL and headers; beyond it, 414 or 431."
    )
    max_websockets: Positive = setting(4096, "Maximum open websockets; beyond it, 503.")
    max_connections: Positive = setting(
        8192, "Maximum open connections, websockets included; beyond it, 503."
    )
    max_arriving_bytes: Positive = setting(
        256_000_000,
        "Maximum bytes of incomplete requests of all clients; beyond it, 503 after 2 s.",
    )
    max_unread_bytes: Positive = setting(
        512_000_000,
        "Maximum bytes of unread answers of all clients; beyond it, the largest are cut.",
    )
    client_share: float = setting(
        0.5, "Share of what others leave of each limit that one client may hold.", gt=0, le=1
    )
    max_jobs_per_websocket: Positive = setting(
        64, "Maximum concurrent jobs on one websocket; beyond it, 429."
    )
    max_messages_per_second: Positive = setting(
        1000, "Maximum message rate of one websocket; beyond it, it is closed."
    )
    max_overhead_per_second: Positive = setting(
        20, "Rate of one client's requests without images; more are delayed."
    )
    max_frames_per_second: Positive | None = setting(
        None, "Maximum frame rate over all websockets; none is no limit."
    )
    resize: bool = setting(
        False,
        "Resize images to a request's size, uploads to the model's, unless its size_policy is exact; without it, 400.",
    )
    request_timeout: Seconds = setting(
        600, "Seconds from accepting a request to its last pixel; then 504."
    )
    receive_timeout: Seconds = setting(60, "Seconds for a request to arrive; then 408.")
    send_timeout: Seconds = setting(
        60, "Seconds without progress after which an unread answer is dropped."
    )
    keep_alive_timeout: Seconds = setting(
        75, "Seconds an idle connection stays open: longer than in a proxy's pool (60)."
    )
    # below the 30 after which Kubernetes kills a pod
    drain_seconds: float = setting(
        25, "Seconds for running requests to finish at shutdown.", ge=0, allow_inf_nan=False
    )
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = setting(
        (),
        "API key required on every route except probes, the page and /docs. Repeatable. Visible in `ps`; prefer"
        " SCANLINE_API_KEYS or --api-keys-file.",
    )
    api_keys_file: Path | None = setting(
        None, "File with a NAME and a KEY on each line; read again when it changes."
    )
    allow_origins: Items = setting(
        (), "Origin of web pages that may use this server, * for all. Repeatable."
    )
    frame_ancestors: Items = setting(
        (), "Origin of web pages that may embed the page, * for all. Repeatable."
    )
    allow_hosts: Items = setting(
        (),
        "Host name that requests may use, without a port; * for all. On loopback without keys, localhost is allowed"
        " too. Repeatable.",
    )
    trusted_proxies: Items = setting(
        (), "Trusted source of X-Forwarded-For: address, network or unix. Repeatable."
    )
    tls_cert: Path | None = setting(None, "Certificate chain (PEM) for HTTPS; with --tls-key.")
    tls_key: Path | None = setting(None, "Private key (PEM) of the certificate, not encrypted.")
    unix_socket: Path | None = setting(None, "Unix socket to listen on instead of host and port.")
    log_format: Format = setting("console", "console or json.")
    log_level: Level = setting("info", "debug, info, warning or error.")
    otlp_endpoint: str | None = setting(
        None, "OpenTelemetry collector for traces, like http://host:4318.", pattern=r"^https?://"
    )

    @field_validator(*COMMA_SEPARATED, mode="before")
    @classmethod
    def _commas(cls, value: Any) -> Any:
        return value.split(",") if isinstance(value, str) else value

    @field_validator(*FORMS)
    @classmethod
    def _items(cls, items: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        form, rule = FORMS[str(info.field_name)]
        for item in items:
            if not re.fullmatch(form, item):
                raise ValueError(f"{rule}, not {item!r}")
        return items

    @field_validator("api_keys")
    @classmethod
    def _keys(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for key in keys:
            if not key.get_secret_value():
                raise ValueError("a key must not be empty")
            if not KEY.fullmatch(key.get_secret_value()):
                raise ValueError("a key must be printable ASCII without spaces and commas")
        return keys

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                if proxy != "unix":
                    ip_network(proxy, strict=False)
            except ValueError:
                reason = (
                    "a proxy must be an address like 10.0.0.1, a network like 10.0.0.0/8, or unix"
                )
                raise ValueError(f"{reason}, not {proxy!r}") from None
        return proxies

    @field_validator("api_keys_file", "tls_cert", "tls_key")
    @classmethod
    def _file(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError(f"there is no file {path}")
        return path

    @field_validator("unix_socket")
    @classmethod
    def _socket(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        if not path.parent.is_dir():
            raise ValueError(f"there is no directory {path.parent}")
        if len(bytes(path)) > MAX_SOCKET_PATH_BYTES:
            raise ValueError(
                f"the path of a unix socket may have {MAX_SOCKET_PATH_BYTES} bytes at most"
            )
        return path

    @model_validator(mode="after")
    def _tls(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key belong together: give both or none")
        return self
