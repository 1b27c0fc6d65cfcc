"""What the attention of one step of one image costs after so many steps: linear attention, whose state (s, z) is
constant, and softmax attention, whose cache has the keys and values of all steps.

Measured on this machine, by one thread of torch, for one image alone and nothing but the attention: the projections and
the rest of a layer are the same for both. `scanline bench` measures whole steps of many images.
"""

import time
from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F

from scanline.kernels.feature_maps import feature_map
from scanline.kernels.step import recurrent_step
from scanline.model.config import ModelConfig
from scanline.model.resources import one_torch_thread
from scanline.model.sampling.messages import AttentionCost

RUNS = 7  # of which the fastest counts: others were interrupted


@lru_cache(4096)
@torch.inference_mode()
def attention_cost(config: ModelConfig, steps: int, device: str) -> AttentionCost:
    """Measure the attention of step number `steps` from 1; a few milliseconds, once for each number of steps."""
    heads, width, values = config.heads, config.key_width, config.value_width
    q, k, v = (torch.randn(1, heads, size, device=device) for size in (width, width, values))
    s, z = torch.zeros(1, heads, width, values, device=device), torch.zeros(1, heads, width, device=device)
    keys, cached = (torch.randn(config.layers, 1, heads, steps, size, device=device) for size in (width, values))
    phi = feature_map(config.feature_map)

    def linear() -> None:
        for _ in range(config.layers):
            recurrent_step(phi(q), phi(k), v, s, z)

    def softmax() -> None:
        for layer in range(config.layers):
            keys[layer, :, :, steps - 1], cached[layer, :, :, steps - 1] = k, v
            F.scaled_dot_product_attention(q.unsqueeze(2), keys[layer], cached[layer])

    sums = config.layers * (s.nbytes + z.nbytes)
    with one_torch_thread():
        return AttentionCost(sums, keys.nbytes + cached.nbytes, _fastest(linear, device), _fastest(softmax, device))


def _fastest(call: Callable[[], None], device: str) -> float:
    """Return the seconds of the fastest of some runs; a first one warms up."""
    times = []
    for _ in range(1 + RUNS):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times[1:])
