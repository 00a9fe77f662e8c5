"""Frames of other libraries: in as pandas, out again as they came."""

from gbce.space._frames._layout import Layout
from gbce.space._frames._reading import as_pandas

__all__ = ["Layout", "as_pandas"]
