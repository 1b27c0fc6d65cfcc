"""The weights of a new network, before its training."""

import math

import torch
from torch import nn

from scanline.model.base.config import ModelConfig
from scanline.model.network.distribution import distribution

DEVIATION = 0.02
INTO_RESIDUALS = ("attention_out.weight", "feed_forward_out.weight")
# which draw their own, or start as zeros
DRAWN_ELSEWHERE = ("embedding", "blocks", "classes")


def draw_weights(network: nn.Module, layers: int) -> None:
    """Draw weights as GPT-2 does: N(0, 0.02), and less with depth for products that end in a
    residual. Residual blocks start as the identity, and `skip` as zeros."""
    for name, parameter in network.named_parameters():
        if name.endswith(("bias", "taps")):
            nn.init.zeros_(parameter)
        elif "norm" not in name and not name.startswith(DRAWN_ELSEWHERE):
            deviation = DEVIATION
            if name.endswith(INTO_RESIDUALS):
                deviation /= math.sqrt(2 * layers)
            nn.init.normal_(parameter, std=deviation)
        if name.endswith("contract.weight") or name == "skip.weight":
            nn.init.zeros_(parameter)


@torch.no_grad()
def spread_components(head: nn.Linear, config: ModelConfig) -> None:
    """Let no two components of the mixture start equal: their means over the range of a byte, or
    their scales from narrow to wide."""
    k = config.components
    c = config.channels
    if config.predicts == "logistics":
        head.bias[k : 2 * k] = torch.linspace(-1, 1, k)
        head.bias[2 * k :] = -2.0
    elif config.predicts == "pixel_logistics":
        factor_count = distribution(config).width - k - 2 * k * c
        _, means, scales, factors = head.bias.split((k, k * c, k * c, factor_count))
        scales.copy_(torch.linspace(-4.5, -1.0, k).repeat_interleave(c))
        if c == 3:  # each channel starts at the one before it
            factors.copy_(torch.tensor([1.0, 0.0, 1.0]).repeat(k))
        if not config.window_centred:  # else they start at the reference
            means.copy_(torch.linspace(-1, 1, k).repeat_interleave(c))
