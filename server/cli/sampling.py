"""Painting under a progress bar, for the commands `sample` and `complete`."""

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
            progress=add_stage(bar, "painting", n * network.config.bytes, "bytes"),
        )
