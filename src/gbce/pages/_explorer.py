"""The explorer: one page about one row."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gbce.pages._document import build_page, write_page
from gbce.pages._payload import explorer_payload

if TYPE_CHECKING:
    from gbce.explanation import Explanation

__all__ = ["explore"]

# Places that the script fills; what a browser without scripts shows is said once.
_BODY = """<a class="skip" href="#answer">Skip to the answer</a>
<header id="top"></header>
<main id="page"><noscript><p>This page needs JavaScript, which is part of the file; it asks for nothing from any
network.</p></noscript></main>
<footer id="foot"></footer>"""


def explore(
    explanation: "Explanation", path: str | Path | None = None, *, frontier: pd.DataFrame | None = None
) -> str | Path:
    """Return the explorer as a text, or write it to ``path``; see :meth:`gbce.Explanation.to_html`."""
    if len(explanation.draws) == 0:
        raise ValueError(
            "to_html: the explanation has no draws, so that there is nothing to explore; explain the row anew"
        )
    payload = explorer_payload(explanation, frontier)
    scripts = ["common.js", "words.js", "weights.js", "charts.js", "asking.js", "explorer.js"]
    page = build_page(payload["title"], payload, scripts, ["page.css", "explorer.css"], _BODY)
    return page if path is None else write_page(page, path)
