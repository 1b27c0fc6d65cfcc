"""Inspection: a prefill of one image that also reports every number of some
of its steps, in one layer and head.

The torch model runs the bytes, and the reference of the recurrent step the chosen head, whatever
backend paints: the numbers are those of the equations, and equal the painted image's to within the
rounding of float32. What painting does is not changed by it.
"""

from collections import defaultdict
from dataclasses import replace

import torch

from scanline.kernels.step.reference import recurrent_step
from scanline.model.backends.pending import DeviceClock, Pending
from scanline.model.base.resources import one_torch_thread
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import Scored, StepNumbers
from scanline.model.sampling.base.prefill_state import PrefillState

INSPECTED_STEPS = 42  # run at once: some milliseconds on one core


class InspectedPrefill(PrefillState):
    """A prefill of one image up to the end of the steps that are inspected."""

    images_at_once = 1
    has_own_pace = True
    state_dtype = torch.float32
    in_chunks = True

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.reading.inspected is not None
        self.wanted = self.reading.inspected
        self.parts = defaultdict[str, list[torch.Tensor]](list)

    def next_chunk(self, steps: int | None = None) -> Pending[float]:
        """See PrefillState.next_chunk: always the same number of steps."""
        return super().next_chunk(INSPECTED_STEPS)

    @torch.inference_mode()
    def read(self, start: int, stop: int) -> Pending[float]:
        """See PrefillState.read."""
        clock = DeviceClock(torch.device("cpu"))
        with one_torch_thread():
            bits = self._run(start, stop)
            self.bits[:, :stop] += bits.cpu().numpy()
        return clock.stop()

    def scored(self, row: int, request: int, index: int) -> Scored:
        """See PrefillState.scored; with the numbers of the inspected
        steps, all of which have been run.
        """
        numbers: dict[str, bytes] = {}
        for name, parts in self.parts.items():
            values = torch.cat(parts).float().cpu()
            numbers[name] = values.numpy().tobytes()
        scored = super().scored(row, request, index)
        return replace(scored, steps=StepNumbers(numbers))

    def _run(self, first: int, stop: int) -> torch.Tensor:
        """Move the state from byte `first` to byte `stop`, IN PLACE, and keep the
        numbers of the inspected steps between; return the bits [1, stop] float64 of the
        bytes that were run, 0 before them."""
        model = self.model
        layer = self.wanted.layer
        head = self.wanted.head
        images = self.batch.images
        state = self.batch.state
        s = state.s[layer, :, head, None].clone()
        z = state.z[layer, :, head, None].clone()
        projected: list[torch.Tensor] = []  # queries, keys and values of all heads, [1, n, .]
        hook = model.layers[layer].query_key_value.register_forward_hook(
            lambda *call: projected.append(call[2])
        )
        try:
            parameters = model.parallel(images, state, stop, self.batch.labels)
        finally:
            hook.remove()
        if stop > self.wanted.first:
            self._keep(projected[0][0], parameters[0], s, z, first)
        bits = model.bits(parameters, images, first, stop)
        return torch.nn.functional.pad(bits, (first, 0))

    def _keep(
        self,
        projected: torch.Tensor,  # [n, .]
        parameters: torch.Tensor,  # [n, P]
        s: torch.Tensor,  # [1, 1, C, M], before byte `first`; changed in place
        z: torch.Tensor,  # [1, 1, C], the same
        first: int,
    ) -> None:
        model = self.model
        config = model.config
        head = self.wanted.head
        keys = config.heads * config.key_width
        of_heads = []
        for numbers in projected.split((keys, keys, config.model_width), dim=-1):
            of_heads.append(numbers.unflatten(-1, (config.heads, -1))[:, head])
        q, k, v = of_heads
        phi = model.layers[self.wanted.layer].phi
        phi_q = phi(q)
        phi_k = phi(k)
        # the first inspected step among the n
        inspected = max(0, (self.wanted.first - first) // config.step_bytes)
        parts = self.parts
        for step in range(len(q)):
            if step == inspected and not parts["s"]:
                parts["s"].append(s[0].clone())
                parts["z"].append(z[0].clone())
            this = (None, None, step)
            y = recurrent_step(phi_q[this], phi_k[this], v[this], s, z)
            if step >= inspected:
                parts["s"].append(s[0].clone())
                parts["z"].append(z[0].clone())
                parts["y"].append(y[0].clone())
        for name, numbers in {"q": q, "k": k, "v": v, "phi_q": phi_q, "phi_k": phi_k}.items():
            parts[name].append(numbers[inspected:])
        stop = first + len(q) * config.step_bytes
        painted = self.batch.images[0, first:stop].unflatten(0, (-1, config.step_bytes))
        probabilities = _probabilities(model, parameters[inspected:], painted[inspected:])
        parts["probabilities"].append(probabilities)


def _probabilities(
    model: Transformer,
    parameters: torch.Tensor,  # [n, P]
    painted: torch.Tensor,  # [n, bytes of a step] uint8
) -> torch.Tensor:
    """Return the probability [n, bytes of a step, 256] of each value of each byte, given the step's
    earlier bytes."""
    every = torch.arange(256, dtype=torch.uint8, device=painted.device)
    parameters = parameters.unsqueeze(1).expand(-1, 256, -1)
    channels = []
    for channel in range(painted.shape[-1]):
        values = painted.unsqueeze(1).repeat(1, 256, 1)
        values[..., channel] = every
        log_probabilities = model.distribution.log_prob(parameters, values)
        channels.append(log_probabilities[..., channel].exp())
    return torch.stack(channels, dim=1)
