"""Write values as people write them: few digits, thousands separated, units behind the number.

A column's digits are its decimals in the data, or three significant digits of its spread for floats of full precision.
Numbers to act on get more digits where fewer would be another number, and ends of ranges are rounded inwards.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import ROUNDING
from gbce._validation import ALL_DIGITS, current_options, printable
from gbce.base import Array
from gbce.space._codecs import Codec, numpy_dtype
from gbce.space._feature import MOST_DIGITS, Feature, deviations
from gbce.space._rows import RowCodec

# All chosen by hand.
_DIGITS = 6  # significant digits where nothing is known of the column: as many as a person would copy out
_PLAIN_NUMBERS = (1e-4, 1e15)  # magnitudes written without an exponent
_YEARS = (1000, 2200)  # integer columns within this range are taken for years and written without commas
_FEW_DECIMALS = 3  # decimals in the data up to which a column is written as it is there
_OF_SPREAD = 3  # significant digits of the spread, for columns with more decimals
_MOST_VALUES = 10_000  # from which the decimals of a column are read
_VANISHING = 1e-6  # of the scale: smaller numbers are written as 0
_HIDDEN = 0.5  # of a change, at most, by rounding the value that it starts from
# Steps of advice are at most this part of a column's scale; on 32 answers of two tables the larger one costs nothing,
# but in twenty columns that all change a little, it does.
_STEP, _FINE_STEP = 0.06, 0.025
_LOST = 0.02  # of the width of a range, at most, by rounding each of its ends inwards

# --- digits of a column ----------------------------------------------------------------------------------------------


def decimals_of(known: Array, dtype: str = "float64") -> int:
    """Return the decimals with which to write numbers of a column ``(n,)`` without missing values."""
    some = known[:: len(known) // _MOST_VALUES + 1]
    some = some[np.abs(some) < _PLAIN_NUMBERS[1]]
    kind = numpy_dtype(dtype)
    single = kind.kind == "f" and kind.itemsize < 8
    tolerance = (float(np.finfo(kind).eps) if single else ROUNDING) * np.abs(some)
    for decimals in range(_FEW_DECIMALS + 1):
        if (np.abs(np.round(some, decimals) - some) <= tolerance).all():
            return decimals
    spread = float(deviations(some)) or float(np.abs(some).max())
    return min(max(_OF_SPREAD - 1 - math.floor(math.log10(spread)), 0), MOST_DIGITS)


def readable_step(feature: Feature) -> float:
    """Return the step in which a person would change a number: 1 or 5 times a power of ten, zero for other kinds.

    It is a small part of the scale, but not below the column's last decimal. A real number of unknown digits, which no
    data were seen of, has a finer step, a power of ten.

    Examples
    --------
    >>> readable_step(Feature("income", scale=897.0, digits=2)), readable_step(Feature("rooms", "integer", scale=1.5))
    (50.0, 1.0)
    """
    if feature.kind not in ("real", "integer"):
        return 0.0
    if feature.kind == "real" and feature.digits is None:
        return float(10.0 ** math.floor(math.log10(feature.scale * _FINE_STEP)))
    power = 10.0 ** math.floor(math.log10(feature.scale * _STEP))
    step = 5.0 * power if feature.scale * _STEP >= 5.0 * power else power
    last = 0.0 if feature.digits is None else min(10.0**-feature.digits, feature.scale)
    return max(step, last, 1.0 if feature.kind == "integer" else 0.0)


# --- numbers ---------------------------------------------------------------------------------------------------------


def number_text(value: float, digits: int | None = None) -> str:
    """Write a number with at most ``digits`` significant digits and thousands separators; integers in full.

    Examples
    --------
    >>> number_text(3345.0), number_text(0.561249, 3), number_text(1234567.0), number_text(2.5e-7)
    ('3,345', '0.561', '1,234,567', '2.5e-07')
    """
    digits = digits or current_options().digits or _DIGITS
    low, high = _PLAIN_NUMBERS
    if value == 0 or not np.isfinite(value) or not low <= abs(value) < high:
        return f"{value + 0.0:.{digits}g}"
    if value == round(value):
        return f"{value:,.0f}"
    before = int(np.floor(np.log10(abs(value)))) + 1
    text = f"{value:,.{max(digits - before, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimal_text(value: float, decimals: int) -> str:
    """Write a number with at most so many decimals; negative ones are tens."""
    text = f"{round(value, decimals) + 0.0:,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read(text: str) -> float:
    return float(text.replace(",", ""))


def _real_text(feature: Feature, value: float, keeps: Callable[[float], bool] | None = None) -> str:
    """Write a real number with the digits of its column, or with more until ``keeps`` accepts the number written."""
    plain = np.isfinite(value) and abs(value) < _PLAIN_NUMBERS[1]
    if feature.digits is not None and plain:
        text = _decimal_text(value, feature.digits)
        if keeps is None and value != 0 and _read(text) == 0 and abs(value) > _VANISHING * feature.scale:
            return number_text(value, 2)
        for decimals in range(feature.digits, MOST_DIGITS + 1):
            text = _decimal_text(value, decimals)
            if keeps is None or keeps(_read(text)):
                return text
    for digits in range(_DIGITS, ALL_DIGITS + 1):
        text = number_text(value, digits)
        if keeps is None or keeps(_read(text)):
            return text
    return repr(float(value))


# --- values of a feature ---------------------------------------------------------------------------------------------


def value_text(
    feature: Feature,
    codec: Any,
    value: float,
    *,
    exact: bool = False,
    unit: bool = False,
    quoted: bool = False,
) -> str:
    """Write one encoded value of a feature, see :meth:`gbce.Space.format`."""
    if np.isnan(value):
        return "missing"
    if feature.leveled:
        level = (feature.levels or ())[round(value)]
        return printable(repr(level) if quoted and isinstance(level, str) else str(level))
    if isinstance(codec, Codec) and codec.tick:
        instant = pd.Series(codec.decode(np.array([value]))[codec.label]).iloc[0]
        return printable(str(instant).removesuffix(" 00:00:00"))
    if feature.kind == "integer":
        text = _integer_text(feature, value, exact)
    else:
        text = _real_text(feature, value, _same_as(codec, value) if exact else None)
    return text + _unit_text(feature) if unit else text


def _integer_text(feature: Feature, value: float, exact: bool) -> str:
    """Write an integer; years without separators, others rounded only where the column's digits are negative."""
    if _YEARS[0] <= (feature.low or 0) and (feature.high or np.inf) <= _YEARS[1]:
        return f"{round(value)}"
    whole = float(round(value)) if np.isfinite(value) else value
    rounded = whole if exact or feature.digits is None else round(whole, min(feature.digits, 0))
    return number_text(rounded)


