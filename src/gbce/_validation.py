"""Validate option values, keep those that hold for all calls, and format values for messages."""

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

_LONG = 1_000  # from here on thousands are separated by commas
ALL_DIGITS = 17  # significant digits that tell any two doubles apart
_EXACT_INTEGERS = 1e15  # below it every integer is its own double, so that all printed digits are true


def is_number(value: Any) -> bool:
    """Whether ``value`` is a plain number (a bool is not, nor is an integer too large for a double)."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating))


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
    r"""Escape control characters in a user's string, so that a terminal shows them and does not execute them."""
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
            raise ValueError(f"{type(owner).__name__}: {name} must be an integer of at least 1, not {value!r}")


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


# --- options that hold for all calls ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """Options of the process; ``None`` where nothing is set."""

    progress: bool | Literal["auto"] | None = None
    digits: int | None = None


_current = Options()


def current_options() -> Options:
    """Return the options that hold now."""
    return _current


class _Restoring:
    """Restores earlier options at the end of a ``with`` block."""

    def __init__(self, before: Options) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        global _current
        _current = self._before


def set_options(**options: Any) -> _Restoring:
    """Set options for all later calls, or in a ``with`` block until its end.

    Parameters
    ----------
    progress : bool, "auto" or None
        Whether progress bars are shown, whatever the argument of a call is; ``None`` leaves it to the call.
    digits : int or None
        Significant digits of numbers in summaries, and in sentences about columns whose digits are not known; ``None``
        is the default of each. Values to act on keep as many digits as they need.

    Examples
    --------
    >>> import gbce
    >>> with gbce.set_options(progress=False, digits=3):
    ...     current_options().digits
    3
    >>> current_options()
    Options(progress=None, digits=None)
    """
    global _current
    unknown = sorted(set(options) - {"progress", "digits"})
    if unknown:
        raise TypeError(f"set_options: there is no option {unknown[0]!r}; the options are progress and digits")
    made = replace(_current, **options)
    if made.progress not in (True, False, None, "auto"):
        raise ValueError(f'set_options: progress must be True, False, "auto" or None, not {made.progress!r}')
    if made.digits is not None and not (is_count(made.digits) and made.digits <= ALL_DIGITS):
        raise ValueError(f"set_options: digits must be an integer from 1 to {ALL_DIGITS} or None, not {made.digits!r}")
    before, _current = _current, made
    return _Restoring(before)
