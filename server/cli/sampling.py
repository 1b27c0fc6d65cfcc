"""Helpers of `sample` and `complete`: paint under a progress bar, print a summary."""

import json
from pathlib import Path

import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.offline import Painted, paint
from scanline.server.cli.progress import add_stage, progress_bar


def paint_with_bar(
    network: Transformer,
    n: int,
    seed: int,
    temperature: float,
    known: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    precision: str = DEFAULT,
    backend: str | None = None,
) -> Painted:
    """Paint `n` images under a progress bar; known [N] uint8 and mask [N] bool make them completions."""
    with progress_bar() as bar:
        return paint(
            network,
            n,
            seed=seed,
            temperature=temperature,
            known=known,
            mask=mask,
            precision=precision,
            backend=backend,
            progress=add_stage(bar, "painting", n * network.config.bytes, "bytes"),
        )


def print_summary(bits_per_dim: np.ndarray, what: str, out: Path, seed: int, as_json: bool) -> None:
    """Print what was painted [n], as one line or one JSON object."""
    if as_json:
        summary = {"out": str(out), "n": len(bits_per_dim), "seed": seed, "bits_per_dim": bits_per_dim.tolist()}
        print(json.dumps(summary))
    else:
        print(f"{len(bits_per_dim)} {what} in {out}, seed {seed}, {bits_per_dim.mean():.3f} bits/dim")
