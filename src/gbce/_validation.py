"""Validate option values, and format values for error messages."""

import math
from typing import Any

import numpy as np

__all__ = [
    "distinguish",
    "is_count",
    "is_number",
    "is_whole",
    "printable",
    "require_counts",
    "require_finite",
    "short",
    "show",
]

_LONG = 10_000  # from here on thousands are separated by commas
_EXACT_INTEGERS = 1e15  # below it every integer is its own double, so that all printed digits are true


def is_number(value: Any) -> bool:
    """Whether ``value`` is a plain number (a bool is not)."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether ``value`` is an integral number of any numeric type."""
    return is_number(value) and math.isfinite(value) and value == int(value)


def is_count(value: Any, least: int = 1) -> bool:
    """Whether ``value`` has an integer type (a bool has not) and is at least ``least``."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def show(value: Any) -> str:
    """Format a value for a message; a numpy scalar like the Python number."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def printable(text: str) -> str:
    r"""Escape control characters in a user's string, so that a terminal shows them and does not execute them.

    Examples
    --------
    >>> print(printable("\x1b[31mincome"))
    \x1b[31mincome
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def distinguish(a: float, b: float) -> tuple[str, str]:
    """Format two numbers in a few digits, or in full if they would otherwise look the same."""
    brief = f"{a:g}", f"{b:g}"
    return brief if a == b or brief[0] != brief[1] else (repr(float(a)), repr(float(b)))


def require_counts(owner: Any, *names: str) -> None:
    """Require the named attributes of ``owner`` to be positive integers."""
    for name in names:
        value = getattr(owner, name)
        if not is_count(value):
            raise ValueError(f"{type(owner).__name__}: {name} must be a whole number of at least 1, not {value!r}")


def require_finite(owner: Any, *names: str) -> None:
    """Require the named attributes of ``owner`` to be finite numbers."""
    for name in names:
        value = getattr(owner, name)
        if not is_number(value) or not math.isfinite(value):
            raise ValueError(f"{type(owner).__name__}: {name} must be a finite number, not {value!r}")


def short(value: float, digits: int = 4) -> str:
    """Format a number in a few digits, large ones without an exponent: ``300,000``, not ``3e+05``."""
    text = f"{value:{',' if abs(value) >= _LONG else ''}.{digits}g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < _EXACT_INTEGERS else text
