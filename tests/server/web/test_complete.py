"""Complete, in a real browser: what is drawn or brought, what is hidden, and what the API makes of it."""

import base64
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.support.page_visitor import Visitor
from tests.support.running_server import Server

Visit = Callable[..., Visitor]
HEIGHT, WIDTH = 7, 5


def picture(height: int = HEIGHT, width: int = WIDTH, channels: int = 1) -> np.ndarray:
    image = np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)
    return image[..., 0] if channels == 1 else image


def png(image: np.ndarray) -> bytes:
    out = BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


def upload(visitor: Visitor, data: bytes) -> None:
    visitor.see("#upload").set_input_files({"name": "one.png", "mimeType": "image/png", "buffer": data})
    expect(visitor.see("#easel-hint")).to_be_hidden()


def complete(visitor: Visitor, n: int, seed: int) -> None:
    visitor.see("#complete-count").fill(str(n))
    visitor.see("#complete-seed").fill(str(seed))
    visitor.see("#complete-form .primary").click()
    visitor.expect_done(n, "#complete-meter")


def shown(visitor: Visitor) -> list[np.ndarray]:
    """The original, what was given, and the completions: [H, W, 4] each."""
    canvases = visitor.see("#results .stack canvas:first-child")
    return [visitor.pixels(canvases.nth(index)) for index in range(canvases.count())]


def completed(client: httpx.Client, image: np.ndarray, **fields: object) -> np.ndarray:
    """What the API makes of it, [n, ...]."""
    body = {"image": base64.b64encode(png(image)).decode(), **fields}
    answer = client.post("/v1/images/edits", json=body, headers={"accept": "application/x-npy"})
    assert answer.status_code == 200, answer.text
    return np.load(BytesIO(answer.content))


def stroke(visitor: Visitor, *places: tuple[float, float]) -> None:
    """Draws with the mouse from place to place, in shares of the easel."""
    box = visitor.see("#easel").bounding_box()
    assert box is not None
    mouse = visitor.page.mouse
    for index, (x, y) in enumerate(places):
        mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        if index == 0:
            mouse.down()
    mouse.up()


@pytest.fixture
def easel(visit: Visit, server: Server) -> Visitor:
    visitor = visit(f"{server.url}/#complete")
    expect(visitor.see("#easel-hint")).to_be_visible()
    return visitor


def test_a_drawing_is_completed_below_its_line(easel: Visitor, client: httpx.Client) -> None:
    stroke(easel, (0.3, 0.2), (0.7, 0.2), (0.5, 0.8))
    expect(easel.see("#easel-hint")).to_be_hidden()
    complete(easel, 3, seed=5)
    original, given, *completions = shown(easel)
    drawn = original[..., 0]
    assert drawn.any()
    assert not drawn.all()
    assert (np.array(completions)[..., 0] == completed(client, drawn, n=3, seed=5, keep_rows=3)).all()
    assert (given[:3] == original[:3]).all()
    assert (given[3:, :, 3] == 0).all()


def test_a_stroke_has_soft_edges(easel: Visitor) -> None:
    stroke(easel, (0.3, 0.25), (0.65, 0.7))
    complete(easel, 1, seed=5)
    drawn = shown(easel)[0][..., 0]
    assert ((drawn > 0) & (drawn < 255)).any()


def test_a_picture_of_the_right_size_stays_as_it_is(easel: Visitor, client: httpx.Client) -> None:
    upload(easel, png(picture()))
    easel.see("#rows").fill("5")
    complete(easel, 2, seed=5)
    original, _, *completions = shown(easel)
    assert (original[..., 0] == picture()).all()
    assert (np.array(completions)[..., 0] == completed(client, picture(), n=2, seed=5, keep_rows=5)).all()


def test_a_larger_picture_is_scaled(easel: Visitor) -> None:
    large = np.kron(picture(), np.ones((20, 20), np.uint8))
    upload(easel, png(large))
    complete(easel, 1, seed=5)
    assert np.abs(shown(easel)[0][..., 0].astype(int) - picture()).mean() < 16


