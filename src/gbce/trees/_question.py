"""The question put to a tree ensemble: score constraints that stand for the target, and reachable cells with prices."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit, logit

from gbce._numerics import ROUNDING
from gbce.base import Array, Target
from gbce.space import Space
from gbce.targets import Class
from gbce.trees._cells import CellTrees, nearest_values
from gbce.trees._structure import MORE_TERMS, ModelStructure

_OWN_DECISION = 0.5  # probability of a Class target at which the model's own decision counts
# Roundings in a link, besides one per score of a softmax: of the exponential, a sum, a quotient and a difference, with
# a margin, because vectorised exponentials are off by a few.
_LINK_ROUNDINGS = 8

# --- score constraints -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreConstraints:
    """Lower bounds ``least`` ``(q,)`` on sums of scores by ``weights`` ``(q, K)`` that hold where a target is reached.

    ``phrases`` put violated bounds into words: ``"above"`` or ``"below"`` for a bound on the output, to which ``link``
    leads from the sum, otherwise what is true of rows that violate it. ``sufficient`` is whether the target is reached
    wherever they hold. ``reads``, if given, takes sums ``(n, q)`` and returns the shortfall ``(n,)`` instead.
    ``link_error`` is by how much the link may round outputs, relative to them; of a probability, which may be one less
    another, relative to one.
    """

    weights: Array
    least: Array
    reads: Callable[[Array], Array] | None = None
    link: str = "identity"
    phrases: tuple[str, ...] = ()
    sufficient: bool = True
    link_error: float = 0.0

    def shortfall(self, sums: Array) -> Array:
        """Return the shortfall ``(n,)`` of sums ``(n, q)``: zero where the target is reached."""
        if self.reads is not None:
            return self.reads(sums)
        if len(self.least) == 1:
            return np.maximum(self.least[0] - sums[:, 0], 0.0)
        by_sum = (np.maximum(least - sums[:, k], 0.0) for k, least in enumerate(self.least.tolist()))
        return np.asarray(sum(by_sum))  # many times faster than a sum along short rows

    @property
    def exact(self) -> bool:
        """Whether the target is reached exactly where they hold, and can be held."""
        return self.sufficient and bool(np.isfinite(self.least).all())

    def beyond(self, room: float) -> "ScoreConstraints":
        """Return the constraints tightened by ``room``, or relaxed if it is negative."""
        return replace(self, least=self.least + room)

    def rounding(self, trees: CellTrees) -> float:
        """Return by how much sums may differ from the model's own, which adds in a different order."""
        epsilon = max(trees.epsilon, ROUNDING / (MORE_TERMS + trees.n_trees))
        return float(self.margins(trees, epsilon).max(initial=0.0))

    def margins(self, trees: CellTrees, epsilon: float | None = None) -> Array:
        """Return the largest rounding error of the model's own leaf sums, for each constraint ``(q,)``."""
        size = np.abs(self.weights)
        epsilon = trees.epsilon if epsilon is None else epsilon
        return (MORE_TERMS + trees.n_trees) * epsilon * (trees.largest_sums(size) + size @ np.abs(trees.base))

    def output(self, number: int, total: float) -> float | None:
        """Return the farthest output at which a sum equals ``total``; None if the sum is not an output."""
        if self.phrases[number] not in ("above", "below"):
            return None
        sign = 1.0 if self.phrases[number] == "above" else -1.0
        score = sign * total
        if self.link in ("exp", "expm1"):
            value = float(np.exp(score) if self.link == "exp" else np.expm1(score))
            return value + sign * self.link_error * abs(value)
        if self.link == "sign":
            return 1.0 if score >= 0 else -1.0
        if self.link == "logistic":
            return min(max(float(expit(score)) + sign * self.link_error, 0.0), 1.0)
        return float(score)


def score_constraints(
    structure: ModelStructure, target: Target, margin: float = 0.0, slack: float = 0.0
) -> ScoreConstraints | None:
    """Return the constraints of a target that is reached by ``margin`` of its output; None if none are known.

    ``slack``, relative to the output, relaxes them (or tightens them, if negative), since targets compare differences
    of rounded numbers and links round as well, those of models in single precision by more.
    Constraints of a probability among three or more classes are necessary and not sufficient.
    """
    n_scores, link_error = len(structure.parts.base), 0.0
    if slack and structure.link not in ("identity", "sign"):
        link_error = (_LINK_ROUNDINGS + n_scores) * structure.parts.epsilon
        slack = float(np.copysign(max(link_error, abs(slack)), slack))
    found = _constrain(structure, target, n_scores, margin, slack)
    return None if found is None else replace(found, link_error=link_error)


def _constrain(
    structure: ModelStructure, target: Target, n_scores: int, margin: float, slack: float
) -> ScoreConstraints | None:
    """Return the constraints of a target, with the slack of the model's own precision; None if none are known."""
    if isinstance(target, Class):
        return None if structure.classes is None else _constrain_class(structure, target, n_scores, margin, slack)
    if structure.classes is not None or n_scores != 1:
        return None
    try:
        low, high = target.accepted()
    except TypeError:
        return None
    return _constrain_output(low + margin, high - margin, structure.link, np.ones(1), slack)


