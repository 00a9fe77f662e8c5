"""Several points at once: a diverse set out of the highest-density region, and plain draws."""

from dataclasses import dataclass

import numpy as np

from gbce._numerics import resample, weighted_quantile
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.draws import Scene
from gbce.space import Places

__all__ = ["DiverseSet", "RandomDraw"]

_MAX_RANDOM_DRAWS = 10_000  # each is judged under 200 perturbed copies by default: two million model rows
_MAX_REPRESENTED = 4_000  # distinct draws among which representatives are sought: 128 MB of distances


@dataclass(frozen=True)
class DiverseSet(Rule):
    """``k`` representatives of the region of highest density that holds ``mass`` of the posterior.

    The region is a level set of the known density. The first representative is the region's medoid; each further one
    is the draw that most reduces the expected distance of a draw to its nearest representative.

    Parameters
    ----------
    k : int
        Number of representatives; fewer if the region has fewer distinct draws.
    mass : float
        Posterior probability of the region.

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
        objective = scene.objective(scene.draws.pool.take(where))
        inside = objective <= weighted_quantile(objective, weight, self.mass)
        where, weight, objective = where[inside], weight[inside], objective[inside]
        if len(where) > _MAX_REPRESENTED:
            keep = np.sort(np.argsort(-weight, kind="stable")[:_MAX_REPRESENTED])
            where, weight = where[keep], weight[keep]
        chosen = representatives(scene.units(scene.draws.pool.x[where]), weight, self.k)
        note = "" if len(chosen) == self.k else f"{self.label}: the region has only {len(chosen)} distinct draws."
        return scene.pick(where[chosen], note)


@dataclass(frozen=True)
class RandomDraw(Rule):
    """``k`` draws at random: decide by sampling.

    Parameters
    ----------
    k : int
        How many, at most 10,000: each of them is a decision, shown to the model and judged.

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
                f"RandomDraw: k must be at most {_MAX_RANDOM_DRAWS:,}, not {self.k:,}: each of them is shown to the "
                "model and judged. More draws, not judged, are in explanation.draws."
            )

    def choose(self, scene: Scene) -> Choice:
        """Choose at random, with replacement."""
        return scene.pick(scene.draws.index[resample(scene.rng, scene.draws.weights, self.k)])


def representatives(u: Places, weights: Array, k: int) -> Array:
    """Greedy k-medians: positions of at most ``k`` places of ``u`` that stand for the others."""
    distance = u.distances(u)
    nearest = np.full(len(u), np.inf)
    chosen: list[int] = []
    for _ in range(min(k, len(u))):
        score = np.minimum(distance, nearest[None, :]) @ weights
        score[chosen] = np.inf
        chosen.append(int(score.argmin()))
        nearest = np.minimum(nearest, distance[chosen[-1]])
    return np.array(chosen)
