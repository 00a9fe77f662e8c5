"""Races: which of many candidates has the least tail of losses, with most copies for those that may win.

An even grid asks as many perturbed copies of the worst candidate as of the best. A race begins with a few copies of
all, drops the worse part, and goes on with more copies of the rest (successive halving; Karnin, Koren and Somekh,
2013). All candidates meet the same perturbations, so that a comparison is not blurred by the noise itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce._numerics import SHARE_ROUNDING, first_of_least
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.decisions._risk import tail_mean

__all__ = ["Losses", "Race", "Round", "Tail", "plan_race", "rows_of"]

# How a race spends rows. Of the cases of benchmarks/races.py a forest in 2-D decides, with a wish for one value: its
# best region holds four draws of 800, with losses of up to 0.9 without noise. Where a quarter went on after the first
# round, not a half, where there were two copies in it, not three, or where a wider tail was compared while copies were
# few, the chosen point was worse than the even grid's. In the other cases all of this made no difference. With wishes
# that end on one side only, where what lies deeper inside is safer, one copy beside the loss without noise was enough.
_FIRST_COPIES = 3  # of every candidate; then twice as many in each round
_FIRST_COPIES_ONE_SIDED = 1
_FIRST_KEPT, _KEPT = 0.5, 0.4  # shares that go on after the first round and after later ones
_FINALISTS = 4  # candidates that are compared under the most copies
_FINAL_COPIES = 4  # times n_perturb, for the finalists
# A candidate that is so many standard errors of the paired difference behind the leader is dropped whatever its place.
# It is asked once there are so many copies: the error of a tail of fewer is itself not known well.
_CLEARLY_WORSE, _ENOUGH_COPIES = 3.0, 32

Losses = Array  # (k, n, K): candidates, copies, and models (one if they are combined)


class Round(NamedTuple):
    """How many copies each candidate has by the end of a round, and how many candidates are kept then."""

    copies: int
    kept: int


def plan_race(n: int, n_perturb: int, *, one_sided: bool = False, final: int = _FINAL_COPIES) -> list[Round]:
    """Return the rounds of a race between ``n`` candidates.

    The finalists are compared under ``n_perturb`` copies, which drops those that are far behind, and then under
    ``final`` times as many. One candidate needs no race. It begins with fewer copies where the wish ends on one side
    only.

    Examples
    --------
    >>> plan_race(800, 64)[0], plan_race(800, 64)[-2:]
    (Round(copies=3, kept=400), [Round(copies=64, kept=4), Round(copies=256, kept=1)])
    """
    rounds: list[Round] = []
    first = _FIRST_COPIES_ONE_SIDED if one_sided else _FIRST_COPIES
    left, copies, share = n, min(first, n_perturb), _FIRST_KEPT
    while left > _FINALISTS:
        left = max(math.ceil(share * left), _FINALISTS) if copies < n_perturb else _FINALISTS
        rounds.append(Round(copies, left))
        copies, share = min(2 * copies, n_perturb), _KEPT
    if left > 1 and final > 1 and (not rounds or rounds[-1].copies < n_perturb):
        rounds.append(Round(n_perturb, left))
    if rounds and final == 1 and rounds[-1].copies == n_perturb:
        rounds[-1] = Round(n_perturb, 1)
    elif left > 1:
        rounds.append(Round(final * n_perturb, 1))
    return rounds


def rows_of(rounds: list[Round], n: int) -> int:
    """Return how many copies a race between ``n`` candidates asks about, at most.

    Examples
    --------
    >>> rows_of(plan_race(800, 64), 800)
    6896
    """
    rows = had = 0
    for copies, kept in rounds:
        rows, had, n = rows + n * (copies - had), copies, kept
    return rows


@dataclass(frozen=True)
class Tail:
    """The upper tail of losses, over copies and models.

    Parameters
    ----------
    tau : float
        The upper ``1 - tau`` share counts.
    weights : array of shape (K,)
        Of the models; one if they are combined.
    """

    tau: float
    weights: Array

    def mean(self, loss: Losses) -> Array:
        """Return the mean loss in the tail ``(k,)``; of few copies, that is the greatest loss."""
        k, n, _ = loss.shape
        return tail_mean(loss.reshape(k, -1), self.tau, np.tile(self.weights, n) / n)

    def behind(self, loss: Losses, leader: int) -> tuple[Array, Array]:
        """Return how much greater each tail mean is than the leader's ``(k,)``, and the standard error of that.

        A copy counts with its share in the tail mean: the quantile, and what a loss exceeds it by over ``1 - tau``
        (Rockafellar and Uryasev, 2000). What is infinite for one of the two has no error.
        """
        k, n, _ = loss.shape
        tau, mean = self.tau, self.mean(loss)
        flat, weights = loss.reshape(k, -1), np.tile(self.weights, n) / n
        order = np.argsort(flat, axis=1, kind="stable")
        place = (np.cumsum(weights[order], axis=1) < tau * weights.sum() - SHARE_ROUNDING).sum(axis=1)
        at = np.take_along_axis(order, np.minimum(place, flat.shape[1] - 1)[:, None], axis=1)
        quantile = np.take_along_axis(flat, at, axis=1)[:, :, None]
        with np.errstate(invalid="ignore", over="ignore"):
            part = quantile[:, 0] + np.maximum(loss - quantile, 0.0) @ self.weights / (1.0 - tau)
            gap, paired = mean - mean[leader], part - part[leader]
            error = paired.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.full(k, np.inf)
        return np.where(np.isnan(gap), 0.0, gap), np.where(np.isnan(error), 0.0, error)


@dataclass(frozen=True)
class Race:
    """A race between candidates.

    Parameters
    ----------
    look : function of positions ``(k,)`` and a slice of copies
        Asks the model and returns losses ``(k, n, K)``.
    tail : Tail
        What is compared.
    distance : array of shape (n,)
        From the row: the smaller one wins where tails are equal.
    known : array of shape (n, 1, K), optional
        Losses without noise, if they are known. In the first round they are one more copy, which costs nothing.
    """

    look: Callable[[Array, slice], Losses]
    tail: Tail
    distance: Array
    known: Losses | None = None

    def run(self, rounds: list[Round]) -> list[Array]:
        """Return the positions of those that were left after each round, the best first; before, those of all.

        Where the budget ends a race early, the last round that was finished is the last one.
        """
        left = np.arange(len(self.distance))
        history = [left]
        loss = np.zeros((len(left), 0, len(self.tail.weights)))
        for number, (copies, kept) in enumerate(rounds):
            try:
                more = self.look(left, slice(loss.shape[1], copies))
            except BudgetSpentError:
                if number == 0:
                    raise
                break
            loss = np.concatenate([loss, more], axis=1)
            seen = loss if number or self.known is None else np.concatenate([loss, self.known], axis=1)
            going = self._rank(seen, left, kept, last=number == len(rounds) - 1)
            left, loss = left[going], loss[going]
            history.append(left)
            if len(left) == 1:
                break
        return history

    def _rank(self, loss: Losses, left: Array, kept: int, *, last: bool) -> Array:
        """Return which of those that are left go on, the best first."""
        score, distance = self.tail.mean(loss), self.distance[left]
        order = np.lexsort((distance, score))
        if loss.shape[1] >= _ENOUGH_COPIES:
            gap, error = self.tail.behind(loss, int(first_of_least(score, distance)))
            order = order[(gap <= _CLEARLY_WORSE * error)[order]]
        if len(order) <= kept or last:
            return order[:kept]
        # Equal so far does not mean equal: nearer ones of those that had no loss under a few copies are more likely
        # to have one under more. So of equals on the edge some go on that are near and some that are far.
        edge = score[order[kept - 1]]
        sure, equal = order[score[order] < edge], order[score[order] == edge]
        some = np.arange(kept - len(sure)) * len(equal) // (kept - len(sure))
        return np.concatenate([sure, equal[some]])
