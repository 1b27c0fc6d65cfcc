"""From arguments to Serve's application: fronts with the API, behind them a deployment of replicas for each model."""

from functools import partial
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig
from ray.serve.handle import DeploymentHandle

from scanline.server import logs
from scanline.server.app import build
from scanline.server.cluster.replica import Replica
from scanline.server.cluster.replica_pool import ReplicaPool
from scanline.server.cluster.router import ByImages
from scanline.server.cluster.settings import ClusterSettings, cluster_settings
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.registry import served_models

MOST = (
    1_000_000  # requests of one replica at once: how many there may be is decided by images, in `EngineHandle.reserve`
)
FRONT = "Front"
COMMON: dict[str, Any] = {
    "max_ongoing_requests": MOST,
    "health_check_period_s": 5,
    "health_check_timeout_s": 30,
    "logging_config": {"enable_access_log": False},  # requests have their line already, with all that is known of them
}


def app(args: dict[str, Any]) -> serve.Application:
    """What `serve run scanline.server.cluster:app NAME=VALUE ...` runs; ValueError where an argument is wrong."""
    settings = cluster_settings(args)
    names = list(served_models(settings).all)
    engines = [_replicas(settings, name).bind(settings, name) for name in names]
    return _fronts(settings).bind(*engines)


def _replicas(settings: ClusterSettings, model: str) -> serve.Deployment:
    scale: dict[str, Any] = {"num_replicas": settings.replicas}
    if settings.replicas is None:
        scale = {"autoscaling_config": _autoscaling(settings)}
    deployment = serve.deployment(
        name=model,
        ray_actor_options={"num_cpus": settings.cpus, "num_gpus": settings.gpus},
        graceful_shutdown_timeout_s=settings.drain_seconds,
        request_router_config=RequestRouterConfig.model_validate({"request_router_class": ByImages}),
        **scale,
        **COMMON,
    )
    return deployment(Replica)


def _autoscaling(settings: ClusterSettings) -> AutoscalingConfig:
    return AutoscalingConfig(
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
        upscale_delay_s=settings.upscale_seconds,
        downscale_delay_s=settings.downscale_seconds,
        look_back_period_s=min(30.0, max(11.0, settings.upscale_seconds)),  # told every 10
        policy=AutoscalingPolicy(policy_function="scanline.server.cluster.autoscaling:by_images"),
    )


def _fronts(settings: ClusterSettings) -> serve.Deployment:
    def api() -> FastAPI:
        """The application of a stand-alone server, whose desks are fleets."""
        logs.configure(settings.log_format, settings.log_level)
        return build(settings, served_models(settings, partial(_fleet, settings.fronts)))

    @serve.ingress(api)
    class Front:
        """What answers; it names the deployments behind it, for Serve to deploy them."""

        def __init__(self, *engines: DeploymentHandle[Any]) -> None:
            self.engines = engines

    deployment = serve.deployment(
        name=FRONT,
        num_replicas=settings.fronts,
        ray_actor_options={"num_cpus": settings.front_cpus},
        graceful_shutdown_timeout_s=settings.drain_seconds,
        **COMMON,
    )
    return deployment(Front)


def _fleet(fronts: int, options: EngineOptions, max_waiting_images: int) -> ReplicaPool:
    """The desk of a model in this front's application."""
    context = serve.get_replica_context()
    handle = serve.get_deployment_handle(options.directory.name, app_name=context.app_name)
    return ReplicaPool(handle, fronts, options, max_waiting_images)
