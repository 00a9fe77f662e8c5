"""Targets on one number per row: a value, a range, a limit, or a change of the current output.

They differ only in the *deviation* of an output from the wanted range; loss and ``reached`` follow from it in one
place.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from gbce._validation import ALL_DIGITS, distinguish, require_finite, short
from gbce.base import Array, Outputs, Reading, Target

# Default scale and tolerance as a share of the standard deviation of the model's outputs. A convention on which results
# depend: users with a specific error in mind give both as numbers.
DEFAULT_SPREAD_SHARE = 0.1
# Digits of a limit, enough to show what the user typed; of an output, at least.
_LIMIT_DIGITS, _FEW_DIGITS = 7, 4

# --- absolute targets ------------------------------------------------------------------------------------------------


def _format_limit(value: float) -> str:
    """Return a number of the target with enough digits to show what the user typed."""
    return short(value, _LIMIT_DIGITS)


@dataclass(frozen=True, kw_only=True)
class Numeric(Target):
    """A target on one number per row: scale and shape of the loss, and a tolerance."""

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
        """The error that scales the loss: mean squared or mean absolute."""
        return "mae" if self.loss == "absolute" else "mse"

    @property
    def loss_unit(self) -> float | None:
        """The scale."""
        return self.scale

    @property
    def _tolerance_share(self) -> float:
        """The default tolerance as a share of the spread."""
        return 0.0

    @property
    def needs_spread(self) -> bool:
        """Whether scale or tolerance takes its default."""
        return self.scale is None or (self.tolerance is None and self._tolerance_share > 0)

    def resolve(self, spread: float | Array) -> Self:
        """Return the target with scale and tolerance filled in."""
        sd = float(np.max(spread)) if np.size(spread) == 1 else 1.0  # read() refuses several outputs
        if self.needs_spread and not sd > 0:
            raise ValueError(
                f"{type(self).__name__}: the model gives the same output for every row of the data, so scale and "
                "tolerance cannot be derived from them; give both as numbers"
            )
        scale = DEFAULT_SPREAD_SHARE * sd if self.scale is None else float(self.scale)
        tolerance = self._tolerance_share * sd if self.tolerance is None else float(self.tolerance)
        return replace(self, scale=scale, tolerance=tolerance)

    def _require_numbers(self, outputs: Outputs) -> Array:
        """Return one number per row ``(n,)``, or raise an error if there is none."""
        name = type(self).__name__
        if outputs.classes is not None:
            raise TypeError(
                f"{name} needs a number, but {outputs.model} is a classifier: use gbce.Class(label) with one of the "
                f"labels {list(outputs.classes)}"
            )
        if outputs.values.ndim != 1:
            raise ValueError(
                f"{name} needs one number per row, but {outputs.model} returns {outputs.values.shape[1]} columns; "
                "use gbce.Multi with a target for each of them, or gbce.Loss with a function of all"
            )
        return outputs.values


@dataclass(frozen=True, kw_only=True)
class _Absolute(Numeric):
    """Targets that do not depend on the row."""

    because: str = field(default="", compare=False, repr=False)

    def deviation(self, f: Array) -> Array:
        """Return the deviation of outputs ``(n,)`` from the wanted range, in their units; never negative."""
        low, high = self._wanted_range()
        return np.maximum(np.maximum(low - f, f - high), 0.0)

    @abstractmethod
    def _describe_range(self) -> str:
        """Return the wanted range in a few words."""

    def describe(self) -> str:
        """Return the target in a few words, after its reason."""
        return f"{self.because}: {self._describe_range()}" if self.because else self._describe_range()

    def say(self, output: float, reached: bool) -> str:
        """Return a model's prediction for a row beside the wanted range."""
        wanted, (low, high) = self._describe_range(), self.accepted()
        shown = short(output)
        for digits in range(_FEW_DIGITS, ALL_DIGITS + 1):  # enough to tell 499.99 from "at least 500"
            shown = short(output, digits)
            rounded = float(f"{output:.{digits}g}")
            if shown not in wanted and (low <= rounded <= high) == (low <= output <= high):
                break
        return f"predicts {shown} (wanted: {wanted})"

    def accepted(self) -> tuple[float, float]:
        """Return the lowest and the highest output that count as reached."""
        low, high = self._wanted_range()
        slack = 0.0 if self.tolerance is None else self.tolerance
        return low - slack, high + slack

    @abstractmethod
    def _wanted_range(self) -> tuple[float, float]:
        """Return the lowest and the highest wanted output; infinite if there is no limit."""

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        values = self._require_numbers(outputs)
        if self.scale is None or self.tolerance is None:
            raise ValueError(f"{type(self).__name__}: scale and tolerance are still open; call resolve(spread) first")
        with np.errstate(over="ignore"):  # a point of infinite loss has no weight
            deviation = self.deviation(values)
            scaled = deviation / self.scale
            loss = np.square(scaled) if self.loss == "squared" else scaled
        return Reading(values, loss, deviation <= self.tolerance)


