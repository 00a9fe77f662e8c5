"""Gibbs moves on the cells of tree ensembles: every column drawn from its full conditional distribution.

A point is a cell of every column that can change. Losses are constant within cells, so the probability of a cell given
the other columns is its prior mass times ``exp(-potential)``; spikes, levels, limits and missing values are in the
masses. Where constraints link columns, points also have values, and a draw that violates a constraint is rejected: a
Metropolis step whose proposal is the full conditional without the constraints, which leaves the posterior invariant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from gbce._numerics import TINY
from gbce.base import Array, Outputs
from gbce.posterior import GibbsPosterior, Mixture
from gbce.priors import ColumnCells, ColumnDistribution, column_distributions
from gbce.trees._along import CommonCells, StackedTrees, Steps
from gbce.trees._cells import CellTrees, compiled_loops, outputs_of
from gbce.trees._grid import Grid, rounding_shifts
from gbce.trees._sums import NotExactError, _require_trees

_KNOTS = 8_192  # of a table of losses: eta times its error is below 0.01 for all but hopeless scores, and 64 KB
# At an eta where a goal is out of reach, an interval beside the target may hold all that counts: a leaf at the very
# limit of the target was taken for one that misses it, and a mode of e^20 times the mass found was never proposed.
# Beyond the first number a potential does not matter, and below the second the table is as good as exact readings.
_HOPELESS, _MOST_IN_INTERVAL = 50.0, 2.0
_FINITE = 1e100  # stands for an infinite loss in that table
_MOST_TRIED, _LEAST_SHARE = 200, 1e-3  # rounds of rejection, and least share of the prior that meets constraints
_TRIED = 20_000  # points of the prior that estimate that share


@dataclass(frozen=True, eq=False)
class CellPoints:
    """Points on cells: ``n`` points, ``m`` columns that can change, ``S`` scores, ``K`` models.

    ``cells`` ``(n, m)`` counts cells with mass; ``paths`` ``(n, T)`` has the columns on the way to each leaf as bits;
    ``x`` ``(n, d)`` are rows, only kept where constraints link columns.
    """

    cells: Array
    scores: Array
    paths: Array
    loss: Array
    reached: Array
    x: Array | None = None

    _arrays: ClassVar[tuple[str, ...]] = ("cells", "scores", "paths", "loss", "reached")

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, index: Array) -> "CellPoints":
        """Return the points at these positions."""
        x = None if self.x is None else self.x[index]
        return CellPoints(**{name: getattr(self, name)[index] for name in self._arrays}, x=x)

    @classmethod
    def join(cls, parts: "Sequence[CellPoints]") -> "CellPoints":
        """Concatenate points."""
        x = None if parts[0].x is None else np.concatenate([part.x for part in parts if part.x is not None])
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in cls._arrays}, x=x)


class Placed(NamedTuple):
    """Points on given cells, and which of them meet the constraints between columns ``(n,)``."""

    points: CellPoints
    admissible: Array


@dataclass(frozen=True, eq=False)
class CellProblem:
    """A posterior on common cells of all models, ready for draws.

    ``columns`` are the prior in cells of each column, ``kept`` the cells with mass, ``masses`` their probabilities.
    """

    posterior: GibbsPosterior
    ensembles: tuple[CellTrees, ...]
    columns: tuple[ColumnCells, ...]
    kept: tuple[Array, ...]
    masses: tuple[Array, ...]
    trees: StackedTrees
    rounding: tuple[float, ...]  # of each model's scores

    @classmethod
    def build(cls, posterior: GibbsPosterior) -> "CellProblem":
        """Read models and prior; raise NotExactError with a clause that says why if that is not possible."""
        distributions = _read_prior(posterior)
        ensembles = [posterior.read_trees(k) for k in range(len(posterior.predictors))]
        trees = _require_trees(posterior, ensembles)
        if compiled_loops() is None:
            raise NotExactError("numba, which compiles the loops over trees, cannot be imported")
        prior = posterior.prior
        grids = [Grid(one, one.cells(prior.x0[None, :])[0], prior.free) for one in trees]
        columns, kept, common = [], [], []
        for distribution in distributions:
            j, ends = distribution.where, distribution.ends
            if not all(grid.covers(j, *ends) for grid in grids):
                raise NotExactError(f"the thresholds of {prior.space.names[j]!r} are not known over its whole range")
            own = distribution.on(np.unique(np.concatenate([grid.cuts(j, *ends) for grid in grids])))
            some = np.flatnonzero(np.isfinite(own.log_mass))
            tops = np.concatenate([own.edges, [ends[1]], [np.nan] * (len(own.log_mass) > own.n_known)])[some]
            columns.append(own)
            kept.append(some)
            common.append(CommonCells(tuple(_find_own(one, j, tops) for one in trees), int((some < own.n_known).sum())))
        masses = tuple(_normalised(own.log_mass[some]) for own, some in zip(columns, kept, strict=True))
        stacked = StackedTrees.stack(trees, prior.x0, prior.free, common)
        rounding = tuple(grid.rounding for grid in grids)
        return cls(posterior, tuple(trees), tuple(columns), tuple(kept), masses, stacked, rounding)

    # --- losses -----------------------------------------------------------------------------------------------------

    def outputs(self, scores: Array) -> list[Outputs]:
        """Return the outputs of every model for scores ``(n, S)``."""
        pairs = zip(self.ensembles, self.posterior.predictors, strict=True)
        return [outputs_of(trees, model, self.trees.scores_of(k, scores)) for k, (trees, model) in enumerate(pairs)]

    def read(self, scores: Array) -> tuple[Array, Array]:
        """Return losses and verdicts of all models, each ``(n, K)``, for scores ``(n, S)``."""
        readings = [self.posterior.target.read(outputs) for outputs in self.outputs(scores)]
        loss = np.column_stack([np.asarray(one.loss, dtype=float) for one in readings])
        if np.isnan(loss).any():
            raise NotExactError("the target has a loss that is not a number")
        return loss, np.column_stack([one.reached for one in readings])

    @cached_property
    def _table(self) -> tuple[float, float, Array] | None:
        """Losses at equally spaced scores of a single model with one score: lowest score, scores per unit, losses."""
        if self.trees.ends.shape[1] != 1:
            return None
        low, high = (float(end[0]) for end in self.trees.ends)
        if not high > low:
            return None
        loss = self.read(np.linspace(low, high, _KNOTS)[:, None])[0][:, 0]
        return low, (_KNOTS - 1) / (high - low), np.clip(loss, -_FINITE, _FINITE)

    def _interpolates(self, mixture: Mixture) -> bool:
        """Whether there is a table, and at this eta no interval of it that matters spans too much of the potential."""
        if self._table is None:
            return False
        table = self._table[2]
        matters = np.minimum(table[:-1], table[1:]) <= table.min() + _HOPELESS / max(mixture.eta, TINY)
        return bool(mixture.eta * np.abs(np.diff(table))[matters].max(initial=0.0) <= _MOST_IN_INTERVAL)

    def _interpolate_loss(self, scores: Array) -> Array:
        """Return interpolated losses ``(n,)``."""
        assert self._table is not None
        low, per_unit, table = self._table
        found, loops = np.empty(len(scores)), compiled_loops()
        assert loops is not None
        loops.interpolate(scores, low, per_unit, table, found)
        return found

    # --- draws ------------------------------------------------------------------------------------------------------

    def draw_prior(self, rng: np.random.Generator, n: int) -> CellPoints:
        """Draw points from the prior, by rejection where constraints link columns."""
        if not self.posterior.prior.conditional:
            return self._evaluate(self._draw_cells(rng, n))
        cells, rows, have, tried = [], [], 0, 0
        while have < n:
            some = self._draw_cells(rng, n)
            x = self.draw_rows(rng, some)
            fits = self.posterior.prior.space.admissible(x, self.posterior.prior.x0)
            cells.append(some[fits])
            rows.append(x[fits])
            have, tried = have + int(fits.sum()), tried + n
            if have < n and (have + 1) / tried < _LEAST_SHARE and tried >= _MOST_TRIED * n:
                raise NotExactError("hardly any point of the prior meets the constraints")
        return self._evaluate(np.concatenate(cells)[:n], np.concatenate(rows)[:n])

    def place(self, rng: np.random.Generator, cells: Array) -> Placed:
        """Return points on cells ``(n, m)``, with rows drawn in them where constraints link columns."""
        prior = self.posterior.prior
        if not prior.conditional:
            return Placed(self._evaluate(cells), np.ones(len(cells), dtype=bool))
        x = self.draw_rows(rng, cells)
        return Placed(self._evaluate(cells, x), np.asarray(prior.space.admissible(x, prior.x0)))

    @cached_property
    def log_admissible(self) -> float:
        """Log of the share of the prior that meets the constraints between columns, estimated where there are any."""
        if not self.posterior.prior.conditional:
            return 0.0
        rng = np.random.default_rng(0)
        return float(np.log(self.place(rng, self._draw_cells(rng, _TRIED)).admissible.mean()))

    def cells_of(self, x: Array) -> Array:
        """Return the cells ``(n, m)`` of rows ``(n, d)``; values without mass have the cell of the row instead."""
        prior, found = self.posterior.prior, np.empty((len(x), len(self.masses)), dtype=np.int32)
        for i, (column, kept) in enumerate(zip(self.columns, self.kept, strict=True)):
            values = np.append(x[:, prior.free[i]], prior.x0[prior.free[i]])
            own = np.where(np.isnan(values), column.n_known, np.searchsorted(column.edges, values, side="left"))
            at = np.minimum(np.searchsorted(kept, own), len(kept) - 1)
            at = np.where(kept[at] == own, at, at[-1])
            found[:, i] = at[:-1]
        return found

    def _draw_cells(self, rng: np.random.Generator, n: int) -> Array:
        """Draw cells ``(n, m)`` of every column by their prior masses."""
        cells = np.empty((n, len(self.masses)), dtype=np.int32)
        for i, mass in enumerate(self.masses):
            upto = np.cumsum(mass)
            cells[:, i] = np.minimum(np.searchsorted(upto, rng.random(n) * upto[-1], side="right"), len(mass) - 1)
        return cells

    def _evaluate(self, cells: Array, x: Array | None = None) -> CellPoints:
        """Return points with their scores, summed anew, and what the target says.

        Where rounding decides, as for votes that tie, the target counts as missed: at a decision's own probability a
        twentieth of the draws may tie, and a model that resolves them the other way would miss the goal for eta.
        """
        scores, paths = self.trees.follow(cells)
        loss, reached = self.read(scores)
        for k, rounding in enumerate(self.rounding):
            own, trees, predictor = self.trees.scores_of(k, scores), self.ensembles[k], self.posterior.predictors[k]
            for shift in rounding_shifts(own.shape[1], rounding):
                shifted = self.posterior.target.read(outputs_of(trees, predictor, own + shift))
                reached[:, k] &= np.asarray(shifted.reached)
        return CellPoints(cells, scores, paths, loss, reached, x)

    def draw_rows(self, rng: np.random.Generator, cells: Array) -> Array:
        """Draw rows ``(n, d)`` from the prior within cells ``(n, m)``."""
        prior = self.posterior.prior
        x = np.tile(prior.x0, (len(cells), 1))
        for i, (column, kept) in enumerate(zip(self.columns, self.kept, strict=True)):
            x[:, prior.free[i]] = column.draw(rng, kept[cells[:, i]])
        return prior.space.completed(x, prior.x0)

    def sweep(self, rng: np.random.Generator, points: CellPoints, mixture: Mixture) -> CellPoints:
        """Draw every column of every point once, in random order."""
        now = replace(points, cells=points.cells.copy(), paths=points.paths.copy())
        for column in rng.permutation(len(self.masses)):
            now = self._draw_column(rng, int(column), now, mixture)
        return self._evaluate(now.cells, now.x)  # rounding does not add up over sweeps

    def _draw_column(self, rng: np.random.Generator, column: int, now: CellPoints, mixture: Mixture) -> CellPoints:
        """Draw one column of every point from its full conditional."""
        mass, cells = self.masses[column], now.cells[:, column].copy()
        steps = self.find_steps(column, now)
        chosen = np.full(len(now), -1, dtype=np.int64)
        loops = compiled_loops()
        assert loops is not None
        potential = self.potential(steps, mixture)
        loops.pick_cells(mass, rng.random(len(now)), steps.starts, steps.first, steps.masses, potential, cells, chosen)
        accepted = chosen >= 0
        scores = np.where(accepted[:, None], steps.scores[chosen], now.scores)
        interpolates = self._interpolates(mixture)
        loss, reached = self.read(scores) if interpolates else (now.loss, now.reached)
        if interpolates:  # the proposal is approximate, by a table: a Metropolis step makes it exact
            new = mixture.eta * (loss[:, 0] - self._interpolate_loss(scores))
            old = mixture.eta * (now.loss[:, 0] - self._interpolate_loss(now.scores))
            with np.errstate(invalid="ignore"):  # from one infinite loss to another: not accepted
                accepted &= np.log1p(-rng.random(len(now))) <= old - new
        x = now.x
        if x is not None:
            proposed, fits = self._move_rows(rng, column, x, cells)
            accepted &= fits
            x = np.where(accepted[:, None], proposed, x)
        moved = accepted & (cells != now.cells[:, column])
        now.cells[moved, column] = cells[moved]
        self.trees.renew_paths(column, moved, now.cells, now.paths)
        keep = accepted[:, None]
        return CellPoints(
            now.cells,
            np.where(keep, scores, now.scores),
            now.paths,
            np.where(keep, loss, now.loss),
            np.where(keep, reached, now.reached),
            x,
        )

    def find_steps(self, column: int, points: CellPoints) -> Steps:
        """Return the steps along a column of points."""
        return self.trees.find_steps(column, self.masses[column], points.cells, points.scores, points.paths)

    def potential(self, steps: Steps, mixture: Mixture) -> Array:
        """Return the potential of every step, from a table of losses where there is one."""
        if self._interpolates(mixture):
            return mixture.eta * self._interpolate_loss(steps.scores)
        return mixture.potential(self.read(steps.scores)[0])

    def _move_rows(self, rng: np.random.Generator, column: int, x: Array, cells: Array) -> tuple[Array, Array]:
        """Return rows with one column drawn within new cells ``(n,)``, and which of them meet the constraints."""
        prior, moved = self.posterior.prior, x.copy()
        moved[:, prior.free[column]] = self.columns[column].draw(rng, self.kept[column][cells])
        moved = prior.space.completed(moved, prior.x0)
        return moved, prior.space.admissible(moved, prior.x0)


def _read_prior(posterior: GibbsPosterior) -> tuple[ColumnDistribution, ...]:
    """Return the prior of every column that can change, before constraints; raise NotExactError if it has none."""
    prior = posterior.prior
    try:
        if prior.space.computed:
            raise ValueError("computed columns link columns")
        bare = replace(prior, space=replace(prior.space, constraints=())) if prior.space.constraints else prior
        return column_distributions(bare)
    except ValueError as error:
        raise NotExactError(str(error)) from None


def _find_own(trees: CellTrees, j: int, tops: Array) -> Array:
    """Return a model's own cells of feature ``j`` at the upper ends ``(n,)`` of common ones; NaN is the missing one."""
    own = np.searchsorted(trees.edges[j], tops, side="left")
    return np.where(np.isnan(tops), len(trees.edges[j]) + 1, own)


def _normalised(log_mass: Array) -> Array:
    """Return probabilities."""
    mass = np.exp(log_mass)
    return np.asarray(mass / mass.sum())
