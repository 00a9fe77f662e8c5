"""Standard laws between two limits: how probable a stretch is, the moments within it, and draws from it.

Everything is computed in the tail on which a stretch lies and with logarithms of probabilities, so that stretches far
out, and very narrow ones, keep their digits.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from gbce.base import Array
from gbce.priors._laws import LAPLACE, NORMAL, Law

__all__ = ["KNOWN_LAWS", "Stretches", "draw_within", "measure"]

KNOWN_LAWS = (NORMAL, LAPLACE)  # laws whose stretches have closed forms
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)  # by definition of the normal density
# Width times slope of a stretch up to which the density is a polynomial for five Gauss-Legendre nodes, to rounding: the
# rule is exact up to degree nine, and 0.1**10 / 10! is below 1e-16. Differences of tails lose digits there.
_NARROW = 0.1
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(5)
_FARTHEST = 1e150  # stands for infinity, so that its square is finite; no law has anything there


class Stretches(NamedTuple):
    """Of each stretch: its log probability, and given it the means of ``t``, of its square and of its size."""

    log_mass: Array
    mean: Array
    square: Array
    size: Array


def measure(law: Law, low: Array, high: Array) -> Stretches:
    """Measure stretches ``low < t <= high`` of a standard law, arrays ``(n,)``; empty ones have no mass.

    Examples
    --------
    >>> found = measure(LAPLACE, np.array([-np.inf, 0.0]), np.array([np.inf, np.inf]))
    >>> np.exp(found.log_mass), found.size, found.square
    (array([1. , 0.5]), array([1., 1.]), array([2., 2.]))
    """
    low, high = _finite(low), _finite(high)
    right = _one_side(law, np.maximum(low, 0.0), np.maximum(high, 0.0))
    left = _one_side(law, np.maximum(-high, 0.0), np.maximum(-low, 0.0))
    log_mass = np.logaddexp(right.log_mass, left.log_mass)
    with np.errstate(invalid="ignore"):
        on_right = np.where(np.isfinite(log_mass), np.exp(right.log_mass - log_mass), 0.0)
        on_left = np.where(np.isfinite(log_mass), np.exp(left.log_mass - log_mass), 0.0)
    size = on_right * right.mean + on_left * left.mean
    return Stretches(log_mass, on_right * right.mean - on_left * left.mean,
                     on_right * right.square + on_left * left.square, size)  # fmt: skip


def draw_within(law: Law, low: Array, high: Array, u: Array, side: Array) -> Array:
    """Draw ``(n,)`` from a standard law within stretches that have mass; ``u`` and ``side`` are uniform numbers."""
    low, high = _finite(low), _finite(high)
    right = _one_side(law, np.maximum(low, 0.0), np.maximum(high, 0.0)).log_mass
    left = _one_side(law, np.maximum(-high, 0.0), np.maximum(-low, 0.0)).log_mass
    upper = np.log(np.maximum(side, np.finfo(float).tiny)) < right - np.logaddexp(right, left)
    near = np.where(upper, np.maximum(low, 0.0), np.maximum(-high, 0.0))
    far = np.where(upper, np.maximum(high, 0.0), np.maximum(-low, 0.0))
    if law is LAPLACE:
        size = near - np.log1p(u * np.expm1(near - far))
    else:
        start = log_ndtr(-near)
        size = -ndtri_exp(start + np.log1p(u * np.expm1(log_ndtr(-far) - start)))
    size = np.clip(size, near, far)
    return np.where(upper, size, -size)


class _Side(NamedTuple):
    """Stretches on the positive side: log probability, and given it the means of ``t`` and of its square."""

    log_mass: Array
    mean: Array
    square: Array


def _one_side(law: Law, near: Array, far: Array) -> _Side:
    found = _laplace_side(near, far) if law is LAPLACE else _normal_side(near, far)
    some = (far > near) & np.isfinite(found.log_mass)
    return _Side(np.where(some, found.log_mass, -np.inf), np.where(some, found.mean, 0.0),
                 np.where(some, found.square, 0.0))  # fmt: skip


def _laplace_side(near: Array, far: Array) -> _Side:
    width = np.minimum(far - near, 700.0)  # beyond it nothing is left
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mass = -near - math.log(2.0) + np.log(-np.expm1(-width))
        lost = width / np.expm1(width)
        beyond = np.clip(1.0 - lost, 0.0, width)
        square = np.clip(2.0 - lost * (width + 2.0), 0.0, np.square(width))
    return _Side(log_mass, near + beyond, np.square(near) + 2.0 * near * beyond + square)


def _normal_side(near: Array, far: Array) -> _Side:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        start = log_ndtr(-near)
        log_mass = start + np.log(-np.expm1(log_ndtr(-far) - start))
        at_near, at_far = (np.exp(-0.5 * np.square(t) - _LOG_ROOT_TWO_PI - log_mass) for t in (near, far))
        mean = np.clip(at_near - at_far, near, far)
        ends = near * at_near - np.where(at_far > 0, far * at_far, 0.0)
        square = np.clip(1.0 + ends, np.square(near), np.square(far))
    narrow = (far - near) * (1.0 + far) < _NARROW
    if narrow.any():
        few = _normal_narrow(near[narrow], far[narrow])
        for whole, part in zip((log_mass, mean, square), few, strict=True):
            whole[narrow] = part
    return _Side(log_mass, mean, square)


def _normal_narrow(near: Array, far: Array) -> _Side:
    """Integrate by five nodes, against the density at the near end."""
    half = 0.5 * (far - near)
    t = near[:, None] + half[:, None] * (1.0 + _NODES)
    weight = _NODE_WEIGHTS * np.exp(-0.5 * (t - near[:, None]) * (t + near[:, None]))
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mass = np.log(half * total) - 0.5 * np.square(near) - _LOG_ROOT_TWO_PI
    return _Side(log_mass, (weight * t).sum(axis=1) / total, (weight * np.square(t)).sum(axis=1) / total)


def _finite(t: Array) -> Array:
    return np.clip(np.asarray(t, dtype=float), -_FARTHEST, _FARTHEST)
