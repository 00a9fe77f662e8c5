"""Find the modes of a weighted sample: fit a Gaussian mixture and merge components without a valley between them.

The number of components is chosen by the Bayesian information criterion at the effective sample size. Components need
not be modes: a curved cluster takes several. Two are merged unless the density along the ridge between their centres
(Ray and Lindsay, 2005) falls well below both (Hennig, 2010), and unless the points themselves show that valley along
the direction that separates them best.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from gbce._numerics import effective_sample_size, log_sum_exp, resample_systematically
from gbce.base import Array

__all__ = ["Modes", "find_modes"]

# Chosen by hand, unless a reason is given.
_MOST_COMPONENTS = 8  # modes with less than an eighth of the mass are rarely shown
_N_STARTS = 2  # random starts of EM for each number of components, besides one that splits the previous fit
_MOST_STEPS, _LEAST_GAIN = 100, 1e-4  # of EM: the gain per draw, a twentieth of a unit of log likelihood in all
_MOST_FITTED = 1_000  # points used in the fit: enough to see a mode, while shares use all points
_PATIENCE = 2  # numbers of components without improvement after which no more are tried
_FLAT = 1e-10  # relative variance below which a direction is degenerate
# Density in the valley, relative to the lower of the two peaks, above which two components are one mode. A fit to a few
# hundred draws of one cluster does not show a valley of one half by chance.
_VALLEY = 0.5
_RIDGE_STEPS = 33  # points between two centres; results do not depend on them
# The same for a kernel density estimate on a line (Silverman's rule, 1986): flat clusters of a few hundred draws show
# valleys down to 0.7 by chance.
_SEEN_VALLEY, _SILVERMAN = 0.6, 0.9
_LEAST_SPLIT = 0.1  # least share of a component that may be split for a start
_PER_DRAW = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class Modes:
    """A fitted Gaussian mixture whose ``c`` components are grouped into modes.

    ``axes`` ``(k, r)`` whiten points less their ``centre`` ``(k,)``; in these coordinates components have
    ``log_shares`` ``(c,)``, ``means`` ``(c, r)`` and inverse Cholesky factors ``roots`` ``(c, r, r)``; ``mode_of``
    ``(c,)`` is the mode of each.
    """

    centre: Array
    axes: Array
    log_shares: Array
    means: Array
    roots: Array
    mode_of: Array

    def __len__(self) -> int:
        return int(self.mode_of.max()) + 1

    def memberships(self, points: Array) -> Array:
        """Return the probability ``(n, modes)`` that each of points ``(n, k)`` belongs to each mode."""
        log_joint = _compute_log_joint((points - self.centre) @ self.axes, self.log_shares, self.means, self.roots)
        share = np.exp(log_joint - log_sum_exp(log_joint, 1)[:, None])
        return share @ (self.mode_of[:, None] == np.arange(len(self)))


def find_modes(points: Array, weights: Array, n_effective: float, rng: np.random.Generator) -> Modes:
    """Find the modes of points ``(n, k)`` in comparable units, with weights ``(n,)`` that sum to one.

    ``n_effective`` is the number of independent draws that the points are worth; ``rng`` is for the starts.

    >>> rng = np.random.default_rng(0)
    >>> points = np.concatenate([rng.normal(-3, 1, size=(700, 2)), rng.normal(3, 1, size=(300, 2))])
    >>> modes = find_modes(points, np.full(1000, 0.001), 1000, rng)
    >>> sorted(modes.memberships(points).mean(axis=0).round(2).tolist())
    [0.3, 0.7]
    """
    if len(points) > _MOST_FITTED:
        picked, times = np.unique(resample_systematically(rng, weights, _MOST_FITTED), return_counts=True)
        points, weights = points[picked], times / _MOST_FITTED
        n_effective = min(n_effective, effective_sample_size(weights))
    centre = weights @ points
    offset = points - centre
    values, vectors = np.linalg.eigh((weights[:, None] * offset).T @ offset)
    real = values > _FLAT * max(values.max(initial=0.0), np.finfo(float).tiny)
    if not real.any():
        one = np.zeros((1, 0))
        return Modes(centre, np.zeros((len(centre), 0)), np.zeros(1), one, one[:, :, None], np.zeros(1, dtype=int))
    axes = vectors[:, real] / np.sqrt(values[real])
    u = offset @ axes
    best = _fit_best(u, weights * n_effective, np.column_stack([u, offset[:, weights @ np.square(offset) > 0]]), rng)
    mode_of = _merge(best)
    while len(np.unique(mode_of)) > 1:
        pair = _find_unseparated(u, weights * n_effective, best.share @ (mode_of[:, None] == np.unique(mode_of)))
        if pair is None:
            break
        kept, gone = np.unique(mode_of)[list(pair)]
        mode_of = np.where(mode_of == gone, kept, mode_of)
    mode_of = np.unique(mode_of, return_inverse=True)[1]
    return Modes(centre, axes, best.log_shares, best.means, best.roots, mode_of)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Components, the log likelihood, and the memberships ``(n, c)`` of the points."""

    log_shares: Array
    means: Array
    roots: Array
    log_likelihood: float
    share: Array

    def criterion(self, n: float, *, tied: bool) -> float:
        """Return the Bayesian information criterion, larger is better."""
        c, r = self.means.shape
        n_free = c - 1 + c * r + (1 if tied else c) * r * (r + 1) / 2
        return 2.0 * self.log_likelihood - n_free * math.log(n)


