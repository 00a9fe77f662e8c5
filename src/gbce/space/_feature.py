"""Define a feature (kind, range, unit, mutability), and choose units of change from data.

The units are standard deviations, or robust spreads for columns with heavy tails.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gbce._numerics import ROUNDING
from gbce._validation import distinguish, is_number, is_whole
from gbce.base import Array
from gbce.space._codecs import require_writable

Kind = Literal["real", "integer", "ordinal", "categorical", "boolean", "datetime"]
Direction = Literal["any", "increase", "decrease"]
Missing = Literal["keep", "leave", "any"]

MOST_DIGITS = 15  # decimals of a number: a double has no more that mean anything
_LARGEST_SCALE = 1e150  # its square is finite, and the square of its inverse positive: a double ends at 1e308
_SAFE_SQUARES = 1e100  # between its inverse and it, squares and their sums neither overflow nor vanish
_MAD_TO_SD = 1.4826  # 1 / Phi^-1(3/4): standard deviation of a normal distribution over its median absolute deviation
_IQR_TO_SD = 1.349  # 2 Phi^-1(3/4): interquartile range of a normal distribution over its standard deviation
_SMALLEST_SIZE = 1e-300  # for a column of zeros, so that the threshold for zero spread is positive; any tiny number
# Ratio of standard deviation to robust spread above which tails count as heavy. The exponential distribution has 1.2,
# Student's t with three degrees 1.5, the lognormal with sigma 1 has 2.0: ordinary columns keep their deviation.
_HEAVY = 3.0
_FREQUENT = 0.25  # share of one value above which a quartile may fall on it: the column is inflated there
_SCALES = ("auto", "sd", "mad", "raw")


# --- features --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Feature:
    """One feature: its values, range and unit of change, and whether and in which direction it may change.

    Parameters
    ----------
    name : str
        Column name.
    kind : {"real", "integer", "ordinal", "categorical", "boolean", "datetime"}
        The kind of values. Integers and datetimes change in integer steps, ordinals from level to level, categories
        and booleans from any level to any other.
    low, high : float, optional
        Bounds that every draw respects, as encoded: for an ordinal, positions of levels. ``None`` means unbounded.
    levels : sequence, optional
        Levels of an ordinal (from the lowest up), a category or a boolean.
    scale : float
        The amount of change that counts as one unit, in which priors, distances and noise are measured. Any change of
        a category is one step.
    mutable : bool
        Whether the feature may change at all.
    direction : {"any", "increase", "decrease"}
        The direction in which it may change from the row's value.
    unit : str
        Name of the unit of its numbers, written behind them.
    missing : {"keep", "leave", "any"}, optional
        For a feature that may be missing: ``"keep"`` leaves it as it is in the row, ``"leave"`` also allows a missing
        value to become known, ``"any"`` both directions. ``None``: no value may be missing.
    frequencies : sequence of float, optional
        Frequency of each level of a category; changes go to levels in proportion. Equal when left out.
    centre : float, optional
        Where a missing number starts from when it becomes known.
    stretch : bool
        Whether the bounds stretch to a row outside them, as bounds inferred from data do; otherwise such a row is
        rejected.
    label : str
        What people call it, in sentences, plots and pages; by default its name. Tables for programs keep the name.
    digits : int, optional
        Decimals with which its numbers are written, negative for tens, hundreds and so on; by default six significant
        digits. :meth:`gbce.Space.infer` reads them from the data.
    forbidden : sequence of (int, int)
        Transitions between levels of a category or boolean that no row makes: pairs of positions in ``levels``, the
        row's own and the one that may not follow it.

    Examples
    --------
    >>> Feature("income", low=0, scale=1000.0, direction="increase").low
    0.0
    >>> Feature("school", "ordinal", levels=["none", "primary", "secondary"]).high
    2.0
    """

    name: str
    kind: Kind = "real"
    low: float | None = None
    high: float | None = None
    levels: tuple[Any, ...] | None = None
    scale: float = 1.0
    mutable: bool = True
    direction: Direction = "any"
    unit: str = ""
    missing: Missing | None = None
    frequencies: tuple[float, ...] | None = None
    centre: float | None = None
    stretch: bool = False
    label: str = ""
    digits: int | None = None
    forbidden: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        self._require_options()
        self._set_levels()
        for side in ("low", "high"):
            value = getattr(self, side)
            if value is not None:
                if not is_number(value) or math.isnan(value):
                    raise ValueError(f"feature {self.name!r}: {side} must be a number or None, not {value!r}")
                object.__setattr__(self, side, float(value))
        if self.low is not None and self.high is not None and self.low > self.high:
            low, high = distinguish(self.low, self.high)
            raise ValueError(f"feature {self.name!r}: low = {low} is above high = {high}")
        if not is_number(self.scale) or not math.isfinite(self.scale) or self.scale <= 0:
            raise ValueError(
                f"feature {self.name!r}: scale must be a positive number, not {self.scale!r}. It is the amount "
                "of change that counts as one unit."
            )
        if not 1.0 / _LARGEST_SCALE <= self.scale <= _LARGEST_SCALE:
            raise ValueError(
                f"feature {self.name!r}: scale = {self.scale:g} must lie between {1.0 / _LARGEST_SCALE:.0e} and "
                f"{_LARGEST_SCALE:.0e}, so that squared changes are numbers. Measure the column in other units."
            )
        object.__setattr__(self, "scale", float(self.scale))
        if not isinstance(self.mutable, (bool, np.bool_)):
            raise ValueError(f"feature {self.name!r}: mutable must be True or False, not {self.mutable!r}")
        object.__setattr__(self, "mutable", bool(self.mutable))
        if not isinstance(self.stretch, (bool, np.bool_)):
            raise ValueError(f"feature {self.name!r}: stretch must be True or False, not {self.stretch!r}")
        object.__setattr__(self, "stretch", bool(self.stretch))
        self._require_words()
        self._require_transitions()

    def _require_transitions(self) -> None:
        """Check the forbidden transitions."""
        pairs = tuple((int(before), int(after)) for before, after in self.forbidden)
        known = range(len(self.levels or ()))
        if pairs and (not self.unordered or any(a not in known or b not in known or a == b for a, b in pairs)):
            raise ValueError(
                f"feature {self.name!r}: forbidden must be pairs of different positions among the levels of a category "
                f"or boolean, not {self.forbidden!r}"
            )
        object.__setattr__(self, "forbidden", pairs)

    def _require_words(self) -> None:
        """Check label, unit and digits."""
        for option in ("label", "unit"):
            if not isinstance(getattr(self, option), str):
                raise TypeError(f"feature {self.name!r}: {option} must be a string, not {getattr(self, option)!r}")
        if self.digits is None:
            return
        if not is_whole(self.digits) or abs(self.digits) > MOST_DIGITS:
            raise ValueError(
                f"feature {self.name!r}: digits must be an integer from {-MOST_DIGITS} to {MOST_DIGITS}, the decimals "
                f"of its numbers, not {self.digits!r}"
            )
        object.__setattr__(self, "digits", int(self.digits))

    def _require_options(self) -> None:
        """Check kind, direction and missing."""
        for option, kinds in (("kind", Kind), ("direction", Direction)):
            if getattr(self, option) not in get_args(kinds):
                known = ", ".join(map(repr, get_args(kinds)))
                raise ValueError(
                    f"feature {self.name!r}: {option} must be one of {known}, not {getattr(self, option)!r}"
                )
        if self.missing is not None and self.missing not in get_args(Missing):
            raise ValueError(
                f"feature {self.name!r}: missing must be 'keep', 'leave', 'any' or None, not {self.missing!r}"
            )
        if self.unordered and self.direction != "any":
            raise ValueError(
                f"feature {self.name!r}: a {self.kind} feature cannot {self.direction}: make it ordinal, with its "
                "levels from the lowest up, or hold it fixed with mutable=False"
            )

    def _set_levels(self) -> None:
        """Check levels and frequencies, and set the bounds of an ordinal."""
        if not self.leveled:
            if self.levels is not None:
                raise ValueError(f"feature {self.name!r}: only ordinal and categorical features have levels")
            return
        if self.levels is None and self.kind == "boolean":
            object.__setattr__(self, "levels", (False, True))
        if self.levels is None or isinstance(self.levels, str):
            raise ValueError(f"feature {self.name!r}: {self.kind} features need levels=[...], not {self.levels!r}")
        levels = tuple(self.levels)
        object.__setattr__(self, "levels", levels)
        require_writable(levels, f"feature {self.name!r}: the level")
        if len(set(levels)) < len(levels):
            raise ValueError(f"feature {self.name!r}: a level occurs twice in {list(levels)}")
        if len(levels) == 0 or (len(levels) == 1 and self.mutable and self.missing != "any"):
            raise ValueError(
                f"feature {self.name!r} has {len(levels) or 'no'} level{'' if len(levels) else 's'}"
                f"{', ' + repr(levels[0]) if levels else ''}: it cannot change. Hold it fixed (immutable, "
                "mutable=False), list all its levels, or drop the column."
            )
        if self.unordered and (self.low is not None or self.high is not None):
            raise ValueError(
                f"feature {self.name!r}: a {self.kind} feature has no bounds; forbid levels by a constraint such as "
                f'"{self.name} != {levels[0]!r}"'
            )
        if not self.unordered:
            object.__setattr__(self, "low", 0.0 if self.low is None else self.low)
            object.__setattr__(self, "high", float(len(levels) - 1) if self.high is None else self.high)
        if self.frequencies is not None:
            share = np.asarray(self.frequencies, dtype=float)
            if share.shape != (len(levels),) or not (np.isfinite(share).all() and (share > 0).all()):
                raise ValueError(f"feature {self.name!r}: frequencies must be one positive number per level")
            total = share.sum()  # dividing again by a total that is one up to rounding would change the last bits
            share = share if abs(total - 1.0) < ROUNDING else share / total
            object.__setattr__(self, "frequencies", tuple(share.tolist()))

    def range_from(self, now: float) -> tuple[float, float]:
        """Return the lowest and the highest value allowed by bounds and direction when the row has ``now``.

        Examples
        --------
        >>> Feature("income", low=0, high=9, direction="increase").range_from(4.0)
        (4.0, 9.0)
        >>> Feature("income", low=0, high=9, stretch=True).range_from(12.0)
        (0.0, 12.0)
        """
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if self.stretch and not math.isnan(now):
            low, high = min(low, now), max(high, now)
        if self.direction == "increase":
            low = max(low, now)
        elif self.direction == "decrease":
            high = min(high, now)
        return low, high

    def levels_from(self, now: float) -> Array:
        """Return the positions of the levels that a row with level ``now`` can have, its own included.

        Examples
        --------
        >>> Feature("home", "categorical", levels=["rent", "own", "none"], forbidden=[(1, 0)]).levels_from(1.0)
        array([1., 2.])
        """
        barred = {after for before, after in self.forbidden if before == now}
        return np.array([code for code in range(len(self.levels or ())) if code not in barred], dtype=float)

    @property
    def leveled(self) -> bool:
        """Whether its values are levels, encoded by their positions."""
        return self.kind in ("ordinal", "categorical", "boolean")

    @property
    def unordered(self) -> bool:
        """Whether its levels have no order."""
        return self.kind in ("categorical", "boolean")

    @property
    def discrete(self) -> bool:
        """Whether it changes in integer steps or between levels."""
        return self.kind != "real"

    @property
    def plain(self) -> bool:
        """Whether it is a real number that is never missing."""
        return self.kind == "real" and self.missing is None


def list_values(feature: Feature, low: float, high: float, most: int) -> Array | None:
    """Return all values of a feature from ``low`` to ``high``; None if it is real or has more than ``most``."""
    if not feature.discrete or not 0.0 <= high - low < most:
        return None
    return low + np.arange(round(high - low) + 1.0)


# --- units of change -------------------------------------------------------------------------------------------------


class Units(NamedTuple):
    """The unit of each column."""

    units: list[float]
    robust: tuple[tuple[str, float], ...] = ()  # columns with heavy tails, and their standard deviation over their unit
    inflated: tuple[str, ...] = ()  # columns whose median absolute deviation is zero: mostly one value


def deviations(values: Array, measure: Callable[..., Array] = np.nanstd) -> Array:
    """Return the standard deviation of each column of ``(n, ...)``, ignoring NaN and safe against overflow."""
    peak = np.nanmax(np.abs(values), axis=0)
    unit = np.where((peak == 0) | ((peak > 1.0 / _SAFE_SQUARES) & (peak < _SAFE_SQUARES)), 1.0, peak)
    return unit * measure(values / unit, axis=0)


def robust_spread(values: Array) -> float:
    """Return a robust standard deviation of a column ``(n,)`` from its quartiles, zero for a constant one.

    Where one value, such as zero, makes up a quarter of the column or more, it is at least the median distance of the
    other values to it.
    """
    known = np.sort(values[~np.isnan(values)])
    low, high = np.quantile(known, [0.25, 0.75])
    spread = high / _IQR_TO_SD - low / _IQR_TO_SD
    return float(max(spread, _spread_about_mode(known)))


def _spread_about_mode(known: Array) -> float:
    """Return the median distance of the other values to the mode if the mode is frequent, else zero."""
    found, counts = np.unique(known, return_counts=True)
    if counts.max() < _FREQUENT * len(known) or len(found) == 1:
        return 0.0
    mode = found[int(np.argmax(counts))]
    others = known[known != mode]
    return float(np.median(np.abs(_MAD_TO_SD * others - _MAD_TO_SD * mode)))


def _median_deviations(values: Array) -> Array:
    return np.nanmedian(np.abs(values - np.nanmedian(values, axis=0)), axis=0)


def units_of(values: Array, names: Sequence[str], scale: Any, fixed: Set[str], *, table: bool = False) -> Units:
    """Choose the unit of each column; ``"auto"`` is the standard deviation, or robust for heavy tails in a ``table``.

    A column without spread is rejected unless it is ``fixed``.
    """
    if isinstance(scale, Mapping):
        how, given = "auto", dict(scale)
    elif isinstance(scale, str) and scale in _SCALES:
        how, given = scale, {}
    else:
        raise ValueError(f"scale must be 'auto', 'sd', 'mad', 'raw' or a mapping of names to numbers, not {scale!r}")
    if how == "raw" or not names:
        return Units([1.0] * len(names))
    spread = _MAD_TO_SD * _median_deviations(values) if how == "mad" else deviations(values)
    tiny = ROUNDING * np.maximum(np.nanmax(np.abs(values), axis=0), _SMALLEST_SIZE)
    robust, inflated = [], []
    for j in [j for j, name in enumerate(names) if name not in given]:
        if how == "mad" and spread[j] <= tiny[j]:
            spread[j] = _spread_about_mode(values[~np.isnan(values[:, j]), j])
            inflated += [names[j]] if spread[j] > tiny[j] else []
        elif how == "auto" and table:
            found = robust_spread(values[:, j])
            if tiny[j] < found < spread[j] / _HEAVY:
                robust.append((names[j], float(spread[j] / found)))
                spread[j] = found
    units = {name: given.get(name, float(spread[j])) for j, name in enumerate(names)}
    flat = [n for j, n in enumerate(names) if n not in given and spread[j] <= tiny[j]]
    stuck = [name for name in flat if name not in fixed]
    if stuck:
        word = "median absolute deviation" if how == "mad" else "standard deviation"
        raise ValueError(
            f"columns {stuck} have a {word} of zero in the data, so they have no unit of change. Hold them fixed "
            f"with Space.infer(data, immutable={stuck}) or give their units with scale={{name: number}}."
        )
    return Units([1.0 if name in flat else units[name] for name in names], tuple(robust), tuple(inflated))
