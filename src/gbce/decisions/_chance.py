"""The nearest point that keeps its promise under execution noise."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._beyond import propose_nearer
from gbce.decisions._risk import UnderNoise, count_affordable, pick_draws, require_across, require_switch
from gbce.decisions._trials import Trials
from gbce.draws import Scene
from gbce.metrics import Noise, require_noise
from gbce.space import Space

__all__ = ["ChanceConstrained"]

# How model rows are spent. All of these were chosen by hand; the trials keep the promise, whatever these are.
_FIRST_BLOCK = 50  # candidates in the first call; each later call takes as many as all before it and this many more
_GLANCE = 0.25  # of n_perturb: copies of every candidate; those that may hold get the others
_AT_ONCE, _PROMISING_AT_ONCE = 8, 4  # candidates that get all n_perturb copies in one call, and n_confirm copies
# If none holds: so many get all n_perturb copies, the best of them a quarter of n_confirm, the best of these all.
_FALLBACKS, _CONFIRMED_IN_PART, _CONFIRMED = 60, 20, 5
_TRIAL_COPIES = 4  # times n_confirm: with fewer copies a candidate must exceed the promise by more to pass
# Of the search towards the row: rounds, points in each, how many of these get all n_perturb copies; and the part of
# n_confirm copies under which the points that it went through are compared before one is tried.
_SEARCHES, _PROPOSED, _LOOKED_AT, _COMPARED = 4, 24, 6, 0.5


@dataclass(frozen=True)
class ChanceConstrained(Rule):
    """The nearest point that reaches the target and still does so with the given probability under noise.

    Candidates are draws that reach the target as they are, by the first model's own decision. They are gone through
    from the nearest outwards. One that looks promising under a few perturbations and under many is tested under fresh
    ones, because the best of several noisy estimates is too good to be true: the lower confidence bound of its
    success must be the given probability or more. From the first draw that holds, the search goes on towards the row.

    Parameters
    ----------
    probability : float
        Of reaching the target under noise.
    noise : number, sequence, mapping or function, optional
        Execution noise, as in :class:`CVaR`.
    n_perturb : int
        Perturbed copies of each candidate for a first look.
    n_confirm : int
        Further copies of each promising one; each trial draws four times as many fresh ones.
    max_candidates : int
        Distinct draws that are tried, picked at random.
    across : {"first", "models"}
        Whose verdicts count: the first model's; or those of all models on every copy, each with its weight.
    confidence : float
        That the chosen point keeps the promise, over all trials together.
    refine : bool
        Whether to draw changes back towards the row as long as the promise holds, for a few thousand model rows.
        Otherwise the answer is a draw.

    Notes
    -----
    If no candidate holds, the one that succeeds most often is chosen, and a note says so and how often it succeeds
    under noise that had no part in choosing it. Where no draw reaches the target as it is, other evaluated points that
    do are the candidates; where there are none of these either, all draws are, and the note says that, too.

    A probability of 1, or one so near to it that not even all copies of a trial could show it, is taken to hold if all
    of them succeed, and a note says what that shows.

    Examples
    --------
    >>> ChanceConstrained(0.8).label
    'ChanceConstrained(probability=0.8)'
    """

    asks_model: ClassVar[bool] = True

    probability: float = 0.9
    noise: Noise | None = None
    n_perturb: int = 64
    n_confirm: int = 512
    max_candidates: int = 800
    across: Literal["first", "models"] = "first"
    confidence: float = 0.95
    refine: bool = True

    def __post_init__(self) -> None:
        require_across(self, "first")
        require_finite(self, "probability", "confidence")
        if not 0 < self.probability <= 1:
            raise ValueError(f"ChanceConstrained: probability must be above 0, at most 1, not {self.probability!r}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"ChanceConstrained: confidence must lie between 0 and 1, not {self.confidence!r}")
        require_counts(self, "n_perturb", "n_confirm", "max_candidates")
        require_switch(self, "refine")

    def check_space(self, space: Space) -> None:
        """Refuse noise that does not fit the features."""
        require_noise(self.noise, space)

    def choose(self, scene: Scene) -> Choice:
        """Choose the nearest candidate that holds, or a point on its way to the row."""
        posterior = scene.model(self)
        where, weight, reaching = _find_candidates(scene)
        # each is looked at once; as much again is left for confirming
        most = count_affordable(posterior, self.max_candidates, 2 * self.n_perturb)
        candidates = pick_draws(scene, most, where, weight)
        candidates = candidates[np.argsort(scene.distance(scene.draws.pool.x[candidates]), kind="stable")]
        noisy = UnderNoise(scene, posterior, self.noise, first_only=self.across == "first")
        looks = _Looks.of(noisy, scene.draws.pool.x[candidates], self.n_perturb, self.n_confirm)
        trials = self._trials(noisy, looks.x)
        for block in _blocks(len(candidates)):
            hopeful = looks.glance(block, trials.worth)
            held = looks.find_holding(hopeful, trials) if reaching else None
            if held is not None:
                nearer = self._draw_nearer(noisy, trials, looks.x[held]) if self.refine else None
                note = self._proof_note(trials.enough)
                return scene.pick(candidates[[held]], note) if nearer is None else Choice(nearer[None, :], note=note)
        winner, accepted = looks.find_fallback(reaching)
        fresh, _ = _fresh_success(noisy, looks.x[winner], _TRIAL_COPIES * self.n_confirm)
        return scene.pick(candidates[[winner]], self._shortfall_note(len(candidates), accepted, fresh))

    def _trials(self, noisy: UnderNoise, x: Array, earlier: Trials | None = None) -> Trials:
        """Return trials of points ``(k, d)``, which go on where earlier ones ended: their risk is spent."""
        return Trials(
            lambda which, copies: _fresh_success(noisy, x[which], copies),
            self.probability,
            1.0 - self.confidence,
            _TRIAL_COPIES * self.n_confirm,
            done=0 if earlier is None else earlier.done,
        )

    def _draw_nearer(self, noisy: UnderNoise, trials: Trials, x: Array) -> Array | None:
        """Return a point nearer to the row than ``x`` ``(d,)``, which holds, that holds as well, if one is found."""
        most = _SEARCHES * (_PROPOSED + _LOOKED_AT) * self.n_perturb + _TRIAL_COPIES * self.n_confirm
        if not trials.possible or noisy.posterior.affords(most) < most:
            return None
        way = [x]
        try:
            while len(way) <= _SEARCHES:
                near = self._step_nearer(noisy, trials.worth, way[-1])
                if near is None:
                    break
                way.append(near)
            found = np.array(way[:0:-1]).reshape(-1, len(x))  # the nearest first, without the start
            if len(found) == 0:
                return None
            share = noisy.success(found, noisy.draw_offsets(max(int(_COMPARED * self.n_confirm), 1)))
            held = self._trials(noisy, found, trials).first_to_hold(np.arange(len(found)), share)
        except BudgetSpentError:
            return None
        return None if held is None else found[held]

    def _step_nearer(self, noisy: UnderNoise, worth: float, x: Array) -> Array | None:
        """Return the nearest of some points on the way from ``x`` ``(d,)`` to the row that looks as if it held."""
        near = propose_nearer(noisy.scene, x, _PROPOSED)
        near = near[_accepted(noisy, near)]
        if len(near) == 0:
            return None
        looks = _Looks.of(noisy, near, self.n_perturb, 0)
        hopeful = looks.glance(slice(0, len(near)), worth)[:_LOOKED_AT]
        looks.look(hopeful)
        good = hopeful[looks.share[hopeful] >= worth]
        return near[good[0]] if len(good) else None

    def _proof_note(self, shown: float) -> str:
        """Say so where a trial without a failure shows less than what is promised."""
        if shown >= self.probability:
            return ""
        return (
            f"{self.label}: {_TRIAL_COPIES * self.n_confirm:,} copies without a failure show a probability of "
            f"{shown:.4f}; a larger n_confirm would show more."
        )

    def _shortfall_note(self, n: int, reaching: bool, share: float) -> str:
        """Say that no candidate kept the promise, and what the chosen one does."""
        where = "" if self.across == "first" else " and across models"
        if not reaching:
            return (
                f"{self.label}: none of {n} draws reaches the target as it is; the one that does so most often under "
                f"noise{where} was taken, with probability {share:.2f}."
            )
        return (
            f"{self.label}: none of {n} draws that reach the target still does so under noise{where} with probability "
            f"{self.probability:g}, at {100 * self.confidence:g}% confidence; the best one was taken, with {share:.2f}."
        )


@dataclass
class _Looks:
    """Shares of successes of candidates, the nearest first, under copies that are the same for all of them.

    Parameters
    ----------
    noisy : UnderNoise
        The models under noise.
    x : array of shape (k, d)
        Candidates.
    few, many : array of shape (n, d)
        Offsets of a first look, and of a closer one.
    n_glance : int
        How many of the few every candidate gets.
    share : array of shape (k,)
        Of successes, under as many of the few as a candidate got.
    full : bool array of shape (k,)
        Whether a candidate got all of the few.
    """

    noisy: UnderNoise
    x: Array
    few: Array
    many: Array
    n_glance: int
    share: Array
    full: Array

    @classmethod
    def of(cls, noisy: UnderNoise, x: Array, n_few: int, n_many: int) -> "_Looks":
        """Draw offsets for candidates ``(k, d)``."""
        few, many = np.split(noisy.draw_offsets(n_few + n_many), [n_few])
        n_glance = max(int(_GLANCE * n_few), 1)
        return cls(noisy, x, few, many, n_glance, np.zeros(len(x)), np.full(len(x), n_glance == n_few))

    def glance(self, block: slice, worth: float) -> Array:
        """Look at a block of candidates under a few copies; return the positions of those that may be worth more."""
        self.share[block] = self.noisy.success(self.x[block], self.few[: self.n_glance])
        where = np.arange(len(self.x))[block]
        return where[self.share[where] >= _hope(worth, self.n_glance)]

    def look(self, which: Array) -> None:
        """Look at candidates under all of the few copies."""
        which = which[~self.full[which]]
        if len(which):
            n, had = len(self.few), self.n_glance
            more = self.noisy.success(self.x[which], self.few[had:])
            self.share[which] = (had * self.share[which] + (n - had) * more) / n
            self.full[which] = True

    def find_holding(self, hopeful: Array, trials: Trials) -> int | None:
        """Return the first of the hopeful candidates that holds under many copies and in a trial."""
        for start in range(0, len(hopeful), _AT_ONCE):
            some = hopeful[start : start + _AT_ONCE]
            self.look(some)
            some = some[self.share[some] >= _hope(trials.worth, len(self.few))]
            for at in range(0, len(some), _PROMISING_AT_ONCE):
                near = some[at : at + _PROMISING_AT_ONCE]
                # one more, for the trial
                near = near[: count_affordable(self.noisy.posterior, len(near) + 1, len(self.many))]
                share = self.noisy.success(self.x[near], self.many)
                good = share >= trials.worth
                good[good] = _accepted(self.noisy, self.x[near[good]], known=True)
                held = trials.first_to_hold(near[good], share[good])
                if held is not None:
                    return held
        return None

    def find_fallback(self, reaching: bool) -> tuple[int, bool]:
        """Return the candidate that succeeds most often, the nearest of equals, and whether the model accepts it."""
        best = self._best(np.arange(len(self.x)), self.share, _FALLBACKS)
        self.look(best[: self.noisy.posterior.affords(len(best) * len(self.few)) // len(self.few)])
        most = count_affordable(self.noisy.posterior, _CONFIRMED_IN_PART + 1, len(self.many))
        best = self._best(best, self.share[best], min(most, _CONFIRMED_IN_PART))
        accepted = best[_accepted(self.noisy, self.x[best], known=True)] if reaching else best[:0]
        best = accepted if len(accepted) else best
        part = max(len(self.many) // 4, 1)
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


def _blocks(n: int) -> list[slice]:
    """Return slices of ``n`` candidates, each with as many as all before it and a few more."""
    ends = [0]
    while ends[-1] < n:
        ends.append(min(2 * ends[-1] + _FIRST_BLOCK, n))
    return [slice(start, stop) for start, stop in zip(ends, ends[1:], strict=False)]


def _hope(worth: float, n: int) -> float:
    """Return the share of ``n`` copies from which a candidate may be worth a trial: one standard error less."""
    return worth - float(np.sqrt(worth * (1 - worth) / n))


def _fresh_success(noisy: UnderNoise, x: Array, copies: int) -> tuple[float, int]:
    """Return the share of successes of one point ``(d,)`` under offsets of its own, as many as the budget allows."""
    n = count_affordable(noisy.posterior, copies, 1)
    return float(noisy.success(x[None, :], noisy.draw_offsets(n))[0]), n


def _accepted(noisy: UnderNoise, x: Array, *, known: bool = False) -> Array:
    """Whether the first model accepts points ``(k, d)`` by its own decision: ``(k,)``.

    Of points ``known`` to reach the target it is asked only where its decision may differ from what was read off them.
    """
    first = noisy.posterior.predictors[0]
    if len(x) == 0 or (known and first.questions(use_predict=True) == first.questions()):
        return np.ones(len(x), dtype=bool)
    return noisy.posterior.read(noisy.posterior.ask(x, use_predict=True, models=1)).reached[:, 0]


def _find_candidates(scene: Scene) -> tuple[Array, Array, bool]:
    """Return where to look in the pool, the weights, and whether the target is reached there as it is.

    That is among the draws; if none of them reaches it, among all evaluated points; and if none does, anywhere.
    """
    where, weight = scene.draws.distinct
    reached = scene.draws.pool.reached[:, 0]
    if reached[where].any():
        return where[reached[where]], weight[reached[where]], True
    if reached.any():
        return np.flatnonzero(reached), np.full(int(reached.sum()), 1.0), True
    return where, weight, False
