"""What is wanted of a model's output: how far an output is from it (the loss) and when it counts as reached.

A target reads the :class:`Outputs` of one model on ``n`` rows and returns a :class:`Reading`: one number to
show, one loss and one verdict per row. Numeric targets differ only in what they call the *deviation* from the
wish; loss and ``reached`` follow from it in one place.
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gbce._checks import require_finite
from gbce._weights import Array

__all__ = ["AtLeast", "AtMost", "Class", "Loss", "Outputs", "Range", "Reading", "Target", "Value", "short"]

DEFAULT_SPREAD_SHARE = 0.1  # scale and tolerance left open are this share of the outputs' standard deviation
_SMALLEST_PROBABILITY = np.finfo(float).eps  # so that a forest's p = 0 costs 36, not infinity


@dataclass(frozen=True)
class Outputs:
    """What one model said about ``n`` rows.

    Parameters
    ----------
    values : array of shape (n,) or (n, c)
        Predictions, or class probabilities in the order of ``classes``.
    classes : tuple, optional
        The labels of a classifier's columns; ``None`` for anything else.
    decided : int array of shape (n,), optional
        Index of the class the model itself decides for.
    model : str
        Name for error messages.
    """

    values: Array
    classes: tuple[Any, ...] | None = None
    decided: Array | None = None
    model: str = "model"


class Reading(NamedTuple):
    """A target's reading of one model's outputs: three arrays ``(n,)``."""

    output: Array
    loss: Array
    reached: Array


def short(value: float) -> str:
    """Return a number in few digits for a sentence; large ones without an exponent: ``300,000``, not ``3e+05``."""
    text = f"{value:.4g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < 1e15 else text


class Target(ABC):
    """Base of all targets."""

    @abstractmethod
    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""

    @abstractmethod
    def describe(self) -> str:
        """Return the wish as a few words, e.g. ``"at least 60"``."""

    @property
    def needs_spread(self) -> bool:
        """Whether a number was left open that :meth:`resolved` reads off the model's outputs."""
        return False

    def resolved(self, spread: float) -> "Target":
        """Return the target with open numbers filled in; ``spread`` is the SD of the model's outputs."""
        return self


@dataclass(frozen=True, kw_only=True)
class _Numeric(Target):
    """Targets on one number per row."""

    scale: float | None = None
    tolerance: float | None = None
    loss: Literal["squared", "absolute"] = "squared"

    _tolerance_share: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.scale is not None:
            require_finite(self, "scale")
            if self.scale <= 0:
                raise ValueError(f"{name}: scale must be positive, not {self.scale!r}")
        if self.tolerance is not None:
            require_finite(self, "tolerance")
            if self.tolerance < 0:
                raise ValueError(f"{name}: tolerance must not be negative, not {self.tolerance!r}")
        if self.loss not in ("squared", "absolute"):
            raise ValueError(f"{name}: loss must be 'squared' or 'absolute', not {self.loss!r}")

    @abstractmethod
    def deviation(self, f: Array) -> Array:
        """How far outputs ``(n,)`` are from the wish, in the output's units; never negative."""

    @property
    def needs_spread(self) -> bool:
        """Whether scale or tolerance was left open."""
        return self.scale is None or (self.tolerance is None and self._tolerance_share > 0)

    def resolved(self, spread: float) -> "Target":
        """Return the target with scale and tolerance filled in."""
        if self.needs_spread and not spread > 0:
            raise ValueError(
                f"{type(self).__name__}: the model gives the same output for every row of the data, so scale and "
                "tolerance cannot be read off them; give both as numbers"
            )
        scale = DEFAULT_SPREAD_SHARE * spread if self.scale is None else float(self.scale)
        tolerance = self._tolerance_share * spread if self.tolerance is None else float(self.tolerance)
        return replace(self, scale=scale, tolerance=tolerance)

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        name = type(self).__name__
        if outputs.classes is not None:
            raise TypeError(
                f"{name} wants a number, but {outputs.model} is a classifier: ask for gbce.Class(label) with a "
                f"label out of {list(outputs.classes)}"
            )
        if outputs.values.ndim != 1:
            raise ValueError(
                f"{name} wants one number per row, but {outputs.model} returns {outputs.values.shape[1]} columns; "
                "use gbce.Loss with a function of all of them"
            )
        if self.scale is None or self.tolerance is None:
            raise ValueError(f"{name}: scale and tolerance are still open; call resolved(spread) first")
        deviation = self.deviation(outputs.values)
        scaled = deviation / self.scale
        loss = np.square(scaled) if self.loss == "squared" else scaled
        return Reading(outputs.values, loss, deviation <= self.tolerance)


