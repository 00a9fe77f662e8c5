"""Choose the point of least conditional value at risk (CVaR) of the loss under execution noise.

An even grid spends as many perturbed copies on the worst candidate as on the best. A race starts with a few copies of
all, drops the worse part, and continues with more copies of the rest (successive halving; Karnin, Koren and Somekh,
2013). All candidates share the same perturbations, so that comparisons are paired.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from gbce._numerics import WIDE_ROUNDING, first_of_least
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


@dataclass(frozen=True)
class _RacePlan:
    """How a race spends rows, measured by benchmarks/races.py."""

    # The hardest case of benchmarks/races.py is a forest in 2-D with a single target value: its best region holds 4 of
    # 800 draws, with losses of up to 0.9 without noise. With a quarter kept after the first round instead of a half,
    # two copies in it instead of three, or a wider tail compared while copies are few, the chosen point was worse than
    # the even grid's. In the other cases none of this mattered. For one-sided targets, where points deeper inside are
    # safer, one copy besides the loss without noise was enough.
    first_copies: int = 3  # of every candidate; doubled in each round
    first_copies_one_sided: int = 1
    first_kept: float = 0.5  # shares kept after the first round and after later ones
    kept: float = 0.4
    finalists: int = 4  # candidates compared under the most copies
    final_copies: int = 4  # times n_perturb, for the finalists
    # A candidate this many standard errors of the paired difference behind the leader is dropped whatever its rank,
    # once there are enough copies for the standard error of a tail mean to be reliable.
    clearly_worse: float = 3.0
    enough_copies: int = 32


_RACE_PLAN = _RacePlan()


@dataclass(frozen=True)
class _SearchPlan:
    """How the search beyond the draws spends rows; chosen by hand, benchmarks/races.py measures the gain."""

    rounds: int = 3  # rounds of proposals around the best point so far
    proposed: int = 24  # points in each
    # race between them: copies over n_perturb, and how many are kept
    race: tuple[tuple[float, int], tuple[float, int], tuple[float, int]] = ((0.125, 8), (0.5, 2), (1.0, 1))
    population: int = 12  # least number of late candidates of the race that give the search its steps
    shorter: float = 0.5  # factor of steps after a round without improvement
    fresh_copies: int = 4  # times n_perturb, for the final comparison with the best draw
    better_se: float = 1.0  # standard errors of the paired difference by which it must be better


_SEARCH_PLAN = _SearchPlan()


# The paper's choices (Section 3.1.2): a kernel density estimate in the plane, neighbours beyond; candidates of CVaR.
_PAPER_NEIGHBOURS = 40
_PAPER_CANDIDATES, _PAPER_CANDIDATES_BEYOND = 800, 1_200


# --- races -----------------------------------------------------------------------------------------------------------


Losses = Array  # (k, n, K): candidates, copies, and models (one if they are combined)


class Round(NamedTuple):
    """Copies per candidate by the end of a round, and how many candidates are kept then."""

    copies: int
    kept: int


def plan_race(n: int, n_perturb: int, *, one_sided: bool = False, final: int = _RACE_PLAN.final_copies) -> list[Round]:
    """Return the rounds of a race between ``n`` candidates.

    The finalists are compared under ``n_perturb`` copies, which drops those far behind, and then under ``final`` times
    as many. One candidate needs no race. A race for a one-sided target starts with fewer copies.
    """
    rounds: list[Round] = []
    first = _RACE_PLAN.first_copies_one_sided if one_sided else _RACE_PLAN.first_copies
    left, copies, share = n, min(first, n_perturb), _RACE_PLAN.first_kept
    while left > _RACE_PLAN.finalists:
        left = max(math.ceil(share * left), _RACE_PLAN.finalists) if copies < n_perturb else _RACE_PLAN.finalists
        rounds.append(Round(copies, left))
        copies, share = min(2 * copies, n_perturb), _RACE_PLAN.kept
    if left > 1 and final > 1 and (not rounds or rounds[-1].copies < n_perturb):
        rounds.append(Round(n_perturb, left))
    if rounds and final == 1 and rounds[-1].copies == n_perturb:
        rounds[-1] = Round(n_perturb, 1)
    elif left > 1:
        rounds.append(Round(final * n_perturb, 1))
    return rounds


def count_rows(rounds: list[Round], n: int) -> int:
    """Return the largest number of rows that a race between ``n`` candidates evaluates."""
    rows = had = 0
    for copies, kept in rounds:
        rows, had, n = rows + n * (copies - had), copies, kept
    return rows


@dataclass(frozen=True)
class Tail:
    """The upper ``1 - tau`` tail of losses over copies and models with ``weights`` ``(K,)``."""

    tau: float
    weights: Array

    def mean(self, loss: Losses) -> Array:
        """Return the mean loss in the tail ``(k,)``; with few copies, that is the largest loss."""
        k, n, _ = loss.shape
        return tail_mean(loss.reshape(k, -1), self.tau, np.tile(self.weights, n) / n)

    def compare(self, loss: Losses, leader: int) -> tuple[Array, Array]:
        """Return the excess of each tail mean over the leader's ``(k,)``, and its standard error."""
        k, n, _ = loss.shape
        tau, mean = self.tau, self.mean(loss)
        flat, weights = loss.reshape(k, -1), np.tile(self.weights, n) / n
        order = np.argsort(flat, axis=1, kind="stable")
        place = (np.cumsum(weights[order], axis=1) < tau * weights.sum() - WIDE_ROUNDING).sum(axis=1)
        at = np.take_along_axis(order, np.minimum(place, flat.shape[1] - 1)[:, None], axis=1)
        quantile = np.take_along_axis(flat, at, axis=1)[:, :, None]
        with np.errstate(invalid="ignore", over="ignore"):
            part = quantile[:, 0] + np.maximum(loss - quantile, 0.0) @ self.weights / (1.0 - tau)
            excess, paired = mean - mean[leader], part - part[leader]
            error = paired.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.full(k, np.inf)
        return np.where(np.isnan(excess), 0.0, excess), np.where(np.isnan(error), 0.0, error)


