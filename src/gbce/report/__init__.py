"""Summaries of explanations: plain text for a terminal, HTML for a notebook."""

from gbce.report._report import as_html, as_text

__all__ = ["as_html", "as_text"]
