"""Where the explanations start: the paper does not print its base points x_b, so they are inferred from its tables.

For a candidate base point the posterior under the *true* function has known figures (importance sampling with many
points; no model is fitted). The candidate whose figures lie closest to the paper's SP, Tail, Stability, VarImp and the
loss and distance of its Mean, each gap measured in units of the Monte Carlo error the paper's own run must have had, is
used and printed. It reproduces those figures to Monte Carlo and model error; it is not claimed to be the paper's own.

``python -m experiments search-base-points`` runs the search again.
"""

from dataclasses import dataclass

import numpy as np

from experiments.data import Data, simulated
from experiments.settings import SIMULATED_2D, SIMULATED_10D, Setting
from experiments.tables_of_the_paper import DISTRIBUTION, IMPORTANCE, POINTWISE
from gbce._weights import Array, weighted_quantile

__all__ = ["BASE_POINTS", "Found", "figures_at", "search"]

_TYPICAL = 0.1  # among points that fit alike, prefer one that is not far out

#: 2-D: found by quadrature of the true function, and a better fit than what the noisier ``search(2)`` ends at;
#: 10-D: found by ``search(10)``; other seeds end at other points that fit about as well
BASE_POINTS: dict[int, tuple[float, ...]] = {
    2: (0.2, 0.1),
    10: (0.6, 0.54, -0.63, -0.85, -1.47, -1.07, -0.35, -0.1, 0.33, -0.03),
}


@dataclass(frozen=True, eq=False)
class Found:
    """A base point, its root mean squared gap to the paper in Monte Carlo errors, and its figures."""

    x: Array
    gap: float
    figures: Array


def figures_at(data: Data, setting: Setting, x: Array, z: Array) -> Array:
    """Return SP, Tail, Stability, VarImp, and loss and distance of the posterior mean, from prior noise ``z``."""
    assert data.true_function is not None
    points = x + setting.sigma * z
    loss = np.square(data.true_function(points) - data.y_star)
    weights = np.exp(-(loss - loss.min()))
    weights /= weights.sum()
    mean = weights @ points
    return np.concatenate(
        [
            [
                weights[loss <= setting.epsilon].sum(),
                weighted_quantile(loss, weights, 1 - setting.alpha),
                weights @ np.square(points - mean).sum(axis=1),
            ],
            weights @ np.abs(points - x),
            [(data.true_function(mean[None, :])[0] - data.y_star) ** 2, np.linalg.norm(mean - x)],
        ]
    )


def search(d: int, *, n_noise: int = 4_000, rounds: int = 60, population: int = 400, seed: int = 0) -> Found:
    """Look for the base point whose figures are closest to the paper's Gibbs row.

    Candidates start as training rows whose outcome lies below the target; the best tenth is kept, recombined and
    perturbed by ever smaller steps. Common noise ``z`` makes candidates comparable; the winner's figures are computed
    anew with many points.
    """
    data, setting = (simulated(2), SIMULATED_2D) if d == 2 else (simulated(10), SIMULATED_10D)
    goal, error = _goal(d), _paper_error(d, setting)
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_noise, d))

    def gap(x: Array) -> float:
        misfit = np.mean(np.square((figures_at(data, setting, x, z) - goal) / error))
        return float(np.sqrt(misfit + _TYPICAL * np.mean(np.square(x))))

    low = data.X[data.y < data.y_star]
    crowd = low[rng.choice(len(low), population, replace=False)]
    score = np.array([gap(x) for x in crowd])
    for step in np.geomspace(0.5, 0.02, rounds):
        elite = crowd[np.argsort(score)[: population // 10]]
        parents = elite[rng.integers(len(elite), size=(2, population))]
        share = rng.random((population, d)) < 0.5
        children = np.where(share, parents[0], parents[1]) + step * rng.standard_normal((population, d))
        crowd = np.vstack([elite, children])
        score = np.array([gap(x) for x in crowd])
    best = np.round(crowd[int(np.argmin(score))], 2)
    figures = figures_at(data, setting, best, np.random.default_rng(seed + 1).standard_normal((400_000, d)))
    return Found(best, float(np.sqrt(np.mean(np.square((figures - goal) / error)))), figures)


def _paper_error(d: int, setting: Setting) -> Array:
    """Rough Monte Carlo error of each figure in one run of the paper, draws and candidates together."""
    sp, tail, stability = _goal(d)[:3]
    mean_loss = _goal(d)[-2]
    spread = [np.sqrt(sp * (1 - sp)), 1.5 * tail, np.sqrt(2.0 / d) * stability, *(0.6 for _ in range(d))]
    spread += [4.0 * np.sqrt(mean_loss * stability / d), np.sqrt(stability)]
    return np.asarray(spread) / np.sqrt(setting.n_draws / 2)


def _goal(d: int) -> Array:
    mean_loss, mean_distance, _, _ = POINTWISE[d]["Gibbs", "Mean"]
    return np.array([*DISTRIBUTION[d]["Gibbs"], *IMPORTANCE[d]["Gibbs"], mean_loss, mean_distance])
