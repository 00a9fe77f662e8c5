"""Asking about latent points within a limit of rows, and keeping the lowest of them."""

from dataclasses import dataclass, field

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points
from gbce.posterior import GibbsPosterior

__all__ = ["LEAST_GAIN", "Asking", "Memory", "height_of", "join", "keep_apart", "potential_of", "take_lower"]

# Of height in a round of a search: less is not worth another one, because laws around a site are wider than that.
LEAST_GAIN = 0.02
_REMEMBERED = 32  # points of each kind that are kept: of low objective, and cheap ones that reach the target
_APART = 0.5  # distance within which two ends are one site: about the width of the laws that are put there


@dataclass
class Memory:
    """What a search has seen that rules must not fall behind: points of low objective, and cheap ones that reach.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose objective and cost order the points.
    """

    posterior: GibbsPosterior
    kept: Points | None = field(default=None, init=False)
    _dearest: tuple[float, float] = field(default=(np.inf, np.inf), init=False)  # of each kind, if there are enough

    def add(self, points: Points) -> None:
        """Look at evaluated points and keep the best."""
        if max(self._dearest) < np.inf:
            points = points.take(self._find_hopeful(points))
            if len(points) == 0:
                return
        both = points if self.kept is None else Points.join([self.kept, points])
        objective = self.posterior.mixture.objective(both.loss, both.cost)
        price = np.where(both.reached[:, 0], both.cost, np.inf)
        usable = np.isfinite(both.log_correction)
        first = np.argsort(np.where(usable, objective, np.inf), kind="stable")[:_REMEMBERED]
        cheap = np.argsort(np.where(usable, price, np.inf), kind="stable")[:_REMEMBERED]
        cheap = cheap[usable[cheap] & both.reached[cheap, 0]]
        self.kept = both.take(np.unique(np.concatenate([first[usable[first]], cheap])))
        if len(cheap) == _REMEMBERED:  # then there are as many that are usable at all
            self._dearest = float(objective[first[-1]]), float(price[cheap[-1]])

    def _find_hopeful(self, points: Points) -> Array:
        """Return the positions of points that are not behind all that are kept, of which there are enough."""
        objective = self.posterior.mixture.objective(points.loss, points.cost)
        cheap = points.reached[:, 0] & (points.cost < self._dearest[1])
        return np.flatnonzero(np.isfinite(points.log_correction) & ((objective < self._dearest[0]) | cheap))


def height_of(posterior: GibbsPosterior, points: Points) -> Array:
    """Minus the log density ``(n,)`` of evaluated points in the latent space, up to a constant."""
    return potential_of(posterior, points) + 0.5 * np.square(points.z).sum(axis=1)


def potential_of(posterior: GibbsPosterior, points: Points) -> Array:
    """Minus the log density ``(n,)`` against the latent law; equal losses give equal potentials to the last bit."""
    return posterior.mixture.potential(points.loss) + points.log_correction


@dataclass
class Asking:
    """Asks about latent points within a limit of rows, remembers the best and the heights."""

    posterior: GibbsPosterior
    memory: Memory
    rows_left: int
    asked: list[tuple[Array, Array]] = field(default_factory=list, init=False)  # latent points and their potentials

    def __call__(self, z: Array) -> tuple[Points, Array]:
        self.require(len(z))
        self.rows_left -= len(z)
        points = Points.evaluate(self.posterior, z)
        self.memory.add(points)
        self.asked.append((points.z, potential_of(self.posterior, points)))
        return points, height_of(self.posterior, points)

    def require(self, n: int) -> None:
        """Refuse more rows than are left, before points are made of them."""
        if n > self.rows_left or self.posterior.affords(n) < n:
            raise BudgetSpentError(f"{n:,} more model rows are not within the limit of a search")


def join(now: Points, height: Array, more: Points, heights: Array) -> tuple[Points, Array]:
    return Points.join([now, more]), np.append(height, heights)


def take_lower(now: Points, height: Array, tried: Points, heights: Array) -> tuple[Points, Array]:
    """Replace points ``k`` by the lowest of the trials ``(t, k)``, where that is lower."""
    k = len(height)
    winner = heights.argmin(axis=0)
    least = heights[winner, np.arange(k)]
    lower = least < height
    return now.replace_where(tried.take(winner * k + np.arange(k)), lower), np.where(lower, least, height)


def keep_apart(points: Points, height: Array, margin: float, most: int) -> tuple[Points, Array]:
    """Return the lowest points, within a margin of the lowest of all, that lie apart from each other, in order."""
    order = np.argsort(height, kind="stable")
    order = order[np.isfinite(height[order])]
    order = order[height[order] <= height[order[:1]].min(initial=np.inf) + margin]
    kept: list[int] = []
    while len(order) and len(kept) < most:
        kept.append(int(order[0]))
        order = order[_distances(points.z[order], points.z[order[0]]) > _APART]
    where = np.array(kept, dtype=int)
    return points.take(where), height[where]


def _distances(z: Array, to: Array) -> Array:
    return np.linalg.norm(z - to, axis=1)
