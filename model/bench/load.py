"""The model that is measured: a shipped one, a directory, or random weights in the shape of a preset."""

import torch

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS


def subject(name: str | None, random: str | None, device: str) -> Transformer:
    """The model of that name (the default one for None), or random weights as a model directory would hold them:
    in float16. ValueError for a name that there is not, or for two of them."""
    if random is None:
        return load_model(zoo.find(name or zoo.DEFAULT), device)
    if name is not None:
        raise ValueError("--model and --random exclude each other; give one of them")
    if random not in PRESETS:
        raise ValueError(f"there is no preset {random!r}; there are {', '.join(PRESETS)}")
    torch.manual_seed(0)
    model = Transformer(PRESETS[random].model).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(parameter.half())
    return model.to(device)
