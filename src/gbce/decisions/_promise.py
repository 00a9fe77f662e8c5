"""The search for the cheapest point that keeps a promise under execution noise."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.decisions._beyond import propose_nearer, thin_out
from gbce.decisions._giving_back import GivingBack
from gbce.decisions._looks import Looks, accepts, fresh_success
from gbce.decisions._risk import UnderNoise
from gbce.decisions._trials import Trials

__all__ = ["TRIAL_COPIES", "Promise", "PromiseSearch"]

# How model rows are spent. All of these were chosen by hand; the trials keep the promise, whatever these are.
_FIRST_BLOCK = 50  # candidates in the first call; each later call takes as many as all before it and this many more
TRIAL_COPIES = 4  # times n_confirm: with fewer copies a candidate must exceed the promise by more to pass
# Of the search towards the row: points in each round, how many of these get all n_perturb copies, and how many then a
# part of n_confirm. Without the last look the nearest of those with some luck was taken, and every other search ended
# in nothing. At most so many of the points that it went through are tried, the nearest first.
_TRIED = 2
_FEWEST_ROUNDS = 4  # that a budget must allow
_PROPOSED, _LOOKED_AT, _CONFIRMED, _PART = 16, 6, 3, 0.5


class Promise(NamedTuple):
    """What is promised, and how it is looked into.

    Parameters
    ----------
    probability : float
        Of reaching the target under noise.
    confidence : float
        That the chosen point keeps the promise, over all trials together.
    n_perturb, n_confirm : int
        Perturbed copies of each candidate for a first look, and of each promising one.
    """

    probability: float
    confidence: float
    n_perturb: int
    n_confirm: int

    @property
    def trial_copies(self) -> int:
        """Fresh copies of a candidate in a trial."""
        return TRIAL_COPIES * self.n_confirm


def _as_they_are(x: Array) -> Array:
    return x


def _all_of(x: Array) -> Array:
    return np.ones(len(x), dtype=bool)


@dataclass(frozen=True)
class PromiseSearch:
    """Candidates that are gone through from the cheapest outwards, until one keeps the promise.

    Parameters
    ----------
    noisy : UnderNoise
        The models under noise.
    promise : Promise
        What is to be kept.
    x : array of shape (k, d)
        Candidates, the cheapest first.
    cost : function of points ``(n, d)``
        What they cost ``(n,)``.
    tidy : function of points ``(n, d)``
        Returns the points ``(n, d)`` that are meant where the search makes points of its own.
    holds_elsewhere : function of points ``(n, d)``
        Which of them ``(n,)`` hold in other respects, such as under refitted models; asked about promising ones only.
    tried : int
        Trials of an earlier search for the same promise: their risk is spent.
    """

    noisy: UnderNoise
    promise: Promise
    x: Array
    cost: Callable[[Array], Array]
    tidy: Callable[[Array], Array] = _as_they_are
    holds_elsewhere: Callable[[Array], Array] = _all_of
    tried: int = 0

    @cached_property
    def looks(self) -> Looks:
        """The candidates' shares of successes so far."""
        return Looks.of(self.noisy, self.x, self.promise.n_perturb, self.promise.n_confirm)

    @cached_property
    def trials(self) -> Trials:
        """Tests of the candidates."""
        return self._trials(self.looks.x, self.tried)

    def find_holding(self) -> int | None:
        """Return the position of the first candidate that keeps the promise, if one does."""
        for block in _blocks(len(self.x)):
            hopeful = self.looks.glance(block, self.trials.worth)
            held = self.looks.find_holding(hopeful, self.trials, self.holds_elsewhere)
            if held is not None:
                return held
        return None

    def glance_at_all(self) -> None:
        """Look at every candidate under a few copies, where none reaches the target and none is sought that holds."""
        for block in _blocks(len(self.x)):
            self.looks.glance(block, self.trials.worth)

    def draw_nearer(self, x: Array, rounds: int) -> Array | None:
        """Return a cheaper point than ``x`` ``(d,)``, which holds, that holds as well, if one is found in time."""
        n_sure = max(int(_PART * self.promise.n_confirm), 1)
        each = (_PROPOSED + _LOOKED_AT) * self.promise.n_perturb + _CONFIRMED * n_sure
        trial = self.promise.trial_copies
        rounds = (self.noisy.posterior.affords(rounds * each + trial) - trial) // each
        if not self.trials.possible or rounds < _FEWEST_ROUNDS:
            return None
        way, shares = [x], [1.0]
        try:
            while len(way) <= rounds:
                near, share = self._step_nearer(way[-1], n_sure)
                if near is None:
                    break
                way.append(near)
                shares.append(share)
            last = np.arange(1, len(way))[::-1][:_TRIED]  # without the start
            held = self._try_on(np.array(way), last, np.array(shares)[last])
        except BudgetSpentError:
            return None
        return None if held is None else way[held]

    def give_back(self, x: Array) -> Array:
        """Return ``x`` ``(d,)``, which holds, without changes that it does not need.

        A change is given back if the point then succeeds under as many of the same copies; a small one, if it succeeds
        often enough. Some may have been lucky under these copies: what is left holds under fresh noise as well.
        """
        if not self.trials.possible:
            return x
        back = GivingBack(self.noisy, self.looks.many, self.cost, self.tidy, self.holds_elsewhere)
        one = np.zeros(1, dtype=int)
        try:
            fewer = back.run(x)
            for row in back.without_small(fewer)[:_TRIED]:
                share = self.noisy.success(row[None, :], self.looks.many)
                if share[0] >= self.trials.worth and self.holds_elsewhere(row[None, :])[0]:
                    if self._try_on(row[None, :], one, share) is not None:
                        return row
                    break
            given = fewer is not x and self.trials.possible
            return fewer if given and self._try_on(fewer[None, :], one, np.ones(1)) is not None else x
        except BudgetSpentError:
            return x

    def _step_nearer(self, x: Array, n_sure: int) -> tuple[Array | None, float]:
        """Return the nearest of some points on the way from ``x`` ``(d,)`` to the row that seems to hold; its share."""
        noisy, worth = self.noisy, self.trials.worth
        near = propose_nearer(noisy.scene, x, _PROPOSED, self.cost, self.tidy)
        near = near[accepts(noisy, near)]
        if len(near) == 0:
            return None, 0.0
        looks = Looks.of(noisy, near, self.promise.n_perturb, n_sure)
        hopeful = thin_out(looks.glance(slice(0, len(near)), worth), _LOOKED_AT)  # the nearest few had most luck so far
        hopeful = looks.sift(hopeful, worth)
        for one in near[hopeful[looks.share[hopeful] >= worth][:_CONFIRMED]]:
            share = float(noisy.success(one[None, :], looks.many)[0])
            if share >= worth and self.holds_elsewhere(one[None, :])[0]:
                return one, share
        return None, 0.0

    def _try_on(self, x: Array, which: Array, shares: Array) -> int | None:
        """Put some of points ``(k, d)`` to trials after all earlier ones: the risk of each is spent once."""
        trials = self._trials(x, self.trials.done)
        try:
            return trials.first_to_hold(which, shares)
        finally:
            self.trials.done = trials.done

    def _trials(self, x: Array, done: int) -> Trials:
        """Return trials of points ``(k, d)`` after so many others."""
        return Trials(
            lambda which, copies: fresh_success(self.noisy, x[which], copies),
            self.promise.probability,
            1.0 - self.promise.confidence,
            self.promise.trial_copies,
            done=done,
        )


def _blocks(n: int) -> list[slice]:
    """Return slices of ``n`` candidates, each with as many as all before it and a few more."""
    ends = [0]
    while ends[-1] < n:
        ends.append(min(2 * ends[-1] + _FIRST_BLOCK, n))
    return [slice(start, stop) for start, stop in pairwise(ends)]
