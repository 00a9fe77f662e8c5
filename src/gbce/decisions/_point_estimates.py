"""Bayes point estimates (Section 2.5.1 b of the paper), representative and random draws, and direct optimisation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gbce._numerics import TINY, first_of_least, resample, weighted_quantile
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.draws import Scene
from gbce.search import nelder_mead
from gbce.space import Centre, Places

# Weiszfeld's iteration, relative to the extent of the draws; chosen by hand, far below any difference between rows.
_STEP_TOLERANCE = 1e-10  # a shorter step is the last one
_ON_A_DRAW = 1e-14  # within this distance the iterate coincides with a draw
_MAX_RANDOM_DRAWS = 10_000  # each is evaluated under 200 perturbed copies by default: two million model rows
_MAX_REPRESENTED = 4_000  # distinct draws among which representatives are chosen: 128 MB of distances

# --- bayes point estimates -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean(Rule):
    """The posterior mean: least expected squared distance.

    With integers and categories it is a Fréchet mean: the admissible row of least expected squared distance, in units
    of each feature's scale. A category takes its most probable level.

    Under a curved or multimodal posterior it may miss the target; the table shows that.

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
        Limit of Weiszfeld's iteration, with the step of Vardi and Zhang (2000) where it lands on a draw.

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
    """Return the point of least weighted sum of Euclidean distances to ``n`` places with weights ``(n,)``."""
    y = u.centre(weights, weights.sum())
    size = max(float(np.abs(u.axes - y.axes).max(initial=0.0)), float(u.heights.max(initial=0.0)), TINY)
    for _ in range(max_iterations):
        distance = np.sqrt(u.squares_from(y))
        away = distance > _ON_A_DRAW * size
        pull = np.where(away, weights / np.where(away, distance, 1.0), 0.0)
        if not away.any():
            return y
        target = u.centre(pull, pull.sum())
        here = float(weights[~away].sum())
        if here > 0:  # y is a draw: leave it only if the others pull harder than its own weight
            force = float(pull.sum() * u.between(target, y))
            if force <= here:
                return y
            target = y.toward(target, 1.0 - here / force)
        if u.between(target, y) <= _STEP_TOLERANCE * size:
            return target
        y = target
    return y


def expected_distance(a: Places, u: Places, weights: Array) -> Array:
    """Return the weighted mean Euclidean distance of each place of ``a`` to ``u``, in blocks."""
    return np.concatenate([some.distances(u) @ weights for some in a.blocks(u)])


def _choose_nearest_row(scene: Scene, u: Centre) -> Choice:
    """Choose the admissible row nearest to a point in the coordinates of the free features."""
    return Choice(scene.space.nearest(u, scene.x0, scene.free)[None, :])


# --- several points --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiverseSet(Rule):
    """``k`` representatives of the region of highest density that holds ``mass`` of the draws that reach the target.

    If no draw reaches it, all draws count. The region is a level set of the known density. The first representative is
    the region's medoid; each further one is the draw that most reduces the expected distance of a draw to its nearest
    representative.

    Parameters
    ----------
    k : int
        Number of representatives; fewer if the region has fewer distinct draws.
    mass : float
        Probability of the region, given that the target is reached.

    Examples
    --------
    >>> DiverseSet(3).label
    'DiverseSet(k=3)'
    """

    k: int
    mass: float = 0.9

    def __post_init__(self) -> None:
        require_counts(self, "k")
        require_finite(self, "mass")
        if not 0 < self.mass <= 1:
            raise ValueError(f"DiverseSet: mass must be above 0 and at most 1, not {self.mass!r}")

    def choose(self, scene: Scene) -> Choice:
        """Choose representatives, the most central first."""
        where, weight = scene.draws.distinct
        reached = scene.draws.pool.reached[where, 0]
        if reached.any():
            where, weight = where[reached], weight[reached] / weight[reached].sum()
        objective = scene.objective(scene.draws.pool.take(where))
        inside = objective <= weighted_quantile(objective, weight, self.mass)
        where, weight, objective = where[inside], weight[inside], objective[inside]
        if len(where) > _MAX_REPRESENTED:
            keep = np.sort(np.argsort(-weight, kind="stable")[:_MAX_REPRESENTED])
            where, weight = where[keep], weight[keep]
        chosen = choose_representatives(scene.units(scene.draws.pool.x[where]), weight, self.k)
        note = "" if len(chosen) == self.k else f"{self.label}: the region has only {len(chosen)} distinct draws."
        return scene.pick(where[chosen], note)


