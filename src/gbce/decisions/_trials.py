"""Trials under fresh noise: a promise about a point must hold under noise that had no part in choosing it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from gbce._numerics import WEIGHT_ROUNDING
from gbce.base import Array

__all__ = ["Trials", "lower_bound"]

_MAX_TRIALS = 8  # chosen by hand: where so many failed, what is asked for is as good as unattainable


@dataclass
class Trials:
    """Tests of one candidate after another, each under noise of its own.

    All of them together accept a candidate that falls short with a probability of at most ``risk``: the first may err
    with half of that, the next with half of the rest, and so on.

    Parameters
    ----------
    success : function of one candidate
        Draws fresh noise and returns the share of successes under it, and of how many copies.
    probability : float
        What is promised.
    risk : float
        Of accepting a candidate that falls short.
    copies : int
        Of a candidate in one trial, as far as a budget allows.
    """

    success: Callable[[int], tuple[float, int]]
    probability: float
    risk: float
    copies: int
    done: int = 0
    lift: float = 0.0

    @property
    def enough(self) -> float:
        """What a trial has to show: the probability that is promised, or as much as the first one can show at best."""
        return min(self.probability, lower_bound(1.0, self.copies, 0.5 * self.risk))

    @property
    def worth(self) -> float:
        """The least share in an earlier look that makes a candidate worth a trial."""
        p = self.probability
        error = float(np.sqrt(p * (1 - p) / self.copies))
        return min(p - float(ndtri(self.risk / 2 ** (self.done + 1))) * error + self.lift, 1.0) - WEIGHT_ROUNDING

    def first_to_hold(self, candidates: Array, shares: Array) -> int | None:
        """Try candidates in their order, if their ``shares`` in an earlier look are high enough.

        That look was under the same noise for all of them, so what a trial shows to be too high about one of its
        shares is too high about the next ones as well.
        """
        for candidate, share in zip(candidates.tolist(), shares.tolist(), strict=True):
            if self.done == _MAX_TRIALS:
                break
            if share < self.worth:
                continue
            self.done += 1
            fresh, n = self.success(candidate)
            if lower_bound(fresh, n, self.risk / 2**self.done) >= self.enough:
                return int(candidate)
            self.lift = max(self.lift, share - fresh)
        return None


def lower_bound(share: float, n: int, risk: float) -> float:
    """Return what a probability exceeds, up to a ``risk``, if this share of ``n`` trials succeeded.

    Exact for yes and no (Clopper and Pearson, 1934); a share of successes in each trial varies less than that.
    """
    k = min(share, 1.0) * n  # a sum of weights may exceed one by rounding
    return float(betaincinv(k, n - k + 1, risk)) if k > 0 else 0.0
