"""The router of shards prefers replicas that send something to one that is silent, that of requests ingresses here."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from scanline.model.sampling.messages import GenerateRequest
from scanline.server.cluster import app
from scanline.server.cluster import router as router_module
from scanline.server.cluster.router import FORGET_SECONDS, QUIET_SECONDS, FewestImagesRouter, NearestRouter
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import Route

REPLICAS: list[Any] = [SimpleNamespace(replica_id=name, routing_stats={}) for name in "ab"]


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(router_module, "monotonic", lambda: clock.now)
    monkeypatch.setattr(over_ray, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def router() -> FewestImagesRouter:
    router = FewestImagesRouter.__new__(FewestImagesRouter)
    router.initialize_state()
    return router


def chosen(router: FewestImagesRouter, number: int) -> Route:
    """The route of a shard of one image."""
    route = Route()
    shard: Any = SimpleNamespace(
        args=[GenerateRequest(number, 1, seed=0)],
        kwargs={"route": route},
        metadata=SimpleNamespace(internal_request_id=str(number)),
        routing_context=SimpleNamespace(),
        future=SimpleNamespace(add_done_callback=lambda _: None),
    )
    asyncio.run(router.choose_replicas(REPLICAS, shard))
    return route


def test_a_silent_replica_is_chosen_last_until_it_sends_something(router: FewestImagesRouter, clock: Clock) -> None:
    silent, other = chosen(router, 0), chosen(router, 1)
    assert silent.replica != other.replica
    clock.now = QUIET_SECONDS + 1
    other.record_sign()
    assert [chosen(router, number).replica for number in (2, 3)] == [other.replica, other.replica]
    silent.record_sign()
    assert chosen(router, 4).replica == silent.replica


def test_it_is_tried_again_some_time_after_its_shards_were_taken_from_it(
    router: FewestImagesRouter, clock: Clock
) -> None:
    silent = chosen(router, 0)
    clock.now = 2 * QUIET_SECONDS
    router.on_request_completed(silent.replica, "0")
    other = chosen(router, 1)
    assert other.replica != silent.replica
    assert chosen(router, 2).replica == other.replica
    clock.now = FORGET_SECONDS
    other.record_sign()
    assert chosen(router, 3).replica == silent.replica


def test_a_replica_without_shards_is_not_silent(router: FewestImagesRouter, clock: Clock) -> None:
    first = chosen(router, 0)
    router.on_request_completed(first.replica, "0")
    clock.now = QUIET_SECONDS + 1
    assert {chosen(router, number).replica for number in (1, 2)} == {"a", "b"}


def test_requests_go_to_ingresses_of_this_machine_while_there_are_some() -> None:
    router = NearestRouter.__new__(NearestRouter)
    router._self_node_id, router._self_availability_zone = "here", None
    near, far, other = (
        SimpleNamespace(replica_id=name, node_id=node, availability_zone=None)
        for name, node in [("near", "here"), ("far", "there"), ("other", "there")]
    )
    request: Any = SimpleNamespace(routing_context=SimpleNamespace(should_backoff=False))

    def nearest(*ingresses: Any) -> set[str]:
        router._update_colocated_replica_ids_with_replicas(list(ingresses))
        (chosen,) = asyncio.run(router.choose_replicas(list(ingresses), request))
        return {replica.replica_id for replica in chosen}

    assert nearest(far, near, other) == {"near"}
    assert nearest(far, other) == {"far", "other"}
    assert nearest(far) == {"far"}
    assert request.routing_context.should_backoff
    assert nearest() == set()


def test_haproxy_gets_no_router_which_serve_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def router() -> str:
        ingress: Any = app({"model": "mnist-small"})._bound_deployment
        return ingress._deployment_config.request_router_config.get_request_router_class().__name__

    assert router() == "NearestRouter"
    monkeypatch.setenv("RAY_SERVE_ENABLE_HA_PROXY", "1")
    assert router() != "NearestRouter"
