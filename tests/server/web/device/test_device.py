"""On your device, in a real browser: the model is downloaded on request
and paints what the server paints.
"""

import asyncio
import re
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import load_config, read_info
from scanline.model.sampling.kernel_file import kernel_file
from scanline.server.api.weights_export import Exported, Exports
from tests.server.web.test_complete import SEED, stroke
from tests.server.web.test_compress import SAME
from tests.server.web.test_live import wait_for_completions
from tests.server.web.test_reading import says_of
from tests.support import small_models
from tests.support.page.visitor import Visitor
from tests.support.pictures import encode, text
from tests.support.server.json_requests import CLASSIFICATIONS, GENERATIONS, post
from tests.support.server.running_server import Server, serve

IMAGES = 12
EQUAL = re.compile(
    rf"Server: [\d,]+ pixels/s · (\d+) of {IMAGES} images equal · ([\d.]+) % of bytes equal"
)
CLASSES = (("7", "seven"), ("horse",))
MODELS = {
    "colour": small_models.config(channels=3),
    "without-start": small_models.config(**small_models.VARIANTS["authors"]),
    "categorical": small_models.config(**small_models.VARIANTS["strokes"]),
    "grey-pixels": small_models.config(**small_models.VARIANTS["grey pixels"]),
    "pixels": small_models.config(**small_models.VARIANTS["waves of pixels"]),
    "classes": small_models.config(**small_models.VARIANTS["strokes"], classes=CLASSES),
    "classes-of-pixels": small_models.config(**small_models.VARIANTS["pixels"], classes=CLASSES),
    "long": small_models.config(height=100, width=100),  # takes long enough to be stopped
}
OTHERS = ("colour", "without-start", "categorical", "grey-pixels", "classes", "classes-of-pixels")
LARGE = re.compile(r"/weights$|\.wasm$|/worker-")  # downloaded on request only
ALL = (IMAGES, 100.0)
LARGEST = str(2**63 - 1)
BARS = 10
# On the canvas: a 7 that stands in a corner and is completed to something else, and a scribble.
STROKES = (
    ((0.55, 0.1), (0.9, 0.1), (0.7, 0.5)),
    ((0.55, 0.3), (0.9, 0.3)),
    ((0.1, 0.6), (0.5, 0.9), (0.2, 0.9), (0.4, 0.6), (0.1, 0.95), (0.9, 0.7)),
)


def export_in_a_thread() -> None:
    """Export without the child, which imports torch for seconds; routes/test_weights.py has it."""

    async def export(exports, directory, precision):
        file = await asyncio.to_thread(
            lambda: kernel_file(load_model(directory), precision, read_info(directory))
        )
        return Exported(bytearray(file), f'"{directory.name}"')

    Exports._export = export


