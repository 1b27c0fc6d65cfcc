"""On your device, in a real browser: the model comes when it is asked for, and paints what the server paints."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Route, expect

from scanline.model.formats.checkpoint import save_model
from tests.support import small_models
from tests.support.page_visitor import Visitor
from tests.support.running_server import Server, serve
from tests.support.tiny import COLOUR, GREY

Visit = Callable[..., Visitor]
IMAGES = 12
SHARE = re.compile(rf"The server: [\d,]+ pixels/s · (\d+) of {IMAGES} images are the same · ([\d.]+) % of the bytes")
MODELS = {"grey": GREY, "colour": COLOUR, "without-start": small_models.config(**small_models.VARIANTS["authors"])}
LONG = small_models.config(height=100, width=100)  # there is time to stop it
LARGE = re.compile(r"/onnx$|\.gz$|/worker-")  # what may be fetched only when it is asked for
LARGEST = str(2**63 - 1)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of MODELS and LONG."""
    shelf = tmp_path_factory.mktemp("device")
    for name, config in {**MODELS, "long": LONG}.items():
        save_model(small_models.model(config), shelf / name)
    others = [option for name in ("colour", "without-start", "long") for option in ("--model", str(shelf / name))]
    with serve(shelf / "grey", *others, "--slots", "16") as server:
        yield server


def offered(visitor: Visitor) -> Visitor:
    """Who has been told how large the download is."""
    expect(visitor.see("#device-go")).to_have_text(re.compile(r"^Download \d+\.\d MB and paint$"))
    return visitor


def paint(visitor: Visitor, seed: str = LARGEST) -> None:
    """Paints to the end."""
    visitor.see("#device-count").fill(str(IMAGES))
    visitor.see("#device-seed").fill(seed)
    visitor.see("#device-go").click()
    done = re.compile(rf"^Seed {seed} · 100 % · [\d,]+ pixels/s on this device$")
    expect(visitor.see("#device-line")).to_have_text(done)
    expect(visitor.see("#device-compare")).to_be_visible()
    expect(visitor.see("#device-gallery canvas")).to_have_count(IMAGES)


def compared(visitor: Visitor) -> tuple[int, float]:
    """Images, and per cent of the bytes, that the server paints alike."""
    visitor.see("#device-compare").click()
    expect(visitor.see("#device-verdict")).to_have_text(SHARE)
    found = SHARE.search(visitor.see("#device-verdict").inner_text())
    assert found is not None
    return int(found[1]), float(found[2])


@pytest.mark.parametrize("model", MODELS)
def test_it_paints_what_the_server_paints(visit: Visit, several: Server, model: str) -> None:
    """Up to rounding, which may tip a byte here and there."""
    visitor = offered(visit(f"{several.url}/?model={model}#device"))
    paint(visitor)
    images, share = compared(visitor)
    assert images >= IMAGES - 1
    assert share > 95
    expect(visitor.see("#device-gallery .differs")).to_have_count(IMAGES - images)


def test_several_workers_share_the_images(visit: Visit, several: Server) -> None:
    visitor = visit("about:blank")
    visitor.page.add_init_script("Object.defineProperty(navigator, 'hardwareConcurrency', { value: 4 })")
    visitor.page.goto(f"{several.url}/#device")
    paint(offered(visitor))
    assert len(visitor.page.workers) == 3
    assert compared(visitor)[0] >= IMAGES - 1


def test_nothing_is_downloaded_before_it_is_asked_for_nor_twice(visit: Visit, several: Server) -> None:
    visitor = visit("about:blank")
    asked: list[tuple[str, str]] = []
    visitor.page.on("request", lambda request: asked.append((request.method, request.url)))
    visitor.page.goto(f"{several.url}/#device")
    offered(visitor)
    assert {method for method, url in asked if LARGE.search(url)} == {"HEAD"}
    for seed in ("1", "2"):
        paint(visitor, seed)
        expect(visitor.see("#device-go")).to_have_text("Paint")
        fetched = [url for method, url in asked if method == "GET" and LARGE.search(url)]
        assert len(fetched) == 2 + len(visitor.page.workers)


def test_a_download_is_stopped(visit: Visit, several: Server) -> None:
    """One that never comes; afterwards it can be asked for again."""
    visitor = offered(visit(f"{several.url}/#device"))
    visitor.page.route("**/assets/*.gz", lambda route: route.continue_() if route.request.method == "HEAD" else None)
    visitor.see("#device-go").click()
    expect(visitor.see("#device-line")).to_contain_text(" of ")
    expect(visitor.see("#device-progress")).to_be_visible()
    visitor.see("#device-stop").click()
    expect(visitor.see("#device-stop")).to_be_hidden()
    expect(visitor.see("#notice")).to_be_hidden()
    expect(visitor.see("#device-progress")).to_be_hidden()
    assert visitor.page.workers == []
    visitor.page.unroute("**/assets/*.gz")
    paint(visitor)


def test_painting_is_stopped(visit: Visit, several: Server) -> None:
    visitor = offered(visit(f"{several.url}/?model=long#device"))
    visitor.see("#device-count").fill("64")
    visitor.see("#device-go").click()
    expect(visitor.see("#device-line")).to_contain_text("pixels/s")
    visitor.see("#device-stop").click()
    expect(visitor.see("#device-stop")).to_be_hidden()
    expect(visitor.see("#device-line")).not_to_contain_text("100 %")
    expect(visitor.see("#device-compare")).to_be_hidden()
    expect(visitor.see("#device-go")).to_have_text("Paint")


def test_another_model_leaves_nothing_behind(visit: Visit, several: Server) -> None:
    visitor = offered(visit(f"{several.url}/#device"))
    paint(visitor)
    visitor.see("#model").select_option("colour")
    offered(visitor)
    expect(visitor.see("#device-gallery canvas")).to_have_count(0)
    expect(visitor.see("#device-compare")).to_be_hidden()
    paint(visitor)
    assert compared(visitor)[0] >= IMAGES - 1


def test_a_refusal_is_said_in_its_own_words(visit: Visit, several: Server) -> None:
    visitor = offered(visit(f"{several.url}/#device"))
    error = {"message": "There is no model of that name.", "type": "x", "param": None, "code": "model_not_found"}

    def refuse(route: Route) -> None:
        if route.request.method == "HEAD":
            route.continue_()
        else:
            route.fulfill(status=404, json={"error": error})

    visitor.page.route("**/onnx", refuse)
    visitor.see("#device-go").click()
    visitor.expect_notice(error["message"])
    expect(visitor.see("#device-go")).to_be_enabled()
    visitor.forgive("404")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("count", "65", "The number of images is a whole number from 1 to 64."),
        ("seed", "-1", "A seed is a whole number from 0 to 9223372036854775807."),
    ],
)
def test_a_mistake_is_said_and_nothing_is_downloaded(
    visit: Visit, several: Server, field: str, value: str, said: str
) -> None:
    visitor = offered(visit(f"{several.url}/#device"))
    visitor.see(f"#device-{field}").fill(value)
    visitor.see("#device-go").click()
    visitor.expect_notice(said)
    expect(visitor.see(f"#device-{field}")).to_be_focused()
    assert visitor.page.workers == []
