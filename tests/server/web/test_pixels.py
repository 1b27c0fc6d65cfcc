"""All tabs with a model whose step is a colour pixel, in a real browser. (On your device: test_device.py.)"""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from scanline.model.formats.checkpoint import save_model
from tests.support import shapes, small_models
from tests.support.page.visitor import Visit, painted
from tests.support.pictures import encode, text
from tests.support.server.running_server import PATIENCE, Server, serve

CONFIG = small_models.config(**small_models.VARIANTS["waves of pixels"])
PICTURE = np.random.default_rng(0).integers(0, 256, CONFIG.image_shape, np.uint8)


@pytest.fixture(scope="module")
def pixel_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("pixels") / "pixels"
    save_model(small_models.model(CONFIG), directory)
    shapes.evaluate(directory)
    with serve(directory, "--slots", "8") as server:
        yield server


@pytest.fixture
def pixel_client(pixel_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pixel_server.url, timeout=PATIENCE) as client:
        yield client


def test_the_gallery_shows_the_servers_images(visit: Visit, pixel_server: Server, pixel_client: httpx.Client) -> None:
    visitor = visit(f"{pixel_server.url}/?seed=3&n=4")
    visitor.expect_done(4)
    assert (np.load(visitor.saved("#save-array")) == painted(pixel_client, n=4, seed=3)).all()


def test_a_picture_is_completed_and_its_likelihood_shown(
    visit: Visit, pixel_server: Server, pixel_client: httpx.Client
) -> None:
    visitor = visit(f"{pixel_server.url}/#complete")
    visitor.expect_ready()
    data = encode(PICTURE)
    visitor.see("#upload").set_input_files({"name": "one.png", "mimeType": "image/png", "buffer": data})
    visitor.unfold()
    visitor.see("#complete-count").fill("2")
    visitor.see("#complete-seed").fill("5")
    visitor.see("#rows").fill("2")
    visitor.see("#complete-form .primary").click()
    visitor.expect_done(2, "#complete-meter")
    canvases = visitor.see("#results .stack canvas:first-child")
    shown = np.array([visitor.pixels(canvases.nth(index))[..., :3] for index in (2, 3)])
    assert (shown == painted(pixel_client, "edits", image=text(data), n=2, seed=5, keep_rows=2)).all()
    expect(visitor.see("#doubt")).to_contain_text("The original is unlike the images that the model was tested on")
    visitor.see("text=Likelihood").click()
    expect(visitor.see("#results")).to_have_attribute("data-over", "likelihood")
    drawn = visitor.pixels(visitor.see("#results .over").first)[..., :3].sum(-1).reshape(-1)
    body = {"image": text(data), "per_pixel": True}
    bits = pixel_client.post("/v1/images/likelihoods", json=body).json()["data"][0]["per_pixel"]
    order = np.minimum(np.mean(bits, axis=-1).reshape(-1), 8).argsort()
    assert (np.diff(drawn[order].astype(int)) >= -3).all()
    expect(visitor.see("#doubt")).to_have_text(
        "The original is unlike the images that the model was tested on (p ≤ 0.0040), so its completions may be poor."
        f" It has {np.mean(bits):.2f} bits per dimension; 99 % of those have 1.20 to 1.80."
    )
