"""The measurement of an engine: it speaks the protocol that the engine speaks, which keeps its device busy."""

from pathlib import Path

from benchmarks.serving import simulated_device
from benchmarks.serving.busy_device import NPY, SLOTS, measure_api, measure_engine, served


def test_the_device_has_work_nearly_all_the_time_while_images_wait_for_slots(tmp_path: Path) -> None:
    result = measure_engine(simulated_device.model(tmp_path / "model"), 1024, 4 * SLOTS)
    assert 0.9 < result.busy < 1.1  # work counts when the device is given it, so that a short run may have more than 1
    assert result.images_per_second > 1000
    assert result.engine_seconds > 0


def test_a_server_with_the_simulated_device_is_measured(tmp_path: Path) -> None:
    with served(simulated_device.model(tmp_path / "model"), 1) as server:
        result = measure_api(server, 64, 128, NPY)
    assert result.loop > 0
    assert result.engine > 0
