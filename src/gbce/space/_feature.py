"""One column: what values it takes, its range, its unit of change, and which way it may move."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from gbce._validation import distinguish, is_number
from gbce.space._tolerances import ROUNDING
from gbce.space._values import require_writable

__all__ = ["Direction", "Feature", "Kind", "Missing"]

_LARGEST_SCALE = 1e150  # its square is finite, and that of one over it is above zero: a double ends at 1e308

Kind = Literal["real", "integer", "ordinal", "categorical", "boolean", "datetime"]
Direction = Literal["any", "increase", "decrease"]
Missing = Literal["keep", "leave", "any"]


@dataclass(frozen=True)
class Feature:
    """One feature: its values, its range, its unit of change, and whether and which way it may move.

    Parameters
    ----------
    name : str
        Column name.
    kind : {"real", "integer", "ordinal", "categorical", "boolean", "datetime"}
        What values it takes. Integers and datetimes move in whole steps, ordinals from level to level, categories and
        booleans from any level to any other.
    low, high : float, optional
        Bounds that every draw respects, as encoded: for an ordinal, positions of levels. ``None`` means unbounded.
    levels : sequence, optional
        Of an ordinal (from the lowest up), a category or a boolean.
    scale : float
        How much change counts as one unit: priors, distances and noise are measured in it. Any change of a category
        is one step.
    mutable : bool
        Whether the feature may change at all.
    direction : {"any", "increase", "decrease"}
        Which way it may move from the row's value.
    unit : str
        Name of the unit its numbers are in, for tables.
    missing : {"keep", "leave", "any"}, optional
        For a feature that may hold no value: a row keeps what it has, known or missing; or a missing value may become
        known; or both ways. ``None``: no value may be missing.
    frequencies : sequence of float, optional
        How often each level of a category occurs; moves go to levels in proportion. Equal when left out.
    centre : float, optional
        Where a missing number starts from when it becomes known.
    stretch : bool
        Whether the bounds give way to a row that lies outside of them, as those that were read off data do; a row
        outside of bounds that somebody gave is refused.

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

    def _require_options(self) -> None:
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
                f"feature {self.name!r}: a {self.kind} feature has no {self.direction}: make it ordinal, with its "
                "levels from the lowest up, or hold it fixed with mutable=False"
            )

    def _set_levels(self) -> None:
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
                "mutable=False), name all its levels, or drop the column."
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
            total = share.sum()  # to divide again by what is one up to rounding would change the last bits
            share = share if abs(total - 1.0) < ROUNDING else share / total
            object.__setattr__(self, "frequencies", tuple(share.tolist()))

    def range_from(self, now: float) -> tuple[float, float]:
        """Return the lowest and the highest value when the row's is ``now``: bounds, direction, and what they allow.

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

    @property
    def leveled(self) -> bool:
        """Whether its values are levels, encoded by their positions."""
        return self.kind in ("ordinal", "categorical", "boolean")

    @property
    def unordered(self) -> bool:
        """Whether no level is nearer to another than the rest."""
        return self.kind in ("categorical", "boolean")

    @property
    def discrete(self) -> bool:
        """Whether it moves in whole steps."""
        return self.kind != "real"

    @property
    def plain(self) -> bool:
        """Whether it is a real number that is always known."""
        return self.kind == "real" and self.missing is None
