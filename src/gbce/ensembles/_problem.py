"""The Gibbs posterior of coefficients, ``exp(-eta' L(D, theta)) N(theta | 0, precision^-1)``, its mode and derivatives.

Losses are negative log likelihoods up to a constant; outputs come from layers with exact derivatives, evaluated for
many parameter vectors at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

from gbce._numerics import ROUNDING
from gbce.base import Array

_ACTIVATIONS = {
    "identity": (lambda a: a, lambda h: np.ones_like(h)),
    "relu": (lambda a: np.maximum(a, 0.0), lambda h: (h > 0).astype(float)),
    "tanh": (np.tanh, lambda h: 1.0 - h * h),
    "logistic": (expit, lambda h: h * (1.0 - h)),
}  # each with its derivative as a function of its value
Layers = list[tuple[Array, Array]]


@dataclass(frozen=True)
class _Tuning:
    """Newton's method and descents to a mode, and when columns count as dependent; by hand."""

    most_newton_steps: int = 100  # a posterior without a mode would never converge
    close_enough: float = 1e-10  # largest further decrease of the energy, a log density, by a full step
    shortest_step: float = 1e-8  # share of a Newton step below which it is not halved any more
    # share of the linear decrease (Armijo's rule; Nocedal and Wright 2006, Section 3.1)
    sufficient_decrease: float = 1e-4
    # Curvature at the mode over that at zero below which a direction counts as flat: separable classes drive
    # coefficients to where the likelihood is flat.
    flat_curvature: float = 1e-7
    most_descent_steps: int = 2000  # of L-BFGS towards a mode of a network; by hand
    # The precision of coefficients holds products of columns, which squares ratios of singular values: at 1e-6 four of
    # a double's sixteen digits are left, and below that there is only rounding.
    smallest_ratio: float = 1e-6
    # of a dependence, in columns of equal length, from which a column is part of it; by hand
    involved_share: float = 0.01
    most_columns_named: int = 6  # in one message; by hand


_TUNING = _Tuning()
_IMPROPER = (
    "the posterior of the coefficients is improper: the classes are separable, or columns are linearly dependent; give "
    "a prior_sd, or a learner with regularisation"
)
_ADVICE = (
    "so that the posterior of the coefficients is improper: drop what is redundant, give a prior_sd, or use a learner "
    "with regularisation"
)

# --- losses as negative log likelihoods ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NormalErrors:
    """Outcomes ``y (n,)`` with normal errors: squared loss over twice the variance."""

    y: Array
    sd: float

    def loss(self, outputs: Array) -> Array:
        """Return ``(f - y)**2 / (2 sd**2)``."""
        return np.square(outputs[..., 0] - self.y) / (2 * self.sd**2)

    def slope(self, outputs: Array) -> Array:
        """Return ``(f - y) / sd**2``."""
        return (outputs - self.y[:, None]) / self.sd**2

    def curvature(self, outputs: Array) -> Array:
        """Return ``1 / sd**2``."""
        return np.full((len(self.y), 1, 1), self.sd**-2)

    def take(self, index: Array) -> Self:
        """Return the likelihood of some rows."""
        return replace(self, y=self.y[index])


@dataclass(frozen=True, eq=False)
class Categorical:
    """Classes by number, ``codes (n,)``: log loss of one logit (two classes) or of one score per class."""

    codes: Array

    def loss(self, outputs: Array) -> Array:
        """Return ``-log p(class)``."""
        if outputs.shape[-1] == 1:
            return np.logaddexp(0.0, np.where(self.codes == 1, -1.0, 1.0) * outputs[..., 0])
        rows = np.arange(len(self.codes))
        return -log_softmax(outputs, axis=-1)[..., rows, self.codes]

    def slope(self, outputs: Array) -> Array:
        """Return probabilities minus the indicator of the class that occurred."""
        if outputs.shape[-1] == 1:
            return expit(outputs) - self.codes[:, None]
        return softmax(outputs, axis=-1) - np.eye(outputs.shape[-1])[self.codes]

    def curvature(self, outputs: Array) -> Array:
        """Return the covariance of the indicator of the class."""
        if outputs.shape[-1] == 1:
            p = expit(outputs)
            return (p * (1 - p))[:, :, None]
        p = softmax(outputs, axis=-1)
        return p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]

    def take(self, index: Array) -> Self:
        """Return the likelihood of some rows."""
        return replace(self, codes=self.codes[index])


Likelihood = NormalErrors | Categorical  # losses of n outcomes against outputs (c, n, o)

