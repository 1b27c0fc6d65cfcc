"""The engine keeps a simulated device busy, whose clock does not depend on what else the machine does."""

from pathlib import Path

import numpy as np

from benchmarks.serving import simulated_device
from benchmarks.serving.simulated_device import SimulatedBackend, SimulatedOptions, picture_of
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Finished, GenerateRequest

SLOTS = 4096


def test_the_device_has_work_nearly_all_the_time_while_images_wait_for_slots(tmp_path: Path) -> None:
    engine = Engine(SimulatedOptions(simulated_device.model(tmp_path / "model"), slots=SLOTS).generator())
    backend = engine.generator.backend
    assert isinstance(backend, SimulatedBackend)
    for request in range(6):
        engine.accept(GenerateRequest(request, 2048, seed=request))
    engine.tick()
    began, busy, finished = backend.clock.now(), backend.busy, []
    while engine.scheduler.images_waiting:
        finished += [event for event in engine.tick() if isinstance(event, Finished)]
    assert (backend.busy - busy) / (backend.clock.now() - began) > 0.9
    assert len(finished) >= SLOTS
    for one in finished[::500]:
        picture = backend.pictures[picture_of(np.array(one.request), np.array(one.index))]
        assert one.image == picture.tobytes()