@dataclass(frozen=True)
class Value(_Numeric):
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

    Examples
    --------
    >>> import numpy as np
    >>> Value(3.0, scale=1, tolerance=0.5).read(Outputs(np.array([3.2, 5.0]))).loss.round(2)
    array([0.04, 4.  ])
    """

    y: float

    _tolerance_share: ClassVar[float] = DEFAULT_SPREAD_SHARE

    def __post_init__(self) -> None:
        require_finite(self, "y")
        super().__post_init__()

    def deviation(self, f: Array) -> Array:
        """How far outputs are from the wish."""
        return np.abs(f - self.y)

    def describe(self) -> str:
        """Return the wish as a few words."""
        tolerance = "" if self.tolerance is None else f" ± {short(self.tolerance)}"
        return f"{short(self.y)}{tolerance}"


@dataclass(frozen=True)
class Range(_Numeric):
    """An output between ``low`` and ``high``: no loss inside, squared distance over ``scale**2`` outside.

    ``scale``, ``tolerance`` and ``loss`` are those of :class:`Value`, but ``tolerance`` is zero when left
    open: an output outside the range has not reached it.

    Examples
    --------
    >>> import numpy as np
    >>> Range(60, 100, scale=10, tolerance=0).read(Outputs(np.array([50.0, 70.0, 120.0]))).loss
    array([1., 0., 4.])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        require_finite(self, "low", "high")
        if self.low > self.high:
            raise ValueError(f"Range: low = {self.low:g} is above high = {self.high:g}")
        super().__post_init__()

    def deviation(self, f: Array) -> Array:
        """How far outputs are from the wish."""
        return np.maximum(np.maximum(self.low - f, f - self.high), 0.0)

    def describe(self) -> str:
        """Return the wish as a few words."""
        return f"between {short(self.low)} and {short(self.high)}"


@dataclass(frozen=True)
class AtLeast(_Numeric):
    """An output of ``y`` or more; otherwise like :class:`Range`.

    Examples
    --------
    >>> import numpy as np
    >>> AtLeast(60, scale=10).resolved(spread=1.0).read(Outputs(np.array([50.0, 60.0]))).reached
    array([False,  True])
    """

    y: float

    def __post_init__(self) -> None:
        require_finite(self, "y")
        super().__post_init__()

    def deviation(self, f: Array) -> Array:
        """How far outputs are from the wish."""
        return np.maximum(self.y - f, 0.0)

    def describe(self) -> str:
        """Return the wish as a few words."""
        return f"at least {short(self.y)}"


@dataclass(frozen=True)
class AtMost(_Numeric):
    """An output of ``y`` or less; otherwise like :class:`Range`.

    Examples
    --------
    >>> import numpy as np
    >>> AtMost(60, scale=10, loss="absolute").resolved(spread=1.0).read(Outputs(np.array([80.0]))).loss
    array([2.])
    """

    y: float

    def __post_init__(self) -> None:
        require_finite(self, "y")
        super().__post_init__()

    def deviation(self, f: Array) -> Array:
        """How far outputs are from the wish."""
        return np.maximum(f - self.y, 0.0)

    def describe(self) -> str:
        """Return the wish as a few words."""
        return f"at most {short(self.y)}"