def _with_equal_decimals(*texts: str) -> tuple[str, ...]:
    """Fill up the fewer decimals of numbers with zeros, unless one has many or an exponent."""
    decimals = [len(text.partition(".")[2]) for text in texts]
    if not 0 < max(decimals) <= _FEW_DECIMALS or any("e" in text or "n" in text for text in texts):
        return texts
    return tuple(text if text == "0" else f"{_read(text):,.{max(decimals)}f}" for text in texts)


def _same_as(codec: Any, value: float) -> Callable[[float], bool]:
    """Return whether another number is stored as the same one in the column."""
    kind = numpy_dtype(codec.dtype) if isinstance(codec, Codec) else np.dtype(float)
    stored = kind.type if kind.kind == "f" and kind.itemsize < 8 else float
    own = stored(value)
    return lambda written: bool(stored(written) == own)


def _unit_text(feature: Feature) -> str:
    """Return what follows a number: the unit after a blank, percent without one."""
    if not feature.unit or feature.kind not in ("real", "integer"):
        return ""
    unit = printable(feature.unit)
    return unit if unit.startswith("%") else f" {unit}"


def _round_inwards(feature: Feature, low: float, high: float, inside: float | None) -> tuple[float, float]:
    """Round the ends of a range inwards to as few decimals as leave a range around the point ``inside``."""
    room = _LOST * (high - low if np.isfinite(high - low) else feature.scale)
    for decimals in range(feature.digits or 0, MOST_DIGITS + 1):
        ends = _round_up(low, decimals), -_round_up(-high, decimals)
        lost = [abs(end - old) for end, old in zip(ends, (low, high), strict=True) if np.isfinite(old)]
        if max(lost, default=0.0) <= room and (inside is None or ends[0] <= inside <= ends[1]):
            return ends
    return low, high


def _round_up(value: float, decimals: int) -> float:
    """Return the least decimal number that is not below ``value``."""
    if not np.isfinite(value) or abs(value) >= _PLAIN_NUMBERS[1]:
        return value
    near = round(value, decimals)
    return near if near >= value else round(near + 10.0**-decimals, decimals)


# --- values of a space -----------------------------------------------------------------------------------------------


