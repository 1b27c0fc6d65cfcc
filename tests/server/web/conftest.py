"""A headless Chromium for the tests of the page; they are skipped if none is installed."""

import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.support import shapes, small_models
from tests.support.page.visitor import KEY, Visitor
from tests.support.server.running_server import PATIENCE, serve
from tests.support.server.shared_servers import NO_DELAY, arguments

# the first is the lightest
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
# root in a container has no sandbox and little memory to share
OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage"]
# less work
OPTIONS += [
    "--disable-gpu",
    "--in-process-gpu",
    "--renderer-process-limit=1",
    "--js-flags=--liftoff-only",
]
# a name over plain HTTP is no secure context
OPTIONS += ["--host-resolver-rules=MAP scanline.test 127.0.0.1"]

# without motion, nothing draws itself
STILL = {"reduced_motion": "reduce"}

expect.set_options(timeout=1000 * PATIENCE)


# its event loop must not run in this thread while other packages' tests run theirs
@pytest.fixture(scope="package")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=OPTIONS, timeout=1000 * PATIENCE
        )
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def context(browser):
    """What the pages without options of their own share, such as a cache of the server's files."""
    return browser.new_context(**STILL)


@pytest.fixture(scope="package")
def locked(grey_directory):
    """A server that requires the API key KEY."""
    with serve(
        grey_directory, "--slots", "8", "--api-key", KEY, "--max-images-per-request", "8"
    ) as server:
        yield server


@pytest.fixture(scope="package")
def classified(tmp_path_factory):
    """A server of a model without classes, and of three with, of which `horse` is one; one is
    guided by default, one chooses of two, and both have a class head."""
    directory = tmp_path_factory.mktemp("classified")
    grey = {"height": 7, "width": 5, "layers": 1}
    for name, changes in {
        "grey": {**grey, "classes": (("7", "seven"), ("horse",))},
        "pixels": {**small_models.VARIANTS["pixels"], "classes": (("dog",), ("horse",))},
        "plain": grey,
        "guided": {**grey, "predicts": "categorical", "classes": (("7", "seven"), ("horse",))},
    }.items():
        has_head = name in ("guided", "pixels")
        shapes.save(directory / name, small_models.config(**changes), class_head=has_head)
    shapes.evaluate(directory / "pixels")
    (directory / "pixels" / "generation_config.json").write_text('{"best_of": 2}')
    (directory / "guided" / "generation_config.json").write_text(
        '{"class": "any", "guidance": 2, "temperature": 0.97}'
    )
    models = (f"--model={directory / name}" for name in ("pixels", "plain", "guided"))
    with serve(directory / "grey", *models, "--slots", "64", *arguments(NO_DELAY)) as server:
        yield server


@pytest.fixture(scope="package")
def api(classified):
    with classified.client() as client:
        yield client


@pytest.fixture
def visit(browser, context, tmp_path):
    """Opens a page, and waits until so many images are `done`; the test fails at its end if
    the console has shown an error that it did not expect. A page with options, such as a
    theme, has a context of its own."""
    visitors = []

    def open_page(url, width=1280, height=800, done=0, **options):
        visitor = Visitor(
            browser.new_context(**{**STILL, **options}) if options else context, tmp_path
        )
        visitors.append(visitor)
        visitor.page.set_viewport_size({"width": width, "height": height})
        visitor.page.goto(url)
        if done:
            visitor.expect_done(done)
        return visitor

    yield open_page
    for visitor in visitors:
        visitor.page.close()
        if visitor.page.context is not context:
            visitor.page.context.close()
        assert visitor.errors == []
