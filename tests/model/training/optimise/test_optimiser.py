"""The weights that each optimiser moves and those that decay, the learning rate over a run,
the moving average. Muon: the same weights as torch's own, and in float32 as well. The
precision of products follows the processor."""

import pytest
import torch

from scanline.model.training import TrainingConfig
from scanline.model.training.optimise.muon import Muon, orthogonalised
from scanline.model.training.optimise.optimiser import (
    MovingAverage,
    clip_gradients,
    learning_rate,
    optimiser,
)
from scanline.model.training.optimise.precision import product_dtype
from tests.support import small_models
from tests.support.close import assert_close


def test_adamw_trains_every_weight_and_decays_matrices_of_the_layers():
    model = small_models.model(small_models.config())
    found = optimiser(model, TrainingConfig(1, optimiser="adamw", weight_decay=0.1))
    assert type(found) is torch.optim.AdamW
    assert_trains_everything(found, model)
    decayed = [
        p for group in found.param_groups if group["weight_decay"] == 0.1 for p in group["params"]
    ]
    assert {id(p) for p in decayed} == matrices(model)


def test_muon_moves_the_matrices_of_the_layers_and_adamw_the_rest():
    model = small_models.model_of("waves of pixels")
    found = optimiser(model, TrainingConfig(1, optimiser="muon"))
    assert [type(part) for part in found.parts] == [Muon, torch.optim.AdamW]
    moved = {
        id(parameter) for group in found.parts[0].param_groups for parameter in group["params"]
    }
    assert moved == matrices(model)
    assert_trains_everything(found, model)
    rates = {id(p): group["scale"] for group in found.param_groups for p in group["params"]}
    assert [rates[id(model.layers[0].attention_out.weight)], rates[id(model.embedding.row)]] == [
        1.0,
        0.4,
    ]
    assert {rates[id(p)] for p in model.head.parameters()} == {0.2}


def matrices(model):
    stacks = [*model.blocks.named_parameters(), *model.layers.named_parameters()]
    return {id(p) for name, p in stacks if p.dim() == 2 and not name.endswith("taps")}


def assert_trains_everything(found, model):
    trained = [parameter for group in found.param_groups for parameter in group["params"]]
    assert {id(p) for p in trained} == {id(p) for p in model.parameters()}
    assert len(trained) == len(list(model.parameters()))


def test_a_jump_of_the_head_does_not_silence_the_layers():
    model = small_models.model(small_models.config())
    for name, parameter in model.named_parameters():
        parameter.grad = torch.full_like(parameter, 100.0 if name.startswith("head.") else 1e-4)
    before = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    whole = torch.cat([gradient.flatten() for gradient in before.values()]).norm()
    torch.testing.assert_close(clip_gradients(model, 1.0), whole)
    head = torch.cat([p.grad.flatten() for p in model.head.parameters()])
    torch.testing.assert_close(head.norm(), torch.tensor(1.0))
    layers = ((name, p) for name, p in model.named_parameters() if not name.startswith("head."))
    assert all(torch.equal(p.grad, before[name]) for name, p in layers)


def rates(schedule, **changes):
    config = TrainingConfig(
        100,
        learning_rate=1.0,
        schedule=schedule,
        **{
            "warm_up": 10,
            "decay": 0.3,
            **changes,
        },
    )
    return [learning_rate(config, update) for update in range(100)]


def test_after_a_linear_warm_up_each_schedule_runs_as_its_name_says():
    constant = rates("constant")
    trapezoid = rates("trapezoid")
    warm_up = pytest.approx([(i + 1) / 10 for i in range(10)])
    assert constant[:10] == trapezoid[:10] == warm_up
    assert rates("constant", warm_up=0)[0] == 1
    assert constant[10:] == [1.0] * 90
    assert trapezoid[10:73] == [1.0] * 63
    assert trapezoid[73:] == pytest.approx([(100 - update) / 27 for update in range(73, 100)])


