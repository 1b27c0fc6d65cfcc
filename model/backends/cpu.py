"""The network on a CPU through its own library: one call paints several bytes of every image."""

import ctypes

import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.cpu.bindings import Shape
from scanline.model.backends.slots import SlotPool
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT, PRECISIONS, Precision
from scanline.model.state import State


class CpuBackend:
    """Any number of seats; rows that are busy are gathered into tiles, and an image alone costs one row."""

    rows = 1

    def __init__(
        self,
        model: Transformer,
        threads: int | None = None,
        precision: Precision = PRECISIONS[DEFAULT],
        instructions: str | None = None,
        weights: str | None = None,
    ) -> None:
        """instructions: one of cpu_kernels.instruction_sets(), by default the best. weights: their stored type, by
        default as narrow as the precision allows."""
        self.config, self.state_dtype = model.config, precision.state_dtype
        instructions = instructions or cpu_kernels.instruction_sets()[0]
        threads = threads or torch.get_num_threads()
        if weights is None:
            narrow = _fits_float16(model) and instructions != "portable"  # which would widen them in software
            weights = "int8" if precision.int8_weights else "float16" if narrow else "float32"
        self.network = cpu_kernels.Network(
            _shape(model.config), _tensors(model), weights, self.state_dtype, threads, instructions
        )
        rests = str(self.state_dtype).removeprefix("torch.")
        self.name = f"the native step ({self.network.isa}, {threads} threads, weights {weights}, states {rests})"

    def warm_up(self, slots: SlotPool) -> None:
        """Nothing: what runs was compiled at install."""

    def advance(self, slots: SlotPool, steps: int) -> None:
        """As Backend.advance."""
        self.network.advance(_seats(slots), steps)

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """As Backend.read: the same arithmetic as steps, many positions of an image at a time."""
        return self.read_parameters(images, state, stop)[0]

    def read_parameters(self, images: torch.Tensor, state: State, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Bits [B, n] as `read`, and the mixture's parameters [B, n, 3K]."""
        start, length = int(state.position[0]), self.config.bytes
        if images.shape[1] != length or not start < stop <= length:  # beyond them lies other memory
            raise ValueError(f"cannot run bytes {start} to {stop} of images of {images.shape[1]} bytes")
        bits = torch.empty(len(images), stop - start, dtype=torch.float64)
        parameters = torch.empty(len(images), stop - start, 3 * self.config.components)
        seats = {"s": state.s, "z": state.z, "position": state.position, "images": images.contiguous()}
        self.network.read(seats, start, stop, bits, parameters)
        return bits, parameters

    def close(self) -> None:
        """Gives threads and weights back."""
        self.network.close()


def _fits_float16(model: Transformer) -> bool:
    """Whether the layers' matrices can be held in float16 without any loss, as those of a stored model can."""
    matrices = [module.weight for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return all(torch.equal(matrix.half().float(), matrix) for matrix in matrices)


def _shape(config: ModelConfig) -> Shape:
    same = ("height", "width", "channels", "layers", "heads", "key_width", "value_width", "feed_forward", "components")
    shape = Shape(**{name: getattr(config, name) for name in same})
    shape.tables = len(config.offsets)
    shape.offsets = (ctypes.c_int64 * len(config.offsets))(*config.offsets)
    shape.first = config.first
    shape.pre_norm, shape.gelu = config.norm == "pre", config.activation == "gelu"
    shape.concat, shape.axial = config.embedding_join == "concat", config.position == "axial"
    shape.exp_scale, shape.anchor_numbers = config.scale == "exp", config.anchor_numbers
    return shape


def _tensors(model: Transformer) -> list[torch.Tensor]:
    """In the order of cpu_kernels.Network."""
    embedding, config = model.embedding, model.config
    tensors: list[torch.Tensor] = [embedding.value]
    if config.position == "axial":
        tensors += [embedding.row, embedding.column, *([embedding.channel] if config.channels > 1 else [])]
    else:
        tensors += [embedding.waves]
    for layer in model.layers:
        products = (layer.query_key_value, layer.attention_out, layer.feed_forward_in, layer.feed_forward_out)
        for part in (*products, layer.attention_norm, layer.feed_forward_norm):
            tensors += [part.weight, part.bias]
    return [*tensors, model.norm.weight, model.norm.bias, model.head.weight, model.head.bias]


def _seats(slots: SlotPool) -> dict[str, torch.Tensor]:
    seats = {name: getattr(slots, name) for name in ("images", "known", "bits", "seed", "index", "temperature")}
    return seats | {"s": slots.state.s, "z": slots.state.z, "position": slots.state.position}
