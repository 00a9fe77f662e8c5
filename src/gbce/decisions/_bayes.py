"""Bayes decisions: points that minimise the expected discrepancy to a draw (Section 2.5.1 b of the paper)."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from gbce._checks import require_counts
from gbce._weights import Array
from gbce.decisions._rule import Choice, Rule, Scene, best, pick

__all__ = ["GeometricMedian", "Mean", "Medoid"]

_CHUNK_CELLS = 4_000_000  # of a block of pairwise distances: 32 MB


@dataclass(frozen=True)
class Mean(Rule):
    """The posterior mean: least expected squared distance.

    Whole numbers and categories make it a Fréchet mean: the row with the least expected squared distance, in units of
    each feature's scale, among those that there are. A category takes its most probable level.

    Under a curved or multimodal posterior it can fall where the target is missed; the table says so.

    Examples
    --------
    >>> Mean().label
    'Mean'
    """

    def choose(self, scene: Scene) -> Choice:
        """Choose the mean, inside the space."""
        return _invented(scene, scene.draws.weights @ scene.units(scene.draws.x))


@dataclass(frozen=True)
class GeometricMedian(Rule):
    """The geometric median: least expected Euclidean distance, in units of each feature's scale.

    Parameters
    ----------
    max_iterations : int
        Of Weiszfeld's iteration, with the step of Vardi and Zhang (2000) where it lands on a draw.

    Examples
    --------
    >>> GeometricMedian().label
    'GeometricMedian'
    """

    max_iterations: int = 1_000

    def __post_init__(self) -> None:
        require_counts(self, "max_iterations")

    def choose(self, scene: Scene) -> Choice:
        """Choose the geometric median."""
        where, weight = scene.draws.distinct
        u = geometric_median(scene.units(scene.draws.pool.x[where]), weight, self.max_iterations)
        return _invented(scene, u)


@dataclass(frozen=True)
class Medoid(Rule):
    """The draw with the least expected Euclidean distance to the others, in units of each feature's scale.

    Examples
    --------
    >>> Medoid().label
    'Medoid'
    """

    def choose(self, scene: Scene) -> Choice:
        """Choose the medoid; ties go to the smaller objective."""
        where, weight = scene.draws.distinct
        points = scene.draws.pool.take(where)
        u = scene.units(points.x)
        return pick(scene, where[best(expected_distance(u, u, weight), scene.objective(points))])


def geometric_median(u: Array, weights: Array, max_iterations: int = 1_000, tolerance: float = 1e-10) -> Array:
    """Point ``(m,)`` with the least weighted sum of Euclidean distances to ``u`` of shape ``(n, m)``."""
    y = weights @ u / weights.sum()
    size = max(float(np.abs(u - y).max()), 1e-300)
    for _ in range(max_iterations):
        gap = np.linalg.norm(u - y, axis=1)
        away = gap > 1e-14 * size
        pull = np.where(away, weights / np.where(away, gap, 1.0), 0.0)
        if not away.any():
            return y
        target = pull @ u / pull.sum()
        here = float(weights[~away].sum())
        if here > 0:  # y sits on a draw: leave it only if the others pull harder than its own weight
            force = float(np.linalg.norm(pull @ (u - y)))
            if force <= here:
                return y
            target = y + (1.0 - here / force) * (target - y)
        if np.linalg.norm(target - y) <= tolerance * size:
            return target
        y = target
    return y


def expected_distance(a: Array, u: Array, weights: Array) -> Array:
    """Weighted mean Euclidean distance of each of ``a`` ``(k, m)`` to ``u`` ``(n, m)``, without a (k, n) matrix."""
    block = max(1, _CHUNK_CELLS // len(u))
    return np.concatenate([cdist(a[i : i + block], u) @ weights for i in range(0, len(a), block)])


def _invented(scene: Scene, u: Array) -> Choice:
    """Choose the admissible row nearest to a point ``(k,)`` among the free features' axes."""
    return Choice(scene.space.nearest(u, scene.x0, scene.free)[None, :])