@pytest.mark.parametrize("kind", [float, torch.tensor])
@pytest.mark.parametrize(("decay", "update", "step"), [(0.9, 10_000, 0.1), (0.999, 0, 0.9)])
def test_the_average_is_a_copy_that_moves_by_one_minus_the_decay_and_faster_at_first(
    decay, update, step, kind
):
    model = small_models.model(small_models.config())
    average = MovingAverage(model, decay)
    before = model.head.weight.clone()
    model.head.weight.add_(1)
    assert torch.equal(average.model.head.weight, before)
    average.move(model, kind(average.share(update)))
    assert_close(
        "average",
        before + step,
        average.model.head.weight,
    )


SHAPES = [
    (8, 20),
    (20, 8),
    (12, 12),
    (8, 20),
    (20, 8),
]
MUON = {"lr": 0.01, "weight_decay": 0.1}


def moved(kind, **more):
    """Return weights of several shapes after five updates with given gradients."""
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    muon = kind(weights, **MUON, **more)
    for _ in range(5):
        for weight in weights:
            weight.grad = torch.randn(weight.shape)
        muon.step()
    return [weight.detach() for weight in weights]


def test_in_bfloat16_it_is_torchs_own():
    expected = moved(torch.optim.Muon, adjust_lr_fn="match_rms_adamw")
    for shape, reference, result in zip(
        SHAPES, expected, moved(Muon, dtype=torch.bfloat16), strict=True
    ):
        assert_close(f"{shape}", reference, result)


def test_float32_agrees_with_bfloat16_up_to_its_rounding():
    for shape, reference, result in zip(
        SHAPES, moved(Muon), moved(Muon, dtype=torch.bfloat16), strict=True
    ):
        assert_close(f"{shape}", reference, result, bound=5e-3)


def test_matrices_of_one_shape_move_as_each_alone():
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    alone = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    together = Muon(weights, **MUON)
    separate = [Muon([weight], **MUON) for weight in alone]
    for update in range(3):
        for number, (weight, other) in enumerate(zip(weights, alone, strict=True)):
            weight.grad = other.grad = None if number == update else torch.randn(weight.shape)
        for muon in (together, *separate):
            muon.step()
    for weight, other, muon in zip(weights, alone, separate, strict=True):
        assert_close("weight", other, weight, bound=1e-6)
        momenta = muon.state[other]["momentum_buffer"], together.state[weight]["momentum_buffer"]
        assert_close("momentum", *momenta, bound=1e-6)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_singular_values_come_near_one_and_singular_vectors_stay(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 50
    (result,) = orthogonalised(matrix.unsqueeze(0), torch.float32)
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ result @ vh.T
    assert ((inner.diagonal() > 0.6) & (inner.diagonal() < 1.3)).all()
    assert_close(
        "off the diagonal",
        torch.eye(len(inner)),
        inner - inner.diagonal().diag() + torch.eye(len(inner)),
    )
    zeros = torch.zeros(1, *shape)
    assert torch.equal(orthogonalised(zeros, torch.float32), zeros)


def test_only_matrices_are_taken():
    with pytest.raises(ValueError, match=r"Muon moves matrices, not a tensor of shape \[3\]"):
        Muon([torch.nn.Parameter(torch.ones(3))], lr=1.0)


CPU = torch.device("cpu")


def test_a_named_precision_is_taken_and_an_unknown_one_refused():
    assert product_dtype(CPU, "float32") == torch.float32
    assert product_dtype(CPU, "bfloat16") == torch.bfloat16
    with pytest.raises(
        ValueError, match="precision must be one of float32, bfloat16, not 'float16'"
    ):
        product_dtype(CPU, "float16")


def test_bfloat16_is_the_default_where_the_processor_multiplies_it(
    monkeypatch,
):
    """And only where its vectors are those of AVX-512."""
    capable = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    assert product_dtype(CPU) == (torch.bfloat16 if capable and wide else torch.float32)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert product_dtype(CPU) == torch.float32
