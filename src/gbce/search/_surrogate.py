"""A surrogate of a model, fitted to the points that were paid for: a Gaussian process with a length for each column.

Its kernel is linear plus Matérn 5/2 (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations
4.17 and 5.9), so that far from all points it goes on as a plane. Lengths, the share of the linear part and the noise
maximise the marginal likelihood.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from gbce.base import Array
from gbce.space import Space

__all__ = ["Surrogate", "fit_surrogate"]

# Chosen by hand: they decide which points are tried, never which of them count as reaching.
_MOST_POINTS = 1_200  # that are fitted, the nearest to the row: the work grows with their cube
_MOST_TUNED = 300  # from which lengths are found
_STEPS = 40  # of the maximisation
_BOUNDS = {"length": (-5.0, 2.5), "linear": (-4.0, 2.0), "noise": (-9.0, 0.0)}  # logarithms, of scaled columns
_START = {"length": -1.5, "linear": 0.0, "noise": -5.0}
_PULL = 0.15  # of the logarithms towards their start, per squared unit: unused columns keep small weights
_ROWS_AT_ONCE = 4_000
_BENT, _FARTHEST = 3.0, 1e6  # scales from the row beyond which distances grow by their logarithm: tails are heavy
_NUGGET = 1e-8  # of the variance: kernels of almost equal points stay invertible
_FAILED = 1e10  # value where they do not


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Columns of encoded rows as coordinates: numbers in units of scale from the row, levels as indicators."""

    space: Space
    x0: Array
    levels: dict[int, Array]  # codes with an indicator, of each unordered feature
    missing: Array  # (d,) whether a feature is missing somewhere

    @classmethod
    def of(cls, space: Space, x0: Array, x: Array) -> "Coordinates":
        """Take the levels and missing values that occur in points ``(n, d)``."""
        unordered = np.flatnonzero(space.unordered)
        seen = np.vstack([x, x0])
        levels = {j: np.unique(seen[~np.isnan(seen[:, j]), j]) for j in unordered.tolist()}
        return cls(space, x0, levels, np.isnan(seen).any(axis=0))

    @property
    def owner(self) -> Array:
        """The feature of each coordinate."""
        numbers = [j for j in range(len(self.x0)) if j not in self.levels]
        of_levels = [np.full(len(codes), j) for j, codes in self.levels.items()]
        return np.concatenate([numbers, *of_levels, np.flatnonzero(self.missing)]).astype(int)

    def __call__(self, x: Array) -> Array:
        """Return coordinates ``(n, p)`` of points ``(n, d)``."""
        numbers = [j for j in range(len(self.x0)) if j not in self.levels]
        centre = np.where(np.isnan(self.x0), 0.0, self.x0)
        with np.errstate(over="ignore"):
            u = (x[:, numbers] - centre[numbers]) / np.maximum(self.space.scale[numbers], np.finfo(float).tiny)
        u = _BENT * np.arcsinh(np.where(np.isnan(u), 0.0, np.clip(u, -_FARTHEST, _FARTHEST)) / _BENT)
        ones = [(x[:, [j]] == codes) / np.sqrt(2.0) for j, codes in self.levels.items()]
        return np.hstack([u, *ones, np.isnan(x[:, self.missing]).astype(float)])


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The fitted process: predictions and their standard deviations."""

    coordinates: Coordinates
    u: Array
    weights: Array
    factor: Array
    scale: Array
    linear: float
    centre: float
    size: float
    variance: float

    def estimate(self, x: Array) -> tuple[Array, Array]:
        """Return means and standard deviations ``(n,)`` at points ``(n, d)``."""
        means, sds = [np.zeros(0)], [np.zeros(0)]
        for start in range(0, len(x), _ROWS_AT_ONCE):
            v = self.coordinates(x[start : start + _ROWS_AT_ONCE]) * self.scale
            k = _matern(v, self.u)[0] + self.linear * (v @ self.u.T)
            means.append(self.centre + self.size * (k @ self.weights))
            own = 1.0 + self.linear * np.square(v).sum(axis=1)
            part = solve_triangular(self.factor, k.T, lower=True)
            left = np.maximum(own - np.square(part).sum(axis=0), 0.0)
            sds.append(self.size * np.sqrt(self.variance * left))
        return np.concatenate(means), np.concatenate(sds)


def _matern(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the Matérn 5/2 kernel of scaled coordinates, and minus twice its derivative by squared distance."""
    square = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2.0 * a @ b.T
    r = np.sqrt(5.0 * np.maximum(square, 0.0))
    decay = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * decay, (5.0 / 3.0) * (1.0 + r) * decay


