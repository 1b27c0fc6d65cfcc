"""Pictures of the README and of the page's documentation painted anew after the weights of the
default model have changed.

    python -m benchmarks.docs_pictures [--into docs] [--chromium PROGRAM]

All are of seed 7 and unpicked. painting.gif is `scanline sample -n 64 --seed 7 --out painting.gif`.
particles.png: the first five digits of the README's sheet, occluded by a band and by a square, with
one completion each by 1, 16 and 64 particles. page-paint.png, page-write.png, page-how.png,
page-complete.png: the page in a headless Chromium, after it has painted, has written a year, shows
a step as a whole, and has completed the second digit of its gallery.
"""

import argparse
import os
import shutil
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from scanline.model import zoo
from scanline.model.base.sampling_options import DrawnLabel
from scanline.model.formats.checkpoint import load_model
from scanline.model.images import contact_sheet
from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support.server.running_server import serve

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# as root in a container there is no sandbox, and shared memory may be too small
BROWSER_OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
WINDOW = {"width": 1280, "height": 800}
TIMEOUT = 600.0  # seconds until the page has painted or completed
SEED = 7
GUIDANCE = 2.0
DIGITS = 5
PARTICLES = (1, 16, 64)
# of 28 rows and columns
BAND = np.s_[9:17]
SQUARE = np.s_[7:21, 7:21]
# of particles.png: pixels of the picture to one of a digit; of a digit; grey
SCALE = 2
GAP = 2
WHITE = 255
COLOURS = 40  # of the page's pictures
# in parts of the page's canvas
BRUSH = ((0, 0.42), (1, 0.42), (1, 0.46), (0, 0.46), (0, 0.5), (1, 0.5))


def paint_particles(model: Transformer, into: Path) -> None:
    """Write particles.png: a row for each digit, its band on the left, its square on the right."""
    digits = _guided_digits(model, DIGITS)
    band = _completions(model, digits, BAND)
    square = _completions(model, digits, SQUARE)
    between = np.full((len(band), 4 * GAP), WHITE, np.uint8)
    sheet = Image.fromarray(np.hstack((band, between, square)))
    size = (sheet.width * SCALE, sheet.height * SCALE)
    sheet.resize(size, Image.Resampling.NEAREST).save(into / "particles.png")


def _guided_digits(model: Transformer, count: int) -> np.ndarray:
    """Return images [count, H, W] of classes that are drawn at random, guided."""
    label = DrawnLabel(len(model.config.classes))
    request = GenerateRequest(0, count, SEED, guidance=GUIDANCE, label=label)
    return paint_request(model, request).images.reshape(count, *model.config.image_shape)


def _completions(model: Transformer, digits: np.ndarray, hidden: Any) -> np.ndarray:
    """Return a sheet with a row for each of the digits [n, H, W]: as it is, occluded, and
    completed by more and more particles."""
    images = []
    for digit in digits:
        known = np.ones_like(digit)
        known[hidden] = 0
        images += [digit, np.where(known, digit, np.uint8(UNPAINTED))]
        for count in PARTICLES:
            request = GenerateRequest(
                0,
                1,
                SEED,
                known=(digit.tobytes(),),
                masks=(known.tobytes(),),
                particles=count,
            )
            images.append(paint_request(model, request).images.reshape(digit.shape))
    framed = np.pad(images, ((0, 0), (GAP, GAP), (GAP, GAP)), constant_values=WHITE)
    return np.asarray(contact_sheet.sheet(framed, columns=2 + len(PARTICLES)))


def photograph_page(page: Page, url: str, into: Path) -> None:
    """Write the page's pictures."""
    page.goto(f"{url}/?write=2026&guidance={GUIDANCE}&seed={SEED}")
    page.locator("#after").wait_for()
    _photograph(page, into / "page-write.png")
    page.goto(f"{url}/#how&seed={SEED}&layer=2&head=4&step=413&screen=0")
    expect(page.locator("#say-weights")).to_contain_text("at most", timeout=1000 * TIMEOUT)
    _photograph(page, into / "page-how.png")
    page.goto(f"{url}/?class=any&guidance={GUIDANCE}&seed={SEED}")
    page.locator("#after").wait_for()
    _photograph(page, into / "page-paint.png")
    page.locator("#tab-complete").click()
    page.locator("#thumbnails button").nth(1).click()
    rows = page.locator("#rows")
    rows.fill(rows.get_attribute("max") or "")
    page.get_by_text("Hide", exact=True).click()
    _draw(page, BRUSH)
    page.locator("#complete-more summary").click()
    page.locator("#particles-compare").check()
    page.locator("#complete-seed").fill(str(SEED))
    wait = 1000 * TIMEOUT
    expect(page.locator("#live-status")).to_contain_text("Four completions of", timeout=wait)
    page.locator("#complete-form .primary").click()
    expect(page.locator("#complete-meter")).to_contain_text("16 of 16 images", timeout=wait)
    _photograph(page, into / "page-complete.png")


def _photograph(page: Page, path: Path) -> None:
    """Write a picture of the whole page, in few colours: half as large."""
    with Image.open(BytesIO(page.screenshot(full_page=True))) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def _draw(page: Page, points: Sequence[tuple[float, float]]) -> None:
    """Move the mouse over the drawing from point to point, pressed."""
    box = page.locator("#drawing").bounding_box()
    assert box is not None
    for number, (x, y) in enumerate(points):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=40)
        if number == 0:
            page.mouse.down()
    page.mouse.up()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path, default=ROOT / "docs", help="folder of the pictures")
    parser.add_argument("--chromium", default=CHROMIUM)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    model = load_model(zoo.find(zoo.DEFAULT))
    paint_particles(model, options.into)
    with (
        serve(zoo.find(zoo.DEFAULT), "--threads", str(os.cpu_count()), forked=False) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=options.chromium, args=BROWSER_OPTIONS)
        page = browser.new_page(viewport=WINDOW)
        page.set_default_timeout(1000 * TIMEOUT)
        photograph_page(page, server.url, options.into)
        browser.close()


if __name__ == "__main__":
    main()
