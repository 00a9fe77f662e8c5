"""The mode of the posterior: conventional counterfactual explanation (the paper's proposition)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from gbce._checks import require_counts
from gbce._weights import Array
from gbce.decisions._polish import polished
from gbce.decisions._rule import Choice, Rule, Scene, best, pick
from gbce.decisions._sparsity import has_spikes, sparsity_path

__all__ = ["MAP"]

_CHUNK_CELLS = 4_000_000  # of a block of pairwise distances: 32 MB


@dataclass(frozen=True)
class MAP(Rule):
    """The most probable point.

    Parameters
    ----------
    method : {"objective", "kde", "knn"}
        ``objective`` minimises the known ``potential + d(row, x)``, minus the log density: over every evaluated point
        and the row itself, and from the best of these on downwards if ``polish`` is set. ``kde`` and ``knn`` are the
        paper's approximations: the draw with the highest Gaussian kernel density (Scott's bandwidth), or with the
        highest score ``r_k**-d``, where ``r_k`` is the distance to its ``k``-th neighbour among the draws.
    k : int
        Neighbours for ``knn``.
    polish : bool
        Whether to refine by asking the model further, for ``objective`` only: a few thousand rows, by steps for smooth
        models and steps for models that are flat in cells. Without a model at hand (``explanation.decide``,
        ``explanation.at``) the best evaluated point is taken.
    changes : int, optional
        Under a :class:`gbce.Sparse` prior: how many features the point called MAP changes. When left out, as few as
        reach the target. The best points for other numbers of changes stand beside it.

    Notes
    -----
    A prior under which features stay exactly where they are has densities that cannot be compared between points with
    different numbers of changes. There ``objective`` gives the best point for each number.

    Ties go to the smaller objective, then to the smaller distance from the row. Draws that leave no density to
    estimate (all in one point, or on a line) give the draw that was picked most often.

    Examples
    --------
    >>> MAP(method="kde").label
    'MAP(method=kde)'
    """

    method: Literal["objective", "kde", "knn"] = "objective"
    k: int = 40
    polish: bool = True
    changes: int | None = None

    def __post_init__(self) -> None:
        if self.method not in ("objective", "kde", "knn"):
            raise ValueError(f"MAP: method must be 'objective', 'kde' or 'knn', not {self.method!r}")
        require_counts(self, "k")
        if not isinstance(self.polish, (bool, np.bool_)):
            raise ValueError(f"MAP: polish must be True or False, not {self.polish!r}")
        if self.changes is not None:
            require_counts(self, "changes")

    def choose(self, scene: Scene) -> Choice:
        """Choose the mode."""
        if self.method == "objective" and (has_spikes(scene) or self.changes is not None):
            return sparsity_path(scene, self.polish, self.changes)
        if self.method == "objective":
            return _by_objective(scene, self.polish)
        where, weight = scene.draws.distinct
        score = -_kernel_density(scene, where) if self.method == "kde" else _neighbour_radius(scene, where, self.k)
        chosen = scene.draws.pool.take(where)
        return pick(scene, where[best(score, -weight, scene.objective(chosen), scene.distance(chosen.x))])


def _by_objective(scene: Scene, polish: bool) -> Choice:
    pool = scene.draws.pool
    objective = scene.objective(pool)
    winner = best(objective, scene.distance(pool.x)) if np.isfinite(objective).any() else 0
    choice, least = pick(scene, np.array(winner)), objective[winner]
    refined = polished(scene, scene.posterior)[:1] if polish and scene.posterior is not None else []
    for point in refined:
        if scene.objective(point)[0] < least:
            choice, least = Choice(point.x, point), scene.objective(point)[0]
    if scene.objective(scene.row)[0] <= least:
        return Choice(scene.row.x, scene.row, "The most probable point is the row itself: no change pays.")
    return choice


def _kernel_density(scene: Scene, where: Array) -> Array:
    """Density of the distinct draws under a kernel estimate from all draws; equal if there is none."""
    from scipy.stats import gaussian_kde  # slow to import

    everything = scene.units(scene.draws.x).T
    at = scene.units(scene.draws.pool.x[where]).T
    if len(where) <= len(scene.free):
        return np.zeros(len(where))
    if not all(scene.space.features[j].plain for j in scene.free):
        return _product_density(everything.T, scene.draws.weights, at.T)
    try:
        return gaussian_kde(everything, weights=scene.draws.weights)(at)
    except np.linalg.LinAlgError:
        return np.zeros(len(where))


def _product_density(u: Array, weights: Array, at: Array) -> Array:
    """Density at ``at`` ``(n, k)`` of a product of kernels on axes of their own spread, Scott's bandwidth."""
    spread = np.sqrt(weights @ np.square(u - weights @ u))
    used = spread > 1e-12
    if not used.any():
        return np.zeros(len(at))
    n = 1.0 / float(np.square(weights).sum())
    width = spread[used] * n ** (-1.0 / (used.sum() + 4))
    a, b = at[:, used] / width, u[:, used] / width
    block = max(1, _CHUNK_CELLS // len(b))
    parts = [np.exp(-0.5 * cdist(a[i : i + block], b, "sqeuclidean")) @ weights for i in range(0, len(a), block)]
    return np.concatenate(parts)


def _neighbour_radius(scene: Scene, where: Array, k: int) -> Array:
    """Distance ``r_k`` of each distinct draw to its k-th neighbour among all draws, itself left out.

    The score ``r_k**-d`` falls as ``r_k`` grows, so comparing radii is enough.
    """
    everything = scene.units(scene.draws.x)
    k = min(k, len(everything) - 1)
    if k == 0:
        return np.zeros(len(where))
    radius, _ = cKDTree(everything).query(scene.units(scene.draws.pool.x[where]), k=[k + 1])
    return radius[:, 0]
