"""A browser for pages: the system's own Chromium, and a page that notes what it asks for and complains about."""

import os
import shutil
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO_GET_IT = "no Chromium was found: apt-get install chromium, or name one in GBCE_CHROMIUM"


def find_chromium():
    """Return the path of a Chromium, or None."""
    named = os.environ.get("GBCE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def opened(browser, path, *, width=1280, height=900, unfold=True, **options):
    """Open a file; the page's ``complaints`` and ``requests`` are what a test looks at. Parts are unfolded at once."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    page.complaints, page.requests = [], []
    page.on("console", lambda message: page.complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(f"file://{path}")
    if unfold:
        page.locator("details.part").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    try:
        yield page
    finally:
        context.close()


def slide(page, name, value):
    """Move a slider to a position, as a hand does."""
    page.locator(f"#{name}").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', { bubbles: true })); }", value
    )
