"""Draw pages in a browser: ``docs/img/explorer-{light,dark,narrow}.png``, ``table-page.png`` and ``notebook.png``.

The explorer is that of the demo's loan, alone and in the cell of a notebook; the table page has twenty refused loans.

``python docs/draw_pages.py`` needs playwright (extra ``test``) and a Chromium.
"""

import sys
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

from demo import explain_loan, fit_lender

from support.browser import HOW_TO_GET_IT, find_chromium


class Picture(NamedTuple):
    """A picture: its name, colours, size of the window in pixels, and the section at its top."""

    name: str
    colours: Literal["light", "dark"]
    width: int
    height: int
    top: str | None


N_ROWS = 20
PICTURES = (
    Picture("light", "light", 1080, 1020, None),
    Picture("dark", "dark", 1080, 900, "changes"),
    Picture("narrow", "light", 390, 1100, None),
)
# Around what a cell shows, as nbconvert has it: the prompt, then the output.
CELL = """<!doctype html><meta charset="utf-8"><title>notebook</title>
<style>body {{ font-family: sans-serif; margin: 1rem 4rem }}
pre {{ background: #f5f5f5; border: 1px solid #e0e0e0; padding: .5rem }}</style><pre>explanation</pre>{view}"""
UNFOLDING = 300  # milliseconds until a part is drawn
COLOURS = 256  # of the palette that a picture is kept with: text and flat bars need no more


def main() -> None:
    """Explain, open the page, take pictures."""
    path = find_chromium()
    if path is None:
        sys.exit(HOW_TO_GET_IT)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        explanation = explain_loan()
        file = explanation.to_html(Path(folder) / "loan.html")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, colours, width, height, top in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
            page.goto(f"file://{file}")
            if top is not None:  # in a part that is folded at first
                page.locator(f"details.part:has(#{top})").evaluate("one => { one.open = true; }")
                page.wait_for_timeout(UNFOLDING)
                page.locator(f"#{top}").evaluate("one => one.scrollIntoView()")
            _keep(page, ROOT / "docs" / "img" / f"explorer-{name}.png")
        cell = Path(folder) / "cell.html"
        cell.write_text(CELL.format(view=explanation._repr_html_()))
        page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="light")
        page.goto(f"file://{cell}")
        page.wait_for_function("document.querySelector('iframe').previousElementSibling.hidden")
        _keep(page, ROOT / "docs" / "img" / "notebook.png")
        explainer, model, X = fit_lender()
        refused = X[model.predict(X) == "refused"].head(N_ROWS)
        rows = explainer.explain_many(refused, "approved", seed=0, progress=False)
        table = rows.to_html(Path(folder) / "loans.html")
        page = browser.new_page(viewport={"width": 1080, "height": 1150}, color_scheme="light")
        page.goto(f"file://{table}")
        _keep(page, ROOT / "docs" / "img" / "table-page.png")
        browser.close()


def _keep(page: Page, picture: Path) -> None:
    """Save what a page shows, small."""
    page.screenshot(path=picture)
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)
    print(f"saved {picture.relative_to(ROOT)}, {picture.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
