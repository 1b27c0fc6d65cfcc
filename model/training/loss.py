"""The loss: mean bits of the bytes of a batch, compiled by torch.compile where there is a compiler."""

import logging

import torch

from scanline.kernels.logistics.reference import LN2
from scanline.model.network.transformer import Transformer

SAME_LOSS = 0.02  # bits; fused, a sum of products is rounded to bfloat16 at other places

log = logging.getLogger("scanline.training")


def loss_of(model: Transformer, batch: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the mean bits of the bytes of batch [B, N] that the network predicts: all, or all but the first.

    dtype: of the network's products. The parameters of the distribution and all that follows are float32.
    """
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
        parameters = model.parallel(batch)
    values = batch[:, model.config.first :].unflatten(1, (-1, model.config.step_bytes))
    return -model.distribution.log_prob(parameters.float(), values).mean() / LN2


class CompiledLoss:
    """`loss_of`, compiled at the first call; if compilation fails or gives another value, `loss_of` itself. All batches
    must have one size."""

    def __init__(self) -> None:
        torch.compiler.reset()  # graphs of an earlier run in this process count against the limit of this one
        self.compiled = torch.compile(loss_of, dynamic=False)
        self.chosen = False

    def __call__(self, model: Transformer, batch: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        if self.chosen:
            return self.compiled(model, batch, dtype)
        self.chosen = True
        with torch.no_grad():  # this also fills the tables that a network computes once, before its code is traced
            expected = loss_of(model, batch, dtype).item()
        try:
            loss = self.compiled(model, batch, dtype)
            found = loss.item()
            if abs(found - expected) <= SAME_LOSS:
                log.info("the loss is compiled")
                return loss
            reason = f"it is {found} compiled and {expected} uncompiled"
        except RuntimeError as error:  # of torch._dynamo or torch._inductor, which also says that there is no compiler
            reason = str(error).strip().splitlines()[0]
        log.warning("the loss is not compiled, so that training is slower: %s", reason)
        self.compiled = loss_of
        return loss_of(model, batch, dtype)
