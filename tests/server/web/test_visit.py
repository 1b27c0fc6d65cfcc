"""A visit: its first minute, a number that is written, and what one comes back
to after a restart or by a link.
"""

import re
import signal
from base64 import b64encode, urlsafe_b64encode
from os import kill

import numpy as np
import pytest
from playwright.sync_api import expect

from scanline.model.formats.checkpoint import save_model
from tests.server.web.test_complete import stroke, upload
from tests.server.web.test_compress import SAME, code_of, type_code
from tests.support import small_models
from tests.support.page.visitor import Visitor, painted
from tests.support.pictures import encode, noise
from tests.support.server.json_requests import IMAGE
from tests.support.server.running_server import Server, serve

SIZES = {"phone": (390, 844), "desktop": (1280, 800)}
SHOWN = {
    "paint": "#after",
    "complete": "#thumbnails button",
    "compress": "#coded-form",
    "device": "#device-go",
}
SHOWN |= {"how": "#screens"}  # of each tab, once all is there
MAX_SHIFT = 0.05
OBSERVE = """window.shift = 0; new PerformanceObserver(list => {
    for (const {value, hadRecentInput} of list.getEntries()) if (!hadRecentInput) window.shift += value;
}).observe({type: "layout-shift", buffered: true})"""
CHANGE = """select => {
    select.value = "plain";
    select.dispatchEvent(new Event("change"));
    return document.querySelectorAll("#live-row button:enabled, #examples:not([hidden])").length;
}"""
TOP = "element => element.getBoundingClientRect().top"
OTHER_WEIGHTS = (
    "The link was made with other weights of grey, so its code paints another picture here."
)


@pytest.fixture
def visitor(visit, server):
    visitor = visit(f"{server.url}/?seed=3&n=3#compress", reduced_motion="reduce")
    visitor.expect_text("#coded-status", SAME)
    return visitor


def choose(visitor: Visitor, field: str, name: str, content: bytes) -> None:
    visitor.see(field).set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )


def test_every_tab_goes_on_after_a_restart_of_the_server(visit, grey_directory):
    with serve(grey_directory) as server:
        port = server.url.rsplit(":", 1)[1]
        engine = server.engine
        compress, how, late = (
            visit(f"{server.url}/?seed=3&n=2#{tab}") for tab in ("compress", "how", "paint")
        )
        compress.expect_text("#coded-status", SAME)
        how.expect_visible("#screens")
        late.expect_done(2)
        kill(engine, signal.SIGSTOP)  # no answer before the server is killed
        choose(compress, "#coded-upload", "one.png", encode(IMAGE))
        how.see("#layer").dispatch_event("change")
        compress.expect_text("#coded-status", "Asking for the code of this picture.")
        for of_another in ("#coded-form", "#lengths", "#coded-place"):
            compress.expect_hidden(of_another)
        how.expect_text("#how-status", "Asking the server for the numbers of this image.")
        for process in (server.process.pid, engine):
            kill(process, signal.SIGKILL)
        late.click("#tab-compress")
        for visitor in (compress, how, late):
            visitor.expect_notice("The server cannot be reached. Retrying.")
        server.wait_until_exited()
    server = Server(grey_directory, "--port", port)
    try:
        server.wait_until_ready()
        with server.client() as client:
            compress.expect_value("#code-text", code_of(client, IMAGE).hex())
        expect(how.see("#how-status")).not_to_contain_text("Asking")
        late.expect_text("#coded-status", SAME)
        for visitor in (compress, how, late):
            visitor.expect_hidden("#notice")
            visitor.expect_errors("ERR_|WebSocket|503")
            visitor.page.close()
    finally:
        server.stop()


def test_saved_files_open_and_an_error_leaves_with_its_tab(visitor, client):
    visitor.click("#tab-paint")
    visitor.expect_done(3)
    array, archive, film, sheet = (
        visitor.saved(f"#save-{kind}") for kind in ("array", "zip", "film", "sheet")
    )
    images = np.load(array)
    visitor.click("#tab-compress")
    visitor.see("#coded-upload").set_input_files(array)
    own = visitor.see("#code-text")
    expect(own).to_have_value(code_of(client, images[0]).hex())
    for file in (array, archive, visitor.saved("#code-save")):
        choose(visitor, "#coded-upload", "other.png", encode(IMAGE))
        expect(own).to_have_value(code_of(client, IMAGE).hex())
        visitor.see("#coded-upload").set_input_files(file)
        expect(own).to_have_value(code_of(client, images[0]).hex())
    in_film = np.where(images == 254, np.uint8(255), images)  # a GIF has 255 colours
    for file, pictures in ((film, in_film), (sheet, images)):
        choose(visitor, "#coded-upload", "other.png", encode(IMAGE))
        expect(own).to_have_value(code_of(client, IMAGE).hex())
        visitor.see("#coded-upload").set_input_files(file)
        expect(own).to_have_value(code_of(client, pictures[0]).hex())
        visitor.expect_count("#coded-thumbnails button", len(images))
    choose(visitor, "#coded-upload", "noise.png", encode(noise(60, 80, 3)))
    visitor.expect_contains("#coded-status", "was cropped, shrunk to 5 \u00d7 7 and made grey.")
    choose(visitor, "#coded-upload", "one.svg", b"<svg/>")
    visitor.expect_notice("The browser cannot read one.svg as an image.")
    visitor.click("#tab-paint")
    visitor.expect_hidden("#notice")


