"""Memory and time of an image in flight from its first byte to its last, which are constant.

    python -m benchmarks.memory_over_position mnist-small

`tensor_bytes` counts all tensors that the program holds for an image. `process_bytes` is what the
operating system counts for it: the growth of resident memory from a generator of one image to one
of many, without the weights and whatever else all images share.
"""

import ctypes
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.base.device import resolve_device
from scanline.model.base.machine import print_json
from scanline.model.bench.correctness import STEPS, Reference, make_reference
from scanline.model.bench.measure import place_all, synchronize
from scanline.model.bench.run import load
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator

IMAGES = {"cpu": 64, "cuda": 2048}  # in flight
SAMPLES = 8  # positions from the first call to the last


@dataclass(frozen=True)
class Sample:
    """After `position` bytes of every image."""

    position: int
    step_ms_median: float  # one step of all images together
    tensor_bytes: float  # of one image
    process_bytes: float | None  # of one image; None where the system does not say


def sample_memory(model: Transformer, reference: Reference) -> list[Sample]:
    """Return samples of painting IMAGES at once from start to end."""
    device = model.device.type
    images = IMAGES[device]
    positions = _positions(model.config)

    # What a generator of one image takes is not the images'. Slots are allocated in whole tiles, so
    # count those.
    before = _settled_memory(device)
    small = Generator(model, 1, backend=reference.backend)
    place_all(small)
    small.advance(STEPS)
    shared = (resident_memory(device) or 0) - before
    small_slots = len(small.pool.images)
    small.close()
    del small
    before = _settled_memory(device)
    generator = Generator(model, images, backend=reference.backend)
    slots = len(generator.pool.images)
    taken = []
    try:
        # The first calls load code and take scratch memory, so the images start again after them.
        place_all(generator)
        _paint_until(generator, positions[min(1, len(positions) - 1)], device)
        place_all(generator)
        for position in positions:
            times = _paint_until(generator, position, device)
            now = resident_memory(device)
            process = None
            if now is not None and slots > small_slots:
                process = (now - before - shared) / (slots - small_slots)
            milliseconds = 1e3 * float(np.median(times))
            taken.append(Sample(position, milliseconds, owned_bytes(generator) / slots, process))
        reference.check(generator)
    finally:
        generator.close()
    return taken


def owned_bytes(owner: object) -> int:
    """Return the bytes of the tensors that an object of ours holds, at any depth, without the
    weights of networks."""
    if isinstance(owner, torch.Tensor):
        return owner.nbytes
    if isinstance(owner, list | tuple):
        return sum(owned_bytes(member) for member in owner)
    is_ours = type(owner).__module__.startswith("scanline.model.")
    if isinstance(owner, torch.nn.Module) or not is_ours:
        return 0
    return sum(owned_bytes(member) for member in vars(owner).values())


def resident_memory(device: str) -> int | None:
    """Return the bytes of this process without pages of files, or of torch's tensors on the GPU;
    None where unknown."""
    if device == "cuda":
        return torch.cuda.memory_allocated()
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    _, pages, from_files = map(int, statm.read_text().split()[:3])
    return (pages - from_files) * os.sysconf("SC_PAGE_SIZE")


def _settled_memory(device: str) -> int:
    """Return resident bytes after freed memory went back to the system (glibc only): reused, it
    would not be seen."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return resident_memory(device) or 0


def _positions(config: ModelConfig) -> list[int]:
    """Return where samples are taken, in bytes, from the end of the first call to the last step."""
    steps = np.linspace(min(STEPS, config.steps), config.steps, SAMPLES).astype(int)
    return [config.first + step * config.step_bytes for step in np.unique(steps).tolist()]


def _paint_until(generator: Generator, position: int, device: str) -> list[float]:
    """Paint every image up to `position`; return the seconds of a step, one for each call."""
    times = []
    while True:
        remaining = position - int(generator.positions().min())
        if remaining <= 0:
            return times
        steps = min(remaining // generator.config.step_bytes, STEPS)
        synchronize(device)
        start = time.perf_counter()
        generator.advance(steps)
        synchronize(device)
        times.append((time.perf_counter() - start) / steps)


def main(name: str | None) -> None:
    model = load(name, None, resolve_device("auto"))
    reference = make_reference(model, [IMAGES[model.device.type]])
    samples = sample_memory(reference.model, reference)
    for sample in samples:
        process = "unknown" if sample.process_bytes is None else f"{sample.process_bytes:,.0f}"
        step = f"{sample.step_ms_median:.2f} ms a step"
        tensors = f"{sample.tensor_bytes:,.0f} bytes of tensors"
        print(f"byte {sample.position}: {step}, {tensors}, {process} of the process")
    configuration = {"model": name, "backend": reference.backend, "images": IMAGES}
    print_json("memory", configuration, samples=[asdict(sample) for sample in samples])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
