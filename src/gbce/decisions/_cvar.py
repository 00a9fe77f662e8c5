"""Races: which of many candidates has the least tail of losses, with most copies for those that may win.

An even grid asks as many perturbed copies of the worst candidate as of the best. A race begins with a few copies of
all, drops the worse part, and goes on with more copies of the rest (successive halving; Karnin, Koren and Somekh,
2013). All candidates meet the same perturbations, so that a comparison is not blurred by the noise itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from gbce._numerics import SHARE_ROUNDING, first_of_least
from gbce._validation import is_count, require_counts, require_finite
from gbce.base import Array, Choice, Rule, Target
from gbce.budget import BudgetSpentError
from gbce.decisions._mode import MAP
from gbce.decisions._point_estimates import Mean
from gbce.decisions._risk import (
    UnderNoise,
    count_affordable,
    pick_draws,
    propose_around,
    require_across,
    require_switch,
    tail_mean,
)
from gbce.draws import Scene
from gbce.metrics import Noise, require_noise
from gbce.posterior import GibbsPosterior
from gbce.space import Space

__all__ = ["CVaR", "Losses", "Race", "Round", "Tail", "paper_rules", "plan_race", "rows_of"]

# --- races -----------------------------------------------------------------------------------------------------------

# How a race spends rows. Of the cases of benchmarks/races.py a forest in 2-D decides, with a wish for one value: its
# best region holds four draws of 800, with losses of up to 0.9 without noise. Where a quarter went on after the first
# round, not a half, where there were two copies in it, not three, or where a wider tail was compared while copies were
# few, the chosen point was worse than the even grid's. In the other cases all of this made no difference. With wishes
# that end on one side only, where what lies deeper inside is safer, one copy beside the loss without noise was enough.
_FIRST_COPIES = 3  # of every candidate; then twice as many in each round
_FIRST_COPIES_ONE_SIDED = 1
_FIRST_KEPT, _KEPT = 0.5, 0.4  # shares that go on after the first round and after later ones
_FINALISTS = 4  # candidates that are compared under the most copies
_FINAL_COPIES = 4  # times n_perturb, for the finalists
# A candidate that is so many standard errors of the paired difference behind the leader is dropped whatever its place.
# It is asked once there are so many copies: the error of a tail of fewer is itself not known well.
_CLEARLY_WORSE, _ENOUGH_COPIES = 3.0, 32

Losses = Array  # (k, n, K): candidates, copies, and models (one if they are combined)


class Round(NamedTuple):
    """How many copies each candidate has by the end of a round, and how many candidates are kept then."""

    copies: int
    kept: int


def plan_race(n: int, n_perturb: int, *, one_sided: bool = False, final: int = _FINAL_COPIES) -> list[Round]:
    """Return the rounds of a race between ``n`` candidates.

    The finalists are compared under ``n_perturb`` copies, which drops those that are far behind, and then under
    ``final`` times as many. One candidate needs no race. It begins with fewer copies where the wish ends on one side
    only.

    Examples
    --------
    >>> plan_race(800, 64)[0], plan_race(800, 64)[-2:]
    (Round(copies=3, kept=400), [Round(copies=64, kept=4), Round(copies=256, kept=1)])
    """
    rounds: list[Round] = []
    first = _FIRST_COPIES_ONE_SIDED if one_sided else _FIRST_COPIES
    left, copies, share = n, min(first, n_perturb), _FIRST_KEPT
    while left > _FINALISTS:
        left = max(math.ceil(share * left), _FINALISTS) if copies < n_perturb else _FINALISTS
        rounds.append(Round(copies, left))
        copies, share = min(2 * copies, n_perturb), _KEPT
    if left > 1 and final > 1 and (not rounds or rounds[-1].copies < n_perturb):
        rounds.append(Round(n_perturb, left))
    if rounds and final == 1 and rounds[-1].copies == n_perturb:
        rounds[-1] = Round(n_perturb, 1)
    elif left > 1:
        rounds.append(Round(final * n_perturb, 1))
    return rounds


def rows_of(rounds: list[Round], n: int) -> int:
    """Return how many copies a race between ``n`` candidates asks about, at most.

    Examples
    --------
    >>> rows_of(plan_race(800, 64), 800)
    6896
    """
    rows = had = 0
    for copies, kept in rounds:
        rows, had, n = rows + n * (copies - had), copies, kept
    return rows


@dataclass(frozen=True)
class Tail:
    """The upper tail of losses, over copies and models.

    Parameters
    ----------
    tau : float
        The upper ``1 - tau`` share counts.
    weights : array of shape (K,)
        Of the models; one if they are combined.
    """

    tau: float
    weights: Array

    def mean(self, loss: Losses) -> Array:
        """Return the mean loss in the tail ``(k,)``; of few copies, that is the greatest loss."""
        k, n, _ = loss.shape
        return tail_mean(loss.reshape(k, -1), self.tau, np.tile(self.weights, n) / n)

    def behind(self, loss: Losses, leader: int) -> tuple[Array, Array]:
        """Return how much greater each tail mean is than the leader's ``(k,)``, and the standard error of that.

        A copy counts with its share in the tail mean: the quantile, and what a loss exceeds it by over ``1 - tau``
        (Rockafellar and Uryasev, 2000). What is infinite for one of the two has no error.
        """
        k, n, _ = loss.shape
        tau, mean = self.tau, self.mean(loss)
        flat, weights = loss.reshape(k, -1), np.tile(self.weights, n) / n
        order = np.argsort(flat, axis=1, kind="stable")
        place = (np.cumsum(weights[order], axis=1) < tau * weights.sum() - SHARE_ROUNDING).sum(axis=1)
        at = np.take_along_axis(order, np.minimum(place, flat.shape[1] - 1)[:, None], axis=1)
        quantile = np.take_along_axis(flat, at, axis=1)[:, :, None]
        with np.errstate(invalid="ignore", over="ignore"):
            part = quantile[:, 0] + np.maximum(loss - quantile, 0.0) @ self.weights / (1.0 - tau)
            gap, paired = mean - mean[leader], part - part[leader]
            error = paired.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.full(k, np.inf)
        return np.where(np.isnan(gap), 0.0, gap), np.where(np.isnan(error), 0.0, error)


@dataclass(frozen=True)
class Race:
    """A race between candidates.

    Parameters
    ----------
    look : function of positions ``(k,)`` and a slice of copies
        Asks the model and returns losses ``(k, n, K)``.
    tail : Tail
        What is compared.
    distance : array of shape (n,)
        From the row: the smaller one wins where tails are equal.
    known : array of shape (n, 1, K), optional
        Losses without noise, if they are known. In the first round they are one more copy, which costs nothing.
    """

    look: Callable[[Array, slice], Losses]
    tail: Tail
    distance: Array
    known: Losses | None = None

    def run(self, rounds: list[Round]) -> list[Array]:
        """Return the positions of those that were left after each round, the best first; before, those of all.

        Where the budget ends a race early, the last round that was finished is the last one.
        """
        left = np.arange(len(self.distance))
        history = [left]
        loss = np.zeros((len(left), 0, len(self.tail.weights)))
        for number, (copies, kept) in enumerate(rounds):
            try:
                more = self.look(left, slice(loss.shape[1], copies))
            except BudgetSpentError:
                if number == 0:
                    raise
                break
            loss = np.concatenate([loss, more], axis=1)
            seen = loss if number or self.known is None else np.concatenate([loss, self.known], axis=1)
            going = self._rank(seen, left, kept, last=number == len(rounds) - 1)
            left, loss = left[going], loss[going]
            history.append(left)
            if len(left) == 1:
                break
        return history

    def _rank(self, loss: Losses, left: Array, kept: int, *, last: bool) -> Array:
        """Return which of those that are left go on, the best first."""
        score, distance = self.tail.mean(loss), self.distance[left]
        order = np.lexsort((distance, score))
        if loss.shape[1] >= _ENOUGH_COPIES:
            gap, error = self.tail.behind(loss, int(first_of_least(score, distance)))
            order = order[(gap <= _CLEARLY_WORSE * error)[order]]
        if len(order) <= kept or last:
            return order[:kept]
        # Equal so far does not mean equal: nearer ones of those that had no loss under a few copies are more likely
        # to have one under more. So of equals on the edge some go on that are near and some that are far.
        edge = score[order[kept - 1]]
        sure, equal = order[score[order] < edge], order[score[order] == edge]
        some = np.arange(kept - len(sure)) * len(equal) // (kept - len(sure))
        return np.concatenate([sure, equal[some]])


# --- the least tail of losses under execution noise ------------------------------------------------------------------

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


# --- the paper's own decision rules, as Section 3.1.2 sets them up ---------------------------------------------------

_PLANE = 2  # features, up to which the paper trusts a kernel estimate of the density
_NEIGHBOURS = 40  # of the score that stands for the density beyond
_TAU, _PERTURBED = 0.9, 64  # of CVaR-CE
_CANDIDATES_IN_THE_PLANE, _CANDIDATES_BEYOND = 800, 1_200  # of CVaR-CE


def paper_rules(
    d: int, *, tau: float = _TAU, n_perturb: int = _PERTURBED, max_candidates: int | None = None
) -> tuple[Rule, ...]:
    """Return the decisions of the paper: Mean, MAP and CVaR.

    MAP is the draw of the highest estimated density: by a Gaussian kernel in two features or fewer, by the distance to
    the 40th neighbour in more. CVaR looks at draws only, all under the same noise: 800 in two features, 1,200 in more.

    Parameters
    ----------
    d : int
        Number of features.
    tau : float
        Level of CVaR.
    n_perturb : int
        Perturbed copies of each of its candidates.
    max_candidates : int, optional
        Draws that it looks at; the paper's number for ``d`` when left out (400 in its real data, with 32 copies).

    Returns
    -------
    tuple of Rule
        Mean, MAP, CVaR.

    Examples
    --------
    >>> import gbce
    >>> [rule.label for rule in gbce.paper_rules(2)][:2]
    ['Mean', 'MAP(method=kde)']
    >>> [rule.label for rule in gbce.paper_rules(10)][:2]
    ['Mean', 'MAP(method=knn)']
    """
    if not is_count(d):
        raise ValueError(f"paper_rules: d must be a number of features of at least 1, not {d!r}")
    few = d <= _PLANE
    mode = MAP(method="kde") if few else MAP(method="knn", k=_NEIGHBOURS)
    most = (_CANDIDATES_IN_THE_PLANE if few else _CANDIDATES_BEYOND) if max_candidates is None else max_candidates
    return Mean(), mode, CVaR(tau, n_perturb=n_perturb, max_candidates=most, race=False, refine=False)
