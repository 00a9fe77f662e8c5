"""The Gibbs posterior of coefficients, ``exp(-eta' L(D, theta)) N(theta; 0, precision^-1)``."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import minimize

from gbce.base import Array
from gbce.ensembles._likelihood import Likelihood
from gbce.ensembles._net import Net

__all__ = ["Problem", "gaussian_draws"]

# Newton's method for a mode, where the energy is convex; by hand:
_MOST_NEWTON_STEPS = 100  # a posterior without a mode would go on for ever
_CLOSE_ENOUGH = 1e-10  # fall of the energy, a log density, that another full step would bring at most
_SHORTEST_STEP = 1e-8  # share of a Newton step below which it is not shortened any more
_SUFFICIENT_FALL = 1e-4  # share of what the slope promises (Armijo's rule; Nocedal and Wright 2006, Section 3.1)
_ENERGY_ROUNDING = 1e-12  # relative: near the mode the energy changes by less than rounding
# Curvature at the mode over that at zero below which a direction counts as flat: classes that can be told apart drive
# coefficients to where the likelihood has none left. By hand.
_FLAT_CURVATURE = 1e-7
_MOST_DESCENT_STEPS = 2000  # of L-BFGS towards a mode of a network; by hand
_IMPROPER = (
    "the coefficients have no proper posterior: the classes can be told apart without error, or columns depend on each "
    "other; give a prior_sd, or a learner with regularisation"
)


@dataclass(frozen=True, eq=False)
class Problem:
    """A net, rows ``X (n, d)`` with the loss of their outcomes, the precision ``(p, p)`` of the prior, and eta'."""

    net: Net
    likelihood: Likelihood
    X: Array
    precision: Array
    eta: float = 1.0

    @property
    def linear(self) -> bool:
        """Whether outputs are linear in the coefficients."""
        return len(self.net.sizes) == 2

    def at(self, eta: float) -> "Problem":
        """Return the same at another eta'."""
        return replace(self, eta=eta)

    def take(self, index: Array) -> "Problem":
        """Return the same given only some rows."""
        return replace(self, X=self.X[index], likelihood=self.likelihood.take(index))

    def energy(self, theta: Array) -> tuple[Array, Array]:
        """Return minus the log density ``(c,)`` at ``theta (c, p)``, up to a constant, and its gradient ``(c, p)``."""
        passed = self.net.forward(theta, self.X)
        pull = theta @ self.precision
        value = self.eta * self.likelihood.loss(passed[-1]).sum(axis=-1) + 0.5 * (theta * pull).sum(axis=-1)
        slope = self.eta * self.likelihood.slope(passed[-1])
        return value, self.net.gradient(theta, passed, slope) + pull

    def curvature(self, theta: Array) -> Array:
        """Return the generalised Gauss-Newton matrix ``(p, p)`` of the energy: its Hessian where outputs are linear."""
        slopes = self.net.jacobian(theta, self.X)
        weighted = self.likelihood.curvature(self.net.outputs(theta, self.X)) @ slopes
        p = slopes.shape[-1]
        return self.eta * (slopes.reshape(-1, p).T @ weighted.reshape(-1, p)) + self.precision

    def mode_near(self, start: Array) -> Array:
        """Return the local mode ``(p,)`` below ``start``, where outputs are not linear in the coefficients."""
        root = np.linalg.cholesky(self.curvature(start))

        def in_z(z: Array) -> tuple[float, Array]:  # in which the surroundings of the start are round
            value, slope = self.energy((start + solve_triangular(root, z, lower=True, trans="T"))[None])
            return float(value[0]), solve_triangular(root, slope[0], lower=True)

        options = {"maxiter": _MOST_DESCENT_STEPS}
        found = minimize(in_z, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
        return start + solve_triangular(root, found.x, lower=True, trans="T")

    def mode(self, start: Array | None = None) -> Array:
        """Return the coefficients ``(p,)`` of least energy, by Newton's method, where outputs are linear in them."""
        theta = np.zeros(self.net.n_parameters) if start is None else start
        value, slope = (part[0] for part in self.energy(theta[None]))
        for _ in range(_MOST_NEWTON_STEPS):
            curvature = self.curvature(theta)
            try:
                step = -np.linalg.solve(curvature, slope)
            except np.linalg.LinAlgError:
                break
            size = 1.0
            while size > _SHORTEST_STEP:
                tried, at = (part[0] for part in self.energy((theta + size * step)[None]))
                if tried <= value + _SUFFICIENT_FALL * size * (slope @ step) + _ENERGY_ROUNDING * abs(value):
                    break
                size /= 2
            theta, value, slope, gained = theta + size * step, tried, at, -slope @ step
            if gained < _CLOSE_ENOUGH:
                return theta
        raise ValueError(_IMPROPER)

    def require_proper(self, mode: Array) -> None:
        """Refuse a posterior that is flat in some direction at its mode, compared with zero coefficients."""
        at_zero = self.curvature(np.zeros_like(mode))
        try:
            flattest = eigh(self.curvature(mode), at_zero, eigvals_only=True)[0]
        except np.linalg.LinAlgError:
            flattest = 0.0
        if flattest < _FLAT_CURVATURE:
            raise ValueError(_IMPROPER)


def gaussian_draws(mean: Array, precision: Array, normal: Array) -> Array:
    """Turn standard normal ``(k, p)`` into draws of ``N(mean, precision^-1)``."""
    try:
        root = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        raise ValueError(_IMPROPER) from None
    return mean + solve_triangular(root, normal.T, lower=True, trans="T").T
