"""Wishes for several outputs of one model at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gbce._validation import is_number, require_finite, short
from gbce.base import Array, Outputs, Reading, Target
from gbce.targets._numeric import Numeric

__all__ = ["Loss", "Multi"]

# --- a wish given as a function --------------------------------------------------------------------------------------


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

    function: Callable[[Array], Array] | None = field(metadata={"file": None})  # a file keeps no code
    threshold: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise TypeError(f"Loss: function must be callable, not {self.function!r}")
        require_finite(self, "threshold")

    @property
    def readable(self) -> bool:
        """Whether the function is there: a file keeps none."""
        return self.function is not None

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        if self.function is None:
            raise ValueError("this Loss came from a file, which keeps no code; build it again with its function")
        loss = np.asarray(self.function(outputs.values.copy()), dtype=float)  # it may write into what it gets
        n = len(outputs.values)
        if loss.shape != (n,):
            raise ValueError(f"Loss: the function must return one number per row, ({n},), not {loss.shape}")
        if np.isnan(loss).any():
            i = int(np.flatnonzero(np.isnan(loss))[0])
            raise ValueError(f"Loss: the function returned NaN for output {outputs.values[i]!r}")
        output = outputs.values if outputs.values.ndim == 1 else loss
        return Reading(output, loss, loss <= self.threshold)

    @property
    def error(self) -> str:
        """There is none: no error turns a user's own loss into a likelihood."""
        raise TypeError("ModelError does not know what the values of your own loss mean: give eta as a number")

    def describe(self) -> str:
        """Return the wish as a few words."""
        return f"{getattr(self.function, '__name__', 'loss')} at most {short(self.threshold)}"


# --- wishes for several outputs of one model at once -----------------------------------------------------------------


