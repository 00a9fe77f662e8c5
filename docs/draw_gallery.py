"""Draw the pictures of ``docs/gallery.md`` by running its blocks; ``docs/run_pages.py`` draws those of other pages."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))

from run_pages import DOCS, LARGEST, Block, read_blocks, save

PAGE = DOCS / "gallery.md"

__all__ = ["LARGEST", "PAGE", "main", "read_blocks", "run_blocks"]


def run_blocks(blocks: list[Block]) -> Iterator[tuple[str, Figure]]:
    """Run blocks one after the other; yield the name and the figure of each that draws."""
    names: dict[str, Any] = {}
    for block in blocks:
        plt.close("all")
        exec(compile(block.code, PAGE.name, "exec"), names)
        if block.picture is not None:
            yield block.picture, plt.gcf()
    plt.close("all")


def main() -> None:
    """Draw every picture of the page."""
    for name, figure in run_blocks(read_blocks(PAGE.read_text())):
        save(figure, DOCS / name)


if __name__ == "__main__":
    main()
