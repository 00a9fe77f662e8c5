"""Targets given as a loss function, and targets on several outputs of one model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gbce._validation import is_number, require_finite, short
from gbce.base import Array, Outputs, Reading, Target
from gbce.targets._numeric import Numeric

__all__ = ["Loss", "Multi"]

# --- loss functions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss(Target):
    """Any loss that can be evaluated: ``function(outputs) -> (n,)``, reached when ``loss <= threshold``.

    Parameters
    ----------
    function : callable
        Takes the model's outputs, ``(n,)`` or ``(n, c)`` (class probabilities for a classifier), and returns one
        loss per row, which must not be NaN.
    threshold : float
        Largest loss that counts as reached, the paper's ε.

    Examples
    --------
    >>> import numpy as np
    >>> target = Loss(lambda f: np.abs(f - 2.0), threshold=0.1)
    >>> target.read(Outputs(np.array([2.05, 3.0]))).reached
    array([ True, False])
    """

    function: Callable[[Array], Array] | None = field(metadata={"file": None})  # files contain no code
    threshold: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise TypeError(f"Loss: function must be callable, not {self.function!r}")
        require_finite(self, "threshold")

    @property
    def readable(self) -> bool:
        """Whether the function is available; files do not contain it."""
        return self.function is not None

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        if self.function is None:
            raise ValueError("this Loss came from a file, which contains no code; create it again with its function")
        loss = np.asarray(self.function(outputs.values.copy()), dtype=float)  # it may modify its argument
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
        """Undefined: no error turns a user-defined loss into a likelihood."""
        raise TypeError("ModelError does not know the units of a user-defined loss: give eta as a number")

    def describe(self) -> str:
        """Return the target in a few words."""
        return f"{getattr(self.function, '__name__', 'loss')} at most {short(self.threshold)}"


# --- several outputs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Multi(Target):
    """A target for each of several outputs: the loss is the sum of theirs, reached when all are.

    The model returns ``(n, c)`` numbers. Default scales and tolerances follow from the spread of each output on the
    data. The loss is shown as the output: zero if all are reached without a tolerance. The outputs themselves come from
    the model, e.g. ``model.predict(explanation.counterfactuals)``.

    Parameters
    ----------
    targets : mapping of int to target, or sequence of c targets
        Each a Value, Range, AtLeast, AtMost or Change. A mapping names outputs by position, from 0; a sequence has one
        entry for each, ``None`` for an output without a target.
    weights : mapping of int to float, or sequence of c floats, optional
        Weight of each loss in the sum; one by default.

    Examples
    --------
    >>> import gbce
    >>> target = Multi({0: gbce.AtLeast(3, scale=1, tolerance=0), 1: gbce.AtMost(5, scale=2, tolerance=0)})
    >>> target.describe()
    'output 0 at least 3, output 1 at most 5'
    >>> target.read(Outputs(np.array([[4.0, 5.0], [1.0, 7.0]])))
    Reading(output=array([0., 5.]), loss=array([0., 5.]), reached=array([ True, False]))
    """

    targets: Mapping[int, Target] | Sequence[Target | None]
    weights: Mapping[int, float] | Sequence[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", _freeze(self.targets, "targets", "gbce.Multi({0: gbce.AtLeast(3)})"))
        for index, target in _iterate_entries(self.targets):
            if not isinstance(target, Numeric):
                raise TypeError(
                    f"Multi: the target of output {index} must be a Value, Range, AtLeast, AtMost or Change, not "
                    f"{target!r}; for a function of all outputs use gbce.Loss"
                )
        if not any(True for _ in _iterate_entries(self.targets)):
            raise ValueError("Multi: there is no target; give at least one, such as gbce.Multi({0: gbce.AtLeast(3)})")
        if self.weights is None:
            return
        object.__setattr__(self, "weights", _freeze(self.weights, "weights", "{0: 2.0}"))
        for index, weight in _iterate_entries(self.weights):
            if not is_number(weight) or not 0 < weight < np.inf:
                raise ValueError(f"Multi: the weight of output {index} must be a positive number, not {weight!r}")
        self._require_same_outputs()

    def _require_same_outputs(self) -> None:
        """Require weights to refer to outputs that have a target."""
        if isinstance(self.weights, tuple) and isinstance(self.targets, dict):
            raise ValueError("Multi: targets name their outputs, so weights must name them too, such as {0: 2.0}")
        if isinstance(self.weights, tuple) and len(self.weights) != len(self.targets):
            raise ValueError(
                f"Multi: weights has {len(self.weights)} entries, targets has {len(self.targets)}; give one for each"
            )
        if isinstance(self.weights, dict):
            lost = sorted(set(self.weights) - {index for index, _ in _iterate_entries(self.targets)})
            if lost:
                raise ValueError(f"Multi: output {lost[0]} has a weight but no target")

    @property
    def needs_spread(self) -> bool:
        """Whether a part uses a default scale or tolerance."""
        return any(target.needs_spread for _, target in _iterate_entries(self.targets))

    def resolve(self, spread: float | Array) -> "Multi":
        """Return the target with the defaults of each part filled in from the spread ``(c,)`` of its output."""
        each = np.atleast_1d(spread)
        return self._change_each(lambda i, target: target.resolve(each[i] if i < len(each) else 1.0))

    def bind(self, now: Outputs) -> "Multi":
        """Return the target with parts relative to the row made absolute."""
        values = self._require_values(now)
        return self._change_each(lambda i, target: target.bind(Outputs(values[:, i], model=now.model)))

    def read(self, outputs: Outputs) -> Reading:
        """Return loss, loss and reached for each row."""
        values = self._require_values(outputs)
        loss, reached = np.zeros(len(values)), np.ones(len(values), dtype=bool)
        for i, target in _iterate_entries(self.targets):
            part = target.read(Outputs(values[:, i], model=outputs.model))
            loss += self._get_weight(i) * part.loss
            reached &= part.reached
        return Reading(loss, loss, reached)

    @property
    def error(self) -> str:
        """Undefined: no single error applies to several outputs."""
        raise TypeError("ModelError measures one output, but gbce.Multi has several: give eta as a number")

    def describe(self) -> str:
        """Return the targets in a few words."""
        return ", ".join(f"output {i} {target.describe()}" for i, target in _iterate_entries(self.targets))

    def _get_weight(self, index: int) -> float:
        return 1.0 if self.weights is None else float(dict(_iterate_entries(self.weights)).get(index, 1.0))

    def _require_values(self, outputs: Outputs) -> Array:
        """Return the outputs ``(n, c)``, or raise an error if the targets do not fit them."""
        if outputs.classes is not None:
            raise TypeError(
                f"Multi needs numbers, but {outputs.model} is a classifier: use gbce.Class(label) with one of the "
                f"labels {list(outputs.classes)}"
            )
        values = outputs.values[:, None] if outputs.values.ndim == 1 else outputs.values
        c = values.shape[1]
        has = f"{outputs.model} returns {c} {'column' if c == 1 else 'columns'}"
        if isinstance(self.targets, tuple) and len(self.targets) != c:
            raise ValueError(
                f"Multi lists targets for {len(self.targets)}, but {has}: put None for outputs without a target, or "
                "name the outputs, as in gbce.Multi({0: gbce.AtLeast(3)})"
            )
        last = max(index for index, _ in _iterate_entries(self.targets))
        if last >= c:
            raise ValueError(f"Multi has a target for output {last}, but {has}; outputs are counted from 0")
        return values

    def _change_each(self, change: Callable[[int, Target], Target]) -> "Multi":
        def change_one(index: int, target: Target) -> Target:
            try:
                return change(index, target)
            except ValueError as error:
                raise ValueError(f"Multi, output {index}: {error}") from None

        parts = {index: change_one(index, target) for index, target in _iterate_entries(self.targets)}
        if isinstance(self.targets, dict):
            return replace(self, targets=parts)
        return replace(self, targets=[parts.get(index) for index in range(len(self.targets))])


def _freeze(given: Any, what: str, example: str) -> dict[int, Any] | tuple[Any, ...]:
    """Return an immutable copy: a dict in the order of outputs, or a tuple."""
    if isinstance(given, Mapping):
        for index in given:
            if not isinstance(index, (int, np.integer)) or isinstance(index, bool) or index < 0:
                raise ValueError(f"Multi: {what} names the output {index!r}; outputs are integers from 0")
        return {int(index): given[index] for index in sorted(given)}
    if isinstance(given, (Target, str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"Multi: {what} must be a mapping or a sequence, such as {example}, not {given!r}")
    return tuple(given)


def _iterate_entries(kept: Any) -> Iterator[tuple[int, Any]]:
    """Yield position and entry of outputs that have one."""
    pairs = kept.items() if isinstance(kept, dict) else enumerate(kept)
    return ((index, entry) for index, entry in pairs if entry is not None)
