"""The nearest point that keeps its promise under execution noise."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._nearest import reaching_rows
from gbce.decisions._risk import UnderNoise, count_affordable, pick_draws, require_across, require_switch
from gbce.decisions._screening import TRIAL_COPIES, Promise, PromiseSearch, accepts, fresh_success
from gbce.decisions._structure import Reaching
from gbce.draws import Scene
from gbce.metrics import Noise, require_noise
from gbce.space import Space

__all__ = ["ChanceConstrained"]

_ROUNDS_NEARER = 4  # of the search towards the row, by hand


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
    under noise that had no part in choosing it. Where no draw reaches the target as it is, other points that do are the
    candidates: evaluated ones, decisions of rules before this one, training rows that the row can become. Where there
    are none of these either, all draws are, and the note says that, too.

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
        elsewhere = candidates[:0] if reaching else _find_elsewhere(scene, noisy, most)
        if len(elsewhere):
            return self._choose_among(scene, noisy, elsewhere)
        return self._choose_among(scene, noisy, scene.draws.pool.x[candidates], candidates, reaching=reaching)

    def _choose_among(
        self, scene: Scene, noisy: UnderNoise, x: Array, drawn: Array | None = None, *, reaching: bool = True
    ) -> Choice:
        """Choose among points ``(k, d)``, the nearest first; ``drawn`` ``(k,)`` are their places in the pool."""
        promise = Promise(self.probability, self.confidence, self.n_perturb, self.n_confirm)
        search = PromiseSearch(noisy, promise, x, scene.distance)
        if not reaching:
            search.glance_at_all()

        def take(i: int, note: str) -> Choice:
            return Choice(x[[i]], note=note) if drawn is None else scene.pick(drawn[[i]], note)

        try:
            held = search.find_holding() if reaching else None
            if held is not None:
                nearer = search.draw_nearer(search.x[held], _ROUNDS_NEARER) if self.refine else None
                note = self._proof_note(search.trials.enough)
                return take(held, note) if nearer is None else Choice(nearer[None, :], note=note)
            winner, accepted = search.looks.find_fallback(reaching)
            fresh, _ = fresh_success(noisy, search.x[winner], promise.trial_copies)
        except BudgetSpentError:
            if drawn is None or not search.looks.share.max() > 0:  # a point beside the pool would take another row
                raise
            winner = int(search.looks.share.argmax())
            return take(winner, self._spent_note(float(search.looks.share[winner])))
        what = "draws" if drawn is not None else "known points"
        return take(winner, self._shortfall_note(len(x), what, accepted, fresh))

    def _spent_note(self, share: float) -> str:
        """Say that the budget ended before a candidate could be tested."""
        return (
            f"{self.label}: the budget ended before a draw could be shown to keep the promise; the one that succeeded "
            f"most often so far was taken, with a share of {share:.2f}, which is too good because it was chosen by it."
        )

    def _proof_note(self, shown: float) -> str:
        """Say so where a trial without a failure shows less than what is promised."""
        if shown >= self.probability:
            return ""
        return (
            f"{self.label}: {TRIAL_COPIES * self.n_confirm:,} copies without a failure show a probability of "
            f"{shown:.4f}; a larger n_confirm would show more."
        )

    def _shortfall_note(self, n: int, what: str, reaching: bool, share: float) -> str:
        """Say that no candidate kept the promise, and what the chosen one does."""
        where = "" if self.across == "first" else " and across models"
        if not reaching:
            return (
                f"{self.label}: none of {n} {what} reaches the target as it is; the one that does so most often under "
                f"noise{where} was taken, with probability {share:.2f}."
            )
        return (
            f"{self.label}: none of {n} {what} that reach the target still does so under noise{where} with probability "
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


def _find_elsewhere(scene: Scene, noisy: UnderNoise, most: int) -> Array:
    """Return known points ``(k, d)`` beside the pool that reach by the model's own decision, the nearest first."""
    known = scene.draws.known
    seen = known.x[known.reached[:, 0] & np.isfinite(known.log_correction)]
    rows, _ = reaching_rows(scene, Reaching(scene.query.target), len(scene.space))
    x = np.vstack([seen, rows, *(choice.x for _, choice in scene.earlier)])
    x = np.unique(x[scene.space.admissible(x, scene.x0)], axis=0)
    x = x[np.argsort(scene.distance(x), kind="stable")[:most]]
    return x[accepts(noisy, x)]
