"""Window of painted pixels in an ONNX graph: `kernels/window` for runtimes
without torch, of one pixel an image.

The wave table is a constant of the graph, float32 whatever the weights are.
"""

from dataclasses import dataclass

from scanline.kernels.window import Window, wave_table
from scanline.model.formats.onnx_graph import Graph


def read_window(graph: Graph, window: Window, image: str, position: str) -> tuple[str, str | None]:
    """As Window.read: the inputs [B, inputs] of the pixel of the bytes at `position` [B] of images
    [B, N], and its references [B, C] where the window is centred."""
    pixel = graph.node(
        "Div", graph.node("Unsqueeze", position, graph.ints(1)), _int(graph, window.channels)
    )
    width = _int(graph, window.width)
    place = Place(graph.node("Div", pixel, width), graph.node("Mod", pixel, width))
    reference = _reference(graph, window, image, place) if window.centred else None
    values = _values(graph, _bytes(graph, window, image, place, window.pixels))
    parts = [values]
    if reference is not None:
        rows = graph.node("Reshape", values, graph.ints(-1, len(window.pixels), window.channels))
        centred = graph.node("Sub", rows, graph.node("Unsqueeze", reference, graph.ints(1)))
        parts = [
            graph.node("Reshape", centred, graph.ints(-1, len(window.pixels) * window.channels)),
            reference,
        ]
    if window.wave_pixels:
        table = graph.constant(wave_table(window.waves).numpy(), "float32")
        waves = graph.node("Gather", table, _bytes(graph, window, image, place, window.wave_pixels))
        parts.append(
            graph.node("Reshape", waves, graph.ints(-1, window.inputs - window.linear_inputs))
        )
    return graph.node("Concat", *parts, axis=-1) if len(parts) > 1 else values, reference


@dataclass(frozen=True)
class Place:
    """Row and column of a pixel, each int32 [B, 1]."""

    row: str
    column: str


def _bytes(
    graph: Graph, window: Window, image: str, place: Place, around: tuple[tuple[int, int], ...]
) -> str:
    """As Window._bytes: int32 [B, n C]."""
    each = [(up, right, channel) for up, right in around for channel in range(window.channels)]
    ups, rights, channels = (
        graph.constant([column], "int32") for column in zip(*each, strict=True)
    )
    row = graph.node("Sub", place.row, ups)
    column = graph.node("Add", place.column, rights)
    zero = _int(graph, 0)
    width = _int(graph, window.width)
    inside = graph.node(
        "And", graph.node("GreaterOrEqual", row, zero), graph.node("GreaterOrEqual", column, zero)
    )
    inside = graph.node("And", inside, graph.node("Less", column, width))
    pixel = graph.node("Add", graph.node("Mul", row, width), column)
    byte = graph.node("Add", graph.node("Mul", pixel, _int(graph, window.channels)), channels)
    gathered = graph.node("GatherElements", image, graph.node("Where", inside, byte, zero), axis=1)
    return graph.node("Where", inside, graph.cast(gathered, "int32"), _int(graph, window.outside))


def _values(graph: Graph, bytes_: str) -> str:
    """Return b / 127.5 - 1 of bytes b."""
    share = graph.node("Div", graph.cast(bytes_, "float32"), graph.constant(127.5, "float32"))
    return graph.node("Sub", share, graph.constant(1, "float32"))


def _reference(graph: Graph, window: Window, image: str, place: Place) -> str:
    """As Window._reference: [B, C]."""
    near = _values(graph, _bytes(graph, window, image, place, ((1, 0), (0, -1))))
    above, left = graph.nodes("Split", 2, near, axis=-1, num_outputs=2)
    zero = _int(graph, 0)
    mean = graph.node("Div", graph.node("Add", above, left), graph.constant(2, "float32"))
    in_row = graph.node("Where", graph.node("Equal", place.row, zero), left, mean)
    return graph.node("Where", graph.node("Equal", place.column, zero), above, in_row)


def _int(graph: Graph, value: int) -> str:
    return graph.constant(value, "int32")
