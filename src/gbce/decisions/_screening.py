"""Search for the cheapest point that reaches the target with a given probability under execution noise.

Candidates are screened in stages under common random noise (cheap first, futile ones dropped), promising ones are
tested under fresh noise (:class:`Trials`), and changes that the chosen point does not need are shrunk or undone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gbce._numerics import WIDE_ROUNDING
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.decisions._risk import Trials, UnderNoise, count_affordable, propose_nearer, thin_out


@dataclass(frozen=True)
class _Effort:
    """How model rows are spent; chosen by hand: trials under fresh noise keep the promise, whatever these are."""

    # Screening: shares of the n_perturb copies, first for every candidate, then for those that may still hold.
    first_part: float = 0.125
    later_parts: tuple[float, float] = (0.375, 1.0)
    at_once: int = 4  # candidates per call that are screened further, and then with n_confirm copies
    promising_at_once: int = 2
    futility_se: float = 2.0  # standard errors that a share may lie below the required one at an interim stage
    confirming_part: float = 0.25  # of the n_confirm copies, at which futile candidates are dropped
    # If none holds: how many get all n_perturb copies, a part of n_confirm, and all of n_confirm.
    fallbacks: int = 60
    confirmed_in_part: int = 20
    confirmed: int = 5
    # candidates in the first call; each later call takes as many as all before it and this many more
    first_block: int = 50
    # Undoing changes: a needed change shows within few copies, an unneeded one makes no difference under any.
    undoing_parts: tuple[float, float, float] = (0.0625, 0.25, 1.0)  # cumulative shares of the copies
    small_change: float = 0.05  # of the cost: a change too small to be worth a line of the answer
    behind: int = 1  # successes that a point may be behind at an interim stage
    # Shrinking changes: points per round, those refined with n_perturb copies, those confirmed with a part of
    # n_confirm. Without this confirmation the nearest lucky point was taken, and every other search ended in nothing.
    proposed: int = 16
    refined: int = 6
    confirmed_together: int = 3
    part_on_path: float = 0.5
    tried_on_path: int = 2  # points on the path to the row that are put to a trial, the nearest first
    fewest_rounds: int = 4  # that the budget must allow


_EFFORT = _Effort()

TRIAL_COPIES = 4  # times n_confirm: with fewer copies a candidate must exceed the promise by more to pass

# --- screening of candidates -----------------------------------------------------------------------------------------


@dataclass
class Screening:
    """Success rates ``share`` of candidates ``x`` ``(k, d)`` under the first ``copies`` ``(k,)`` of ``few``."""

    noisy: UnderNoise
    x: Array
    few: Array  # offsets (n, d), common to all candidates, of the first stages
    many: Array  # and of the confirmation
    share: Array
    copies: Array

    @classmethod
    def of(cls, noisy: UnderNoise, x: Array, n_few: int, n_many: int) -> "Screening":
        """Draw common offsets for candidates ``(k, d)``."""
        few, many = np.split(noisy.draw_offsets(n_few + n_many), [n_few])
        return cls(noisy, x, few, many, np.zeros(len(x)), np.zeros(len(x), dtype=int))

    def first_pass(self, block: slice, worth: float) -> Array:
        """Evaluate a block of candidates under a few copies; return the positions of those that are not futile."""
        return self._screen(np.arange(len(self.x))[block], worth, _EFFORT.first_part)

    def refine(self, which: Array, worth: float) -> Array:
        """Evaluate candidates under all of the few copies in stages; return those that are not futile."""
        for part in _EFFORT.later_parts:
            which = self._screen(which, worth, part)
        return which

    def _screen(self, which: Array, worth: float, part: float) -> Array:
        """Evaluate candidates up to a ``part`` of the few copies; return those above the futility bound."""
        n = max(int(part * len(self.few)), 1)
        self._add_copies(which, n)
        return which[self.share[which] >= _futility_bound(worth, n)]

    def _add_copies(self, which: Array, n: int) -> None:
        """Bring candidates up to ``n`` of the few copies and update their success rates."""
        for had in np.unique(self.copies[which]).tolist():
            some = which[self.copies[which] == had]
            if had < n:
                more = self.noisy.success(self.x[some], self.few[had:n])
                self.share[some] = (had * self.share[some] + (n - had) * more) / n
                self.copies[some] = n

    def find_holding(self, promising: Array, trials: Trials, holds_elsewhere: Callable[[Array], Array]) -> int | None:
        """Return the first promising candidate that holds under many copies, elsewhere, and in a trial."""
        for start in range(0, len(promising), _EFFORT.at_once):
            some = self.refine(promising[start : start + _EFFORT.at_once], trials.worth)
            for at in range(0, len(some), _EFFORT.promising_at_once):
                near = some[at : at + _EFFORT.promising_at_once]
                # one more for the trial
                near = near[: count_affordable(self.noisy.posterior, len(near) + 1, len(self.many))]
                near, share = self._screen_closely(near, trials.worth)
                good = share >= trials.worth
                good[good] = accepts(self.noisy, self.x[near[good]], known=True)
                good[good] = holds_elsewhere(self.x[near[good]])
                held = trials.find_holding(near[good], share[good])
                if held is not None:
                    return held
        return None

    def _screen_closely(self, which: Array, worth: float) -> tuple[Array, Array]:
        """Return candidates that are not futile after a part of the many copies, and their success rates."""
        n, part = len(self.many), self._n_part
        share = self.noisy.success(self.x[which], self.many[:part])
        going = share >= _futility_bound(worth, part)
        which, share = which[going], share[going]
        if len(which) and part < n:
            share = (part * share + (n - part) * self.noisy.success(self.x[which], self.many[part:])) / n
        return which, share

    @property
    def _n_part(self) -> int:
        return max(int(_EFFORT.confirming_part * len(self.many)), 1)

    def find_fallback(self, reaching: bool) -> tuple[int, bool]:
        """Return the candidate with the highest success rate (ties: the nearest), and whether the model accepts it."""
        best = self._take_best(np.arange(len(self.x)), self.share, _EFFORT.fallbacks)
        self._add_copies(
            best[: self.noisy.posterior.affords(len(best) * len(self.few)) // len(self.few)], len(self.few)
        )
        most = count_affordable(self.noisy.posterior, _EFFORT.confirmed_in_part + 1, len(self.many))
        best = self._take_best(best, self.share[best], min(most, _EFFORT.confirmed_in_part))
        accepted = best[accepts(self.noisy, self.x[best], known=True)] if reaching else best[:0]
        best = accepted if len(accepted) else best
        part = self._n_part
        share = self.noisy.success(self.x[best], self.many[:part])
        if len(best) > 1 and part < len(self.many):
            few = np.isin(best, self._take_best(best, share, _EFFORT.confirmed))
            more = self.noisy.success(self.x[best[few]], self.many[part:])
            best, share = best[few], part * share[few] + (len(self.many) - part) * more
        return int(best[np.argmax(share)]), len(accepted) > 0

    @staticmethod
    def _take_best(which: Array, share: Array, most: int) -> Array:
        """Return the ``most`` candidates with the highest success rates, in their order."""
        return which[np.sort(np.argsort(-share, kind="stable")[:most])]


def _futility_bound(worth: float, n: int) -> float:
    """Return the success rate under ``n`` copies below which a candidate is dropped."""
    return worth - _EFFORT.futility_se * float(np.sqrt(worth * (1 - worth) / n))


def fresh_success(noisy: UnderNoise, x: Array, copies: int) -> tuple[float, int]:
    """Estimate the success rate of one point ``(d,)`` under fresh noise; return it and the number of copies."""
    n = count_affordable(noisy.posterior, copies, 1)
    return float(noisy.success(x[None, :], noisy.draw_offsets(n))[0]), n


def accepts(noisy: UnderNoise, x: Array, *, known: bool = False) -> Array:
    """Whether the first model's ``predict`` accepts points ``(k, d)``; it is not asked if ``known`` scores decide."""
    first = noisy.posterior.predictors[0]
    if len(x) == 0 or (known and first.questions(use_predict=True) == first.questions()):
        return np.ones(len(x), dtype=bool)
    return noisy.posterior.read(noisy.posterior.ask(x, use_predict=True, models=1)).reached[:, 0]