def test_what_is_painted_over_is_painted_anew(easel: Visitor, client: httpx.Client) -> None:
    upload(easel, png(picture()))
    easel.see("#rows").fill(str(HEIGHT))
    easel.page.get_by_text("Hide", exact=True).click()
    stroke(easel, (0.5, 0.5), (0.5, 0.5))
    complete(easel, 2, seed=5)
    _, given, *completions = shown(easel)
    known = given[..., 3] == 255
    assert 0 < (~known).sum() < known.size
    mask = base64.b64encode(png(np.where(known, 255, 0).astype(np.uint8))).decode()
    images = np.array(completions)[..., 0]
    assert (images == completed(client, picture(), n=2, seed=5, mask=mask)).all()
    assert (images[:, known] == picture()[known]).all()


def test_known_pixels_are_marked(easel: Visitor) -> None:
    upload(easel, png(picture()))
    complete(easel, 2, seed=5)
    easel.see("text=Known pixels").click()
    over = easel.pixels(easel.see("#results .over").nth(2))
    assert (over[:3, :, 3] > 0).all()
    assert (over[3:, :, 3] == 0).all()


def test_surprise_is_the_likelihood_of_every_pixel(easel: Visitor, client: httpx.Client) -> None:
    upload(easel, png(picture()))
    complete(easel, 2, seed=5)
    with easel.page.expect_response("**/v1/images/likelihoods") as answer:
        easel.see("text=Surprise").click()
    expect(easel.see("#legend")).to_be_visible()
    body = {"image": base64.b64encode(png(picture())).decode(), "per_pixel": True}
    told = client.post("/v1/images/likelihoods", json=body).json()["data"][0]["per_pixel"]
    assert answer.value.json()["data"][0]["per_pixel"] == told
    expect(easel.see("#results")).to_have_attribute("data-over", "likelihood")
    brightness = easel.pixels(easel.see("#results .over").first)[..., :3].sum(-1).reshape(-1)
    order = np.minimum(np.array(told).reshape(-1), 8).argsort()
    assert (np.diff(brightness[order].astype(int)) >= -3).all()


def test_one_from_the_gallery(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=4")
    visitor.expect_done(4)
    images = np.load(visitor.saved("#save-array"))
    visitor.see(".tile").nth(1).click()
    visitor.see("#viewer-complete").click()
    expect(visitor.see("#tab-complete")).to_be_focused()
    complete(visitor, 1, seed=5)
    assert (shown(visitor)[0][..., 0] == images[1]).all()
    visitor.see(".thumbnail").nth(2).click()
    complete(visitor, 2, seed=5)
    assert (shown(visitor)[0][..., 0] == images[2]).all()


def test_colour(visit: Visit, colour_server: Server, colour_client: httpx.Client) -> None:
    visitor = visit(f"{colour_server.url}/#complete")
    expect(visitor.see("#colour-field")).to_be_visible()
    image = picture(3, 4, 3)
    upload(visitor, png(image))
    complete(visitor, 2, seed=5)
    images = np.array(shown(visitor)[2:])[..., :3]
    assert (images == completed(colour_client, image, n=2, seed=5, keep_rows=1)).all()


def test_nothing_hidden_is_a_mistake(easel: Visitor) -> None:
    easel.see("#rows").fill(str(HEIGHT))
    easel.see("#complete-form .primary").click()
    easel.expect_notice("Nothing is hidden: keep fewer rows, or paint over a part.")
    expect(easel.see("#rows")).to_be_focused()


def test_what_is_no_picture_is_a_mistake(easel: Visitor, tmp_path: Path) -> None:
    easel.see("#upload").set_input_files({"name": "one.txt", "mimeType": "text/plain", "buffer": b"no picture"})
    easel.expect_notice("The browser cannot read one.txt as a picture.")
