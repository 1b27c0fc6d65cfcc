"""The whole step on a GPU: images/s by batch size, one image, as many as fit into memory, and states of 16 bits."""

from collections.abc import Iterator

import torch

from benchmarks.gpu.finding import Finding, seconds
from scanline.model.backends.cuda import CudaBackend
from scanline.model.backends.slots import SlotPool
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer

SEED, STEPS = 1, 16  # bytes of one measurement
CHECKED = 64  # bytes that must be the same at every batch size


def random_model(config: ModelConfig, device: str) -> Transformer:
    """Random weights, rounded to float16 as stored weights are."""
    torch.manual_seed(0)
    model = Transformer(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(parameter.half())
    return model.to(device)


def started(config: ModelConfig, images: int, device: str, state_dtype: torch.dtype = torch.float32) -> SlotPool:
    """Slots with image i of SEED in slot i, at its first byte."""
    slots = SlotPool.empty(config, images, device, state_dtype)
    slots.seed.fill_(SEED)
    slots.index.copy_(torch.arange(images, device=device))
    slots.state.position.fill_(config.first)
    return slots


def rates(
    model: Transformer, batches: list[int], copied: float, state_dtype: torch.dtype, name: str, steps: int = STEPS
) -> Iterator[Finding]:
    """images/s at each batch size; the bytes must be the same at all of them."""
    config, device = model.config, str(model.device)
    backend = CudaBackend(model, state_dtype)
    traffic = 2 * config.layers * config.heads * config.key_width * (state_dtype.itemsize * config.value_width + 4)
    checked = min(CHECKED, config.bytes // 2)
    before = torch.zeros(0, checked, dtype=torch.uint8)
    for batch in batches:
        slots = started(config, batch, device, state_dtype)
        backend.advance(slots, checked)
        heads = slots.images[:, :checked].cpu()
        both = min(len(before), len(heads))
        assert torch.equal(heads[:both], before[:both]), f"other bytes with {batch} images in flight"
        before = heads
        time = min(seconds(lambda slots=slots: backend.advance(slots, steps)) for _ in range(3)) / steps
        images = batch / (config.bytes * time)
        share = images * config.bytes * traffic / 1e12 / copied
        yield Finding(
            f"{name}, {batch} in flight", images, "images/s", share, f"of the copy; {1e6 * time:.0f} us a step"
        )


def launching(model: Transformer, batches: list[int], steps: int = STEPS) -> Iterator[Finding]:
    """Graphs of one or more branches, with chained launches or not; the bytes must be the same."""
    config, device = model.config, str(model.device)
    for batch in batches:
        painted = []
        for branches in (1, 2, 4) if batch >= 2048 else (1,):
            for chained in (False, True):
                backend, slots = CudaBackend(model, branches=branches, chained=chained), started(config, batch, device)
                backend.advance(slots, steps)
                time = min(seconds(lambda b=backend, s=slots: b.advance(s, steps)) for _ in range(3)) / steps
                painted.append(slots.images.clone())
                assert torch.equal(painted[0], painted[-1]), "bytes depend on how kernels are launched"
                what = f"{batch} in flight, {branches} branches, {'chained' if chained else 'not chained'}"
                yield Finding(what, 1e6 * time, "us a step")


def one_image(model: Transformer, name: str) -> Iterator[Finding]:
    """From the first byte to the last, the median of five."""
    device = str(model.device)
    backend = CudaBackend(model)
    slots = started(model.config, 1, device)
    backend.advance(slots, 1)
    times = []
    for _ in range(5):
        slots.state.clear(0, model.config.first)
        times.append(seconds(lambda: backend.advance(slots, model.config.bytes)))
    yield Finding(f"one image, {name}", 1e3 * sorted(times)[2], "ms")


def whole(model: Transformer, images: int, name: str) -> Iterator[Finding]:
    """Every byte of many images at once, and their memory at the first byte, in the middle and at the end."""
    config, device = model.config, str(model.device)
    on_gpu = device.startswith("cuda")
    backend = CudaBackend(model)
    alone = started(config, 2, device)
    backend.advance(alone, config.bytes)
    empty = torch.cuda.memory_allocated() if on_gpu else 0
    slots, taken, memory = started(config, images, device), 0.0, []
    backend.advance(slots, 1)
    for steps in (config.bytes // 2 - 1, config.bytes - config.bytes // 2):
        memory.append(torch.cuda.memory_allocated() - empty if on_gpu else 0)
        taken += seconds(lambda steps=steps: backend.advance(slots, steps))
    memory.append(torch.cuda.memory_allocated() - empty if on_gpu else 0)
    assert bool((slots.state.position == config.bytes).all())
    assert torch.equal(slots.images[:2], alone.images), "bytes differ from those of two images alone"
    yield Finding(f"{name}, all {config.bytes} bytes", images / taken, "images/s", None, f"{images} in flight")
    yield Finding(f"{name}, memory of an image", memory[-1] / images, "bytes", None, f"growth {memory[-1] - memory[0]}")


def largest(model: Transformer, room: int, name: str, state_dtype: torch.dtype, steps: int = 4) -> Iterator[Finding]:
    """As many images in flight as `room` bytes hold."""
    config, device = model.config, str(model.device)
    state = config.layers * config.heads * config.key_width * (state_dtype.itemsize * config.value_width + 4)
    images = room // (state + 2 * config.bytes + 64)
    backend, slots = CudaBackend(model, state_dtype), started(config, images, device, state_dtype)
    backend.advance(slots, 1)
    time = seconds(lambda: backend.advance(slots, steps)) / steps
    assert bool((slots.state.position == config.first + 1 + steps).all())
    yield Finding(f"largest, {name}", images, "in flight", None, f"{images / (config.bytes * time):.0f} images/s")


def state_errors(model: Transformer, images: int, name: str) -> Iterator[Finding]:
    """How much 16-bit states change bits/dim, on images that were painted with 32-bit states."""
    config, device = model.config, str(model.device)
    slots = started(config, images, device)
    CudaBackend(model).advance(slots, config.bytes)
    exact = slots.bits / config.bytes
    for state_dtype in (torch.float16, torch.bfloat16):
        narrow = started(config, images, device, state_dtype)
        narrow.images.copy_(slots.images)
        narrow.known.fill_(True)
        CudaBackend(model, state_dtype).advance(narrow, config.bytes)
        change = narrow.bits / config.bytes - exact
        note = f"mean of {images} images at {exact.mean():.3f}; largest of one {change.abs().max():.1e}"
        yield Finding(f"{name}: states in {state_dtype}", float(change.mean()), "bits/dim", None, note)
