"""An explanation's pool of evaluated points: what tables and pictures read off it, and letting it go afterwards."""

from collections.abc import Sequence

import numpy as np

from gbce._numerics import weighted_quantile
from gbce.base import Array
from gbce.draws import PRIOR_LEVELS, Draws, PoolRecord
from gbce.metrics._diagnostics import Diagnosis
from gbce.metrics._distributional import figures, importance
from gbce.metrics._frontier import costs
from gbce.posterior import Mixture
from gbce.space import Space

__all__ = ["let_pool_go", "prior_moves", "prior_shares", "signed_changes"]

# Points that are kept though they were not drawn, chosen by hand: what rules that look at every evaluated point choose
# from, for each number of changed features.
_BEST_EACH = 10  # of least objective, and of least loss
_NEAREST_EACH = 5  # that reach the target, by each distance
_MOST_CHANGES = 20  # beyond which numbers of changes are not told apart


def signed_changes(space: Space, x: Array, x0: Array, columns: slice = slice(None)) -> Array:
    """Signed changes ``(n, d)`` of points from a row in units of each feature's scale; a changed category, upwards.

    Of some ``columns`` only, where all of them are not needed.
    """
    x, x0 = x[:, columns], x0[columns]
    unordered = np.array([feature.unordered for feature in space.features[columns]])
    with np.errstate(invalid="ignore"):
        side = np.where(unordered | np.isnan(x - x0), 1.0, np.sign(x - x0))
    return np.asarray(side * space.change(x, x0, columns=columns) / space.scale[columns])


def prior_shares(draws: Draws, space: Space, j: int) -> Array:
    """How probable each level of feature ``j`` is under the prior, and last that it is missing."""
    if draws.record is not None:
        return draws.record.prior_shares[j]
    n, x = len(space.features[j].levels or ()), draws.pool.x[:, j]
    codes = np.where(np.isnan(x), n, x).astype(int)
    return np.bincount(codes, draws.prior_weights, minlength=n + 1)


def prior_moves(draws: Draws, space: Space, x0: Array, j: int, levels: Sequence[float] | Array) -> Array:
    """Quantiles ``(q,)`` of feature ``j``'s signed change under the prior; of a category, the probability of a change.

    Where the pool was let go, a quantile that was not kept is found between its neighbours.
    """
    if draws.record is not None:
        return _between(draws.record.prior_moves[:, j], np.asarray(levels))
    moves, weights = signed_changes(space, draws.pool.x, x0, slice(j, j + 1))[:, 0], draws.prior_weights
    if space.features[j].unordered:
        return np.full(len(levels), weights @ moves)
    return np.array([weighted_quantile(moves, weights, q) for q in levels])


def _between(kept: Array, levels: Array) -> Array:
    """Return kept quantiles at other levels, and exactly those that were kept."""
    near = np.abs(PRIOR_LEVELS[:, None] - levels).argmin(axis=0)
    return np.where(np.isclose(PRIOR_LEVELS[near], levels), kept[near], np.interp(levels, PRIOR_LEVELS, kept))


def let_pool_go(
    draws: Draws,
    mixture: Mixture,
    space: Space,
    x0: Array,
    alpha: float,
    models: tuple[str, ...],
    free: tuple[str, ...],
) -> Draws:
    """Return the draws without the pool, with a record of what tables and pictures read off it.

    A few points that were not drawn are kept, so that rules choose as before: the best ones, and the nearest that reach
    the target.
    """
    if draws.record is not None:
        return draws
    found = figures(draws, space, x0, alpha, models)
    moved, diagnosis = importance(draws, space, x0), Diagnosis.of(draws, mixture, free)
    worst, worst_of = draws.worst_ess
    record = PoolRecord(
        n_evaluated=len(draws.pool),
        ess=draws.ess,
        worst_ess=worst,
        worst_of=worst_of,
        pareto_k=diagnosis.pareto_k,
        expected_potential=diagnosis.expected_potential,
        figures=tuple(
            (name.measure, name.model, one.value, one.se, *(one.interval or (None, None)))
            for name, one in found.items()
        ),
        change=moved["change"].to_numpy(),
        change_se=moved["se"].to_numpy(),
        prior_shares=tuple(
            prior_shares(draws, space, j) if feature.levels is not None else np.zeros(0)
            for j, feature in enumerate(space.features)
        ),
        prior_moves=np.column_stack([prior_moves(draws, space, x0, j, PRIOR_LEVELS) for j in range(len(space))]),
    )
    return draws.let_pool_go(record, _notable(draws, mixture, space, x0))


def _notable(draws: Draws, mixture: Mixture, space: Space, x0: Array) -> Array:
    """Positions of points that a rule may choose though they were not drawn."""
    pool = draws.pool
    fits = np.isfinite(pool.log_correction)
    changed = np.minimum(space.changed(pool.x, x0).sum(axis=1), _MOST_CHANGES)
    heights = (mixture.objective(pool.loss, pool.cost), pool.loss[:, 0])
    nearness = tuple(costs(space, pool.x, x0, distance) for distance in ("l1", "l2"))
    chosen = []
    for n in np.unique(changed[fits]):
        own = fits & (changed == n)
        chosen += [_first(height, own, _BEST_EACH) for height in heights]
        for reached in (pool.reached[:, 0], pool.reached.all(axis=1)):
            chosen += [_first(cost, own & reached, _NEAREST_EACH) for cost in nearness]
    return np.unique(np.concatenate([np.zeros(0, dtype=int), *chosen]))


def _first(values: Array, among: Array, n: int) -> Array:
    """Positions of the ``n`` smallest values among those of a mask."""
    where = np.flatnonzero(among)
    return where[np.argsort(values[where], kind="stable")[:n]]
