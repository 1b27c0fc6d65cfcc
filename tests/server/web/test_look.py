"""Layout, themes, keyboard and accessibility of the page and of the API's documentation."""

from itertools import pairwise

import pytest
from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.support.page.visitor import KEY, Visitor
from tests.support.sweeps import and_slow

SIZES = {"phone": (360, 740), "desktop": (1280, 800)}
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
IN_MAIN = "document.activeElement.closest('main') !== null"
TOP_OF_FOCUS = "document.activeElement.getBoundingClientRect().top + scrollY"
ROW = 48  # pixels: what stands side by side is not equally high
LIGHT = "rgb(251, 250, 247)"
DARK = "rgb(20, 21, 23)"


def assert_fits_and_is_accessible(visitor: Visitor) -> None:
    """Nothing is wider than the window, or than a desktop's, and axe finds no violation."""
    size = visitor.page.viewport_size
    for width in (SIZES["desktop"][0], size["width"]):
        visitor.page.set_viewport_size({**size, "width": width})
        visitor.page.wait_for_function(
            "width => document.scrollingElement.scrollWidth <= width", arg=width
        )
    if not visitor.page.evaluate("'axe' in window"):
        visitor.page.evaluate(AXE_SCRIPT)
    violations = visitor.page.evaluate(
        "axe.run({resultTypes: ['violations']}).then(({violations}) => violations)"
    )
    assert violations == [], AxeResults({"violations": violations}).generate_report()


@pytest.mark.parametrize(
    ("size", "theme"),
    and_slow([("phone", "dark")], ("phone", "light"), ("desktop", "light"), ("desktop", "dark")),
)
def test_every_tab_is_accessible_and_fits(visit, classified, size, theme):
    """With a model that has all controls: classes, guidance and particles."""
    url = f"{classified.url}/?model=guided&seed=3&n=6&class=horse&guidance=2"
    visitor = visit(url, *SIZES[size], color_scheme=theme, has_touch=size == "phone")
    visitor.expect_done(6)
    assert visitor.page.evaluate(BACKGROUND) == (LIGHT if theme == "light" else DARK)
    for tab in visitor.see("[role=tab]").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        if tab.get_attribute("id") == "tab-compress":
            visitor.expect_visible("#coded-form")
        if tab.get_attribute("id") == "tab-how":
            visitor.expect_visible("#screens")
        if tab.get_attribute("id") != "tab-complete":  # which is looked at when it shows more
            assert_fits_and_is_accessible(visitor)
    visitor.click("#tab-complete")
    visitor.fill("#rows", "7")
    visitor.see("text=Hide").first.click()
    visitor.click("#drawing")
    visitor.unfold()
    visitor.see("#particles-compare").check()
    visitor.click("#complete-form .primary")
    visitor.expect_done(16, "#complete-meter")
    assert_fits_and_is_accessible(visitor)
    visitor.click("#tab-paint")
    visitor.find("#again").hover()
    assert_fits_and_is_accessible(visitor)
    visitor.see(".tile").first.click()
    visitor.expect_visible("#viewer")
    assert_fits_and_is_accessible(visitor)


def test_the_chosen_theme_is_kept(visit, server):
    visitor = visit(f"{server.url}/#complete", color_scheme="light")
    assert visitor.page.evaluate(BACKGROUND) == LIGHT
    visitor.click("#theme")
    assert visitor.page.evaluate(BACKGROUND) == DARK
    visitor.page.reload()
    assert visitor.page.evaluate(BACKGROUND) == DARK
    visitor.expect_attribute("#theme", "aria-label", "Use the light theme")


def test_arrow_keys_switch_tabs(visit, server):
    visitor = visit(f"{server.url}/#complete")
    visitor.expect_ready()
    visitor.see("#tab-complete").focus()
    visitor.press("ArrowLeft")
    visitor.expect_focused("#tab-paint")
    visitor.expect_visible("#paint")
    visitor.expect_hidden("#complete")
    visitor.press("ArrowRight")
    visitor.expect_visible("#complete")
    visitor.press("Tab")
    assert visitor.page.evaluate("document.activeElement.closest('main') !== null")


def test_all_controls_are_reached_by_keyboard(visit, server):
    visitor = visit(f"{server.url}/?seed=3&n=4", done=4)
    visitor.find("#seed").focus()  # which is folded
    visitor.see("#count").focus()
    visitor.page.keyboard.type("2")
    visitor.press("Control+A")
    visitor.page.keyboard.type("2")
    visitor.press("Enter")
    visitor.expect_done(2)
    reached = set()
    for _ in range(30):
        visitor.press("Tab")
        reached.add(
            visitor.page.evaluate("document.activeElement.id || document.activeElement.className")
        )
    buttons = {
        "theme",
        "model",
        "tab-paint",
        "count",
        "seed",
        "temperature",
        "more",
        "copy-link",
        "save-sheet",
    }
    assert buttons <= reached
    assert {"tile done"} <= reached


@pytest.mark.parametrize("tab", ["paint", "complete"])
def test_on_a_phone_tab_goes_down_the_window(visit, classified, tab):
    """Though the pictures, which come first there, are below the form of a wide window."""
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4#{tab}", *SIZES["phone"])
    if tab == "paint":
        visitor.expect_done(4)
    visitor.expect_ready()
    visitor.see(f"#tab-{tab}").focus()
    tops = []
    while not tops or visitor.page.evaluate(IN_MAIN):
        tops.append(visitor.page.evaluate(TOP_OF_FOCUS))
        visitor.press("Tab")
    assert len(tops) > 10
    assert all(after > before - ROW for before, after in pairwise(tops)), tops


def test_the_api_documentation_is_accessible_and_sends_the_key_that_was_entered(visit, locked):
    page = visit("about:blank").page
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(f"{locked.url}/docs")
    expect(page.get_by_role("heading", name="Scanline")).to_be_visible()
    expect(page.locator(".models")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()

    # Enter the key.
    page.get_by_role("button", name="Authorize").first.click()
    page.locator("#auth-bearer-value").fill(KEY)
    page.locator(".modal-ux").get_by_role("button", name="Apply credentials").first.click()
    page.locator(".modal-ux").get_by_role("button", name="Close").last.click()

    # List the models.
    operation = page.locator("#operations-models-list_models")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(
        operation.locator(".live-responses-table tbody .response-col_status").first
    ).to_contain_text("200")
    expect(operation.locator(".live-responses-table")).to_contain_text('"grey"')
    assert hosts == {locked.url.split("//")[1]}