def _constrain_class(
    structure: ModelStructure, target: Class, n_scores: int, margin: float, slack: float
) -> ScoreConstraints | None:
    """Return the constraints of a class by its probability, or by the model's own decision."""
    classes = list(structure.classes or ())
    if target.label not in classes:
        return None
    wanted, (low, high) = classes.index(target.label), target.accepted()
    decides = target.probability == _OWN_DECISION and margin == 0
    low, high = low + margin, high - margin
    ends = low if low > 0 else -np.inf, high if high < 1 else np.inf
    if structure.link == "logistic":
        return _constrain_output(*ends, "logistic", np.array([1.0 if wanted == 1 else -1.0]), slack)
    if len(classes) != n_scores:
        return None
    unit, others = np.eye(n_scores), [k for k in range(n_scores) if k != wanted]
    if structure.link == "identity" and not decides:
        return _constrain_output(*ends, "identity", unit[wanted], slack)
    if not decides and not 0 < low < 1:
        return None
    # p >= low implies p / (p + p_k) >= low for each other class, so score differences are at least logit(low)
    least = float(logit(low * (1.0 - slack)))
    if decides:
        least = -slack if structure.link == "softmax" else 0.0
    words = [f"the model prefers {classes[k]!r} to {target.label!r}" for k in others]
    if not decides:
        words = ["above"] * len(others)
    elif len(others) == 1:
        words = [f"the model says {classes[others[0]]!r}"]
    rows = np.array([unit[wanted] - unit[k] for k in others])
    link, phrases = "logistic", tuple(words)
    return ScoreConstraints(rows, np.full(len(others), least), None, link, phrases, decides) if others else None


def _constrain_output(low: float, high: float, link: str, score: Array, slack: float) -> ScoreConstraints | None:
    """Return the constraints of an output of one score between two numbers."""
    rows, least, phrases = [], [], []
    for sign, end, word in ((1.0, low, "above"), (-1.0, high, "below")):
        room = slack if link == "logistic" else slack * abs(end)  # a probability may be one less another
        score_end = score_of(end - sign * room, link, sign) if np.isfinite(end) else None
        if score_end is None:  # satisfied by every score
            continue
        rows.append(sign * score)
        least.append(sign * score_end)
        phrases.append(word)
    return ScoreConstraints(np.array(rows), np.array(least), None, link, tuple(phrases)) if rows else None


def score_of(output: float, link: str, sign: float) -> float | None:
    """Return the score of an output: infinite if no score attains it, None if every score is on the right side of it.

    ``sign`` is 1 for a lower limit of the output and -1 for an upper one.
    """
    if link == "sign":
        if sign * output <= -1:
            return None
        return 0.0 if sign * output <= 1 else sign * np.inf
    if link in ("exp", "expm1"):
        least = 0.0 if link == "exp" else -1.0
        if output <= least:
            return None if sign > 0 else -np.inf
        return float(np.log(output) if link == "exp" else np.log1p(output))
    if link != "logistic":
        return output
    if output <= 0:
        return None if sign > 0 else -np.inf
    return (np.inf if sign > 0 else None) if output >= 1 else float(logit(output))


# --- reachable cells -------------------------------------------------------------------------------------------------

Price = Callable[[int, Array], Array]  # prices of values of a feature, given by position


class CellPrices(NamedTuple):
    """Cells ``(k,)`` of one feature that a row can reach, ascending, the missing one last if ``has_missing``.

    ``price`` ``(k,)`` is zero for the row's own cell, at position ``own``, and rises on both sides of it.
    """

    feature: int
    cells: Array
    price: Array
    own: int
    has_missing: bool

    def at_no_price(self) -> "CellPrices":
        """Return the same cells, all free."""
        return self._replace(price=np.zeros(len(self.price)))