class Wording(RowCodec):
    """How values of a :class:`gbce.Space` are written for people."""

    def label(self, j: int) -> str:
        """Return what people call the feature at position ``j``: its label, or else its name.

        For whatever people read; control characters are escaped. Programs, options and frames use ``names``.

        Examples
        --------
        >>> from gbce.space import Space
        >>> Space.real(["ltv", "x"], labels={"ltv": "Loan-to-value ratio"}).label(0)
        'Loan-to-value ratio'
        """
        feature = self.features[j]
        return printable(feature.label or feature.name)

    def format(self, j: int, value: float, *, exact: bool = False, unit: bool = True, quoted: bool = False) -> str:
        """Write an encoded value of the feature at position ``j`` as people do.

        Numbers have the digits of their column, separated thousands and their unit.

        Parameters
        ----------
        j : int
            Position of the feature.
        value : float
            Encoded, as in ``x``; NaN is "missing".
        exact : bool
            Whether somebody will use this very value, so that it gets as many digits as tell it from any other number;
            otherwise it is rounded to the digits of its column.
        unit : bool
            Whether to write the unit behind a number.
        quoted : bool
            Whether to put levels that are strings in quotation marks, as in a sentence.

        Examples
        --------
        >>> from gbce.space import Space
        >>> space = Space.real(["income"], units={"income": "USD"}, digits={"income": 0})
        >>> space.format(0, 2437.18), space.format(0, 2437.18, exact=True), space.format(0, 2437.18, unit=False)
        ('2,437 USD', '2,437.18 USD', '2,437')
        """
        return value_text(self.features[j], self.codecs[j], value, exact=exact, unit=unit, quoted=quoted)

    def format_change(
        self, j: int, before: float, after: float, *, exact: bool = True, unit: bool = True, quoted: bool = False
    ) -> tuple[str, str]:
        """Write the value of a feature now and the one to change it to, so that they differ; the unit stands last.

        The new value is ``exact``, so that what a person reads is what the model was given. Both have the same number
        of decimals where these are few.

        Examples
        --------
        >>> from gbce.space import Space
        >>> space = Space.real(["income", "ltv"], units={"income": "USD"}, digits={"income": 0, "ltv": 2})
        >>> space.format_change(0, 2100.4, 2450.0), space.format_change(1, 0.93, 0.8)
        (('2,100', '2,450 USD'), ('0.93', '0.80'))
        """
        feature = self.features[j]
        then = self.format(j, after, exact=exact, unit=False, quoted=quoted)
        now = self.format(j, before, unit=False, quoted=quoted)
        if feature.kind == "real" and before != after and np.isfinite(after - before):
            room = _HIDDEN * abs(after - before)
            now = _real_text(feature, before, lambda written: abs(written - before) <= room)
            then = then if exact else _real_text(feature, after, lambda written: abs(written - after) <= room)
            now, then = _with_equal_decimals(now, then)
        elif now == then and before != after:  # rounded alike
            now, then = (self.format(j, value, exact=True, unit=False, quoted=quoted) for value in (before, after))
        if not unit:
            return now, then
        last = _unit_text(feature) if not np.isnan(after) else ""
        first = _unit_text(feature) if not last and not np.isnan(before) else ""
        return now + first, then + last

    def format_range(self, j: int, low: float, high: float, *, inside: float | None = None) -> str:
        """Write a range of encoded values of a feature, infinite where it has no end.

        Ends are rounded inwards, by at most 2% of the width, so that no number in the written range lies outside the
        true one; ``inside`` is a value that must stay in it.

        Examples
        --------
        >>> from gbce.space import Space
        >>> space = Space.real(["ltv"], digits={"ltv": 2})
        >>> space.format_range(0, 0.12345, 0.9381), space.format_range(0, -np.inf, 0.4861)
        ('0.13 to 0.93', 'up to 0.48')
        """
        first, last = self.format_ends(j, low, high, inside=inside, quoted=True)
        tail = _unit_text(self.features[j])
        if np.isinf([low, high]).all():
            return "any value"
        if np.isinf(low):
            return f"up to {last}{tail}"
        return f"at least {first}{tail}" if np.isinf(high) else f"{first} to {last}{tail}"

    def format_ends(
        self, j: int, low: float, high: float, *, inside: float | None = None, quoted: bool = False
    ) -> tuple[str, str]:
        """Write the ends of a range as :meth:`format_range` does, without words and unit; an open end is empty.

        Examples
        --------
        >>> from gbce.space import Space
        >>> Space.real(["ltv"], digits={"ltv": 2}).format_ends(0, 0.12345, np.inf)
        ('0.13', '')
        """
        if self.features[j].kind == "real":
            low, high = _round_inwards(self.features[j], low, high, inside)
        first, last = (
            "" if np.isinf(end) else self.format(j, end, exact=True, unit=False, quoted=quoted) for end in (low, high)
        )
        return first, last
