"""Checkpoints of the authors' published code: the same bits for every byte, a
strict reading, an exact way back.
"""

import math
import pickle
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
import torch.nn.functional as F

from scanline.model.evaluation.likelihood import bits
from scanline.model.formats import fast_transformers as authors
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.fast_transformers import ForeignCheckpointError, from_state
from tests.support import small_models
from tests.support.close import assert_close

HISTOGRAM = (1 / 256,) * 256


def written(
    length=784,
    layers=2,
    heads=2,
    keys=32,
    hidden=48,
    mix=3,
):
    """Random tensors under the names of their code."""
    width = heads * 32
    shapes = {}
    shapes["value_embedding.weight"] = (256, width // 2)
    for i in range(layers):
        layer = f"transformer.layers.{i}."
        for part, outer in (
            ("query", heads * keys),
            ("key", heads * keys),
            ("value", width),
            ("out", width),
        ):
            shapes[f"{layer}attention.{part}_projection.weight"] = (outer, width)
        shapes |= {
            f"{layer}linear1.weight": (hidden, width),
            f"{layer}linear2.weight": (width, hidden),
        }
        shapes |= {f"{layer}norm1.weight": (width,), f"{layer}norm2.weight": (width,)}
    shapes |= {"transformer.norm.weight": (width,), "predictor.weight": (3 * mix, width)}
    for name in [name for name in shapes if "embedding" not in name]:
        shapes[name.replace("weight", "bias")] = shapes[name][:1]
    state = {name: torch.randn(shape) / math.sqrt(shape[-1]) for name, shape in shapes.items()}
    angle = torch.arange(length - 1).unsqueeze(1) * torch.exp(
        torch.arange(0, width // 2, 2) * (-math.log(10000.0) / (width // 2))
    )
    state["pos_embedding.pe"] = torch.zeros(1, length - 1, width // 2)
    state["pos_embedding.pe"][0, :, 0::2], state["pos_embedding.pe"][0, :, 1::2] = (
        angle.sin(),
        angle.cos(),
    )
    return state


def their_bits(state, images, heads):
    """Bits [B, N-1] of bytes 1 .. N-1: their network and their loss,
    written down literally, in float64.
    """
    state = {name: tensor.double() for name, tensor in state.items()}

    def linear(name, x):
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    values = state["value_embedding.weight"][images[:, :-1].long()]
    places = state["pos_embedding.pe"]
    x = torch.cat((values, places.expand(len(images), -1, -1)), dim=-1)
    layers = 1 + max(
        int(name.split(".")[2]) for name in state if name.startswith("transformer.layers")
    )
    for i in range(layers):
        layer = f"transformer.layers.{i}"
        q, k, v = (
            linear(f"{layer}.attention.{part}_projection", x)
            .unflatten(-1, (heads, -1))
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        q = F.elu(q) + 1
        k = F.elu(k) + 1
        weights = (q @ k.mT).tril()
        y = (weights @ v) / (weights.sum(dim=-1, keepdim=True) + 1e-6)
        x = norm(
            f"{layer}.norm1",
            x + linear(f"{layer}.attention.out_projection", y.transpose(1, 2).flatten(2)),
        )
        x = norm(
            f"{layer}.norm2", x + linear(f"{layer}.linear2", F.relu(linear(f"{layer}.linear1", x)))
        )
    logits, means, log_scales = linear("predictor", norm("transformer.norm", x)).chunk(3, dim=-1)
    value = images[:, 1:].double().unsqueeze(-1)
    centred = value / 127.5 - 1 - means
    inverse = torch.exp(-log_scales.clamp(min=-7))
    upper = torch.where(value == 255, 1.0, torch.sigmoid((centred + 1 / 255) * inverse))
    lower = torch.where(value == 0, 0.0, torch.sigmoid((centred - 1 / 255) * inverse))
    return -(logits.softmax(dim=-1) * (upper - lower)).sum(dim=-1).log2()


@pytest.mark.parametrize(
    ("length", "sizes"),
    [(784, {"heads": 1, "keys": 12, "mix": 10}), (3072, {"layers": 1, "heads": 2, "hidden": 20})],
)
def test_the_same_bits_for_every_byte(length, sizes, tmp_path):
    state = written(length, **sizes)
    save_model(from_state(state, HISTOGRAM), tmp_path, torch.float32)
    images = torch.randint(0, 256, (1, length), dtype=torch.uint8)
    images[:, 5:60] = 0
    images[:, 90:99] = 255
    expected = their_bits(state, images, sizes["heads"])
    found = bits(load_model(tmp_path), images)
    sane = expected < 20  # beyond, their difference of two sigmoids has no digits left
    assert sane.double().mean() > 0.5
    assert (found[:, 1:] - expected)[sane].abs().max() < 1e-3
    assert torch.equal(found[:, 0], torch.full((1,), 8.0, dtype=torch.float64))


def test_their_own_network_gives_the_same_parameters():
    builders = pytest.importorskip("fast_transformers.builders")
    masking = pytest.importorskip("fast_transformers.masking")
    encoder = builders.TransformerEncoderBuilder.from_kwargs(
        attention_type="causal-linear", n_layers=2, n_heads=2, query_dimensions=32, value_dimensions=32,
        feed_forward_dimensions=48,
    )  # fmt: skip
    network = encoder.get().eval()
    state = written()
    own = {name: x for name, x in state.items() if name.startswith("transformer.")}
    network.load_state_dict({name.removeprefix("transformer."): x for name, x in own.items()})
    images = torch.randint(0, 256, (2, 784), dtype=torch.uint8)
    values = state["value_embedding.weight"][images[:, :-1].long()]
    places = state["pos_embedding.pe"]
    x = torch.cat((values, places.expand(2, -1, -1)), dim=-1)
    with torch.no_grad():
        y = network(x, attn_mask=masking.TriangularCausalMask(783))
    expected = F.linear(y, state["predictor.weight"], state["predictor.bias"])
    assert_close("parameters", expected, from_state(state).parallel(images))


def test_mnists_first_byte_is_zero_cifars_comes_from_the_data_and_the_scale_is_recorded():
    config = from_state(written()).config
    assert (config.first_byte_histogram, config.scale) == ((1.0,) + (0.0,) * 255, "exp")
    assert from_state(written(), scale="elu").config.scale == "elu"
    with pytest.raises(ForeignCheckpointError, match="give --data to count its histogram"):
        from_state(written(3072, layers=1))


def test_there_and_back_is_exact(tmp_path):
    state = written()
    authors.write_checkpoint(from_state(state), tmp_path / "weights.pth")
    again = authors.read_checkpoint(tmp_path / "weights.pth")
    assert again.keys() == state.keys()
    for name, tensor in state.items():
        if name == "pos_embedding.pe":
            assert_close(name, tensor, again[name])
        else:
            assert torch.equal(tensor, again[name]), name


@pytest.mark.parametrize(
    ("variant", "sentence"),
    [
        ("plain", "the authors' code has no norm of 'pre', only 'post'"),
        ("categorical", "the authors' code has no predicts of 'categorical', only 'logistics'"),
        ("strokes", "the authors' code has no step of 'pixel', only 'byte'"),
        ("waves of pixels", "the authors' code has no step of 'pixel', only 'byte'"),
    ],
)
def test_a_model_that_their_code_cannot_express_is_refused(variant, sentence, tmp_path):
    model = small_models.model_of(variant)
    with pytest.raises(ValueError, match=sentence):
        authors.write_checkpoint(model, tmp_path / "weights.pth")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"predictor.bias": None}, "tensor 'predictor.bias' is missing"),
        ({"predictor.weight": None}, "tensor 'predictor.weight' is missing; it holds"),
        (
            {"pos_embedding.pe": torch.zeros(1, 99, 32)},
            "its images have 100 bytes, neither MNIST's 784 nor",
        ),
        (
            {"pos_embedding.pe": torch.zeros(1, 783, 32)},
            "is not the sine and cosine table of their code",
        ),
        (
            {"predictor.weight": torch.zeros(8, 64)},
            "tensor 'predictor.weight' has 8 rows, no multiple of three",
        ),
        ({"transformer.layers.1.norm1.bias": torch.zeros(3)}, r"has shape \[3\], not \[64\]"),
        (
            {"transformer.layers.0.extra": torch.zeros(3)},
            "unexpected tensor 'transformer.layers.0.extra'",
        ),
        ({"transformer.layers.7.norm1.bias": torch.zeros(64)}, "is missing"),
    ],
)
def test_another_state_is_refused_with_what_was_found(change, sentence):
    state = {name: tensor for name, tensor in {**written(), **change}.items() if tensor is not None}
    with pytest.raises(ForeignCheckpointError, match=sentence):
        from_state(state)


