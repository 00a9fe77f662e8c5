"""Exact posteriors of tree ensembles: sums over the cells of the features that can change, and independent draws.

Losses are constant within a cell, so its posterior mass is its prior probability, a product over features, times the
likelihood. :class:`CellPosterior` holds all cells; :class:`ExactTrees` is the sampler.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import ROUNDING, WIDE_ROUNDING, share_and_error
from gbce._validation import require_counts
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import TAIL_LEVELS, Draws, ExactFigures, Points, SamplerInfo
from gbce.eta import STEEPEST, Solved, solve_eta_among
from gbce.posterior import EtaGoal, GibbsPosterior, Mixture
from gbce.priors import ColumnCells, ColumnDistribution, column_distributions
from gbce.trees._cells import CellTrees, why_unreadable
from gbce.trees._grid import Axis, Grid, read_cell_outputs

_N_DRAWS = 2_000  # as of every sampler: N_samp of the paper's experiments in two dimensions
_MOST_CELLS = 10_000_000  # about 200 MB per model, and a few seconds
_FEW_CELLS, _HASTY_CELLS = 1_000_000, 100_000  # summed by default: within half a second, or 0.05 s under a deadline
_MOST_COLUMNS = 30  # columns that change: older numpy arrays have at most 32 axes, and two cells each are too many
_NEGLIGIBLE = 1e-18  # share of the likeliest cell below which a cell is left out of quantiles
# Points of the prior and of smaller etas are kept beside the draws, so that other etas can be reweighted from them;
# hand-tuned, so that a path from zero to eta has some hundred effective points everywhere.
_PRIOR_POINTS, _RUNG_POINTS = 1_000, 300
_STEP, _MOST_RUNGS, _NEAR_PRIOR = 4.0, 12, 0.5  # ratio of these etas, their number, total variation that needs none
_MOST_CHECKED = 500  # cells on the boundary of the target that the model itself evaluates
# Tolerated difference between a model's loss and that of its cell: rounding of sums in double precision, and of the
# logarithm of a small probability in single precision; and the rounding error that indicates single precision.
_SAME_LOSS, _SAME_LOSS_SINGLE, _SINGLE = 1e-7, 1e-2, 1e-10

# --- a posterior on cells --------------------------------------------------------------------------------------------


class NotExactError(ValueError):
    """A posterior that cannot be summed over cells; the message says why."""


@dataclass(frozen=True, eq=False)
class CellPosterior:
    """All ``N`` cells of the features that can change, with the readings of ``K`` models there.

    ``columns`` are the prior in cells of each of ``m`` features, and ``kept`` the cells of each that have mass: axes of
    the grid. ``log_prior`` ``(N,)`` is the log probability of each cell of the grid; ``loss``, ``reached`` and
    ``unsure``, each ``(N, K)``, are the loss of each model, whether it reaches the target, and whether rounding may
    decide that.
    """

    columns: tuple[ColumnCells, ...]
    kept: tuple[Array, ...]
    log_prior: Array
    loss: Array
    reached: Array
    unsure: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells on each axis."""
        return tuple(len(one) for one in self.kept)

    def __len__(self) -> int:
        return len(self.log_prior)

    def weigh(self, mixture: Mixture) -> tuple[Array, float]:
        """Return the probability of every cell ``(N,)`` and the log evidence; minus infinity if no loss is finite."""
        potential = mixture.potential(self.loss)
        lowest = float(potential.min())
        if not np.isfinite(lowest):
            return np.zeros(len(self)), -np.inf
        # beside the lowest potential: the potentials of a goal out of reach are so large that the prior would be lost
        log_masses = self.log_prior - (potential - lowest)
        top = float(log_masses.max())
        log_masses -= top
        masses = np.exp(log_masses, out=log_masses)
        total = float(masses.sum())
        masses /= total
        return masses, top + float(np.log(total)) - self._log_prior_mass - lowest

    @cached_property
    def _log_prior_mass(self) -> float:
        """Log of the prior's mass in all cells: zero up to rounding."""
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
        """Return the probabilities of all cells of one column, from those of the grid ``(N,)``."""
        own = np.zeros(len(self.columns[axis].log_mass))
        others = tuple(i for i in range(len(self.kept)) if i != axis)
        own[self.kept[axis]] = masses.reshape(self.shape).sum(axis=others)
        return own

    def draw(self, rng: np.random.Generator, masses: Array, n: int) -> tuple[Array, Array]:
        """Draw cells ``(n,)`` by their probabilities ``(N,)``, and feature values within them ``(n, m)``."""
        upto = np.cumsum(masses)
        where = np.searchsorted(upto, rng.random(n) * upto[-1], side="right")
        where = np.minimum(where, np.flatnonzero(masses > 0)[-1])
        places = np.unravel_index(where, self.shape)
        values = [
            column.draw(rng, kept[place]) for column, kept, place in zip(self.columns, self.kept, places, strict=True)
        ]
        return where, np.column_stack(values)

    def loss_levels(self, masses: Array) -> Array:
        """Return the quantiles ``(K, 1001)`` of each model's loss under probabilities ``(N,)``."""
        some = np.flatnonzero(masses > _NEGLIGIBLE * masses.max())
        levels = np.linspace(0.0, 1.0, TAIL_LEVELS + 1)
        found = np.empty((self.loss.shape[1], len(levels)))
        for k in range(len(found)):
            own = self.loss[some, k]
            order = np.argsort(own, kind="stable")
            upto = np.cumsum(masses[some][order])
            place = np.searchsorted(upto, levels * upto[-1] * (1.0 - ROUNDING), side="left")
            found[k] = own[order][np.minimum(place, len(order) - 1)]
        return found

    @cached_property
    def likeliest(self) -> list[Array]:
        """For each cell of each axis, the value of highest prior probability or density."""
        return [column.likeliest()[kept] for column, kept in zip(self.columns, self.kept, strict=True)]

    def sums(self, numbers: Sequence[Array]) -> Array:
        """Return the sum over axes of per-cell numbers, for every cell of the grid ``(N,)``."""
        return _add_axes(numbers).ravel()


