"""Settings of a server: from `scanline serve`'s options or SCANLINE_* variables, checked once, then fixed."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from scanline.model import zoo
from scanline.model.precision import DEFAULT, PrecisionName
from scanline.server.logs import Format, Level

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
KEY = re.compile(r"[!-+\--~]+")  # printable ASCII but space and comma
ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/?#@,\sA-Z]+")


class Settings(BaseSettings):
    """Each default stands here and nowhere else."""

    model_config = SettingsConfigDict(env_prefix="SCANLINE_", frozen=True, extra="forbid")

    models: Annotated[tuple[str, ...], NoDecode] = (zoo.DEFAULT,)  # the first is for who names none
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    device: Literal["auto", "cpu", "cuda"] = "auto"
    slots: Literal["auto"] | Positive = "auto"
    threads: Literal["auto"] | Positive = "auto"
    precision: PrecisionName = DEFAULT
    engine_timeout: Seconds = 120  # a GPU's first tick compiles its kernels
    load_timeout: Seconds = 600
    max_images_per_request: Positive = 1024
    max_waiting_images: Positive = 10_000
    max_body_bytes: Positive = 16_000_000
    max_head_bytes: Positive = 32_768
    max_websockets: Positive = 4096
    max_jobs_per_websocket: Positive = 64
    max_messages_per_second: Positive = 1000
    max_frames_per_second: Positive | None = None  # readers set the pace
    request_timeout: Seconds = 600
    receive_timeout: Seconds = 60
    keep_alive_timeout: Seconds = 5
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 25  # Kubernetes kills after 30
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = ()  # none: whoever reaches the port may paint
    allow_origins: Annotated[tuple[str, ...], NoDecode] = ()
    log_format: Format = "console"
    log_level: Level = "info"
    otlp_endpoint: Annotated[str, Field(pattern=r"^https?://")] | None = None

    @field_validator("models", "api_keys", "allow_origins", mode="before")
    @classmethod
    def _commas(cls, value: Any) -> Any:
        """A variable's texts stand between commas."""
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
                raise ValueError(f"an origin is * or like https://example.com, no path, not {origin!r}")
        return origins
