"""An image whose client has used its share of the time keeps its state while others step."""

import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Finished, GenerateRequest
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle


@pytest.mark.parametrize("backend", ["eager", "cpu"] if cpu_kernels.available() else ["eager"])
@pytest.mark.parametrize("variant", ["plain", "pixels"])
def test_images_of_several_clients_are_those_of_one(backend: str, variant: str) -> None:
    """Clients pay for their steps, so that those of some are started without those of the others."""
    config = small_models.config(height=6, width=5, **small_models.VARIANTS[variant])
    found = []
    for clients in ("aaa", "abc"):
        generator = Generator(small_models.model(config), 4, 1, backend=backend)
        requests = [GenerateRequest(i, 3, i, client=client) for i, client in enumerate(clients)]
        events = run_until_idle(Engine(generator), *requests)
        found.append({(one.request, one.index): one.image for one in events if isinstance(one, Finished)})
        generator.close()
    assert len(found[0]) == 9
    assert found[0] == found[1]
