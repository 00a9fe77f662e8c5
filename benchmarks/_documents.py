"""Tables that benchmarks write into the documentation, between their marks."""

import argparse
import contextlib
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

__all__ = ["ROOT", "add_docs_option", "current_commit", "print_into", "write_between_marks"]

ROOT = Path(__file__).resolve().parents[1]
_DOCUMENT = ROOT / "docs" / "benchmarks.md"


def write_between_marks(mark: str, text: str) -> None:
    """Put a text between ``<!-- mark -->`` and ``<!-- /mark -->`` of docs/benchmarks.md."""
    page = _DOCUMENT.read_text(encoding="utf-8")
    before, rest = page.split(f"<!-- {mark} -->", 1)
    _, after = rest.split(f"<!-- /{mark} -->", 1)
    _DOCUMENT.write_text(f"{before}<!-- {mark} -->\n{text}\n<!-- /{mark} -->{after}", encoding="utf-8")


def current_commit() -> str:
    """Return the commit that is checked out, in short."""
    said = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip() or "an unknown commit"


def add_docs_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes a command write what it prints into the documentation."""
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


@contextlib.contextmanager
def print_into(mark: str, wanted: bool) -> Iterator[None]:
    """Put what is printed within between marks of docs/benchmarks.md as well, as it is, with the commit below it.

    Nothing is written where that ends in an error, or where it is not wanted.
    """
    copy = _Copied(sys.stdout)
    with contextlib.redirect_stdout(copy):
        yield
    if wanted:
        write_between_marks(mark, f"```\n{copy.getvalue().rstrip()}\n```\n\n- Commit {current_commit()}.")


class _Copied(io.StringIO):
    """Keeps what is printed, and hands it on."""

    def __init__(self, shown: TextIO) -> None:
        super().__init__()
        self._shown = shown

    def write(self, text: str) -> int:
        self._shown.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._shown.flush()
