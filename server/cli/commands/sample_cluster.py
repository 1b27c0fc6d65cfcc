"""scanline sample --cluster: the same images, painted by the replicas of a service."""

import asyncio
import json
import os
from pathlib import Path

from scanline.server.cli.progress import progress_bar
from scanline.server.cli.sampling import drawn_seed
from scanline.server.engine.client.job import EngineFailedError


def sample_on_cluster(
    address: str, model: str, n: int, out: Path, seed: int | None, temperature: float, as_json: bool
) -> None:
    """Paints what is not in the folder yet; ValueError where the service or the folder does not fit."""
    if out.suffix:
        raise ValueError(f"--out {out}: --cluster paints into a folder")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from scanline.server.cluster import client
    except ImportError:
        raise ValueError("--cluster needs the extra cluster: pip install 'scanline[cluster]'") from None
    recipe = client.open_folder(out, client.Recipe(model, n, drawn_seed(seed), temperature), seed is None)
    with progress_bar() as bar:
        task = bar.add_task("painting", total=n, note="images")
        painting = client.paint_folder(address, recipe, out, lambda done: bar.update(task, completed=done))
        try:
            bits = asyncio.run(painting)
        except EngineFailedError as error:
            raise ValueError(f"{error} What is in {out} stays; the same command goes on.") from None
    if as_json:
        painted = {"painted": len(bits), "bits_per_dim": bits}
        print(json.dumps({"out": str(out), "n": n, "seed": recipe.seed, **painted}))
    else:
        mean = f", {sum(bits) / len(bits):.3f} bits/dim" if bits else ""
        print(f"{n} images in {out}, seed {recipe.seed}, {len(bits)} of them painted now{mean}")