def test_heads_of_another_width_must_be_given():
    state = written()
    assert from_state(state, heads=4).config.value_width == 16
    with pytest.raises(ForeignCheckpointError, match="5 heads do not divide"):
        from_state(state, heads=5)


HALF = torch.zeros(1, dtype=torch.float16)
LARGE = torch.zeros(10_000)


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        (b"no torch file", "is not a torch checkpoint of plain tensors"),
        ({"state_dict": {}}, "holds keys 'state_dict', not a checkpoint with 'model_state'"),
        (torch.zeros(3), "holds a Tensor, not a checkpoint"),
        ({"model_state": {"a": 1}}, "'model_state' is not a dict of float tensors"),
        (
            {"model_state": {"a": torch.tensor([math.nan])}},
            "tensor 'a' holds NaN or infinite values",
        ),
        (
            {"model_state": {"a": torch.as_strided(HALF, (1 << 31,), (0,))}},
            "tensor 'a' is not stored whole",
        ),
        ({"model_state": {"a": torch.zeros(2, 3).T}}, "tensor 'a' is not stored whole"),
        ({"model_state": {"a": torch.zeros(3, device="meta")}}, "tensor 'a' is not stored whole"),
        ({"model_state": {"a": torch.zeros(3).to_sparse()}}, "tensor 'a' is not stored whole"),
        (
            {"model_state": {"a": torch.zeros(3).to(torch.float8_e5m2)}},
            "tensor 'a' is not stored whole",
        ),
        (
            {"model_state": {str(number): LARGE for number in range(99)}},
            "its tensors are larger than the file",
        ),
        # code, never run
        ({"model_state": torch.nn.Linear(1, 1)}, "is not a torch checkpoint of plain tensors"),
    ],
)
def test_another_file_is_refused(held, sentence, tmp_path):
    file = tmp_path / "weights.pth"
    if isinstance(held, bytes):
        file.write_bytes(held)
    else:
        torch.save(held, file)
    with pytest.raises(ForeignCheckpointError, match=sentence):
        authors.read_checkpoint(file)


