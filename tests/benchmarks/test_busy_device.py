"""The simulated device returns the pictures of its requests, and its measurement speaks the engine's protocol."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving import simulated_device
from benchmarks.serving.busy_device import HALF_KNOWN, NPY, SLOTS, measure_api, measure_engine, served
from benchmarks.serving.simulated_device import SimulatedBackend, SimulatedOptions, picture_of
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Finished, GenerateRequest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return simulated_device.model(tmp_path / "model")


def test_every_image_is_the_picture_of_its_request_and_index(model: Path) -> None:
    engine = Engine(SimulatedOptions(model, slots=SLOTS).generator())
    backend = engine.generator.backend
    assert isinstance(backend, SimulatedBackend)
    known, mask = HALF_KNOWN
    for request in range(2):
        engine.accept(GenerateRequest(request, 2048, seed=request))
    engine.accept(GenerateRequest(2, 2048, seed=2, known=(known,), masks=(mask,)))
    events = engine.tick()
    assert engine.recorder.batch == 336, "twice as many as end in 32 of 784 steps, if ends are spread evenly"
    while not engine.idle:
        events += engine.tick()
    finished = [event for event in events if isinstance(event, Finished)]
    assert len(finished) == 3 * 2048
    for event in finished[::500]:
        picture = backend.pictures[picture_of(np.array(event.request), np.array(event.index))]
        assert event.image == picture.tobytes()


@pytest.mark.slow
def test_the_device_has_work_nearly_all_the_time_while_images_wait_for_slots(model: Path) -> None:
    result = measure_engine(model, 1024, 4 * SLOTS)
    assert 0.9 < result.busy < 1.1  # work counts when the device is given it, so that a short run may have more than 1
    assert result.images_per_second > 1000
    assert result.engine_seconds > 0


@pytest.mark.slow
def test_a_server_with_the_simulated_device_is_measured(model: Path) -> None:
    with served(model, 1) as server:
        assert server.engine is not None
        result = measure_api(server, 64, 1024, NPY)
    assert result.loop > 0
