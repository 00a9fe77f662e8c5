"""Wishes for one number per row.

They differ only in what they call the *deviation* from the wish; loss and ``reached`` follow from it in one place.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from gbce._validation import distinguish, require_finite, short
from gbce.base import Array, Outputs, Reading, Target

__all__ = ["AtLeast", "AtMost", "Change", "Numeric", "Range", "Value"]

# Scale and tolerance left open are this share of the standard deviation of the model's outputs. A convention, which
# results do hang on: who has an error in mind gives both as numbers.
DEFAULT_SPREAD_SHARE = 0.1
# Digits of a wish, so that what somebody typed is seen; of an output, at least and at most.
_WISHED_DIGITS, _FEW_DIGITS, _ALL_DIGITS = 7, 4, 17

# --- wishes for one number per row -----------------------------------------------------------------------------------


def _as_wished(value: float) -> str:
    return short(value, _WISHED_DIGITS)


@dataclass(frozen=True, kw_only=True)
class Numeric(Target):
    """What all targets on one number per row have: the scale and shape of the loss, and a tolerance."""

    loss_from_zero: ClassVar[bool] = True

    scale: float | None = None
    tolerance: float | None = None
    loss: Literal["squared", "absolute"] = "squared"

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.scale is not None:
            require_finite(self, "scale")
            if self.scale <= 0:
                raise ValueError(f"{name}: scale must be positive, not {self.scale!r}")
        if self.tolerance is not None:
            require_finite(self, "tolerance")
            if self.tolerance < 0:
                raise ValueError(f"{name}: tolerance must be zero or more, not {self.tolerance!r}")
        if self.loss not in ("squared", "absolute"):
            raise ValueError(f"{name}: loss must be 'squared' or 'absolute', not {self.loss!r}")

    @property
    def error(self) -> str:
        """The mean squared or the mean absolute error, as the loss is."""
        return "mae" if self.loss == "absolute" else "mse"

    @property
    def loss_unit(self) -> float | None:
        """The scale."""
        return self.scale

    @property
    def _tolerance_share(self) -> float:
        """The tolerance as a share of the spread, when left open."""
        return 0.0

    @property
    def needs_spread(self) -> bool:
        """Whether scale or tolerance was left open."""
        return self.scale is None or (self.tolerance is None and self._tolerance_share > 0)

    def resolve(self, spread: float | Array) -> Self:
        """Return the target with scale and tolerance filled in."""
        sd = float(np.max(spread)) if np.size(spread) == 1 else 1.0  # read() refuses several outputs with a sentence
        if self.needs_spread and not sd > 0:
            raise ValueError(
                f"{type(self).__name__}: the model gives the same output for every row of the data, so scale and "
                "tolerance cannot be read off them; give both as numbers"
            )
        scale = DEFAULT_SPREAD_SHARE * sd if self.scale is None else float(self.scale)
        tolerance = self._tolerance_share * sd if self.tolerance is None else float(self.tolerance)
        return replace(self, scale=scale, tolerance=tolerance)

    def _numbers(self, outputs: Outputs) -> Array:
        """Return one number per row ``(n,)``, or say why there is none."""
        name = type(self).__name__
        if outputs.classes is not None:
            raise TypeError(
                f"{name} wants a number, but {outputs.model} is a classifier: ask for gbce.Class(label) with a "
                f"label out of {list(outputs.classes)}"
            )
        if outputs.values.ndim != 1:
            raise ValueError(
                f"{name} wants one number per row, but {outputs.model} returns {outputs.values.shape[1]} columns; "
                "use gbce.Multi with a target for each of them, or gbce.Loss with a function of all"
            )
        return outputs.values


@dataclass(frozen=True, kw_only=True)
class _Plain(Numeric):
    """Targets that do not depend on the row."""

    because: str = field(default="", compare=False, repr=False)

    def deviation(self, f: Array) -> Array:
        """How far outputs ``(n,)`` are from the wish, in the output's units; never negative."""
        low, high = self._wanted_range()
        return np.maximum(np.maximum(low - f, f - high), 0.0)

    @abstractmethod
    def _wish(self) -> str:
        """Return the wish alone as a few words."""

    def describe(self) -> str:
        """Return the wish as a few words, after where it comes from."""
        return f"{self.because}: {self._wish()}" if self.because else self._wish()

    def say(self, output: float, reached: bool) -> str:
        """Return what a model predicts for a row, beside what was wanted.

        Examples
        --------
        >>> AtMost(140).say(139.62, True)
        'predicts 139.6 (wanted: at most 140)'
        """
        wish, (low, high) = self._wish(), self.accepted()
        said = short(output)
        for digits in range(_FEW_DIGITS, _ALL_DIGITS + 1):  # "at least 500", and it is 499.99
            said = short(output, digits)
            rounded = float(f"{output:.{digits}g}")
            if said not in wish and (low <= rounded <= high) == (low <= output <= high):
                break
        return f"predicts {said} (wanted: {wish})"

    def accepted(self) -> tuple[float, float]:
        """Return the lowest and the highest output that meet the wish."""
        low, high = self._wanted_range()
        slack = 0.0 if self.tolerance is None else self.tolerance
        return low - slack, high + slack

    @abstractmethod
    def _wanted_range(self) -> tuple[float, float]:
        """Return the lowest and the highest output that are wished for; infinite where there is none."""

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        values = self._numbers(outputs)
        if self.scale is None or self.tolerance is None:
            raise ValueError(f"{type(self).__name__}: scale and tolerance are still open; call resolve(spread) first")
        with np.errstate(over="ignore"):  # a loss beyond any number is infinite: the point has no weight
            deviation = self.deviation(values)
            scaled = deviation / self.scale
            loss = np.square(scaled) if self.loss == "squared" else scaled
        return Reading(values, loss, deviation <= self.tolerance)


