"""A wish relative to what the model says about the row now."""

from dataclasses import dataclass, field

import numpy as np

from gbce._validation import require_finite, short
from gbce.base import Outputs, Reading
from gbce.targets._numeric import DEFAULT_SPREAD_SHARE, AtLeast, AtMost, Numeric, Value

__all__ = ["Change"]


@dataclass(frozen=True)
class Change(Numeric):
    """An output that is higher or lower than the row's is now.

    The explanation holds the plain target it comes down to: ``Change(-0.1, relative=True)`` for a row with output 240
    is ``AtMost(216)``. With several models the first one says what the output is now, and all are asked for the same.

    Parameters
    ----------
    by : float
        The change that is wanted, or more of it: at least 5 more with ``by=5``, at least 5 less with ``by=-5``.
    relative : bool
        Whether ``by`` is a share of the size of the output now: ``by=-0.1`` is 10% less. An output of -50 that
        changes by 0.1 goes up to -45; one of zero has no share, and is refused.
    exact : bool
        Whether the output is to change by just that, within a tolerance, as in :class:`Value`. ``by=0`` then asks
        for the output to stay.
    scale, tolerance, loss
        As in :class:`Value`.

    Examples
    --------
    >>> now = Outputs(np.array([240.0]))
    >>> Change(-0.1, relative=True).bind(now).describe()
    "10% below the row's 240: at most 216"
    >>> Change(5, exact=True, tolerance=1).bind(now).describe()
    "5 above the row's 240: 245 ± 1"
    """

    by: float
    relative: bool = field(default=False, kw_only=True)
    exact: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        require_finite(self, "by")
        for name in ("relative", "exact"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"Change: {name} must be True or False, not {getattr(self, name)!r}")
        if self.by == 0 and not self.exact:
            raise ValueError(
                "Change: by=0 does not say which way; give a number above or below zero, or exact=True for an output "
                "that stays as it is"
            )
        super().__post_init__()

    @property
    def _tolerance_share(self) -> float:
        return DEFAULT_SPREAD_SHARE if self.exact else 0.0

    def bind(self, now: Outputs) -> Value | AtLeast | AtMost:
        """Return the plain target for a row; ``now`` holds what is said of it, one number."""
        values = self._numbers(now)
        if len(values) != 1:
            raise ValueError(f"Change: one row says what the output is now, not {len(values)}")
        value = float(values[0])
        if self.relative and value == 0:
            raise ValueError(
                f"Change: {now.model} gives 0 for the row, and a share of nothing is nothing: ask for an absolute "
                "change, gbce.Change(by) without relative=True"
            )
        wanted = value + self.by * (abs(value) if self.relative else 1.0)
        kind = Value if self.exact else AtLeast if self.by > 0 else AtMost
        because = f"{self._amount()} the row's {short(value)}"
        return kind(wanted, scale=self.scale, tolerance=self.tolerance, loss=self.loss, because=because)

    def read(self, outputs: Outputs) -> Reading:
        """Say that a row is needed first."""
        raise ValueError(f"Change: {self.describe()}, and the row's output is not known; call bind(now) first")

    def describe(self) -> str:
        """Return the wish as a few words."""
        return f"{self._amount()} the row's output"

    def _amount(self) -> str:
        if self.by == 0:
            return "equal to"
        size = f"{short(abs(100 * self.by))}%" if self.relative else short(abs(self.by))
        return f"{size} {'above' if self.by > 0 else 'below'}"