def _add_axes(numbers: Sequence[Array]) -> Array:
    """Add per-axis numbers by broadcasting to the full grid."""
    total = np.zeros(())
    for i, own in enumerate(numbers):
        total = total + np.asarray(own).reshape(-1, *[1] * (len(numbers) - 1 - i))
    return np.asarray(total)


def require_columns(posterior: GibbsPosterior) -> tuple[ColumnDistribution, ...]:
    """Return the prior of every column that can change; raise NotExactError if they are dependent."""
    try:
        distributions = column_distributions(posterior.prior)
    except ValueError as error:
        raise NotExactError(str(error)) from None
    if len(distributions) > _MOST_COLUMNS:
        raise NotExactError(f"{len(distributions)} features can change, more than {_MOST_COLUMNS}")
    return distributions


def build_cell_posterior(
    posterior: GibbsPosterior,
    distributions: Sequence[ColumnDistribution],
    ensembles: Sequence[CellTrees | None],
    most: int,
) -> CellPosterior:
    """Return all cells of a posterior; raise NotExactError if impossible or above ``most`` cells times models."""
    trees = _require_trees(posterior, ensembles)
    prior = posterior.prior
    grids = [Grid(one, one.cells(prior.x0[None, :])[0], prior.free) for one in trees]
    columns, kept, axes = [], [], []
    for distribution in distributions:
        j = distribution.where
        ends = distribution.ends
        if not all(grid.covers(j, *ends) for grid in grids):
            raise NotExactError(f"the thresholds of {prior.space.names[j]!r} are not known over its whole range")
        own = distribution.on(np.unique(np.concatenate([grid.cuts(j, *ends) for grid in grids])))
        some = np.flatnonzero(np.isfinite(own.log_mass))
        tops = np.concatenate([own.edges, [ends[1]], [np.nan] * (len(own.log_mass) > own.n_known)])
        columns.append(own)
        kept.append(some)
        axes.append(Axis(j, tops[some]))
    n = 1
    for axis in axes:  # as Python integers, which cannot overflow
        n *= len(axis.tops)
    if n * len(trees) > most:
        several = f" for {len(trees)} models" if len(trees) > 1 else ""
        raise NotExactError(f"the features that can change have {n:,} cells{several}, more than the limit of {most:,}")
    log_prior = _add_axes([column.log_mass[some] for column, some in zip(columns, kept, strict=True)]).ravel()
    read = [_read_losses(posterior, k, grid, axes) for k, grid in enumerate(grids)]
    loss, reached, unsure = (np.column_stack(part) for part in zip(*read, strict=True))
    return CellPosterior(tuple(columns), tuple(kept), log_prior, loss, reached, unsure)


