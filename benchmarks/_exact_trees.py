"""Exact posteriors of trees and sums of a few trees, in any number of columns.

A tree is constant on the boxes of its leaves, and a sum of trees on their intersections. Where columns move by
themselves, a box's prior probability is a product over columns, and so are the moments inside it: all figures are sums
over boxes. Probabilities far out in the tails are kept as logarithms.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from benchmarks._exact import Array, Truth, Wish, root

_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)


class IntervalMoments(NamedTuple):
    """A law between two limits: log probability, and given that, the means of ``t``, ``t**2`` and ``|t|``."""

    log_mass: Array
    mean: Array
    square: Array
    size: Array


# A law of standard moves t in one column: from limits (n,) and (n,) to what lies between them, low < t <= high.
Distribution = Callable[[Array, Array], IntervalMoments]


def normal(low: Array, high: Array) -> IntervalMoments:
    """Inside a standard normal law."""
    flip = low > 0  # work in the lower tail
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper = log_ndtr(b)
        log_mass = upper + np.log(-np.expm1(np.minimum(log_ndtr(a) - upper, 0.0)))
        log_mass = np.where(a < b, log_mass, -np.inf)
        at_a, at_b = (np.exp(-0.5 * np.square(t) - _LOG_ROOT_TWO_PI - log_mass) for t in (a, b))
        middle = np.exp(-_LOG_ROOT_TWO_PI - log_mass)
    mean = at_a - at_b
    ends = np.where(np.isinf(a), 0.0, a) * at_a - np.where(np.isinf(b), 0.0, b) * at_b
    size = np.where(b <= 0, -mean, 2.0 * middle - at_a - at_b)
    return _empty_as_zero(log_mass, np.where(flip, -mean, mean), 1.0 + ends, size)


def laplace(low: Array, high: Array) -> IntervalMoments:
    """Inside a Laplace law of mean size one."""
    right = _exponential(np.maximum(low, 0.0), np.maximum(high, 0.0))
    left = _exponential(np.maximum(-high, 0.0), np.maximum(-low, 0.0))
    mass, first, second = (0.5 * (r + s) for r, s in zip(right, left, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = 0.5 * (right[1] - left[1]) / mass
        return _empty_as_zero(np.log(mass), mean, second / mass, first / mass)


def _exponential(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Integrals of ``exp(-t)`` times 1, t and t**2 between two limits of zero or more."""

    def upto(t: Array) -> tuple[Array, Array, Array]:
        t = np.minimum(t, 700.0)  # beyond it nothing is left
        return np.exp(-t), (t + 1) * np.exp(-t), (t**2 + 2 * t + 2) * np.exp(-t)

    some = high > low
    a, b = upto(low), upto(high)
    return tuple(np.where(some, x - y, 0.0) for x, y in zip(a, b, strict=True))  # type: ignore[return-value]


def truncated(law: Distribution, lowest: float, highest: float) -> Distribution:
    """Return the law restricted to ``[lowest, highest]``."""
    whole = float(law(np.array([lowest]), np.array([highest])).log_mass[0])

    def inside(low: Array, high: Array) -> IntervalMoments:
        found = law(np.clip(low, lowest, highest), np.clip(high, lowest, highest))
        return found._replace(log_mass=found.log_mass - whole)

    return inside


def spiked(law: Distribution, change: float) -> Distribution:
    """Return the law of a move that is exactly zero with probability ``1 - change``."""

    def inside(low: Array, high: Array) -> IntervalMoments:
        slab = law(low, high)
        stay = np.where((low < 0) & (high >= 0), np.log1p(-change), -np.inf)
        log_mass = np.logaddexp(slab.log_mass + np.log(change), stay)
        with np.errstate(invalid="ignore"):
            share = np.nan_to_num(np.exp(slab.log_mass + np.log(change) - log_mass))
        return IntervalMoments(log_mass, share * slab.mean, share * slab.square, share * slab.size)

    return inside


def _empty_as_zero(log_mass: Array, *moments: Array) -> IntervalMoments:
    """Return moments in which what has no probability is zero instead of NaN."""
    some = np.isfinite(log_mass)
    return IntervalMoments(log_mass, *(np.where(some, moment, 0.0) for moment in moments))


