"""The page and its server on one machine: how fast its gallery fills, against a POST, and what the browser costs.

    python -m benchmarks.serving.page [--model MODEL] [--images 64] [--repeats 5] [--threads 2]

Starts a server and a headless Chromium, and alternates a POST and a job of the page for the same number of images, so
that both meet the same load of the machine. Prints, for each: seconds of a job, images a second, and processor seconds
of the engine, of the API process and of the browser (all of its processes). For the page also its share of the POST's
pace, the browser's cores (processor seconds a second), and milliseconds from the click on Paint to the first painted
pixels. Every image that the page has painted is compared with the POST's.
"""

import argparse
import io
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from benchmarks.serving.client import GENERATIONS, NPY
from benchmarks.serving.server import Server, children, processor_seconds, serve
from scanline.model import zoo
from scanline.model.machine import print_json

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# as root in a container there is no sandbox, and shared memory may be too small
BROWSER_OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
WINDOW = {"width": 1280, "height": 800}
TIMEOUT = 600.0  # seconds for one job

# Presses Paint and returns the milliseconds until a rendered frame shows the first pixel, once that is on the canvas.
FIRST_PIXELS = """() => new Promise((resolve) => {
    const start = performance.now();
    document.querySelector("#paint-form .primary").click();
    const look = () => {
        const canvas = document.querySelector("#gallery canvas");
        const painted = canvas && canvas.getContext("2d").getImageData(0, 0, 1, 1).data[3] > 0;
        if (painted) requestAnimationFrame(() => resolve(performance.now() - start));
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""
# Presses Paint and returns the seconds until the job has ended and its last pixels are on the screen.
WHOLE_JOB = """() => new Promise((resolve) => {
    const start = performance.now();
    const after = document.querySelector("#after");
    const ended = () => requestAnimationFrame(() => resolve((performance.now() - start) / 1000));
    const observer = new MutationObserver(() => after.hidden || (observer.disconnect(), ended()));
    document.querySelector("#paint-form .primary").click();
    observer.observe(after, { attributes: true });
})"""


def post(server: Server, images: int, seed: int) -> np.ndarray:
    """Return the images as the API does in one answer."""
    response = httpx.post(
        f"{server.url}{GENERATIONS}",
        json={"n": images, "seed": seed, "class": "none"},
        headers={"accept": NPY},
        timeout=TIMEOUT,
    )
    return np.load(io.BytesIO(response.raise_for_status().content))


def saved(page: Page) -> np.ndarray:
    """Return the images of the gallery, as the page saves them."""
    with page.expect_download() as download:
        page.locator("#save-array").click()
    return np.load(download.value.path())


def measure(server: Server, page: Page, browser: list[int], options: argparse.Namespace) -> list[dict[str, float]]:
    """Return a row for each job; the first of each kind, which warms up, is left out. `browser`: its processes."""
    rows: list[dict[str, float]] = []

    def processor() -> dict[str, float]:
        return {**server.processor(), "browser": sum(map(processor_seconds, browser))}

    def costs(kind: str, seconds: float) -> dict[str, float]:
        now = processor()
        row = {f"{kind}_{name}": used - before[name] for name, used in now.items()}
        before.update(now)
        return {f"{kind}_seconds": seconds, **row}

    page.locator("#count").fill(str(options.images))
    for repeat in range(options.repeats + 1):
        page.locator("#seed").fill(str(repeat))
        before, began = processor(), time.monotonic()
        expected = post(server, options.images, repeat)
        row = costs("post", time.monotonic() - began)
        row |= costs("page", page.evaluate(WHOLE_JOB))
        assert np.array_equal(saved(page), expected), "the page shows other images than the POST returns"
        row["first_pixels_ms"] = page.evaluate(FIRST_PIXELS)
        page.locator("#after").wait_for()
        if repeat:
            rows.append(row)
            print(" ".join(f"{name} {value:.2f}" for name, value in row.items()), file=sys.stderr)
    return rows


def show(rows: list[dict[str, float]], images: int) -> dict[str, float]:
    """Print the table of medians and return them."""
    median = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    table = Table("", "seconds", "images/s", "engine s", "API s", "browser s", "browser cores")
    for kind in ("post", "page"):
        seconds = median[f"{kind}_seconds"]
        used = [median[f"{kind}_{name}"] for name in ("engine", "api", "browser")]
        figures = [seconds, images / seconds, *used, used[-1] / seconds]
        table.add_row({"post": "POST", "page": "page"}[kind], *(f"{figure:.2f}" for figure in figures))
    Console().print(table)
    median["share_of_post"] = statistics.median(row["post_seconds"] / row["page_seconds"] for row in rows)
    median["browser_cores"] = statistics.median(row["page_browser"] / row["page_seconds"] for row in rows)
    print(f"The page fills at {median['share_of_post']:.2f} of the POST's pace.")
    print(f"First pixels are painted {median['first_pixels_ms']:.0f} ms after the click.")
    return median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, help="threads of the engine; as the server chooses by default")
    parser.add_argument("--chromium", default=CHROMIUM)
    options = parser.parse_args()
    threads = [] if options.threads is None else ["--threads", str(options.threads)]
    with serve(options.model, *threads) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=BROWSER_OPTIONS)
        page = browser.new_page(viewport=WINDOW)
        page.set_default_timeout(1000 * TIMEOUT)
        page.goto(f"{server.url}/?seed=0")  # a link without a class asks for none, as the POST does
        page.locator("#after").wait_for()
        assert server.pid is not None
        own = {server.pid, *children(server.pid)}
        pids = [pid for pid in children(os.getpid()) if pid not in own and is_browser(pid)]
        rows = measure(server, page, pids, options)
        browser.close()
    median = show(rows, options.images)
    print_json("page", vars(options), **median)


def is_browser(pid: int) -> bool:
    """Return whether it is one of the browser's processes, and not the driver that controls them."""
    return b"chrom" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]


if __name__ == "__main__":
    main()
