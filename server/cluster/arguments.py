"""Arguments of the service on a cluster: the server's settings, except for
those of its sockets, and its size.

Serve's proxies own the sockets. Of the limits of a connection they know the keep-alive time only;
heads, connections and unread answers are bounded by the proxy in front of them
(deploy/kubernetes/ray/nginx.conf).
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, NonNegativeFloat, NonNegativeInt, ValidationError, model_validator

from scanline.model import zoo
from scanline.server.environment import check
from scanline.server.settings import Items, Positive, Seconds, Settings

HTTP_OPTIONS = {  # of Serve's proxies, by the setting of a stand-alone server
    "host": "host",
    "port": "port",
    "keep_alive_timeout": "keep_alive_timeout_s",
    "tls_cert": "ssl_certfile",
    "tls_key": "ssl_keyfile",
}
# Serve's proxies have none
UNBOUNDED = {"max_head_bytes", "max_connections", "send_timeout", "unix_socket"}
REPLACED = {"api_processes": "ingress_replicas"}
NGINX_CONFIG = "deploy/kubernetes/ray/nginx.conf"
FIELDS = {"model": "models"}


class ClusterSettings(Settings):
    """Defaults that differ from the server's, and settings that only a cluster has."""

    models: Items = (zoo.DEFAULT,)  # each has replicas of its own
    # of each model, fixed; None: between min_replicas and max_replicas
    replicas: Positive | None = None
    min_replicas: NonNegativeInt = 1  # 0: none while nobody asks for the model
    max_replicas: Positive = 1
    # of all slots, to be filled by images in flight
    target_share: Annotated[float, Field(gt=0, le=1)] = 0.75
    upscale_seconds: Seconds = 30  # how long more replicas must be needed before they are started
    downscale_seconds: Seconds = 600
    gpus: NonNegativeFloat = 0  # of each replica
    cpus: NonNegativeFloat = 1
    ingress_replicas: Positive = 1
    ingress_cpus: NonNegativeFloat = 1
    max_images_per_request: Positive = 10_000
    # the share of one client has room for the largest request
    max_waiting_images: Positive = 20_000
    # of an ingress: Serve's proxy buffers what a client does not read
    max_frames_per_second: Positive | None = 2_000
    drain_seconds: Seconds = 600  # of an ingress or a replica that Serve stops

    @model_validator(mode="after")
    def _fixed_or_autoscaled(self) -> "ClusterSettings":
        if self.replicas and self.model_fields_set & {"min_replicas", "max_replicas"}:
            raise ValueError("replicas excludes min_replicas and max_replicas")
        if self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas must be at most max_replicas")
        return self


def cluster_settings(args: Mapping[str, Any]) -> ClusterSettings:
    """Return the settings of Serve's arguments, which override SCANLINE_*
    variables; ValueError names a wrong one.

    `model` is one name, several separated by commas, or a list.
    """
    for name in sorted(HTTP_OPTIONS.keys() & args.keys()):
        raise ValueError(
            f"{name}: set {HTTP_OPTIONS[name]} under http_options in Serve's configuration instead"
        )
    for name in sorted(REPLACED.keys() & args.keys()):
        raise ValueError(f"{name}: set {REPLACED[name]} instead")
    for name in sorted(UNBOUNDED & args.keys()):
        raise ValueError(
            f"{name}: Serve's proxies have no such setting; set it in the proxy in front of them, {NGINX_CONFIG}"
        )
    check(os.environ, args, ClusterSettings)
    settings = {FIELDS.get(name, name): value for name, value in args.items()}
    try:
        return ClusterSettings(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        name = "model" if first["loc"][:1] == ("models",) else ".".join(map(str, first["loc"][:1]))
        reason = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            refused = HTTP_OPTIONS.keys() | UNBOUNDED | REPLACED.keys()
            known = sorted({"model", *ClusterSettings.model_fields} - {"models"} - refused)
            reason = f"unknown argument; known ones are {', '.join(known)}"
        raise ValueError(f"{name}: {reason}" if name else reason) from None