@dataclass(frozen=True)
class Multi(Target):
    """A target for each of several outputs: the loss is the sum of theirs, reached when all are.

    The model returns ``(n, c)`` numbers. A scale or tolerance left open is read off the spread of that output on the
    data. What is shown as the output is the loss: zero where all are reached without a tolerance. The outputs
    themselves come from the model, e.g. ``model.predict(explanation.counterfactuals)``.

    Parameters
    ----------
    targets : mapping of int to target, or sequence of c targets
        Each a Value, Range, AtLeast, AtMost or Change. A mapping names outputs by their position, from 0; a sequence
        has one entry for each, ``None`` for one that is left alone.
    weights : mapping of int to float, or sequence of c floats, optional
        What each loss counts in the sum; one where left out.

    Examples
    --------
    >>> import gbce
    >>> wish = Multi({0: gbce.AtLeast(3, scale=1, tolerance=0), 1: gbce.AtMost(5, scale=2, tolerance=0)})
    >>> wish.describe()
    'output 0 at least 3, output 1 at most 5'
    >>> wish.read(Outputs(np.array([[4.0, 5.0], [1.0, 7.0]])))
    Reading(output=array([0., 5.]), loss=array([0., 5.]), reached=array([ True, False]))
    """

    targets: Mapping[int, Target] | Sequence[Target | None]
    weights: Mapping[int, float] | Sequence[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", _freeze(self.targets, "targets", "gbce.Multi({0: gbce.AtLeast(3)})"))
        for index, target in _entries(self.targets):
            if not isinstance(target, Numeric):
                raise TypeError(
                    f"Multi: the target of output {index} must be a Value, Range, AtLeast, AtMost or Change, not "
                    f"{target!r}; for a function of all outputs ask for gbce.Loss"
                )
        if not any(True for _ in _entries(self.targets)):
            raise ValueError("Multi: there is no target; give at least one, such as gbce.Multi({0: gbce.AtLeast(3)})")
        if self.weights is None:
            return
        object.__setattr__(self, "weights", _freeze(self.weights, "weights", "{0: 2.0}"))
        for index, weight in _entries(self.weights):
            if not is_number(weight) or not 0 < weight < np.inf:
                raise ValueError(f"Multi: the weight of output {index} must be a positive number, not {weight!r}")
        self._require_same_outputs()

    def _require_same_outputs(self) -> None:
        """Require weights to be about outputs that have a target."""
        if isinstance(self.weights, tuple) and isinstance(self.targets, dict):
            raise ValueError("Multi: targets name their outputs, so weights must name them too, such as {0: 2.0}")
        if isinstance(self.weights, tuple) and len(self.weights) != len(self.targets):
            raise ValueError(
                f"Multi: weights has {len(self.weights)} entries, targets has {len(self.targets)}; give one for each"
            )
        if isinstance(self.weights, dict):
            lost = sorted(set(self.weights) - {index for index, _ in _entries(self.targets)})
            if lost:
                raise ValueError(f"Multi: output {lost[0]} has a weight but no target")

    @property
    def needs_spread(self) -> bool:
        """Whether a part has left scale or tolerance open."""
        return any(target.needs_spread for _, target in _entries(self.targets))

    def resolve(self, spread: float | Array) -> "Multi":
        """Return the target with each part's open numbers filled in from its own output's spread ``(c,)``."""
        each = np.atleast_1d(spread)
        return self._change_each(lambda i, target: target.resolve(each[i] if i < len(each) else 1.0))

    def bind(self, now: Outputs) -> "Multi":
        """Return the target with parts relative to the row made plain ones."""
        values = self._values(now)
        return self._change_each(lambda i, target: target.bind(Outputs(values[:, i], model=now.model)))

    def read(self, outputs: Outputs) -> Reading:
        """Return loss, loss and reached for each row."""
        values = self._values(outputs)
        loss, reached = np.zeros(len(values)), np.ones(len(values), dtype=bool)
        for i, target in _entries(self.targets):
            part = target.read(Outputs(values[:, i], model=outputs.model))
            loss += self._weight(i) * part.loss
            reached &= part.reached
        return Reading(loss, loss, reached)

    @property
    def error(self) -> str:
        """No single error stands for several outputs."""
        raise TypeError("ModelError measures one output, and gbce.Multi asks for several: give eta as a number")

    def describe(self) -> str:
        """Return the wishes as a few words."""
        return ", ".join(f"output {i} {target.describe()}" for i, target in _entries(self.targets))

    def _weight(self, index: int) -> float:
        return 1.0 if self.weights is None else float(dict(_entries(self.weights)).get(index, 1.0))

    def _values(self, outputs: Outputs) -> Array:
        """Return the outputs ``(n, c)``, or say why the targets do not fit them."""
        if outputs.classes is not None:
            raise TypeError(
                f"Multi wants numbers, but {outputs.model} is a classifier: ask for gbce.Class(label) with a label out "
                f"of {list(outputs.classes)}"
            )
        values = outputs.values[:, None] if outputs.values.ndim == 1 else outputs.values
        c = values.shape[1]
        has = f"{outputs.model} returns {c} {'column' if c == 1 else 'columns'}"
        if isinstance(self.targets, tuple) and len(self.targets) != c:
            raise ValueError(
                f"Multi lists targets for {len(self.targets)}, but {has}: put None where an output is left alone, or "
                "name the outputs, as in gbce.Multi({0: gbce.AtLeast(3)})"
            )
        last = max(index for index, _ in _entries(self.targets))
        if last >= c:
            raise ValueError(f"Multi has a target for output {last}, but {has}; outputs are counted from 0")
        return values

    def _change_each(self, change: Callable[[int, Target], Target]) -> "Multi":
        def change_one(index: int, target: Target) -> Target:
            try:
                return change(index, target)
            except ValueError as error:
                raise ValueError(f"Multi, output {index}: {error}") from None

        parts = {index: change_one(index, target) for index, target in _entries(self.targets)}
        if isinstance(self.targets, dict):
            return replace(self, targets=parts)
        return replace(self, targets=[parts.get(index) for index in range(len(self.targets))])


def _freeze(given: Any, what: str, example: str) -> dict[int, Any] | tuple[Any, ...]:
    """Return a copy that the caller cannot change: a dict in the order of outputs, or a tuple."""
    if isinstance(given, Mapping):
        for index in given:
            if not isinstance(index, (int, np.integer)) or isinstance(index, bool) or index < 0:
                raise ValueError(f"Multi: {what} names the output {index!r}; outputs are whole numbers from 0")
        return {int(index): given[index] for index in sorted(given)}
    if isinstance(given, (Target, str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"Multi: {what} must be a mapping or a sequence, such as {example}, not {given!r}")
    return tuple(given)


def _entries(kept: Any) -> Iterator[tuple[int, Any]]:
    """Yield position and entry, but for outputs that are left alone."""
    pairs = kept.items() if isinstance(kept, dict) else enumerate(kept)
    return ((index, entry) for index, entry in pairs if entry is not None)
