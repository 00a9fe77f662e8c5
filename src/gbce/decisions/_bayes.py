"""Bayes decisions: points that minimise the expected discrepancy to a draw (Section 2.5.1 b of the paper)."""

from dataclasses import dataclass

import numpy as np

from gbce._numerics import TINY, first_of_least
from gbce._validation import require_counts
from gbce.base import Array, Choice, Rule
from gbce.draws import Scene
from gbce.space import Centre, Places

__all__ = ["GeometricMedian", "Mean", "Medoid"]

# Of Weiszfeld's iteration, relative to the extent of the draws; chosen by hand, far below any difference of rows.
_STEP_TOLERANCE = 1e-10  # a step that is shorter is the last one
_ON_A_DRAW = 1e-14  # a draw that is nearer than this is where the iteration stands


@dataclass(frozen=True)
class Mean(Rule):
    """The posterior mean: least expected squared distance.

    Whole numbers and categories make it a Fréchet mean: the row with the least expected squared distance, in units of
    each feature's scale, among admissible rows. A category takes its most probable level.

    Under a curved or multimodal posterior it can fall where the target is missed; the table says so.

    Examples
    --------
    >>> Mean().label
    'Mean'
    """

    def choose(self, scene: Scene) -> Choice:
        """Choose the admissible row nearest to the mean."""
        return _choose_nearest_row(scene, scene.units(scene.draws.x).centre(scene.draws.weights))


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
        """Choose the admissible row nearest to the geometric median."""
        where, weight = scene.draws.distinct
        u = geometric_median(scene.units(scene.draws.pool.x[where]), weight, self.max_iterations)
        return _choose_nearest_row(scene, u)


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
        return scene.pick(where[first_of_least(expected_distance(u, u, weight), scene.objective(points))])


def geometric_median(u: Places, weights: Array, max_iterations: int = 1_000) -> Centre:
    """Point with the least weighted sum of Euclidean distances to ``u``, ``n`` places with weights ``(n,)``."""
    y = u.centre(weights, weights.sum())
    size = max(float(np.abs(u.axes - y.axes).max(initial=0.0)), float(u.heights.max(initial=0.0)), TINY)
    for _ in range(max_iterations):
        gap = np.sqrt(u.squares_from(y))
        away = gap > _ON_A_DRAW * size
        pull = np.where(away, weights / np.where(away, gap, 1.0), 0.0)
        if not away.any():
            return y
        target = u.centre(pull, pull.sum())
        here = float(weights[~away].sum())
        if here > 0:  # y sits on a draw: leave it only if the others pull harder than its own weight
            force = float(pull.sum() * u.between(target, y))
            if force <= here:
                return y
            target = y.toward(target, 1.0 - here / force)
        if u.between(target, y) <= _STEP_TOLERANCE * size:
            return target
        y = target
    return y


def expected_distance(a: Places, u: Places, weights: Array) -> Array:
    """Weighted mean Euclidean distance of each of the places ``a`` to ``u``, without a matrix of all pairs."""
    return np.concatenate([some.distances(u) @ weights for some in a.blocks(u)])


def _choose_nearest_row(scene: Scene, u: Centre) -> Choice:
    """Choose the admissible row nearest to a point among the free features' axes."""
    return Choice(scene.space.nearest(u, scene.x0, scene.free)[None, :])
