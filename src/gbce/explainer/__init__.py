"""The one call: from a fitted model and a row to an explanation. Assembly only; the mathematics lives elsewhere."""

from gbce.explainer._explainer import Explainer

__all__ = ["Explainer"]
