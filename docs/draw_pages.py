"""Draw the explorer of the demo's patient as a browser shows it: ``docs/img/explorer-{light,dark,narrow}.png``.

``python docs/draw_pages.py`` needs playwright (extra ``test``) and a Chromium.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

from demo import explain_patient
from support.browser import HOW_TO_GET_IT, find_chromium

# name, colours, width and height in pixels, and the section at the top of the picture
PICTURES = (
    ("light", "light", 1180, 1060, None),
    ("dark", "dark", 1180, 1000, "changes"),
    ("narrow", "light", 390, 1100, "terms"),
)


def main() -> None:
    """Explain, open the page, take pictures."""
    path = find_chromium()
    if path is None:
        sys.exit(HOW_TO_GET_IT)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = explain_patient().to_html(Path(folder) / "patient.html")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, colours, width, height, top in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
            page.goto(f"file://{file}")
            if top is not None:
                page.locator(f"#{top}").evaluate("one => one.scrollIntoView()")
            picture = ROOT / "docs" / "img" / f"explorer-{name}.png"
            page.screenshot(path=picture)
            print(f"saved {picture.relative_to(ROOT)}, {picture.stat().st_size / 1e3:.0f} KB")
        browser.close()


if __name__ == "__main__":
    main()