@dataclass(frozen=True)
class Value(_Plain):
    """An output equal to ``y``: loss ``((f - y) / scale)**2``, reached when ``|f - y| <= tolerance``.

    Parameters
    ----------
    y : float
        The wanted output y*.
    scale : float, optional
        Error that costs one unit of loss. Left open, it is 10% of the SD of the model's outputs on the data;
        ``scale=1`` is the paper's squared error, :func:`gbce.noise_scale` ties it to the model's own error.
    tolerance : float, optional
        Largest error that still counts as reached; 10% of the SD of the outputs when left open.
    loss : {"squared", "absolute"}
        Shape of the loss.
    because : str
        Words that go before the wish where it is shown, e.g. where the number comes from.

    Examples
    --------
    >>> Value(3.0, scale=1, tolerance=0.5).read(Outputs(np.array([3.2, 5.0]))).loss.round(2)
    array([0.04, 4.  ])
    """

    y: float

    def __post_init__(self) -> None:
        require_finite(self, "y")
        super().__post_init__()

    @property
    def _tolerance_share(self) -> float:
        return DEFAULT_SPREAD_SHARE

    def _wanted_range(self) -> tuple[float, float]:
        return self.y, self.y

    def _wish(self) -> str:
        tolerance = "" if self.tolerance is None else f" ± {short(self.tolerance)}"
        return f"{_as_wished(self.y)}{tolerance}"


@dataclass(frozen=True)
class Range(_Plain):
    """An output between ``low`` and ``high``: no loss inside, squared distance over ``scale**2`` outside.

    The other options are those of :class:`Value`, but ``tolerance`` is zero when left
    open: an output outside the range has not reached it.

    Examples
    --------
    >>> Range(60, 100, scale=10, tolerance=0).read(Outputs(np.array([50.0, 70.0, 120.0]))).loss
    array([1., 0., 4.])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        require_finite(self, "low", "high")
        if self.low > self.high:
            low, high = distinguish(self.low, self.high)
            raise ValueError(f"Range: low = {low} is above high = {high}")
        super().__post_init__()

    def _wanted_range(self) -> tuple[float, float]:
        return self.low, self.high

    def _wish(self) -> str:
        return f"between {_as_wished(self.low)} and {_as_wished(self.high)}"


@dataclass(frozen=True)
class AtLeast(_Plain):
    """An output of ``y`` or more; otherwise like :class:`Range`.

    Examples
    --------
    >>> AtLeast(60, scale=10).resolve(spread=1.0).read(Outputs(np.array([50.0, 60.0]))).reached
    array([False,  True])
    """

    y: float

    def __post_init__(self) -> None:
        require_finite(self, "y")
        super().__post_init__()

    def _wanted_range(self) -> tuple[float, float]:
        return self.y, np.inf

    def _wish(self) -> str:
        return f"at least {_as_wished(self.y)}"


@dataclass(frozen=True)
class AtMost(_Plain):
    """An output of ``y`` or less; otherwise like :class:`Range`.

    Examples
    --------
    >>> AtMost(60, scale=10, loss="absolute").resolve(spread=1.0).read(Outputs(np.array([80.0]))).loss
    array([2.])
    """

    y: float

    def __post_init__(self) -> None:
        require_finite(self, "y")
        super().__post_init__()

    def _wanted_range(self) -> tuple[float, float]:
        return -np.inf, self.y

    def _wish(self) -> str:
        return f"at most {_as_wished(self.y)}"


# --- a wish relative to what the model says about the row now --------------------------------------------------------


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
