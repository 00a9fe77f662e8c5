"""The one call: from a fitted model and a row to an explanation. Assembly only; the mathematics lives elsewhere."""

from gbce.explainer._explainer import DEFAULT_RULES, Explainer

__all__ = ["DEFAULT_RULES", "Explainer"]
