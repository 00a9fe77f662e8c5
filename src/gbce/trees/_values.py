"""What a feature can be within each of its cells."""

from typing import Any

import numpy as np

from gbce.base import Array
from gbce.space import Space
from gbce.trees._cells import CellTrees

__all__ = ["nearest_values"]


def nearest_values(
    trees: CellTrees, space: Space, x0: Array, j: int, limits: tuple[Array, Array] | None = None
) -> Array:
    """Return the value in each cell of a feature that is nearest to a row's, of those that the row may take.

    Parameters
    ----------
    trees : CellTrees
        With the cells.
    space : Space
        With bounds, directions and steps.
    x0 : array of shape (d,)
        The row, encoded.
    j : int
        Which feature.
    limits : tuple of two arrays of shape (d,), optional
        ``space.limits(x0)``, where several features are asked about.

    Returns
    -------
    array of shape (n_cells + 1,)
        As encoded, with as many digits as the column has. NaN for cells that the row cannot get to. The last, the
        missing cell, is NaN always: whether a value may be missing is said by ``space.may_become_missing`` and by the
        row.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce.predictors import look_inside
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 3.0, 4.0, 9.0])
    >>> trees = read_cells(look_inside(model, Space.real(1)), Space.real(1), x)
    >>> nearest_values(trees, Space.real(1), np.array([1.2]), 0).round(3)
    array([0.5, 1.2, 1.5, 2.5, nan])
    """
    edges = trees.edges[j]
    low, high = (float(end[j]) for end in (space.limits(x0) if limits is None else limits))
    now = float(x0[j])
    found = np.full(len(edges) + 2, np.nan)
    if np.isnan(low):  # the value is missing and stays so
        return found
    low, high = max(low, float(trees.low[j])), min(high, float(trees.high[j]))
    bottom, top = trees.spans[j]
    if space.features[j].discrete:
        bottom, top = np.ceil(bottom), np.floor(top)
    bottom, top = np.maximum(bottom, low), np.minimum(top, high)
    if np.isnan(now):  # what it starts from when it becomes known
        centre = space.features[j].centre
        now = float(np.clip(0.0 if centre is None else centre, low, high))
        now = float(np.round(now)) if space.features[j].discrete else now
    found[:-1] = np.where(bottom <= top, np.clip(now, bottom, np.maximum(bottom, top)), np.nan)
    kind = dict(space.low_precision).get(j)
    return found if kind is None else _keep_digits(edges, found, float(x0[j]), low, high, kind)


def _keep_digits(edges: Array, values: Array, now: float, low: float, high: float, kind: np.dtype[Any]) -> Array:
    """Return values that a column of fewer digits can hold, in the same cells; NaN where there is none."""
    cell = np.arange(len(values))
    found = np.full(len(values), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(kind)
        tried = [np.nextafter(near, kind.type(end)) for end in (-np.inf, np.inf)]
    for one in (*tried, near):  # the last that fits is taken
        wide = one.astype(float)
        fits = (np.searchsorted(edges, wide, side="left") == cell) & (wide >= low) & (wide <= high)
        found = np.where(fits & ~np.isnan(wide), wide, found)
    return np.where(values == now, now, found)
