"""Changes that a point does not need to keep its promise are given back, under the same noise as before."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gbce._numerics import SHARE_ROUNDING
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.decisions._risk import Trials, UnderNoise, count_affordable, propose_nearer, thin_out

__all__ = ["TRIAL_COPIES", "Promise", "PromiseSearch", "Screening", "UndoChanges", "accepts", "fresh_success"]

# --- looks at candidates under execution noise, from a glance at all of them to a closer look at a few ---------------

# How model rows are spent; all chosen by hand, and no promise hangs on them.
_GLANCE, _LOOKS = 0.125, (0.375, 1.0)  # of the few copies, for every candidate, and then for those that may hold
_AT_ONCE, _PROMISING_AT_ONCE = 4, 2  # candidates that get more of the few copies in one call, and then the many
_HOPE = 2.0  # standard errors that a share may be below what is wanted, after each look but the last
_PART = 0.25  # of the many copies, after which those go on that may hold
# If none holds: so many get all of the few copies, the best of them a part of the many, the best of these all.
_FALLBACKS, _CONFIRMED_IN_PART, _CONFIRMED = 60, 20, 5


@dataclass
class Screening:
    """Shares of successes of candidates, the nearest first, under copies that are the same for all of them.

    Parameters
    ----------
    noisy : UnderNoise
        The models under noise.
    x : array of shape (k, d)
        Candidates.
    few, many : array of shape (n, d)
        Offsets of a first look, and of a closer one.
    share : array of shape (k,)
        Of successes, under as many of the few as a candidate got.
    copies : int array of shape (k,)
        How many of the few a candidate got.
    """

    noisy: UnderNoise
    x: Array
    few: Array
    many: Array
    share: Array
    copies: Array

    @classmethod
    def of(cls, noisy: UnderNoise, x: Array, n_few: int, n_many: int) -> "Screening":
        """Draw offsets for candidates ``(k, d)``."""
        few, many = np.split(noisy.draw_offsets(n_few + n_many), [n_few])
        return cls(noisy, x, few, many, np.zeros(len(x)), np.zeros(len(x), dtype=int))

    def first_pass(self, block: slice, worth: float) -> Array:
        """Look at a block of candidates under a few copies; return the positions of those that may be worth more."""
        return self._sift(np.arange(len(self.x))[block], worth, _GLANCE)

    def sift(self, which: Array, worth: float) -> Array:
        """Return those of candidates that may be worth more under all of the few copies."""
        for part in _LOOKS:
            which = self._sift(which, worth, part)
        return which

    def _sift(self, which: Array, worth: float, part: float) -> Array:
        n = max(int(part * len(self.few)), 1)
        self._look(which, n)
        return which[self.share[which] >= _hope(worth, n)]

    def _look(self, which: Array, n: int) -> None:
        """Look at candidates under ``n`` of the few copies."""
        for had in np.unique(self.copies[which]).tolist():
            some = which[self.copies[which] == had]
            if had < n:
                more = self.noisy.success(self.x[some], self.few[had:n])
                self.share[some] = (had * self.share[some] + (n - had) * more) / n
                self.copies[some] = n

    def find_holding(self, hopeful: Array, trials: Trials, holds_elsewhere: Callable[[Array], Array]) -> int | None:
        """Return the first of the hopeful candidates that holds under many copies, elsewhere, and in a trial."""
        for start in range(0, len(hopeful), _AT_ONCE):
            some = self.sift(hopeful[start : start + _AT_ONCE], trials.worth)
            for at in range(0, len(some), _PROMISING_AT_ONCE):
                near = some[at : at + _PROMISING_AT_ONCE]
                # one more, for the trial
                near = near[: count_affordable(self.noisy.posterior, len(near) + 1, len(self.many))]
                near, share = self._look_closer(near, trials.worth)
                good = share >= trials.worth
                good[good] = accepts(self.noisy, self.x[near[good]], known=True)
                good[good] = holds_elsewhere(self.x[near[good]])
                held = trials.first_to_hold(near[good], share[good])
                if held is not None:
                    return held
        return None

    def _look_closer(self, which: Array, worth: float) -> tuple[Array, Array]:
        """Return those of some candidates that may hold after a part of the many copies, and their shares of all."""
        n, part = len(self.many), self._n_part
        share = self.noisy.success(self.x[which], self.many[:part])
        going = share >= _hope(worth, part)
        which, share = which[going], share[going]
        if len(which) and part < n:
            share = (part * share + (n - part) * self.noisy.success(self.x[which], self.many[part:])) / n
        return which, share

    @property
    def _n_part(self) -> int:
        return max(int(_PART * len(self.many)), 1)

    def find_fallback(self, reaching: bool) -> tuple[int, bool]:
        """Return the candidate that succeeds most often, the nearest of equals, and whether the model accepts it."""
        best = self._best(np.arange(len(self.x)), self.share, _FALLBACKS)
        self._look(best[: self.noisy.posterior.affords(len(best) * len(self.few)) // len(self.few)], len(self.few))
        most = count_affordable(self.noisy.posterior, _CONFIRMED_IN_PART + 1, len(self.many))
        best = self._best(best, self.share[best], min(most, _CONFIRMED_IN_PART))
        accepted = best[accepts(self.noisy, self.x[best], known=True)] if reaching else best[:0]
        best = accepted if len(accepted) else best
        part = self._n_part
        share = self.noisy.success(self.x[best], self.many[:part])
        if len(best) > 1 and part < len(self.many):
            few = np.isin(best, self._best(best, share, _CONFIRMED))
            more = self.noisy.success(self.x[best[few]], self.many[part:])
            best, share = best[few], part * share[few] + (len(self.many) - part) * more
        return int(best[np.argmax(share)]), len(accepted) > 0

    @staticmethod
    def _best(which: Array, share: Array, most: int) -> Array:
        """Return those of candidates with the greatest shares, in their order."""
        return which[np.sort(np.argsort(-share, kind="stable")[:most])]


def _hope(worth: float, n: int) -> float:
    """Return the share of ``n`` copies from which a candidate may be worth a trial: some standard errors less."""
    return worth - _HOPE * float(np.sqrt(worth * (1 - worth) / n))


def fresh_success(noisy: UnderNoise, x: Array, copies: int) -> tuple[float, int]:
    """Return the share of successes of one point ``(d,)`` under offsets of its own, as many as the budget allows."""
    n = count_affordable(noisy.posterior, copies, 1)
    return float(noisy.success(x[None, :], noisy.draw_offsets(n))[0]), n


def accepts(noisy: UnderNoise, x: Array, *, known: bool = False) -> Array:
    """Whether the first model accepts points ``(k, d)`` by its own decision: ``(k,)``.

    Of points ``known`` to reach the target it is asked only where its decision may differ from what was read off them.
    """
    first = noisy.posterior.predictors[0]
    if len(x) == 0 or (known and first.questions(use_predict=True) == first.questions()):
        return np.ones(len(x), dtype=bool)
    return noisy.posterior.read(noisy.posterior.ask(x, use_predict=True, models=1)).reached[:, 0]


# --- changes that a point does not need to keep its promise are given back, under the same noise as before -----------

# How model rows are spent, by hand. A change that matters shows under a few copies; one that does not makes no
# difference under any.
_PARTS = (0.0625, 0.25, 1.0)  # of the copies, one after the other
_SMALL = 0.05  # of the cost, by hand: a change for which nobody would write another line
_BEHIND = 1  # successes fewer than before, after which a point still goes on to the next part


@dataclass(frozen=True)
class UndoChanges:
    """A search for fewer changes that succeed under as many of the same copies.

    Parameters
    ----------
    noisy : UnderNoise
        The models under noise.
    shifts : array of shape (n, d)
        Offsets of the copies.
    cost : function of points ``(k, d)``
        What they cost ``(k,)``.
    tidy : function of points ``(k, d)``
        Returns the points ``(k, d)`` that are meant.
    holds_elsewhere : function of points ``(k, d)``
        Which of them ``(k,)`` hold in other respects.
    """

    noisy: UnderNoise
    shifts: Array
    cost: Callable[[Array], Array]
    tidy: Callable[[Array], Array]
    holds_elsewhere: Callable[[Array], Array]

    def run(self, x: Array) -> Array:
        """Return ``x`` ``(d,)`` without what it does not need.

        Single changes are tried first. Of those that can be given back, as many as possible are given back together,
        those that save most first, and the others are tried again.
        """
        scene, left = self.noisy.scene, self._changes(x)
        before = np.zeros(0)  # successes of x under as many copies as it was looked at
        while len(left):
            rows, sets = self._without(x, [column[None] for column in left])
            good, after, before = self._as_good(rows, x, before)
            rows, left = rows[good], np.concatenate([left[:0], *(sets[i] for i in good)])
            several, _ = self._without(x, _beginnings(left[np.argsort(self.cost(rows), kind="stable")]))
            good, more, before = self._as_good(several, x, before)
            rows, after = np.vstack([rows, several[good]]), np.vstack([after, more])
            order = np.argsort(self.cost(rows), kind="stable").tolist()
            best = next((i for i in order if self.holds_elsewhere(rows[[i]])[0]), None)
            if best is None:
                break
            x, before = rows[best], after[best]
            left = left[scene.space.changed(x[None, :], scene.x0)[0][left]]
        return x

    def without_small(self, x: Array) -> Array:
        """Return ``x`` ``(d,)`` without all of its small changes, and without each ``(k, d)``, the cheapest first."""
        rows, sets = self._without(x, [column[None] for column in self._changes(x)])
        small = (self.cost(rows) >= (1.0 - _SMALL) * self.cost(x[None, :])).nonzero()[0]
        columns = np.concatenate([self._changes(x)[:0], *(sets[i] for i in small)])
        together, _ = self._without(x, [columns] if len(columns) > 1 else [])
        rows = np.vstack([together, rows[small]])
        return rows[np.argsort(self.cost(rows), kind="stable")]

    def _changes(self, x: Array) -> Array:
        """Return the features that ``x`` ``(d,)`` changes, but for what is computed from others."""
        space = self.noisy.scene.space
        return np.flatnonzero(space.changed(x[None, :], self.noisy.scene.x0)[0] & ~space.is_computed)

    def _without(self, x: Array, sets: list[Array]) -> tuple[Array, list[Array]]:
        """Return ``x`` without each set of changes ``(k, d)``, where that is cheaper and can be had, and the sets."""
        scene = self.noisy.scene
        rows = np.tile(x, (len(sets), 1))
        for row, columns in zip(rows, sets, strict=True):
            row[columns] = scene.x0[columns]
        rows = self.tidy(rows)
        good = scene.space.admissible(rows, scene.x0) & (self.cost(rows) < self.cost(x[None, :]))
        good &= scene.space.changed(rows, scene.x0).any(axis=1)
        return rows[good], [columns for columns, kept in zip(sets, good, strict=True) if kept]

    def _as_good(self, rows: Array, x: Array, before: Array) -> tuple[Array, Array, Array]:
        """Return positions ``(m,)`` of points that succeed as often as ``x`` ``(d,)``, and their successes ``(m, n)``.

        ``before`` are those of ``x`` under the first copies; with as many as were needed they are returned, too.
        """
        which, n = np.arange(len(rows)), len(self.shifts)
        after = np.zeros((len(rows), n))
        start = 0
        for part in _PARTS:
            stop = max(int(part * n), 1)
            if len(which) == 0 or stop == start:
                continue
            if len(before) < stop:
                both = self.noisy.successes(np.vstack([rows[which], x]), self.shifts[start:stop])
                after[which, start:stop], before = both[:-1], np.append(before, both[-1])
            else:
                after[which, start:stop] = self.noisy.successes(rows[which], self.shifts[start:stop])
            behind = before[:stop].sum() - after[which, :stop].sum(axis=1)
            which = which[behind <= (_BEHIND if stop < n else n * SHARE_ROUNDING)]
            start = stop
        return which, after[which], before


def _beginnings(columns: Array) -> list[Array]:
    """Return the first 2, 4, 8, ... columns, and all."""
    sizes = {min(2**k, len(columns)) for k in range(1, len(columns).bit_length() + 1)} - {0, 1}
    return [columns[:size] for size in sorted(sizes)]


# --- the search for the cheapest point that keeps a promise under execution noise ------------------------------------

# How model rows are spent. All of these were chosen by hand; the trials keep the promise, whatever these are.
_FIRST_BLOCK = 50  # candidates in the first call; each later call takes as many as all before it and this many more
TRIAL_COPIES = 4  # times n_confirm: with fewer copies a candidate must exceed the promise by more to pass
# Of the search towards the row: points in each round, how many of these get all n_perturb copies, and how many then a
# part of n_confirm. Without the last look the nearest of those with some luck was taken, and every other search ended
# in nothing. At most so many of the points that it went through are tried, the nearest first.
_TRIED = 2
_FEWEST_ROUNDS = 4  # that a budget must allow
_PROPOSED, _LOOKED_AT, _CONFIRMED_TOGETHER, _PART_OF_WAY = 16, 6, 3, 0.5


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
    def looks(self) -> Screening:
        """The candidates' shares of successes so far."""
        return Screening.of(self.noisy, self.x, self.promise.n_perturb, self.promise.n_confirm)

    @cached_property
    def trials(self) -> Trials:
        """Tests of the candidates."""
        return self._trials(self.looks.x, self.tried)

    def find_holding(self) -> int | None:
        """Return the position of the first candidate that keeps the promise, if one does."""
        for block in _blocks(len(self.x)):
            hopeful = self.looks.first_pass(block, self.trials.worth)
            held = self.looks.find_holding(hopeful, self.trials, self.holds_elsewhere)
            if held is not None:
                return held
        return None

    def glance_at_all(self) -> None:
        """Look at every candidate under a few copies, where none reaches the target and none is sought that holds."""
        for block in _blocks(len(self.x)):
            self.looks.first_pass(block, self.trials.worth)

    def draw_nearer(self, x: Array, rounds: int) -> Array | None:
        """Return a cheaper point than ``x`` ``(d,)``, which holds, that holds as well, if one is found in time."""
        n_sure = max(int(_PART_OF_WAY * self.promise.n_confirm), 1)
        each = (_PROPOSED + _LOOKED_AT) * self.promise.n_perturb + _CONFIRMED_TOGETHER * n_sure
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
        back = UndoChanges(self.noisy, self.looks.many, self.cost, self.tidy, self.holds_elsewhere)
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
        looks = Screening.of(noisy, near, self.promise.n_perturb, n_sure)
        hopeful = thin_out(
            looks.first_pass(slice(0, len(near)), worth), _LOOKED_AT
        )  # the nearest few had most luck so far
        hopeful = looks.sift(hopeful, worth)
        for one in near[hopeful[looks.share[hopeful] >= worth][:_CONFIRMED_TOGETHER]]:
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
