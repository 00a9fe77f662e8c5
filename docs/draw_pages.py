"""Draw the explorer of the demo's patient as a browser shows it: ``docs/img/explorer-{light,dark,narrow}.png``.

``python docs/draw_pages.py`` needs playwright (extra ``test``) and a Chromium.
"""

import sys
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

from demo import explain_patient

from support.browser import HOW_TO_GET_IT, find_chromium


class Picture(NamedTuple):
    """A picture: its name, colours, size of the window in pixels, and the section at its top."""

    name: str
    colours: Literal["light", "dark"]
    width: int
    height: int
    top: str | None


PICTURES = (
    Picture("light", "light", 1080, 1200, None),
    Picture("dark", "dark", 1080, 900, "changes"),
    Picture("narrow", "light", 390, 1100, "terms"),
)
COLOURS = 256  # of the palette that a picture is kept with: text and flat bars need no more


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
            Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)
            print(f"saved {picture.relative_to(ROOT)}, {picture.stat().st_size / 1e3:.0f} KB")
        browser.close()


if __name__ == "__main__":
    main()
