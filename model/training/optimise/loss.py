"""The loss: mean bits of the bytes of a batch, as one graph that torch.compile fuses where there is
a compiler."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from scanline.kernels import LN2, attention, gpu
from scanline.model.base.atomic import write_file
from scanline.model.base.named_files import read_file
from scanline.model.network.transformer import Transformer
from scanline.model.training.data.positions import Positions

# bits; bfloat16 rounds a sum of several products at other places when they are fused
SAME_LOSS = 0.02
# of their norm: how much further than those of the loss as it is written from float32's
SAME_GRADIENTS = 0.05

Loss = Callable[
    [Transformer, torch.Tensor, torch.dtype, torch.Tensor | None, Positions | None],
    torch.Tensor,
]

AUTOCAST = ("torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast")

log = logging.getLogger("scanline.training")


def loss_of(
    model: Transformer,
    batch: torch.Tensor,
    dtype: torch.dtype = torch.float32,
    labels: torch.Tensor | None = None,
    positions: Positions | None = None,
) -> torch.Tensor:
    """Return the mean bits of the bytes of batch [B, N] that the network predicts: all, or all but
    the first.

    labels: [B] int64, as `Transformer.parallel` reads them. positions: those from which to
    estimate it; None for all. dtype: of the network's products. The parameters of the
    distribution and all that follows are float32.
    """
    values = batch[:, model.config.first :].unflatten(1, (-1, model.config.step_bytes))
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
        if positions is None:
            parameters = model.parallel(batch, labels=labels)
        else:
            parameters = model.sampled(batch, positions.position, positions.weight, labels)
    if positions is None:
        bits = -model.distribution.log_prob(parameters.float(), values).mean((1, 2)) / LN2  # [B]
        return bits.mean()
    index = positions.position.unsqueeze(-1).expand(-1, -1, values.shape[-1])
    log_prob = model.distribution.log_prob(parameters.float(), values.gather(1, index))
    weighted = log_prob * positions.weight.unsqueeze(-1)
    bits = -weighted.sum((1, 2)) / (values[0].numel() * LN2)  # [B]
    return bits.mean()


class CompiledLoss:
    """`loss_of`, compiled at its first call; where that fails, or gives another value or other
    gradients, as it is. Every batch must have one size.

    cache: a file from which torch takes what it compiled before; it checks that the code is of the
    same loss, torch and device, and it runs that code. `writes`: the file gets what it lacks.
    """

    def __init__(self, cache: Path | None = None, writes: bool = True) -> None:
        # graphs of an earlier run in this process count against the limit of this one
        torch.compiler.reset()
        self.cache = cache
        self.writes = writes
        self.compiled: Loss = loss_of
        self.chosen = False

    def __call__(
        self,
        model: Transformer,
        batch: torch.Tensor,
        dtype: torch.dtype = torch.float32,
        labels: torch.Tensor | None = None,
        positions: Positions | None = None,
    ) -> torch.Tensor:
        if not self.chosen:
            self.chosen = True
            self._choose(model, batch, dtype, labels, positions)
        loss = self.compiled(model, batch, dtype, labels, positions)
        # On a CPU alone: reading the loss would wait for every update on a GPU.
        if self.compiled is not loss_of and loss.device.type == "cpu" and not loss.isfinite():
            self._refuse(f"compiled it is {loss.item()}")
            return loss_of(model, batch, dtype, labels, positions)
        return loss

    def _choose(
        self, model: Transformer, batch: torch.Tensor, dtype: torch.dtype, *more: Any
    ) -> None:
        """Use the compiled loss from now on if it has the value of the loss as it is written, and
        gradients as near to those in float32: in bfloat16 both are rounded, each in its own way."""
        # The loss as it is written is first: it also fills the tables that a network
        # computes once, before its code is traced.
        _, exact = _with_gradients(loss_of, model, batch, torch.float32, *more)
        expected, as_written = _with_gradients(loss_of, model, batch, dtype, *more)
        began = time.monotonic()
        try:
            self._read_cache()
            compiled = compile_loss(batch.device)
            value, gradients = _with_gradients(compiled, model, batch, dtype, *more)
        # of torch._dynamo or torch._inductor, which also says that there is no compiler
        except RuntimeError as error:
            self._refuse(str(error).strip().splitlines()[0])
            return
        off = _off(gradients, exact)
        rounding = _off(as_written, exact)
        if not abs(value - expected) <= SAME_LOSS:
            self._refuse(f"compiled it is {value}, as it is written {expected}")
        elif not off <= rounding + SAME_GRADIENTS:
            self._refuse(f"compiled, its gradients are off by {off:.3g} of their norm")
        else:
            self.compiled = compiled
            log.info("the loss is compiled, in %.0f s", time.monotonic() - began)
            self._write_cache()

    def _read_cache(self) -> None:
        if self.cache is None:
            return
        # By default torch keeps no graph with autocast or an autograd function in it. What
        # both do is in the graph, and so in its key; and a compiled loss is compared with the
        # one as it is written before it is used.
        torch._inductor.config.unsafe_marked_cacheable_functions |= dict.fromkeys(
            AUTOCAST, torch.__version__
        )
        torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True
        if self.cache.exists():
            # of another torch: it warns, and compiles
            torch.compiler.load_cache_artifacts(read_file(self.cache))

    def _write_cache(self) -> None:
        """Write what was compiled, or found in the cache, atomically: the next run needs all of
        it."""
        if self.cache is None or not self.writes:
            return
        compiled = torch.compiler.save_cache_artifacts()
        if compiled:
            write_file(self.cache, compiled[0])

    def _refuse(self, reason: str) -> None:
        log.warning("training without torch.compile, which is slower: %s", reason)
        self.compiled = loss_of


def compile_loss(device: torch.device) -> Loss:
    """Return `loss_of`, which torch.compile compiles at its first call. RuntimeError where there is
    no compiler.

    On a CPU the width of its vectors is an option of the compiler: torch keeps generated code on
    disk and finds it again by its options, but (in 2.13) not by the instruction set it was
    generated for. Loops over vectors of AVX-512, compiled for AVX2, skip the upper half of every
    vector. It happens where machines share the folder, or ATEN_CPU_CAPABILITY has changed.
    """
    # What depends on a layer's number is compiled for each; layers beyond torch's own limit, which
    # is 8, would run as they are written.
    torch._dynamo.config.recompile_limit = 64
    # marks it: the compiler calls it and does not trace it
    torch.compiler.assume_constant_result(gpu.trains)
    if device.type != "cpu":
        attention.keep_out_of_graphs()
        return torch.compile(loss_of, dynamic=False)
    from torch._inductor.cpu_vec_isa import pick_vec_isa  # imported late: it costs 150 MB

    width = pick_vec_isa().bit_width()
    return torch.compile(loss_of, dynamic=False, options={"cpp.simdlen": width})


def gradient_rounding(model: Transformer, batch: torch.Tensor, *more: Any) -> float:
    """Return how far the gradients of `loss_of` in bfloat16 are from those in float32, as a share of
    the norm of these."""
    _, exact = _with_gradients(loss_of, model, batch, torch.float32, *more)
    _, rounded = _with_gradients(loss_of, model, batch, torch.bfloat16, *more)
    return _off(rounded, exact)


def _off(gradients: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the distance of gradients from exact ones, as a share of the norm of these."""
    distance = (gradients - exact).norm()
    return (distance / exact.norm()).item()


def _with_gradients(loss: Loss, model: Transformer, *inputs: Any) -> tuple[float, torch.Tensor]:
    """Return the loss and the gradients of all trained weights as one vector."""
    value = loss(model, *inputs)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    gradients = torch.autograd.grad(value, weights, allow_unused=True)
    used = [gradient.flatten().float() for gradient in gradients if gradient is not None]
    return value.item(), torch.cat(used)
