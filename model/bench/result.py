"""The result of a run: the JSON object, schema 1, and how people see it, as tables and as a plot.

A part that was skipped is null; rates are per second; "ours" is Scanline, "authors" is pytorch-fast-transformers.

benchmark, schema, date, machine {cpu, cores, threads, isa, gpu?}, others_share_of_cpu, commit, torch, python
configuration   {model, precision, device, program, batches, seconds, skip, config: as in config.json}
state_bytes_per_image
checked         {images, batches, views_differ_bits_per_dim}
ceilings        {matrix_flop, matrix_rows, square_flop, copy_bytes, flop_per_image, products_ms: {rows: ms of a step},
                 images_by_products, images_by_state_traffic}
one_image       {ours: {seconds_median, seconds_p99, calls}, authors: seconds, softmax: seconds}; a baseline's is N of
                its steps with one image in flight, null where 1 was not among the batches
bulk            [{batch, ours: RATE, authors: RATE, softmax: RATE}], a baseline null where it could not be measured
                RATE {step_ms_median, step_ms_p99, images_per_second, of_matrix_rate, calls}; of_matrix_rate is relative
                to torch doing only the model's matrix products, and exceeds 1 where our products are faster;
                softmax: means over an image, and positions: [{position, step_ms_median}]
prefill         {images, bytes_of_each, seconds_median, calls, bytes_per_second, of_matrix_rate}
scoring         the same, and images_per_second
over_position   {ours: SAMPLES, softmax: SAMPLES}
                SAMPLES {images, looks: [{position, step_ms_median, tensor_bytes, process_bytes}]}: ms of all images
                together, bytes of one image
left_out        [sentence]: why a baseline that was asked for is null
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from scanline.model.atomic import write_atomically
from scanline.model.bench.machine import busy_warning

COLOURS = {"ours": "tab:blue", "authors": "tab:orange", "softmax": "tab:red"}
NAMES = {"ours": "Scanline", "authors": "authors", "softmax": "softmax"}


def print_report(result: dict[str, Any], console: Console) -> None:
    """Prints the result as a few lines and two tables, which fit a terminal of 80 columns."""
    for part in _parts(result):
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
        if isinstance(part, Table):
            console.print()


def _parts(result: dict[str, Any]) -> Iterator[str | Table]:
    machine, configuration, checked = result["machine"], result["configuration"], result["checked"]
    where = f"{machine['cpu']}, {machine['threads']} threads"
    if configuration["device"] == "cuda":
        where = machine["gpu"]
    yield f"{configuration['model']} on {where}; {result['date']}, torch {result['torch']}, commit {result['commit']}"
    yield f"backend {configuration['program']}, precision {configuration['precision']}"
    yield (
        f"checked: the two views differ by {checked['views_differ_bits_per_dim']:.1e} bits/dim; same bytes at every"
        " batch size"
    )
    yield from _ceilings(result["ceilings"])
    if result["one_image"]:
        yield _one_image(result["one_image"])
    if result["bulk"]:
        yield _bulk(result["bulk"], result["ceilings"])
    if result["prefill"]:
        yield from _known_bytes(result["prefill"], result["scoring"])
    if result["over_position"]:
        yield _over_position(result["over_position"], result["state_bytes_per_image"])
    yield from result["left_out"]
    if warning := busy_warning(result):
        yield warning


def _ceilings(ceilings: dict[str, Any]) -> Iterator[str]:
    yield (
        f"torch matmul: {ceilings['matrix_flop'] / 1e9:,.0f} GFLOP/s in the model's own float32 products (best at"
        f" {ceilings['matrix_rows']} rows) = {ceilings['images_by_products']:,.1f} images/s;"
        f" {ceilings['square_flop'] / 1e9:,.0f} GFLOP/s in a large square product"
    )
    yield (
        f"memory copy: {ceilings['copy_bytes'] / 1e9:,.1f} GB/s = {ceilings['images_by_state_traffic']:,.1f} images/s"
        " if no state stays in a cache"
    )


def _one_image(latency: dict[str, Any]) -> str:
    ours = latency["ours"]
    line = f"one image, alone: {ours['seconds_median']:.3f} s, p99 {ours['seconds_p99']:.3f} s ({ours['calls']} calls)"
    for name in ("authors", "softmax"):
        if seconds := latency[name]:
            line += f"; {name} {seconds:.2f} s, {seconds / ours['seconds_median']:.1f}x"
    return line


def _bulk(rows: list[dict[str, Any]], ceilings: dict[str, Any]) -> Table:
    table = _table("images in flight; ms a step (median, p99, torch's products alone); images/s")
    for column in ("batch", "median", "p99", "products", "images/s", "vs torch\nmatmul"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("authors", "speed-up", "softmax", "speed-up"):
        table.add_column(column, justify="right", style="dim", no_wrap=True)
    for row in rows:
        ours = row["ours"]
        cells = [
            f"{row['batch']}",
            f"{ours['step_ms_median']:.2f}",
            f"{ours['step_ms_p99']:.2f}",
            f"{ceilings['products_ms'][str(row['batch'])]:.2f}",
            _images_per_second(ours["images_per_second"]),
            f"{ours['of_matrix_rate']:.0%}",
        ]
        for baseline in (row["authors"], row["softmax"]):
            if baseline:
                rate = baseline["images_per_second"]
                cells += [_images_per_second(rate), f"{ours['images_per_second'] / rate:.1f}x"]
            else:
                cells += ["", ""]
        table.add_row(*cells)
    return table


def _images_per_second(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def _known_bytes(prefill: dict[str, Any], scoring: dict[str, Any]) -> Iterator[str]:
    yield (
        f"prefill: {prefill['bytes_of_each']} known bytes of one image in {1e3 * prefill['seconds_median']:.1f} ms,"
        f" {prefill['bytes_per_second']:,.0f} bytes/s, {prefill['of_matrix_rate']:.0%} vs torch matmul"
    )
    yield (
        f"scoring: {scoring['images_per_second']:,.1f} images/s, {scoring['images']} at once,"
        f" {scoring['of_matrix_rate']:.0%} vs torch matmul"
    )


def _over_position(programs: dict[str, Any], state_bytes: int) -> Table:
    """Scanline beside softmax, at the same positions."""
    in_flight = ", ".join(f"{NAMES[name]} {program['images']} in flight" for name, program in programs.items())
    table = _table(f"over position ({in_flight}); bytes of one image, (s, z) {state_bytes:,}")
    table.add_column("byte", justify="right")
    for name in programs:
        for column in ("ms a step", "tensors", "process"):
            table.add_column(f"{NAMES[name]}\n{column}", justify="right", style="" if name == "ours" else "dim")
    for samples in zip(*(program["looks"] for program in programs.values()), strict=True):
        cells = [str(samples[0]["position"])]
        for sample in samples:
            process = sample["process_bytes"]
            cells += [f"{sample['step_ms_median']:.2f}", f"{sample['tensor_bytes']:,.0f}"]
            cells += ["" if process is None else f"{process:,.0f}"]
        table.add_row(*cells)
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_style="", title_justify="left", box=SIMPLE_HEAD, padding=0, show_edge=False)


def check_plot(path: Path) -> None:
    """Raises ValueError if no PNG can be written to `path`; called before the work, not after it."""
    if path.suffix.lower() != ".png":
        raise ValueError(f"--plot {path}: must end in .png")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--plot {path}: there is no directory {path.parent}")
    if find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib, which is not installed: pip install matplotlib")


def save_plot(result: dict[str, Any], path: Path) -> None:
    """Draws images/s over batch size with the ceilings, and time and memory over position; skipped parts stay empty."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    bulk, time, memory = figure.subplots(1, 3)
    _draw_bulk(bulk, result["bulk"] or [], result["ceilings"])
    for name, program in (result["over_position"] or {}).items():
        samples, images = program["looks"], program["images"]
        positions = [sample["position"] for sample in samples]
        style = {"color": COLOURS[name], "label": f"{NAMES[name]}, {images} in flight"}
        time.plot(positions, [sample["step_ms_median"] / images for sample in samples], "o-", **style)
        memory.plot(positions, [sample["tensor_bytes"] / 1e6 for sample in samples], "o-", **style)
        if samples[0]["process_bytes"] is not None:
            process = [sample["process_bytes"] / 1e6 for sample in samples]
            memory.plot(positions, process, ":", color=COLOURS[name], label=f"{NAMES[name]}, process")
    time.set(xlabel="byte", ylabel="ms a step of one image", title="time over position")
    memory.set(xlabel="byte", ylabel="MB of one image", title="memory over position")
    for axes in (time, memory):
        axes.set_ylim(bottom=0)
    for axes in (bulk, time, memory):
        axes.grid(alpha=0.3, which="both")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    configuration, machine = result["configuration"], result["machine"]
    where = machine["gpu"] if configuration["device"] == "cuda" else machine["cpu"]
    title = f"scanline bench: {configuration['model']} ({configuration['precision']}) on {where}, {result['date'][:10]}"
    warning = busy_warning(result)
    figure.suptitle(f"{title}\n{warning}" if warning else title)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=120))


def _draw_bulk(axes: Any, rows: list[dict[str, Any]], ceilings: dict[str, Any]) -> None:
    for name, colour in COLOURS.items():
        points = [(row["batch"], row[name]["images_per_second"]) for row in rows if row[name]]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=NAMES[name])
    for key, style, label in (
        ("images_by_products", "--", "torch matmul, float32"),
        ("images_by_state_traffic", "-.", "memory copy of all states"),
    ):
        axes.axhline(ceilings[key], ls=style, color="grey", lw=1, label=label)
    axes.set(xlabel="images in flight", ylabel="images/s", xscale="log", yscale="log", title="painting")
    batches = [row["batch"] for row in rows]
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.minorticks_off()