@pytest.mark.filterwarnings("error")  # of torch, beside the sentence
def test_a_program_of_torch_is_refused_without_a_warning(tmp_path):
    torch.save(torch.nn.Linear(1, 1), tmp_path / "module.pth")
    (tmp_path / "pickle.pth").write_bytes(pickle.dumps({"a": 1}))
    for name in ("module.pth", "pickle.pth"):
        with pytest.raises(ForeignCheckpointError):
            authors.read_checkpoint(tmp_path / name)


@pytest.mark.parametrize(
    "prefix", ["", "module.", "_orig_mod.", "_orig_mod.module.", "net.", "model._orig_mod."]
)
@pytest.mark.parametrize(
    "keys", [(), ("model_state",), ("state_dict",), ("checkpoint", "model")], ids=str
)
def test_other_trainers_keys_and_prefixes_are_read(prefix, keys, tmp_path):
    state = written()
    held = {prefix + name: tensor for name, tensor in state.items()}
    for key in reversed(keys):
        held = {"optimizer": {"state": {}}, key: held, "epoch": 3}
    torch.save(held, tmp_path / "weights.pth")
    read = authors.read_checkpoint(tmp_path / "weights.pth")
    assert read.keys() == state.keys()
    assert all(torch.equal(read[name], state[name]) for name in state)


def test_wrappers_within_a_model_and_a_counter_of_averages_are_passed_over(tmp_path):
    state = written()
    wrapped = {
        name.replace("layers.0.", "layers.0._checkpoint_wrapped_module."): state[name]
        for name in state
    }
    torch.save({"n_averaged": torch.tensor(7), **wrapped}, tmp_path / "weights.pth")
    assert authors.read_checkpoint(tmp_path / "weights.pth").keys() == state.keys()
    torch.save(
        {**state, **{f"module.{name}": state[name] for name in state}}, tmp_path / "weights.pth"
    )
    with pytest.raises(ForeignCheckpointError, match="twice"):
        authors.read_checkpoint(tmp_path / "weights.pth")


def test_what_is_compressed_is_refused_and_shapes_take_no_memory(tmp_path):
    stored = tmp_path / "stored.pth"
    packed = tmp_path / "packed.pth"
    torch.save({"model_state": {"a": LARGE}}, stored)
    with ZipFile(stored) as plain, ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for part in plain.infolist():
            archive.writestr(part.filename, plain.read(part))
    with pytest.raises(ForeignCheckpointError, match="is compressed"):
        authors.read_checkpoint(packed)
    wide = written() | {
        f"transformer.layers.{layer}.linear1.weight": torch.zeros(65_536, 1) for layer in range(64)
    }
    with pytest.raises(ForeignCheckpointError, match="has shape"):  # of 32 GB otherwise
        from_state(wide, heads=4)
