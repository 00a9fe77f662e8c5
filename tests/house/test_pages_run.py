"""Code on every page of the documentation runs, and prints what the page shows."""

import re
import runpy
from difflib import SequenceMatcher
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = runpy.run_path(str(REPOSITORY / "docs" / "run_pages.py"))
ELSEWHERE = ("gallery.md", "method.md", "paper.md")  # tests/plots runs the gallery; the others show no code
DOCUMENTS = {str(page.relative_to(REPOSITORY)): page for page in PAGES["pages"]() if page.name not in ELSEWHERE}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_in_documents_runs_and_prints_what_they_show(document):
    """Most words must be the same; numbers, and with them a few words, differ between machines."""
    with PAGES["workplace"]():
        ran = list(PAGES["run"](DOCUMENTS[document]))
    assert ran
    for block, printed, _ in ran:
        if block.shown is not None:
            now, shown = (NUMBER.sub("#", text).split() for text in (printed, block.shown))
            alike = SequenceMatcher(None, now, shown, autojunk=False).ratio()
            assert alike > 0.7, f"run: python docs/run_pages.py {document}"