@dataclass(frozen=True)
class RandomDraw(Rule):
    """``k`` draws at random: decide by sampling.

    Parameters
    ----------
    k : int
        How many, at most 10,000: each of them is a decision that is evaluated by the model.

    Examples
    --------
    >>> RandomDraw(k=5).label
    'RandomDraw(k=5)'
    """

    k: int = 1

    def __post_init__(self) -> None:
        require_counts(self, "k")
        if self.k > _MAX_RANDOM_DRAWS:
            raise ValueError(
                f"RandomDraw: k must be at most {_MAX_RANDOM_DRAWS:,}, not {self.k:,}: each of them is "
                "evaluated under noise. explanation.draws has more draws, without these figures."
            )

    def choose(self, scene: Scene) -> Choice:
        """Choose at random, with replacement."""
        return scene.pick(scene.draws.index[resample(scene.rng, scene.draws.weights, self.k)])


def choose_representatives(u: Places, weights: Array, k: int) -> Array:
    """Return positions of at most ``k`` representative places of ``u`` (greedy k-medians)."""
    distance = u.distances(u)
    nearest = np.full(len(u), np.inf)
    chosen: list[int] = []
    for _ in range(min(k, len(u))):
        score = np.minimum(distance, nearest[None, :]) @ weights
        score[chosen] = np.inf
        chosen.append(int(score.argmin()))
        nearest = np.minimum(nearest, distance[chosen[-1]])
    return np.array(chosen)


# --- direct optimisation ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DirectOpt(Rule):
    """Minimise ``eta * loss + d(row, x)`` by Nelder-Mead from the row and from draws of the prior.

    All starts advance together, with one model call per iteration for all of them. Coordinates are the free
    features in units of their scales; integers and positions of levels are rounded.

    Parameters
    ----------
    n_starts : int
        The row, and one draw of the prior for each further start.
    max_iterations : int
        Limit for each start.

    Examples
    --------
    >>> DirectOpt().label
    'DirectOpt'
    """

    asks_model: ClassVar[bool] = True

    n_starts: int = 20
    max_iterations: int = 3_000

    def __post_init__(self) -> None:
        require_counts(self, "n_starts", "max_iterations")

    def choose(self, scene: Scene) -> Choice:
        """Choose the best end point; ties go to the smaller distance from the row."""
        posterior = scene.model(self)
        free = scene.free[~np.isnan(scene.x0[scene.free])]  # missing values stay missing
        unit = scene.space.scale[free]

        def rows(u: Array) -> Array:
            x = np.tile(scene.x0, (len(u), 1))
            x[:, free] = u * unit
            return scene.space.project(x, scene.x0)

        seen: list[tuple[float, Array]] = []  # the best point of each call, in case the budget runs out

        def objective(u: Array) -> Array:
            x = rows(u)
            value = posterior.objective(x, posterior.evaluate(x).loss)
            least = first_of_least(value, scene.distance(x))
            seen.append((float(value[least]), x[least]))
            return value

        z = posterior.prior.draw(scene.rng, self.n_starts - 1)
        starts = np.vstack([scene.x0[None, :], posterior.prior.place(z).x])
        low, high = scene.space.limits(scene.x0)
        try:
            minima = nelder_mead(
                objective,
                np.where(np.isnan(starts), scene.x0, starts)[:, free] / unit,
                low[free] / unit,
                high[free] / unit,
                max_iterations=self.max_iterations,
            )
        except BudgetSpentError:
            if not seen:
                raise
            x = min(seen, key=lambda point: point[0])[1]
            return Choice(x[None, :], note=f"{self.label}: the budget ran out; the best point so far was taken.")
        x = rows(minima.x)
        winner = first_of_least(minima.value, scene.distance(x))
        unfinished = int((~minima.converged).sum())
        note = (
            f"{self.label}: {unfinished} of {self.n_starts} starts stopped at {self.max_iterations} iterations."
            if unfinished
            else ""
        )
        return Choice(x[winner][None, :], note=note)
