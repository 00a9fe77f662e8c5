"""Every public picture has an example in the gallery, whose lines run and whose pictures are small."""

import re
import runpy
from pathlib import Path

import pytest

from gbce.plots import Plots, TablePlots

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = runpy.run_path(str(DOCS / "draw_gallery.py"))
BLOCKS = GALLERY["read_blocks"](GALLERY["PAGE"].read_text())


def public(accessor):
    return {name for name, thing in vars(accessor).items() if callable(thing) and not name.startswith("_")}


def test_every_picture_has_an_example():
    code = "\n".join(block.code for block in BLOCKS)
    assert public(Plots) == set(re.findall(r"(?:explanation|several)\.plot\.(\w+)\(", code))
    assert public(TablePlots) == set(re.findall(r"table\.plot\.(\w+)\(", code))


def test_every_example_has_a_small_picture():
    names = [block.picture for block in BLOCKS if ".plot." in block.code]
    assert None not in names
    files = sorted(path.stem for path in (DOCS / "img" / "gallery").glob("*.png"))
    assert sorted(names) == files  # none is missing, none is left over
    for path in [*(DOCS / "img" / "gallery").glob("*.png"), DOCS / "img" / "before_after.png"]:
        assert path.stat().st_size < GALLERY["LARGEST"], path


def test_the_lines_of_the_gallery_run():
    fewer = [block._replace(code=block.code.replace("iloc[:30]", "iloc[:6]")) for block in BLOCKS]
    assert fewer != BLOCKS  # the table of the page takes longer than all else
    drawn = {name: len(figure.axes) for name, figure in GALLERY["run_blocks"](fewer)}
    assert list(drawn) == [block.picture for block in BLOCKS if block.picture]
    assert all(drawn.values())
    assert drawn["pairs"] == 6
    assert drawn["disagreement"] == 2


@pytest.mark.parametrize("text", ["no block", "```python\nx = 1\n```"])
def test_a_page_without_pictures_has_none(text):
    assert all(block.picture is None for block in GALLERY["read_blocks"](text))
