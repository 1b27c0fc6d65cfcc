"""Settings of a server, from `scanline serve`'s options or SCANLINE_* variables: validated once, then frozen."""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from scanline.model import zoo
from scanline.model.device import AUTO, BackendName
from scanline.model.precision import DEFAULT, PrecisionName
from scanline.server.process.logs import Format, Level

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
KEY = re.compile(r"[!-+\--~]+")  # printable ASCII without space and comma
ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/?#@,\sA-Z]+")
HOST_NAME = re.compile(r"\*|\[?[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\]?|[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
MAX_SOCKET_PATH_BYTES = 107  # of a unix socket's address


class Settings(BaseSettings):
    """Every setting and its default, which stands nowhere else."""

    model_config = SettingsConfigDict(env_prefix="SCANLINE_", frozen=True, extra="forbid")

    models: Annotated[tuple[str, ...], NoDecode] = (zoo.DEFAULT,)  # the first is the default of requests
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    api_processes: Positive = 1  # that speak HTTP; more than one share the engines of a main process
    device: Literal["auto", "cpu", "cuda"] = "auto"
    slots: Literal["auto"] | Positive = "auto"
    threads: Literal["auto"] | Positive = "auto"
    precision: PrecisionName = DEFAULT
    backend: BackendName = AUTO
    engine_timeout: Seconds = 120  # includes compiling the kernels in a GPU's first tick
    load_timeout: Seconds = 600
    max_images_per_request: Positive = 1024
    max_waiting_images: Positive = 10_000
    max_body_bytes: Positive = 16_000_000
    max_head_bytes: Positive = 32_768
    max_websockets: Positive = 4096
    max_connections: Positive = 8192  # websockets included
    max_arriving_bytes: Positive = 256_000_000  # of bodies and messages that are not complete, all clients together
    max_unread_bytes: Positive = 512_000_000  # of answers that wait for their clients to read them, all together
    client_share: Annotated[float, Field(gt=0, le=1)] = 0.5  # of the queue and of each limit above, for one client
    max_jobs_per_websocket: Positive = 64
    max_messages_per_second: Positive = 1000
    max_overhead_per_second: Positive = 20  # requests and messages of one client that return no image
    max_frames_per_second: Positive | None = None  # None: as fast as clients read
    request_timeout: Seconds = 600
    receive_timeout: Seconds = 60
    send_timeout: Seconds = 60
    keep_alive_timeout: Seconds = 5
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 25  # Kubernetes kills a pod after 30
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = ()  # empty: no key is needed
    api_keys_file: Path | None = None  # lines of NAME KEY, read again when it changes
    allow_origins: Annotated[tuple[str, ...], NoDecode] = ()
    allow_hosts: Annotated[tuple[str, ...], NoDecode] = ()  # names in requests' Host headers, without ports
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()  # whose X-Forwarded-For counts
    tls_cert: Path | None = None
    tls_key: Path | None = None
    unix_socket: Path | None = None  # instead of host and port
    log_format: Format = "console"
    log_level: Level = "info"
    otlp_endpoint: Annotated[str, Field(pattern=r"^https?://")] | None = None

    @field_validator("models", "api_keys", "allow_origins", "allow_hosts", "trusted_proxies", mode="before")
    @classmethod
    def _commas(cls, value: Any) -> Any:
        """A variable's values are separated by commas."""
        return value.split(",") if isinstance(value, str) else value

    @field_validator("models")
    @classmethod
    def _models(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        if not all(models):
            raise ValueError("a model's name must not be empty")
        return models

    @field_validator("api_keys")
    @classmethod
    def _keys(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for key in keys:
            if not key.get_secret_value():
                raise ValueError("a key must not be empty")
            if not KEY.fullmatch(key.get_secret_value()):
                raise ValueError("a key must be printable ASCII without spaces and commas")
        return keys

    @field_validator("allow_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"an origin must be * or like https://example.com, without a path, not {origin!r}")
        return origins

    @field_validator("allow_hosts")
    @classmethod
    def _hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not HOST_NAME.fullmatch(host):
                raise ValueError(f"a host must be * or a name like example.com, without a port, not {host!r}")
        return hosts

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                if proxy != "unix":
                    ip_network(proxy, strict=False)
            except ValueError:
                reason = "a proxy must be an address like 10.0.0.1, a network like 10.0.0.0/8, or unix"
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
            raise ValueError(f"the path of a unix socket may have {MAX_SOCKET_PATH_BYTES} bytes at most")
        return path

    @model_validator(mode="after")
    def _tls(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key belong together: give both or none")
        return self
