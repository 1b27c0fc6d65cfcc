"""One byte of every image of a tile: the network's step, a draw, the known byte where there is one, its bits.

On a CPU the step is traced once into a TorchScript graph and run by its plain interpreter, op for op the same
arithmetic: a Python loop holds the interpreter's lock between its 200 small operations, and two tiles side by
side then wait for each other (measured: 2.0 to 3.6 times slower in bulk, benchmarks/LOG.md).
"""

import warnings
from collections.abc import Callable

import torch

from scanline.kernels import mixture
from scanline.model.evaluation.likelihood import LN2
from scanline.model.network.transformer import Transformer
from scanline.model.state import State

# images [B, N] uint8, known [B, N] bool, bits [B] float64, temperature [B], s [L, B, H, C, M], z [L, B, H, C],
# position [B], uniforms [B, 2]; images, bits, s, z and position are changed IN PLACE, bits is returned
ByteStep = Callable[..., torch.Tensor]


def byte_step(model: Transformer, rows: int) -> ByteStep:
    """The step for tiles of `rows` images, as fast as this device allows."""

    def paint(
        images: torch.Tensor,
        known: torch.Tensor,
        bits: torch.Tensor,
        temperature: torch.Tensor,
        s: torch.Tensor,
        z: torch.Tensor,
        position: torch.Tensor,
        uniforms: torch.Tensor,
    ) -> torch.Tensor:
        last = model.config.bytes - 1
        done = position > last
        place = position.clamp(max=last).unsqueeze(1)
        parameters = model.step(images, State(s, z, position))
        painted = mixture.sample(parameters, uniforms, temperature, model.config.scale).unsqueeze(1)
        kept = known.gather(1, place) | done.unsqueeze(1)
        value = torch.where(kept, images.gather(1, place), painted)
        images.scatter_(1, place, value)
        cost = -mixture.log_prob(parameters, value.squeeze(1), model.config.scale).double() / LN2
        return bits.add_(cost.masked_fill(done, 0.0))

    return _without_lock(paint, model, rows) if model.device.type == "cpu" else paint


def _without_lock(paint: ByteStep, model: Transformer, rows: int) -> ByteStep:
    """`paint` as a graph that runs from start to end without Python; shapes are fixed, as those of a tile are."""
    state, length = State.zeros(model.config, rows), model.config.bytes
    example = (
        torch.zeros(rows, length, dtype=torch.uint8),
        torch.zeros(rows, length, dtype=torch.bool),
        torch.zeros(rows, dtype=torch.float64),
        torch.ones(rows),
        state.s,
        state.z,
        state.position,
        torch.full((rows, 2), 0.5),
    )
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch < 2.14 has it; a native step will take its place
        graph: ByteStep = torch.jit.trace(paint, example, check_trace=False)

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        plain = torch.jit.optimized_execution(False)  # type: ignore[attr-defined]  # no profiling: all runs alike
        with torch.inference_mode(), plain:
            return graph(*tensors)

    return run
