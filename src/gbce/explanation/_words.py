"""Changes as a person would say them: in the user's columns and units, with enough digits to act on."""

from collections.abc import Sequence

import numpy as np

from gbce._validation import printable
from gbce.base import Array
from gbce.space import Space, value_text

__all__ = ["changed_columns", "join_words", "number_text", "say_changes", "say_value"]

_DIGITS = 6  # of a real number: as many as a person would copy out
_ALL_DIGITS = 17  # that tell any two doubles apart
_PLAIN_NUMBERS = (1e-4, 1e15)  # sizes that are written without an exponent
_YEARS = (1000, 2200)  # whole numbers that all lie between these are read as years, which have no comma


def changed_columns(space: Space, x0: Array, x: Array) -> Array:
    """Return the positions of the features that somebody has to change to get from ``x0`` to ``x``, both ``(d,)``.

    A computed column is not among them: it follows from the others.
    """
    return np.flatnonzero(space.changed(x[None, :], x0)[0] & ~space.is_computed)


def say_changes(space: Space, x0: Array, x: Array) -> str:
    """Return what has to be done to get from the row ``x0`` to ``x``, both ``(d,)``, as part of a sentence.

    Examples
    --------
    >>> space = Space.real(["income", "debt"])
    >>> say_changes(space, np.array([1200.0, 300.0]), np.array([1500.0, 250.5]))
    'raise income from 1,200 to 1,500 and lower debt from 300 to 250.5'
    """
    return join_words([_say_change(space, j, x0[j], x[j]) for j in changed_columns(space, x0, x)])


def say_value(space: Space, j: int, value: float, *, digits: int = _DIGITS) -> str:
    """Return one value of the feature at position ``j`` as the table has it; a text in quotation marks."""
    feature, codec = space.features[j], space.codecs[j]
    if np.isnan(value):
        return "missing"
    if feature.leveled:
        level = (feature.levels or ())[round(value)]
        return printable(repr(level) if isinstance(level, str) else str(level))
    if feature.kind == "integer" and _YEARS[0] <= (feature.low or 0) and (feature.high or np.inf) <= _YEARS[1]:
        return f"{round(value)}"
    if feature.kind in ("real", "integer"):
        return number_text(float(round(value)) if feature.kind == "integer" else value, digits)
    return printable(value_text(feature, codec, value))


def number_text(value: float, digits: int = _DIGITS) -> str:
    """Return a number with at most so many digits, its thousands set apart; whole numbers in full.

    Examples
    --------
    >>> number_text(3345.0), number_text(0.561249, 3), number_text(1234567.0), number_text(2.5e-7)
    ('3,345', '0.561', '1,234,567', '2.5e-07')
    """
    low, high = _PLAIN_NUMBERS
    if value == 0 or not np.isfinite(value) or not low <= abs(value) < high:
        return f"{value + 0.0:.{digits}g}"
    if value == round(value):
        return f"{value:,.0f}"
    before = int(np.floor(np.log10(abs(value)))) + 1
    text = f"{value:,.{max(digits - before, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def join_words(parts: Sequence[str]) -> str:
    """Return parts of a sentence with commas and an "and" before the last."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _say_change(space: Space, j: int, before: float, after: float) -> str:
    feature = space.features[j]
    name = printable(feature.name)
    texts = say_value(space, j, before), say_value(space, j, after)
    for digits in range(_DIGITS + 1, _ALL_DIGITS + 1):  # a change beyond the digits that are usually written
        if texts[0] != texts[1]:
            break
        texts = say_value(space, j, before, digits=digits), say_value(space, j, after, digits=digits)
    if np.isnan(before) or np.isnan(after) or feature.unordered:
        verb = "change"
    elif feature.kind == "datetime":
        verb = "move"
    else:
        verb = "raise" if after > before else "lower"
    return f"{verb} {name} from {texts[0]} to {texts[1]}"
