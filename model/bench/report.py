"""The result of a run as a person reads it: tables and a few lines, from the same object that programs get."""

from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from scanline.model.bench.machine import warning


def print_report(found: dict[str, Any], console: Console) -> None:
    """Prints what result.py describes."""
    for part in _parts(found):
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
        if isinstance(part, Table):
            console.print()


def _parts(found: dict[str, Any]) -> Iterator[str | Table]:
    machine, asked, checked = found["machine"], found["configuration"], found["checked"]
    where = machine["gpu"] if asked["device"] == "cuda" else f"{machine['cpu']}, {machine['threads']} threads"
    yield f"{asked['model']} on {where}; {found['date']}, torch {found['torch']}, commit {found['commit']}"
    yield f"painted by {asked['program']}, precision {asked['precision']}"
    yield (
        f"checked: views differ by {checked['views_differ_bits_per_dim']:.1e} bits/dim;"
        " the same bytes at every batch size"
    )
    yield from _ceilings(found["ceilings"])
    if found["one_image"]:
        yield _one_image(found["one_image"])
    if found["bulk"]:
        yield _bulk(found["bulk"], found["ceilings"])
    if found["prefill"]:
        yield from _reading(found["prefill"], found["scoring"])
    if found["over_position"]:
        yield _over_position(found["over_position"], found["state_bytes_per_image"])
    yield from found["left_out"]
    if sentence := warning(found):
        yield sentence


def _ceilings(found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"ceilings: {found['matrix_flop'] / 1e9:,.0f} GFLOP/s in the model's own float32 products (best at"
        f" {found['matrix_rows']} rows) = {found['images_by_products']:,.1f} images/s;"
        f" {found['square_flop'] / 1e9:,.0f} GFLOP/s in a large square one"
    )
    yield (
        f"          {found['copy_bytes'] / 1e9:,.1f} GB/s of copy = {found['images_by_state_traffic']:,.1f} images/s"
        " where states stay in no cache"
    )


def _one_image(found: dict[str, Any]) -> str:
    ours = found["ours"]
    line = f"one image, alone: {ours['seconds_median']:.3f} s, p99 {ours['seconds_p99']:.3f} s ({ours['calls']} calls)"
    for name in ("authors", "softmax"):
        if seconds := found[name]:
            line += f"; {name} {seconds:.2f} s, {seconds / ours['seconds_median']:.1f}x"
    return line


def _bulk(rows: list[dict[str, Any]], ceilings: dict[str, Any]) -> Table:
    table = _table("images in flight; ms a step (median, p99, the products alone); images/s")
    for column in ("batch", "median", "p99", "products", "images/s", "of rate"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("authors", "ours is", "softmax", "ours is"):
        table.add_column(column, justify="right", style="dim", no_wrap=True)
    for row in rows:
        ours = row["ours"]
        cells = [f"{row['batch']}", f"{ours['step_ms_median']:.2f}", f"{ours['step_ms_p99']:.2f}"]
        cells += [f"{ceilings['products_ms'][str(row['batch'])]:.2f}", _rate(ours["images_per_second"])]
        cells += [f"{ours['of_matrix_rate']:.0%}"]
        for other in (row["authors"], row["softmax"]):
            theirs = other and other["images_per_second"]
            cells += [_rate(theirs), f"{ours['images_per_second'] / theirs:.1f}x"] if theirs else ["", ""]
        table.add_row(*cells)
    return table


def _rate(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def _reading(prefill: dict[str, Any], scoring: dict[str, Any]) -> Iterator[str]:
    yield (
        f"prefill: {prefill['bytes_of_each']} known bytes of one image in {1e3 * prefill['seconds_median']:.1f} ms,"
        f" {prefill['bytes_per_second']:,.0f} bytes/s, {prefill['of_matrix_rate']:.0%} of the matrix rate"
    )
    yield (
        f"scoring: {scoring['images_per_second']:,.1f} images/s, {scoring['images']} at once,"
        f" {scoring['of_matrix_rate']:.0%} of the matrix rate"
    )


def _table(title: str) -> Table:
    """One that ten columns fit into, of a terminal of 80."""
    return Table(title=title, title_style="", title_justify="left", box=SIMPLE_HEAD, padding=0, show_edge=False)


def _over_position(found: dict[str, Any], state_bytes: int) -> Table:
    """Ours beside softmax, each at its own positions, which are the same."""
    title = ", ".join(f"{name} {part['images']} in flight" for name, part in found.items())
    table = _table(f"over position ({title}); bytes of one image, (s, z) {state_bytes:,}")
    table.add_column("byte", justify="right")
    for name in found:
        for column in ("ms a step", "tensors", "process"):
            table.add_column(f"{name}\n{column}", justify="right", style="" if name == "ours" else "dim")
    for looks in zip(*(part["looks"] for part in found.values()), strict=True):
        cells = [str(looks[0]["position"])]
        for look in looks:
            process = look["process_bytes"]
            cells += [f"{look['step_ms_median']:.2f}", f"{look['tensor_bytes']:,.0f}"]
            cells += ["" if process is None else f"{process:,.0f}"]
        table.add_row(*cells)
    return table
