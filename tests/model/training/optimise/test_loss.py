"""The loss: mean bits as scoring counts them; compiled, in bfloat16,
and where nothing can be compiled.
"""

import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

from scanline.kernels import attention
from scanline.model.network import layer
from scanline.model.training.optimise.loss import (
    SAME_GRADIENTS,
    CompiledLoss,
    compile_loss,
    gradient_rounding,
    loss_of,
)
from tests.support import small_models
from tests.support.close import assert_close

ROOT = Path(__file__).parents[4]
LOSS = "scanline.model.training.optimise.loss"


def small(variant, **changes):
    config = small_models.config_of(variant, **changes)
    return small_models.model(config).requires_grad_(True), small_models.tensor(config, 3)


def said(caplog):
    """Return the log lines of training alone: torch logs its own."""
    return [record.getMessage() for record in caplog.records if record.name == "scanline.training"]


@pytest.mark.parametrize("variant", ["histogram", "strokes", "pixels"])
def test_it_is_the_mean_of_the_bits_of_all_predicted_bytes(variant):
    model, batch = small(variant)
    first = model.config.first
    length = model.config.bytes
    bits = model.bits(model.parallel(batch), batch, first, length).mean()
    assert_close(variant, bits.float(), loss_of(model, batch))
    assert_close(
        f"{variant} in bfloat16", bits.float(), loss_of(model, batch, torch.bfloat16), bound=0.03
    )


def assert_runs_as_it_is(caplog, reason):
    """It has the value of the loss as it is written, and says once why it is not compiled."""
    model, batch = small("plain")
    loss = CompiledLoss()
    for _ in range(2):
        assert torch.equal(loss(model, batch), loss_of(model, batch))
    (sentence,) = said(caplog)
    assert sentence.startswith("training without torch.compile, which is slower: " + reason)


def with_classes(variant):
    return *small(variant, classes=(("a",), ("b",))), torch.tensor([2, 0, 1])


def with_gradients(loss, model, *given):
    value = loss(model, *given)
    gradients = torch.autograd.grad(value, list(model.parameters()))
    return torch.cat([value.view(1), *(gradient.flatten() for gradient in gradients)])


@pytest.mark.parametrize("variant", ["authors", "strokes"])
def test_each_image_is_learnt_with_its_own_label(variant):
    model, batch, labels = with_classes(variant)
    alone = [loss_of(model, batch[i : i + 1], torch.float32, labels[i : i + 1]) for i in range(3)]
    assert_close(variant, torch.stack(alone).mean(), loss_of(model, batch, torch.float32, labels))
    assert (
        len(
            {
                loss_of(model, batch[:1], torch.float32, torch.tensor([label])).item()
                for label in range(3)
            }
        )
        == 3
    )
    (gradient,) = torch.autograd.grad(alone[0], [model.classes])
    assert (gradient.norm(dim=1) > 0).tolist() == [False, False, True]


@pytest.mark.slow  # compiles for half a minute, and the second time in C++ alone
def test_compiled_it_has_the_value_and_gradients_of_each_batch_s_labels_and_is_found_in_its_cache(
    caplog, tmp_path
):
    model, batch, labels = with_classes("pixels")
    for hits in (0, 1):  # torch's own caches are empty both times
        counters.clear()
        with fresh_cache(), caplog.at_level(logging.INFO, "scanline.training"):
            compiled = CompiledLoss(tmp_path / "cache")
            for given in (labels, labels.roll(1)):
                found = (
                    with_gradients(loss, model, batch, torch.float32, given)
                    for loss in (loss_of, compiled)
                )
                assert_close("loss and gradients", *found, bound=1e-3)
        assert said(caplog)[-1].startswith("the loss is compiled, in ")
        assert counters["aot_autograd"]["autograd_cache_hit"] == hits
        assert counters["aot_autograd"]["autograd_cache_bypass"] == 0


def test_small_features_leave_gradients_right_in_bfloat16():
    model, batch = small("pixels")
    small_models.with_small_features(model)
    assert gradient_rounding(model, batch) < 0.1


