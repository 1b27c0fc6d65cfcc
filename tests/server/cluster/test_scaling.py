"""How many replicas there are and which one is chosen: autoscaling and what
it counts, the routers of Serve.
"""

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray import serve

from scanline.model.sampling.base.messages import GenerateRequest
from scanline.server.cluster import app
from scanline.server.cluster import router as router_module
from scanline.server.cluster.application import _autoscaling
from scanline.server.cluster.arguments import cluster_settings
from scanline.server.cluster.autoscaling import target_replicas
from scanline.server.cluster.router import (
    FORGET_SECONDS,
    QUIET_SECONDS,
    FewestImagesRouter,
    NearestRouter,
)
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import Route
from tests.support.cluster.cluster_service import NAME, Service, offline, running
from tests.support.pictures import painted


class Clients:
    """Concurrent clients, each with one request after the other until `stop`."""

    def __init__(self, service: Service, count: int, images: int) -> None:
        self.service = service
        self.images = images
        self.stopped = threading.Event()
        self.answers = []
        self.threads = [threading.Thread(target=self._ask) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def stop(self) -> list[np.ndarray]:
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        return self.answers

    def _ask(self) -> None:
        with self.service.client() as client:
            while not self.stopped.is_set():
                answer = client.post("/v1/images/generations", json={"n": self.images, "seed": 13})
                self.answers.append(
                    painted(answer.json()) if answer.status_code == 200 else np.empty(0)
                )


def test_replicas_follow_the_load_up_and_down(proxy, plain_model):
    size = {"min_replicas": 1, "max_replicas": 2, "upscale_seconds": 2, "downscale_seconds": 6}
    with running(proxy, model=plain_model, slots=64, cpus=0.5, ingress_cpus=0.5, **size) as service:
        service.wait_for_replicas(1)
        many = Clients(service, 4, 40)
        service.wait_for_replicas(2)
        few = Clients(service, 1, 10)
        answers = many.stop()
        service.wait_for_replicas(1)
        answers += few.stop()
    assert len(answers) >= 6
    assert all(
        np.array_equal(answer, offline(40, 13)[: len(answer)]) and len(answer) for answer in answers
    )


def test_a_model_that_nobody_asks_for_sleeps_and_wakes_up(proxy, plain_model):
    size = {"min_replicas": 0, "max_replicas": 1, "upscale_seconds": 2, "downscale_seconds": 6}
    with running(proxy, model=plain_model, slots=64, cpus=0.5, ingress_cpus=0.5, **size) as service:
        service.wait_for_replicas(0)  # the ingress has started the first one, to know the model
        with service.client() as client:
            assert client.get("/readyz").status_code == 200
            start = time.monotonic()
            answer = client.post("/v1/images/generations", json={"n": 20, "seed": 13})
            print(f"answered {time.monotonic() - start:.1f} s after a request")
        assert np.array_equal(painted(answer.json()), offline(20, 13))
        service.wait_for_replicas(0)


def test_a_new_version_replaces_replicas_without_losing_requests(proxy, plain_model):
    args = {"model": plain_model, "replicas": 1, "slots": 64, "cpus": 0.5, "ingress_cpus": 0.5}
    with running(proxy, **args, max_waiting_images=5_000) as service:
        service.wait_for_replicas(1)
        old = service.replicas()
        some = Clients(service, 3, 20)
        serve.run(app({**args, "max_waiting_images": 6_000}), name=NAME, route_prefix="/")
        service.wait_for_replicas(1)
        answers = some.stop()
        with service.client() as client:
            assert (
                'scanline_max_waiting_images{model_name="mnist-small"} 6000.0'
                in client.get("/metrics").text
            )
        assert service.replicas() != old
    assert len(answers) >= 3
    assert all(np.array_equal(answer, offline(20, 13)) for answer in answers)


def replicas_for(images: list[float], per_replica: float) -> int:
    reports = {
        "images": dict(enumerate(images)),
        "target_images": dict.fromkeys(range(len(images)), per_replica),
    }
    context = SimpleNamespace(aggregated_metrics=reports, target_num_replicas=1)
    return target_replicas(context)[0]


@pytest.mark.parametrize(("images", "replicas"), [(0, 0), (1, 1), (192, 1), (193, 2), (1920, 10)])
def test_there_are_as_many_as_hold_the_images(images, replicas):
    assert replicas_for([images], 192) == replicas


def test_the_largest_report_counts_and_without_reports_the_number_stays():
    assert replicas_for([100, 400, 300], 200) == 2
    context = SimpleNamespace(aggregated_metrics={}, target_num_replicas=3)
    assert target_replicas(context)[0] == 3


@pytest.mark.parametrize("upscale_seconds", [2, 30, 100])
def test_the_last_replica_outlives_the_reports_of_the_request_that_started_it(upscale_seconds):
    args = {"min_replicas": 0, "upscale_seconds": upscale_seconds, "downscale_seconds": 1}
    config = _autoscaling(cluster_settings(args))
    assert config.downscale_to_zero_delay_s
    assert config.downscale_to_zero_delay_s >= config.look_back_period_s + config.metrics_interval_s


REPLICAS = [SimpleNamespace(replica_id=name, routing_stats={}) for name in "ab"]


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(router_module, "monotonic", lambda: clock.now)
    monkeypatch.setattr(over_ray, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def router():
    router = FewestImagesRouter.__new__(FewestImagesRouter)
    router.initialize_state()
    return router


def pending(number: int, route: Route) -> Any:
    return SimpleNamespace(
        args=[GenerateRequest(number, 1, seed=0)],
        kwargs={"route": route},
        metadata=SimpleNamespace(internal_request_id=str(number)),
        routing_context=SimpleNamespace(),
        future=SimpleNamespace(add_done_callback=lambda _: None),
    )


def chosen(router: FewestImagesRouter, number: int) -> Route:
    route = Route()
    asyncio.run(router.choose_replicas(REPLICAS, pending(number, route)))
    return route


def test_a_shard_that_the_second_choice_takes_is_counted_there_alone(router):
    first = chosen(router, 0)
    other = "b" if first.replica == "a" else "a"
    router.on_request_routed(pending(0, first), other, None)
    assert router.images == {other: 1}
    router.on_request_completed(other, "0")
    assert router.images == {}


def test_a_silent_replica_is_chosen_last_until_it_sends_something(router, clock):
    silent = chosen(router, 0)
    other = chosen(router, 1)
    assert silent.replica != other.replica
    clock.now = QUIET_SECONDS + 1
    other.record_sign()
    assert [chosen(router, number).replica for number in (2, 3)] == [other.replica, other.replica]
    silent.record_sign()
    assert chosen(router, 4).replica == silent.replica


def test_it_is_tried_again_after_its_shards_were_taken_from_it(router, clock):
    silent = chosen(router, 0)
    clock.now = 2 * QUIET_SECONDS
    router.on_request_completed(silent.replica, "0")
    other = chosen(router, 1)
    assert other.replica != silent.replica
    assert chosen(router, 2).replica == other.replica
    clock.now = FORGET_SECONDS
    other.record_sign()
    assert chosen(router, 3).replica == silent.replica


def test_a_replica_without_shards_is_not_silent(router, clock):
    router.on_request_completed(chosen(router, 0).replica, "0")
    clock.now = QUIET_SECONDS + 1
    assert {chosen(router, number).replica for number in (1, 2)} == {"a", "b"}


def test_requests_go_to_ingresses_of_this_machine_while_there_are_some():
    router = NearestRouter.__new__(NearestRouter)
    router._self_node_id = "here"
    router._self_availability_zone = None
    near, far, other = (
        SimpleNamespace(replica_id=name, node_id=node, availability_zone=None)
        for name, node in [("near", "here"), ("far", "there"), ("other", "there")]
    )
    request = SimpleNamespace(routing_context=SimpleNamespace(should_backoff=False))

    def nearest(*ingresses):
        router._update_colocated_replica_ids_with_replicas(list(ingresses))
        (chosen,) = asyncio.run(router.choose_replicas(list(ingresses), request))
        return {replica.replica_id for replica in chosen}

    assert nearest(far, near, other) == {"near"}
    assert nearest(far, other) == {"far", "other"}
    assert nearest(far) == {"far"}
    assert request.routing_context.should_backoff
    assert nearest() == set()


def test_haproxy_gets_no_router_which_serve_would_refuse(monkeypatch):
    def router():
        ingress = app({"model": "mnist-small"})._bound_deployment
        return ingress._deployment_config.request_router_config.get_request_router_class().__name__

    assert router() == "NearestRouter"
    monkeypatch.setenv("RAY_SERVE_ENABLE_HA_PROXY", "1")
    assert router() != "NearestRouter"
