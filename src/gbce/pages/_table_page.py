"""The page of a table: all rows of a run in one file."""

from typing import Any

from gbce._validation import is_count
from gbce.batch import ExplanationTable
from gbce.pages._document import build_page
from gbce.pages._table_payload import table_payload

__all__ = ["table_page"]

_BODY = """<div id="page"><p>This page needs a browser that runs its script; nothing is fetched or sent.</p></div>"""


def table_page(table: ExplanationTable, *, groups: Any = None, lines: int = 100) -> str:
    """Return the page of a table; see ``ExplanationTable.to_html``.

    Parameters
    ----------
    table : ExplanationTable
        What ``explain_many`` returned.
    groups : str, sequence, Series or mapping, optional
        Groups of rows to compare; see ``ExplanationTable.to_html``.
    lines : int
        How many rows are listed before somebody asks for more.

    Returns
    -------
    str
        One HTML document.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:2], gbce.AtLeast(2), rules=["MAP"], seed=0, progress=False)
    >>> table_page(table).startswith("<!doctype html>")
    True
    """
    if not isinstance(table, ExplanationTable):
        raise TypeError(f"table must be what explainer.explain_many(...) returned, not {table!r:.80}")
    if not is_count(lines):
        raise ValueError(f"lines must be a whole number of at least 1, not {lines!r}")
    payload = table_payload(table, groups) | {"lines": int(lines)}
    n = len(table)
    title = f"{n:,} row{'s' * (n != 1)} explained"
    return build_page(title, payload, ["common.js", "words.js", "table.js"], ["page.css", "table.css"], _BODY)
