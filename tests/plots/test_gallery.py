"""Every public picture has an example in the gallery, whose lines run and whose pictures are small."""

import re
import runpy
from pathlib import Path

import pytest

from gbce.plots import Plots, TablePlots

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = runpy.run_path(str(DOCS / "draw_gallery.py"))
RUNNER = runpy.run_path(str(DOCS / "run_pages.py"))
BLOCKS = GALLERY["read_blocks"](GALLERY["PAGE"].read_text())


def public(accessor):
    return {name for name, thing in vars(accessor).items() if callable(thing) and not name.startswith("_")}


def test_every_picture_has_an_example():
    code = "\n".join(block.code for block in BLOCKS)
    assert public(Plots) == set(re.findall(r"(?:explanation|several)\.plot\.(\w+)\(", code))
    assert public(TablePlots) == set(re.findall(r"table\.plot\.(\w+)\(", code))


def test_every_example_has_a_small_picture():
    names = [block.picture for block in BLOCKS if ".plot." in block.code or ".plot()" in block.code]
    assert None not in names
    files = sorted(str(path.relative_to(DOCS)) for path in (DOCS / "img" / "gallery").glob("*.png"))
    assert sorted(names) == files  # none is missing, none is left over
    for path in [*(DOCS / "img" / "gallery").glob("*.png"), *elsewhere()]:
        assert path.stat().st_size < GALLERY["LARGEST"], path


def elsewhere():
    """Return the pictures that blocks of other pages draw."""
    pages = [page for page in RUNNER["pages"]() if page != GALLERY["PAGE"]]
    blocks = [(page, block) for page in pages for block in RUNNER["read_blocks"](page.read_text())]
    return {(page.parent / block.picture).resolve() for page, block in blocks if block.picture}


def test_every_picture_of_the_docs_is_drawn_by_a_script_and_shown_on_a_page():
    comparison = DOCS.parent / "benchmarks" / "rivals" / "__main__.py"
    scripts = "".join(path.read_text() for path in [*DOCS.glob("draw_*.py"), comparison])
    pages = "".join(path.read_text() for path in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"])
    found = sorted((DOCS / "img").glob("*.png"))
    assert elsewhere() <= set(found)
    for path in found:
        parts = path.stem.split("-")  # such as explorer-dark
        assert path in elsewhere() or all(part in scripts for part in (parts[0], parts[-1])), path
        assert f"img/{path.name}" in pages, path


def test_the_lines_of_the_gallery_run():
    fewer = [block._replace(code=block.code.replace("iloc[:30]", "iloc[:6]")) for block in BLOCKS]
    assert fewer != BLOCKS  # the table of the page takes longer than all else
    drawn = {name: len(figure.axes) for name, figure in GALLERY["run_blocks"](fewer)}
    assert list(drawn) == [block.picture for block in BLOCKS if block.picture]
    assert all(drawn.values())
    assert drawn["img/gallery/pairs.png"] == 6
    assert drawn["img/gallery/disagreement.png"] == 2


@pytest.mark.parametrize("text", ["no block", "```python\nx = 1\n```"])
def test_a_page_without_pictures_has_none(text):
    assert all(block.picture is None for block in GALLERY["read_blocks"](text))
