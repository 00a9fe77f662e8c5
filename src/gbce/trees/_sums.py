"""Exact posteriors of tree ensembles: sums over the cells of the features that can move, and draws out of them."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import share_and_error
from gbce._validation import require_counts
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import TAIL_LEVELS, Draws, ExactFigures, Points, SamplerInfo
from gbce.eta import STEEPEST, Solved, solve_eta_among
from gbce.posterior import EtaGoal, GibbsPosterior, Mixture
from gbce.priors import ColumnCells, ColumnDistribution, column_distributions
from gbce.trees._cells import CellTrees, why_unreadable
from gbce.trees._grid import Axis, Grid, read_cell_outputs

__all__ = ["CellPosterior", "ExactInfo", "ExactTrees", "NotExactError", "lay_out", "require_columns", "sum_if_few"]

# --- a posterior on cells --------------------------------------------------------------------------------------------

_MOST_COLUMNS = 30  # that can move: arrays have 32 axes at most in older numpy, and two cells each are too many
_CUMULATIVE = 1e-12  # keeps a quantile at a loss whose cells reach its level up to rounding
_NEGLIGIBLE = 1e-18  # share of the likeliest cell below which a cell is left out of quantiles


class NotExactError(ValueError):
    """A posterior that cannot be summed over cells; the message says why."""


@dataclass(frozen=True, eq=False)
class CellPosterior:
    """All cells of the features that can move, ``N`` of them, with what ``K`` models say there.

    Parameters
    ----------
    columns : tuple of m ColumnCells
        The prior in cells of each feature.
    kept : tuple of m int arrays
        The cells of each that have mass: axes of the grid.
    log_prior : array of shape (N,)
        Log probability of each cell of the grid.
    loss : array of shape (N, K)
        Each model's loss.
    reached : bool array of shape (N, K)
        Each model's verdict.
    unsure : bool array of shape (N, K)
        Where rounding may decide about it.
    """

    columns: tuple[ColumnCells, ...]
    kept: tuple[Array, ...]
    log_prior: Array
    loss: Array
    reached: Array
    unsure: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells on each axis."""
        return tuple(len(one) for one in self.kept)

    def __len__(self) -> int:
        return len(self.log_prior)

    def log_masses(self, mixture: Mixture) -> Array:
        """Log of prior mass times likelihood ``(N,)``; their sum is the evidence."""
        return self.log_prior - mixture.potential(self.loss)

    def weigh(self, mixture: Mixture) -> tuple[Array, float]:
        """Return the probability of every cell ``(N,)`` and the log evidence; minus infinity if no loss is finite."""
        log_masses = self.log_masses(mixture)
        top = float(log_masses.max())
        if not np.isfinite(top):
            return np.zeros(len(self)), -np.inf
        log_masses -= top
        masses = np.exp(log_masses, out=log_masses)
        total = float(masses.sum())
        masses /= total
        return masses, top + float(np.log(total)) - self._log_whole

    @cached_property
    def _log_whole(self) -> float:
        """Log of the prior's mass in all cells: zero but for rounding."""
        return float(np.log(np.exp(self.log_prior).sum()))

    def find_eta(self, mixture: Mixture, goal: EtaGoal) -> Solved:
        """Return the smallest eta that achieves a goal, or the one that comes closest."""
        reading = self.loss[:, 0], self.reached[:, 0]

        def weights(eta: float) -> Array:
            return self.weigh(replace(mixture, eta=eta))[0]

        top = 1.0
        while top < STEEPEST and goal.shortfall(*reading, weights(top)) > 0:
            top *= 2.0
        return solve_eta_among(weights, *reading, mixture, goal, top)

    def marginal(self, masses: Array, axis: int) -> Array:
        """Sum probabilities ``(N,)`` of the grid over all axes but one; for all cells of that column."""
        own = np.zeros(len(self.columns[axis].log_mass))
        others = tuple(i for i in range(len(self.kept)) if i != axis)
        own[self.kept[axis]] = masses.reshape(self.shape).sum(axis=others)
        return own

    def draw(self, rng: np.random.Generator, masses: Array, n: int) -> tuple[Array, Array]:
        """Draw cells ``(n,)`` by their probabilities ``(N,)``, and values ``(n, m)`` of the features within."""
        upto = np.cumsum(masses)
        where = np.searchsorted(upto, rng.random(n) * upto[-1], side="right")
        where = np.minimum(where, np.flatnonzero(masses > 0)[-1])
        places = np.unravel_index(where, self.shape)
        values = [
            column.draw(rng, kept[place]) for column, kept, place in zip(self.columns, self.kept, places, strict=True)
        ]
        return where, np.column_stack(values)

    def loss_levels(self, masses: Array) -> Array:
        """Quantiles ``(K, 1001)`` of each model's loss under probabilities ``(N,)``."""
        some = np.flatnonzero(masses > _NEGLIGIBLE * masses.max())
        levels = np.linspace(0.0, 1.0, TAIL_LEVELS + 1)
        found = np.empty((self.loss.shape[1], len(levels)))
        for k in range(len(found)):
            own = self.loss[some, k]
            order = np.argsort(own, kind="stable")
            upto = np.cumsum(masses[some][order])
            place = np.searchsorted(upto, levels * upto[-1] * (1.0 - _CUMULATIVE), side="left")
            found[k] = own[order][np.minimum(place, len(order) - 1)]
        return found

    @cached_property
    def likeliest(self) -> list[Array]:
        """In each cell of each axis, the value of the highest prior probability or density."""
        return [column.likeliest()[kept] for column, kept in zip(self.columns, self.kept, strict=True)]

    def sums(self, numbers: Sequence[Array]) -> Array:
        """Sum numbers of each axis' cells over every cell of the grid ``(N,)``."""
        return _add_axes(numbers).ravel()