# --- layers with exact derivatives -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """Layers from ``sizes[0]`` inputs to ``sizes[-1]`` outputs; parameters are ``(c, p)``, outputs ``(c, n, o)``."""

    sizes: tuple[int, ...]
    activation: str = "identity"
    bias: bool = True

    @property
    def n_parameters(self) -> int:
        """Number of parameters p."""
        return sum((i + self.bias) * o for i, o in self._shapes)

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes[:-1], self.sizes[1:], strict=True))

    def layers(self, theta: Array) -> Layers:
        """Unpack weights ``(..., i, o)`` and biases ``(..., o)`` of each layer from ``theta (..., p)``."""
        found, at = [], 0
        for i, o in self._shapes:
            weights = theta[..., at : at + i * o].reshape(*theta.shape[:-1], i, o)
            at += i * o
            biases = theta[..., at : at + o] if self.bias else np.zeros((*theta.shape[:-1], o))
            at += o if self.bias else 0
            found.append((weights, biases))
        return found

    @property
    def scalings(self) -> Array:
        """Incidence of hidden units and parameters, ``(units, p)``: +1 incoming, -1 outgoing, else 0."""
        rows = []
        for number, width in enumerate(self.sizes[1:-1]):
            for unit in range(width):
                layers = [(np.zeros((i, o)), np.zeros(o)) for i, o in self._shapes]
                layers[number][0][:, unit] = layers[number][1][unit] = 1.0
                layers[number + 1][0][unit] = -1.0
                rows.append(self.pack(layers))
        return np.array(rows)

    def pack(self, layers: Layers) -> Array:
        """Pack weights ``(i, o)`` and biases ``(o,)`` into one vector ``(p,)``."""
        return np.concatenate([np.concatenate([w.ravel(), b] if self.bias else [w.ravel()]) for w, b in layers])

    def forward(self, theta: Array, X: Array) -> list[Array]:
        """Return the inputs of each layer and the outputs last, each ``(c, n, width)``."""
        value = _ACTIVATIONS[self.activation][0]
        passed = [X]
        for number, (w, b) in enumerate(self.layers(theta)):
            a = passed[-1] @ w + b[..., None, :]
            passed.append(a if number == len(self.sizes) - 2 else value(a))
        return passed

    def outputs(self, theta: Array, X: Array) -> Array:
        """Return outputs ``(c, n, o)``."""
        return self.forward(theta, X)[-1]

    def gradient(self, theta: Array, passed: list[Array], slope: Array) -> Array:
        """Return the gradient ``(c, p)`` of a sum over rows, given its gradient in the outputs ``(c, n, o)``."""
        parts: list[Array] = []
        for inputs, own in self._pass_back(theta, passed, slope):
            gw = np.swapaxes(inputs, -1, -2) @ own
            parts += [gw.reshape(*gw.shape[:-2], -1), *([own.sum(axis=-2)] if self.bias else [])]
        return np.concatenate(parts, axis=-1)

    def _pass_back(self, theta: Array, passed: list[Array], slope: Array) -> list[tuple[Array, Array]]:
        """Return the inputs of each layer and the gradient in its outputs before activation, from first to last."""
        found = []
        for number, (w, _) in reversed(list(enumerate(self.layers(theta)))):
            found.append((passed[number], slope))
            if number:
                slope = (slope @ np.swapaxes(w, -1, -2)) * _ACTIVATIONS[self.activation][1](passed[number])
        return found[::-1]

    def jacobian(self, theta: Array, X: Array) -> Array:
        """Return the derivatives ``(n, o, p)`` of outputs in one parameter vector ``(p,)``."""
        passed = self.forward(theta, X)
        n, o = passed[-1].shape
        found = np.empty((n, o, self.n_parameters))
        for k in range(o):
            slope = np.zeros((n, o))
            slope[:, k] = 1.0
            parts: list[Array] = []
            for inputs, own in self._pass_back(theta, passed, slope):
                gw = inputs[:, :, None] * own[:, None, :]
                parts += [gw.reshape(n, gw.shape[1] * gw.shape[2]), *([own] if self.bias else [])]
            found[:, k] = np.concatenate(parts, axis=1)
        return found

    def outputs_linearised(self, theta: Array, step: Array, X: Array) -> Array:
        """Return outputs ``(n, o)`` at ``theta`` plus their linear change along a ``step`` of the parameters."""
        passed = self.forward(theta, X)
        change = np.zeros_like(X)
        for number, ((w, _), (dw, db)) in enumerate(zip(self.layers(theta), self.layers(step), strict=True)):
            change = change @ w + passed[number] @ dw + db
            if number < len(self.sizes) - 2:
                change = change * _ACTIVATIONS[self.activation][1](passed[number + 1])
        return passed[-1] + change


