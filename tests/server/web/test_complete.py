"""Complete, in a real browser: drawn and uploaded images, hidden pixels, and the same completions as the API's."""

from io import BytesIO

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.support.page.visitor import Visit, Visitor, painted
from tests.support.pictures import encode, text
from tests.support.server.running_server import Server

HEIGHT, WIDTH = 7, 5


def picture(height: int = HEIGHT, width: int = WIDTH, channels: int = 1) -> np.ndarray:
    image = np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)
    return image[..., 0] if channels == 1 else image


def upload(visitor: Visitor, data: bytes) -> None:
    visitor.see("#upload").set_input_files({"name": "one.png", "mimeType": "image/png", "buffer": data})
    expect(visitor.see("#drawing-hint")).to_be_hidden()


def complete(visitor: Visitor, n: int, seed: int) -> None:
    visitor.unfold()
    visitor.see("#complete-count").fill(str(n))
    visitor.see("#complete-seed").fill(str(seed))
    visitor.see("#complete-form .primary").click()
    visitor.expect_done(n, "#complete-meter")


def shown(visitor: Visitor) -> list[np.ndarray]:
    """The original, the given pixels and the completions, [H, W, 4] each."""
    canvases = visitor.see("#results .stack canvas:first-child")
    return [visitor.pixels(canvases.nth(index)) for index in range(canvases.count())]


def completed(client: httpx.Client, image: np.ndarray, **fields: object) -> np.ndarray:
    """The completions that the API returns, [n, ...]."""
    return painted(client, "edits", image=text(encode(image)), **fields)


def stroke(visitor: Visitor, *points: tuple[float, float]) -> None:
    """Draws with the mouse from point to point; x and y are fractions of the canvas."""
    box = visitor.see("#drawing").bounding_box()
    assert box is not None
    mouse = visitor.page.mouse
    for index, (x, y) in enumerate(points):
        mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        if index == 0:
            mouse.down()
    mouse.up()


@pytest.fixture
def drawing(visit: Visit, server: Server) -> Visitor:
    visitor = visit(f"{server.url}/#complete")
    visitor.expect_ready()
    expect(visitor.see("#drawing-hint")).to_be_visible()
    return visitor


def test_a_drawing_is_completed_below_the_kept_rows(drawing: Visitor, client: httpx.Client) -> None:
    stroke(drawing, (0.3, 0.2), (0.7, 0.2), (0.5, 0.8))
    expect(drawing.see("#drawing-hint")).to_be_hidden()
    complete(drawing, 3, seed=5)
    before = drawing.pixels("#drawing")
    original, given, *completions = shown(drawing)
    drawn = original[..., 0]
    assert not drawn.all()
    assert ((drawn > 0) & (drawn < 255)).any()  # strokes are anti-aliased
    assert (np.array(completions)[..., 0] == completed(client, drawn, n=3, seed=5, keep_rows=3)).all()
    assert (given[:3] == original[:3]).all()
    assert (given[3:, :, 3] == 0).all()

    # A completion is opened and completed in turn; Ctrl+Z takes that back, and a reload has the completions again.
    drawing.see("#results button").nth(2).click()
    expect(drawing.see("#viewer-title")).to_have_text("Completion 2")
    drawing.see("#viewer-complete").click()
    assert not (drawing.pixels("#drawing") == before).all()
    drawing.page.keyboard.press("Control+z")
    assert (drawing.pixels("#drawing") == before).all()
    drawing.page.reload()
    drawing.expect_done(3, "#complete-meter")
    assert (np.array(shown(drawing)) == (original, given, *completions)).all()


def test_an_image_of_the_models_size_keeps_its_values(drawing: Visitor, client: httpx.Client) -> None:
    upload(drawing, encode(picture()))
    drawing.see("#rows").fill("5")
    complete(drawing, 2, seed=5)
    original, _, *completions = shown(drawing)
    assert (original[..., 0] == picture()).all()
    assert (np.array(completions)[..., 0] == completed(client, picture(), n=2, seed=5, keep_rows=5)).all()
    fields = {"image": text(encode(picture())), "n": 2, "seed": 5, "keep_rows": 5}
    film = client.post("/v1/images/edits", json=fields, headers={"accept": "image/gif"})
    assert drawing.saved("#complete-film").read_bytes() == film.content


def test_a_larger_image_is_scaled_and_a_transparent_one_is_on_white(drawing: Visitor) -> None:
    transparent = BytesIO()
    Image.new("RGBA", (50, 70)).save(transparent, "PNG")
    upload(drawing, transparent.getvalue())
    assert (drawing.pixels("#drawing")[0, 0, :3] == 255).all()
    expect(drawing.see("#dark-on-white")).to_be_visible()
    drawing.see("#invert").click()
    expect(drawing.see("#dark-on-white")).to_be_hidden()
    large = np.kron(picture(), np.ones((20, 20), np.uint8))
    upload(drawing, encode(large))
    complete(drawing, 1, seed=5)
    assert np.abs(shown(drawing)[0][..., 0].astype(int) - picture()).mean() < 16


