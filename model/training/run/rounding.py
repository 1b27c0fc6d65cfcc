"""Gradients in bfloat16 beside those in float32, before the first update of trained weights.

Where a model's distributions have become narrow, rounded products hide the gradients: a run learns
nothing more, and its loss alone does not say why.
"""

import torch

from scanline.model.datasets.source import ImageSet
from scanline.model.network.transformer import Transformer
from scanline.model.training.data.positions import Positions
from scanline.model.training.data.prefetch import Batches
from scanline.model.training.optimise.loss import gradient_rounding
from scanline.model.training.run.plan import TrainingPlan

MOST = 0.5  # of the norm of the gradients
IMAGES = 16  # of the first batch


def hidden_gradients(
    plan: TrainingPlan, weights: dict[str, torch.Tensor], images: ImageSet, device: str
) -> float | None:
    """Return how far the gradients of weights in bfloat16 are from those in float32, as a share of
    the norm of these; None where it is at most MOST."""
    model = Transformer(plan.model).to(device)
    model.load_state_dict(weights)
    labels = images.labels.train if images.labels else None
    batch, of_batch, positions = Batches(images.train, labels, plan.training, plan.model)[0]
    part = batch[:IMAGES].to(device)
    if of_batch is not None:
        of_batch = of_batch[:IMAGES].to(device)
    if positions is not None:
        position = positions.position[:IMAGES].to(device)
        positions = Positions(position, positions.weight[:IMAGES].to(device))
    off = gradient_rounding(model, part, of_batch, positions)
    return None if off <= MOST else off


def words(off: float) -> str:
    """Return what `hidden_gradients` has found."""
    return f"in bfloat16 the gradients are off by {off:.2g} of their norm"