def _fit_best(u: Array, counts: Array, lines: Array, rng: np.random.Generator) -> _Fit:
    """Fit mixtures of increasing size, with a common covariance or one each; return the best."""
    n = float(counts.sum())
    best = _update(u, counts, np.ones((len(u), 1)), tied=True)
    most, without_gain, last = best.criterion(n, tied=True), 0, best
    for c in range(2, _MOST_COMPONENTS + 1):
        starts = [_split(last.share, counts, lines), *(_initialise(u, counts, c, rng) for _ in range(_N_STARTS))]
        better = False
        for tied in (False, True):
            fit = max((_fit(u, counts, start, tied=tied) for start in starts), key=lambda one: one.log_likelihood)
            last = fit
            if fit.criterion(n, tied=tied) > most:
                best, most, better = fit, fit.criterion(n, tied=tied), True
        without_gain = 0 if better else without_gain + 1
        if without_gain == _PATIENCE:
            break
    return best


def _fit(u: Array, counts: Array, share: Array, *, tied: bool) -> _Fit:
    """Run EM from memberships ``(n, c)``."""
    fit = _update(u, counts, share, tied=tied)
    for _ in range(_MOST_STEPS):
        before, fit = fit.log_likelihood, _update(u, counts, fit.share, tied=tied)
        if fit.log_likelihood - before < _LEAST_GAIN * counts.sum():
            break
    return fit


def _update(u: Array, counts: Array, share: Array, *, tied: bool) -> _Fit:
    """Run one EM step from memberships ``(n, c)``.

    Covariances are regularised by the prior of Fraley and Raftery (2007), scaled by the number of components, so that
    none collapses onto a few heavy points.
    """
    (n_components, r), each = (share.shape[1], u.shape[1]), (counts[:, None] * share)
    sizes = each.sum(axis=0)
    means = (each.T @ u) / np.maximum(sizes, np.finfo(float).tiny)[:, None]
    scatter = np.empty((n_components, r, r))
    for c in range(n_components):
        offset = u - means[c]
        scatter[c] = (each[:, c, None] * offset).T @ offset
    prior, freedom = np.eye(r) / n_components ** (2.0 / r), 2.0 * r + 4.0
    if tied:
        covariance = np.repeat((prior + scatter.sum(axis=0))[None] / (freedom + sizes.sum()), n_components, 0)
    else:
        covariance = (prior + scatter) / (freedom + sizes)[:, None, None]
    roots = np.linalg.inv(np.linalg.cholesky(covariance))
    with np.errstate(divide="ignore"):
        log_shares = np.log(sizes / sizes.sum())
    log_joint = _compute_log_joint(u, log_shares, means, roots)
    total = log_sum_exp(log_joint, 1)
    return _Fit(log_shares, means, roots, float(counts @ total), np.exp(log_joint - total[:, None]))


def _compute_log_joint(u: Array, log_shares: Array, means: Array, roots: Array) -> Array:
    """Return log weight plus log density of each component ``(n, c)``."""
    found = np.empty((len(u), len(means)))
    for c, (mean, root) in enumerate(zip(means, roots, strict=True)):
        e = (u - mean) @ root.T
        found[:, c] = -0.5 * (np.square(e).sum(axis=1) + len(mean) * _PER_DRAW) + np.log(np.diag(root)).sum()
    return found + log_shares


