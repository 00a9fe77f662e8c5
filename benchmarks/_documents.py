"""Tables that benchmarks write into the documentation, between their marks."""

import subprocess
from pathlib import Path

__all__ = ["ROOT", "current_commit", "write_between_marks"]

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
