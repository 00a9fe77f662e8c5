"""Interactive HTML pages: self-contained files without a server, network access or third-party scripts.

Users' names and values are data: they are embedded as JSON and shown as text, never parsed as markup.
"""

from gbce.pages._document import build_page, compare_receipts, hash_content, pack_array, receipt_of, write_page
from gbce.pages._explorer import explore
from gbce.pages._policy import policy_page
from gbce.pages._table_page import table_page
from gbce.pages._widget import make_widget, view_explanation, view_table