def serve_models(directory: Path, *names: str) -> AbstractContextManager[Server]:
    for name in names:
        save_model(small_models.model(MODELS[name]), directory / name)
    others = (f"--model={directory / name}" for name in names[1:])
    return serve(directory / names[0], *others, "--slots", "16", prepare=export_in_a_thread)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A server of the models that are not left to a sweep."""
    with serve_models(tmp_path_factory.mktemp("device"), "pixels", "long") as server:
        yield server


@pytest.fixture(scope="module")
def all_models(tmp_path_factory):
    with serve_models(tmp_path_factory.mktemp("device"), *MODELS) as server:
        yield server


def wait_for_size(visitor: Visitor) -> Visitor:
    """Waits until the button shows the size of the download."""
    visitor.expect_text("#device-go", re.compile(r"^Download \d+\.\d MB and paint$"))
    return visitor


def paint(visitor: Visitor, seed: str = LARGEST) -> None:
    """Paints to the end."""
    visitor.fill("#device-count", str(IMAGES))
    visitor.fill("#device-seed", seed)
    visitor.click("#device-go")
    done = re.compile(
        rf"^Seed {seed} · 100 % · [\d,]+ pixels/s in this browser · \d+\.\d+ bits/dim$"
    )
    visitor.expect_text("#device-meter", done)
    visitor.expect_visible("#device-compare")
    visitor.expect_count("#device-gallery canvas", IMAGES)


def compare(visitor: Visitor) -> tuple[int, float]:
    """The number of images and the percentage of bytes that are equal on the server."""
    visitor.click("#device-compare")
    visitor.expect_text("#device-status", EQUAL)
    ((images, percentage),) = EQUAL.findall(visitor.see("#device-status").inner_text())
    return int(images), float(percentage)


def test_a_model_of_pixels_is_painted_after_a_download_was_stopped_and_one_broke(visit, models):
    visitor = wait_for_size(visit(f"{models.url}/?model=pixels#device"))
    visitor.page.route(
        "**/weights",
        lambda route: route.continue_() if route.request.method == "HEAD" else None,
    )
    visitor.click("#device-go")
    visitor.expect_contains("#device-meter", " of ")
    visitor.expect_visible("#device-progress")
    visitor.click("#device-stop")
    visitor.expect_hidden("#device-stop")
    visitor.expect_hidden("#notice")
    visitor.expect_hidden("#device-progress")
    assert visitor.page.workers == []
    visitor.page.unroute("**/weights")
    broken = []

    def break_once(route):
        if broken or route.request.method == "HEAD":
            return route.continue_()
        broken.append(route)
        return route.abort("connectionreset")

    visitor.page.route("**/weights", break_once)
    paint_as_the_server(visitor, models, "pixels")
    assert broken
    visitor.expect_hidden("#notice")
    visitor.expect_errors("ERR_CONNECTION_RESET")
    follow_a_drawing(visitor, models)


def follow_a_drawing(visitor: Visitor, server: Server) -> None:
    """Completions of a drawing, painted in this browser after each stroke:
    those of the API with one particle.
    """
    visitor.click("#tab-complete")
    visitor.unfold()
    visitor.fill("#complete-seed", str(SEED))
    visitor.click("#live-by >> text=in this browser")
    with server.client() as client:
        for end in (0.4, 0.2):
            stroke(visitor, (0.3, 0.1), (0.7, end))
            wait_for_completions(visitor, client, 0.9, colour=True, model="pixels")


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_model_is_painted(visit, all_models, name):
    """Without a start token; by pixels, grey and colour, whose bytes are one step."""
    paint_as_the_server(visit(f"{all_models.url}/?model={name}#device"), all_models, name)


def paint_as_the_server(visitor: Visitor, server: Server, name: str) -> None:
    """Paints and compares: all bytes are equal; their bits are the API's."""
    visitor.expect_value("#model", name)
    wait_for_size(visitor)
    paint(visitor)
    assert compare(visitor) == ALL
    visitor.expect_count("#device-gallery .differs", 0)
    fields = {
        "model": name,
        "n": IMAGES,
        "seed": int(LARGEST),
        "class": "any" if MODELS[name].classes else None,
    }
    with server.client() as client:
        expected = np.mean(
            [image["bits_per_dim"] for image in post(client, GENERATIONS, **fields)["data"]]
        )
    shown = visitor.see("#device-meter").inner_text().split(" · ")[-1]
    assert float(shown.removesuffix(" bits/dim")) == pytest.approx(expected, abs=0.0006)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["classes", "classes-of-pixels"])
