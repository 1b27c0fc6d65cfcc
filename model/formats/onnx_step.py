"""Recurrent step of a model as an ONNX graph: `Transformer.step` for runtimes without torch.

Inputs are images [B, N], positions [B] of the first byte of the step, s and z, and labels [B] where
the model has classes (0: no class, k + 1: class k); outputs are the parameters [B, P] of the
distribution of the step's bytes and the next s and z. Where neighbours are mixed, `recent` is a
part of the state too. Bytes from `position` on are not read. The file also holds the model's
configuration, as the property `scanline.config`.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import nn

from scanline.kernels.attention.reference import EPSILON
from scanline.model.base.config import ModelConfig
from scanline.model.formats.onnx_causal_conv import Neighbours
from scanline.model.formats.onnx_graph import Graph
from scanline.model.formats.onnx_window import read_window
from scanline.model.network.block import Block, ClassLinear
from scanline.model.network.embedding import START, Embedding, frequencies
from scanline.model.network.layer import Layer
from scanline.model.network.transformer import Transformer
from scanline.model.network.window_input import WindowInput

if TYPE_CHECKING:
    import onnx

CONFIG_KEY = "scanline.config"
# (x, number of the mixing) to x with neighbours mixed in, each [B, D]
Mixing = Callable[[str, int], str]
ACTIVATIONS = {"relu": "Relu", "gelu": "Gelu"}


def _elu_plus_one(graph: Graph, x: str) -> str:
    """As feature_maps.elu_plus_one: runtimes compute Elu as e^x - 1, which
    loses the digits of small features.
    """
    below = graph.node("Exp", graph.node("Min", x, graph.constant(0, "float32")))
    return graph.node("Add", graph.node("Relu", x), below)


FEATURE_MAPS: dict[str, Callable[[Graph, str], str]] = {"elu": _elu_plus_one}


def stored_weights(model: Transformer) -> str:
    """Return float16 where that is exact, else float32."""
    return (
        "float16"
        if all(bool((p == p.half().float()).all()) for p in model.parameters())
        else "float32"
    )


def export_step(model: Transformer, weights: str | None = None) -> "onnx.ModelProto":
    """Return the step of `model`. weights: one of WEIGHTS, or None for the smallest that is exact;
    ValueError with one sentence where the graph cannot hold the weights so."""
    config = model.config
    graph = Graph(weights or stored_weights(model))
    state = (config.layers, "B", config.heads, config.key_width)
    image = graph.input("image", "uint8", ("B", config.bytes))
    position = graph.input("position", "int32", ("B",))
    s = graph.input("s", "float32", (*state, config.value_width))
    z = graph.input("z", "float32", state)
    kept = (config.convolutions, "B", config.conv_pixels, config.model_width)
    recent = graph.input("recent", "float32", kept) if config.causal_conv else None
    label = graph.input("label", "int32", ("B",)) if config.classes else None
    neighbours = Neighbours(graph, model, recent, position) if recent else None
    mixing: Mixing = neighbours.mix if neighbours else lambda x, number: x
    x, base = _read_in(graph, model, image, position, label, mixing)
    each_s = graph.nodes("Split", config.layers, s, axis=0, num_outputs=config.layers)
    columns = graph.node("Unsqueeze", z, graph.ints(-1))
    each_z = graph.nodes("Split", config.layers, columns, axis=0, num_outputs=config.layers)
    for i, layer in enumerate(model.layers):
        x, each_s[i], each_z[i] = _layer(
            graph, layer, x, each_s[i], each_z[i], mixing, config.blocks + i, label
        )
    graph.output(
        "parameters", "float32", ("B", model.distribution.width), _read_out(graph, model, x, base)
    )
    graph.output(
        "next_s", "float32", (*state, config.value_width), graph.node("Concat", *each_s, axis=0)
    )
    joined = graph.node("Concat", *each_z, axis=0)
    graph.output("next_z", "float32", state, graph.node("Squeeze", joined, graph.ints(-1)))
    if neighbours:
        graph.output("next_recent", "float32", kept, neighbours.next_recent())
    doc = "One recurrent step of a linear transformer: bytes before position, s, z to a distribution and the next s, z."
    return graph.model("step", doc, {CONFIG_KEY: json.dumps(config.to_dict())})


def _read_in(
    graph: Graph, model: Transformer, image: str, position: str, label: str | None, mixing: Mixing
) -> tuple[str, str | None]:
    """As Transformer._read_in: [B, D], and the base of the means [B, C] where they have one."""
    embedding = model.embedding
    if isinstance(embedding, Embedding):
        return _with_class(graph, model, _embedded(graph, embedding, image, position), label), None
    assert model.window is not None
    inputs, reference = read_window(graph, model.window, image, position)
    x = graph.node(
        "Add",
        graph.node("Gelu", _linear(graph, embedding.linear, inputs)),
        _place(graph, embedding, position),
    )
    x = _with_class(graph, model, x, label)
    for i, block in enumerate(model.blocks):
        x = _block(graph, block, x, ACTIVATIONS[model.config.activation], mixing, i, label)
    if model.config.predicts != "pixel_logistics":
        return x, None
    last = graph.ints(model.window.linear_inputs)
    base = _exact_linear(
        graph, model.skip, graph.node("Slice", inputs, graph.ints(0), last, graph.ints(1))
    )
    return x, graph.node("Add", base, reference) if reference else base


def _with_class(graph: Graph, model: Transformer, x: str, label: str | None) -> str:
    """Return x [B, D] with the rows of the classes of `label` [B] added to it, or
    x where the model has no classes.
    """
    if label is None:
        return x
    return graph.node("Add", x, graph.node("Gather", graph.matrix(model.classes), label))


def _embedded(graph: Graph, embedding: Embedding, image: str, position: str) -> str:
    """As Embedding.forward: [B, D]."""
    config = embedding.config
    before = _less(graph, position, 1)
    column = graph.node(
        "Unsqueeze", graph.node("Max", before, graph.constant(0, "int32")), graph.ints(1)
    )
    bytes_ = graph.node(
        "Squeeze", graph.node("GatherElements", image, column, axis=1), graph.ints(1)
    )
    outside = graph.node("Less", before, graph.constant(0, "int32"))
    values = graph.node(
        "Where", outside, graph.constant(START, "int32"), graph.cast(bytes_, "int32")
    )
    value = graph.node("Gather", graph.matrix(embedding.value), values)
    place = _place(graph, embedding, position)
    if config.embedding_join == "sum":
        return graph.node("Add", value, place)
    return graph.node("Concat", value, place, axis=-1)


def _block(
    graph: Graph,
    block: Block,
    x: str,
    activation: str,
    mixing: Mixing,
    number: int,
    label: str | None,
) -> str:
    """As Block.forward: [B, D]."""
    seen = mixing(_norm(graph, block.norm, x), number)
    hidden = graph.node(activation, _of_class(graph, block.expand, seen, label))
    return graph.node("Add", x, _linear(graph, block.contract, hidden))


def _place(graph: Graph, embedding: Embedding | WindowInput, position: str) -> str:
    """As `place` of the embedding: [B, D or D/2]."""
    config = embedding.config
    if config.position == "sincos":
        return _waves(graph, config, position)
    pixel = graph.node("Div", position, graph.constant(config.channels, "int32"))
    row = graph.node("Div", pixel, graph.constant(config.width, "int32"))
    column = graph.node("Mod", pixel, graph.constant(config.width, "int32"))
    place = graph.node(
        "Add",
        graph.node("Gather", graph.weight(embedding.row), row),
        graph.node("Gather", graph.weight(embedding.column), column),
    )
    if isinstance(embedding, WindowInput) or config.channels == 1:
        return place
    channel = graph.node("Mod", position, graph.constant(config.channels, "int32"))
    return graph.node("Add", place, graph.node("Gather", graph.weight(embedding.channel), channel))


def _waves(graph: Graph, config: ModelConfig, position: str) -> str:
    """As embedding.waves, but computed: a table for all positions
    would be larger than a small model.
    """
    width = config.model_width if config.embedding_join == "sum" else config.model_width // 2
    place = graph.cast(_less(graph, position, config.first), "float32")
    column = graph.node("Unsqueeze", place, graph.ints(1))
    angle = graph.node("Mul", column, graph.constant(frequencies(width).numpy(), "float32"))
    last = graph.ints(-1)
    pair = [graph.node("Unsqueeze", graph.node(wave, angle), last) for wave in ("Sin", "Cos")]
    both = graph.node(
        "Reshape", graph.node("Concat", *pair, axis=-1), graph.ints(-1, width + width % 2)
    )
    return (
        graph.node("Slice", both, graph.ints(0), graph.ints(width), graph.ints(1))
        if width % 2
        else both
    )


def _of_class(graph: Graph, linear: ClassLinear, x: str, label: str | None) -> str:
    """As ClassLinear.forward: [B, O]."""
    y = _linear(graph, linear, x)
    if linear.class_bias is None or label is None:
        return y
    return graph.node("Add", y, graph.node("Gather", graph.matrix(linear.class_bias), label))


def _layer(
    graph: Graph,
    layer: Layer,
    x: str,
    s: str,
    z: str,
    mixing: Mixing,
    number: int,
    label: str | None,
) -> tuple[str, str, str]:
    """As Layer.step: x [B, D], s [1, B, H, C, M], z [1, B, H, C, 1] -> those
    after it; its mixing is `number`.
    """
    config = layer.config
    keys = config.heads * config.key_width
    width = config.model_width
    seen = _norm(graph, layer.attention_norm, x) if config.norm == "pre" else x
    projected = _linear(graph, layer.query_key_value, seen)
    both, value = graph.nodes("Split", 2, projected, graph.ints(2 * keys, width), axis=-1)
    query, key = graph.nodes(
        "Split", 2, FEATURE_MAPS[config.feature_map](graph, both), graph.ints(keys, keys), axis=-1
    )
    q = graph.node("Reshape", query, graph.ints(-1, config.heads, 1, config.key_width))
    k = graph.node("Reshape", key, graph.ints(-1, config.heads, config.key_width, 1))
    v = graph.node("Reshape", value, graph.ints(-1, config.heads, 1, config.value_width))
    s = graph.node("Add", s, graph.node("Mul", k, v))  # eq. 18
    z = graph.node("Add", z, k)  # eq. 19
    normaliser = graph.node("Add", graph.node("MatMul", q, z), graph.constant(EPSILON, "float32"))
    attended = graph.node("Div", graph.node("MatMul", q, s), normaliser)  # [1, B, H, 1, M], eq. 20
    flat = graph.node("Reshape", attended, graph.ints(-1, width))
    x = graph.node("Add", x, _linear(graph, layer.attention_out, flat))
    if config.norm == "post":
        x = _norm(graph, layer.attention_norm, x)
        x = graph.node("Add", x, _feed_forward(graph, layer, mixing(x, number), label))
        return _norm(graph, layer.feed_forward_norm, x), s, z
    seen = _norm(graph, layer.feed_forward_norm, x)
    return graph.node("Add", x, _feed_forward(graph, layer, mixing(seen, number), label)), s, z


def _feed_forward(graph: Graph, layer: Layer, x: str, label: str | None) -> str:
    hidden = graph.node(
        ACTIVATIONS[layer.config.activation], _of_class(graph, layer.feed_forward_in, x, label)
    )
    return _linear(graph, layer.feed_forward_out, hidden)


def _read_out(graph: Graph, model: Transformer, x: str, base: str | None) -> str:
    """As Transformer._read_out: [B, P]."""
    parameters = _exact_linear(graph, model.head, _norm(graph, model.norm, x))
    if base is None:
        return parameters
    k = model.config.components
    c = model.config.channels
    sizes = graph.ints(k, k * c, model.distribution.width - k - k * c)
    logits, means, rest = graph.nodes("Split", 3, parameters, sizes, axis=-1)
    moved = graph.node("Add", means, graph.node("Tile", base, graph.ints(1, k)))
    return graph.node("Concat", logits, moved, rest, axis=-1)


def _less(graph: Graph, value: str, amount: int) -> str:
    return graph.node("Sub", value, graph.constant(amount, "int32"))


def _norm(graph: Graph, norm: nn.LayerNorm, x: str) -> str:
    weight = graph.weight(norm.weight)
    bias = graph.weight(norm.bias)
    return graph.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)


def _linear(graph: Graph, linear: nn.Linear, x: str) -> str:
    return graph.node("Gemm", x, graph.matrix(linear.weight), graph.weight(linear.bias), transB=1)


def _exact_linear(graph: Graph, linear: nn.Linear, x: str) -> str:
    """As `_linear`, never int8: for means, which it would round by a whole byte."""
    return graph.node("Gemm", x, graph.weight(linear.weight), graph.weight(linear.bias), transB=1)
