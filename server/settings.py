"""Settings of a server: from `scanline serve`'s options or SCANLINE_* variables, checked once, then fixed."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from model import zoo

Positive = Annotated[int, Field(ge=1)]


class Settings(BaseSettings):
    """Each default stands here and nowhere else."""

    model_config = SettingsConfigDict(env_prefix="SCANLINE_", frozen=True, extra="forbid")

    model: str = zoo.DEFAULT
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    device: Literal["auto", "cpu", "cuda"] = "auto"
    slots: Literal["auto"] | Positive = "auto"
    threads: Literal["auto"] | Positive = "auto"
    precision: Literal["exact", "float16-state", "int8", "int8-float16-state"] = "exact"
    max_images_per_request: Positive = 1024
    max_waiting_images: Positive = 10_000
    max_body_bytes: Positive = 16_000_000
