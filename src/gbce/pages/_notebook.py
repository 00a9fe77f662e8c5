"""Pages in a notebook: the same page in a frame, and a plain summary where frames or scripts are not allowed."""

from html import escape
from typing import TYPE_CHECKING

from gbce.pages._explorer import explore
from gbce.pages._table_page import table_page
from gbce.report import as_html

if TYPE_CHECKING:
    from gbce.batch import ExplanationTable
    from gbce.explanation import Explanation

__all__ = ["view_explanation", "view_table"]

_HEIGHT = 700  # pixels of a frame that may not measure its page; the page then scrolls
_MOST_ROWS = 1_000  # of a table that a notebook carries: two megabytes
_LINES = 10  # rows that a table lists in a notebook before somebody asks for more

# Once the frame has its page, the plain summary above it gives way, and the frame is as high as the page, then and
# whenever the page grows. Where a viewer takes frames or scripts out of a notebook, the summary stays.
_FIT = (
    "const f=this,d=f.contentDocument;if(d&&d.querySelector('main *')){f.previousElementSibling.hidden=true;"
    "const fit=()=>{f.style.height=d.body.offsetHeight+24+'px'};new ResizeObserver(fit).observe(d.body);fit()}"
)


def view_explanation(explanation: "Explanation") -> str:
    """Return what a notebook shows of an explanation: the explorer in a frame, and the summary where there is none."""
    plain = as_html(explanation)
    return plain if len(explanation.draws) == 0 else _in_frame(plain, str(explore(explanation)), "explanation")


def view_table(table: "ExplanationTable", plain: str) -> str:
    """Return what a notebook shows of a table: its page in a frame, and a plain text of gbce's where there is none."""
    if table.encoded is None:
        return plain
    if len(table) > _MOST_ROWS:
        return f"{plain}<p>table.to_html('rows.html') writes all rows as a page to explore.</p>"
    return _in_frame(plain, table_page(table, lines=_LINES), "table of explanations")


def _in_frame(plain: str, page: str, title: str) -> str:
    """Return a page in a frame below what stands in for it."""
    inside = escape(page, quote=False).replace("'", "&#39;")  # within apostrophes: JSON is full of quotation marks
    style = f"width:100%;height:{_HEIGHT}px;border:0;background:transparent"
    return (
        f'<div>{plain}</div><iframe title="{escape(title)}" style="{style}" onload="{escape(_FIT)}" '
        f"srcdoc='{inside}'></iframe>"
    )