def test_images_of_a_class_are_painted(visit, all_models, model):
    """Those of another class are others, and so are those of none; where the
    class is drawn, each is one of them.
    """
    visitor = visit(f"{all_models.url}/?model={model}#device")
    visitor.expect_value("#model", model)
    visitor.unfold()
    images = []
    for name in ("none", "7", "horse", "any"):
        visitor.see("#device-class label").get_by_text(name, exact=True).click()
        if not images:
            wait_for_size(visitor)
        paint(visitor)
        assert compare(visitor) == ALL
        images.append(
            [
                visitor.pixels(canvas).tobytes()
                for canvas in visitor.see("#device-gallery canvas").all()
            ]
        )
    assert not set(images[0]) & set(images[1])
    assert not set(images[1]) & set(images[2])
    assert (
        sum(image in pair for image, *pair in zip(images[3], images[1], images[2], strict=True))
        == IMAGES
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pixels", *OTHERS])
def test_codes_are_made_and_painted_in_the_browser(visit, all_models, name):
    """From a model that was downloaded."""
    visitor = visit(f"{all_models.url}/?model={name}#device", reduced_motion="reduce")
    paint(wait_for_size(visitor))
    visitor.click("#tab-compress")
    visitor.expect_text("#coded-status", SAME)
    by_the_server = visitor.see("#code-text").input_value()
    visitor.click("#coded-by >> text=in this browser")
    visitor.expect_text("#coded-status", SAME)
    assert visitor.see("#code-text").input_value() == by_the_server
    files = [saved(visitor, by) for by in ("in this browser", "by the server")]
    assert files[0] == files[1]
    visitor.click("#coded-by >> text=in this browser")
    visitor.expect_text("#coded-status", SAME)
    visitor.see("#bits").focus()
    visitor.press("Space")
    visitor.expect_contains("#coded-status", "another picture from row 1, column 1 on.")

    # Its link opens with the server's weights, which are the same.
    visitor.page.reload()
    visitor.expect_contains("#coded-status", "The link is this picture: its code of ")


def saved(visitor: Visitor, by: str) -> bytes:
    """Returns the file of the code that is made there."""
    visitor.click(f"#coded-by >> text={by}")
    visitor.expect_text("#coded-status", SAME)
    with visitor.page.expect_download() as download:
        visitor.click("#code-save")
    return Path(download.value.path()).read_bytes()


@pytest.mark.compared("pictures of shipped models, guided, in 8 bits", "the server", "Chromium")
@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_the_shipped_models_are_painted_guided_and_in_8_bits(visit, name, compared):
    with serve(zoo.find(name), "--precision", "int8", prepare=export_in_a_thread) as server:
        visitor = wait_for_size(visit(f"{server.url}/#device"))
        visitor.fill("#device-guidance", "2.5")
        visitor.fill("#device-temperature", "0.9")
        paint(visitor, "7")
        assert compare(visitor) == ALL
    compared(bytes(IMAGES * load_config(zoo.find(name)).bytes))


@pytest.mark.parametrize(
    "name",
    [
        "mnist-small",
        pytest.param("letters-small", marks=pytest.mark.slow),
        pytest.param("cifar10-small", marks=pytest.mark.slow),
    ],
)
def test_drawings_are_read_in_the_browser_as_the_api_reads_them(visit, name):
    """By the class head, at int8, as they stand in the model's frame."""
    asked: list[str] = []
    with (
        serve(zoo.find(name), "--precision", "int8", prepare=export_in_a_thread) as server,
        server.client() as client,
    ):
        visitor = wait_for_size(visit(f"{server.url}/#device", reduced_motion="reduce"))
        visitor.page.on("request", lambda request: asked.append(request.url))
        visitor.fill("#device-count", "1")
        visitor.click("#device-go")
        visitor.expect_visible("#device-compare")
        visitor.click("#tab-complete")
        visitor.unfold()
        visitor.see("#rows").fill(visitor.see("#rows").get_attribute("max") or "")
        visitor.click("#live-by >> text=in this browser")
        for points in STROKES:
            stroke(visitor, *points)
            drawn = visitor.pixels("#drawing")[5::10, 5::10, :3]
            image = drawn if name == "cifar10-small" else drawn[..., 0]
            (answer,) = post(client, CLASSIFICATIONS, image=text(encode(image)))["data"]
            visitor.expect_text("#reading-says", says_of(answer))
            if answer["class"] is None:
                continue
            shares = [*answer["posterior"].values()]
            if len(shares) > BARS:
                shares = sorted(shares, reverse=True)[:BARS]
            bars = visitor.see("#reading-bars .visually-hidden")
            expect(bars).to_have_text([f"{100 * share:.1f} %" for share in shares])
        assert not [url for url in asked if url.endswith("/classifications")]


def test_workers_share_the_images_and_one_download_on_request(visit, models):
    visitor = visit("about:blank")
    visitor.page.add_init_script(
        "Object.defineProperty(navigator, 'hardwareConcurrency', { value: 3 })"
    )
    requests = []
    visitor.page.on("request", lambda request: requests.append((request.method, request.url)))
    visitor.page.goto(f"{models.url}/#device")
    wait_for_size(visitor)
    assert {method for method, url in requests if LARGE.search(url)} == {"HEAD"}
    for seed in ("1", LARGEST):
        paint(visitor, seed)
        visitor.expect_text("#device-go", "Paint")
        assert len(visitor.page.workers) == 2
        fetched = [url for method, url in requests if method == "GET" and LARGE.search(url)]
        assert len(fetched) == 2 + 2  # workers, kernel and weights
    assert compare(visitor) == ALL
    first = visitor.pixels("#device-gallery canvas >> nth=0")
    visitor.click("#device-link")
    visitor.fill("#device-seed", "")
    visitor.press("Control+V")
    visitor.page.goto(visitor.see("#device-seed").input_value())
    visitor.expect_done(IMAGES)
    assert (visitor.saved_images()[0] == first[..., :3]).all()


def test_painting_can_be_stopped(visit, models):
    visitor = wait_for_size(visit(f"{models.url}/?model=long#device"))
    visitor.fill("#device-count", "64")  # so many that it is not done before it is stopped
    visitor.click("#device-go")
    visitor.expect_contains("#device-meter", "pixels/s")
    visitor.click("#device-stop")
    visitor.expect_hidden("#device-stop")
    expect(visitor.see("#device-meter")).not_to_contain_text("100 %")
    visitor.expect_hidden("#device-compare")
    visitor.expect_text("#device-go", "Paint")


@pytest.mark.slow
def test_another_model_resets_the_tab(visit, all_models):
    visitor = wait_for_size(visit(f"{all_models.url}/#device"))
    paint(visitor)
    for model in ("long", "without-start"):
        visitor.see("#model").select_option(model)
        wait_for_size(visitor)
        visitor.expect_count("#device-gallery canvas", 0)
        visitor.expect_hidden("#device-compare")
    paint(visitor)
    assert compare(visitor) == ALL


@pytest.mark.parametrize("before", [False, True])
def test_a_refusal_of_the_download_is_shown(visit, models, before):
    """`before` it begins: the answer to a HEAD has no body that could say so."""
    visitor = visit("about:blank")
    error = {
        "message": "There is no model of that name.",
        "type": "x",
        "param": None,
        "code": "model_not_found",
    }

    def refuse(route):
        if route.request.method == "HEAD":
            route.fulfill(status=501) if before else route.continue_()
        else:
            route.fulfill(status=501, json={"error": error})

    visitor.page.route("**/weights", refuse)
    visitor.page.goto(f"{models.url}/#device")
    if not before:
        wait_for_size(visitor).see("#device-go").click()
    visitor.expect_notice(error["message"])
    if not before:
        visitor.expect_enabled("#device-go")
    visitor.expect_errors("501")


def test_an_invalid_field_is_reported_and_nothing_is_downloaded(visit, models):
    visitor = wait_for_size(visit(f"{models.url}/#device"))
    for field, wrong, right, message in (
        ("count", "65", "4", "The number of images must be an integer from 1 to 64."),
        ("seed", "-1", "4", "The seed must be an integer from 0 to 9223372036854775807."),
    ):
        visitor.fill(f"#device-{field}", wrong)
        visitor.click("#device-go")
        visitor.expect_notice(message)
        visitor.expect_focused(f"#device-{field}")
        visitor.fill(f"#device-{field}", right)
    assert visitor.page.workers == []
