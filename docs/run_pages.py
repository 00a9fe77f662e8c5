"""Run the Python blocks of Markdown pages; write what they print, and the pictures they draw, into the pages.

``python docs/run_pages.py [PAGE ...]`` runs the given pages, or all that show results. A block ``python`` that is
followed by a block ``text`` prints that text; one that is followed by a picture draws it. Blocks that import Spark or
Ray are left to tests/batch/test_engines.py. A page that "Continues the [quickstart]" has the names of the quickstart.
Everything runs in a temporary folder that has ``examples/loans.csv``.
"""

import ast
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
QUICKSTART = DOCS / "quickstart.md"
DATA = ROOT / "examples" / "loans.csv"
WIDTH = 100  # characters of a printed table
WRAPPED = 112  # longer lines are broken
LARGEST = 60_000  # bytes of a picture
DPI = (110, 90, 75, 60)  # the first that keeps a picture small enough
COLOURS = 256  # of a picture: drawings have few

_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?"
    r"(?:\n!\[[^\]]*\]\((?P<picture>[\w./-]+\.png)\))?",
    re.DOTALL | re.MULTILINE,
)
_WRAPPING: dict[str, Any] = {"replace_whitespace": False, "drop_whitespace": True, "break_long_words": False}
_ELSEWHERE = re.compile(r"^(import|from) (pyspark|ray)\b", re.MULTILINE)
_CONTINUES = re.compile(r"Continues the \[quickstart\]")


class Block(NamedTuple):
    """Code, what the page shows as its output, and the picture below it: None where the page has none."""

    code: str
    shown: str | None
    picture: str | None


class Ran(NamedTuple):
    """A block that was run, what it printed, and the figure it drew if the page shows one."""

    block: Block
    printed: str
    figure: Figure | None


def read_blocks(text: str) -> list[Block]:
    """Return the Python blocks of a page in order, but for those that are run elsewhere."""
    return [_block(match) for match in _BLOCK.finditer(text) if not _ELSEWHERE.search(match["code"])]


def pages() -> list[Path]:
    """Return the pages whose Python is run."""
    folders = [*DOCS.glob("*.md"), *DOCS.glob("howto/*.md"), *DOCS.glob("concepts/*.md")]
    return [ROOT / "README.md", *sorted(page for page in folders if read_blocks(page.read_text(encoding="utf-8")))]


def run(page: Path) -> Iterator[Ran]:
    """Run a page in the current folder, block by block."""
    text = page.read_text(encoding="utf-8")
    names = dict(_quickstart()) if _CONTINUES.search(text) else {}
    yield from _run(read_blocks(text), names, page.name)


def with_outputs(text: str, ran: list[Ran]) -> str:
    """Return the page with what its blocks print now."""
    results = iter(ran)

    def replace(match: re.Match[str]) -> str:
        if _ELSEWHERE.search(match["code"]):
            return match[0]
        result = next(results)
        if match["shown"] is None:
            return match[0]
        start, end = (match.span("shown")[k] - match.start() for k in (0, 1))
        return f"{match[0][:start]}{_wrap(result.printed)}{match[0][end:]}"

    return _BLOCK.sub(replace, text)


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """Enter a temporary folder with the data of the pages."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").mkdir()
        shutil.copy(DATA, Path(folder) / "examples")
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


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


def _block(match: re.Match[str]) -> Block:
    """Return a block; a picture below code that plots nothing is a photograph of something else."""
    return Block(match["code"], match["shown"], match["picture"] if ".plot" in match["code"] else None)


def _wrap(text: str) -> str:
    """Break long lines of prose; what a summary has wrapped stays as it is."""
    lines = [[line] if len(line) <= WRAPPED else textwrap.wrap(line, WIDTH, **_WRAPPING) for line in text.splitlines()]
    return "".join(f"{part.rstrip()}\n" for parts in lines for part in parts)


@cache
def _quickstart() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for _ in _run(read_blocks(QUICKSTART.read_text(encoding="utf-8")), names, QUICKSTART.name):
        pass
    return names


def _run(blocks: list[Block], names: dict[str, Any], file: str) -> Iterator[Ran]:
    for block in blocks:
        plt.close("all")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), pd.option_context("display.width", WIDTH, "display.max_columns", 20):
            _execute(block, names, file)
        yield Ran(block, printed.getvalue(), plt.gcf() if block.picture else None)
    plt.close("all")


def _execute(block: Block, names: dict[str, Any], file: str) -> None:
    """Run a block; if the page shows its output, show the value of a last expression as an interpreter does."""
    body = ast.parse(block.code, file)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    exec(compile(body, file, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), file, "eval"), names)
        if value is not None and block.shown is not None:
            print(repr(value))


def main(arguments: list[str]) -> None:
    """Run pages, write their outputs and pictures."""
    for page in [Path(one).resolve() for one in arguments] or pages():
        text = page.read_text(encoding="utf-8")
        if not any(block.shown is not None or block.picture for block in read_blocks(text)):
            continue
        ran = []
        with workplace():
            for result in run(page):
                ran.append(result)
                if result.figure is not None:
                    save(result.figure, (page.parent / str(result.block.picture)).resolve())
        page.write_text(with_outputs(text, ran), encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
