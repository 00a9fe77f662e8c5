"""The nearest point that keeps its promise under execution noise."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._beyond import propose_nearer, thin_out
from gbce.decisions._looks import Looks, accepts, fresh_success
from gbce.decisions._risk import UnderNoise, count_affordable, pick_draws, require_across, require_switch
from gbce.decisions._trials import Trials
from gbce.draws import Scene
from gbce.metrics import Noise, require_noise
from gbce.space import Space

__all__ = ["ChanceConstrained"]

# How model rows are spent. All of these were chosen by hand; the trials keep the promise, whatever these are.
_FIRST_BLOCK = 50  # candidates in the first call; each later call takes as many as all before it and this many more
_TRIAL_COPIES = 4  # times n_confirm: with fewer copies a candidate must exceed the promise by more to pass
# Of the search towards the row: rounds, points in each, how many of these get all n_perturb copies, and how many then a
# part of n_confirm. Without the last look the nearest of those with some luck was taken, and every other search ended
# in nothing. At most so many of the points that it went through are tried, the nearest first.
_TRIED = 2
_SEARCHES, _PROPOSED, _LOOKED_AT, _CONFIRMED, _PART = 4, 16, 6, 3, 0.5


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
        looks = Looks.of(noisy, scene.draws.pool.x[candidates], self.n_perturb, self.n_confirm)
        trials = self._trials(noisy, looks.x)
        for block in _blocks(len(candidates)):
            hopeful = looks.glance(block, trials.worth)
            held = looks.find_holding(hopeful, trials) if reaching else None
            if held is not None:
                nearer = self._draw_nearer(noisy, trials, looks.x[held]) if self.refine else None
                note = self._proof_note(trials.enough)
                return scene.pick(candidates[[held]], note) if nearer is None else Choice(nearer[None, :], note=note)
        winner, accepted = looks.find_fallback(reaching)
        fresh, _ = fresh_success(noisy, looks.x[winner], _TRIAL_COPIES * self.n_confirm)
        return scene.pick(candidates[[winner]], self._shortfall_note(len(candidates), accepted, fresh))

    def _trials(self, noisy: UnderNoise, x: Array, earlier: Trials | None = None) -> Trials:
        """Return trials of points ``(k, d)``, which go on where earlier ones ended: their risk is spent."""
        return Trials(
            lambda which, copies: fresh_success(noisy, x[which], copies),
            self.probability,
            1.0 - self.confidence,
            _TRIAL_COPIES * self.n_confirm,
            done=0 if earlier is None else earlier.done,
        )

    def _draw_nearer(self, noisy: UnderNoise, trials: Trials, x: Array) -> Array | None:
        """Return a point nearer to the row than ``x`` ``(d,)``, which holds, that holds as well, if one is found."""
        n_sure = max(int(_PART * self.n_confirm), 1)
        most = _SEARCHES * ((_PROPOSED + _LOOKED_AT) * self.n_perturb + _CONFIRMED * n_sure)
        most += _TRIAL_COPIES * self.n_confirm
        if not trials.possible or noisy.posterior.affords(most) < most:
            return None
        way, shares = [x], [1.0]
        try:
            while len(way) <= _SEARCHES:
                near, share = self._step_nearer(noisy, trials.worth, way[-1], n_sure)
                if near is None:
                    break
                way.append(near)
                shares.append(share)
            last = np.arange(1, len(way))[::-1][:_TRIED]  # without the start
            held = self._trials(noisy, np.array(way), trials).first_to_hold(last, np.array(shares)[last])
        except BudgetSpentError:
            return None
        return None if held is None else way[held]

    def _step_nearer(self, noisy: UnderNoise, worth: float, x: Array, n_sure: int) -> tuple[Array | None, float]:
        """Return the nearest of some points on the way from ``x`` ``(d,)`` to the row that seems to hold; its share."""
        near = propose_nearer(noisy.scene, x, _PROPOSED)
        near = near[accepts(noisy, near)]
        if len(near) == 0:
            return None, 0.0
        looks = Looks.of(noisy, near, self.n_perturb, n_sure)
        hopeful = thin_out(looks.glance(slice(0, len(near)), worth), _LOOKED_AT)  # the nearest few had most luck so far
        looks.look(hopeful)
        hopeful = hopeful[looks.share[hopeful] >= worth][:_CONFIRMED]
        share = noisy.success(near[hopeful], looks.many) if len(hopeful) else np.zeros(0)
        good = np.flatnonzero(share >= worth)
        return (near[hopeful[good[0]]], float(share[good[0]])) if len(good) else (None, 0.0)

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


def _blocks(n: int) -> list[slice]:
    """Return slices of ``n`` candidates, each with as many as all before it and a few more."""
    ends = [0]
    while ends[-1] < n:
        ends.append(min(2 * ends[-1] + _FIRST_BLOCK, n))
    return [slice(start, stop) for start, stop in pairwise(ends)]