@dataclass(frozen=True)
class Class(Target):
    """A decision for ``label``: loss ``-log p(label | x)``.

    Parameters
    ----------
    label : object
        One of the model's classes, as the model spells it.
    probability : float
        When it counts as reached. At 0.5 the model's own decision counts: its ``predict`` must give ``label``,
        so a tie that the model resolves the other way is not reached, and with three or more classes the most
        probable one wins. Any other value asks for ``p(label | x) >= probability``.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> said = Outputs(p, classes=("no", "yes"), decided=p.argmax(axis=1))
    >>> Class("yes").read(said).reached
    array([False,  True])
    """

    label: Any
    probability: float = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        require_finite(self, "probability")
        if not 0 < self.probability <= 1:
            raise ValueError(f"Class: probability must be above 0 and at most 1, not {self.probability!r}")

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        values, decided, column = self._columns(outputs)
        p = values[:, column]
        loss = -np.log(np.clip(p, _SMALLEST_PROBABILITY, 1.0))
        reached = decided == column if self.probability == 0.5 else p >= self.probability
        return Reading(p, loss, reached)

    def _columns(self, outputs: Outputs) -> tuple[Array, Array, int]:
        if outputs.classes is None or outputs.decided is None:
            raise TypeError(
                f"Class({self.label!r}) wants a classifier, but {outputs.model} returns numbers without classes: "
                "ask for gbce.Value, gbce.Range, gbce.AtLeast or gbce.AtMost"
            )
        for column, label in enumerate(outputs.classes):
            if label == self.label:
                return outputs.values, outputs.decided, column
        spelled = {str(label): label for label in outputs.classes}
        near = difflib.get_close_matches(str(self.label), list(spelled), n=1)
        hint = f" Did you mean {spelled[near[0]]!r}?" if near else ""
        raise ValueError(
            f"Class: {outputs.model} never saw the label {self.label!r}; its classes are {list(outputs.classes)}.{hint}"
        )

    def describe(self) -> str:
        """Return the wish as a few words."""
        sure = "" if self.probability == 0.5 else f" with probability {self.probability:g} or more"
        return f"class {self.label!r}{sure}"


@dataclass(frozen=True)
class Loss(Target):
    """Any loss that can be evaluated: ``function(outputs) -> (n,)``, reached when ``loss <= threshold``.

    Parameters
    ----------
    function : callable
        Takes the model's outputs, ``(n,)`` or ``(n, c)`` (class probabilities for a classifier), and returns one
        loss per row. It must not be NaN.
    threshold : float
        Largest loss that counts as reached, the paper's ε.

    Examples
    --------
    >>> import numpy as np
    >>> wish = Loss(lambda f: np.abs(f - 2.0), threshold=0.1)
    >>> wish.read(Outputs(np.array([2.05, 3.0]))).reached
    array([ True, False])
    """

    function: Callable[[Array], Array] | None
    threshold: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise TypeError(f"Loss: function must be callable, not {self.function!r}")
        require_finite(self, "threshold")

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        if self.function is None:
            raise ValueError("this Loss came from a file, which keeps no code; build it again with its function")
        loss = np.asarray(self.function(outputs.values), dtype=float)
        n = len(outputs.values)
        if loss.shape != (n,):
            raise ValueError(f"Loss: the function must return one number per row, ({n},), not {loss.shape}")
        if np.isnan(loss).any():
            i = int(np.flatnonzero(np.isnan(loss))[0])
            raise ValueError(f"Loss: the function returned NaN for output {outputs.values[i]!r}")
        output = outputs.values if outputs.values.ndim == 1 else loss
        return Reading(output, loss, loss <= self.threshold)

    def describe(self) -> str:
        """Return the wish as a few words."""
        return f"{getattr(self.function, '__name__', 'loss')} at most {short(self.threshold)}"