def _initialise(u: Array, counts: Array, c: int, rng: np.random.Generator) -> Array:
    """Return memberships ``(n, c)`` of the nearest of ``c`` centres chosen by k-means++."""
    chosen = [int(rng.choice(len(u), p=counts / counts.sum()))]
    near = np.square(u - u[chosen[0]]).sum(axis=1)
    for _ in range(c - 1):
        chance = counts * near
        if not chance.any():
            break
        chosen.append(int(rng.choice(len(u), p=chance / chance.sum())))
        near = np.minimum(near, np.square(u - u[chosen[-1]]).sum(axis=1))
    centres = u[chosen]
    nearest = (np.square(centres).sum(axis=1) - 2.0 * u @ centres.T).argmin(axis=1)
    return 1.0 * (nearest[:, None] == np.arange(c))


def _split(share: Array, counts: Array, lines: Array) -> Array:
    """Split one component in two along the line ``(n,)`` of least kurtosis; return memberships ``(n, c + 1)``.

    Two modes on a line have smaller kurtosis than a single cluster; in many dimensions random starts miss them.
    """
    best, cut = math.inf, (0, np.zeros(len(share), dtype=bool))
    for c in range(share.shape[1]):
        each = counts * share[:, c]
        if each.sum() < _LEAST_SPLIT * counts.sum():
            continue
        each = each / each.sum()
        offset = lines - each @ lines
        spread = each @ np.square(offset)
        with np.errstate(invalid="ignore", divide="ignore"):
            peaked = np.where(spread > 0, each @ offset**4 / np.square(spread), math.inf)
        j = int(np.argmin(peaked))
        if peaked[j] < best:
            best, cut = float(peaked[j]), (c, offset[:, j] > 0)
    c, above = cut
    return np.column_stack([share[:, :c], np.where(above, 0.0, share[:, c]), share[:, c + 1 :],
                            np.where(above, share[:, c], 0.0)])  # fmt: skip


def _find_unseparated(u: Array, counts: Array, share: Array) -> tuple[int, int] | None:
    """Return the two modes with the shallowest valley between their points, or None if all are separated."""
    found = [
        (_measure_seen_valley(u, counts, share[:, [i, j]]), (i, j)) for j in range(share.shape[1]) for i in range(j)
    ]
    depth, pair = max(found)
    return pair if depth > _SEEN_VALLEY else None


def _measure_seen_valley(u: Array, counts: Array, share: Array) -> float:
    """Return the least density between two modes on their discriminant line, relative to the lower peak."""
    each = counts[:, None] * share
    sizes = each.sum(axis=0)
    means = each.T @ u / sizes[:, None]
    within = sum((each[:, c, None] * (u - means[c])).T @ (u - means[c]) for c in range(2)) / sizes.sum()
    line = u @ np.linalg.solve(within + _FLAT * np.eye(u.shape[1]), means[1] - means[0])
    centres = each.T @ line / sizes
    spread = np.sqrt((each * np.square(line[:, None] - centres)).sum() / sizes.sum())
    width = _SILVERMAN * spread * sizes.min() ** -0.2
    at = np.linspace(centres[0], centres[1], _RIDGE_STEPS)
    density = np.exp(-0.5 * np.square((at[:, None] - line) / width)) @ each.sum(axis=1)
    return _measure_depth(np.log(np.maximum(density, np.finfo(float).tiny)))


def _merge(fit: _Fit) -> Array:
    """Return the mode ``(c,)`` of each component, merging components linked without a valley."""
    n = len(fit.means)
    together = DisjointSet(range(n))
    for i in range(n):
        for j in range(i):
            if _measure_ridge_valley(fit, i, j) > _VALLEY:
                together.merge(i, j)
    first = {c: min(together.subset(c)) for c in range(n)}
    order = sorted(set(first.values()))
    return np.array([order.index(first[c]) for c in range(n)])


def _measure_ridge_valley(fit: _Fit, i: int, j: int) -> float:
    """Return the least density on the ridge between two components, relative to the lower of its peaks."""
    precisions = [fit.roots[c].T @ fit.roots[c] for c in (i, j)]
    ridge = []
    for part in np.linspace(0.0, 1.0, _RIDGE_STEPS):
        both = (1 - part) * precisions[0] + part * precisions[1]
        pull = (1 - part) * precisions[0] @ fit.means[i] + part * precisions[1] @ fit.means[j]
        ridge.append(np.linalg.solve(both, pull))
    log_density = log_sum_exp(_compute_log_joint(np.array(ridge), fit.log_shares, fit.means, fit.roots), axis=1)
    return _measure_depth(log_density)


def _measure_depth(log_density: Array) -> float:
    """Return the least density along a path of log densities, relative to the lower of the peaks around it."""
    left, right = np.maximum.accumulate(log_density), np.maximum.accumulate(log_density[::-1])[::-1]
    return float(np.exp(min(float(np.min(log_density - np.minimum(left, right))), 0.0)))
