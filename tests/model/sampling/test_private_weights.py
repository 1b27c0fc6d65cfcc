"""A loaded model is its own: files that change under it change no byte that it paints."""

from pathlib import Path

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Finished, GenerateRequest
from tests.support.engine.engine_ticks import run_until_idle


def painted(engine: Engine, request: int) -> list[bytes]:
    events = run_until_idle(engine, GenerateRequest(request, 3, seed=5))
    return [event.image for event in events if isinstance(event, Finished)]


@pytest.mark.parametrize(
    ("dtype", "backend", "change"),
    [(torch.float16, "cpu", "overwritten"), (torch.float32, "eager", "truncated")],
    ids=str,
)
def test_files_overwritten_in_place_change_no_painted_byte_and_no_digest(
    tmp_path: Path, grey: Transformer, dtype: torch.dtype, backend: str, change: str
) -> None:
    if backend == "cpu" and not cpu_kernels.available():
        pytest.skip("needs the compiled library")
    save_model(grey, tmp_path, dtype)
    engine = Engine(Generator(load_model(tmp_path), 2, threads=1, backend=backend))
    before = painted(engine, 0)
    weights = tmp_path / "model.safetensors"
    size, node = weights.stat().st_size, weights.stat().st_ino
    noise = np.random.default_rng(0).integers(0, 60, size, np.uint8).tobytes() if change == "overwritten" else b""
    with weights.open("r+b") as file:
        file.write(noise)
        file.truncate()
    assert weights.stat().st_ino == node
    assert painted(engine, 1) == before
    assert engine.generator.digest == Generator(grey_as_stored(grey, dtype), 1, threads=1, backend=backend).digest
    engine.generator.close()


def grey_as_stored(grey: Transformer, dtype: torch.dtype) -> Transformer:
    """The model with its weights rounded as they are in the file."""
    copy = Transformer(grey.config).eval().requires_grad_(False)
    copy.load_state_dict({name: tensor.to(dtype).float() for name, tensor in grey.state_dict().items()})
    return copy
