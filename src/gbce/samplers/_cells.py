"""A posterior on cells: where every tree of every model is constant, masses are products and sums."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.draws import TAIL_LEVELS
from gbce.eta import STEEPEST, Solved, solve_eta_among
from gbce.posterior import EtaGoal, GibbsPosterior, Mixture
from gbce.priors import ColumnCells, ColumnLaw, column_laws
from gbce.trees import Axis, CellTrees, Grid, read_verdicts, why_unreadable

__all__ = ["CellPosterior", "NotExactError", "lay_out", "require_columns"]

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


def require_columns(posterior: GibbsPosterior) -> tuple[ColumnLaw, ...]:
    """Return the law of every column that can move, or say why they are none; it takes no look at a model."""
    try:
        laws = column_laws(posterior.prior)
    except ValueError as error:
        raise NotExactError(str(error)) from None
    if len(laws) > _MOST_COLUMNS:
        raise NotExactError(f"{len(laws)} features can change, more than {_MOST_COLUMNS}")
    return laws


def lay_out(
    posterior: GibbsPosterior, laws: Sequence[ColumnLaw], ensembles: Sequence[CellTrees | None], most: int
) -> CellPosterior:
    """Lay out the cells of a posterior, at most ``most`` times the number of models.

    Parameters
    ----------
    posterior : GibbsPosterior
        What to sum.
    laws : sequence of m ColumnLaw
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
    for law in laws:
        j = law.where
        ends = law.ends
        if not all(grid.covers(j, *ends) for grid in grids):
            raise NotExactError(f"the thresholds of {prior.space.names[j]!r} are not known as far as it may move")
        own = law.on(np.unique(np.concatenate([grid.cuts(j, *ends) for grid in grids])))
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
    parts = [_Read(*one[1:]) for one in read_verdicts(grid, axes, posterior.predictors[k], posterior.target)]
    found = _Read(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    if np.isnan(found.loss).any():
        raise NotExactError("the target has a loss that is not a number")
    return found