@dataclass(frozen=True)
class Value(_Absolute):
    """An output equal to ``y``: loss ``((f - y) / scale)**2``, reached when ``|f - y| <= tolerance``.

    Parameters
    ----------
    y : float
        The wanted output y*.
    scale : float, optional
        Deviation with a loss of one. By default 10% of the SD of the model's outputs on the data; ``scale=1`` is the
        paper's squared error, :func:`gbce.noise_scale` derives it from the model's own error.
    tolerance : float, optional
        Largest deviation that still counts as reached; by default 10% of the SD of the outputs.
    loss : {"squared", "absolute"}
        Shape of the loss.
    because : str
        Words shown before the target, e.g. where the number comes from.

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

    def _describe_range(self) -> str:
        tolerance = "" if self.tolerance is None else f" ± {short(self.tolerance)}"
        return f"{_format_limit(self.y)}{tolerance}"


@dataclass(frozen=True)
class Range(_Absolute):
    """An output between ``low`` and ``high``: no loss inside, squared distance over ``scale**2`` outside.

    The other options are those of :class:`Value`, but ``tolerance`` is zero by default: an output outside the range has
    not reached it.

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

    def _describe_range(self) -> str:
        return f"between {_format_limit(self.low)} and {_format_limit(self.high)}"


@dataclass(frozen=True)
class AtLeast(_Absolute):
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

    def _describe_range(self) -> str:
        return f"at least {_format_limit(self.y)}"


@dataclass(frozen=True)
class AtMost(_Absolute):
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

    def _describe_range(self) -> str:
        return f"at most {_format_limit(self.y)}"


# --- targets relative to the row -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change(Numeric):
    """An output higher or lower than the row's current one.

    The explanation contains the absolute target: ``Change(-0.1, relative=True)`` for a row with output 240 is
    ``AtMost(216)``. With several models the first one gives the current output, and the target is the same for all.

    Parameters
    ----------
    by : float
        The least change wanted: at least 5 more with ``by=5``, at least 5 less with ``by=-5``.
    relative : bool
        Whether ``by`` is relative to the absolute value of the current output: ``by=-0.1`` is 10% less. An output of
        -50 that changes by 0.1 goes up to -45; an output of zero is refused.
    exact : bool
        Whether the output must change by exactly that, within a tolerance, as in :class:`Value`. ``by=0`` then means
        an unchanged output.
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
                "Change: by=0 does not say which way; give a number above or below zero, or exact=True for an "
                "unchanged output"
            )
        super().__post_init__()

    @property
    def _tolerance_share(self) -> float:
        return DEFAULT_SPREAD_SHARE if self.exact else 0.0

    def bind(self, now: Outputs) -> Value | AtLeast | AtMost:
        """Return the absolute target for a row; ``now`` holds the model's one output for it."""
        values = self._require_numbers(now)
        if len(values) != 1:
            raise ValueError(f"Change: the current output comes from one row, not {len(values)}")
        value = float(values[0])
        if self.relative and value == 0:
            raise ValueError(
                f"Change: {now.model} gives 0 for the row, so a relative change is not defined: use an absolute "
                "change, gbce.Change(by) without relative=True"
            )
        wanted = value + self.by * (abs(value) if self.relative else 1.0)
        kind = Value if self.exact else AtLeast if self.by > 0 else AtMost
        because = f"{self._describe_amount()} the row's {short(value)}"
        return kind(wanted, scale=self.scale, tolerance=self.tolerance, loss=self.loss, because=because)

    def read(self, outputs: Outputs) -> Reading:
        """Raise an error: the row is needed first."""
        raise ValueError(f"Change: {self.describe()}, and the row's output is not known; call bind(now) first")

    def describe(self) -> str:
        """Return the target in a few words."""
        return f"{self._describe_amount()} the row's output"

    def _describe_amount(self) -> str:
        if self.by == 0:
            return "equal to"
        size = f"{short(abs(100 * self.by))}%" if self.relative else short(abs(self.by))
        return f"{size} {'above' if self.by > 0 else 'below'}"