def _add_axes(numbers: Sequence[Array]) -> Array:
    total = np.zeros(())
    for i, own in enumerate(numbers):
        total = total + np.asarray(own).reshape(-1, *[1] * (len(numbers) - 1 - i))
    return np.asarray(total)


def require_columns(posterior: GibbsPosterior) -> tuple[ColumnDistribution, ...]:
    """Return the law of every column that can move, or say why they are none; it takes no look at a model."""
    try:
        distributions = column_distributions(posterior.prior)
    except ValueError as error:
        raise NotExactError(str(error)) from None
    if len(distributions) > _MOST_COLUMNS:
        raise NotExactError(f"{len(distributions)} features can change, more than {_MOST_COLUMNS}")
    return distributions


def lay_out(
    posterior: GibbsPosterior,
    distributions: Sequence[ColumnDistribution],
    ensembles: Sequence[CellTrees | None],
    most: int,
) -> CellPosterior:
    """Lay out the cells of a posterior, at most ``most`` times the number of models.

    Parameters
    ----------
    posterior : GibbsPosterior
        What to sum.
    laws : sequence of m ColumnDistribution
        Those of :func:`require_columns`.
    ensembles : sequence of K CellTrees
        The models; None where one cannot be read.
    most : int
        Largest number of cells, times models.

    Raises
    ------
    NotExactError
        Where it cannot be done, and why.
    """
    trees = _require_trees(posterior, ensembles)
    prior = posterior.prior
    grids = [Grid(one, one.cells(prior.x0[None, :])[0], prior.free) for one in trees]
    columns, kept, axes = [], [], []
    for distribution in distributions:
        j = distribution.where
        ends = distribution.ends
        if not all(grid.covers(j, *ends) for grid in grids):
            raise NotExactError(f"the thresholds of {prior.space.names[j]!r} are not known as far as it may move")
        own = distribution.on(np.unique(np.concatenate([grid.cuts(j, *ends) for grid in grids])))
        some = np.flatnonzero(np.isfinite(own.log_mass))
        tops = np.concatenate([own.edges, [ends[1]], [np.nan] * (len(own.log_mass) > own.n_known)])
        columns.append(own)
        kept.append(some)
        axes.append(Axis(j, tops[some]))
    n = 1
    for axis in axes:  # in whole numbers of any size
        n *= len(axis.tops)
    if n * len(trees) > most:
        several = f" for {len(trees)} models" if len(trees) > 1 else ""
        raise NotExactError(f"the features that can change have {n:,} cells{several}, more than the limit of {most:,}")
    log_prior = _add_axes([column.log_mass[some] for column, some in zip(columns, kept, strict=True)]).ravel()
    read = [_read(posterior, k, grid, axes) for k, grid in enumerate(grids)]
    loss, reached, unsure = (np.column_stack(part) for part in zip(*read, strict=True))
    return CellPosterior(tuple(columns), tuple(kept), log_prior, loss, reached, unsure)


