"""Exact figures of the posterior of a tree, or of a sum of a few, under priors that move each column by itself.

The boxes are those of :mod:`benchmarks._exact_trees`. What is added here holds far out, where a large eta leads: laws
of single columns are kept as logarithms throughout, whole numbers are summed value by value, and the law of the loss is
kept whole, so that its quantiles are known as well. Nothing of ``gbce`` is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from benchmarks._exact import Array
from benchmarks._exact_trees import Boxes, Distribution, IntervalMoments, normal

__all__ = ["Column", "Exact", "sum_over_boxes"]

_FAR = 60.0  # deviations beyond which whole numbers without a bound end: exp(-60) of the mass is beyond


def _laplace(low: Array, high: Array) -> IntervalMoments:
    """Inside a Laplace law of mean size one, at any distance."""
    left = _side(np.maximum(-high, 0.0), np.maximum(-low, 0.0))
    right = _side(np.maximum(low, 0.0), np.maximum(high, 0.0))
    log_mass = np.logaddexp(left.log_mass, right.log_mass)
    with np.errstate(invalid="ignore"):
        to_left = np.nan_to_num(np.exp(left.log_mass - log_mass))
        to_right = np.nan_to_num(np.exp(right.log_mass - log_mass))
    mean = to_right * right.mean - to_left * left.mean
    square = to_right * right.square + to_left * left.square
    return IntervalMoments(log_mass, mean, square, to_right * right.mean + to_left * left.mean)


def _side(low: Array, high: Array) -> IntervalMoments:
    """Inside one side of it, limits of zero or more: an exponential law that starts at ``low`` and is cut off."""
    some = high > low
    width = np.minimum(np.subtract(high, low, out=np.ones_like(low), where=some), 700.0)  # nothing is left beyond it
    log_mass = np.log(-np.expm1(-width)) - np.log(2.0) - np.where(some, low, np.inf)
    # mean and mean square of the way beyond ``low``; a series where the width is small
    lost = width / np.expm1(width)
    way = np.where(width < 1e-3, width / 2 - width**2 / 12, 1.0 - lost)
    way2 = np.where(width < 1e-3, width**2 / 3 - width**3 / 12, 2.0 - (2.0 + width) * lost)
    start = np.where(some, low, 0.0)
    mean = np.where(some, start + way, 0.0)
    return IntervalMoments(log_mass, mean, np.where(some, start**2 + 2 * start * way + way2, 0.0), mean)


@dataclass(frozen=True)
class Column:
    """The prior of one column.

    Parameters
    ----------
    row, low, high : float
        The row's own value, and the least and the largest that the column may take; all equal if it stays.
    deviation : float
        Sigma or b, in the column's own units.
    shape : {"normal", "laplace"}
        Of the law of moves.
    whole : bool
        Whether only whole numbers are taken.
    change : float, optional
        Probability of any change; moves at once where it is None.
    """

    row: float
    low: float
    high: float
    deviation: float
    shape: Literal["normal", "laplace"] = "normal"
    whole: bool = False
    change: float | None = None

    def inside(self, low: Array, high: Array) -> IntervalMoments:
        """Return the prior between limits, ``low < x <= high``; moments are those of ``x - row``."""
        if self.low == self.high:
            stays = np.where((low < self.row) & (self.row <= high), 0.0, -np.inf)
            return IntervalMoments(stays, *(np.zeros_like(stays) for _ in range(3)))
        return self._whole(low, high) if self.whole else self._real(low, high)

    def _real(self, low: Array, high: Array) -> IntervalMoments:
        law: Distribution = normal if self.shape == "normal" else _laplace
        ends = np.array([self.low, self.high])
        least, most = (ends - self.row) / self.deviation
        total = float(law(np.array([least]), np.array([most])).log_mass[0])
        a, b = ((np.clip(side, self.low, self.high) - self.row) / self.deviation for side in (low, high))
        with np.errstate(invalid="ignore"):  # limits that hold nothing
            found = law(a, b)
        moved = IntervalMoments(
            found.log_mass - total, found.mean * self.deviation, found.square * self.deviation**2,
            found.size * self.deviation,
        )  # fmt: skip
        if self.change is None:
            return moved
        stays = np.where((low < self.row) & (self.row <= high), np.log1p(-self.change), -np.inf)
        log_mass = np.logaddexp(moved.log_mass + np.log(self.change), stays)
        with np.errstate(invalid="ignore"):
            share = np.nan_to_num(np.exp(moved.log_mass + np.log(self.change) - log_mass))
        return IntervalMoments(log_mass, share * moved.mean, share * moved.square, share * moved.size)

    def _whole(self, low: Array, high: Array) -> IntervalMoments:
        cuts = np.unique(np.concatenate([low, high, [self.row]]))
        near = cuts[np.isfinite(cuts)]
        first = self.low if np.isfinite(self.low) else near.min() - _FAR * self.deviation - 1
        last = self.high if np.isfinite(self.high) else near.max() + _FAR * self.deviation + 1
        values = np.arange(np.ceil(first), np.floor(last) + 1)
        moves = values - self.row
        t = moves / self.deviation
        log_p = -0.5 * np.square(t) if self.shape == "normal" else -np.abs(t)
        if self.change is None:
            log_p -= logsumexp(log_p)
        else:
            away = moves != 0
            log_p[away] += np.log(self.change) - logsumexp(log_p[away])
            log_p[~away] = np.log1p(-self.change)
        # sums between neighbouring cuts once, and these put together for each pair of limits
        part = np.searchsorted(cuts, values, side="left")
        edges = np.searchsorted(part, np.arange(len(cuts) + 2))
        parts = np.array([_moments(log_p[i:j], moves[i:j]) for i, j in pairwise(edges)])
        pairs, which = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
        joined = np.array([
            _moments(parts[i + 1 : j + 1, 0], *parts[i + 1 : j + 1, 1:].T)
            for i, j in zip(np.searchsorted(cuts, pairs[:, 0]), np.searchsorted(cuts, pairs[:, 1]), strict=True)
        ])  # fmt: skip
        return IntervalMoments(*joined[which.ravel()].T)


def _moments(log_p: Array, mean: Array, square: Array | None = None, size: Array | None = None) -> tuple[float, ...]:
    """Log of the summed probability, and the means of moves, their squares and sizes."""
    total = float(logsumexp(log_p)) if len(log_p) else -np.inf
    if np.isneginf(total):
        return -np.inf, 0.0, 0.0, 0.0
    p = np.exp(log_p - total)
    square = np.square(mean) if square is None else square
    size = np.abs(mean) if size is None else size
    return total, float(p @ mean), float(p @ square), float(p @ size)


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact figures of one posterior, by the definitions in docs/method.md.

    Parameters
    ----------
    log_evidence, success_probability, expected_loss, loss_sd, stability : float
        ``stability`` is the trace of the covariance in units of each column's scale.
    importance, importance_sd : arrays of shape (d,)
        Mean and standard deviation of ``|x_j - row_j|`` in the column's own units.
    losses, shares : arrays of shape (k,)
        Values of the loss in rising order, and how much of the posterior is at or below each.
    """

    log_evidence: float
    success_probability: float
    expected_loss: float
    loss_sd: float
    stability: float
    importance: Array
    importance_sd: Array
    losses: Array
    shares: Array

    def quantile(self, level: float) -> float:
        """Return the smallest loss with at least that share of the posterior at or below it."""
        place = int(np.searchsorted(self.shares, min(max(level, 0.0), 1.0) - 1e-12))
        return float(self.losses[min(place, len(self.losses) - 1)])


