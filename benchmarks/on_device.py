"""The page's "On your device" in a real browser: pixels per second there and on the server, and how much is the same.

    scanline serve --model mnist-small &
    python benchmarks/on_device.py http://127.0.0.1:8000 --images 64 --screenshot device.png

Opens the page in Chromium (Playwright), downloads the model, paints, and lets the server paint the same seed after it.
The device here is this machine, one worker for each core but one; the server's rate has its queue and the way in it.
"""

import argparse
import re
import shutil

from playwright.sync_api import expect, sync_playwright

from scanline.model.bench.machine import print_json

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOUR = 3_600_000  # milliseconds, for the largest models
LINE = re.compile(r"100 % · ([\d,]+) pixels/s on this device")
VERDICT = re.compile(r"The server: ([\d,]+) pixels/s · (\d+) of \d+ images are the same · ([\d.]+) % of the bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("url", help="of a server that is ready")
    parser.add_argument("--model", help="of those that it serves; its first by default")
    parser.add_argument("--images", type=int, default=64, help="at most 64")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--screenshot", help="where to keep what the page shows in the end")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{options.url}/{f'?model={options.model}' if options.model else ''}#device")
        button = page.locator("#device-go")
        expect(button).to_contain_text("MB", timeout=HOUR)
        download = button.inner_text()
        page.fill("#device-count", str(options.images))
        page.fill("#device-seed", str(options.seed))
        button.click()
        expect(page.locator("#device-line")).to_have_text(LINE, timeout=HOUR)
        page.locator("#device-compare").click(timeout=HOUR)
        expect(page.locator("#device-verdict")).to_have_text(VERDICT, timeout=HOUR)
        lines = [page.inner_text(f"#device-{name}") for name in ("line", "verdict")]
        if options.screenshot:
            page.screenshot(path=options.screenshot, full_page=True)
        browser.close()
    print(download, *lines, sep="\n")
    device = LINE.findall(lines[0])[0]
    server, same, share = VERDICT.findall(lines[1])[0]
    print_json(
        "on_device",
        {"options": vars(options)},
        device_pixels_per_second=int(device.replace(",", "")),
        server_pixels_per_second=int(server.replace(",", "")),
        equal_images=int(same),
        equal_bytes_percent=float(share),
    )


if __name__ == "__main__":
    main()
