"""Trials under fresh noise: a promise about a point must hold under noise that had no part in choosing it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from gbce._numerics import WEIGHT_ROUNDING
from gbce.base import Array
from gbce.budget import BudgetSpentError

__all__ = ["Trials", "lower_bound"]

_MAX_TRIALS = 8  # chosen by hand: where so many failed, what is asked for is as good as unattainable
# A trial looks three times: after so many of its copies, each time for so much of its risk. One that is far above what
# is promised passes early; one that would have to gain more than so many standard errors in the rest is given up.
_LOOKS = ((0.25, 0.05), (0.5, 0.15), (1.0, 0.8))
_LAST_RISK = _LOOKS[-1][1]
_HOPELESS = 2.5


@dataclass
class Trials:
    """Tests of one candidate after another, each under noise of its own.

    All of them together accept a candidate that falls short with a probability of at most ``risk``: the first may err
    with half of that, the next with half of the rest, and so on.

    Parameters
    ----------
    success : function of one candidate and a number of copies
        Draws fresh noise and returns the share of successes under it, and of how many copies: fewer where a budget
        does not allow all.
    probability : float
        What is promised.
    risk : float
        Of accepting a candidate that falls short.
    copies : int
        Of a candidate in one trial, as far as a budget allows.
    """

    success: Callable[[int, int], tuple[float, int]]
    probability: float
    risk: float
    copies: int
    done: int = 0
    lift: float = 0.0

    @property
    def enough(self) -> float:
        """What a trial has to show: the probability that is promised, or as much as the first one can show at best."""
        return min(self.probability, lower_bound(1.0, self.copies, _LAST_RISK * 0.5 * self.risk))

    @property
    def possible(self) -> bool:
        """Whether another trial is left, and could show enough if every copy succeeded."""
        return self.done < _MAX_TRIALS and (
            lower_bound(1.0, self.copies, _LAST_RISK * self.risk / 2 ** (self.done + 1)) >= self.enough
        )

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
            holds, fresh = self._try(candidate, self.risk / 2**self.done)
            if holds:
                return int(candidate)
            self.lift = max(self.lift, share - fresh)
        return None

    def _try(self, candidate: int, risk: float) -> tuple[bool, float]:
        """Return whether a candidate passes one trial, and its share of successes there."""
        share, n = 0.0, 0
        for part, spent in _LOOKS:
            wanted = max(int(part * self.copies), 1) - n
            if wanted == 0:
                continue
            try:
                more, m = self.success(candidate, wanted)
            except BudgetSpentError:
                if n == 0:
                    raise
                more, m = 0.0, 0
            share, n = (share * n + more * m) / (n + m), n + m
            last = m < wanted or n == self.copies
            if lower_bound(share, n, (_LAST_RISK if last else spent) * risk) >= self.enough:
                return True, share
            at_best = min(share + _HOPELESS * float(np.sqrt(max(share * (1 - share), 1 / n) / n)), 1.0)
            if last or lower_bound(at_best, self.copies, risk) < self.enough:
                break
        return False, share


def lower_bound(share: float, n: int, risk: float) -> float:
    """Return what a probability exceeds, up to a ``risk``, if this share of ``n`` trials succeeded.

    Exact for yes and no (Clopper and Pearson, 1934); a share of successes in each trial varies less than that.
    """
    k = n if share > 1.0 - WEIGHT_ROUNDING else share * n  # a sum of weights may miss one by rounding
    return float(betaincinv(k, n - k + 1, risk)) if k > 0 else 0.0
