"""What is asked of the models once per explainer, on rows of the data: the spread of outputs, and how they decide."""

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

__all__ = ["N_ASKED", "Partition", "Reference", "pick_rows", "same_answers"]

# --- whether two sets of answers came from one model, and the rows it is asked about to find out ---------------------

# All three by hand:
N_ASKED = 48  # rows: a few dozen tell two fits apart and cost next to nothing
_SHARE_OF_SPREAD = 1e-4  # answers that differ by less lead to the same explanation, whoever gave them
_SHARE_OF_SIZE = 1e-6  # above what single precision rounds (6e-8), on another processor or in another batch


def pick_rows(n: int) -> Array:
    """Return positions ``(m,)`` of at most :data:`N_ASKED` rows out of ``n``, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, N_ASKED)).astype(int))


def same_answers(before: Any, now: Any) -> bool:
    """Whether numbers agree but for rounding: arrays of any one shape, judged by their spread and their size.

    Examples
    --------
    >>> same_answers([1.0, 2.0, 3.0], [1.0, 2.0, 3.0 + 1e-9])
    True
    >>> same_answers([1.0, 2.0, 3.0], [1.0, 2.0, 3.1])
    False
    """
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


# --- what is asked of the models once per explainer, on rows of the data ---------------------------------------------

# Rows of the data off which the spread of outputs is read: that of a normal law is known to 1% (1 / sqrt(2 n)).
_MOST_REFERENCE_ROWS = 5_000
# Points at which a classifier's predict is compared with its probabilities; by hand: a rule that differs at one point
# in 500 is missed once in fifty times.
_N_COMPARED = 2_000
_SETUP_SHARE = 0.25  # of a short budget, by hand: the rest is for the explanation, and fewer rows have to do
_MOST_KNOWN_ROWS = 2_000  # of the data off which is read where a target is met; by hand, fewer with many models:
_MOST_KNOWN_ASKED = 4_000  # rows over all models
_KNOWN_SHARE = 0.1  # of a short budget, by hand
_FEWEST_REFERENCE_ROWS = 30  # with fewer, a spread is off by more than an eighth (1 / sqrt(2 n) = 0.13)


@dataclass
class Reference:
    """Some rows of the data, and what the models said there."""

    rows: Array
    space: Space
    spread: Array | None = None
    classifiers: tuple[Predictor, ...] | None = None
    hasty: bool = False  # whether time was too short to compare the classifiers at all points
    said: dict[tuple[int, bool], Outputs] = field(default_factory=dict)  # by a model's position, and as a classifier

    @classmethod
    def of(cls, data: Array, space: Space) -> "Reference":
        """Take evenly spaced rows of data ``(n, d)`` of a space."""
        return cls(data[:: max(1, len(data) // _MOST_REFERENCE_ROWS)], space)

    def as_classifiers(self, predictors: tuple[Predictor, ...], budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors as classifiers that count from zero, their ``predict`` compared once.

        Where time or rows are short they are compared at fewer points, and a later call without a deadline compares
        them again.
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
            (said,) = Panel((ready[k],), part, use_predict=True).ask_some(points)
            ready[k] = follow_predict(ready[k], said)
            self.hasty |= len(said.values) < len(points)
        self.classifiers = tuple(ready)
        return self.classifiers

    def known(self, predictors: tuple[Predictor, ...]) -> tuple[Array, list[Outputs]] | None:
        """Return some rows of the data and what every model said there; nothing if they were not asked."""
        said = [self.said.get((k, predictor.classes is not None)) for k, predictor in enumerate(predictors)]
        if not said or any(one is None for one in said):
            return None
        n = min(len(one.values) for one in said if one is not None)
        some = [_take(one, np.arange(n)) for one in said if one is not None]
        return self.rows[self._order[:n]], some

    def ask_known(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Ask every model about some rows of the data, once; about fewer, or none, where the budget is short.

        What was asked in haste is asked again, so that the same question has the same rows left.
        """
        n = self._n_known(predictors)
        if n == 0:
            return
        rows = self.rows[self._order[:n]]
        for k, predictor in enumerate(predictors):
            before = self.said.get((k, predictor.classes is not None))
            if before is not None and len(before.values) >= n:
                continue
            part = budget.share(_KNOWN_SHARE / len(predictors)) if budget.limited else budget
            with suppress(BudgetSpentError):
                (self.said[k, predictor.classes is not None],) = Panel((predictor,), part).ask_some(rows)

    @cached_property
    def _order(self) -> Array:
        """Rows that are possible in the space, in an order in which any first few are spread over all of them.

        A model need not know what to say of others: bounds and conditions may be its own.
        """
        order = stream(0, JUDGING).permutation(len(self.rows))
        return np.setdiff1d(order, self.space.misfits(self.rows)["row"].to_numpy(int), assume_unique=True)

    def _n_known(self, predictors: tuple[Predictor, ...]) -> int:
        return min(_MOST_KNOWN_ROWS, len(self._order), max(_MOST_KNOWN_ASKED // len(predictors), 1))

    def rows_to_know(self, predictors: tuple[Predictor, ...], as_classifiers: bool) -> int:
        """Return how many model rows :meth:`ask_known` takes at most, the first time.

        A classifier whose ``predict`` does not follow from its probabilities is asked for both.
        """
        twice = sum(_have_predict(predictors)) if as_classifiers else 0
        return self._n_known(predictors) * (len(predictors) + twice)

    def rows_to_compare(self, predictors: tuple[Predictor, ...]) -> int:
        """Return how many model rows :meth:`as_classifiers` takes the first time."""
        return sum(_lack_names(predictors)) + 2 * _N_COMPARED * sum(_have_predict(predictors))

    def output_spread(self, first: Predictor, budget: Budget) -> Array:
        """Return the standard deviation of each of the first model's outputs ``(c,)``, asked for once."""
        if self.spread is not None:
            return self.spread
        what, advice = "reading the spread of outputs off the data", "give the target a scale and a tolerance, or raise"
        if len(self.rows) > budget.rows_left:
            raise BudgetSpentError(f"{what} takes {len(self.rows):,} model rows, once: {advice} max_model_rows")
        if budget.deadline is None:
            said = Panel((first,), budget).ask(self.rows)[0]
            self.said[0, first.classes is not None] = _take(said, self._order)
            self.spread = _spread(said)
            return self.spread
        # evenly spread over the data, however few of them there is time for
        order = stream(0, JUDGING).permutation(len(self.rows))
        (said,) = Panel((first,), budget.share(_SETUP_SHARE)).ask_some(self.rows[order])
        if len(said.values) < min(_FEWEST_REFERENCE_ROWS, len(order)):
            raise BudgetSpentError(f"{what} takes {_FEWEST_REFERENCE_ROWS} model rows at least: {advice} time_budget")
        if len(said.values) == len(order):
            self.spread = _spread(replace(said, values=said.values[np.argsort(order)]))
        return self.spread if self.spread is not None else _spread(said)


def _take(said: Outputs, index: Array) -> Outputs:
    decided = None if said.decided is None else said.decided[index]
    return replace(said, values=said.values[index], decided=decided)


def _lack_names(predictors: tuple[Predictor, ...]) -> list[bool]:
    """Which of them do not say what their classes are: one row tells."""
    return [predictor.plain and predictor.classes is None for predictor in predictors]


def _have_predict(predictors: tuple[Predictor, ...]) -> list[bool]:
    """Which of them have a ``predict`` beside their probabilities."""
    return [predictor.decide is not None and predictor.classes is not None for predictor in predictors]


def _spread(said: Outputs) -> Array:
    return np.atleast_1d(deviations(said.values, np.std))


def _points_between(rows: Array, steps: Array) -> Array:
    """Return points on segments between rows: on their way from class to class they meet every threshold.

    What moves in whole steps is taken from the nearer end.
    """
    rng = stream(0, JUDGING)
    first, second = rows[rng.integers(len(rows), size=(2, _N_COMPARED))]
    share = rng.random((_N_COMPARED, 1))
    return np.where(steps, np.where(share > 0.5, first, second), share * first + (1 - share) * second)


# --- a regression tree as a partition of the plane into boxes, fitted by scikit-learn --------------------------------


@dataclass(frozen=True, eq=False)
class Partition:
    """Boxes ``low < z <= high`` that partition the plane.

    Parameters
    ----------
    tree : fitted tree of scikit-learn
        Whose leaves the boxes are.
    box : int array
        Which box each of its nodes is, where it is a leaf.
    low, high : arrays of shape (L, m)
        Limits of the boxes.
    """

    tree: Any
    box: Array
    low: Array
    high: Array

    @classmethod
    def fit(cls, z: Array, value: Array, most: int, seed: int) -> "Partition":
        """Divide the plane so that values ``(n,)`` of points ``(n, m)`` in one box are alike, into ``most`` boxes."""
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
