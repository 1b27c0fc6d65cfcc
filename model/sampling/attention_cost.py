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
MOST_STEPS = 1024  # whose keys and values are read where it is measured; more take so much longer
FLOAT_BYTES = 4


def attention_cost(config: ModelConfig, steps: int, device: str) -> AttentionCost:
    """Return what the attention of step number `steps` from 1 costs, by a measurement of one layer: some milliseconds
    at most, once for each power of two."""
    cached = min(MOST_STEPS, 1 << (steps - 1).bit_length())
    linear, softmax = _layer_seconds(config, cached, device)
    heads = config.layers * config.heads
    sums, cache = config.key_width * (config.value_width + 1), steps * (config.key_width + config.value_width)
    seconds = config.layers * linear, config.layers * softmax * steps / cached
    return AttentionCost(FLOAT_BYTES * heads * sums, FLOAT_BYTES * heads * cache, *seconds)


@lru_cache(256)
@torch.inference_mode()
def _layer_seconds(config: ModelConfig, steps: int, device: str) -> tuple[float, float]:
    """Return the seconds of one layer's attention, linear and softmax."""
    heads, width, values = config.heads, config.key_width, config.value_width
    q, k, v = (torch.randn(1, heads, size, device=device) for size in (width, width, values))
    s, z = torch.zeros(1, heads, width, values, device=device), torch.zeros(1, heads, width, device=device)
    keys, cached = (torch.randn(1, heads, steps, size, device=device) for size in (width, values))
    phi = feature_map(config.feature_map)

    def softmax() -> None:
        keys[:, :, -1], cached[:, :, -1] = k, v
        F.scaled_dot_product_attention(q.unsqueeze(2), keys, cached)

    with one_torch_thread():
        return _fastest(lambda: recurrent_step(phi(q), phi(k), v, s, z), device), _fastest(softmax, device)


def _fastest(call: Callable[[], object], device: str) -> float:
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
