"""Posteriors whose figures are known: closed forms, quadrature on a grid, and the cells of a tree ensemble."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import foldnorm, multivariate_normal, ncx2, norm


@dataclass(frozen=True)
class Linear:
    """Prior N(x0, S), model w.x + b, loss (f - y)**2: a Gaussian posterior."""

    w: np.ndarray
    b: float
    y: float
    x0: np.ndarray
    S: np.ndarray
    eta: float

    def predict(self, x):
        return x @ self.w + self.b

    @property
    def cov(self):
        return np.linalg.inv(np.linalg.inv(self.S) + 2 * self.eta * np.outer(self.w, self.w))

    @property
    def mean(self):
        return self.cov @ (np.linalg.solve(self.S, self.x0) + 2 * self.eta * (self.y - self.b) * self.w)

    @property
    def log_evidence(self):
        s2, r = self.w @ self.S @ self.w, self.w @ self.x0 + self.b - self.y
        return -0.5 * np.log(1 + 2 * self.eta * s2) - self.eta * r**2 / (1 + 2 * self.eta * s2)

    @property
    def output(self):
        """Law of f under the posterior."""
        return norm(self.w @ self.mean + self.b, np.sqrt(self.w @ self.cov @ self.w))

    def success_probability(self, tolerance):
        return self.output.cdf(self.y + tolerance) - self.output.cdf(self.y - tolerance)

    def tail(self, alpha):
        v = self.output.var()
        return v * ncx2(1, (self.output.mean() - self.y) ** 2 / v).ppf(1 - alpha)

    @property
    def stability(self):
        return np.trace(self.cov)

    @property
    def importance(self):
        sd = np.sqrt(np.diag(self.cov))
        return foldnorm(np.abs(self.mean - self.x0) / sd, scale=sd).mean()

    @property
    def divergence(self):
        """KL divergence of the posterior from the prior."""
        gap, inverse = self.mean - self.x0, np.linalg.inv(self.S)
        log_det = np.linalg.slogdet(self.S)[1] - np.linalg.slogdet(self.cov)[1]
        return 0.5 * (np.trace(inverse @ self.cov) + gap @ inverse @ gap - len(gap) + log_det)


def linear(d, eta=1.0, seed=0, scale=1.0):
    """A linear case in d dimensions with log evidence of about -1.5 to -3."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    x0 = rng.normal(size=d)
    return Linear(w=w, b=0.3, y=float(w @ x0 + 0.3 + 1.5), x0=x0, S=scale**2 * np.eye(d), eta=eta)


@dataclass(frozen=True)
class Grid:
    """A posterior on a grid of one or two dimensions, by quadrature."""

    x: np.ndarray  # (n, d)
    weights: np.ndarray  # (n,), sum to one
    log_evidence: float

    @classmethod
    def of(cls, axes, log_prior, potential):
        x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        prior = log_prior(x)
        log_weights = prior - potential(x)
        weights = np.exp(log_weights - log_weights.max())
        return cls(x, weights / weights.sum(), logsumexp(log_weights) - logsumexp(prior))

    def mean(self, values):
        return np.tensordot(self.weights, values, axes=1)

    def quantile(self, values, q):
        order = np.argsort(values)
        return values[order][np.searchsorted(np.cumsum(self.weights[order]), q)]

    @property
    def stability(self):
        return self.mean(np.square(self.x - self.mean(self.x)).sum(axis=1))

    def importance(self, x0):
        return self.mean(np.abs(self.x - x0))


def midpoints(low, high, n=1200):
    edges = np.linspace(low, high, n + 1)
    return 0.5 * (edges[1:] + edges[:-1])


def gaussian_log_prior(x0, cov):
    return lambda x: multivariate_normal(x0, cov).logpdf(x)


def tree_cells(trees, x0, sigma):
    """Cells of a fitted scikit-learn forest in two dimensions: a point in each, and its prior probability."""
    edges = []
    for j in range(2):
        splits = [(tree.tree_.feature, tree.tree_.threshold) for tree in trees.estimators_]
        cuts = np.unique(np.concatenate([threshold[feature == j] for feature, threshold in splits]))
        edges.append(np.concatenate([[-np.inf], cuts, [np.inf]]))
    inside, masses = [], []
    for j in range(2):
        finite = np.clip(edges[j], x0[j] - 50, x0[j] + 50)
        inside.append(0.5 * (finite[1:] + finite[:-1]))
        masses.append(np.diff(ndtr((edges[j] - x0[j]) / sigma)))
    x = np.stack(np.meshgrid(*inside, indexing="ij"), axis=-1).reshape(-1, 2)
    return x, np.outer(*masses).ravel()
