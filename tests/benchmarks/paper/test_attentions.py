"""The attentions that are compared are those that they are named after, and fit one network."""

import pytest
import torch

from benchmarks.paper.attentions import ATTENTIONS, AttentionTransformer, attention, unavailable
from scanline.kernels.feature_maps import elu_plus_one
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.close import assert_close

LINEAR = ("linear", "linear, reference", "linear, authors")
SOFTMAX = ("softmax", "softmax, unfused")
CONFIG = small_models.config(**small_models.VARIANTS["plain"])


def tensors(length: int) -> list[torch.Tensor]:
    return [torch.randn(2, 3, length, 8, dtype=torch.float32) for _ in range(3)]


def available(name: str) -> str:
    if reason := unavailable(name):
        pytest.skip(reason)
    return name


@pytest.mark.parametrize("name", [*LINEAR, *SOFTMAX])
def test_it_is_the_weighted_mean_that_the_paper_defines(name: str) -> None:
    q, k, v = tensors(37)
    of_linear, of_softmax = elu_plus_one(q) @ elu_plus_one(k).mT, (q @ k.mT / 8**0.5).exp()  # eq. 4, eq. 2
    weights = (of_linear if name in LINEAR else of_softmax).tril()
    expected = weights @ v / weights.sum(dim=-1, keepdim=True)
    assert_close(name, expected, attention(available(name))(q, k, v), 1e-4)


@pytest.mark.parametrize("length", [32, 29])  # 29: padded to a whole chunk
def test_lsh_of_one_chunk_is_attention_to_the_queries(length: int) -> None:
    """A single chunk holds all buckets and has none before it to look back to: whatever the planes, every position sees
    all before it. Keys are the normalised queries."""
    q, k, v = tensors(length)
    keys = q / q.norm(dim=-1, keepdim=True)
    weights = (q @ keys.mT / 8**0.5).exp().tril()
    expected = weights @ v / weights.sum(dim=-1, keepdim=True)
    assert_close("lsh", expected, attention(available("lsh-4"), chunk=32)(q, k, v), 1e-4)


def test_the_network_is_the_same_with_another_attention() -> None:
    torch.manual_seed(0)
    ours = Transformer(CONFIG)
    theirs = AttentionTransformer(CONFIG, attention("linear"))
    theirs.load_state_dict(ours.state_dict())
    images = torch.randint(0, 256, (2, CONFIG.bytes), dtype=torch.uint8)
    assert_close("parameters", ours.parallel(images), theirs.parallel(images), 1e-5)


def test_all_attentions_of_one_seed_start_with_the_same_weights() -> None:
    networks = []
    for name in ATTENTIONS:
        torch.manual_seed(3)
        networks.append(AttentionTransformer(CONFIG, attention(name)).state_dict())
    for network in networks[1:]:
        assert all(torch.equal(tensor, network[key]) for key, tensor in networks[0].items())
