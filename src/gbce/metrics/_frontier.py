"""The cost-reliability frontier: for each reliability, the cheapest point that attains it."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from gbce._numerics import WEIGHT_ROUNDING
from gbce.base import Array
from gbce.space import Space

__all__ = ["costs", "frontier_table", "near_front", "pareto_front", "positions_at_levels"]

_DIGITS = 12  # of a printed reliability: as many as rounding leaves to a sum of weights


def costs(space: Space, x: Array, x0: Array, distance: str) -> Array:
    """Return the cost ``(n,)`` of points ``(n, d)``: their distance to the row in units of each feature's scale.

    A sum of changes leaves out computed columns, which follow from the others: nobody has to change them.
    """
    if distance == "l2":
        return space.distance(x, x0)
    if distance == "l1":
        return np.asarray((space.change(x, x0) / space.scale)[:, ~space.is_computed].sum(axis=1))
    raise ValueError(f"distance must be 'l2' or 'l1', not {distance!r}")


def pareto_front(reliability: Array, cost: Array) -> Array:
    """Return positions of the points that no cheaper or equally cheap point matches, from the cheapest on.

    Reliability rises along them, and so does cost. A point that never succeeds is none of them.
    """
    order = np.lexsort((-reliability, cost))
    so_far = np.maximum.accumulate(np.append(0.0, reliability[order]))[:-1]
    return order[reliability[order] > so_far + WEIGHT_ROUNDING]


def near_front(reliability: Array, cost: Array, n: int, most: int) -> Array:
    """Return positions of points that may be on the front, where reliability is a share of ``n`` noisy trials.

    A point is kept if it lies at most one standard error below the best of the cheaper ones; of more than ``most``
    points, the most promising.
    """
    order = np.lexsort((-reliability, cost))
    share = reliability[order]
    so_far = np.maximum.accumulate(np.append(0.0, share))[:-1]
    error = np.sqrt(share * (1 - share) / n)
    excess = share + error - so_far
    kept = np.flatnonzero((excess > WEIGHT_ROUNDING) & (share > 0))
    if len(kept) > most:
        # in units of its error, those better than all cheaper ones first: points of middling reliability have the
        # largest errors, and would crowd out the reliable ones
        promise = excess[kept] / (error[kept] + 1.0 / n)
        kept = np.sort(kept[np.argsort(-promise, kind="stable")[:most]])
    return order[kept]


def positions_at_levels(reliability: Array, levels: Sequence[float] | None) -> Array:
    """Return positions along a front of rising reliability: the first that attains each level; all without levels."""
    if levels is None:
        return np.arange(len(reliability))
    wanted = np.atleast_1d(np.asarray(levels, dtype=float))
    if wanted.ndim != 1 or not ((wanted > 0) & (wanted <= 1)).all():
        raise ValueError(f"levels must be probabilities above 0 and at most 1, not {levels!r}")
    found = np.searchsorted(reliability, np.sort(wanted) - WEIGHT_ROUNDING)
    return np.unique(found[found < len(reliability)])


def frontier_table(space: Space, x: Array, reliability: Array, figures: Mapping[str, Array]) -> pd.DataFrame:
    """Return a front as a table: figures such as ``distance`` by reliability, then the rows in the user's columns."""
    rows = space.frame(x)
    taken = {str(name) for name in rows.columns}
    named = {name + "_" * (name in taken): values for name, values in figures.items()}
    index = pd.Index(np.round(reliability, _DIGITS), name="reliability", dtype=float)
    return pd.concat([pd.DataFrame(named, index=index), rows.set_axis(index)], axis=1)
