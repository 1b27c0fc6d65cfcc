"""The result of a run as a picture: images/s over batch size under the ceilings, time and memory over position."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scanline.model.atomic import write_atomically
from scanline.model.bench.machine import warning

COLOURS = {"ours": "tab:blue", "authors": "tab:orange", "softmax": "tab:red"}


def check_plot(path: Path) -> None:
    """ValueError where no PNG can be written there; asked before the work, not after it."""
    if path.suffix.lower() != ".png":
        raise ValueError(f"--plot {path}: a plot is a .png file")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--plot {path}: there is no directory {path.parent}")
    if find_spec("matplotlib") is None:
        raise ValueError("--plot draws with matplotlib, which is not installed: pip install matplotlib")


def save_plot(found: dict[str, Any], path: Path) -> None:
    """Draws what result.py describes; panels of parts that were skipped stay empty."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    bulk, steps, memory = figure.subplots(1, 3)
    _draw_bulk(bulk, found["bulk"] or [], found["ceilings"])
    for name, part in (found["over_position"] or {}).items():
        looks, images = part["looks"], part["images"]
        positions = [look["position"] for look in looks]
        style = {"color": COLOURS[name], "label": f"{name}, {images} in flight"}
        steps.plot(positions, [look["step_ms_median"] / images for look in looks], "o-", **style)
        memory.plot(positions, [look["tensor_bytes"] / 1e6 for look in looks], "o-", **style)
        if looks[0]["process_bytes"] is not None:
            process = [look["process_bytes"] / 1e6 for look in looks]
            memory.plot(positions, process, ":", color=COLOURS[name], label=f"{name}, process")
    steps.set(xlabel="byte", ylabel="ms a step of one image", title="time over position")
    memory.set(xlabel="byte", ylabel="MB of one image", title="memory over position")
    for axes in (steps, memory):
        axes.set_ylim(bottom=0)
    for axes in (bulk, steps, memory):
        axes.grid(alpha=0.3, which="both")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    asked = found["configuration"]
    where = found["machine"].get("gpu") if asked["device"] == "cuda" else found["machine"]["cpu"]
    title = f"scanline bench: {asked['model']} ({asked['precision']}) on {where}, {found['date'][:10]}"
    figure.suptitle("\n".join(filter(None, (title, warning(found)))))
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=120))


def _draw_bulk(axes: Any, rows: list[dict[str, Any]], ceilings: dict[str, Any]) -> None:
    for name, colour in COLOURS.items():
        points = [(row["batch"], row[name]["images_per_second"]) for row in rows if row[name]]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
    for key, style, label in (
        ("images_by_products", "--", "ceiling: float32 products"),
        ("images_by_state_traffic", "-.", "ceiling: state traffic, no cache"),
    ):
        axes.axhline(ceilings[key], ls=style, color="grey", lw=1, label=label)
    axes.set(xlabel="images in flight", ylabel="images/s", xscale="log", yscale="log", title="painting")
    batches = [row["batch"] for row in rows]
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.minorticks_off()