class Boxes(NamedTuple):
    """``n`` boxes ``low < x <= high`` in ``d`` columns."""

    low: Array
    high: Array

    @classmethod
    def everything(cls, d: int) -> "Boxes":
        """Return the one box that has no limits."""
        return cls(np.full((1, d), -np.inf), np.full((1, d), np.inf))

    def cut(self, tree: Any) -> "Boxes":
        """Intersect every box with every leaf of a fitted scikit-learn tree."""
        nodes, done = tree.tree_, []
        todo = [(0, self)]
        while todo:
            node, boxes = todo.pop()
            if not len(boxes.low):
                continue
            if nodes.children_left[node] < 0:
                done.append(boxes)
                continue
            j, at = nodes.feature[node], last_below(float(nodes.threshold[node]))
            below, above = boxes.low[:, j] < at, boxes.high[:, j] > at
            left = Boxes(boxes.low[below].copy(), boxes.high[below].copy())
            right = Boxes(boxes.low[above].copy(), boxes.high[above].copy())
            left.high[:, j] = np.minimum(left.high[:, j], at)
            right.low[:, j] = np.maximum(right.low[:, j], at)
            todo += [(nodes.children_left[node], left), (nodes.children_right[node], right)]
        return Boxes(*(np.concatenate(side) for side in zip(*done, strict=True)))

    def points(self, step: Array) -> Array:
        """Return a point inside each box; ``step`` is how far from a single limit, by column."""
        low, high = self
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (low + high)
        inner = np.where(np.isinf(low), high - step, np.where(np.isinf(high), low + step, middle))
        return np.where(np.isinf(low) & np.isinf(high), 0.0, inner)


def last_below(threshold: float) -> float:
    """Return where a tree's answer changes: it sees numbers in single precision, and compares these with a threshold.

    What goes left is what is rounded to the largest such number that is not above it, or to one below: all up to the
    middle between that one and the next.
    """
    at = np.float32(threshold)
    at = at if float(at) <= threshold else np.nextafter(at, np.float32(-np.inf))
    return 0.5 * (float(at) + float(np.nextafter(at, np.float32(np.inf))))


def boxes_of(trees: Sequence[Any], d: int) -> Boxes:
    """Return the boxes on which a sum of trees is constant."""
    boxes = Boxes.everything(d)
    for tree in trees:
        boxes = boxes.cut(tree)
    return boxes


def from_boxes(
    boxes: Boxes, loss: Array, reached: NDArray[np.bool_], row: Array, sd: Array, scale: Array, eta: float,
    laws: Sequence[Distribution],
) -> Truth:  # fmt: skip
    """Sum over boxes.

    Parameters
    ----------
    boxes : Boxes
        Where the loss is constant.
    loss, reached : arrays of shape (n,)
        In each of them.
    row, sd, scale : arrays of shape (d,)
        The row, the prior's deviation in the column's own units, and the unit of change.
    eta : float
        Weight of the loss.
    laws : sequence of d laws
        Of the moves ``(x - row) / sd``.
    """
    columns = [
        law((boxes.low[:, j] - row[j]) / sd[j], (boxes.high[:, j] - row[j]) / sd[j]) for j, law in enumerate(laws)
    ]
    log_mass, mean, square, size = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
    log_weights = log_mass.sum(axis=1) - eta * loss
    total = logsumexp(log_weights)
    weights = np.exp(log_weights - total)
    unit, mean_loss = sd / scale, float(weights @ loss)
    return Truth(
        log_evidence=float(total),
        success_probability=float(weights @ reached),
        stability=float(np.square(unit) @ (weights @ square - np.square(weights @ mean))),
        importance=sd * (weights @ size),
        importance_sd=sd * root(weights @ square - np.square(weights @ size)),
        expected_loss=mean_loss,
        loss_sd=float(np.sqrt(weights @ np.square(loss - mean_loss))),
    )


def trees_truth(
    model: Any,
    trees: Sequence[Any],
    wish: Wish,
    row: Array,
    sd: Array,
    scale: Array,
    eta: float,
    laws: Sequence[Distribution],
) -> Truth:
    """Exact figures of a model that is a sum of these trees: it is asked once inside every box."""
    boxes = boxes_of(trees, len(row))
    outputs = np.asarray(model.predict(boxes.points(scale)), dtype=float)
    return from_boxes(boxes, wish.loss(outputs), wish.reached(outputs), row, sd, scale, eta, laws)
