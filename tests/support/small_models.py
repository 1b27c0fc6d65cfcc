"""Small real models: every option of ModelConfig, weights large
enough that each of them matters.
"""

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.network.class_head import ClassHead, FeatureShape
from scanline.model.network.transformer import Transformer

HISTOGRAM = tuple(np.random.default_rng(0).dirichlet(np.ones(256)).tolist())
NO_START = {"start_token": False, "first_byte_histogram": HISTOGRAM}
WINDOW = {"step": "pixel", "window_rows": 2, "window_columns": 3}
WAVES = {"waves": 3, "wave_rows": 1, "wave_columns": 2}
CLASSES = {"classes": (("7", "seven"), ("horse",), ("sea shell", "shell")), "class_biases": True}
MIXED = {"causal_conv": True, "blocks": 1, "block_width": 9}
COLOUR_PIXELS = {
    "channels": 3,
    "predicts": "pixel_logistics",
    "window_centred": True,
    "outside": 128,
}
AUTHORS = {
    "channels": 3,
    "norm": "post",
    "activation": "gelu",
    "embedding_join": "concat",
    "position": "sincos",
}
VARIANTS = {
    "plain": {},
    "post": {"norm": "post"},
    "relu": {"activation": "relu"},
    "concat": {"embedding_join": "concat"},
    "sincos": {"position": "sincos"},
    "histogram": NO_START,
    "colour": {"channels": 3},
    "elu-scale": {"scale": "elu"},
    "categorical": {"predicts": "categorical"},
    "window": {**WINDOW, "blocks": 2, "block_width": 20},
    "strokes": {**WINDOW, **WAVES, "predicts": "categorical"},
    "grey pixels": {
        **WINDOW,
        "predicts": "pixel_logistics",
        "window_centred": True,
        "outside": 128,
    },
    "pixels": {**WINDOW, **COLOUR_PIXELS, "causal_conv": True},
    "waves of pixels": {**WINDOW, **WAVES, **COLOUR_PIXELS, **MIXED, "norm": "post"},
    "authors": {**AUTHORS, "scale": "elu", **NO_START},
}
# between them each way to read and predict, and most options
CORE = ["plain", "authors", "strokes", "waves of pixels"]
REST = [variant for variant in VARIANTS if variant not in CORE]


def config(**changes):
    """4 x 5 grey pixels, 2 layers, 2 heads, C = 8, M = 6, unless changed."""
    sizes = {
        "height": 4,
        "width": 5,
        "channels": 1,
        "layers": 2,
        "heads": 2,
        "key_width": 8,
        "value_width": 6,
    }
    return ModelConfig(**{**sizes, "feed_forward": 20, "components": 3, **changes})


def config_of(variant, **changes):
    return config(**{**VARIANTS[variant], **changes})


# as most tests paint with
GREY = config(height=7, width=5, layers=1)
COLOUR = config(height=3, width=4, channels=3)


def model(config, seed=0):
    """A model whose every weight is random, so that no path through it is silent."""
    torch.manual_seed(seed)
    model = Transformer(config).eval().requires_grad_(False)
    for name, parameter in sorted(
        model.named_parameters(), key=lambda each: "class_bias" in each[0]
    ):
        size = (
            1.0
            if "embedding" in name
            else parameter.shape[-1] ** -0.5
            if parameter.dim() == 2
            else 0.3
        )
        parameter.add_(torch.randn_like(parameter) * size)
    return model


def model_of(variant, **changes):
    return model(config_of(variant, **changes))


def class_head(config, seed=0):
    """A class head of random weights on the outputs of the
    blocks and of layer 1, of 3 x 3 cells.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = FeatureShape((0, 1), 3)
    given = {
        name: torch.rand(tensor.shape, generator=generator) + (0.5 if tensor.dim() < 2 else -0.5)
        for name, tensor in ClassHead.empty(shape, config).tensors.items()
    }
    return ClassHead(shape, **given)


def with_small_features(model):
    """The model with keys of about -13, whose features are about
    2e-6: training leads some keys there.
    """
    queries = model.config.heads * model.config.key_width
    for layer in model.layers:
        layer.query_key_value.bias.data[queries : 2 * queries] -= 13
    return model


def images(config, count, seed=0):
    """[count, N] uint8, noise."""
    return np.random.default_rng(seed).integers(0, 256, (count, config.bytes), np.uint8)


def tensor(config, count, seed=0):
    """The same images as a tensor."""
    return torch.from_numpy(images(config, count, seed))