@dataclass(frozen=True)
class Race:
    """A race between ``n`` candidates by the tail mean of losses; ties go to the smaller ``distance`` ``(n,)``."""

    evaluate: Callable[[Array, slice], Losses]
    tail: Tail
    distance: Array
    known: Losses | None = None  # without noise (n, 1, K): one more copy in the first round

    def run(self, rounds: list[Round]) -> list[Array]:
        """Return the positions of all candidates, then of those left after each affordable round, the best first."""
        left = np.arange(len(self.distance))
        history = [left]
        loss = np.zeros((len(left), 0, len(self.tail.weights)))
        for number, (copies, kept) in enumerate(rounds):
            try:
                more = self.evaluate(left, slice(loss.shape[1], copies))
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
        """Return which of the remaining candidates are kept, the best first."""
        score, distance = self.tail.mean(loss), self.distance[left]
        order = np.lexsort((distance, score))
        if loss.shape[1] >= _RACE_PLAN.enough_copies:
            excess, error = self.tail.compare(loss, int(first_of_least(score, distance)))
            order = order[(excess <= _RACE_PLAN.clearly_worse * error)[order]]
        if len(order) <= kept or last:
            return order[:kept]
        # A tie under few copies is no tie: of the candidates without a loss so far, those near the row are more likely
        # to have one under more copies. So ties at the cut keep both near and far candidates.
        edge = score[order[kept - 1]]
        sure, equal = order[score[order] < edge], order[score[order] == edge]
        some = np.arange(kept - len(sure)) * len(equal) // (kept - len(sure))
        return np.concatenate([sure, equal[some]])


