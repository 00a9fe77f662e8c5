"""Draw the pictures of ``docs/gallery.md`` and ``docs/uncertainty.md`` by running their blocks, and the README's.

The README's is ``docs/img/before_after.png``, the answer of ``make demo``. A block of Python that is followed by a
picture draws that picture: it is the last figure that the block opens.
"""

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gallery.md"
OTHERS = (ROOT / "docs" / "uncertainty.md",)  # further pages whose pictures are drawn by their own blocks
LARGEST = 60_000  # bytes of a picture
DPI = (110, 90, 75, 60)  # the first that keeps a picture small enough
COLOURS = 256  # of a picture: drawings have few


class Block(NamedTuple):
    """Lines of code, and the picture that they draw, if any: its file in ``docs/img``, without the ending."""

    code: str
    picture: str | None


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    pattern = r"```python\n(.*?)```(?:\s*!\[[^\]]*\]\(img/((?:gallery/)?[a-z_]+)\.png\))?"
    return [Block(code, picture or None) for code, picture in re.findall(pattern, page, flags=re.DOTALL)]


def run_blocks(blocks: list[Block]) -> Iterator[tuple[str, Figure]]:
    """Run blocks one after the other, up to the last that draws; yield the name and the figure of each that does."""
    names: dict[str, Any] = {}
    drawing = [k for k, block in enumerate(blocks) if block.picture is not None]
    for block in blocks[: max(drawing, default=-1) + 1]:
        plt.close("all")
        exec(compile(block.code, "gallery.md", "exec"), names)
        if block.picture is not None:
            yield block.picture, plt.gcf()
    plt.close("all")


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a small PNG: in few colours, and in fewer dots if that is not enough."""
    for dpi in DPI:
        drawn, packed = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, dpi=dpi)
        few = Image.open(drawn).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
        few.save(packed, "png", optimize=True)
        if len(packed.getvalue()) < LARGEST:
            break
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed.getvalue())
    print(f"saved {path.relative_to(ROOT)}, {len(packed.getvalue()) / 1000:.0f} KB at {dpi} dots per inch")


def main() -> None:
    """Draw every picture of the pages, and the answer of ``make demo`` for the README."""
    for page in (PAGE, *OTHERS):
        for name, figure in run_blocks(read_blocks(page.read_text())):
            save(figure, ROOT / "docs" / "img" / f"{name}.png")
    sys.path.insert(0, str(ROOT / "examples"))
    from demo import explain_patient

    explain_patient().plot.before_after()
    save(plt.gcf(), ROOT / "docs" / "img" / "before_after.png")


if __name__ == "__main__":
    main()