def fit_surrogate(space: Space, x0: Array, x: Array, value: Array) -> Surrogate:
    """Fit a process to values ``(n,)`` of points ``(n, d)`` near the row ``x0`` ``(d,)``."""
    coordinates = Coordinates.of(space, x0, x)
    u = coordinates(x)
    near = np.argsort(np.abs(u).sum(axis=1), kind="stable")[:_MOST_POINTS]
    u, value = u[near], value[near]
    centre = float(np.median(value))
    size = float(np.std(value)) or 1.0
    y = (value - centre) / size
    owner = coordinates.owner
    features, owner = np.unique(owner, return_inverse=True)
    if not np.ptp(value) > 0:  # nothing to learn
        y = np.zeros(len(value))
    tuned = np.linspace(0, len(u) - 1, min(len(u), _MOST_TUNED)).astype(int)
    theta = _maximise(u[tuned], y[tuned], owner, len(features))
    scale, linear, noise = np.exp(theta[:-2])[owner], float(np.exp(theta[-2])), float(np.exp(theta[-1]))
    v = u * scale
    k = _matern(v, v)[0] + linear * (v @ v.T)
    factor = cholesky(k + (noise + _NUGGET) * np.eye(len(k)), lower=True)
    weights = cho_solve((factor, True), y)
    return Surrogate(
        coordinates,
        v,
        weights,
        factor,
        scale,
        linear,
        centre,
        size,
        float(y @ weights) / len(y) or 1.0,
    )


def _maximise(u: Array, y: Array, owner: Array, n_features: int) -> Array:
    """Return logarithms of inverse lengths, of the linear share and of the noise of largest marginal likelihood."""
    start = np.append(np.full(n_features, _START["length"]), [_START["linear"], _START["noise"]])
    bounds = [_BOUNDS["length"]] * n_features + [_BOUNDS["linear"], _BOUNDS["noise"]]
    n = len(u)

    def loss(theta: Array) -> tuple[float, Array]:
        scale, linear, noise = np.exp(theta[:-2])[owner], np.exp(theta[-2]), np.exp(theta[-1])
        v = u * scale
        smooth, slope = _matern(v, v)
        product = v @ v.T
        k = smooth + linear * product
        k[np.diag_indices(n)] += noise + _NUGGET
        try:
            factor = cholesky(k, lower=True)
        except np.linalg.LinAlgError:
            return _FAILED, np.zeros(len(theta))
        weights = cho_solve((factor, True), y)
        inverse = cho_solve((factor, True), np.eye(n))
        fit = float(y @ weights) / n or 1.0  # the variance, profiled out
        value = 0.5 * n * np.log(fit) + np.log(np.diag(factor)).sum()
        outer = 0.5 * (inverse - np.outer(weights, weights) / fit)  # derivative of the value by the kernel
        w = outer * slope
        by_square = 2.0 * (w.sum(axis=1) @ np.square(v) - np.einsum("ap,ab,bp->p", v, w, v, optimize=True))
        by_product = linear * 2.0 * np.einsum("ap,ab,bp->p", v, outer, v, optimize=True)
        by_length = np.bincount(owner, -by_square + by_product, minlength=n_features)
        grad = np.append(by_length, [linear * (outer * product).sum(), noise * np.trace(outer)])
        away = theta - start
        return value + 0.5 * _PULL * away @ away, grad + _PULL * away

    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": _STEPS})
    return np.asarray(found.x)