def test_without_a_compiler_it_runs_as_it_is_and_says_so_once(
    caplog,
):
    import torch._inductor.config as inductor  # seconds, which only this test needs

    nowhere = {"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}
    with inductor.patch(nowhere), caplog.at_level(logging.INFO, "scanline.training"):
        assert_runs_as_it_is(caplog, "")


WRONG = {
    "compiled it is nan, as it is": lambda *given: loss_of(*given) * float("nan"),
    "compiled, its gradients are off by 1 of": lambda *given: (
        2 * loss_of(*given) - loss_of(*given).detach()
    ),
    "compiled, its gradients are off by nan of": lambda *given: _with_gradients_of_nan(
        loss_of(*given)
    ),
}


def _with_gradients_of_nan(value):
    value.register_hook(lambda gradient: gradient * float("nan"))
    return value


@pytest.mark.parametrize("reason", WRONG)
def test_a_compiled_loss_of_another_value_or_other_gradients_is_not_used(
    reason, caplog, monkeypatch
):
    monkeypatch.setattr(f"{LOSS}.compile_loss", lambda device: WRONG[reason])
    assert_runs_as_it_is(caplog, reason)


def _with_exact_gradients(model, batch, dtype, *rest):
    """The loss as it is written, with the gradients of float32."""
    exact = loss_of(model, batch, torch.float32, *rest)
    return exact - exact.detach() + loss_of(model, batch, dtype, *rest).detach()


def _with_half_gradients(*given):
    value = _with_exact_gradients(*given)
    return (value + value.detach()) / 2


@pytest.mark.parametrize(
    ("compiled", "used"), [(_with_exact_gradients, True), (_with_half_gradients, False)]
)
def test_in_bfloat16_a_compiled_loss_may_be_as_far_from_float32_as_the_one_as_written(
    compiled, used, monkeypatch
):
    model, batch = small("plain")
    assert gradient_rounding(model, batch) > SAME_GRADIENTS
    monkeypatch.setattr(f"{LOSS}.compile_loss", lambda device: compiled)
    loss = CompiledLoss()
    loss(model, batch, torch.bfloat16)
    assert loss.compiled is (compiled if used else loss_of)


def test_a_compiled_loss_that_is_later_no_number_is_not_used_from_then_on(caplog, monkeypatch):
    model, batch = small("plain")
    factors = iter([1.0, 1.0, float("nan")])  # of the check, of the first update, of the second
    monkeypatch.setattr(
        f"{LOSS}.compile_loss", lambda device: lambda *given: loss_of(*given) * next(factors)
    )
    loss = CompiledLoss()
    for _ in range(3):
        assert torch.equal(loss(model, batch), loss_of(model, batch))
    assert said(caplog)[-1] == "training without torch.compile, which is slower: compiled it is nan"


@pytest.mark.slow  # generating vector code takes a minute for each instruction set
@pytest.mark.parametrize("preset", ["mnist-small", "cifar10-small"])
def test_compiled_code_on_disk_is_of_the_instruction_set_that_runs(preset, tmp_path):
    avx2 = {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    }
    for capability in ({}, avx2):  # the second finds the folder of the first
        # Without its own check, which fails on some machines, torch generates code with vectors.
        folder = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_VEC_ISA_OK": "1"}
        command = [sys.executable, "-m", "tests.support.training.compiled_loss", preset]
        subprocess.run(
            command, env=os.environ | folder | capability, cwd=ROOT, check=True, timeout=500
        )


def test_every_layer_is_compiled_where_graphs_end_at_the_attention(
    monkeypatch,
):
    config = small_models.config_of("plain", layers=10)
    model = small_models.model(config).requires_grad_(True)
    run = []

    def count(graph, inputs):
        def forward(*arguments):
            run.append(graph)
            return graph.forward(*arguments)

        return forward

    outside = torch.compiler.disable(attention.chunked.causal_linear_attention)
    monkeypatch.setattr(attention, "causal_linear_attention", outside)
    monkeypatch.setattr(layer, "causal_linear_attention", outside)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=count))
    torch.compiler.reset()
    compile_loss(torch.device("cuda"))(model, small_models.tensor(config, 2))
    nodes = [node for graph in run for node in graph.graph.nodes]
    assert sum(node.target is torch._C._nn.gelu for node in nodes) == 10
