"""The share of one API process in all limits, and the merged metrics of all."""

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.routes.metrics import OF_ENGINE, PREFIX, process_metrics
from scanline.server.api.transport.budgets import Budgets
from scanline.server.models.registry import ModelRegistry
from scanline.server.process.workers.api_process import part_of
from scanline.server.process.workers.merged_metrics import LARGEST, MergedMetrics
from scanline.server.runtime.loop_lag import LoopLag
from scanline.server.settings import Settings


def test_one_process_has_all_of_every_limit() -> None:
    settings = Settings(api_processes=1)
    assert part_of(settings) == settings


@pytest.mark.parametrize("processes", [2, 3, 8, 100])
def test_processes_share_every_limit_and_each_has_room_for_the_largest_request(processes: int) -> None:
    settings = Settings(api_processes=processes, max_frames_per_second=1000)
    part = part_of(settings)
    for name in ("max_connections", "max_websockets", "max_unread_bytes", "max_frames_per_second"):
        assert 0 <= getattr(part, name) * processes - getattr(settings, name) < processes, name
    assert part.max_waiting_images * part.client_share >= settings.max_images_per_request
    assert part.max_arriving_bytes * part.client_share >= settings.max_body_bytes
    assert part.max_waiting_images <= max(-(-settings.max_waiting_images // processes), 2048)
    assert part.max_images_per_request == settings.max_images_per_request


def test_a_client_whose_connections_come_unevenly_has_room_for_its_share_and_the_others_for_half_of_theirs() -> None:
    settings = Settings(api_processes=2, max_connections=300)  # of which one client may have 150
    connections = Budgets(part_of(settings)).connections
    assert (connections.limit, connections.client_limit) == (150, 112)
    shares = {share: part_of(Settings(api_processes=2, client_share=share)).client_share for share in (0.1, 0.9, 1.0)}
    assert shares == pytest.approx({0.1: 0.15, 0.9: 0.95, 1.0: 1.0})


def test_a_limit_that_is_small_for_one_process_is_not_larger_for_many() -> None:
    settings = Settings(api_processes=4, max_waiting_images=100, max_arriving_bytes=1000)
    part = part_of(settings)
    assert (part.max_waiting_images, part.max_arriving_bytes) == (100, 1000)


def test_what_processes_count_is_added_and_what_they_say_of_the_engine_is_not() -> None:
    def of_process(requests: int, steps: int) -> list:
        counted = CounterMetricFamily(PREFIX + "http_requests", "Requests.", labels=["path"])
        counted.add_metric(["/a"], requests)
        engine = CounterMetricFamily(PREFIX + "engine_steps", "Steps.", labels=["model_name"])
        engine.add_metric(["digits"], steps)
        return [counted, engine]

    only_there = GaugeMetricFamily(PREFIX + "websocket_connections", "Open websockets.", value=7)
    merged = MergedMetrics([of_process(3, 10), [*of_process(4, 11), only_there]]).collect()
    values = {sample.name: sample.value for family in merged for sample in family.samples}
    assert values == {
        "scanline_http_requests_total": 7,
        "scanline_engine_steps_total": 11,
        "scanline_websocket_connections": 7,
    }


def test_every_metric_that_is_not_a_sum_exists() -> None:
    """The engine's are looked up in their own tables; here, those of a server without models."""
    measured = process_metrics(ModelRegistry([], 1, 1.0), HttpCounters(), LoopLag(), None, Budgets(Settings()))
    names = {family.name for family in measured.collect()}
    assert names >= LARGEST, LARGEST - names
    assert {PREFIX + name for name in OF_ENGINE} <= LARGEST
