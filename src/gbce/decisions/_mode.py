"""The mode of the posterior: conventional counterfactual explanation (the paper's proposition)."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from gbce._numerics import first_of_least
from gbce._validation import require_counts
from gbce.base import Array, Choice, Rule
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.search import mode_on_cells, polish_mode, sparsity_path
from gbce.space import Places

__all__ = ["MAP"]

_NO_SPREAD = 1e-12  # in units of scale: an axis with less spread than rounding leaves has no density


@dataclass(frozen=True)
class MAP(Rule):
    """The most probable point.

    Parameters
    ----------
    method : {"objective", "kde", "knn"}
        ``objective`` minimises the known ``potential + d(row, x)``, minus the log density: over every evaluated point
        and the row itself, and, with ``polish``, downhill from the best of these. ``kde`` and ``knn`` are the
        paper's approximations: the draw with the highest Gaussian kernel density (Scott's bandwidth), or with the
        highest score ``r_k**-d``, where ``r_k`` is the distance to its ``k``-th neighbour among the draws.
    k : int
        Neighbours for ``knn``.
    polish : bool
        Whether to refine by asking the model further, for ``objective`` only: a few thousand rows, with steps of one
        kind for smooth models and of another for piecewise constant ones. Of a tree ensemble that can be read, under a
        prior that moves each column by itself, the cells of its splits are searched instead, and the model is asked
        about a few points in the end. Without a model at hand
        (``explanation.decide``, ``explanation.at``) the best evaluated point is taken.
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

    @property
    def seeks_mode(self) -> bool:
        """Whether the known density is maximised; estimates of it go by the draws alone."""
        return self.method == "objective"

    @property
    def has_path(self) -> bool:
        """Whether the best points for each number of changes stand beside its answer: under a prior with spikes."""
        return self.method == "objective"

    def choose(self, scene: Scene) -> Choice:
        """Choose the mode."""
        polish = self.polish and scene.draws.exact is None  # the best cells are among what was seen
        if self.method == "objective" and (scene.query.sparse or self.changes is not None):
            return sparsity_path(scene, polish, self.changes)
        if self.method == "objective":
            return _choose_by_objective(scene, polish)
        where, weight = scene.draws.distinct
        score = -_kernel_density(scene, where) if self.method == "kde" else _neighbour_radius(scene, where, self.k)
        chosen = scene.draws.pool.take(where)
        return scene.pick(where[first_of_least(score, -weight, scene.objective(chosen), scene.distance(chosen.x))])


def _choose_by_objective(scene: Scene, polish: bool) -> Choice:
    known = scene.draws.known
    objective = scene.objective(known)
    winner = first_of_least(objective, scene.distance(known.x)) if np.isfinite(objective).any() else 0
    point, least = known.take(np.array([winner])), objective[winner]
    choice = Choice(point.x, point)
    for point in _refine(scene, scene.posterior) if polish and scene.posterior is not None else []:
        if scene.objective(point)[0] < least:
            choice, least = Choice(point.x, point), scene.objective(point)[0]
    if scene.objective(scene.row)[0] <= least:
        return Choice(scene.row.x, scene.row, "The most probable point is the row itself: no change pays.")
    return choice


def _refine(scene: Scene, posterior: GibbsPosterior) -> list[Points]:
    """Return better points: by the leaves of the model where it is a tree ensemble, or by asking it."""
    found = mode_on_cells(scene, posterior)
    return polish_mode(scene, posterior)[:1] if found is None else found


def _kernel_density(scene: Scene, where: Array) -> Array:
    """Density of the distinct draws under a kernel estimate from all draws; equal if there is none."""
    from scipy.stats import gaussian_kde  # slow to import

    everything = scene.units(scene.draws.x)
    at = scene.units(scene.draws.pool.x[where])
    if len(where) <= len(scene.free):
        return np.zeros(len(where))
    if not all(scene.space.features[j].plain for j in scene.free):
        return _product_density(everything, scene.draws.weights, at)
    try:
        return gaussian_kde(everything.axes.T, weights=scene.draws.weights)(at.axes.T)
    except np.linalg.LinAlgError:
        return np.zeros(len(where))


def _product_density(u: Places, weights: Array, at: Places) -> Array:
    """Density at places ``at`` of a product of kernels on axes of their own spread, Scott's bandwidth."""
    spread = np.sqrt(weights @ np.square(u.axes - weights @ u.axes))
    shares = u.shares(weights)
    of_levels = [height * np.sqrt(share * (1 - share)) for height, share in zip(u.heights, shares, strict=True)]
    used = spread > _NO_SPREAD
    n_used = used.sum() + sum(int((one > _NO_SPREAD).sum()) for one in of_levels)
    if n_used == 0:
        return np.zeros(len(at))
    n = 1.0 / float(np.square(weights).sum())
    narrowed = n ** (-1.0 / (n_used + 4))
    width = spread[used] * narrowed
    a, b = replace(at, axes=at.axes[:, used] / width), replace(u, axes=u.axes[:, used] / width)
    # what leaving a level, or coming to it, adds to a squared distance; the last is for no level at all
    steps = [
        np.append(np.square(height / np.where(one > _NO_SPREAD, one * narrowed, np.inf)), 0.0)
        for one, height in zip(of_levels, u.heights, strict=True)
    ]
    return np.concatenate([np.exp(-0.5 * _scaled_squares(some, b, steps)) @ weights for some in a.blocks(b)])


def _scaled_squares(a: Places, b: Places, steps: list[Array]) -> Array:
    """Squared distances ``(n, m)`` on scaled axes, and what different levels of large categories add."""
    squares = cdist(a.axes, b.axes, "sqeuclidean") if a.axes.shape[1] else np.zeros((len(a), len(b)))
    for c, step in enumerate(steps):
        one, other = a.codes[:, c][:, None], b.codes[:, c][None, :]
        squares += np.where(one == other, 0.0, step[one] + step[other])
    return squares


def _neighbour_radius(scene: Scene, where: Array, k: int) -> Array:
    """Distance ``r_k`` of each distinct draw to its k-th neighbour among all draws, itself left out.

    The score ``r_k**-d`` falls as ``r_k`` grows, so comparing radii is enough.
    """
    everything = scene.units(scene.draws.x)
    k = min(k, len(everything) - 1)
    if k == 0:
        return np.zeros(len(where))
    return everything.nearest_distances(scene.units(scene.draws.pool.x[where]), k + 1)[:, -1]
