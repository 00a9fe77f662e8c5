"""Tempered SMC on the cells of tree ensembles, moved by exact coordinate draws; models are called for the last draws.

Several islands climb from the prior to eta on shared rungs (temperatures); on each, points are resampled within their
island and every column is drawn from its full conditional. The rungs are posteriors at smaller etas, so that one run
gives the path over eta, the evidence, and the eta that meets a goal; errors are those between islands.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, stdtrit

from gbce._numerics import ENOUGH_ESS, NORMAL_975, log_total, normalise
from gbce._validation import require_counts
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, SamplerInfo
from gbce.eta import solve_eta, solve_eta_among
from gbce.posterior import GibbsPosterior
from gbce.trees._climb import TUNING, Climb, log_mean
from gbce.trees._coordinate_draws import CellPoints, CellProblem
from gbce.trees._sums import NotExactError, tolerate_loss

_CONFIRMED = 40  # draws that the models evaluate where a limit on rows does not allow all, as many as check the trees

# --- the sampler -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GibbsInfo(SamplerInfo):
    """Report of coordinate draws.

    Parameters
    ----------
    islands : int, optional
        Islands that share their temperatures but not their points.
    sweeps : tuple of int, optional
        For each rung (temperature): how often every column of every point was drawn.
    climbed : tuple of float, optional
        All rungs, where a goal was missed and eta went back below the last of them.
    """

    sampler: str = "GibbsTrees"
    islands: int | None = None
    sweeps: tuple[int, ...] | None = None
    climbed: tuple[float, ...] | None = None

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "raise n_points or n_sweeps of gbce.GibbsTrees, widen the prior, or ask for less"

    @property
    def runs(self) -> str:
        """Number of islands and rungs."""
        rungs = len(self.sweeps or ())
        return f"{self.islands} islands over {rungs} rung{'s' if rungs != 1 else ''}"

    @property
    def kind_of_run(self) -> str:
        """Name of several runs."""
        return "islands"

    @property
    def tempered(self) -> bool:
        """True: the error of the evidence shows the quality of the run."""
        return True


@dataclass(frozen=True)
class GibbsTrees:
    """Tempered SMC on the cells of tree ensembles, every column drawn from its exact full conditional distribution.

    Along one column, the others fixed, a tree ensemble is a step function. Prior mass of each step times
    ``exp(-potential)`` is the distribution of that column given the others, with its spike, levels, limits and missing
    values. Such draws move the points of several independent islands on rungs of eta from the prior to the posterior.
    The log evidence, the path over eta and the eta that meets a goal such as :class:`gbce.SuccessProbability` come from
    one run; errors are those between islands. Models are called once, for the draws that are kept.

    It applies where :class:`gbce.ExactTrees` does, however many cells and columns there are, and also with constraints
    between columns (draws that violate one are rejected). Anything else raises an error. An explainer without a sampler
    uses it on tables where there are too many cells to sum.

    Parameters
    ----------
    n_draws : int
        Number of draws.
    n_points : int
        Points that climb together, of all islands.
    n_islands : int
        Islands that share their temperatures but not their points.
    n_sweeps : int
        How often every column is drawn on each rung.
    max_rounds : int
        Most runs: where islands missed a mode that chains from training rows have found, they climb again with draws
        around it on every rung; where they disagree, once more with three times as many points.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> x = np.random.default_rng(0).normal(size=(200, 6))
    >>> model = RandomForestRegressor(20, max_depth=4, random_state=0).fit(x, x.sum(axis=1))
    >>> options = {"space": gbce.Space.real(6), "eta": gbce.SuccessProbability(0.9)}
    >>> explainer = gbce.Explainer(model, x, sampler=GibbsTrees(n_points=400), **options)
    >>> explanation = explainer.explain(np.zeros(6), gbce.AtLeast(1.5, scale=0.5), rules=[], seed=0)
    >>> bool(abs(explanation.distribution["success_probability"] - 0.9) < 0.05)
    True
    """

    n_draws: int = 2_000  # as of every sampler
    n_points: int = 1_000
    n_islands: int = 8
    n_sweeps: int = 1
    max_rounds: int = 4

    def __post_init__(self) -> None:
        require_counts(self, "n_draws", "n_points", "n_islands", "n_sweeps", "max_rounds")
        if self.n_islands < 2 or self.n_points < 2 * self.n_islands:
            raise ValueError(
                "GibbsTrees: n_islands must be at least 2, with two points each, because errors are estimated between "
                f"islands; not {self.n_islands} with {self.n_points} points"
            )

    @property
    def searches(self) -> bool:
        """True: decisions start from training rows that reach the target, so that some of them have to be evaluated."""
        return True

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw; models are called once, for the points that are kept.

        Raises
        ------
        NotExactError
            A ValueError that says why columns cannot be drawn from their full conditional distributions.
        """
        try:
            return self.draw(posterior, rng)
        except NotExactError as error:
            raise NotExactError(
                f"GibbsTrees cannot draw from this posterior: {error}. Use gbce.SMC(), or leave sampler out."
            ) from None

    def draw(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw like :meth:`sample`, with error messages that are part of a sentence."""
        problem = CellProblem.build(posterior)
        n_points, n_draws = (max(n // self.n_islands, 1) * self.n_islands for n in (self.n_points, self.n_draws))
        places = None
        for _ in range(self.max_rounds):
            climb = Climb(problem, rng, n_points, self.n_islands, self.n_sweeps, n_draws, places)
            climb.run()
            kept = _choose_kept(climb)
            # the last rung may have met the goal, but not all points together
            while climb.can_go_on and _compute_shortfall(climb, kept) > 0:
                climb.go_on()
                kept = _choose_kept(climb)
            # a mode that does not count at the last level may hold a third of the mass at the eta that meets a goal
            others, missed = climb.find_missed(_find_eta(climb, kept))
            pool, report = _read(climb, kept.points), self._report(climb, missed)
            found = _weigh(climb, kept, pool, report)
            if not climb.complete or (missed == 0 and (n_points > self.n_points or self._agree(found))):
                break
            if missed > 0:
                places = others
            else:
                n_points *= TUNING.more
        return _weigh(climb, kept, _ask(climb, kept.points, pool), report).resample(rng, self.n_draws)

    def _report(self, climb: Climb, missed: float) -> GibbsInfo:
        """Return the report of a run that missed a share of the posterior."""
        sweeps = (climb.n_sweeps,) * (len(climb.rungs) - 1)
        doubt = f"chains from elsewhere stay where {missed:.0%} of the posterior is missed" if missed > 0 else None
        return GibbsInfo(complete=climb.complete, islands=self.n_islands, sweeps=sweeps, doubt=doubt)

    def _agree(self, draws: Draws) -> bool:
        """Whether the islands agree well enough on figures and on the evidence."""
        figures = draws.ess >= TUNING.agreed * self.n_draws
        figures &= draws.worst_ess[0] >= max(TUNING.agreed_worst * self.n_draws, min(ENOUGH_ESS, 0.5 * self.n_draws))
        return figures and draws.log_evidence_se <= TUNING.agreed_evidence


def draw_if_many(posterior: GibbsPosterior, rng: np.random.Generator) -> Draws | None:
    """Return coordinate draws where they are the default; else None, with the generator unchanged.

    They are the default on tables, without a deadline that could cut them off, unless a goal for eta is missed.
    """
    if posterior.prior.space.columns is None or posterior.budget.deadline is not None:
        return None
    try:
        found = GibbsTrees().draw(posterior, deepcopy(rng))
    except (NotExactError, BudgetSpentError):
        return None
    return found if posterior.goal is None or found.info.goal_met else None


# --- weights ---------------------------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    """The points that are kept, and their rungs and islands ``(n,)``."""

    points: CellPoints
    rung: Array
    island: Array


def _choose_kept(climb: Climb) -> _Kept:
    """Return the last rung and some points of the others."""
    rungs = climb.rungs
    some = max(TUNING.rung_points // max(len(rungs) - 2, 1), 1)
    thinned = [rung.thin(some) for rung in rungs[1:-1]]
    chosen = [rungs[0].thin(TUNING.prior_points), *thinned, rungs[-1]] if len(rungs) > 1 else rungs
    points = CellPoints.join([rung.points for rung in chosen])
    of_rung = np.repeat(np.arange(len(chosen)), [len(rung.points) for rung in chosen])
    return _Kept(points, of_rung, np.concatenate([rung.island for rung in chosen]))


def _compute_base(climb: Climb, kept: _Kept, loss: Array) -> Array:
    """Return the log weights ``(n,)`` of points with losses ``(n, K)`` under the prior.

    All are weighted as draws from the mixture of all rungs (Veach and Guibas, 1995), so that the posterior at any eta
    up to the last is a reweighting of one pool.
    """
    rungs = climb.rungs
    counts = np.bincount(kept.rung, minlength=len(rungs))
    log_z = np.array([log_mean(rung.log_z) for rung in rungs])
    expected = [
        np.log(counts[r]) - climb.potential(loss, rung.level) - log_z[r] for r, rung in enumerate(rungs) if counts[r]
    ]
    shares = np.array([rung.log_z for rung in rungs]) - log_z[:, None]
    return np.asarray(shares[kept.rung, kept.island] - logsumexp(expected, axis=0))


def _compute_shortfall(climb: Climb, kept: _Kept) -> float:
    """Return the shortfall of the goal at the last level, by losses as read from the trees."""
    goal, points = climb.posterior.goal, kept.points
    assert goal is not None
    return goal.shortfall(points.loss[:, 0], points.reached[:, 0], _weigh_by_eta(climb, kept)(climb.rungs[-1].level))


def _find_eta(climb: Climb, kept: _Kept) -> float:
    """Return the eta that meets the goal or comes closest, by losses as read from the trees; the last without one."""
    top, goal, points = climb.rungs[-1].level, climb.posterior.goal, kept.points
    if goal is None:
        return top
    reading = points.loss[:, 0], points.reached[:, 0]
    return solve_eta_among(_weigh_by_eta(climb, kept), *reading, climb.posterior.mixture, goal, top).eta


def _weigh_by_eta(climb: Climb, kept: _Kept) -> Callable[[float], Array]:
    """Return the function from eta to the weights ``(n,)`` of the points that are kept."""
    loss = kept.points.loss
    base = _compute_base(climb, kept, loss)
    return lambda eta: normalise(base - climb.potential(loss, eta))


def _weigh(climb: Climb, kept: _Kept, pool: Points, info: GibbsInfo) -> Draws:
    """Weight evaluated points at the eta that was given, found or reached."""
    posterior, rungs = climb.posterior, climb.rungs
    base = _compute_base(climb, kept, pool.loss)
    mixture = replace(posterior.mixture, eta=rungs[-1].level)
    levels = tuple(rung.level for rung in rungs if rung.level > 0) or (0.0,)
    draws = Draws.weigh(
        pool,
        mixture,
        posterior.prior,
        log_base_weights=base,
        groups=kept.island,
        rungs=levels,
        info=info,
        evidence_inflation=TUNING.inflation,
    )
    if posterior.goal is not None:
        eta, met = solve_eta(draws, mixture, posterior.goal, mixture.eta)
        doubt = info.doubt if met else info.doubt or "no eta was found that meets the goal"
        mixture = replace(mixture, eta=eta)
        info = replace(info, goal_met=met, climbed=None if met else levels, doubt=doubt)
        draws = replace(draws, info=info).reweigh(mixture)
    return replace(
        draws,
        log_evidence=log_total(base - mixture.potential(pool.loss)),
        log_evidence_se=_compute_evidence_error(
            np.bincount(kept.island, draws.pool_weights), max(rungs[-1].variance, len(pool) ** -2)
        ),
        prior_change=_compute_prior_change(climb.problem, draws.prior_change),
    )


def _read(climb: Climb, points: CellPoints) -> Points:
    """Draw rows within the cells of points, and return them with the outputs of the trees."""
    posterior = climb.posterior
    x = climb.problem.draw_rows(climb.rng, points.cells) if points.x is None else points.x
    evaluated = posterior.read(climb.problem.outputs(points.scores))._replace(reached=points.reached)
    located = posterior.prior.locate(x)
    return Points(located, x, *evaluated, cost=posterior.prior.cost(x), log_correction=np.zeros(len(x)))


def _ask(climb: Climb, points: CellPoints, pool: Points) -> Points:
    """Return the same rows with the models' own outputs; where not all are affordable, those of a few rows."""
    posterior, n, n_islands = climb.posterior, len(pool), climb.n_islands
    affordable = posterior.affords(n)
    if affordable < min(n, n_islands):
        raise BudgetSpentError("the budget does not allow a draw of each island: raise max_model_rows or time_budget")
    # trees were checked, so that a few draws suffice where not all are affordable: other rows are left for decisions
    few = np.linspace(0, n - 1, min(affordable, _CONFIRMED)).astype(int)
    some = np.arange(n) if affordable == n else few
    evaluated = posterior.evaluate(pool.x[some])
    read, own, tolerance = points.loss[some], evaluated.loss, tolerate_loss(climb.problem.ensembles)
    with np.errstate(invalid="ignore"):
        same = (np.abs(read - own) <= tolerance * (1.0 + np.abs(own))) | (read == own)
    if not same.all():
        raise NotExactError("the trees read from the model do not reproduce its predictions")
    asked = [values.copy() for values in (pool.outputs, pool.loss, pool.reached)]
    for values, own in zip(asked, evaluated, strict=True):
        values[some] = own
    return replace(pool, outputs=asked[0], loss=asked[1], reached=asked[2])


def _compute_evidence_error(shares: Array, least: float) -> float:
    """Return the error of the log evidence from the islands' shares in it ``(J,)``, of at least a variance.

    Between few islands it is enlarged by Student's t, so that 1.96 times the error still covers 95%. Eight islands that
    agree by chance would still promise too much now and then: the variance of independent points is the least.
    """
    freedom = len(shares) - 1
    spread = float(np.sqrt(np.square(shares - shares.mean()).sum() * len(shares) / freedom * TUNING.inflation))
    return max(spread * float(stdtrit(freedom, 0.975)) / NORMAL_975, least**0.5)


def _compute_prior_change(problem: CellProblem, estimated: Array) -> Array:
    """Return the mean change of each feature ``(d,)`` under the prior: exactly, unless constraints link columns."""
    prior = problem.posterior.prior
    if prior.conditional:
        return estimated
    found = np.zeros(len(prior.x0))
    for column in problem.columns:
        j = column.distribution.where
        found[j] = column.mean_change(np.exp(column.log_mass), prior.space.features[j], float(prior.x0[j]))
    return found
