"""Networks for the CPU kernel of whole random numbers and exact
operations: the same bits on every machine.
"""

import hashlib
import struct
from dataclasses import dataclass, field

import numpy as np
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.causal_conv import NEIGHBOURS
from scanline.kernels.cpu.shape import STATE
from tests.support.kernels import native, wasm_network

CATEGORICAL = cpu_kernels.PREDICTS["categorical"]
WINDOW = {
    "reads": cpu_kernels.READS["window"],
    "pre_norm": 1,
    "window_rows": 2,
    "window_columns": 2,
}
BLOCKS = {"blocks": 2, "block_width": 13}
WAVES = {"waves": 3, "wave_rows": 1, "wave_columns": 2}
PIXELS = {**WINDOW, "skip": 1, "centred": 1, "outside": 128}
COLOUR_PIXELS = {**PIXELS, "channels": 3, "step_bytes": 3}
Arrays = dict[str, torch.Tensor]
ISAS = [*native.ISAS]
if ISAS and wasm_network.IS_INSTALLED:
    ISAS.append("wasm")
INTERVALS = "read intervals"
OUTPUTS = {  # what a run returns, in the order in which vectors.cpp writes it
    "read bits": np.float64,
    "read parameters": np.float32,
    INTERVALS: np.int32,
    "read s": np.float32,
    "read z": np.float32,
    "painted images": np.uint8,
    "painted bits": np.float64,
    "painted s": np.float32,
    "painted z": np.float32,
}


@dataclass(frozen=True)
class Case:
    """A shape by the fields of abi.h's Shape, how weights are stored, and the number of images."""

    fields: dict[str, int] = field(default_factory=dict)
    weights: str = "float32"
    images: int = 3
    guided: bool = False  # images 0 and 1, 2 and 3, ... are the two slots of one each

    def shape(self):
        """4 x 3 pixels, one layer, two heads, C = 5, M = 7, post-norm with RELU, unless changed."""
        sizes = {
            "height": 4,
            "width": 3,
            "channels": 1,
            "layers": 1,
            "heads": 2,
            "key_width": 5,
            "value_width": 7,
        }
        sizes |= {"feed_forward": 19, "components": 3, "axial": 1, "exp_scale": 1, "step_bytes": 1}
        return cpu_kernels.Shape(**(sizes | self.fields))


CASES = {
    "odd": Case(),
    "odd, float16, pre-norm, GELU": Case({"pre_norm": 1, "gelu": 1, "layers": 2}, "float16"),
    "odd, int8": Case({"pre_norm": 1, "gelu": 1, "layers": 2, "feed_forward": 37}, "int8"),
    "one component, one wide head": Case(
        {"heads": 1, "key_width": 33, "value_width": 67, "components": 1}, images=5
    ),
    "ten components, colour": Case(
        {
            "channels": 3,
            "components": 10,
            "exp_scale": 0,
            "heads": 3,
            "key_width": 17,
            "value_width": 25,
        },
        "float16",
    ),
    "joined waves": Case(
        {"axial": 0, "concat": 1, "first": 1, "key_width": 15, "value_width": 31, "gelu": 1}
    ),
    "vectors of 16": Case(
        {
            "heads": 4,
            "key_width": 16,
            "value_width": 16,
            "feed_forward": 96,
            "components": 10,
            "pre_norm": 1,
        },
        "float16",
    ),
    "the paper's heads, int8": Case(
        {"key_width": 32, "value_width": 32, "feed_forward": 70, "layers": 3}, "int8", 9
    ),
    "more images than a tile": Case({"pre_norm": 1, "gelu": 1, "value_width": 48}, "float16", 45),
    "categorical": Case({"predicts": CATEGORICAL, "gelu": 1}),
    "window of greys": Case({**WINDOW, **BLOCKS, "pre_norm": 0, "width": 7}),
    "strokes": Case(
        {**WINDOW, **BLOCKS, **WAVES, "predicts": CATEGORICAL, "gelu": 1, "window_columns": 3},
        "float16",
    ),
    "grey pixels": Case({**PIXELS, "outside": 200, "width": 5}, "float16", 5),
    "colour pixels": Case({**COLOUR_PIXELS, **BLOCKS, **WAVES, "components": 17, "gelu": 1}),
    "colour pixels, int8": Case(
        {**COLOUR_PIXELS, **BLOCKS, "components": 10, "block_width": 50}, "int8", 9
    ),
    "classes of bytes": Case(
        {"classes": 2, "concat": 1, "heads": 3, "value_width": 6}, "float16", 5
    ),
    "classes of pixels, int8": Case(
        {**COLOUR_PIXELS, **BLOCKS, "classes": 4, "components": 2}, "int8", 9
    ),
    "guided pixels": Case(
        {**COLOUR_PIXELS, "classes": 2, "components": 10}, "float16", 4, guided=True
    ),
    "causal_conv": Case({**COLOUR_PIXELS, **BLOCKS, "causal_conv": 1, "components": 2}, "float16"),
    "causal_conv, int8": Case(
        {**WINDOW, "causal_conv": 1, "width": 7, "height": 9, "pre_norm": 0}, "int8", 45
    ),
    "colour pixels, uncentred": Case(
        {**COLOUR_PIXELS, "centred": 0, "components": 1, "height": 16}, "float16", 2
    ),
}


