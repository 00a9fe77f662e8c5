"""The least tail of losses under execution noise: CVaR-CE (Section 2.5.1 c of the paper)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule, Target
from gbce.budget import BudgetSpentError
from gbce.decisions._beyond import propose_around
from gbce.decisions._races import Losses, Race, Round, Tail, plan_race, rows_of
from gbce.decisions._risk import UnderNoise, count_affordable, pick_draws, require_across, require_switch, tail_mean
from gbce.draws import Scene
from gbce.metrics import Noise, require_noise
from gbce.posterior import GibbsPosterior
from gbce.space import Space

__all__ = ["CVaR"]

# How the search beyond the draws spends rows. Chosen by hand: benchmarks/races.py has what it gains for them.
_SEARCHES = 3  # rounds of proposals around the best point so far
_PROPOSED = 24  # points in each
_SEARCH_RACE = ((0.125, 8), (0.5, 2), (1.0, 1))  # between them: copies over n_perturb, and how many go on
_FIELD = 12  # of the candidates that got far in the race give the search its steps, at least
_SHORTER = 0.5  # steps after a round that found nothing better
_FRESH_COPIES = 4  # times n_perturb, under which what was found is compared with the best draw
_SURE = 1.0  # standard errors of the paired difference that it must be better by


@dataclass(frozen=True)
class CVaR(Rule):
    """The point whose loss under execution noise is least in its worst cases: a draw, or one near it that is better.

    For each candidate the mean of the losses at or above their ``tau``-quantile is taken over perturbed copies, the
    same perturbations for every candidate. With several models the loss is the one their combination stands for,
    ``potential / eta``, or every model's own.

    Parameters
    ----------
    tau : float
        The upper ``1 - tau`` share counts.
    noise : number, sequence, mapping or function, optional
        Execution noise D_r, see :class:`gbce.Evaluation`, whose noise is used when left open.
    n_perturb : int
        Perturbed copies of each candidate; in a race, of those that get far, and four times as many of the last four.
    max_candidates : int
        Distinct draws that are tried, picked at random.
    across : {"combined", "models"}
        Over what the worst cases are taken: over perturbed copies, with the models combined to one loss; or over
        perturbed copies and models jointly, each model with its weight.
    race : bool
        Whether candidates drop out as soon as they look worse than others, at a seventh of the model rows or less.
        Otherwise all of them have ``n_perturb`` copies.
    refine : bool
        Whether to look beyond the draws, around the best of them, for some 1,800 model rows at ``n_perturb=64``.
        What is found is chosen if it is better under noise that had no part in finding it, too.

    Notes
    -----
    The paper chooses among draws, by an even grid: ``race=False, refine=False``.

    A race may choose another draw than the grid with the same seed would: seldom where one draw is far better than all
    others, nearly always where many are about as good. Both choose by an estimate, the race by a more precise one
    between its finalists. ``benchmarks/races.py`` judges both under fresh noise, on the cases that the race was tuned
    on.

    Examples
    --------
    >>> CVaR(tau=0.95).label
    'CVaR(tau=0.95)'
    """

    asks_model: ClassVar[bool] = True

    tau: float = 0.9
    noise: Noise | None = None
    n_perturb: int = 64
    max_candidates: int = 800
    across: Literal["combined", "models"] = "combined"
    race: bool = True
    refine: bool = True

    def __post_init__(self) -> None:
        require_across(self, "combined")
        require_finite(self, "tau")
        if not 0 <= self.tau < 1:
            raise ValueError(f"CVaR: tau must be at least 0 and below 1, not {self.tau!r}")
        require_counts(self, "n_perturb", "max_candidates")
        require_switch(self, "race", "refine")

    def check_space(self, space: Space) -> None:
        """Refuse noise that does not fit the features."""
        require_noise(self.noise, space)

    def choose(self, scene: Scene) -> Choice:
        """Choose; ties go to the smaller distance from the row."""
        noisy = UnderNoise(scene, scene.model(self), self.noise)
        field = self._race(noisy) if self.race else self._compare_all(noisy)
        better = self._look_beyond(noisy, scene.draws.pool.x[field]) if self.refine else None
        return scene.pick(field[:1]) if better is None else Choice(better[None, :])

    def _compare_all(self, noisy: UnderNoise) -> Array:
        """Return the positions in the pool of the best candidates, the best first, by an even grid."""
        scene = noisy.scene
        candidates = pick_draws(scene, count_affordable(noisy.posterior, self.max_candidates, self.n_perturb))
        x = scene.draws.pool.x[candidates]
        loss = self._combine(scene, noisy.evaluate(x, noisy.draw_offsets(self.n_perturb)).loss)
        if self.across == "models":
            weights = np.tile(scene.mixture.weights, self.n_perturb)
            risk = tail_mean(loss.reshape(len(x), -1), self.tau, weights / weights.sum())
        else:
            risk = tail_mean(loss[:, :, 0], self.tau)
        return candidates[np.lexsort((scene.distance(x), risk))[:_FIELD]]

    def _race(self, noisy: UnderNoise) -> Array:
        """Return the positions in the pool of the winner of a race and of others that got far."""
        scene, pool = noisy.scene, noisy.scene.draws.pool
        n, rounds = self._affordable_race(noisy.posterior, min(self.max_candidates, len(scene.draws.distinct[0])))
        candidates = pick_draws(scene, n)
        known = self._combine(scene, pool.loss[candidates][:, None, :])
        left = self._between(noisy, pool.x[candidates], rounds, known).run(rounds)
        field = next(some for some in reversed(left) if len(some) >= min(_FIELD, n))
        return candidates[list(dict.fromkeys([*left[-1].tolist(), *field.tolist()]))]

    def _affordable_race(self, posterior: GibbsPosterior, n: int) -> tuple[int, list[Round]]:
        """Return how many candidates the budget allows, up to ``n``, and their race, shorter if it is small."""
        one_sided = _is_one_sided(posterior.target)
        rounds = plan_race(n, self.n_perturb, one_sided=one_sided)
        rows = posterior.affords(rows_of(rounds, n))
        if rows >= rows_of(rounds, n):
            return n, rounds
        count_affordable(posterior, 1, self.n_perturb)
        fewer, more = 1, n  # the race of the one is affordable, that of the other may not be
        while more - fewer > 1:
            half = (fewer + more) // 2
            affordable = rows_of(plan_race(half, self.n_perturb, one_sided=one_sided, final=1), half) <= rows
            fewer, more = (half, more) if affordable else (fewer, half)
        return fewer, plan_race(fewer, self.n_perturb, one_sided=one_sided, final=1)

    def _between(self, noisy: UnderNoise, x: Array, rounds: list[Round], known: Losses | None = None) -> Race:
        """Return the race between points ``(k, d)`` under offsets of its own."""
        shifts = noisy.draw_offsets(rounds[-1].copies if rounds else 0)

        def look(which: Array, copies: slice) -> Losses:
            return self._combine(noisy.scene, noisy.evaluate(x[which], shifts[copies]).loss)

        return Race(look, self._tail(noisy.scene), noisy.scene.distance(x), known)

    def _look_beyond(self, noisy: UnderNoise, field: Array) -> Array | None:
        """Return a point ``(d,)`` that is better than the first of the field ``(m, d)``, if one is found."""
        rounds = [Round(max(int(part * self.n_perturb), 1), kept) for part, kept in _SEARCH_RACE]
        fresh = _FRESH_COPIES * self.n_perturb
        rows = _SEARCHES * rows_of(rounds, _PROPOSED + 1) + 2 * fresh
        if noisy.posterior.affords(rows) < rows:
            return None
        best, size = field[0], 1.0
        try:
            for _ in range(_SEARCHES):
                near = propose_around(noisy.scene, noisy.posterior, best, field, _PROPOSED, size)
                x = np.vstack([best, near])
                winner = self._between(noisy, x, rounds).run(rounds)[-1][0] if len(near) else 0
                best, size = x[winner], size if winner else _SHORTER * size
            return best if self._is_better(noisy, best, field[0], fresh) else None
        except BudgetSpentError:
            return None

    def _is_better(self, noisy: UnderNoise, one: Array, other: Array, copies: int) -> bool:
        """Whether a point has a clearly smaller tail than another under fresh noise, or the same and is nearer."""
        both = np.vstack([one, other])
        if not noisy.scene.space.changed(both[:1], other).any():
            return False
        loss = self._combine(noisy.scene, noisy.evaluate(both, noisy.draw_offsets(copies)).loss)
        (gap, _), (error, _) = self._tail(noisy.scene).behind(loss, 1)
        nearer, near = noisy.scene.distance(both)
        return bool(gap < -_SURE * error or (gap == 0 and nearer < near))

    def _tail(self, scene: Scene) -> Tail:
        return Tail(self.tau, scene.mixture.weights if self.across == "models" else np.ones(1))

    def _combine(self, scene: Scene, loss: Losses) -> Losses:
        """Return losses ``(k, n, K)`` as worst cases are taken over them: of all models, or of their combination."""
        if self.across == "models":
            return loss
        k, n, _ = loss.shape
        return scene.mixture.effective_loss(loss.reshape(k * n, -1)).reshape(k, n, 1)


def _is_one_sided(target: Target) -> bool:
    """Whether outputs that meet the wish have no end on one side."""
    try:
        return bool(np.isinf(target.accepted()).any())
    except TypeError:  # no single output tells
        return False