@dataclass(frozen=True, eq=False)
class ReachableCells:
    """Cells that the features of a row can move to, as slots: those of one feature after the other, ``N`` in all.

    ``moving`` ``(m,)`` are the features that can move and that some tree splits on, ``paid`` ``(m,)`` those of them
    that are not computed from others. The slots of each begin at ``starts`` ``(m + 1,)``; the last one stands for a
    missing value. ``feature``, ``value`` and ``price``, each ``(N,)``, are a slot's position in ``moving``, its value
    and what that costs: prices of several features add up, and are infinite out of reach. ``here`` ``(m,)`` are the
    slots of the row ``x0``, ``cells`` ``(d,)`` all of its cells.
    """

    space: Space
    x0: Array
    moving: Array
    paid: Array
    starts: Array
    feature: Array
    value: Array
    price: Array
    here: Array
    cells: Array

    def cost(self, slots: Array) -> Array:
        """Return the total price ``(...,)`` of slots ``(..., m)``."""
        price = self.price[slots]
        return np.asarray((price if self.all_paid else np.where(self.paid, price, 0.0)).sum(axis=-1))

    @cached_property
    def all_paid(self) -> bool:
        """Whether no feature is computed from others."""
        return bool(self.paid.all())

    @cached_property
    def is_change(self) -> Array:
        """Whether each slot ``(N,)`` counts as a change of its feature; computed features have none."""
        found = np.zeros(len(self.value), dtype=bool)
        for i in np.flatnonzero(self.paid).tolist():
            j, own = int(self.moving[i]), slice(self.starts[i], self.starts[i + 1])
            column = slice(j, j + 1)
            found[own] = self.space.changed(self.value[own, None], self.x0[column], columns=column)[:, 0]
        return found

    def prices_of(self, i: int) -> CellPrices:
        """Return the reachable cells of the ``i``-th moving feature; all known ones, at no price, if it is computed."""
        price = self.price[self.starts[i] : self.starts[i + 1]]
        if not self.paid[i]:
            price = np.append(np.zeros(len(price) - 1), np.inf)
        cells = np.flatnonzero(np.isfinite(price))
        own = int(np.searchsorted(cells, self.here[i] - self.starts[i]))
        has_missing = len(cells) > 1 and int(cells[-1]) == len(price) - 1
        return CellPrices(int(self.moving[i]), cells, price[cells], own, has_missing)

    def cheapest_moves(self) -> Array:
        """Return the lowest price of any move of each feature ``(m,)``."""
        away = np.where(self.here[self.feature] == np.arange(len(self.price)), np.inf, self.price)
        return np.minimum.reduceat(away, self.starts[:-1])

    def slots_of(self, cells: Array) -> Array:
        """Return the slots ``(n, m)`` of cells ``(n, d)``."""
        return np.asarray(self.starts[:-1] + cells[:, self.moving])

    def cells_at(self, slots: Array) -> Array:
        """Return the cells ``(n, d)`` of slots ``(n, m)``."""
        cells = np.repeat(self.cells[None, :], len(slots), axis=0)
        cells[:, self.moving] = slots - self.starts[:-1]
        return cells

    def points(self, slots: Array) -> Array:
        """Return encoded rows ``(n, d)`` at slots ``(n, m)``, with computed features filled in."""
        x = np.repeat(self.x0[None, :], len(slots), axis=0)
        x[:, self.moving] = self.value[slots]
        return self.space.completed(x, self.x0)


def price_units(space: Space, x0: Array, distance: Literal["l1", "l2", "changes"] = "l1") -> Price:
    """Return prices in units of each feature's scale ("l1"), squared ("l2"), or one for each change ("changes").

    Any change of a category is one unit of change, and a change within rounding is free.
    """

    def price(j: int, values: Array) -> Array:
        own = slice(j, j + 1)
        changed = space.changed(values[:, None], x0[own], columns=own)[:, 0]
        size = space.change(values[:, None], x0[own], columns=own)[:, 0] / space.scale[j]
        if distance == "l2":
            rows, gap = np.repeat(x0[None, :], len(values), axis=0), np.isnan(values) != np.isnan(x0[j])
            rows[:, j] = values
            size[gap] = space.distance(rows[gap], x0)  # of a missing value, from where it might be
        powers = {"l1": size, "l2": size**2, "changes": 1.0}
        return np.where(changed, powers[distance], 0.0)

    return price


def reachable_cells(
    trees: CellTrees, space: Space, x0: Array, price: Price, likely: Callable[[int], Array] | None = None
) -> ReachableCells | None:
    """Return the cells that the features of a row can move to; None if the row lies where cells are not known.

    ``likely`` takes the position of a feature and returns another value per cell ``(n_cells + 1,)``, or NaN; it is used
    where it is cheaper than the value nearest to the row's.
    """
    if not trees.covers(x0[None, :])[0]:
        return None
    free, used = set(space.free(x0).tolist()), trees.used.tolist()
    moving = np.array([j for j in used if j in free or space.is_computed[j]], dtype=int)
    cells = trees.cells(x0[None, :])[0]
    starts = np.concatenate([[0], np.cumsum(trees.n_cells[moving] + 1)]).astype(int)
    here = starts[:-1] + cells[moving]
    value, cost = np.full(starts[-1], np.nan), np.full(starts[-1], np.inf)
    limits = space.limits(x0)
    for i, j in enumerate(moving.tolist()):
        own = slice(starts[i], starts[i + 1])
        if not space.is_computed[j]:
            nearest = nearest_values(trees, space, x0, j, limits)
            can = ~np.isnan(nearest)
            can[-1] = space.may_become_missing[j]
            value[own] = nearest
            cost[own] = np.where(can, price(j, nearest), np.inf)
            if likely is not None:
                other = likely(j)
                other_price = np.where(np.isnan(other) | ~can, np.inf, price(j, other))
                value[own] = np.where(other_price < cost[own], other, value[own])
                cost[own] = np.minimum(cost[own], other_price)
        value[here[i]], cost[here[i]] = x0[j], 0.0
    feature = np.repeat(np.arange(len(moving)), np.diff(starts))
    paid = ~space.is_computed[moving] if len(moving) else np.zeros(0, dtype=bool)
    return ReachableCells(space, x0, moving, paid, starts, feature, value, cost, here, cells)
