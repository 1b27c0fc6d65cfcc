"""Complete, in a real browser: drawn and uploaded images, hidden pixels,
particles, and the API's completions.
"""

from io import BytesIO
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.support.page.visitor import Visitor, painted
from tests.support.pictures import encode, film_frames, noise, text
from tests.support.pictures import painted as images_of
from tests.support.server.json_requests import EDITS, IMAGE, LIKELIHOODS, post

HEIGHT = 7
N = 3
SEED = 5


def upload(visitor: Visitor, data: bytes) -> None:
    visitor.see("#upload").set_input_files(
        {"name": "one.png", "mimeType": "image/png", "buffer": data}
    )
    visitor.expect_hidden("#drawing-hint")


def complete(visitor: Visitor, n: int = N, images: int = 0) -> None:
    """Complete with SEED, to the end of so many images."""
    visitor.unfold()
    visitor.fill("#complete-count", str(n))
    visitor.fill("#complete-seed", str(SEED))
    visitor.click("#complete-form .primary")
    visitor.expect_done(images or n, "#complete-meter")


def shown(visitor: Visitor) -> list[np.ndarray]:
    """The original, the given pixels and the completions, [H, W, 4] each."""
    canvases = visitor.see("#results .stack canvas:first-child")
    return [visitor.pixels(canvases.nth(index)) for index in range(canvases.count())]


def completed(client: httpx.Client, image: np.ndarray, **fields: object) -> np.ndarray:
    """The completions that the API returns, [n, ...]."""
    return painted(client, "edits", image=text(encode(image)), seed=SEED, **fields)


def stroke(visitor: Visitor, *points: tuple[float, float]) -> None:
    """Draws with the mouse from point to point; x and y are fractions of the canvas."""
    box = visitor.see("#drawing").bounding_box()
    mouse = visitor.page.mouse
    for index, (x, y) in enumerate(points):
        mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        if index == 0:
            mouse.down()
    mouse.up()


def hide(visitor: Visitor) -> None:
    """Hides pixels that known ones follow."""
    visitor.fill("#rows", str(HEIGHT))
    visitor.page.get_by_text("Hide", exact=True).click()
    stroke(visitor, (0.4, 0.4), (0.6, 0.4))


def choose_particles(visitor: Visitor, particles: int) -> None:
    visitor.unfold()
    visitor.see("#particles label").get_by_text(str(particles), exact=True).click()


def mask_of(visitor: Visitor) -> str:
    """The mask of the given pixels that are shown."""
    return text(encode(np.where(shown(visitor)[1][..., 3] == 255, 255, 0).astype(np.uint8)))


def assert_bits_are_shown(visitor: Visitor, bits: np.ndarray) -> None:
    """What costs more is brighter."""
    visitor.expect_attribute("#results", "data-over", "likelihood")
    brightness = visitor.pixels(visitor.see("#results .over").first)[..., :3].sum(-1).reshape(-1)
    order = np.minimum(bits.reshape(-1), 8).argsort()
    assert (np.diff(brightness[order].astype(int)) >= -3).all()


@pytest.fixture
def drawing(visit, server):
    visitor = visit(f"{server.url}/#complete")
    visitor.expect_ready()
    visitor.expect_visible("#drawing-hint")
    return visitor


def test_a_drawing_is_completed_below_the_kept_rows(drawing, client):
    stroke(drawing, (0.3, 0.2), (0.7, 0.2), (0.5, 0.8))
    drawing.expect_hidden("#drawing-hint")
    complete(drawing)
    before = drawing.pixels("#drawing")
    original, given, *completions = shown(drawing)
    drawn = original[..., 0]
    assert not drawn.all()
    assert ((drawn > 0) & (drawn < 255)).any()  # strokes are anti-aliased
    assert (np.array(completions)[..., 0] == completed(client, drawn, n=N, keep_rows=3)).all()
    assert (given[:3] == original[:3]).all()
    assert (given[3:, :, 3] == 0).all()

    # A completion is opened and completed in turn; Ctrl+Z takes that back, and
    # a reload has the completions again.
    drawing.see("#results button").nth(2).click()
    drawing.expect_text("#viewer-title", "Completion 2")
    drawing.click("#viewer-complete")
    assert not (drawing.pixels("#drawing") == before).all()
    drawing.press("Control+z")
    assert (drawing.pixels("#drawing") == before).all()
    drawing.page.reload()
    drawing.expect_done(N, "#complete-meter")
    assert (np.array(shown(drawing)) == (original, given, *completions)).all()


def test_the_upper_half_of_a_drawing_is_kept_until_rows_are_chosen(drawing):
    drawing.expect_text("#rows-shown", "3")
    stroke(drawing, (0.3, 0.8), (0.7, 0.8))  # rows 5 to 7
    drawing.expect_text("#rows-shown", "5")
    drawing.fill("#rows", "2")
    stroke(drawing, (0.3, 0.2), (0.7, 0.2))
    drawing.expect_text("#rows-shown", "2")
    drawing.click("#clear")
    drawing.expect_text("#rows-shown", "3")