# --- the posterior of coefficients -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """A net, rows ``X (n, d)`` with the likelihood of their outcomes, the prior precision ``(p, p)``, and eta'."""

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
        """Return the same problem at another eta'."""
        return replace(self, eta=eta)

    def take(self, index: Array) -> "Problem":
        """Return the same problem for some rows."""
        return replace(self, X=self.X[index], likelihood=self.likelihood.take(index))

    def energy(self, theta: Array) -> tuple[Array, Array]:
        """Return the unnormalised negative log density ``(c,)`` at ``theta (c, p)`` and its gradient ``(c, p)``."""
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
        """Return the local mode ``(p,)`` reached by L-BFGS from ``start``, for outputs nonlinear in coefficients."""
        root = np.linalg.cholesky(self.curvature(start))

        def in_z(z: Array) -> tuple[float, Array]:  # preconditioned by the curvature at the start
            value, slope = self.energy((start + solve_triangular(root, z, lower=True, trans="T"))[None])
            return float(value[0]), solve_triangular(root, slope[0], lower=True)

        options = {"maxiter": _TUNING.most_descent_steps}
        found = minimize(in_z, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
        return start + solve_triangular(root, found.x, lower=True, trans="T")

    def mode(self, start: Array | None = None) -> Array:
        """Return the mode ``(p,)`` by Newton's method, for outputs linear in the coefficients."""
        theta = np.zeros(self.net.n_parameters) if start is None else start
        value, slope = (part[0] for part in self.energy(theta[None]))
        for _ in range(_TUNING.most_newton_steps):
            curvature = self.curvature(theta)
            try:
                step = -np.linalg.solve(curvature, slope)
            except np.linalg.LinAlgError:
                break
            size = 1.0
            while size > _TUNING.shortest_step:
                tried, at = (part[0] for part in self.energy((theta + size * step)[None]))
                if tried <= value + _TUNING.sufficient_decrease * size * (slope @ step) + ROUNDING * abs(value):
                    break
                size /= 2
            theta, value, slope, gained = theta + size * step, tried, at, -slope @ step
            if gained < _TUNING.close_enough:
                return theta
        raise ValueError(_IMPROPER)

    def require_proper(self, mode: Array) -> None:
        """Raise if the posterior is flat in some direction at its mode, relative to zero coefficients."""
        at_zero = self.curvature(np.zeros_like(mode))
        try:
            flattest = eigh(self.curvature(mode), at_zero, eigvals_only=True)[0]
        except np.linalg.LinAlgError:
            flattest = 0.0
        if flattest < _TUNING.flat_curvature:
            raise ValueError(_IMPROPER)


def gaussian_draws(mean: Array, precision: Array, normal: Array) -> Array:
    """Transform standard normal draws ``(k, p)`` to draws from ``N(mean, precision^-1)``."""
    try:
        root = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        raise ValueError(_IMPROPER) from None
    return mean + solve_triangular(root, normal.T, lower=True, trans="T").T


# --- linear dependence -----------------------------------------------------------------------------------------------


def require_full_rank(design: Array, names: Sequence[str]) -> None:
    """Raise if columns ``(n, p)`` with a flat prior are linearly dependent, and name them."""
    n, p = design.shape
    length = np.linalg.norm(design, axis=0)
    if p == 0:
        return
    if not length.all():
        empty = [name for name, zero in zip(names, length == 0, strict=True) if zero]
        raise ValueError(f"{_join_names(empty)} {'is' if len(empty) == 1 else 'are'} zero in every row, {_ADVICE}")
    _, found, directions = np.linalg.svd(design / length, full_matrices=n < p)
    values = np.concatenate([found, np.zeros(p - len(found))])
    small = values < _TUNING.smallest_ratio * values[0]
    if small.any():
        share = np.linalg.norm(directions[small], axis=0)
        involved = [
            name for name, part in zip(names, share, strict=True) if part > _TUNING.involved_share * share.max()
        ]
        ratio = values[-1] / values[0]
        raise ValueError(
            f"{_join_names(involved)} are linearly dependent (the smallest singular value is {ratio:.1e} of the "
            f"largest, and below {_TUNING.smallest_ratio:g} it counts as zero), {_ADVICE}"
        )


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TUNING.most_columns_named} more" if len(names) > _TUNING.most_columns_named else ""
    return ", ".join(names[: _TUNING.most_columns_named]) + more
