"""Explanations as something to read: plain text for a terminal, HTML for a notebook."""

from gbce.report._html import as_html
from gbce.report._text import as_text

__all__ = ["as_html", "as_text"]
