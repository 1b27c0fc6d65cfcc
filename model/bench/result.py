"""Result of a run: the JSON object, schema 5, and its table.

A part that was skipped is null; rates are per second.

benchmark, schema, date, machine {cpu, cores, threads, isa, gpu?}, others_share_of_cpu, commit, torch, python
configuration   {model, precision, device, program: the backend for people, backend: its name, fallbacks: [for each
                 faster backend, "name: why it is not used"], batches,
                 seconds, skip, config: as in config.json}
step            {bytes: that a step paints, of_an_image: number of steps}
state_bytes_per_image
checked         {images, batches, views_differ_bits_per_dim}
ceilings        {flop_per_step, matrix_rows, matrix_flop, copy_bytes}
one_image       {seconds_median, seconds_p99, step_ms, byte_ms, passes, rows, wrong_guesses, calls}
bulk            [{batch, step_ms_median, step_ms_p99, images_per_second, passes, rows, wrong_guesses: of an image,
                 images_by_products, images_by_state_traffic: limits of these rows and passes, of_matrix_rate, calls}];
                of_matrix_rate is that of rows, relative to torch doing only the model's matrix
                products, and exceeds 1 where our products are faster
prefill         {images, bytes_of_each, seconds_median, calls, bytes_per_second, of_matrix_rate}
scoring         the same, and images_per_second
"""

from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from scanline.model.base.machine import busy_warning


def print_report(result: dict[str, Any], console: Console) -> None:
    """Print the result as a few lines and a table, which fit a terminal of 80 columns."""
    for part in _parts(result):
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
        if isinstance(part, Table):
            console.print()


def _parts(result: dict[str, Any]) -> Iterator[str | Table]:
    machine = result["machine"]
    configuration = result["configuration"]
    checked = result["checked"]
    where = f"{machine['cpu']}, {machine['threads']} threads"
    if configuration["device"] == "cuda":
        where = machine["gpu"]
    yield f"{configuration['model']} on {where}; {result['date']}, torch {result['torch']}, commit {result['commit']}"
    yield f"backend {configuration['backend']}, {configuration['program']}; precision {configuration['precision']}"
    for fallback in configuration["fallbacks"]:
        yield f"not used: {fallback}"
    step = result["step"]
    yield f"a step paints {_painted(step)}, {step['of_an_image']:,} steps an image"
    yield (
        f"checked: the two views differ by {checked['views_differ_bits_per_dim']:.1e} bits/dim; same bytes at every"
        " batch size"
    )
    yield from _ceilings(result["ceilings"])
    if result["one_image"]:
        yield _one_image(result["one_image"])
    if result["bulk"]:
        yield "images in flight; ms a step; passes and rows of an image; images/s, and what products and states allow"
        yield _bulk(result["bulk"])
    if result["prefill"]:
        yield from _known_bytes(result["prefill"], result["scoring"])
    if warning := busy_warning(result):
        yield warning


def _painted(step: dict[str, int]) -> str:
    return "1 byte" if step["bytes"] == 1 else f"a pixel, {step['bytes']} bytes"


def _ceilings(ceilings: dict[str, Any]) -> Iterator[str]:
    yield (
        f"torch matmul: {ceilings['matrix_flop'] / 1e9:,.0f} GFLOP/s in the model's own float32 products (best at"
        f" {ceilings['matrix_rows']} rows)"
    )
    yield f"memory copy: {ceilings['copy_bytes'] / 1e9:,.1f} GB/s"


def _one_image(latency: dict[str, Any]) -> str:
    return (
        f"one image, alone: {latency['seconds_median']:.3f} s, p99 {latency['seconds_p99']:.3f} s"
        f" ({latency['calls']} calls), {latency['passes']:.0f} passes, {latency['rows']:.0f} rows,"
        f" {latency['wrong_guesses']:.0f} wrong guesses"
    )


def _bulk(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for column in ("batch", "median", "passes", "rows", "images/s", "limits", "vs torch"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row["batch"]),
            f"{row['step_ms_median']:.2f}",
            f"{row['passes']:.0f}",
            f"{row['rows']:.0f}",
            _images(row["images_per_second"]),
            f"{_images(row['images_by_products'])}, {_images(row['images_by_state_traffic'])}",
            f"{row['of_matrix_rate']:.0%}",
        )
    return table


def _images(rate: float) -> str:
    return f"{rate:,.1f}" if rate >= 1 else f"{rate:.2g}"


def _known_bytes(prefill: dict[str, Any], scoring: dict[str, Any]) -> Iterator[str]:
    yield (
        f"prefill: {prefill['bytes_of_each']} known bytes of one image in {1e3 * prefill['seconds_median']:.1f} ms,"
        f" {prefill['bytes_per_second']:,.0f} bytes/s, {prefill['of_matrix_rate']:.0%} vs torch matmul"
    )
    yield (
        f"scoring: {scoring['images_per_second']:,.1f} images/s, {scoring['images']} at once,"
        f" {scoring['of_matrix_rate']:.0%} vs torch matmul"
    )
