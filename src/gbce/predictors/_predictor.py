"""One model as a function of float rows: asked in batches, every answer checked, every call counted."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gbce.base import Array, Outputs
from gbce.budget import Budget, BudgetSpentError
from gbce.space import unmasked

__all__ = ["MAX_BATCH", "Meter", "PredictionError", "Predictor"]

MAX_BATCH = 100_000  # rows of one call; by hand: beyond it the cost of a call no longer counts, only memory grows
_ABOVE_ONE = 1e-6  # by how much a probability may exceed one: single precision rounds at 6e-8, a sum of a few at more


class PredictionError(RuntimeError):
    """A model raised, or returned something that cannot be used; the message names model, batch and row."""


@dataclass
class Meter:
    """Counts what a model was asked."""

    calls: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Predictor:
    """One model, ready to be asked.

    Parameters
    ----------
    name : str
        For messages and tables.
    ask : callable
        Rows ``(n, d)`` to raw outputs.
    classes : tuple, optional
        Labels of the output columns of a classifier.
    decide : callable, optional
        Rows ``(n, d)`` to the labels a classifier's own ``predict`` gives.
    decide_always : bool
        Whether ``predict`` was seen to differ from the most probable class, so that it must be asked each time.
    plain : bool
        Whether it is a bare function, which does not say whether it classifies.
    identity : str
        What tells the model from others without asking it; empty where it is known by its answers.
    batch_rows : int
        Largest number of rows in one call.
    meter : Meter
        What was asked so far.
    remake : callable, optional
        Makes the predictor anew from the model itself. A copy, here or in another process, is made by it: what was
        learned of the model in use (tables of its steps, short ways to ask it) rests on the identity of its parts,
        which no copy keeps, so that it is learned again there.
    own_ask, own_decide : callable, optional
        The same by the way that a user takes, where ``ask`` and ``decide`` take a shorter one.
    by_row : bool
        Whether it may be asked about one row at a time; not where every call is paid for.
    in_step : bool
        Whether asking waits for others who ask, so that whoever calls the model for all of them minds the time.
    """

    name: str
    ask: Callable[[Array], Any]
    classes: tuple[Any, ...] | None = None
    decide: Callable[[Array], Any] | None = None
    decide_always: bool = False
    plain: bool = False
    identity: str = ""
    batch_rows: int = MAX_BATCH
    meter: Meter = field(default_factory=Meter)
    remake: Callable[[], "Predictor"] | None = field(default=None, repr=False, compare=False)
    own_ask: Callable[[Array], Any] | None = None
    own_decide: Callable[[Array], Any] | None = None
    by_row: bool = True
    in_step: bool = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.remake is None:
            return super().__reduce_ex__(protocol)
        known = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _MADE_ANEW}
        return _remade, (known,)

    def with_fresh_meter(self) -> "Predictor":
        """Return the same predictor with a count of its own, starting at zero."""
        return replace(self, meter=Meter())

    def questions(self, use_predict: bool = False) -> int:
        """Return how often each row is put to the model: twice where its ``predict`` is asked as well."""
        return 1 + (self.decide is not None and self.classes is not None and (use_predict or self.decide_always))

    def __call__(
        self, x: Array, *, use_predict: bool = False, alone: bool = False, budget: Budget | None = None
    ) -> Outputs:
        """Ask the model about ``x`` of shape ``(n, d)``.

        A classifier's decision is its most probable class, the first one on a tie, as scikit-learn's own
        ``predict`` has it. With ``use_predict`` its ``predict`` is called and believed instead. With ``alone`` it is
        asked by the user's own way, together with nobody else's rows. The budget, if there is one, minds the time of a
        call; rows are counted by who hands it in.
        """
        budget = Budget() if budget is None or self.in_step else budget
        ask, decide = self.ask, self.decide
        if alone:
            ask, decide = self.own_ask or ask, self.own_decide or decide
        values = self._in_batches(ask, x, self._check_values, budget)
        if self.classes is None:
            return Outputs(values, model=self.name)
        if self.plain:
            self._require_probabilities(values)
        if values.ndim == 1:
            values = np.column_stack([1.0 - values, values])
        if decide is not None and self.questions(use_predict) > 1:
            labels = self._in_batches(decide, x, self._check_labels, budget)
            decided = _positions(labels, self.classes)
        else:
            decided = values.argmax(axis=1)
        return Outputs(values, self.classes, decided, self.name)

    def _in_batches(self, ask: Callable[[Array], Any], x: Array, check: Callable[..., Array], budget: Budget) -> Array:
        n = len(x)
        starts = range(0, n, self.batch_rows)
        parts = []
        for number, start in enumerate(starts, start=1):
            rows = x[start : start + self.batch_rows]
            place = f"{self.name}, batch {number} of {len(starts)} (rows {start} to {start + len(rows) - 1})"
            try:
                raw = budget.call(ask, rows, id(self.ask))
            except BudgetSpentError:
                raise
            except PredictionError as error:
                raise PredictionError(f"{place}: {error}") from error
            except Exception as error:
                raise PredictionError(f"{place}: the model raised {type(error).__name__}: {error}") from error
            self.meter.calls += 1
            self.meter.rows += len(rows)
            parts.append(check(raw, rows, start, place))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _check_values(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        try:
            array = np.array(unmasked(raw))  # a copy: a runtime may write its next answer into the same memory
            if array.dtype.kind not in "fiubO" or (array.dtype.kind == "O" and _has_text(array)):
                raise TypeError("text that looks like a number, or a complex one, would be converted")
            values = array.astype(float, copy=False)
        except (TypeError, ValueError):
            kind = type(raw).__name__
            raise PredictionError(f"{place}: the model must return numbers, but returned {kind} {raw!r:.80}") from None
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim not in (1, 2) or len(values) != len(rows):
            raise PredictionError(
                f"{place}: the model must return one line per row, ({len(rows)},) or ({len(rows)}, c), but returned "
                f"shape {values.shape}"
            )
        bad = ~np.isfinite(values)
        if bad.any():
            i = int(np.argwhere(bad)[0][0])
            raise PredictionError(
                f"{place}: the model returned {values[i]} for row {start + i}, "
                f"x = {np.array2string(rows[i], precision=4, threshold=12)}"
            )
        if self.classes is not None and values.ndim == 1 and len(self.classes) != 2:
            raise PredictionError(f"{place}: one number per row for the classes {list(self.classes)}")
        if self.classes is not None and values.ndim == 2 and values.shape[1] != len(self.classes):
            raise PredictionError(f"{place}: {values.shape[1]} columns for the classes {list(self.classes)}")
        return values

    def _check_labels(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        labels = np.array(raw)  # a copy, as of values
        if labels.shape == (len(rows), 1):
            labels = labels[:, 0]
        if labels.shape != (len(rows),):
            raise PredictionError(f"{place}: predict returned shape {labels.shape} for {len(rows)} rows")
        return labels

    def _require_probabilities(self, p: Array) -> None:
        bad = (p < 0) | (p > 1 + _ABOVE_ONE)
        if bad.any():
            wish = "p(label 1)" if p.ndim == 1 else "one probability per class"
            raise PredictionError(f"{self.name}: {p[bad][0]} is not a probability; a Class target needs {wish}")


_MADE_ANEW = ("ask", "decide", "own_ask", "own_decide")  # the functions that hold the model


def _remade(known: dict[str, Any]) -> Predictor:
    """Return a predictor made anew, with what is known of the one that it is a copy of."""
    return replace(known["remake"](), **known)


def _has_text(array: Array) -> bool:
    return any(isinstance(value, (str, bytes)) for value in array.flat)


def _positions(labels: Array, classes: tuple[Any, ...]) -> Array:
    index = {label: i for i, label in enumerate(classes)}
    return np.array([index.get(label, -1) for label in labels.tolist()])
