"""The network on a GPU: a byte of many images is some forty launches of our own kernels and nothing else, recorded
once into a CUDA graph for each of a few sizes and played back for every byte.

Positions, draws and forced bytes live on the device; the host looks at positions once in a call of `advance`, to
know who is still painting, and hands the graph their seats. No kernel computes a row otherwise in other company,
and each is made of programs of one shape, so neither the size of the graph nor the place in it changes a bit.
Where there is no GPU the same launches run one by one in Triton's interpreter, for tests.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from kernels.embedding.triton import embed
from kernels.linear.triton import Halves, linear
from kernels.norm.triton import layer_norm
from kernels.sampling.triton import sample
from kernels.step.triton import recurrent_step
from model import mixture
from model.config import ModelConfig
from model.scoring import LN2
from model.slots import Slots
from model.state import State
from model.transformer import Layer, Transformer

SIZES = (1, 8, 64, 128, 256, 512, 1024, 2048, 4096)  # images of a graph; the activations of 4,096 stay in the L2

Norm = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Product:
    """A linear layer as the kernels take it."""

    weight: Halves
    bias: torch.Tensor

    @classmethod
    def of(cls, layer: nn.Linear) -> "Product":
        return cls(Halves.of(layer.weight), layer.bias)


@dataclass(frozen=True)
class Work:
    """Memory of one byte's step on its way through the network, for B images."""

    seats: torch.Tensor  # [B] int64: whose turn it is; -1: nobody's
    rows: torch.Tensor  # [B] int64: of those, who is not done
    x: torch.Tensor  # [B, D]
    projected: torch.Tensor  # [B, 2 H C + D]
    attended: torch.Tensor  # [B, D]
    hidden: torch.Tensor  # [B, feed-forward]
    parameters: torch.Tensor  # [B, 3K]

    @classmethod
    def of(cls, config: ModelConfig, batch: int, device: torch.device) -> "Work":
        width = config.model_width
        widths = (width, 2 * config.heads * config.key_width + width, width, config.feed_forward, 3 * config.components)
        numbers = (torch.full((batch,), -1, dtype=torch.int64, device=device) for _ in range(2))
        return cls(*numbers, *(torch.zeros(batch, width, device=device) for width in widths))

    def first(self, batch: int) -> "Work":
        """A view of the first rows."""
        return Work(*(tensor[:batch] for tensor in vars(self).values()))


class CudaBackend:
    """Triton kernels in CUDA graphs; states rest in `resting` (float32, float16 or bfloat16) between bytes."""

    rows = 1

    def __init__(
        self, model: Transformer, resting: torch.dtype = torch.float32, sizes: tuple[int, ...] = SIZES
    ) -> None:
        self.model, self.config, self.resting, self.sizes = model, model.config, resting, sizes
        device = model.device
        self.name = f"triton ({torch.cuda.get_device_name(device) if device.type == 'cuda' else 'interpreter'})"
        with torch.inference_mode():
            self.layers = [_Layer(layer) for layer in model.layers]
            self.head = Product.of(model.head)
            self.places = model.embedding._place(torch.arange(self.config.first, self.config.bytes, device=device))
            self.work = Work.of(self.config, sizes[-1], device)
        self.slots: Slots | None = None  # those that the graphs were recorded for
        self.graphs: dict[int, Callable[[], None]] = {}

    @torch.inference_mode()
    def advance(self, slots: Slots, steps: int) -> None:
        """Those who are not done are seated side by side, as many as a graph takes, whichever rows are theirs."""
        position = slots.state.position.cpu()
        busy = (position < self.config.bytes).nonzero().flatten()
        if not len(busy):
            return
        steps = min(steps, self.config.bytes - int(position[busy].min()))
        if slots is not self.slots:
            self.slots, self.graphs = slots, {}
        for seats in busy.split(self.sizes[-1]):
            size = next(size for size in self.sizes if size >= len(seats))
            step = self._step(slots, size)
            self.work.seats[:size] = -1
            self.work.seats[: len(seats)] = seats.to(self.work.seats.device)
            for _ in range(steps):
                step()

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """Through the parallel view, each image alone, in shapes of its own: company cannot matter."""
        start = int(state.position[0])
        with torch.inference_mode():
            found = []
            for row in range(len(images)):
                image = images[row : row + 1]
                parameters = self.model.parallel(image, state.rows(row, row + 1), stop)
                found.append(-mixture.log_prob(parameters, image[:, start:stop], self.config.scale).double() / LN2)
            return torch.cat(found)

    def close(self) -> None:
        self.slots, self.graphs = None, {}

    def _step(self, slots: Slots, size: int) -> Callable[[], None]:
        """One byte of the images in the first `size` seats of the work, ready to be played."""
        work = self.work.first(size)
        if self.model.device.type != "cuda":
            return lambda: self._launch(slots, work)
        if size not in self.graphs:
            work.seats.fill_(-1)  # so that what is run for warmth and for the record touches nobody
            self._launch(slots, work)
            torch.cuda.synchronize(self.model.device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._launch(slots, work)
            self.graphs[size] = graph.replay
        return self.graphs[size]

    def _launch(self, slots: Slots, work: Work) -> None:
        """Every kernel of one byte, in order; nothing is allocated and nothing asked."""
        model, embedding, state = self.model, self.model.embedding, slots.state
        embed(
            work.seats, slots.images, state.position, embedding.offsets, embedding.value, self.places, work.x, work.rows
        )
        for i, layer in enumerate(self.layers):
            layer.launch(work, state.s[i], state.z[i])
        linear(work.x, self.head.weight, self.head.bias, work.parameters, norm=_norm(model.norm))
        sample(
            work.parameters, work.rows, slots.images, slots.known, slots.bits, slots.temperature, slots.seed,
            slots.index, state.position, self.config.scale,
        )  # fmt: skip


class _Layer:
    """One layer's weights as its launches take them."""

    def __init__(self, layer: Layer) -> None:
        self.config = layer.config
        self.query_key_value = Product.of(layer.query_key_value)
        self.attention_out = Product.of(layer.attention_out)
        self.feed_forward_in = Product.of(layer.feed_forward_in)
        self.feed_forward_out = Product.of(layer.feed_forward_out)
        self.attention_norm, self.feed_forward_norm = _norm(layer.attention_norm), _norm(layer.feed_forward_norm)

    def launch(self, work: Work, s: torch.Tensor, z: torch.Tensor) -> None:
        """work.x -> work.x; s [R, H, C, M] and z [R, H, C] are updated IN PLACE."""
        post = self.config.norm == "post"
        before_attention, before_feed_forward = (None, None) if post else (self.attention_norm, self.feed_forward_norm)
        self._product(self.query_key_value, work.x, work.projected, before_attention)
        recurrent_step(work.projected, s, z, work.rows, self.config.feature_map, work.attended)
        self._product(self.attention_out, work.attended, work.x, residual=work.x)
        if post:
            layer_norm(work.x, *self.attention_norm)
        self._product(self.feed_forward_in, work.x, work.hidden, before_feed_forward, self.config.activation)
        self._product(self.feed_forward_out, work.hidden, work.x, residual=work.x)
        if post:
            layer_norm(work.x, *self.feed_forward_norm)

    @staticmethod
    def _product(
        product: Product,
        x: torch.Tensor,
        out: torch.Tensor,
        norm: Norm | None = None,
        activation: str = "none",
        residual: torch.Tensor | None = None,
    ) -> None:
        linear(x, product.weight, product.bias, out, norm, activation, residual)


def _norm(norm: nn.LayerNorm) -> Norm:
    return norm.weight, norm.bias
