"""Times of calls on the device, and generators whose backend is made with the arguments of a measurement."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

from benchmarks.gpu.sizes import Sizes
from scanline.kernels.gpu import summary
from scanline.model.backends import OpenBackend
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.slots import SlotPool
from scanline.model.bench.measure import durations, place_all
from scanline.model.network.transformer import Transformer
from scanline.model.sampling import generator as generator_module
from scanline.model.sampling.generator import Generator

DRY_OPTIONS: dict[str, Any] = {"sizes": (1, 4), "steps": 2, "few": 2, "reads": 2, "read_rows": 8}
CALLS, REPLAYS = 10, 9  # calls in a recorded graph, and replays of it


def microseconds(call: Callable[[], object], sizes: Sizes, calls: int = CALLS) -> float:
    """Median time of one call; on a GPU, of calls recorded in a graph, so that the host's time is not counted."""
    call()
    if sizes.dry:
        return 1e6 * min(durations(call, 0.0, minimum_calls=1))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    times = durations(graph.replay, 0.0, "cuda", REPLAYS)
    return 1e6 * sorted(times)[len(times) // 2] / calls


def make_generator(
    model: Transformer,
    slots: int,
    state_dtype: torch.dtype = torch.float32,
    *,
    chained: bool = True,
    ready: bool = True,
    **options: Any,
) -> Generator:
    """A generator on the CUDA backend with these CudaOptions, ready as a server's is; in a dry run too.

    Where it need not be `ready`, each graph is recorded by the first call that needs it.
    """
    if model.device.type == "cpu":
        options = {**DRY_OPTIONS, **options}
    backend = CudaBackend(model, state_dtype, chained, CudaOptions(**options))
    pool = SlotPool.empty(model.config, slots, model.device, state_dtype)
    if ready:
        backend.warm_up(pool)
    opened = OpenBackend("cuda" if chained else "cuda-unchained", (), backend, pool, model)
    with mock.patch.object(generator_module, "open_backend", return_value=opened):
        return Generator(model, slots)


def started(model: Transformer, slots: int, state_dtype: torch.dtype = torch.float32, **options: Any) -> Generator:
    """One that paints and reads nothing, with image i of one seed in slot i."""
    generator = make_generator(model, slots, state_dtype, ready=False, **options)
    place_all(generator)
    return generator


@torch.inference_mode()
def restart(generator: Generator) -> None:
    """Begin all images again, without what it costs to place them one by one."""
    state = generator.pool.state
    state.s.zero_()
    state.z.zero_()
    state.position.fill_(generator.config.first)
    generator.pool.bits.zero_()


def step_seconds(generator: Generator, sizes: Sizes) -> list[float]:
    """Seconds of a step of all images, one for each timed call of `sizes.steps` steps."""
    config = generator.config
    steps = min(sizes.steps, config.steps)

    def restart_near_end() -> None:
        if generator.positions().max() + steps * config.step_bytes > config.bytes:
            restart(generator)

    calls = 1 if sizes.dry else 5
    times = durations(
        lambda: generator.advance(steps), sizes.seconds, sizes.device, minimum_calls=calls, prepare=restart_near_end
    )
    return [seconds / steps for seconds in times]


def survived(error: Exception) -> str:
    """The reason of a failure after which this process can go on; raises one of the device, after which nothing can be
    trusted."""
    if isinstance(error, torch.AcceleratorError):
        raise error
    return summary(error)