def test_a_drawing_that_follows_completions_outlives_a_reload(drawing):
    stroke(drawing, (0.3, 0.2), (0.7, 0.2))
    complete(drawing)
    stroke(drawing, (0.5, 0.2), (0.5, 0.8))
    drawn = drawing.pixels("#drawing")
    drawing.page.reload()
    drawing.expect_ready()
    drawing.expect_hidden("#drawing-hint")
    assert (drawing.pixels("#drawing") == drawn).all()
    drawing.expect_hidden("#results")


def test_what_is_erased_is_not_drawn(drawing):
    drawing.fill("#rows", str(HEIGHT))
    stroke(drawing, (0.1, 0.2), (0.9, 0.2))
    drawn = drawing.pixels("#drawing")
    drawing.see(".tools").get_by_text("Erase").click()
    stroke(drawing, (0.1, 0.2), (0.3, 0.2))
    erased = drawing.pixels("#drawing")
    assert not erased[10, :20, 0].any()
    assert (erased[10, -10:] == drawn[10, -10:]).all()
    stroke(drawing, (0.1, 0.2), (0.9, 0.2))
    drawing.expect_visible("#drawing-hint")  # nothing is left


def test_an_image_of_the_models_size_keeps_its_values(drawing, client):
    upload(drawing, encode(IMAGE))
    drawing.fill("#rows", "5")
    complete(drawing)
    original, _, *completions = shown(drawing)
    assert (original[..., 0] == IMAGE).all()
    assert (np.array(completions)[..., 0] == completed(client, IMAGE, n=N, keep_rows=5)).all()
    fields = {"image": text(encode(IMAGE)), "n": N, "seed": SEED, "keep_rows": 5}
    film = client.post(EDITS, json=fields, headers={"accept": "image/gif"})
    # the recipe of the page's has the mask in place of the rows
    saved, durations = film_frames(drawing.saved("#complete-film").read_bytes())
    frames, theirs = film_frames(film.content)
    assert durations == theirs
    assert (saved == frames).all()


def test_a_larger_image_is_scaled_and_a_transparent_one_is_on_white(drawing):
    transparent = BytesIO()
    Image.new("RGBA", (50, 70)).save(transparent, "PNG")
    upload(drawing, transparent.getvalue())
    assert (drawing.pixels("#drawing")[0, 0, :3] == 255).all()
    drawing.expect_visible("#dark-on-white")
    drawing.click("#invert")
    drawing.expect_hidden("#dark-on-white")
    upload(drawing, encode(np.kron(IMAGE, np.ones((20, 20), np.uint8))))
    complete(drawing, 1)
    assert np.abs(shown(drawing)[0][..., 0].astype(int) - IMAGE).mean() < 16


def test_overlays_show_known_pixels_and_the_likelihood_of_every_pixel(drawing, client):
    upload(drawing, encode(IMAGE))
    complete(drawing, 2)
    drawing.click("#overlay >> text=Known pixels")
    over = drawing.pixels(drawing.see("#results .over").nth(2))
    assert (over[:3, :, 3] > 0).all()
    assert (over[3:, :, 3] == 0).all()
    with drawing.page.expect_response("**/v1/images/likelihoods") as response:
        drawing.click("text=Likelihood")
    drawing.expect_visible("#legend")
    bits = post(client, LIKELIHOODS, image=text(encode(IMAGE)), per_pixel=True)["data"][0][
        "per_pixel"
    ]
    assert response.value.json()["data"][0]["per_pixel"] == bits
    assert_bits_are_shown(drawing, np.array(bits))
    # a model without the bits of its test images
    drawing.expect_hidden("#outlier-note")


def test_an_image_of_the_gallery_is_completed(visit, server):
    visitor = visit(f"{server.url}/?seed=3&n=4", done=4)
    images = visitor.saved_images()
    visitor.see(".tile").nth(1).click()
    visitor.click("#viewer-complete")
    visitor.expect_focused("#tab-complete")
    complete(visitor, 1)
    assert (shown(visitor)[0][..., 0] == images[1]).all()
    visitor.see(".thumbnail").nth(2).click()
    complete(visitor, 2)
    assert (shown(visitor)[0][..., 0] == images[2]).all()


def test_the_keyboard_draws_and_a_reload_keeps_the_drawing(drawing):
    drawing.see("#drawing").focus()
    for key in ("Space", "ArrowRight", "ArrowDown", "Space", "ArrowLeft", "Tab"):
        drawing.press(key)
    drawing.expect_hidden("#drawing-hint")
    drawn = drawing.pixels("#drawing")
    assert drawn[..., 0].any()
    drawing.page.reload()
    drawing.expect_ready()
    drawing.expect_hidden("#drawing-hint")
    assert (drawing.pixels("#drawing") == drawn).all()
    drawing.click("#undo")
    drawing.expect_visible("#drawing-hint")


