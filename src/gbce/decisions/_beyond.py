"""Points beyond the draws: steps from a chosen point as good candidates differ, and back towards the row."""

from collections.abc import Callable

import numpy as np

from gbce.base import Array
from gbce.draws import Scene
from gbce.posterior import GibbsPosterior
from gbce.search import StepsFromRow

__all__ = ["propose_around", "propose_nearer", "thin_out"]

# Chosen by hand. On the cases of benchmarks/races.py, moving all features at once, or a single one half of the time,
# gained about as much.
_BACK = 3  # one of so many proposals goes towards the row
_LENGTHS = np.array([0.25, 0.5, 1.0])  # of a difference of two good candidates, or of the way to the row
_MOVING = 0.5  # of the free features, in each proposal, and at least one
_PARTS = np.array([0.5, 0.7, 0.8, 0.9, 0.95])  # of the way from the row that all changes together are drawn back to


def propose_around(scene: Scene, posterior: GibbsPosterior, x: Array, field: Array, n: int, size: float) -> Array:
    """Return at most ``n`` admissible points ``(k, d)`` around ``x`` ``(d,)``.

    Most differ from it by a part of what two good candidates differ by (differential evolution; Storn and Price,
    1997), so that steps have the lengths and the directions of the region where candidates are good; a category takes
    the level of one of them. The others are on the way to the row. None costs more than every one of the ``field``
    ``(m, d)``: what is better is sought among points as probable under the prior as the draws.
    """
    rng, space, free, x0 = scene.rng, scene.space, scene.free, scene.x0
    if len(free) == 0 or len(field) == 0:
        return np.zeros((0, len(x)))
    one, other = field[rng.integers(len(field), size=(2, n))][:, :, free]
    back = np.arange(n)[:, None] % _BACK == 0
    step = np.where(back, (x0 - x)[free], one - other) * rng.choice(_LENGTHS, size=(n, 1)) * size
    level = np.where(back, x0[free], one)
    moving = rng.random((n, len(free))) < _MOVING
    moving[np.arange(n), rng.integers(len(free), size=n)] = True
    to = np.where(space.unordered[free], level, x[free] + step)
    rows = np.tile(x, (n, 1))
    rows[:, free] = np.where(moving & ~np.isnan(to), to, x[free])
    rows = space.project(rows, x0)
    good = space.admissible(rows, x0) & space.changed(rows, x).any(axis=1)
    rows = np.unique(rows[good], axis=0)
    return rows[posterior.prior.cost(rows) <= posterior.prior.cost(field).max()] if len(rows) else rows


def propose_nearer(
    scene: Scene, x: Array, n: int, cost: Callable[[Array], Array], tidy: Callable[[Array], Array]
) -> Array:
    """Return at most ``n`` admissible points ``(k, d)`` that cost less than ``x`` ``(d,)``, the cheapest first.

    One change is drawn back, in part or altogether; or one is given up for going further with another; or all are drawn
    back in part. Of more than ``n`` such points some are taken that are much cheaper and some that are a little.
    Each is made ``tidy`` before its ``cost`` is compared.
    """
    space, x0 = scene.space, scene.x0
    limits = np.column_stack(space.limits(x0))
    steps = StepsFromRow(space, x0, {int(j): limits[j] for j in scene.free})
    with np.errstate(invalid="ignore"):
        drawn = x0 + _PARTS[:, None] * (x - x0)
    drawn = space.project(np.where(space.unordered | np.isnan(drawn), x, drawn), x0)
    drawn = drawn[space.admissible(drawn, x0)]
    rows = tidy(np.vstack([steps.draw_back(x[None, :]).x, steps.exchange(x[None, :]), drawn]))
    rows = np.unique(rows, axis=0)
    price = cost(rows)
    nearer = np.flatnonzero(price < cost(x[None, :]))
    nearer = nearer[np.argsort(price[nearer], kind="stable")]
    return rows[thin_out(nearer, n)]


def thin_out(which: Array, n: int) -> Array:
    """Return at most ``n`` of ``which``, evenly along their order, the first among them."""
    return which if len(which) <= n else which[np.arange(n) * len(which) // n]
