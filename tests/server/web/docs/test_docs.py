"""The API documentation in a browser: from this server's files alone, accessible, and usable with an API key."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.support.page.visitor import KEY, Visit
from tests.support.server.running_server import Server


def test_a_request_is_sent_with_the_key_that_was_entered(visit: Visit, locked: Server) -> None:
    visitor = visit("about:blank")
    page = visitor.page
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(f"{locked.url}/docs")
    expect(page.get_by_role("heading", name="Scanline")).to_be_visible()
    expect(page.locator(".models")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()

    # Enter the key.
    page.get_by_role("button", name="Authorize").first.click()
    page.locator(".modal-ux input").fill(KEY)
    page.locator(".modal-ux").get_by_role("button", name="Apply credentials").click()
    page.locator(".modal-ux").get_by_role("button", name="Close").last.click()

    # List the models.
    operation = page.locator("#operations-models-list_models")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table tbody .response-col_status").first).to_contain_text("200")
    expect(operation.locator(".live-responses-table")).to_contain_text('"grey"')
    assert hosts == {locked.url.split("//")[1]}
