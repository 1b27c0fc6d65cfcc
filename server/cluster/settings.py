"""Settings of a service on a cluster: those of a server, less what Serve's proxies decide, and how large it is."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, NonNegativeFloat, ValidationError, model_validator

from scanline.server.environment import check
from scanline.server.settings import Positive, Seconds, Settings

OF_THE_PROXIES = {"host", "port", "keep_alive_timeout", "max_head_bytes"}


class ClusterSettings(Settings):
    """Each default stands here and nowhere else; what is not told here is as a server has it."""

    replicas: Positive | None = None  # of each model: a fixed number of them
    min_replicas: Positive = 1  # of each model: as many as the images in flight want
    max_replicas: Positive = 1
    target_share: Annotated[float, Field(gt=0, le=1)] = 0.75  # of all slots that images in flight should fill
    upscale_seconds: Seconds = 30  # for which more replicas must have been wanted
    downscale_seconds: Seconds = 600
    gpus: NonNegativeFloat = 0  # of each replica
    cpus: NonNegativeFloat = 1
    fronts: Positive = 1
    front_cpus: NonNegativeFloat = 1
    max_images_per_request: Positive = 10_000
    max_frames_per_second: Positive | None = 2_000  # of a front; Serve's proxy takes all, whether anybody reads or not
    drain_seconds: Seconds = 600  # of a front or a replica that Serve stops

    @model_validator(mode="after")
    def _fixed_or_not(self) -> "ClusterSettings":
        if self.replicas and self.model_fields_set & {"min_replicas", "max_replicas"}:
            raise ValueError("replicas is a fixed number: leave it out, or min_replicas and max_replicas")
        if self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas must be at most max_replicas")
        return self


def cluster_settings(args: Mapping[str, Any]) -> ClusterSettings:
    """What Serve was given as arguments, over SCANLINE_* variables; ValueError that names what is wrong.

    `model` is one name, several between commas, or a list of them.
    """
    for name in OF_THE_PROXIES & args.keys():
        raise ValueError(f"{name} is for Serve's proxies to say: see http_options in Serve's own configuration")
    check(os.environ, args, ClusterSettings)
    given = {"models" if name == "model" else name: value for name, value in args.items()}
    try:
        return ClusterSettings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = "model" if first["loc"][:1] == ("models",) else ".".join(map(str, first["loc"][:1]))
        reason = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            there = sorted({"model", *ClusterSettings.model_fields} - {"models"} - OF_THE_PROXIES)
            reason = f"there is no such argument, but {', '.join(there)}"
        raise ValueError(f"{name}: {reason}" if name else reason) from None
