"""Choose k of many candidates so that rows are served at least cost: one after the other, or the best k.

What an action is worth to a row is ``worth - cost`` where it serves it, and nothing where it does not; a set of actions
is worth to each row what its best member is. This is a facility location objective: monotone and submodular. Adding the
best action each time therefore reaches at least ``1 - 1/e`` of the best total for any k (Nemhauser, Wolsey and Fisher,
1978), and ``total + the k largest gains left`` is an upper bound of that best. The best k is a mixed-integer program.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, hstack, vstack

from gbce.base import Array

__all__ = ["MOST_PAIRS", "Cover", "choose_best", "gains_of", "pick_next", "upper_bound", "values_of"]

MOST_PAIRS = 200_000  # of rows and actions in one program; by hand: HiGHS then takes seconds, not minutes
_ROUNDING = 1e-9  # relative differences of totals that are rounding


def values_of(cost: Array, worth: Array | float) -> Array:
    """Return what each action is worth to each row ``(n, m)``, from costs that are infinite where it does not serve."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(cost), np.maximum(worth - np.where(np.isfinite(cost), cost, 0.0), 0.0), 0.0)


def gains_of(values: Array, best: Array, weights: Array) -> Array:
    """Return how much each action ``(m,)`` adds to what rows have from the best so far ``(n,)``."""
    return weights @ np.maximum(values - best[:, None], 0.0)


def pick_next(values: Array, best: Array, weights: Array, groups: Array | None = None) -> int:
    """Return the action that adds most; with groups ``(n,)``, from zero, to the group that is served least so far."""
    total = gains_of(values, best, weights)
    if groups is None:
        return int(np.argmax(total))
    share = np.bincount(groups, weights * (best > 0)) / np.maximum(np.bincount(groups, weights), 1e-300)
    for group in np.argsort(share, kind="stable"):
        own = gains_of(values, best, weights * (groups == group))
        if own.max(initial=0.0) > 0:
            return int(np.lexsort((-total, -own))[0])
    return int(np.argmax(total))


def upper_bound(values: Array, best: Array, weights: Array, k: int) -> float:
    """Return a bound on the total of any ``k`` actions: the total so far and the ``k`` largest gains left."""
    left = np.sort(gains_of(values, best, weights))[::-1][:k]
    return float(weights @ best + left.sum())


class Cover(NamedTuple):
    """The best set: its positions, its total, and whether the solver proved it."""

    chosen: Array
    total: float
    proved: bool


def choose_best(values: Array, k: int, weights: Array, groups: Array | None = None, *, seconds: float = 60.0) -> Cover:
    """Return the ``k`` actions of most worth; with groups ``(n,)``, of those that serve the least served one most."""
    n, m = values.shape
    rows, columns = np.nonzero(values > 0)
    if len(rows) > MOST_PAIRS:
        raise ValueError(
            f"{len(rows):,} pairs of a row and an action that serves it are too many for an exact choice; "
            f"{MOST_PAIRS:,} is the limit. Leave out exact=True, or give fewer rows or max_candidates."
        )
    p = len(rows)
    pairs = np.arange(p)
    # y_a for actions, z for pairs, and t, the least share of a group, if there are groups
    one_each = coo_array((np.ones(p), (rows, m + pairs)), shape=(n, m + p))
    signs = np.r_[np.ones(p), -np.ones(p)]
    opened = coo_array((signs, (np.r_[pairs, pairs], np.r_[m + pairs, columns])), shape=(p, m + p))
    at_most_k = coo_array((np.ones(m), (np.zeros(m, dtype=int), np.arange(m))), shape=(1, m + p))
    blocks = [
        LinearConstraint(csr_array(vstack([one_each, opened, at_most_k])), -np.inf, np.r_[np.ones(n), np.zeros(p), k])
    ]
    objective = np.r_[np.zeros(m), -weights[rows] * values[rows, columns]]
    upper = np.ones(m + p)
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
        share = 1.0 / np.bincount(groups)
        served = coo_array((-share[groups[rows]], (groups[rows], m + pairs)), shape=(len(share), m + p))
        least = csr_array(np.ones((len(share), 1)))
        blocks = [
            LinearConstraint(hstack([blocks[0].A, csr_array((n + p + 1, 1))]), -np.inf, blocks[0].ub),
            LinearConstraint(hstack([served, least]), -np.inf, 0.0),
        ]
        fair = _solve(np.r_[np.zeros(m + p), -1.0], blocks, np.r_[upper, 1.0], m, seconds)
        objective, upper = np.r_[objective, 0.0], np.r_[upper, 1.0]
        floor = np.zeros(m + p + 1)
        floor[-1] = max(-fair.fun - _ROUNDING, 0.0)
        found = _solve(objective, blocks, upper, m, seconds, floor)
    else:
        found = _solve(objective, blocks, upper, m, seconds)
    chosen = np.flatnonzero(found.x[:m] > 0.5)
    total = float(weights @ values[:, chosen].max(axis=1, initial=0.0))
    return Cover(chosen, total, bool(found.status == 0))


def _solve(
    objective: Array, blocks: list[LinearConstraint], upper: Array, m: int, seconds: float, lower: Array | None = None
) -> Any:
    """Minimise a linear objective over ``m`` binary variables and others between zero and one."""
    integral = np.zeros(len(objective))
    integral[:m] = 1
    low = np.zeros(len(objective)) if lower is None else lower
    found = milp(
        objective, constraints=blocks, bounds=Bounds(low, upper), integrality=integral,
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )  # fmt: skip
    if found.x is None:
        raise RuntimeError(f"no exact choice within {seconds:g} s: leave out exact=True, or give fewer rows")
    return found
