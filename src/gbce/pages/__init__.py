"""Pages: one self-contained HTML file each, to mail and to explore, with no server, no network and no foreign script.

Names and values of users are data: they stand in the page as JSON and are shown as text, never read as markup.
"""

from gbce.pages._arrays import pack_array
from gbce.pages._document import build_page, write_page
from gbce.pages._explorer import explore
from gbce.pages._notebook import view_explanation, view_table
from gbce.pages._receipt import compare_receipts, receipt_of
from gbce.pages._table_page import table_page
from gbce.pages._widget import make_widget

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