def test_an_image_without_hidden_pixels_and_a_file_without_an_image_are_errors(drawing):
    drawing.fill("#rows", str(HEIGHT))
    drawing.click("#complete-form .primary")
    drawing.expect_notice("No pixel is hidden. Keep fewer rows, or hide some pixels.")
    drawing.expect_focused("#rows")
    drawing.see("#upload").set_input_files(
        {"name": "one.txt", "mimeType": "text/plain", "buffer": b"text"}
    )
    drawing.expect_notice("The browser cannot read one.txt as an image.")


def test_colours_unlike_the_test_images(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=pixels#complete")
    visitor.expect_visible("#colour-field")
    image = noise(4, 5, 3)
    upload(visitor, encode(image))
    visitor.fill("#rows", "2")
    complete(visitor)
    images = np.array(shown(visitor)[2:])[..., :3]
    assert (images == completed(api, image, model="pixels", n=N, keep_rows=2)).all()
    visitor.expect_contains("#outlier-note", "The original is unlike the images that the model was")
    visitor.click("text=Likelihood")
    body = {"model": "pixels", "image": text(encode(image)), "per_pixel": True}
    bits = np.array(post(api, LIKELIHOODS, **body)["data"][0]["per_pixel"])
    assert_bits_are_shown(visitor, bits.mean(axis=-1))
    visitor.expect_text(
        "#outlier-note",
        "The original is unlike the images that the model was tested on (p ≤ 0.0040), so its completions may be poor."
        f" It has {bits.mean():.2f} bits per dimension; 99 % of those have 1.20 to 1.80.",
    )


def edited(client: httpx.Client, mask: str, **fields: object) -> dict[str, Any]:
    """The API's answer to the request of a hidden picture."""
    return post(client, EDITS, image=text(encode(IMAGE)), mask=mask, n=N, seed=SEED, **fields)


def captions(answer: dict[str, Any], *, effective: bool) -> list[str]:
    """What the page says below each completion."""
    lines = []
    for one in answer["data"]:
        line = f"{one['bits_per_dim']:.2f}\nevidence {one['evidence_bits']:.1f}"
        lines.append(f"{line}\neffective {one['effective_particles']:.1f}" if effective else line)
    return lines


@pytest.fixture
def hidden(drawing):
    """A picture with a hole that known pixels follow."""
    upload(drawing, encode(IMAGE))
    hide(drawing)
    return drawing


def test_hidden_pixels_are_painted_by_the_particles_of_the_api(hidden, client):
    complete(hidden)
    answer = edited(client, mask_of(hidden))
    known = shown(hidden)[1][..., 3] == 255
    assert 0 < (~known).sum() < known.size
    images = np.array(shown(hidden)[2:])[..., 0]
    assert (images == images_of(answer)).all()
    assert (images[:, known] == IMAGE[known]).all()
    assert hidden.see("#results figcaption").all_inner_texts()[2:] == captions(
        answer, effective=True
    )
    hidden.expect_visible("#particles-legend")
    name = hidden.see("#results .stack canvas:first-child").nth(2).get_attribute("aria-label")
    assert f"evidence {answer['data'][0]['evidence_bits']:.1f} bits" in str(name)


def test_completions_with_one_particle_stand_above_those_with_several(hidden, client):
    choose_particles(hidden, 4)
    hidden.see("#particles-compare").check()
    complete(hidden, images=2 * N)
    groups = hidden.see("#results [role=group]").evaluate_all(
        "all => all.map(({ariaLabel}) => ariaLabel)"
    )
    assert groups == ["1 particle", "4 particles"]
    answers = [edited(client, mask_of(hidden), particles=count) for count in (1, 4)]
    images = np.array(shown(hidden))[2:, ..., 0]
    assert (images == np.concatenate([images_of(answer) for answer in answers])).all()
    expected = captions(answers[0], effective=False) + captions(answers[1], effective=True)
    assert hidden.see("#results figcaption").all_inner_texts()[2:] == expected
    means = [np.mean([one["evidence_bits"] for one in answer["data"]]) for answer in answers]
    labels = [
        f"{group} · mean evidence {mean:.1f} bits"
        for group, mean in zip(groups, means, strict=True)
    ]
    assert hidden.see("#results .label").all_inner_texts() == labels
    tops = {round(figure.bounding_box()["y"]) for figure in hidden.see("#results figure").all()}
    assert len(tops) == 3


def test_particles_are_closed_where_nothing_known_follows_a_hidden_pixel(drawing):
    expect(drawing.see("#particles input").first).to_be_disabled()
    drawing.expect_contains("#particles-hint", "only where known pixels follow hidden ones")
    hide(drawing)
    expect(drawing.see("#particles input").first).to_be_enabled()
    drawing.expect_contains("#particles-hint", "painted by that many particles")
    drawing.click("#uncover")
    expect(drawing.see("#particles input").first).to_be_disabled()
    drawing.fill("#rows", "3")
    complete(drawing, 2)
    assert "effective" not in drawing.see("#results").inner_text()