def sizes(case):
    """The sizes of the tensors that the case's shape needs, in the order of cpu_kernels.Network."""
    shape = case.shape()
    width = shape.heads * shape.value_width
    keys = shape.heads * shape.key_width
    layer = [
        (2 * keys + width, width),
        (width, width),
        (shape.feed_forward, width),
        (width, shape.feed_forward),
    ]
    layer = (
        [size for matrix in layer for size in _linear(*matrix)]
        + [(width,)] * 4
        + _conv_weight(shape)
    )
    before, skip = _window(shape) if shape.reads else (_embedding(shape), [])
    classes = [(shape.classes + 1, width)] if shape.classes else []
    return [
        *before,
        *layer * shape.layers,
        (width,),
        (width,),
        *_linear(shape.parameters, width),
        *skip,
        *classes,
    ]


def _embedding(shape):
    width = shape.heads * shape.value_width
    n = width // 2 if shape.concat else width
    value = (256 if shape.first else 257, n)
    if not shape.axial:
        return [value, (shape.height * shape.width * shape.channels, n)]
    return [
        value,
        (shape.height, n),
        (shape.width, n),
        *([(shape.channels, n)] if shape.channels > 1 else []),
    ]


def _window(shape):
    """Sizes of the tensors before the layers and after the head."""
    width = shape.heads * shape.value_width
    channels = shape.channels
    pixels = (
        shape.window_rows * (2 * shape.window_columns + 1) + shape.window_columns + shape.centred
    )
    near = shape.wave_rows * (2 * shape.wave_columns + 1) + shape.wave_columns
    inputs = (pixels + near * 2 * shape.waves) * channels
    block = [
        (width,),
        (width,),
        *_linear(shape.block_width, width),
        *_linear(width, shape.block_width),
    ]
    block += _conv_weight(shape)
    table = [(256, 2 * shape.waves)] if shape.waves else []
    before = [
        *table,
        *_linear(width, inputs),
        (shape.height, width),
        (shape.width, width),
        *block * shape.blocks,
    ]
    return before, _linear(channels, pixels * channels) if shape.skip else []


def _conv_weight(shape):
    return [(NEIGHBOURS, shape.heads * shape.value_width)] if shape.causal_conv else []


def _linear(outer, inner):
    return [(outer, inner), (outer,)]


def tensors(case):
    """Weights that a float16 holds exactly, large enough that each of them matters."""
    random = np.random.default_rng(len(case.fields))
    made = []
    for size in sizes(case):
        numbers = random.integers(-1024, 1025, size) / 1024  # exact
        scale = 2.0 ** -round(np.log2(size[-1]) / 2 - 0.5) if len(size) == 2 else 0.5
        made.append(torch.from_numpy((numbers * scale).astype(np.float32)))
    return made


def with_favourite(case, tensors):
    """Weights whose distributions depend little on what was painted, and have a byte that is drawn
    more often than not."""
    shape = case.shape()
    width = shape.heads * shape.value_width
    sizes_of_case = sizes(case)
    head = next(
        i
        for i in range(len(sizes_of_case) - 1)
        if sizes_of_case[i : i + 2] == [(shape.parameters, width), (shape.parameters,)]
    )
    changed = [tensor.clone() for tensor in tensors]
    changed[head] *= 2.0**-9
    bias = changed[head + 1]
    if shape.predicts == CATEGORICAL:
        bias[77] += 9
        return changed
    channels = shape.step_bytes
    bias[shape.components :] = 0
    if not shape.centred:
        bias[shape.components : shape.components * (1 + channels)] = 1 / 255  # the middle of a bin
    scales = slice(shape.components * (1 + channels), shape.components * (1 + 2 * channels))
    bias[scales] = -7.0 if shape.exp_scale else -20.0
    if shape.skip:
        of_skip = head + 2
        changed[of_skip].zero_()
        changed[of_skip + 1].zero_()
    return changed


