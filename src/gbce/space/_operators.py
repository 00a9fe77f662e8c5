"""What may stand between the columns of a text, and what it does to numbers."""

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from gbce.space._tolerances import ROUNDING

__all__ = ["ARITHMETIC", "COMPARISONS", "FUNCTIONS", "at_most"]


def at_most(a: Any, b: Any) -> Any:
    """Compare numbers up to rounding: ``0.3 <= 0.1 + 0.2`` both ways."""
    below = a <= b
    if isinstance(below, np.ndarray) and below.dtype == bool and below.all():  # as nearly always: nothing to round
        return below
    if np.asarray(a).dtype.kind in "iuf" and np.asarray(b).dtype.kind in "iuf":
        return below | (np.abs(np.subtract(a, b)) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)))
    return below


def _at_least(a: Any, b: Any) -> Any:
    return at_most(b, a)


def _least(*parts: Any) -> Any:
    return reduce(np.minimum, parts)


def _greatest(*parts: Any) -> Any:
    return reduce(np.maximum, parts)


ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.LtE: at_most, ast.Lt: operator.lt, ast.GtE: _at_least, ast.Gt: operator.gt,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "min": _least, "max": _greatest, "log": np.log, "exp": np.exp, "sqrt": np.sqrt,
    "round": np.round, "floor": np.floor,
}  # fmt: skip