def _require_trees(posterior: GibbsPosterior, ensembles: Sequence[CellTrees | None]) -> list[CellTrees]:
    found = []
    for predictor, trees in zip(posterior.predictors, ensembles, strict=True):
        if trees is None:
            budget = ", or the budget is too short to check them" if posterior.budget.limited else ""
            raise NotExactError(f"{predictor.name} is not an ensemble of trees whose cells can be read{budget}")
        why = why_unreadable(trees, predictor, posterior.target)
        if why:
            raise NotExactError(why)
        found.append(trees)
    return found


class _Read(NamedTuple):
    """Losses, verdicts, and where rounding may decide about these, each ``(N,)``."""

    loss: Array
    reached: Array
    unsure: Array


def _read(posterior: GibbsPosterior, k: int, grid: Grid, axes: Sequence[Axis]) -> _Read:
    """Read one model's outputs in every cell against the target."""
    parts = [_Read(*one[1:]) for one in read_cell_outputs(grid, axes, posterior.predictors[k], posterior.target)]
    found = _Read(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    if np.isnan(found.loss).any():
        raise NotExactError("the target has a loss that is not a number")
    return found


# --- exact posteriors of tree ensembles ------------------------------------------------------------------------------

_N_DRAWS = 2_000  # as of every sampler: N_samp of the paper's experiments in two dimensions

_MOST_CELLS = 10_000_000  # some 200 MB for each model, and a few seconds
_FEW_CELLS, _HASTY_CELLS = 1_000_000, 100_000  # that are summed unasked: within half a second, or 0.05 with a deadline
# Beside the draws, points of the prior and of smaller etas are kept, so that other etas are a reweighting of them; by
# hand, so that a path from zero to eta rests on some hundred effective points everywhere.
_PRIOR_POINTS, _RUNG_POINTS = 1_000, 300
_STEP, _MOST_RUNGS, _NEAR_PRIOR = 4.0, 12, 0.5  # ratio of these etas, how many, and total variation that needs none
_ASKED = 500  # cells at the very limit of the target that the model itself is asked about
_NO_MASS = 1e-9  # of such cells in all: what is less need not be asked
# By how much a loss that the model gives may differ from the one of its cell: sums of doubles, and of single precision
# in the logarithm of a small probability.
_SAME_LOSS, _SAME_LOSS_SINGLE, _SINGLE = 1e-7, 1e-2, 1e-10


@dataclass(frozen=True)
class ExactInfo(SamplerInfo):
    """What sums over cells report.

    Parameters
    ----------
    cells : int, optional
        How many there are.
    """

    sampler: str = "ExactTrees"
    cells: int | None = None

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "raise n_draws of the sampler, or allow more rows"


@dataclass(frozen=True)
class ExactTrees:
    """Sum over the cells of a tree ensemble: figures without Monte Carlo error, and independent draws.

    The features that can move are cut where some tree of some model tells values apart. In each cell all losses are
    constant, so that its posterior mass is its prior probability, a product over features, times ``exp(-potential)``.
    The log evidence, the success probability, the tail, the stability, the importance and the mode are sums over all
    cells, or the best of them. Draws are exact: a cell by its mass, then values in it from the prior.

    It is for tree ensembles whose cells can be read (scikit-learn, LightGBM, XGBoost, behind scalers and encoders),
    one or several, and for priors that move each column by itself: :class:`gbce.Gaussian` without ``cov``,
    :class:`gbce.Laplace`, :class:`gbce.Sparse` of these; without constraints and computed columns. Anything else is
    refused. An explainer with no sampler takes it by itself where it applies and there are at most 1,000,000 cells.

    Parameters
    ----------
    n_draws : int
        Draws in the end.
    max_cells : int
        Most cells, times the number of models.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = RandomForestRegressor(20, max_depth=4, random_state=0).fit(x, x.sum(axis=1))
    >>> explainer = gbce.Explainer(model, x, space=gbce.Space.real(2), sampler=ExactTrees())
    >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=0.5), rules=[gbce.MAP()], seed=0)
    >>> float(explanation.distribution["success_probability_se"]), explanation.diagnostics["log_evidence_se"]
    (0.0, 0.0)
    """

    n_draws: int = _N_DRAWS
    max_cells: int = _MOST_CELLS

    def __post_init__(self) -> None:
        require_counts(self, "n_draws", "max_cells")

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Sum, and draw; models are asked about the draws, a few hundred other points, and the best cells.

        Raises
        ------
        NotExactError
            A ValueError that says why the posterior cannot be summed.
        """
        try:
            return self.sum_up(posterior, rng)
        except NotExactError as error:
            raise NotExactError(
                f"ExactTrees cannot sum this posterior: {error}. Use gbce.SMC(), or leave sampler out."
            ) from None

    def sum_up(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Sum and draw as :meth:`sample` does, with an error that is a part of a sentence."""
        distributions = require_columns(posterior)
        ensembles = [posterior.read_trees(k) for k in range(len(posterior.predictors))]
        cells = lay_out(posterior, distributions, ensembles, self.max_cells)
        mixture, met = posterior.mixture, None
        if posterior.goal is not None:
            eta, met = cells.find_eta(mixture, posterior.goal)
            mixture = replace(mixture, eta=eta)
        single = any(trees is not None and trees.epsilon > _SINGLE for trees in ensembles)
        room = _SAME_LOSS_SINGLE if single else _SAME_LOSS
        return _Run(posterior, rng, cells, mixture, room).draw(self.n_draws, met)


def sum_if_few(posterior: GibbsPosterior, rng: np.random.Generator) -> Draws | None:
    """Return exact sums where they apply and cells are few; nothing otherwise, and the generator as it was."""
    most = _FEW_CELLS if posterior.budget.deadline is None else _HASTY_CELLS
    try:
        return ExactTrees(max_cells=most).sum_up(posterior, deepcopy(rng))
    except NotExactError:
        return None


class _Stratum(NamedTuple):
    """Points to be drawn at one eta: its mixture, log evidence, cells ``(n,)`` and values ``(n, m)``."""

    mixture: Mixture
    log_evidence: float
    cell: Array
    values: Array


@dataclass
class _Run:
    """One run: cells at one eta, and points drawn from them.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked.
    rng : Generator
        For everything.
    cells : CellPosterior
        All cells.
    mixture : Mixture
        At the eta that was given, or found.
    room : float
        By how much a model's loss may differ from that of its cell, relative to one and the loss.
    """

    posterior: GibbsPosterior
    rng: np.random.Generator
    cells: CellPosterior
    mixture: Mixture
    room: float

    def draw(self, n_draws: int, met: bool | None) -> Draws:
        """Return the draws with what was computed."""
        masses, log_evidence = self.cells.weigh(self.mixture)
        if not np.isfinite(log_evidence):
            raise NotExactError("no cell has a finite loss")
        first = _Stratum(self.mixture, log_evidence, *self.cells.draw(self.rng, masses, n_draws))
        best, strata = self._affordable(self._best(), [first, *self._others(masses)])
        where = np.concatenate([best, *(one.cell for one in strata)])
        values = np.concatenate([self._values_in(best), *(one.values for one in strata)])
        number = np.concatenate([[-1] * len(best), *([t] * len(one.cell) for t, one in enumerate(strata))])
        asked = self._ask(values)
        n = len(asked)
        if not (number[:n] == 0).any():
            raise BudgetSpentError("the budget does not allow a single draw: raise max_model_rows or time_budget")
        self._compare(asked, where[:n])
        number = number[:n]
        pool, seen = asked.take(number >= 0), asked.take(number < 0)
        number = number[number >= 0]
        base = -logsumexp(
            [
                np.log(count) - one.mixture.potential(pool.loss) - one.log_evidence
                for t, one in enumerate(strata)
                if (count := int((number == t).sum()))
            ],
            axis=0,
        )
        own = np.flatnonzero(number == 0)
        return Draws(
            pool=pool,
            pool_weights=(number == 0) / len(own),
            index=own,
            weights=np.full(len(own), 1.0 / len(own)),
            resampled=False,
            prior_change=self._changes([np.exp(column.log_mass) for column in self.cells.columns]),
            log_evidence=log_evidence,
            log_evidence_se=0.0,
            rungs=(float(self.mixture.eta),),
            log_base_weights=base,
            info=ExactInfo(goal_met=met, cells=len(self.cells)),
            seen=seen,
            exact=self._figures(masses),
        )

    # --- points -------------------------------------------------------------------------------------------------------

    def _others(self, masses: Array) -> list[_Stratum]:
        """Draw points at smaller etas, down to one that is near the prior, and of the prior itself."""
        none = replace(self.mixture, eta=0.0)
        prior, log_whole = self.cells.weigh(none)
        found: list[_Stratum] = []
        while 0.5 * float(np.abs(masses - prior).sum()) > _NEAR_PRIOR and len(found) < _MOST_RUNGS:
            at = replace(self.mixture, eta=self.mixture.eta / _STEP ** (len(found) + 1))
            masses, log_evidence = self.cells.weigh(at)
            found.append(_Stratum(at, log_evidence, *self.cells.draw(self.rng, masses, _RUNG_POINTS)))
        return [*found, _Stratum(none, log_whole, *self.cells.draw(self.rng, prior, _PRIOR_POINTS))]

    def _affordable(self, best: Array, strata: list[_Stratum]) -> tuple[Array, list[_Stratum]]:
        """Return fewer points of every kind where the budget does not allow all of them."""
        wanted = len(best) + sum(len(one.cell) for one in strata)
        share = self.posterior.affords(wanted) / wanted
        if share == 1:
            return best, strata
        counts = [int(share * len(one.cell)) for one in strata]
        counts[0] = max(counts[0], 1)
        return best[: int(share * len(best))], [
            one._replace(cell=one.cell[:n], values=one.values[:n]) for one, n in zip(strata, counts, strict=True)
        ]

    def _values_in(self, where: Array) -> Array:
        """Return the likeliest values ``(n, m)`` in cells ``(n,)``."""
        places = np.unravel_index(where, self.cells.shape)
        return np.column_stack([own[place] for own, place in zip(self.cells.likeliest, places, strict=True)])

    def _rows(self, values: Array) -> Array:
        prior = self.posterior.prior
        x = np.tile(prior.x0, (len(values), 1))
        x[:, prior.free] = values
        return prior.space.completed(x, prior.x0)

    def _ask(self, values: Array) -> Points:
        """Ask models about the points with these values ``(n, m)``, the first ones if the budget is short."""
        posterior, x = self.posterior, self._rows(values)
        said = []
        try:
            for some in posterior.portions(len(x)):
                said.append(posterior.evaluate(x[some]))
        except BudgetSpentError:  # time ran out earlier than was foreseen: what there is, is used
            if not said:
                raise
        if not said:
            raise BudgetSpentError("the budget does not allow a single draw: raise max_model_rows or time_budget")
        outputs, loss, reached = (np.concatenate(part) for part in zip(*said, strict=True))
        x = x[: len(loss)]
        z, cost = posterior.prior.locate(x), posterior.prior.cost(x)
        return Points(z, x, outputs, loss, reached, cost=cost, log_correction=np.zeros(len(x)))

    def _compare(self, asked: Points, where: Array) -> None:
        """Refuse cells that are not the model's: losses or verdicts of points that are not those of their cells."""
        mine, own = self.cells.loss[where], asked.loss
        with np.errstate(invalid="ignore"):
            same = (np.abs(mine - own) <= self.room * (1.0 + np.abs(own))) | (mine == own)
        same &= (self.cells.reached[where] == asked.reached) | self.cells.unsure[where]
        if not same.all():
            k = int(np.argmin(same.all(axis=0)))
            raise NotExactError(
                f"what was read of {self.posterior.predictors[k].name} differs from what it says itself"
            )

    def _best(self) -> Array:
        """Return cells that rules want to know: for each number of changes, those of least objective and distance."""
        cells, prior = self.cells, self.posterior.prior
        costs, changed, sizes = [], [], []
        for j, values in zip(prior.free, cells.likeliest, strict=True):
            rows = np.tile(prior.x0, (len(values), 1))
            rows[:, j] = values
            costs.append(prior.cost(rows))
            changed.append(prior.space.changed(rows, prior.x0)[:, j])
            sizes.append(prior.space.change(rows, prior.x0)[:, j] / prior.space.scale[j])
        number = cells.sums([one.astype(np.int16) for one in changed]).astype(np.int16)
        objective = self.mixture.potential(cells.loss) + cells.sums(costs)
        found = []
        verdicts = (
            [cells.reached[:, 0]] if cells.loss.shape[1] == 1 else [cells.reached[:, 0], cells.reached.all(axis=1)]
        )
        for n in range(len(changed) + 1):
            found.append(_least(objective, number == n))
        for heights in (objective, cells.sums(sizes), cells.sums([np.square(size) for size in sizes])):
            for reached in verdicts:
                found += [_least(heights, reached & (number == n)) for n in range(len(changed) + 1)]
        return np.unique(np.concatenate(found))

    # --- figures ------------------------------------------------------------------------------------------------------

    def _figures(self, masses: Array) -> ExactFigures:
        cells = self.cells
        marginals = [cells.marginal(masses, axis) for axis in range(len(cells.columns))]
        features = self.posterior.prior.space.features
        potential = self.mixture.potential(cells.loss)
        some = masses > 0
        success, success_se = self._successes(masses)
        return ExactFigures(
            cells=len(cells),
            success=success,
            success_se=success_se,
            loss_levels=cells.loss_levels(masses),
            stability=sum(
                column.variance(own, features[column.distribution.where])
                for column, own in zip(cells.columns, marginals, strict=True)
            ),
            expected_loss=float((masses[some] * cells.loss[some, 0]).sum()),
            expected_potential=float((masses[some] * potential[some]).sum()),
            change=self._changes(marginals),
        )

    def _changes(self, marginals: Sequence[Array]) -> Array:
        """Mean sizes of changes ``(d,)`` under probabilities of each column's cells."""
        prior, found = self.posterior.prior, np.zeros(len(self.posterior.prior.x0))
        for column, own in zip(self.cells.columns, marginals, strict=True):
            j = column.distribution.where
            found[j] = column.mean_change(own, prior.space.features[j], float(prior.x0[j]))
        return found

    def _successes(self, masses: Array) -> tuple[Array, Array]:
        """Success probabilities ``(K + 2,)`` and their errors; of cells where rounding decides, models are asked."""
        cells = self.cells
        unsure = np.flatnonzero(cells.unsure.any(axis=1) & (masses > 0))
        size = float(masses[unsure].sum())
        reached, known = cells.reached, np.ones(len(cells), dtype=bool)
        own, error = np.zeros(reached.shape[1] + 2), np.zeros(reached.shape[1] + 2)
        if size > _NO_MASS:
            known[unsure] = False
            every = len(unsure) <= _ASKED
            asked = unsure if every else self.rng.choice(unsure, _ASKED, p=masses[unsure] / size)
            verdicts = _verdicts(self._ask(self._values_in(asked)).reached)
            if every and len(verdicts) == len(unsure):
                own = (masses[unsure, None] * verdicts).sum(axis=0)
            else:
                share, se = share_and_error(verdicts.mean(axis=0), len(verdicts))
                own, error = size * share, size * se
        sure = (masses[known, None] * _verdicts(reached[known])).sum(axis=0)
        return np.minimum(sure + own, 1.0), error


def _verdicts(reached: Array) -> Array:
    """Verdicts ``(n, K)`` with those of all models and of at least half of them: ``(n, K + 2)``."""
    share = reached.mean(axis=1)
    return np.column_stack([reached, share == 1, share >= 0.5]).astype(float)


def _least(heights: Array, among: Array) -> Array:
    """Position of the smallest number among those of a mask, if there is any."""
    where = np.flatnonzero(among)
    return where[[int(np.argmin(heights[where]))]] if len(where) else where
