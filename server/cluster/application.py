"""Serve's application, built from its arguments: ingress replicas with the API,
and a deployment for each model.
"""

import logging
import os
from functools import partial
from ipaddress import ip_address
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig
from ray.serve.handle import DeploymentHandle
from ray.util import get_node_ip_address

from scanline.model.base import safe_path
from scanline.model.formats import hub
from scanline.model.formats.model_dir import model_name
from scanline.server.cluster.arguments import ClusterSettings, cluster_settings
from scanline.server.cluster.arrival_limit import WebsocketArrivalLimit
from scanline.server.cluster.replica import Replica
from scanline.server.cluster.router import FewestImagesRouter, NearestRouter
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.remote.over_ray import ReplicaPool
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.runtime import logs

log = logging.getLogger("scanline.cluster")

INGRESS = "Ingress"
# replicas report to the autoscaler every 10; a shorter look-back period sees nothing
METRICS_SECONDS = 11.0
DIGEST_SECONDS = 5.0  # between two reports of a replica's model to the routers
# Shards reach replicas by gRPC, whose own limit of a message is 4 MB; Serve
# takes another one from the environment.
RUNTIME = {
    "env_vars": {
        "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(2**31 - 1),
        **safe_path.ENVIRONMENT,
    }
}
COMMON: dict[str, Any] = {
    "max_ongoing_requests": 1_000_000,  # no limit by requests: `EngineHandle.reserve` limits images
    # Each proxy or ingress keeps so many while there is no replica to send them
    # to; the others are refused with 503.
    "max_queued_requests": 1_000,
    "health_check_period_s": 5,
    "health_check_timeout_s": 30,
    # the API logs each request itself, with more fields
    "logging_config": {"enable_access_log": False},
}


def app(args: dict[str, Any]) -> serve.Application:
    """Return what `serve run scanline.server.cluster:app NAME=VALUE ...` runs;
    ValueError for a wrong argument.
    """
    warn_without_token()
    settings = cluster_settings(args)
    directories = [model.engine.options.directory for model in served_models(settings).all.values()]
    # A model of the Hugging Face Hub: the same commit on all machines,
    # each of which has a cache of its own.
    pinned = [
        hub.pinned(name, path) for name, path in zip(settings.models, directories, strict=True)
    ]
    names = tuple(of_hub or name for of_hub, name in zip(pinned, settings.models, strict=True))
    settings = settings.model_copy(update={"models": names})
    without_keys = settings.model_copy(update={"api_keys": ()})
    models = [
        _replicas(settings, model_name(path)).bind(without_keys, of_hub or str(path))
        for of_hub, path in zip(pinned, directories, strict=True)
    ]
    return _ingress(settings).bind(*models)


def warn_without_token() -> None:
    """Log a warning where Ray's ports, which run what they are sent, are
    open to a network and need no token.
    """
    address = get_node_ip_address()
    if os.environ.get("RAY_AUTH_MODE") != "token" and not ip_address(address).is_loopback:
        log.warning(
            "Ray at %s runs code of anybody who reaches its ports: start it with RAY_AUTH_MODE=token",
            address,
        )


def _replicas(settings: ClusterSettings, model: str) -> serve.Deployment:
    scale: dict[str, Any] = {"num_replicas": settings.replicas}
    if settings.replicas is None:
        scale = {"autoscaling_config": _autoscaling(settings)}
    deployment = serve.deployment(
        name=model,
        ray_actor_options={
            "num_cpus": settings.cpus,
            "num_gpus": settings.gpus,
            "runtime_env": RUNTIME,
        },
        graceful_shutdown_timeout_s=settings.drain_seconds,
        request_router_config=RequestRouterConfig.model_validate(
            {
                "request_router_class": FewestImagesRouter,
                "request_routing_stats_period_s": DIGEST_SECONDS,
            }
        ),
        **scale,
        **COMMON,
    )
    return deployment(Replica)


def _autoscaling(settings: ClusterSettings) -> AutoscalingConfig:
    look_back = min(30.0, max(METRICS_SECONDS, settings.upscale_seconds))
    return AutoscalingConfig(
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
        upscale_delay_s=settings.upscale_seconds,
        downscale_delay_s=settings.downscale_seconds,
        # Without a replica Serve starts one as soon as the last reports of ingresses
        # contain a request that waited for a replica. The request that started the
        # previous one may be in them for so long.
        downscale_to_zero_delay_s=max(settings.downscale_seconds, look_back + METRICS_SECONDS),
        look_back_period_s=look_back,
        policy=AutoscalingPolicy(
            policy_function="scanline.server.cluster.autoscaling:target_replicas"
        ),
    )


def _ingress(settings: ClusterSettings) -> serve.Deployment:
    def api() -> FastAPI:
        """Return the API of a stand-alone server, with replica pools as its engine handles."""
        logs.configure(settings.log_format, settings.log_level)
        app = build(settings, served_models(settings, partial(_replica_pool, settings)))
        limits = {
            "max_bytes": settings.max_body_bytes,
            "max_bytes_of_all": settings.max_arriving_bytes,
        }
        app.add_middleware(WebsocketArrivalLimit, counters=app.state.counters, **limits)
        return app

    @serve.ingress(api)
    class Ingress:
        """Answers requests. It takes the models' deployments as arguments,
        which makes Serve deploy them too.
        """

        def __init__(self, *models: DeploymentHandle[Any]) -> None:
            self.models = models

    # HAProxy balances by itself, and Serve refuses a router beside it.
    has_router = os.environ.get("RAY_SERVE_ENABLE_HA_PROXY") != "1"
    router = {"request_router_class": NearestRouter} if has_router else {}
    deployment = serve.deployment(
        name=INGRESS,
        num_replicas=settings.ingress_replicas,
        ray_actor_options={"num_cpus": settings.ingress_cpus, "runtime_env": RUNTIME},
        graceful_shutdown_timeout_s=settings.drain_seconds,
        request_router_config=RequestRouterConfig.model_validate(router),
        **COMMON,
    )
    return deployment(Ingress)


def _replica_pool(
    settings: ClusterSettings, options: EngineOptions, limits: QueueLimits
) -> ReplicaPool:
    """Return the replicas of a model, for the ingress that this runs in."""
    handle = serve.get_deployment_handle(
        model_name(options.directory), app_name=serve.get_replica_context().app_name
    )
    sleeps = settings.replicas is None and settings.min_replicas == 0
    return ReplicaPool(handle, settings.ingress_replicas, options, limits, sleeps)
