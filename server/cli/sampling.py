"""What `sample` and `complete` share: painting under a progress bar, and telling what came of it."""

import json
import secrets
from pathlib import Path

import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.offline import Painted, paint
from scanline.server.cli.progress import progress_bar


def check_temperature(value: float) -> None:
    """ValueError outside 0 < t <= 2."""
    if not 0 < value <= 2:
        raise ValueError(f"--temperature must be above 0 and at most 2, not {value}")


def drawn_seed(seed: int | None) -> int:
    """The seed that was given, or one of 53 bits, which every program reads back without loss."""
    return secrets.randbits(53) if seed is None else seed


def paint_with_bar(
    network: Transformer,
    n: int,
    seed: int,
    temperature: float,
    known: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    precision: str = DEFAULT,
) -> Painted:
    """`n` images under a progress bar; known [N] uint8 and mask [N] bool make them completions."""
    with progress_bar() as bar:
        task = bar.add_task("painting", total=n * network.config.bytes, note="bytes")
        return paint(
            network,
            n,
            seed=seed,
            temperature=temperature,
            known=known,
            mask=mask,
            precision=precision,
            progress=lambda done: bar.update(task, completed=done),
        )


def tell(painted: Painted, what: str, out: Path, seed: int, as_json: bool) -> None:
    """One line for a person, one object for a program."""
    bits = painted.bits_per_dim
    if as_json:
        print(json.dumps({"out": str(out), "n": len(bits), "seed": seed, "bits_per_dim": bits.tolist()}))
    else:
        print(f"{len(bits)} {what} in {out}, seed {seed}, {bits.mean():.3f} bits/dim")
