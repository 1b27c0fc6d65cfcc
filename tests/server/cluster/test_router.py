"""The router prefers replicas that send something to one that is silent."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from scanline.model.sampling.messages import GenerateRequest
from scanline.server.cluster import router as router_module
from scanline.server.cluster.router import FORGET_SECONDS, QUIET_SECONDS, FewestImagesRouter
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