# --- undoing changes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UndoChanges:
    """Undo changes while no success is lost under common ``shifts`` ``(n, d)``; functions as in PromiseSearch."""

    noisy: UnderNoise
    shifts: Array
    cost: Callable[[Array], Array]
    tidy: Callable[[Array], Array]
    holds_elsewhere: Callable[[Array], Array]

    def run(self, x: Array) -> Array:
        """Return ``x`` ``(d,)`` without the changes it does not need, the largest savings first."""
        scene, left = self.noisy.scene, self._changed_features(x)
        before = np.zeros(0)  # successes of x under the copies evaluated so far
        while len(left):
            rows, sets = self._undo_sets(x, [column[None] for column in left])
            good, after, before = self._keep_as_good(rows, x, before)
            rows, left = rows[good], np.concatenate([left[:0], *(sets[i] for i in good)])
            several, _ = self._undo_sets(x, _list_prefixes(left[np.argsort(self.cost(rows), kind="stable")]))
            good, more, before = self._keep_as_good(several, x, before)
            rows, after = np.vstack([rows, several[good]]), np.vstack([after, more])
            order = np.argsort(self.cost(rows), kind="stable").tolist()
            best = next((i for i in order if self.holds_elsewhere(rows[[i]])[0]), None)
            if best is None:
                break
            x, before = rows[best], after[best]
            left = left[scene.space.changed(x[None, :], scene.x0)[0][left]]
        return x

    def drop_small(self, x: Array) -> Array:
        """Return ``x`` ``(d,)`` without all of its small changes and without each of them, the cheapest first."""
        rows, sets = self._undo_sets(x, [column[None] for column in self._changed_features(x)])
        small = (self.cost(rows) >= (1.0 - _EFFORT.small_change) * self.cost(x[None, :])).nonzero()[0]
        columns = np.concatenate([self._changed_features(x)[:0], *(sets[i] for i in small)])
        together, _ = self._undo_sets(x, [columns] if len(columns) > 1 else [])
        rows = np.vstack([together, rows[small]])
        return rows[np.argsort(self.cost(rows), kind="stable")]

    def _changed_features(self, x: Array) -> Array:
        """Return the features that ``x`` ``(d,)`` changes, computed columns excluded."""
        space = self.noisy.scene.space
        return np.flatnonzero(space.changed(x[None, :], self.noisy.scene.x0)[0] & ~space.is_computed)

    def _undo_sets(self, x: Array, sets: list[Array]) -> tuple[Array, list[Array]]:
        """Undo each set of changes to ``x``; return the admissible, cheaper, still changed points ``(k, d)``."""
        scene = self.noisy.scene
        rows = np.tile(x, (len(sets), 1))
        for row, columns in zip(rows, sets, strict=True):
            row[columns] = scene.x0[columns]
        rows = self.tidy(rows)
        good = scene.space.admissible(rows, scene.x0) & (self.cost(rows) < self.cost(x[None, :]))
        good &= scene.space.changed(rows, scene.x0).any(axis=1)
        return rows[good], [columns for columns, kept in zip(sets, good, strict=True) if kept]

    def _keep_as_good(self, rows: Array, x: Array, before: Array) -> tuple[Array, Array, Array]:
        """Return which rows ``(m,)`` succeed as often as ``x``, all successes ``(m, n)``, and those of ``x`` so far."""
        which, n = np.arange(len(rows)), len(self.shifts)
        after = np.zeros((len(rows), n))
        start = 0
        for part in _EFFORT.undoing_parts:
            stop = max(int(part * n), 1)
            if len(which) == 0 or stop == start:
                continue
            if len(before) < stop:
                both = self.noisy.successes(np.vstack([rows[which], x]), self.shifts[start:stop])
                after[which, start:stop], before = both[:-1], np.append(before, both[-1])
            else:
                after[which, start:stop] = self.noisy.successes(rows[which], self.shifts[start:stop])
            behind = before[:stop].sum() - after[which, :stop].sum(axis=1)
            which = which[behind <= (_EFFORT.behind if stop < n else n * WIDE_ROUNDING)]
            start = stop
        return which, after[which], before


