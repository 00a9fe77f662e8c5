"""Choose the nearest point that reaches the target with a given probability under execution noise."""

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

_ROUNDS_NEARER = 4  # of the search towards the row; chosen by hand


@dataclass(frozen=True)
class ChanceConstrained(Rule):
    """The nearest point that reaches the target and still does so with the given probability under noise.

    Candidates are draws that reach the target by the first model's own decision, tested from the nearest outwards. One
    that is promising under a few perturbations and under many is tested under fresh ones, because the best of several
    noisy estimates is biased upwards: the lower confidence bound of its success probability must be at least the given
    one. From the first draw that holds, the search continues towards the row.

    Parameters
    ----------
    probability : float
        Required probability of reaching the target under noise.
    noise : number, sequence, mapping or function, optional
        Execution noise, as in :class:`CVaR`.
    n_perturb : int
        Perturbed copies of each candidate for screening.
    n_confirm : int
        Further copies of each promising one; each trial draws four times as many fresh ones.
    max_candidates : int
        Largest number of distinct draws that are tried, picked at random.
    across : {"first", "models"}
        Whether only the first model counts, or all models on every copy, weighted.
    confidence : float
        Confidence that the chosen point keeps the promise, over all trials together.
    refine : bool
        Whether to shrink changes towards the row as long as the promise holds, for a few thousand model rows.
        Otherwise the choice is a draw.

    Notes
    -----
    Nearest by Euclidean distance in units of each feature's scale. If no candidate holds, the one with the highest
    success rate is chosen, and a note says so and gives its success rate under fresh noise. If no draw reaches the
    target without noise, other points that do are the candidates: evaluated points, decisions of earlier rules,
    admissible training rows. If there are none, all draws are candidates, and the note says that, too.

    A probability of 1, or one so close to 1 that a trial cannot show it, is taken to hold if all copies succeed, and a
    note says what that shows.

    Examples
    --------
    >>> ChanceConstrained(0.8).label
    'ChanceConstrained(probability=0.8)'
    """

    asks_model: ClassVar[bool] = True
    distance: ClassVar[str] = "l2"

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
        """Choose the nearest candidate that holds, or a point between it and the row."""
        posterior = scene.model(self)
        where, weight, reaching = _find_candidates(scene)
        # one screening each; as much again is left for confirmation
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
        """Choose among points ``(k, d)``, the nearest first; ``drawn`` ``(k,)`` are their positions in the pool."""
        promise = Promise(self.probability, self.confidence, self.n_perturb, self.n_confirm)
        search = PromiseSearch(noisy, promise, x, scene.distance)
        if not reaching:
            search.screen_all()

        def take(i: int, note: str) -> Choice:
            return Choice(x[[i]], note=note) if drawn is None else scene.pick(drawn[[i]], note)

        try:
            held = search.find_holding() if reaching else None
            if held is not None:
                nearer = search.shrink_changes(search.x[held], _ROUNDS_NEARER) if self.refine else None
                note = self._describe_bound(search.trials.enough)
                return take(held, note) if nearer is None else Choice(nearer[None, :], note=note)
            winner, accepted = search.screening.find_fallback(reaching)
            fresh, _ = fresh_success(noisy, search.x[winner], promise.trial_copies)
        except BudgetSpentError:
            if drawn is None or not search.screening.share.max() > 0:  # a point outside the pool would need another row
                raise
            winner = int(search.screening.share.argmax())
            return take(winner, self._describe_spent(float(search.screening.share[winner])))
        what = "draws" if drawn is not None else "known points"
        return take(winner, self._describe_shortfall(len(x), what, accepted, fresh))

    def _describe_spent(self, share: float) -> str:
        """Return a note that the budget ended before a candidate was tested."""
        return (
            f"{self.label}: the budget ran out before a draw was confirmed; the one with the highest success rate so "
            f"far was taken ({share:.2f}, an estimate that this selection biases upwards)."
        )

    def _describe_bound(self, shown: float) -> str:
        """Return a note if a trial without a failure shows less than the required probability."""
        if shown >= self.probability:
            return ""
        return (
            f"{self.label}: {TRIAL_COPIES * self.n_confirm:,} copies without a failure show a probability of "
            f"{shown:.4f}; a larger n_confirm would show more."
        )

    def _describe_shortfall(self, n: int, what: str, reaching: bool, share: float) -> str:
        """Return a note that no candidate held, with the success probability of the chosen one."""
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
    """Return pool positions, weights and whether they reach: draws that do, else all points that do, else draws."""
    where, weight = scene.draws.distinct
    reached = scene.draws.pool.reached[:, 0]
    if reached[where].any():
        return where[reached[where]], weight[reached[where]], True
    if reached.any():
        return np.flatnonzero(reached), np.full(int(reached.sum()), 1.0), True
    return where, weight, False


def _find_elsewhere(scene: Scene, noisy: UnderNoise, most: int) -> Array:
    """Return known points ``(k, d)`` outside the pool that the model accepts, the nearest first."""
    known = scene.draws.known
    seen = known.x[known.reached[:, 0] & np.isfinite(known.log_correction)]
    rows, _ = reaching_rows(scene, Reaching(scene.query.target), len(scene.space))
    x = np.vstack([seen, rows, *(choice.x for _, choice in scene.earlier)])
    x = np.unique(x[scene.space.admissible(x, scene.x0)], axis=0)
    x = x[np.argsort(scene.distance(x), kind="stable")[:most]]
    return x[accepts(noisy, x)]
