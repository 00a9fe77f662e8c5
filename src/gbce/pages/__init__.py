"""Pages: one self-contained HTML file each, to mail and to explore, with no server, no network and no foreign script.

Names and values of users are data: they stand in the page as JSON and are shown as text, never read as markup.
"""

from gbce.pages._document import build_page, compare_receipts, pack_array, receipt_of, write_page
from gbce.pages._explorer import explore
from gbce.pages._table_page import table_page
from gbce.pages._widget import make_widget, view_explanation, view_table

__all__ = [
    "build_page",
    "compare_receipts",
    "explore",
    "make_widget",
    "pack_array",
    "receipt_of",
    "table_page",
    "view_explanation",
    "view_table",
    "write_page",
]
