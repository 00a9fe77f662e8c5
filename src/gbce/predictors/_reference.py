"""Outputs of the models at rows of the data, once per explainer: their spread, how classifiers decide, known rows.

Also whether two sets of outputs come from the same model, and a regression tree as a partition into boxes.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gbce._numerics import JUDGING, stream
from gbce.base import Array, Outputs
from gbce.budget import Budget, BudgetSpentError
from gbce.predictors._estimators import as_classifier, follow_predict
from gbce.predictors._panel import Panel
from gbce.predictors._predictor import Predictor
from gbce.space import Space, deviations

# To tell whether two sets of outputs come from the same model, all three by hand:
N_ASKED = 48  # rows: a few dozen tell two fits apart and cost next to nothing
_SHARE_OF_SPREAD = 1e-4  # outputs that differ by less lead to the same explanation
_SHARE_OF_SIZE = 1e-6  # above the rounding of single precision (6e-8), on another processor or in another batch
# Rows of the data, and fewer than twice as many, from which the spread of outputs is estimated: to 1% for a normal
# distribution (1 / sqrt(2 n)).
_ENOUGH_REFERENCE_ROWS = 5_000
# Points at which a classifier's predict is compared with its probabilities; by hand: a rule that differs at one point
# in 500 is missed once in fifty times.
_N_COMPARED = 2_000
_SETUP_SHARE = 0.25  # of a short budget, by hand: the rest is for the explanation, and fewer rows have to do
_MOST_KNOWN_ROWS = 2_000  # of the data that show where a target is met; by hand, fewer with many models:
_MOST_KNOWN_ASKED = 4_000  # rows over all models
_KNOWN_SHARE = 0.1  # of a short budget, by hand
_FEWEST_REFERENCE_ROWS = 30  # with fewer, a spread is off by more than an eighth (1 / sqrt(2 n) = 0.13)

# --- outputs of the same model ---------------------------------------------------------------------------------------


def pick_rows(n: int) -> Array:
    """Return positions ``(m,)`` of at most :data:`N_ASKED` rows out of ``n``, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, N_ASKED)).astype(int))


def same_answers(before: Any, now: Any) -> bool:
    """Whether arrays of one shape agree up to rounding, relative to their spread and size."""
    a, b = np.asarray(before, dtype=float), np.asarray(now, dtype=float)
    if a.shape != b.shape:
        return False
    known = np.isfinite(a)
    if not np.array_equal(a[~known], b[~known], equal_nan=True):
        return False
    if not known.any():
        return True
    a, b = a[known], b[known]
    size = np.abs(a).max()
    of_spread = _SHARE_OF_SPREAD * size * (a / size).std() if size > 0 else 0.0  # no square overflows
    room = _SHARE_OF_SIZE * size + of_spread
    return bool(np.all(np.abs(a - b) <= room))


# --- rows of the data ------------------------------------------------------------------------------------------------


