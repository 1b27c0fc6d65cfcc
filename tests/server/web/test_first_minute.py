"""The first minute on the page: nothing jumps as it loads, a phone shows pictures first, and progress is in sight."""

import pytest
from playwright.sync_api import expect

from tests.server.web.test_complete import picture
from tests.support.page.visitor import Visit, Visitor
from tests.support.pictures import encode
from tests.support.server.running_server import Server

SIZES = {"phone": (390, 844), "desktop": (1280, 800)}
SHOWN = {  # of each tab, once all is there
    "paint": "#after",
    "complete": "#thumbnails button",
    "compress": "#coded-form",
    "device": "#device-go",
    "how": "#bars figure",
}
MAX_SHIFT = 0.05
OBSERVE = """window.shift = 0; window.moved = []; new PerformanceObserver(list => {
    for (const {value, hadRecentInput, sources} of list.getEntries()) {
        if (hadRecentInput) continue;
        window.shift += value;
        window.moved.push(...sources.map(({node, previousRect, currentRect}) => (
            `${node?.id || node?.className || node?.nodeName} from ${previousRect.y} to ${currentRect.y}`)));
    }
}).observe({type: "layout-shift", buffered: true})"""
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def shift(visitor: Visitor) -> float:
    """The layout shift of the page so far, as the browser measures it."""
    visitor.page.evaluate(TWO_FRAMES)
    return visitor.page.evaluate("window.shift")


def top(visitor: Visitor, selector: str) -> float:
    """Where an element begins, in CSS pixels from the window's upper edge."""
    return visitor.see(selector).evaluate("element => element.getBoundingClientRect().top")


@pytest.mark.parametrize("size", SIZES)
def test_nothing_jumps_while_a_tab_loads(visit: Visit, classified: Server, size: str) -> None:
    visitor = visit("about:blank", *SIZES[size])
    visitor.page.add_init_script(OBSERVE)
    for tab, selector in SHOWN.items():
        visitor.page.goto("about:blank")
        visitor.page.goto(f"{classified.url}/#{tab}")
        expect(visitor.see(selector).first).to_be_visible()
        assert (found := shift(visitor)) <= MAX_SHIFT, f"{tab}: {found} {visitor.page.evaluate('window.moved')}"
    visitor.page.evaluate("document.querySelector('main').style.marginTop = '50vh'")
    assert shift(visitor) > MAX_SHIFT  # what jumps is measured


def test_a_phone_shows_pictures_first_and_scrolls_to_the_progress(visit: Visit, classified: Server) -> None:
    width, height = SIZES["phone"]
    visitor = visit(f"{classified.url}/?model=guided&n=40", width, height, reduced_motion="reduce", has_touch=True)
    visitor.expect_done(40)
    assert top(visitor, "#gallery") < height / 2
    assert top(visitor, "#paint-form") > top(visitor, "#after") > top(visitor, "#gallery")
    expect(visitor.see("#seed")).to_be_hidden()
    visitor.see("#paint-more summary").click()
    visitor.see("#seed").fill("5")
    visitor.see("#paint-form .primary").click()
    visitor.expect_done(40)
    assert 0 <= top(visitor, "#paint-meter") < top(visitor, "#gallery") < height / 2
    visitor.page.goto(f"{classified.url}/#complete")
    visitor.expect_ready()
    files = {"name": "one.png", "mimeType": "image/png", "buffer": encode(picture())}
    visitor.see("#upload").set_input_files(files)
    visitor.see("#rows").fill("3")
    visitor.see("#complete-form .primary").click()
    visitor.expect_done(8, "#complete-meter")
    assert 0 <= top(visitor, "#complete-meter") < top(visitor, "#results") < height / 2


def test_a_link_may_leave_out_the_seed(visit: Visit, classified: Server) -> None:
    visitor = visit(f"{classified.url}/?model=guided&n=3&class=horse")
    visitor.expect_done(3)
    assert "n=3&class=horse&guidance=2" in visitor.page.url
    visitor.page.goto(f"{classified.url}/?model=guided&n=2&class=none")
    visitor.expect_done(2)
    assert "class=" not in visitor.page.url