def _require_trees(posterior: GibbsPosterior, ensembles: Sequence[CellTrees | None]) -> list[CellTrees]:
    """Return the ensembles; raise NotExactError if a model cannot be read."""
    found = []
    for predictor, trees in zip(posterior.predictors, ensembles, strict=True):
        if trees is None:
            budget = ", or the budget is too small to check it" if posterior.budget.limited else ""
            raise NotExactError(f"{predictor.name} is not a tree ensemble that can be read{budget}")
        why = why_unreadable(trees, predictor, posterior.target)
        if why:
            raise NotExactError(why)
        found.append(trees)
    return found


def tolerate_loss(ensembles: Sequence[CellTrees]) -> float:
    """Return by how much a model's loss may differ from that of its cell, relative to one plus the loss."""
    return _SAME_LOSS_SINGLE if any(trees.epsilon > _SINGLE for trees in ensembles) else _SAME_LOSS


class _LossReadings(NamedTuple):
    """Losses, whether the target is reached, and whether rounding decides that, each ``(N,)``."""

    loss: Array
    reached: Array
    unsure: Array


def _read_losses(posterior: GibbsPosterior, k: int, grid: Grid, axes: Sequence[Axis]) -> _LossReadings:
    """Read one model's outputs in every cell against the target."""
    parts = [
        _LossReadings(*one[1:]) for one in read_cell_outputs(grid, axes, posterior.predictors[k], posterior.target)
    ]
    found = _LossReadings(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    if np.isnan(found.loss).any():
        raise NotExactError("the target has a loss that is not a number")
    return found


# --- the sampler -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactInfo(SamplerInfo):
    """Report of exact sums.

    Parameters
    ----------
    cells : int, optional
        Number of cells.
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

    The features that can change are cut at the thresholds of all trees of all models. Losses are constant within a
    cell, so its posterior mass is its prior probability, a product over features, times ``exp(-potential)``. The log
    evidence, success probability, tail, stability, importance and mode are sums over all cells, or the best of them.
    Draws are exact: a cell by its mass, then values within it from the prior.

    It applies to one or several tree ensembles whose cells can be read (scikit-learn, LightGBM, XGBoost, also behind
    scalers and encoders) and to priors under which columns change independently: :class:`gbce.Gaussian` without
    ``cov``, :class:`gbce.Laplace`, :class:`gbce.Sparse` of these; without constraints and computed columns. Anything
    else raises an error. An explainer without a sampler uses it where it applies and there are at most 1,000,000 cells.

    Parameters
    ----------
    n_draws : int
        Number of draws.
    max_cells : int
        Maximum number of cells, times the number of models.

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
        """Sum and draw; models are called for the draws, a few hundred other points, and the best cells.

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
        """Sum and draw like :meth:`sample`, with error messages that are part of a sentence."""
        distributions = require_columns(posterior)
        ensembles = [posterior.read_trees(k) for k in range(len(posterior.predictors))]
        cells = build_cell_posterior(posterior, distributions, ensembles, self.max_cells)
        mixture, met = posterior.mixture, None
        if posterior.goal is not None:
            eta, met = cells.find_eta(mixture, posterior.goal)
            mixture = replace(mixture, eta=eta)
        tolerance = tolerate_loss([trees for trees in ensembles if trees is not None])
        return _ExactRun(posterior, rng, cells, mixture, tolerance).draw(self.n_draws, met)


def sum_if_few(posterior: GibbsPosterior, rng: np.random.Generator) -> Draws | None:
    """Return exact sums if they apply and cells are few; otherwise None, with the generator unchanged."""
    most = _FEW_CELLS if posterior.budget.deadline is None else _HASTY_CELLS
    try:
        return ExactTrees(max_cells=most).sum_up(posterior, deepcopy(rng))
    except NotExactError:
        return None


class _Stratum(NamedTuple):
    """Points drawn at one eta: its mixture and log evidence, cells ``(n,)`` and values ``(n, m)``."""

    mixture: Mixture
    log_evidence: float
    cell: Array
    values: Array


@dataclass
class _ExactRun:
    """One run: all cells at one eta, and points drawn from them.

    ``tolerance`` is by how much a model's loss may differ from that of its cell, relative to one plus the loss.
    """

    posterior: GibbsPosterior
    rng: np.random.Generator
    cells: CellPosterior
    mixture: Mixture
    tolerance: float

    def draw(self, n_draws: int, met: bool | None) -> Draws:
        """Return the draws with the exact figures."""
        masses, log_evidence = self.cells.weigh(self.mixture)
        if not np.isfinite(log_evidence):
            raise NotExactError("no cell has a finite loss")
        first = _Stratum(self.mixture, log_evidence, *self.cells.draw(self.rng, masses, n_draws))
        best, strata = self._fit_budget(self._pick_best_cells(), [first, *self._draw_other_etas(masses)])
        where = np.concatenate([best, *(one.cell for one in strata)])
        values = np.concatenate([self._values_in(best), *(one.values for one in strata)])
        number = np.concatenate([[-1] * len(best), *([t] * len(one.cell) for t, one in enumerate(strata))])
        checked = self._evaluate(values)
        n = len(checked)
        if not (number[:n] == 0).any():
            raise BudgetSpentError("the budget does not allow a single draw: raise max_model_rows or time_budget")
        self._check_cells(checked, where[:n])
        number = number[:n]
        pool, seen = checked.take(number >= 0), checked.take(number < 0)
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
            prior_change=self._mean_changes([np.exp(column.log_mass) for column in self.cells.columns]),
            log_evidence=log_evidence,
            log_evidence_se=0.0,
            rungs=(float(self.mixture.eta),),
            log_base_weights=base,
            info=ExactInfo(goal_met=met, cells=len(self.cells)),
            seen=seen,
            exact=self._compute_figures(masses),
        )

    # --- points -----------------------------------------------------------------------------------------------------

    def _draw_other_etas(self, masses: Array) -> list[_Stratum]:
        """Draw points at smaller etas, down to one close to the prior, and from the prior itself."""
        none = replace(self.mixture, eta=0.0)
        prior, log_prior_mass = self.cells.weigh(none)
        found: list[_Stratum] = []
        while 0.5 * float(np.abs(masses - prior).sum()) > _NEAR_PRIOR and len(found) < _MOST_RUNGS:
            at = replace(self.mixture, eta=self.mixture.eta / _STEP ** (len(found) + 1))
            masses, log_evidence = self.cells.weigh(at)
            found.append(_Stratum(at, log_evidence, *self.cells.draw(self.rng, masses, _RUNG_POINTS)))
        return [*found, _Stratum(none, log_prior_mass, *self.cells.draw(self.rng, prior, _PRIOR_POINTS))]

    def _fit_budget(self, best: Array, strata: list[_Stratum]) -> tuple[Array, list[_Stratum]]:
        """Return fewer points of every kind if the budget does not allow all of them."""
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

    def _make_rows(self, values: Array) -> Array:
        """Return the encoded rows with these values ``(n, m)``."""
        prior = self.posterior.prior
        x = np.tile(prior.x0, (len(values), 1))
        x[:, prior.free] = values
        return prior.space.completed(x, prior.x0)

    def _evaluate(self, values: Array) -> Points:
        """Evaluate the points with these values ``(n, m)``, or the first ones if the budget is short."""
        posterior, x = self.posterior, self._make_rows(values)
        evaluated = []
        try:
            for some in posterior.portions(len(x)):
                evaluated.append(posterior.evaluate(x[some]))
        except BudgetSpentError:  # time ran out earlier than expected: use what there is
            if not evaluated:
                raise
        if not evaluated:
            raise BudgetSpentError("the budget does not allow a single draw: raise max_model_rows or time_budget")
        outputs, loss, reached = (np.concatenate(part) for part in zip(*evaluated, strict=True))
        x = x[: len(loss)]
        z, cost = posterior.prior.locate(x), posterior.prior.cost(x)
        return Points(z, x, outputs, loss, reached, cost=cost, log_correction=np.zeros(len(x)))

    def _check_cells(self, checked: Points, where: Array) -> None:
        """Raise NotExactError if evaluated points differ from their cells in loss or in reaching the target."""
        mine, own = self.cells.loss[where], checked.loss
        with np.errstate(invalid="ignore"):
            same = (np.abs(mine - own) <= self.tolerance * (1.0 + np.abs(own))) | (mine == own)
        same &= (self.cells.reached[where] == checked.reached) | self.cells.unsure[where]
        if not same.all():
            k = int(np.argmin(same.all(axis=0)))
            raise NotExactError(
                f"the trees read from {self.posterior.predictors[k].name} do not reproduce its predictions"
            )

    def _pick_best_cells(self) -> Array:
        """Return the cells of lowest objective and distance for each number of changes, for use by rules."""
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
            found.append(_argmin_where(objective, number == n))
        for values in (objective, cells.sums(sizes), cells.sums([np.square(size) for size in sizes])):
            for reached in verdicts:
                found += [_argmin_where(values, reached & (number == n)) for n in range(len(changed) + 1)]
        return np.unique(np.concatenate(found))

    # --- figures ----------------------------------------------------------------------------------------------------

    def _compute_figures(self, masses: Array) -> ExactFigures:
        """Return all exact figures."""
        cells = self.cells
        marginals = [cells.marginal(masses, axis) for axis in range(len(cells.columns))]
        features = self.posterior.prior.space.features
        potential = self.mixture.potential(cells.loss)
        some = masses > 0
        success, success_se = self._success_probabilities(masses)
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
            change=self._mean_changes(marginals),
        )

    def _mean_changes(self, marginals: Sequence[Array]) -> Array:
        """Return the mean change of each feature ``(d,)`` under probabilities of each column's cells."""
        prior, found = self.posterior.prior, np.zeros(len(self.posterior.prior.x0))
        for column, own in zip(self.cells.columns, marginals, strict=True):
            j = column.distribution.where
            found[j] = column.mean_change(own, prior.space.features[j], float(prior.x0[j]))
        return found

    def _success_probabilities(self, masses: Array) -> tuple[Array, Array]:
        """Return success probabilities ``(K + 2,)`` and errors; models settle cells that rounding leaves open."""
        cells = self.cells
        unsure = np.flatnonzero(cells.unsure.any(axis=1) & (masses > 0))
        size = float(masses[unsure].sum())
        reached, known = cells.reached, np.ones(len(cells), dtype=bool)
        own, error = np.zeros(reached.shape[1] + 2), np.zeros(reached.shape[1] + 2)
        if size > WIDE_ROUNDING:
            known[unsure] = False
            every = len(unsure) <= _MOST_CHECKED
            checked = unsure if every else self.rng.choice(unsure, _MOST_CHECKED, p=masses[unsure] / size)
            verdicts = _add_joint_success(self._evaluate(self._values_in(checked)).reached)
            if every and len(verdicts) == len(unsure):
                own = (masses[unsure, None] * verdicts).sum(axis=0)
            else:
                share, se = share_and_error(verdicts.mean(axis=0), len(verdicts))
                own, error = size * share, size * se
        sure = (masses[known, None] * _add_joint_success(reached[known])).sum(axis=0)
        return np.minimum(sure + own, 1.0), error


def _add_joint_success(reached: Array) -> Array:
    """Append whether all models, and at least half of them, reach the target: ``(n, K)`` to ``(n, K + 2)``."""
    share = reached.mean(axis=1)
    return np.column_stack([reached, share == 1, share >= 0.5]).astype(float)


def _argmin_where(values: Array, among: Array) -> Array:
    """Return the position of the smallest value within a mask, if there is any."""
    where = np.flatnonzero(among)
    return where[[int(np.argmin(values[where]))]] if len(where) else where
