"""Exact posteriors of tree ensembles: sums over the cells of the features that can move, and draws out of them."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import share_and_error
from gbce._validation import require_counts
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, ExactFigures, Points, SamplerInfo
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._cells import CellPosterior, NotExactError, lay_out, require_columns
from gbce.samplers._importance import N_DRAWS

__all__ = ["ExactInfo", "ExactTrees", "NotExactError", "sum_if_few"]

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

    n_draws: int = N_DRAWS
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
        laws = require_columns(posterior)
        ensembles = [posterior.read_trees(k) for k in range(len(posterior.predictors))]
        cells = lay_out(posterior, laws, ensembles, self.max_cells)
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
                column.variance(own, features[column.law.where])
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
            j = column.law.where
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
