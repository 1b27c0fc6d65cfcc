"""Time of one step of one image at growing positions: linear attention, and softmax attention with a key-value cache.

Both run the same network in torch on one thread, at the paper's MNIST size with random weights and images of 128 x 128
pixels, and differ by attention alone. Linear attention costs the same at every step; softmax reads all keys and values
so far. Writes `server/web/src/how/step_times.json`, which the page draws: milliseconds of processor time of the fastest
of some calls, which other programs have interrupted least.
"""

import json
import time
from dataclasses import replace
from math import inf
from pathlib import Path

import torch

from scanline.model.bench.baselines import SoftmaxCache
from scanline.model.machine import facts, print_json
from scanline.model.network.transformer import Transformer
from scanline.model.resources import one_torch_thread
from scanline.model.state import State
from scanline.model.training.presets import PRESETS

RECORDED = Path(__file__).parents[1] / "server/web/src/how/step_times.json"
STEPS = (1, 784, *range(2048, 16385, 2048))  # counted from 1; 784 are those of a digit
ROUNDS, CALLS = 8, 10  # turns of each number, and the calls of a turn


def main() -> None:
    """Measure, and write the file."""
    torch.manual_seed(0)
    config = replace(PRESETS["mnist"].model, height=128, width=128)
    model = Transformer(config).eval()
    cache, state = SoftmaxCache(model, 1), State.zeros(config, 1)
    image = torch.zeros(1, config.bytes, dtype=torch.uint8)

    @torch.inference_mode()
    def linear(step: int) -> None:
        state.position.fill_(config.first + step)
        model.step(image, state)

    fastest = {name: [inf] * len(STEPS) for name in ("linear", "softmax")}
    with one_torch_thread():
        for _ in range(ROUNDS):
            for i, step in enumerate(STEPS):
                for name, call in (("linear", linear), ("softmax", cache.parameters)):
                    for _ in range(CALLS):
                        began = time.process_time()
                        call(step - 1)
                        fastest[name][i] = min(fastest[name][i], round(1e3 * (time.process_time() - began), 2))
    known = facts()
    where = {"date": known["date"][:10], "cpu": known["machine"]["cpu"].replace("(R)", "")}
    recorded = {**where, "steps": STEPS, **fastest}
    RECORDED.write_text(json.dumps(recorded) + "\n")
    print_json("step times", {"config": config.to_dict()}, **recorded)


if __name__ == "__main__":
    main()
