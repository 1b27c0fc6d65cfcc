"""The queue of shards, and the parts that messages are sent in."""

from collections import Counter, deque

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from scanline.model.formats.code_file import Codes
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.routes.metrics import OF_ENGINE, PREFIX, process_metrics
from scanline.server.engine.job import Job
from scanline.server.engine.remote.fair_queue import FairQueue, ShardedJob
from scanline.server.models.registry import ModelRegistry
from scanline.server.process.merged_metrics import LARGEST, MergedMetrics
from scanline.server.process.workers.api_process import part_of
from scanline.server.runtime.loop_lag import LoopLag
from scanline.server.settings import Settings


def asked(client, images, number=0):
    return ShardedJob(
        Job(GenerateRequest(number, images, seed=7, client=client)), deque(range(images))
    )


def dispatch(queue, times):
    """Dispatch one image at each of so many turns; return their clients."""
    clients = []
    for _ in range(times):
        job = queue.pop()
        job.waiting.popleft()
        queue.count(job.client, 1)
        if job.waiting:
            queue.add(job)
        clients.append(job.client)
    return clients


def test_a_client_with_many_requests_gets_no_more_than_one_with_a_single_request():
    queue = FairQueue()
    for number in range(100):
        queue.add(asked("many", 4, number))
    queue.add(asked("one", 50))
    assert Counter(dispatch(queue, 40)) == {"many": 20, "one": 20}


def test_a_later_client_catches_up_and_what_comes_back_counts_no_more():
    queue = FairQueue()
    queue.add(asked("first", 100))
    dispatch(queue, 10)
    queue.add(asked("later", 100))
    assert dispatch(queue, 10) == ["later"] * 10
    queue.count("first", -4)
    assert dispatch(queue, 4) == ["first"] * 4


def test_requests_of_one_client_take_turns():
    queue = FairQueue()
    requests = [asked("one", 3, number) for number in range(3)]
    for request in requests:
        queue.add(request)
    dispatch(queue, 6)
    assert [len(request.waiting) for request in requests] == [1, 1, 1]


def test_a_cancelled_request_leaves_nothing_behind():
    queue = FairQueue()
    requests = [asked(f"client {number}", 2) for number in range(20)]
    for request in requests:
        queue.add(request)
        queue.count(request.client, 3)
    for request in requests:
        queue.remove(request)
        queue.remove(request)
        queue.count(request.client, -3)
    assert not queue
    assert not queue.outstanding
    with pytest.raises(ValueError, match="empty"):
        queue.pop()


def test_the_images_of_a_code_have_one_slot_together_until_the_last_is_done():
    images = (0, 1, 3, 4, 5, 7)
    request = GenerateRequest(
        0, 9, seed=0, only=images, digest="model", codes=Codes((b"", b"", b""), length=3)
    )
    sharded = ShardedJob(Job(request), deque(images))
    assert (sharded.slots, sharded.digest) == (3, "model")
    assert [sharded.slots_of((index,)) for index in images] == [0, 1, 0, 0, 1, 1]
    assert [index for index in images if sharded.is_followed(index)] == [0, 3, 4]


@pytest.mark.parametrize("processes", [2, 3, 8, 100])
def test_processes_share_every_limit_and_each_has_room_for_the_largest_request(processes):
    settings = Settings(api_processes=processes, max_frames_per_second=1000)
    part = part_of(settings)
    for name in ("max_connections", "max_websockets", "max_unread_bytes", "max_frames_per_second"):
        assert 0 <= getattr(part, name) * processes - getattr(settings, name) < processes, name
    assert part.max_waiting_images * part.client_share >= settings.max_images_per_request
    assert part.max_arriving_bytes * part.client_share >= settings.max_body_bytes
    assert part.max_waiting_images <= max(-(-settings.max_waiting_images // processes), 2048)
    assert part.max_images_per_request == settings.max_images_per_request


def test_a_client_whose_connections_come_unevenly_has_room_for_its_share_and_the_others_for_half_of_theirs():
    settings = Settings(api_processes=2, max_connections=300)  # of which one client may have 150
    connections = Budgets(part_of(settings)).connections
    assert (connections.limit, connections.client_limit("a")) == (150, 112)
    shares = {
        share: part_of(Settings(api_processes=2, client_share=share)).client_share
        for share in (0.1, 0.9, 1.0)
    }
    assert shares == pytest.approx({0.1: 0.15, 0.9: 0.95, 1.0: 1.0})


def test_one_process_has_every_limit_and_many_have_no_larger_one():
    assert part_of(Settings(api_processes=1)) == Settings(api_processes=1)
    part = part_of(Settings(api_processes=4, max_waiting_images=100, max_arriving_bytes=1000))
    assert (part.max_waiting_images, part.max_arriving_bytes) == (100, 1000)


def test_what_processes_count_is_added_and_what_they_say_of_the_engine_is_not():
    def of_process(requests, steps):
        counted = CounterMetricFamily(PREFIX + "http_requests", "Requests.", labels=["path"])
        counted.add_metric(["/a"], requests)
        engine = CounterMetricFamily(PREFIX + "engine_steps", "Steps.", labels=["model_name"])
        engine.add_metric(["digits"], steps)
        return [counted, engine]

    only_there = GaugeMetricFamily(PREFIX + "websocket_connections", "Open websockets.", value=7)
    merged = MergedMetrics([of_process(3, 10), [*of_process(4, 11), only_there]]).collect()
    values = {
        sample.name.removeprefix(PREFIX): sample.value
        for family in merged
        for sample in family.samples
    }
    assert values == {
        "http_requests_total": 7,
        "engine_steps_total": 11,
        "websocket_connections": 7,
    }


def test_every_metric_that_is_not_a_sum_exists():
    """The engine's are looked up in their own tables; here, those of a server without models."""
    measured = process_metrics(
        ModelRegistry([], 1, 1.0), HttpCounters(), LoopLag(), None, Budgets(Settings())
    )
    names = {family.name for family in measured.collect()}
    assert names >= LARGEST, LARGEST - names
    assert {PREFIX + name for name in OF_ENGINE} <= LARGEST