def inputs(case):
    """Noise images [B, N], every third byte of each known, and what the slots are painted with."""
    shape = case.shape()
    random = np.random.default_rng(1)
    length = shape.height * shape.width * shape.channels
    count = case.images
    images = torch.from_numpy(random.integers(0, 256, (count, length), np.uint8))
    # both outer bins
    images[:, : length // 4] = torch.tensor([0, 255])[torch.arange(length // 4) % 2]
    arrays = {
        "images": images,
        "known": (torch.arange(length) % 3 == 1).to(torch.uint8).repeat(count, 1),
        "seed": torch.from_numpy(random.integers(-(2**63), 2**63 - 1, count)),
        "index": torch.arange(count),
        "temperature": torch.tensor([1.0, 0.5, 1.25])[torch.arange(count) % 3],
        "label": torch.arange(count) % (shape.classes + 1),
        "partner": torch.zeros(count, dtype=torch.int64),
        "guidance": torch.ones(count),
    }
    if case.guided:
        for name in ("images", "seed", "index", "temperature"):
            arrays[name][1::2] = arrays[name][::2]
        arrays["label"][::2], arrays["label"][1::2] = 1, 0
        arrays["partner"], arrays["guidance"] = (
            torch.tensor([1, -1]).repeat(count // 2),
            torch.full((count,), 2.5),
        )
    return arrays


def slots(case, known=None):
    """The slots' arrays as cpu_kernels.Network.advance takes them,
    with empty states at the first byte.
    """
    shape = case.shape()
    given = inputs(case)
    heads = (shape.layers, case.images, shape.heads, shape.key_width)
    arrays = given | {"known": given["known"] if known is None else known}
    arrays |= {"s": torch.zeros(*heads, shape.value_width), "z": torch.zeros(*heads)}
    # of images before, which nothing reads
    arrays |= {"conv_state": torch.full(shape.conv_state(case.images), np.nan)}
    arrays |= {"position": torch.full((case.images,), shape.first)}
    arrays |= {name: torch.zeros(case.images).double() for name in ("bits", "known_bits")}
    return {name: tensor.clone() for name, tensor in arrays.items()}


def network(case, isa, threads=1):
    return open_network(case, tensors(case), isa, threads)


def open_network(case, tensors, isa, threads=1):
    network_of = wasm_network.WasmNetwork if isa == "wasm" else cpu_kernels.Network
    return network_of(case.shape(), tensors, case.weights, threads, isa)


def read(case, network, images=None, stop=None):
    """Read images [B, N], by default the case's, up to byte `stop`: states, bits
    [B, n], parameters and intervals.
    """
    shape = case.shape()
    given = slots(case)
    n = (stop or shape.bytes) - shape.first
    given |= {} if images is None else {"images": images}
    states = {name: given[name] for name in (*STATE, "label", "images")}
    bits = torch.zeros(case.images, n).double()
    intervals = torch.zeros(case.images, n, 2, dtype=torch.int32)
    parameters = torch.zeros(case.images, n // shape.step_bytes, shape.parameters)
    network.read(states, shape.first, shape.first + n, bits, parameters, intervals)
    return states, bits, parameters, intervals


def run(case, isa):
    """Read all images of the case, then paint them: each of OUTPUTS."""
    native = network(case, isa)
    painted = slots(case)
    states, *found = read(case, native)
    native.advance(painted, case.shape().bytes)
    found += [states["s"], states["z"], *(painted[name] for name in ("images", "bits", "s", "z"))]
    return dict(zip(OUTPUTS, (tensor.numpy() for tensor in found), strict=True))


def digest(results):
    """A short hash of all bits of a run, but of the intervals, which have tests of their own."""
    hashed = (array.tobytes() for name, array in results.items() if name != INTERVALS)
    return hashlib.sha256(b"".join(hashed)).hexdigest()[:16]


def record(case, path):
    """Write the case for vectors.cpp: shape, tensors, slots."""
    weight_type = {"float32": 0, "float16": 1, "int8": 2}[case.weights]
    with path.open("wb") as file:
        file.write(bytes(case.shape()))
        made = tensors(case)
        file.write(struct.pack("<4q", len(made), weight_type, case.images, case.shape().parameters))
        for tensor in made:
            file.write(struct.pack("<q", tensor.numel()) + tensor.numpy().tobytes())
        for tensor in inputs(case).values():
            file.write(tensor.numpy().tobytes())


def read_results(path, expected):
    """What vectors.cpp wrote, in the shapes of `expected`."""
    data = path.read_bytes()
    at = 0
    found = {}
    for name, array in expected.items():
        found[name] = np.frombuffer(data, OUTPUTS[name], array.size, at).reshape(array.shape)
        at += array.nbytes
    assert at == len(data)
    return found