def _list_prefixes(columns: Array) -> list[Array]:
    """Return the first 2, 4, 8, ... columns, and all."""
    sizes = {min(2**k, len(columns)) for k in range(1, len(columns).bit_length() + 1)} - {0, 1}
    return [columns[:size] for size in sorted(sizes)]


# --- search for a reliable point -------------------------------------------------------------------------------------


class Promise(NamedTuple):
    """A probability of reaching under noise, the confidence in it over all trials, and copies to screen and confirm."""

    probability: float
    confidence: float
    n_perturb: int
    n_confirm: int

    @property
    def trial_copies(self) -> int:
        """Fresh copies of a candidate in a trial."""
        return TRIAL_COPIES * self.n_confirm


def _keep_unchanged(x: Array) -> Array:
    return x


def _accept_all(x: Array) -> Array:
    return np.ones(len(x), dtype=bool)


@dataclass(frozen=True)
class PromiseSearch:
    """Search through candidates ``x`` ``(k, d)``, the cheapest first, until one keeps the promise.

    ``tidy`` rounds proposed points; ``holds_elsewhere`` is asked of promising ones, such as by refitted models;
    ``tried`` are trials of earlier searches for the same promise, whose share of the risk is spent.
    """

    noisy: UnderNoise
    promise: Promise
    x: Array
    cost: Callable[[Array], Array]
    tidy: Callable[[Array], Array] = _keep_unchanged
    holds_elsewhere: Callable[[Array], Array] = _accept_all
    tried: int = 0

    @cached_property
    def screening(self) -> Screening:
        """Success rates of the candidates so far."""
        return Screening.of(self.noisy, self.x, self.promise.n_perturb, self.promise.n_confirm)

    @cached_property
    def trials(self) -> Trials:
        """Trials of the candidates."""
        return self._new_trials(self.screening.x, self.tried)

    def find_holding(self) -> int | None:
        """Return the position of the first candidate that keeps the promise, if one does."""
        for block in _split_blocks(len(self.x)):
            promising = self.screening.first_pass(block, self.trials.worth)
            held = self.screening.find_holding(promising, self.trials, self.holds_elsewhere)
            if held is not None:
                return held
        return None

    def screen_all(self) -> None:
        """Evaluate every candidate under a few copies, for a fallback where none holds."""
        for block in _split_blocks(len(self.x)):
            self.screening.first_pass(block, self.trials.worth)

    def shrink_changes(self, x: Array, rounds: int) -> Array | None:
        """Return a cheaper point between ``x`` ``(d,)`` and the row that holds as well, if one is found."""
        n_sure = max(int(_EFFORT.part_on_path * self.promise.n_confirm), 1)
        each = (_EFFORT.proposed + _EFFORT.refined) * self.promise.n_perturb + _EFFORT.confirmed_together * n_sure
        trial = self.promise.trial_copies
        rounds = (self.noisy.posterior.affords(rounds * each + trial) - trial) // each
        if not self.trials.possible or rounds < _EFFORT.fewest_rounds:
            return None
        way, shares = [x], [1.0]
        try:
            while len(way) <= rounds:
                near, share = self._step_towards_row(way[-1], n_sure)
                if near is None:
                    break
                way.append(near)
                shares.append(share)
            last = np.arange(1, len(way))[::-1][: _EFFORT.tried_on_path]  # without the start
            held = self._run_trials(np.array(way), last, np.array(shares)[last])
        except BudgetSpentError:
            return None
        return None if held is None else way[held]

    def undo_changes(self, x: Array) -> Array:
        """Return ``x`` ``(d,)`` without the changes it does not need, if the result holds under fresh noise."""
        if not self.trials.possible:
            return x
        undoing = UndoChanges(self.noisy, self.screening.many, self.cost, self.tidy, self.holds_elsewhere)
        one = np.zeros(1, dtype=int)
        try:
            fewer = undoing.run(x)
            for row in undoing.drop_small(fewer)[: _EFFORT.tried_on_path]:
                share = self.noisy.success(row[None, :], self.screening.many)
                if share[0] >= self.trials.worth and self.holds_elsewhere(row[None, :])[0]:
                    if self._run_trials(row[None, :], one, share) is not None:
                        return row
                    break
            given = fewer is not x and self.trials.possible
            return fewer if given and self._run_trials(fewer[None, :], one, np.ones(1)) is not None else x
        except BudgetSpentError:
            return x

    def _step_towards_row(self, x: Array, n_sure: int) -> tuple[Array | None, float]:
        """Return the nearest point between ``x`` ``(d,)`` and the row that seems to hold, and its success rate."""
        noisy, worth = self.noisy, self.trials.worth
        near = propose_nearer(noisy.scene, x, _EFFORT.proposed, self.cost, self.tidy)
        near = near[accepts(noisy, near)]
        if len(near) == 0:
            return None, 0.0
        screening = Screening.of(noisy, near, self.promise.n_perturb, n_sure)
        # a spread of them, as the nearest few are the luckiest so far
        promising = thin_out(screening.first_pass(slice(0, len(near)), worth), _EFFORT.refined)
        promising = screening.refine(promising, worth)
        for one in near[promising[screening.share[promising] >= worth][: _EFFORT.confirmed_together]]:
            share = float(noisy.success(one[None, :], screening.many)[0])
            if share >= worth and self.holds_elsewhere(one[None, :])[0]:
                return one, share
        return None, 0.0

    def _run_trials(self, x: Array, which: Array, shares: Array) -> int | None:
        """Put points ``(k, d)`` to trials after all earlier ones, so that each spends its risk once."""
        trials = self._new_trials(x, self.trials.done)
        try:
            return trials.find_holding(which, shares)
        finally:
            self.trials.done = trials.done

    def _new_trials(self, x: Array, done: int) -> Trials:
        """Return trials of points ``(k, d)`` that follow ``done`` earlier ones."""
        return Trials(
            lambda which, copies: fresh_success(self.noisy, x[which], copies),
            self.promise.probability,
            1.0 - self.promise.confidence,
            self.promise.trial_copies,
            done=done,
        )


def _split_blocks(n: int) -> list[slice]:
    """Return slices of ``n`` candidates, each about twice as long as the one before."""
    ends = [0]
    while ends[-1] < n:
        ends.append(min(2 * ends[-1] + _EFFORT.first_block, n))
    return [slice(start, stop) for start, stop in pairwise(ends)]
