"""What a row can become, cell by cell, and what each cell costs at least."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array
from gbce.space import Space
from gbce.trees import CellTrees, nearest_values

__all__ = ["Offer", "make_offers"]


@dataclass(frozen=True, eq=False)
class Offer:
    """The cells of one feature that a row can get to: ``k`` of them, in rising order, the missing one last.

    Parameters
    ----------
    feature : int
        Its position.
    cells : int array of shape (k,)
        As :class:`gbce.trees.CellTrees` counts them.
    values : array of shape (k,)
        What of each cell is nearest to the row; NaN for the missing one.
    price : array of shape (k,)
        Of that value, or less. Zero for the row's own cell.
    changed : bool array of shape (k,)
        Whether that value counts as a change.
    own : int
        Position of the row's own cell among them.
    gap : bool
        Whether the last of them is the missing cell, and not the only one.
    """

    feature: int
    cells: Array
    values: Array
    price: Array
    changed: Array
    own: int
    gap: bool


def make_offers(trees: CellTrees, space: Space, x0: Array, distance: str) -> list[Offer] | None:
    """Return what every feature offers; None where that, or its price, is not known.

    Parameters
    ----------
    trees : CellTrees
        With the cells.
    space : Space
        With limits, steps and units.
    x0 : array of shape (d,)
        The row, encoded.
    distance : {"l1", "l2", "changes"}
        What is added up over features: changes in units of scales, their squares, or how many there are.

    Notes
    -----
    Rules between columns are left out, and what is computed from others may be anything at no price: both only make
    more rows possible than there are, so that a bound for these holds for all rows.
    """
    low, high = space.limits(x0)
    known = ~np.isnan(low)
    if (known & ((low < trees.low) | (high > trees.high)) & np.isin(np.arange(len(x0)), trees.used)).any():
        return None
    if (space.discrete & (x0 != np.round(x0)) & ~np.isnan(x0)).any():
        return None
    offers = []
    own_cells = trees.cells(x0[None, :])[0]
    for j in range(len(space)):
        offer = _free(trees, own_cells, j) if space.is_computed[j] else _priced(trees, space, x0, j, distance)
        if offer is None:
            return None
        offers.append(offer)
    return offers


def _free(trees: CellTrees, own: Array, j: int) -> Offer | None:
    """Return any known cell at no price; None where the row's own is missing."""
    cells = np.arange(trees.n_cells[j])
    zero = np.zeros(len(cells))
    if own[j] == len(cells):
        return None
    return Offer(j, cells, np.full(len(cells), np.nan), zero, zero > 0, int(own[j]), False)


def _priced(trees: CellTrees, space: Space, x0: Array, j: int, distance: str) -> Offer | None:
    values = nearest_values(trees, space, x0, j)
    cells = np.flatnonzero(~np.isnan(values))
    gap = bool(np.isnan(x0[j]) or space.may_become_missing[j])
    if np.isnan(x0[j]) and len(cells) and distance == "l2":  # the price then hangs on more than the cell
        return None
    if gap:
        cells = np.append(cells, len(values) - 1)
    rows = np.repeat(x0[None, :], len(cells), axis=0)
    rows[:, j] = values[cells]
    changed = space.changed(rows, x0)[:, j]
    if distance == "changes":
        price = changed.astype(float)
    elif distance == "l2":
        price = space.distance(rows, x0) ** 2
    else:
        price = (space.change(rows, x0) / space.scale)[:, j]
    price = np.where(changed, price, 0.0)  # what is no change but for rounding costs nothing
    own = np.flatnonzero(price == 0)
    mine = int(trees.cells(x0[None, :])[0, j])
    at = np.flatnonzero(cells == mine)
    if len(own) == 0 or len(at) == 0 or price[at[0]] != 0:
        return None
    return Offer(j, cells, values[cells], price, changed, int(at[0]), gap and len(cells) > 1)
