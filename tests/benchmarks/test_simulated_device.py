"""An engine with the simulated device returns the pictures that belong to its requests."""

from pathlib import Path

import numpy as np

from benchmarks.serving import simulated_device
from benchmarks.serving.simulated_device import SimulatedBackend, SimulatedOptions, picture_of
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Finished, GenerateRequest

SLOTS = 4096


def test_every_image_is_the_picture_of_its_request_and_index(tmp_path: Path) -> None:
    engine = Engine(SimulatedOptions(simulated_device.model(tmp_path / "model"), slots=SLOTS).generator())
    backend = engine.generator.backend
    assert isinstance(backend, SimulatedBackend)
    for request in range(6):
        engine.accept(GenerateRequest(request, 2048, seed=request))
    finished: list[Finished] = []
    while engine.scheduler.images_waiting:
        finished += [event for event in engine.tick() if isinstance(event, Finished)]
    assert len(finished) >= SLOTS
    for one in finished[::500]:
        picture = backend.pictures[picture_of(np.array(one.request), np.array(one.index))]
        assert one.image == picture.tobytes()
