"""Exact posteriors that are normal laws, mixtures of them, or hang on one direction only."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import ncx2

from benchmarks._exact import ALPHA, Array, Truth, Wish, quantile, root

_REACH, _STEPS = 16.0, 200_001  # of the grid along one direction, in deviations of the prior
_LAST = 200.0  # of the argument of a characteristic function, which has died out by then
_ROOT_TWO_OVER_PI = np.sqrt(2.0 / np.pi)


def folded_mean(mean: Array, sd: Array) -> Array:
    """Mean size of normal numbers."""
    ratio = mean / sd
    return sd * _ROOT_TWO_OVER_PI * np.exp(-0.5 * np.square(ratio)) + mean * (1.0 - 2.0 * ndtr(-ratio))


@dataclass(frozen=True, eq=False)
class Ridge:
    """The model ``link(w.x)`` under the prior ``N(row, sigma**2 I)``; linear where the link is left out."""

    w: Array
    row: Array
    wish: Wish
    eta: float
    sigma: float = 1.0
    link: Callable[[Array], Array] = lambda t: t

    def predict(self, x: Array) -> Array:
        """Answer for rows ``(n, d)``."""
        return self.link(x @ self.w)

    def truth(self) -> Truth:
        """Exact figures: an integral along ``w``; across it the prior stays as it is."""
        length = self.sigma * float(np.linalg.norm(self.w))
        along = self.sigma * self.w / length
        v = np.linspace(-_REACH, _REACH, _STEPS)
        outputs = self.link(self.w @ self.row + length * v)
        loss = self.wish.loss(outputs)
        log_prior = -0.5 * np.square(v)
        log_weights = log_prior - self.eta * loss
        total = logsumexp(log_weights)
        weights = np.exp(log_weights - total)
        kept = weights > weights.max() * 1e-18
        v, weights, loss, outputs = v[kept], weights[kept], loss[kept], outputs[kept]
        mean, square, mean_loss = weights @ v, weights @ np.square(v), float(weights @ loss)
        across = np.sqrt(np.maximum(1.0 - np.square(along), 1e-300))
        size = np.array([weights @ folded_mean(a * v, s) for a, s in zip(along, across, strict=True)])
        lumps = self.wish.low != self.wish.high
        return Truth(
            log_evidence=float(total - logsumexp(log_prior)),
            success_probability=float(weights @ self.wish.reached(outputs)),
            stability=float(self.sigma**2 * (len(along) - 1 + square - mean**2)),
            importance=self.sigma * size,
            importance_sd=self.sigma * root(np.square(across) + np.square(along) * square - np.square(size)),
            expected_loss=mean_loss,
            loss_sd=float(np.sqrt(weights @ np.square(loss - mean_loss))),
            tail=np.nan if lumps else quantile(loss, weights, 1 - ALPHA),
        )


class Normals(NamedTuple):
    """A mixture of ``k`` normal laws of the moves from the row, with unnormalised log weights."""

    log_weights: Array
    mean: Array  # (k, d)
    cov: Array  # (k, d, d)

    def weights(self) -> Array:
        """Return the share of each."""
        return np.exp(self.log_weights - logsumexp(self.log_weights))

    def truth(self, success: float, expected_loss: float, squared_loss: float) -> Truth:
        """Exact figures, beside what is known about the loss."""
        weights = self.weights()
        variance = np.diagonal(self.cov, axis1=1, axis2=2)
        square = weights @ (variance + np.square(self.mean))
        size = weights @ folded_mean(self.mean, np.sqrt(variance))
        return Truth(
            log_evidence=float(logsumexp(self.log_weights)),
            success_probability=success,
            stability=float((square - np.square(weights @ self.mean)).sum()),
            importance=size,
            importance_sd=root(square - np.square(size)),
            expected_loss=expected_loss,
            loss_sd=float(np.sqrt(max(squared_loss - expected_loss**2, 0.0))),
        )


@dataclass(frozen=True, eq=False)
class LinearModels:
    """Several models ``w_k.x + b_k`` of equal weight, a wish for one value, the prior ``N(row, I)``."""

    w: Array  # (k, d)
    b: Array  # (k,)
    row: Array
    wish: Wish
    eta: float
    combine: Literal["any", "average"]

    def models(self) -> list[Callable[[Array], Array]]:
        """Return the models as functions."""
        return [partial(_linear, w, float(b)) for w, b in zip(self.w, self.b, strict=True)]

    def normals(self) -> Normals:
        """Return the posterior: a normal law for every model, or one for their mean loss."""
        gap = (self.w @ self.row + self.b - self.wish.low) / self.wish.scale
        slope, k = self.w / self.wish.scale, len(self.b)
        if self.combine == "average":
            parts = [_conditioned(slope, gap, np.full(k, self.eta / k), 0.0)]
        else:
            one = np.array([self.eta])
            parts = [_conditioned(slope[[i]], gap[[i]], one, -np.log(k)) for i in range(k)]
        log_weights, means, covs = zip(*parts, strict=True)
        return Normals(np.array(log_weights), np.array(means), np.array(covs))

    def truth(self) -> Truth:
        """Exact figures; the loss is that of the first model."""
        normals = self.normals()
        weights, first = normals.weights(), self.w[0]
        mean = normals.mean @ first + first @ self.row + self.b[0] - self.wish.low
        sd = np.sqrt(np.einsum("i,kij,j->k", first, normals.cov, first))
        slack = self.wish.tolerance
        success = float(weights @ (ndtr((slack - mean) / sd) - ndtr((-slack - mean) / sd)))
        mean, sd = mean / self.wish.scale, sd / self.wish.scale
        loss, squared = mean**2 + sd**2, mean**4 + 6 * mean**2 * sd**2 + 3 * sd**4
        return normals.truth(success, float(weights @ loss), float(weights @ squared))


def _linear(w: Array, b: float, x: Array) -> Array:
    return x @ w + b


def _conditioned(slope: Array, gap: Array, eta: Array, log_share: float) -> tuple[float, Array, Array]:
    """Tilt ``N(0, I)`` by ``exp(-sum_k eta_k (gap_k + slope_k.u)**2)``: log mass, mean and covariance."""
    precision = np.eye(slope.shape[1]) + 2.0 * (slope.T * eta) @ slope
    cov = np.asarray(np.linalg.inv(precision), dtype=float)
    mean = -2.0 * cov @ (slope.T @ (eta * gap))
    log_mass = -0.5 * np.linalg.slogdet(precision)[1] + 0.5 * mean @ precision @ mean - eta @ np.square(gap)
    return float(log_mass + log_share), mean, cov


@dataclass(frozen=True, eq=False)
class Bumps:
    """A model whose output is a loss: minus the log of a sum of bumps ``exp(height - |x - centre|**2 / (2 width**2))``.

    The prior is ``N(0, I)`` and eta is one, so that the posterior is a mixture of normal laws. Bumps must lie apart, so
    that next to one the others add nothing to the loss.
    """

    centre: Array  # (k, d)
    width: Array  # (k,)
    height: Array  # (k,)
    threshold: float  # the largest loss that counts as reached

    def predict(self, x: Array) -> Array:
        """Return the loss of rows ``(n, d)``."""
        terms = [
            h - 0.5 * np.square(x - c).sum(axis=1) / s**2
            for c, s, h in zip(self.centre, self.width, self.height, strict=True)
        ]
        return -logsumexp(terms, axis=0)

    def normals(self) -> Normals:
        """Return the posterior."""
        d, share = self.centre.shape[1], 1.0 / (1.0 + self.width**2)
        far = np.square(self.centre).sum(axis=1)
        log_weights = self.height + 0.5 * d * np.log(self.width**2 * share) - 0.5 * far * share
        cov = (self.width**2 * share)[:, None, None] * np.eye(d)
        return Normals(log_weights, self.centre * share[:, None], cov)

    def apart(self) -> float:
        """Return the least distance of two centres in units of the larger width."""
        k = len(self.width)
        gaps = [
            np.linalg.norm(self.centre[i] - self.centre[j]) / max(self.width[i], self.width[j])
            for i in range(k)
            for j in range(i)
        ]
        return float(min(gaps, default=np.inf))

    def truth(self) -> Truth:
        """Exact figures: around each bump the squared distance from its centre has a noncentral chi-squared law."""
        normals, d = self.normals(), self.centre.shape[1]
        weights, variance = normals.weights(), normals.cov[:, 0, 0]
        half = 0.5 * variance / self.width**2  # the loss is half times a noncentral chi-squared number, less the height
        shift = np.square(normals.mean - self.centre).sum(axis=1) / variance
        success = float(weights @ ncx2.cdf((self.threshold + self.height) / half, d, shift))
        mean = half * (d + shift) - self.height
        squared = mean**2 + half**2 * 2.0 * (d + 2.0 * shift)
        return normals.truth(success, float(weights @ mean), float(weights @ squared))


@dataclass(frozen=True, eq=False)
class LongBumps:
    """As :class:`Bumps`, with bumps ``exp(height - (x - centre)' shape^-1 (x - centre) / 2)`` that are not round."""

    centre: Array  # (k, d)
    shape: Array  # (k, d, d)
    height: Array  # (k,)
    threshold: float  # the largest loss that counts as reached

    def predict(self, x: Array) -> Array:
        """Return the loss of rows ``(n, d)``."""
        terms = [
            h - 0.5 * np.square(np.linalg.solve(np.linalg.cholesky(s), (x - c).T)).sum(axis=0)
            for c, s, h in zip(self.centre, self.shape, self.height, strict=True)
        ]
        return -logsumexp(terms, axis=0)

    def normals(self) -> Normals:
        """Return the posterior."""
        d = self.centre.shape[1]
        precision = np.linalg.inv(self.shape)
        cov = np.asarray(np.linalg.inv(precision + np.eye(d)), dtype=float)
        wide = self.shape + np.eye(d)
        far = np.einsum("ki,ki->k", self.centre, np.linalg.solve(wide, self.centre[..., None])[..., 0])
        log_weights = self.height + 0.5 * (np.linalg.slogdet(self.shape)[1] - np.linalg.slogdet(wide)[1]) - 0.5 * far
        return Normals(log_weights, np.einsum("kij,kjl,kl->ki", cov, precision, self.centre), cov)

    def apart(self) -> float:
        """Return the least distance of two centres in widths of one of them, in the direction of the other."""
        k = len(self.centre)
        gaps = [(self.centre[i] - self.centre[j], self.shape[i]) for i in range(k) for j in range(k) if i != j]
        return float(np.sqrt(min((gap @ np.linalg.solve(shape, gap) for gap, shape in gaps), default=np.inf)))

    def truth(self) -> Truth:
        """Exact figures: around each bump the loss is a weighted sum of noncentral chi-squared numbers."""
        normals = self.normals()
        weights = normals.weights()
        success, means, squares = [], [], []
        for mean, cov, c, s, h in zip(normals.mean, normals.cov, self.centre, self.shape, self.height, strict=True):
            factor = np.linalg.cholesky(s)
            turned = np.linalg.solve(factor, np.linalg.solve(factor, cov).T)  # of the bump's own coordinates
            size, axes = np.linalg.eigh(turned)
            shift = axes.T @ np.linalg.solve(factor, mean - c)
            first = 0.5 * float(size.sum() + shift @ shift) - h
            means.append(first)
            squares.append(first**2 + 0.5 * float(np.square(size).sum()) + float(np.square(shift) @ size))
            success.append(below(2.0 * (self.threshold + h), size, np.square(shift) / size))
        return normals.truth(float(weights @ success), float(weights @ means), float(weights @ squares))


def below(value: float, size: Array, shift: Array) -> float:
    """Return the chance that noncentral chi-squared numbers times ``size`` sum to less than ``value`` (Imhof, 1961)."""
    step = _LAST / float(size.max()) / _STEPS
    u = (np.arange(_STEPS) + 0.5) * step
    su = np.outer(u, size)
    angle = 0.5 * (np.arctan(su) + shift * su / (1 + su**2)).sum(axis=1) - 0.5 * value * u
    log_size = 0.25 * np.log1p(su**2).sum(axis=1) + 0.5 * (shift * su**2 / (1 + su**2)).sum(axis=1)
    return 0.5 - float((np.sin(angle) / u * np.exp(-log_size)).sum()) * step / np.pi