def test_pixels_hidden_with_the_brush_are_painted(drawing: Visitor, client: httpx.Client) -> None:
    upload(drawing, encode(picture()))
    drawing.see("#rows").fill(str(HEIGHT))
    drawing.page.get_by_text("Hide", exact=True).click()
    stroke(drawing, (0.5, 0.5), (0.5, 0.5))
    complete(drawing, 2, seed=5)
    _, given, *completions = shown(drawing)
    known = given[..., 3] == 255
    assert 0 < (~known).sum() < known.size
    mask = text(encode(np.where(known, 255, 0).astype(np.uint8)))
    images = np.array(completions)[..., 0]
    assert (images == completed(client, picture(), n=2, seed=5, mask=mask)).all()
    assert (images[:, known] == picture()[known]).all()


def test_overlays_show_known_pixels_and_the_likelihood_of_every_pixel(drawing: Visitor, client: httpx.Client) -> None:
    upload(drawing, encode(picture()))
    complete(drawing, 2, seed=5)
    drawing.see("#overlay >> text=Known pixels").click()
    over = drawing.pixels(drawing.see("#results .over").nth(2))
    assert (over[:3, :, 3] > 0).all()
    assert (over[3:, :, 3] == 0).all()
    with drawing.page.expect_response("**/v1/images/likelihoods") as response:
        drawing.see("text=Likelihood").click()
    expect(drawing.see("#legend")).to_be_visible()
    body = {"image": text(encode(picture())), "per_pixel": True}
    bits = client.post("/v1/images/likelihoods", json=body).json()["data"][0]["per_pixel"]
    assert response.value.json()["data"][0]["per_pixel"] == bits
    expect(drawing.see("#results")).to_have_attribute("data-over", "likelihood")
    brightness = drawing.pixels(drawing.see("#results .over").first)[..., :3].sum(-1).reshape(-1)
    order = np.minimum(np.array(bits).reshape(-1), 8).argsort()
    assert (np.diff(brightness[order].astype(int)) >= -3).all()
    expect(drawing.see("#outlier-note")).to_be_hidden()  # a model without the bits of its test images


def test_an_image_of_the_gallery_is_completed(visit: Visit, server: Server) -> None:
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


def test_the_keyboard_draws_and_a_reload_keeps_the_drawing(drawing: Visitor) -> None:
    drawing.see("#drawing").focus()
    for key in ("Space", "ArrowRight", "ArrowDown", "Space", "ArrowLeft", "Tab"):
        drawing.page.keyboard.press(key)
    expect(drawing.see("#drawing-hint")).to_be_hidden()
    drawn = drawing.pixels("#drawing")
    assert drawn[..., 0].any()
    drawing.page.reload()
    expect(drawing.see("#drawing-hint")).to_be_hidden()
    assert (drawing.pixels("#drawing") == drawn).all()
    drawing.see("#undo").click()
    expect(drawing.see("#drawing-hint")).to_be_visible()


def test_an_image_without_hidden_pixels_and_a_file_without_an_image_are_errors(drawing: Visitor) -> None:
    drawing.see("#rows").fill(str(HEIGHT))
    drawing.see("#complete-form .primary").click()
    drawing.expect_notice("No pixel is hidden. Keep fewer rows, or hide some pixels.")
    expect(drawing.see("#rows")).to_be_focused()
    drawing.see("#upload").set_input_files({"name": "one.txt", "mimeType": "text/plain", "buffer": b"text"})
    drawing.expect_notice("The browser cannot read one.txt as an image.")


def test_an_evaluated_model_of_colour_pixels_notes_a_picture_unlike_its_test_images(
    visit: Visit, classified: Server, classified_client: httpx.Client
) -> None:
    visitor = visit(f"{classified.url}/?model=pixels#complete")
    expect(visitor.see("#colour-field")).to_be_visible()
    image = picture(4, 5, 3)
    upload(visitor, encode(image))
    visitor.see("#rows").fill("2")
    complete(visitor, 2, seed=5)
    images = np.array(shown(visitor)[2:])[..., :3]
    assert (images == completed(classified_client, image, model="pixels", n=2, seed=5, keep_rows=2)).all()
    expect(visitor.see("#outlier-note")).to_contain_text("The original is unlike the images that the model was")
    visitor.see("text=Likelihood").click()
    expect(visitor.see("#results")).to_have_attribute("data-over", "likelihood")
    drawn = visitor.pixels(visitor.see("#results .over").first)[..., :3].sum(-1).reshape(-1)
    body = {"model": "pixels", "image": text(encode(image)), "per_pixel": True}
    bits = classified_client.post("/v1/images/likelihoods", json=body).json()["data"][0]["per_pixel"]
    order = np.minimum(np.mean(bits, axis=-1).reshape(-1), 8).argsort()
    assert (np.diff(drawn[order].astype(int)) >= -3).all()
    expect(visitor.see("#outlier-note")).to_have_text(
        "The original is unlike the images that the model was tested on (p ≤ 0.0040), so its completions may be poor."
        f" It has {np.mean(bits):.2f} bits per dimension; 99 % of those have 1.20 to 1.80."
    )