@dataclass
class Reference:
    """Some rows of the data with the outputs of the models there."""

    rows: Array
    space: Space
    spread: Array | None = None
    classifiers: tuple[Predictor, ...] | None = None
    hasty: bool = False  # whether the budget was too small to compare the classifiers at all points
    outputs: dict[tuple[int, bool], Outputs] = field(default_factory=dict)  # by model position, and as a classifier

    @classmethod
    def of(cls, data: Array, space: Space) -> "Reference":
        """Take evenly spaced rows of data ``(n, d)`` of a space."""
        return cls(data[:: max(1, len(data) // _ENOUGH_REFERENCE_ROWS)], space)

    def as_classifiers(self, predictors: tuple[Predictor, ...], budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors as classifiers with fresh meters, after comparing ``predict`` with probabilities once.

        With little time or few rows they are compared at fewer points, and again by a later call without a deadline.
        """
        if self.classifiers is not None and (budget.deadline is not None or not self.hasty):
            return tuple(predictor.with_fresh_meter() for predictor in self.classifiers)
        plain, compared = _lack_names(predictors), _have_predict(predictors)
        short = budget.deadline is not None or self.rows_to_compare(predictors) > budget.rows_left
        ready, self.hasty = list(predictors), False
        for k in np.flatnonzero(plain):
            ready[k] = as_classifier(ready[k], Panel((ready[k],), budget).ask(self.rows[:1])[0])
        points, some = _points_between(self.rows, self.space.discrete), budget.share(_SETUP_SHARE)
        for number, k in enumerate(np.flatnonzero(compared)):
            part = some.share(1.0 / (sum(compared) - number)) if short else budget
            (outputs,) = Panel((ready[k],), part, use_predict=True).ask_some(points)
            ready[k] = follow_predict(ready[k], outputs)
            self.hasty |= len(outputs.values) < len(points)
        self.classifiers = tuple(ready)
        return self.classifiers

    def known(self, predictors: tuple[Predictor, ...]) -> tuple[Array, list[Outputs]] | None:
        """Return some rows of the data with the outputs of every model; None if they were not evaluated."""
        outputs = [self.outputs.get((k, predictor.classes is not None)) for k, predictor in enumerate(predictors)]
        if not outputs or any(one is None for one in outputs):
            return None
        n = min(len(one.values) for one in outputs if one is not None)
        some = [_take(one, np.arange(n)) for one in outputs if one is not None]
        return self.rows[self._order[:n]], some

    def ask_known(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Evaluate every model at some rows of the data, once; at fewer, or none, where the budget is short.

        An evaluation cut short is repeated, so that the same question always finds the same budget left.
        """
        n = self._n_known(predictors)
        if n == 0:
            return
        rows = self.rows[self._order[:n]]
        for k, predictor in enumerate(predictors):
            before = self.outputs.get((k, predictor.classes is not None))
            if before is not None and len(before.values) >= n:
                continue
            part = budget.share(_KNOWN_SHARE / len(predictors)) if budget.limited else budget
            with suppress(BudgetSpentError):
                (self.outputs[k, predictor.classes is not None],) = Panel((predictor,), part).ask_some(rows)

    @cached_property
    def _order(self) -> Array:
        """Return admissible rows in random order; on others a model may not be defined."""
        order = stream(0, JUDGING).permutation(len(self.rows))
        return np.setdiff1d(order, self.space.misfits(self.rows)["row"].to_numpy(int), assume_unique=True)

    def _n_known(self, predictors: tuple[Predictor, ...]) -> int:
        return min(_MOST_KNOWN_ROWS, len(self._order), max(_MOST_KNOWN_ASKED // len(predictors), 1))

    def rows_to_know(self, predictors: tuple[Predictor, ...], as_classifiers: bool) -> int:
        """Return the largest number of model rows that the first :meth:`ask_known` takes, ``predict`` included."""
        twice = sum(_have_predict(predictors)) if as_classifiers else 0
        return self._n_known(predictors) * (len(predictors) + twice)

    def rows_to_compare(self, predictors: tuple[Predictor, ...]) -> int:
        """Return the number of model rows that the first :meth:`as_classifiers` takes."""
        return sum(_lack_names(predictors)) + 2 * _N_COMPARED * sum(_have_predict(predictors))

    def output_spread(self, first: Predictor, budget: Budget) -> Array:
        """Return the standard deviation ``(c,)`` of each output of the first model, evaluated once."""
        if self.spread is not None:
            return self.spread
        what, advice = (
            "estimating the spread of outputs from the data",
            "give the target a scale and a tolerance, or raise",
        )
        to_pay = int(first.rows_to_pay(self.rows).sum())
        few = budget.max_rows is not None and to_pay > _SETUP_SHARE * budget.rows_left
        if budget.deadline is None and not few:
            outputs = Panel((first,), budget).ask(self.rows)[0]
            self.outputs[0, first.classes is not None] = _take(outputs, self._order)
            self.spread = _spread(outputs)
            return self.spread
        # a random sample of the data, however few rows there is budget for
        order = stream(0, JUDGING).permutation(len(self.rows))
        n, limit = min(_FEWEST_REFERENCE_ROWS, len(order)), "max_model_rows" if few else "time_budget"
        if budget.rows_left < n:
            raise BudgetSpentError(f"{what} takes at least {n} model rows: {advice} {limit}")
        order = order[: max(n, int(_KNOWN_SHARE * budget.rows_left))] if few else order
        part = budget if few else budget.share(_SETUP_SHARE)
        (outputs,) = Panel((first,), part).ask_some(self.rows[order])
        if len(outputs.values) < n:
            raise BudgetSpentError(f"{what} takes at least {n} model rows: {advice} {limit}")
        if len(outputs.values) == len(self.rows):
            self.spread = _spread(replace(outputs, values=outputs.values[np.argsort(order)]))
        return self.spread if self.spread is not None else _spread(outputs)


def _take(outputs: Outputs, index: Array) -> Outputs:
    decided = None if outputs.decided is None else outputs.decided[index]
    return replace(outputs, values=outputs.values[index], decided=decided)


def _lack_names(predictors: tuple[Predictor, ...]) -> list[bool]:
    """Flag bare functions, whose number of classes is known after one row."""
    return [predictor.plain and predictor.classes is None for predictor in predictors]


def _have_predict(predictors: tuple[Predictor, ...]) -> list[bool]:
    """Flag classifiers that have a ``predict`` beside their probabilities."""
    return [predictor.decide is not None and predictor.classes is not None for predictor in predictors]


def _spread(outputs: Outputs) -> Array:
    return np.atleast_1d(deviations(outputs.values, np.std))


def _points_between(rows: Array, steps: Array) -> Array:
    """Draw points on segments between rows, which cross every threshold between classes; steps take the nearer end."""
    rng = stream(0, JUDGING)
    first, second = rows[rng.integers(len(rows), size=(2, _N_COMPARED))]
    share = rng.random((_N_COMPARED, 1))
    return np.where(steps, np.where(share > 0.5, first, second), share * first + (1 - share) * second)


# --- partition by a regression tree ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Partition:
    """Leaves of a scikit-learn tree as boxes ``low < z <= high`` of shape ``(L, m)``; ``box`` maps nodes to boxes."""

    tree: Any
    box: Array
    low: Array
    high: Array

    @classmethod
    def fit(cls, z: Array, value: Array, most: int, seed: int) -> "Partition":
        """Partition space into at most ``most`` boxes within which values ``(n,)`` of points ``(n, m)`` are similar."""
        from sklearn.tree import DecisionTreeRegressor  # slow to import

        tree = DecisionTreeRegressor(max_leaf_nodes=most, random_state=seed).fit(z, value)
        nodes, n = tree.tree_, tree.tree_.node_count
        low, high = np.full((n, z.shape[1]), -np.inf), np.full((n, z.shape[1]), np.inf)
        for node in range(n):  # children come after their parents
            left, right, j = nodes.children_left[node], nodes.children_right[node], nodes.feature[node]
            if left < 0:
                continue
            low[[left, right]], high[[left, right]] = low[node], high[node]
            high[left, j] = low[right, j] = nodes.threshold[node]
        leaves = np.flatnonzero(nodes.children_left < 0)
        box = np.full(n, -1)
        box[leaves] = np.arange(len(leaves))
        return cls(tree, box, low[leaves], high[leaves])

    def find(self, z: Array) -> Array:
        """Return the box ``(n,)`` of each point ``(n, m)``."""
        found: Array = self.box[self.tree.apply(z)]
        return found
