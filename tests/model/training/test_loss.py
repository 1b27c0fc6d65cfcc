"""The loss: mean bits as scoring counts them; compiled, in bfloat16, and where nothing can be compiled."""

import logging

import pytest
import torch
import torch._inductor.config as inductor

from scanline.model.network.transformer import Transformer
from scanline.model.training.loss import CompiledLoss, loss_of
from tests.support import small_models
from tests.support.close import assert_close


def small(variant: str) -> tuple[Transformer, torch.Tensor]:
    config = small_models.config(**small_models.VARIANTS[variant])
    return small_models.model(config).requires_grad_(True), torch.from_numpy(small_models.images(config, 3))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines of training alone: torch logs its own."""
    return [record.getMessage() for record in caplog.records if record.name == "scanline.training"]


@pytest.mark.parametrize("variant", ["plain", "histogram", "strokes", "pixels"])
def test_it_is_the_mean_of_the_bits_of_all_predicted_bytes(variant: str) -> None:
    model, batch = small(variant)
    first, length = model.config.first, model.config.bytes
    bits = model.bits(model.parallel(batch), batch, first, length).mean()
    assert_close(variant, bits.float(), loss_of(model, batch))
    assert_close(f"{variant} in bfloat16", bits.float(), loss_of(model, batch, torch.bfloat16), bound=0.03)


def test_compiled_it_has_the_same_value_and_gradients(caplog: pytest.LogCaptureFixture) -> None:
    model, batch = small("pixels")
    found = []
    with caplog.at_level(logging.INFO, "scanline.training"):
        for loss in (loss_of, CompiledLoss()):
            value = loss(model, batch)
            gradients = torch.autograd.grad(value, list(model.parameters()))
            found.append(torch.cat([value.view(1), *(gradient.flatten() for gradient in gradients)]))
    assert_close("loss and gradients", *found, bound=1e-3)
    assert said(caplog) == ["the loss is compiled"]


def test_without_a_compiler_it_runs_as_it_is_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    model, batch = small("plain")
    nowhere = {"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}
    with inductor.patch(nowhere), caplog.at_level(logging.INFO, "scanline.training"):
        loss = CompiledLoss()
        for _ in range(2):
            assert torch.equal(loss(model, batch), loss_of(model, batch))
    (sentence,) = said(caplog)
    assert sentence.startswith("the loss is not compiled, so that training is slower: ")


def test_a_compiled_loss_of_another_value_is_not_used(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = small("plain")
    loss = CompiledLoss()
    monkeypatch.setattr(loss, "compiled", lambda *given: loss_of(*given) * float("nan"))
    for _ in range(2):
        assert torch.equal(loss(model, batch), loss_of(model, batch))
    (sentence,) = said(caplog)
    assert sentence.startswith("the loss is not compiled, so that training is slower: it is nan compiled and ")