def test_a_picture_is_in_its_link_and_a_flipped_bit_too(visitor, client, server, tmp_path):
    choose(visitor, "#coded-upload", "one.png", encode(IMAGE))
    code = code_of(client, IMAGE)
    text = urlsafe_b64encode(code).decode().rstrip("=")
    address = rf"#compress&model=grey&weights=[\w-]{{8}}&bytes={len(code)}&code={text}$"
    expect(visitor.page).to_have_url(re.compile(address))
    link = visitor.page.url
    visitor.see("#bits").focus()
    visitor.press("Space")
    expect(visitor.page).not_to_have_url(link)
    flipped = visitor.page.url
    found = visitor.pixels("#coded-painted")[..., 0]
    for address, expected in ((flipped, found), (link, IMAGE)):
        visitor.page.goto("about:blank")
        visitor.page.goto(address)
        sentence = f"The link is this picture: its code of {len(code)} bytes is in the address."
        visitor.expect_text("#coded-status", sentence)
        assert (visitor.pixels("#coded-painted")[..., 0] == expected).all()
        file = visitor.saved("#code-save").read_bytes()
        assert (painted(client, "decodings", code=b64encode(file).decode())[0] == expected).all()
    type_code(visitor, "00" * (4 * IMAGE.size + 1))
    visitor.expect_notice("No picture of this model has a code of 141 bytes.")
    visitor.page.goto(link.removesuffix(text[8:]))
    visitor.expect_notice(f"This link was cut off: it has 6 bytes of a code of {len(code)}.")
    save_model(
        small_models.model(small_models.config(height=7, width=5, layers=1), 9), tmp_path / "grey"
    )
    with serve(tmp_path / "grey") as other:
        visitor.page.goto(link.replace(server.url, other.url))
        visitor.expect_notice(OTHER_WEIGHTS)


def test_a_step_of_how_it_works_is_in_its_link(visitor, server):
    visitor.page.goto(f"{server.url}/#how&model=grey&seed=7&layer=1&head=2&step=10&screen=3")
    visitor.expect_contains("#how-place", "Step 10 of ")
    visitor.press("ArrowRight")  # without a click: the link is on a slide
    # is printed too
    visitor.expect_contains("#say-weights", "if all were equal, each would be 9.09 %")
    visitor.press("PageUp")
    visitor.expect_url("#how&model=grey&seed=7&layer=1&head=2&step=11&screen=2$")
    shown = []
    for _ in range(2):
        visitor.expect_contains("#how-place", "Step 11 of ")
        visitor.expect_visible("#how[aria-busy=false] #projected")
        shown.append(visitor.see("#heat-s").get_attribute("aria-label"))
        visitor.page.reload()
    assert shown[0] == shown[1]


def shift(visitor: Visitor) -> float:
    """The layout shift of the page so far, as the browser measures it."""
    visitor.page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    return visitor.page.evaluate("window.shift")


@pytest.mark.parametrize("size", SIZES)
def test_nothing_jumps_while_a_tab_loads(visit, classified, size):
    visitor = visit("about:blank", *SIZES[size])
    visitor.page.add_init_script(OBSERVE)
    for tab, selector in SHOWN.items():
        visitor.page.goto("about:blank")
        visitor.page.goto(f"{classified.url}/#{tab}")
        expect(visitor.see(selector).first).to_be_visible()
        assert shift(visitor) <= MAX_SHIFT, tab
    visitor.page.evaluate("document.querySelector('main').style.marginTop = '50vh'")
    assert shift(visitor) > MAX_SHIFT  # what jumps is measured


def test_a_phone_shows_pictures_first_and_scrolls_to_the_progress(visit, classified):
    url = f"{classified.url}/?model=guided&n=40&class=horse"  # a link may leave out the seed
    visitor = visit(url, *SIZES["phone"], reduced_motion="reduce")
    visitor.expect_done(40)
    assert "n=40&class=horse&guidance=2" in visitor.page.url
    tops = [
        visitor.see(each).evaluate(TOP)
        for each in ("#paint-says", "#gallery", "#after", "#paint-form")
    ]
    assert tops == sorted(tops)
    assert tops[1] < 422  # half of the window
    visitor.click("#paint-form .primary")
    visitor.expect_done(40)
    assert (
        0 <= visitor.see("#paint-says").evaluate(TOP) < visitor.see("#gallery").evaluate(TOP) < 422
    )
    visitor.click("#tab-complete")
    upload(visitor, encode(IMAGE))
    visitor.click("#complete-form .primary")
    visitor.expect_done(8, "#complete-meter")
    assert (
        0
        <= visitor.see("#complete-says").evaluate(TOP)
        < visitor.see("#results").evaluate(TOP)
        < 740  # in sight
    )


def test_a_chosen_model_is_kept_and_the_gallery_becomes_its_own(visit, classified):
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=horse", done=4)
    visitor.click("#tab-device")
    visitor.see("#model").select_option("plain")
    visitor.page.reload()
    visitor.expect_ready()
    visitor.expect_value("#model", "plain")
    visitor.see("#model").select_option("guided")
    visitor.click("#tab-paint")
    visitor.expect_url("[?]model=guided&.*#paint$")
    visitor.expect_visible("#after")


def test_pictures_leave_with_their_model(visit, classified):
    visitor = visit(f"{classified.url}/#complete")
    expect(visitor.see("#thumbnails button").first).to_be_visible()
    stroke(visitor, (0.3, 0.2), (0.7, 0.2))
    expect(visitor.see("#live-row button").first).to_be_enabled()
    # in one task: nothing of the next model can have come
    assert visitor.see("#model").evaluate(CHANGE) == 0
