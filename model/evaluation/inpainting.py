"""Inpainting: test images of which a part is hidden, completed by 1, 16 and 64 particles.

Two figures of each hidden part and number of particles: what the known pixels cost, whatever the
hidden ones show, which tends to their likelihood from above as particles grow in number; and how
many completions a classifier gives the class of the original.
"""

from typing import Any, Unpack

import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.evaluation.classifier import Classifier, classify
from scanline.model.evaluation.comparison import Stage
from scanline.model.evaluation.metrics import standard_error
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import RunOptions, paint_request

PARTICLES = (1, 16, 64)


def hidden_parts(config: ModelConfig) -> dict[str, np.ndarray]:
    """Return the pixels [H, W] bool that are hidden, by their name: a third of the height, half of
    the width, half of either."""
    shape = (config.height, config.width)
    band, left, centre = np.zeros((3, *shape), np.bool_)
    band[config.height // 3 : -(config.height // 3)] = True
    left[:, : config.width // 2] = True
    above, beside = (side // 4 for side in shape)
    centre[above:-above, beside:-beside] = True
    return {"a band": band, "the left half": left, "the centre": centre}


def inpainting_figures(
    model: Transformer,
    images: np.ndarray,
    classifier: Classifier | None,
    classes: np.ndarray | None,
    seed: int,
    stage: Stage,
    **options: Unpack[RunOptions],
) -> dict[str, Any]:
    """Return the table of completions of test images [n, N] uint8 of `classes` [n], where these are
    known, as evaluation.json holds it."""
    config = model.config
    rows = []
    for name, hidden in hidden_parts(config).items():
        known = ~hidden.reshape(-1).repeat(config.channels)
        for particles in PARTICLES:
            progress = stage(f"completing {name}, {particles} particles", images.size, "bytes")
            request = GenerateRequest(
                0,
                len(images),
                seed,
                tuple(image.tobytes() for image in images),
                (known.tobytes(),) * len(images),
                particles=particles,
            )
            painted = paint_request(model, request, progress=progress, **options)
            assert painted.evidence_bits is not None
            bits = painted.evidence_bits / known.sum()
            row: dict[str, Any] = {
                "hidden": name,
                "particles": particles,
                "bits_per_known_dim": float(bits.mean()),
                "standard_error": standard_error(bits),
            }
            if classifier is not None:
                is_right = classify(classifier, painted.images).classes == classes
                row["as_original"] = float(is_right.mean())
                row["error_as_original"] = standard_error(is_right)
            rows.append(row)
    return {"images": len(images), "seed": seed, "rows": rows}