# --- rule ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CVaR(Rule):
    """The point of least conditional value at risk of the loss under execution noise: a draw, or a point near one.

    The risk of a candidate is the mean of its losses at or above their ``tau``-quantile over perturbed copies, with the
    same perturbations for every candidate. With several models the loss is that of their combination,
    ``potential / eta``, or every model's own.

    Parameters
    ----------
    tau : float
        Level: the upper ``1 - tau`` share of losses counts.
    noise : number, sequence, mapping or function, optional
        Execution noise D_r, see :class:`gbce.Evaluation`, whose noise is the default.
    n_perturb : int
        Perturbed copies of each candidate; in a race, of the late candidates, and four times as many of the last four.
    max_candidates : int
        Largest number of distinct draws that are tried, picked at random.
    across : {"combined", "models"}
        Whether the tail is taken over perturbed copies, with the models combined to one loss, or over perturbed copies
        and models jointly, each model with its weight.
    race : bool
        Whether candidates are dropped as soon as they are worse than others, for a seventh of the model rows or less.
        Otherwise all of them get ``n_perturb`` copies.
    refine : bool
        Whether to search beyond the draws, around the best of them, for about 1,800 model rows at ``n_perturb=64``.
        A point found is chosen only if it is also better under fresh noise.

    Notes
    -----
    The paper chooses among draws, by an even grid: ``race=False, refine=False``.

    With the same seed, a race may choose another draw than the grid: seldom if one draw is far better than all others,
    nearly always if many are about as good. Both choose by an estimate, which is more precise for the finalists of a
    race. ``benchmarks/races.py`` compares both under fresh noise, on the cases that the race was tuned on.

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
        """Choose the point of least risk; ties go to the smaller distance from the row."""
        noisy = UnderNoise(scene, scene.model(self), self.noise)
        population = self._race(noisy)
        better = self._search_beyond_draws(noisy, scene.draws.pool.x[population]) if self.refine else None
        return scene.pick(population[:1]) if better is None else Choice(better[None, :])

    def _race(self, noisy: UnderNoise) -> Array:
        """Return pool positions of the winner of a race or an even grid, and of other good candidates."""
        scene, pool = noisy.scene, noisy.scene.draws.pool
        n, rounds = self._plan_affordable_race(noisy.posterior, min(self.max_candidates, len(scene.draws.distinct[0])))
        candidates = pick_draws(scene, n)
        known = self._combine(scene, pool.loss[candidates][:, None, :]) if self.race else None
        left = self._start_race(noisy, pool.x[candidates], rounds, known).run(rounds)
        if not self.race:
            return candidates[left[-1]]
        population = next(some for some in reversed(left) if len(some) >= min(_SEARCH_PLAN.population, n))
        return candidates[list(dict.fromkeys([*left[-1].tolist(), *population.tolist()]))]

    def _plan_affordable_race(self, posterior: GibbsPosterior, n: int) -> tuple[int, list[Round]]:
        """Return how many candidates the budget allows, up to ``n``, and their race."""
        if not self.race:
            n = count_affordable(posterior, self.max_candidates, self.n_perturb)
            return n, [Round(self.n_perturb, _SEARCH_PLAN.population)]
        one_sided = _is_one_sided(posterior.target)
        rounds = plan_race(n, self.n_perturb, one_sided=one_sided)
        rows = posterior.affords(count_rows(rounds, n))
        if rows >= count_rows(rounds, n):
            return n, rounds
        count_affordable(posterior, 1, self.n_perturb)
        fewer, more = 1, n  # bisection: the first is affordable, the second may not be
        while more - fewer > 1:
            half = (fewer + more) // 2
            affordable = count_rows(plan_race(half, self.n_perturb, one_sided=one_sided, final=1), half) <= rows
            fewer, more = (half, more) if affordable else (fewer, half)
        return fewer, plan_race(fewer, self.n_perturb, one_sided=one_sided, final=1)

    def _start_race(self, noisy: UnderNoise, x: Array, rounds: list[Round], known: Losses | None = None) -> Race:
        """Return a race between points ``(k, d)`` under fresh offsets."""
        shifts = noisy.draw_offsets(rounds[-1].copies if rounds else 0)

        def evaluate(which: Array, copies: slice) -> Losses:
            return self._combine(noisy.scene, noisy.evaluate(x[which], shifts[copies]).loss)

        return Race(evaluate, self._loss_tail(noisy.scene), noisy.scene.distance(x), known)

    def _search_beyond_draws(self, noisy: UnderNoise, population: Array) -> Array | None:
        """Return a point ``(d,)`` better than the first of the population ``(m, d)``, if one is found."""
        rounds = [Round(max(int(part * self.n_perturb), 1), kept) for part, kept in _SEARCH_PLAN.race]
        fresh = _SEARCH_PLAN.fresh_copies * self.n_perturb
        rows = _SEARCH_PLAN.rounds * count_rows(rounds, _SEARCH_PLAN.proposed + 1) + 2 * fresh
        if noisy.posterior.affords(rows) < rows:
            return None
        best, size = population[0], 1.0
        try:
            for _ in range(_SEARCH_PLAN.rounds):
                near = propose_around(noisy.scene, noisy.posterior, best, population, _SEARCH_PLAN.proposed, size)
                x = np.vstack([best, near])
                winner = self._start_race(noisy, x, rounds).run(rounds)[-1][0] if len(near) else 0
                best, size = x[winner], size if winner else _SEARCH_PLAN.shorter * size
            return best if self._is_better(noisy, best, population[0], fresh) else None
        except BudgetSpentError:
            return None

    def _is_better(self, noisy: UnderNoise, one: Array, other: Array, copies: int) -> bool:
        """Whether a point has a clearly smaller tail than another under fresh noise, or an equal one and is nearer."""
        both = np.vstack([one, other])
        if not noisy.scene.space.changed(both[:1], other).any():
            return False
        loss = self._combine(noisy.scene, noisy.evaluate(both, noisy.draw_offsets(copies)).loss)
        (excess, _), (error, _) = self._loss_tail(noisy.scene).compare(loss, 1)
        nearer, near = noisy.scene.distance(both)
        return bool(excess < -_SEARCH_PLAN.better_se * error or (excess == 0 and nearer < near))

    def _loss_tail(self, scene: Scene) -> Tail:
        return Tail(self.tau, scene.mixture.weights if self.across == "models" else np.ones(1))

    def _combine(self, scene: Scene, loss: Losses) -> Losses:
        """Return losses ``(k, n, K)`` of all models, or of their combination ``(k, n, 1)``."""
        if self.across == "models":
            return loss
        k, n, _ = loss.shape
        return scene.mixture.effective_loss(loss.reshape(k * n, -1)).reshape(k, n, 1)


def _is_one_sided(target: Target) -> bool:
    """Whether the accepted outputs are unbounded on one side."""
    try:
        return bool(np.isinf(target.accepted()).any())
    except TypeError:  # not a target on a single output
        return False


# --- the paper's rules -----------------------------------------------------------------------------------------------


def paper_rules(
    d: int, *, tau: float = 0.9, n_perturb: int = 64, max_candidates: int | None = None
) -> tuple[Rule, ...]:
    """Return the decisions of the paper: Mean, MAP and CVaR.

    MAP is the draw of the highest estimated density: by a Gaussian kernel for up to two features, by the distance to
    the 40th neighbour for more. CVaR considers draws only, all under the same noise: 800 for two features, 1,200 for
    more.

    Parameters
    ----------
    d : int
        Number of features.
    tau : float
        Level of CVaR.
    n_perturb : int
        Perturbed copies of each of its candidates.
    max_candidates : int, optional
        Largest number of draws; the paper's number for ``d`` by default (400 in its real data, with 32 copies).

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
    plane = d <= 2
    mode = MAP(method="kde") if plane else MAP(method="knn", k=_PAPER_NEIGHBOURS)
    most = _PAPER_CANDIDATES if plane else _PAPER_CANDIDATES_BEYOND
    most = most if max_candidates is None else max_candidates
    return Mean(), mode, CVaR(tau, n_perturb=n_perturb, max_candidates=most, race=False, refine=False)