def sum_over_boxes(
    boxes: Boxes,
    loss: Array,
    reached: NDArray[np.bool_],
    columns: Sequence[Column],
    scale: Array,
    eta: float,
) -> Exact:
    """Sum over boxes ``(n, d)`` in which the loss ``(n,)`` is constant."""
    inside = [column.inside(boxes.low[:, j], boxes.high[:, j]) for j, column in enumerate(columns)]
    log_mass, mean, square, size = (np.stack(part, axis=1) for part in zip(*inside, strict=True))
    prior = log_mass.sum(axis=1)
    if abs(logsumexp(prior)) > 1e-6:
        raise ArithmeticError(f"the boxes hold {np.exp(logsumexp(prior)):.9f} of the prior, not all of it")
    lowest = loss.min()
    log_weights = prior - eta * (loss - lowest)  # with an enormous eta the prior would be lost in rounding
    total = float(logsumexp(log_weights))
    w = np.exp(log_weights - total)
    w /= w.sum()
    mean_loss, mean_size = float(w @ loss), w @ size
    losses, which = np.unique(loss, return_inverse=True)
    variance = w @ square - np.square(w @ mean)
    return Exact(
        log_evidence=total - eta * float(lowest),
        success_probability=float(w @ reached),
        expected_loss=mean_loss,
        loss_sd=float(np.sqrt(w @ np.square(loss - mean_loss))),
        stability=float((variance / np.square(scale)).sum()),
        importance=mean_size,
        importance_sd=np.sqrt(np.maximum(w @ square - np.square(mean_size), 0.0)),
        losses=losses,
        shares=np.cumsum(np.bincount(which, weights=w)),
    )
