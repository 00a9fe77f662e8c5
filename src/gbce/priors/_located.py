"""A prior placed at a row: Gaussian noise in, admissible rows out.

Every prior is a map ``x = T(z)`` of ``z ~ N(0, I)``. With ``q`` the density of ``T(z)`` and ``cost`` the distance
``d(row, x)`` of the paper, so that the prior is ``exp(-cost)`` on the space, the term ``extra = log q + cost``
corrects for a map that is not the prior itself: samplers add it to the potential. It is zero wherever the map is
exact. Samplers see ``z`` and ``extra`` only; bounds, direction and immutable features are settled here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gbce._weights import Array
from gbce.priors._laws import Law, log_mass, truncated, untruncated
from gbce.space import Space

__all__ = ["LatentMap", "LocatedPrior", "Placed", "Prior", "per_feature"]


_FARTHEST = 6.0  # latent deviations: at a limit there is no finite one


class Placed(NamedTuple):
    """Latent points seen as rows: ``x`` ``(n, d)``, their cost ``(n,)`` and correction ``(n,)``."""

    x: Array
    cost: Array
    extra: Array


class Prior(Protocol):
    """What the user writes down: a law of ``x`` around any row."""

    def at(self, space: Space, x0: Array) -> "LocatedPrior":
        """Place the law at the row ``x0`` of shape ``(d,)``."""
        ...


@dataclass(frozen=True)
class LatentMap:
    """``x = x0 + L e`` on the free features, each ``e_j`` a truncated standard law pushed from ``z_j``.

    Parameters
    ----------
    law : Law
        Of each ``e_j``.
    x0 : array of shape (d,)
        The row.
    free : int array of shape (m,)
        Positions of the features that can move.
    factor : array of shape (m,) or (m, m)
        ``L``: one scale per feature, or a lower triangular matrix for correlated moves.
    low, high : array of shape (m,)
        Limits of the free features.
    """

    law: Law
    x0: Array
    free: Array
    factor: Array
    low: Array
    high: Array

    @property
    def bounded(self) -> bool:
        """Whether any free feature has a limit."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    @property
    def exact(self) -> bool:
        """Whether the map's law is the law truncated to the limits, up to a constant."""
        return self.factor.ndim == 1 or not self.bounded

    def transform(self, z: Array) -> tuple[Array, Array]:
        """Return ``x`` of shape ``(n, d)`` and ``log q(x)`` of shape ``(n,)``, up to a constant if exact."""
        x = np.tile(self.x0, (len(z), 1))
        if self.factor.ndim == 1:
            e = self._independent(z)
            moved = self.x0[self.free] + self.factor * e
            log_q = self.law.log_pdf(e).sum(axis=1)
        elif not self.bounded:
            e = self.law.from_normal(z)
            moved = self.x0[self.free] + e @ self.factor.T
            log_q = self.law.log_pdf(e).sum(axis=1)
        else:
            moved, log_q = self._one_after_another(z)
        x[:, self.free] = np.clip(moved, self.low, self.high)
        return x, log_q

    def _independent(self, z: Array) -> Array:
        e = self.law.from_normal(z)
        origin = self.x0[self.free]
        cut = np.flatnonzero(np.isfinite(self.low) | np.isfinite(self.high))
        if len(cut):
            low = (self.low - origin)[cut] / self.factor[cut]
            high = (self.high - origin)[cut] / self.factor[cut]
            e = np.array(e)
            e[:, cut] = truncated(self.law, z[:, cut], low, high)
        return e

    def inverse(self, x: Array) -> Array:
        """Return latent points ``(n, m)`` whose rows come as near to ``x`` ``(n, d)`` as the row and its limits allow.

        Features that cannot move are not looked at; a value at or beyond a limit is seen six deviations out.
        """
        origin = self.x0[self.free]
        offset = np.clip(x[:, self.free], self.low, self.high) - origin
        e = offset / self.factor if self.factor.ndim == 1 else np.linalg.solve(self.factor, offset.T).T
        z = np.empty_like(e)
        for j in range(e.shape[1]):
            if self.factor.ndim == 1:
                shift, scale = origin[j], self.factor[j]
            else:
                shift, scale = origin[j] + e[:, :j] @ self.factor[j, :j], self.factor[j, j]
            z[:, j] = untruncated(self.law, e[:, j], (self.low[j] - shift) / scale, (self.high[j] - shift) / scale)
        return np.clip(z, -_FARTHEST, _FARTHEST)

    def _one_after_another(self, z: Array) -> tuple[Array, Array]:
        """Truncate each feature given the ones before it (the map of Geweke, Hajivassiliou and Keane)."""
        origin, e = self.x0[self.free], np.empty_like(z)
        log_q = np.zeros(len(z))
        for j in range(z.shape[1]):
            shift = origin[j] + e[:, :j] @ self.factor[j, :j]
            low = (self.low[j] - shift) / self.factor[j, j]
            high = (self.high[j] - shift) / self.factor[j, j]
            e[:, j] = truncated(self.law, z[:, j], low, high)
            log_q += self.law.log_pdf(e[:, j]) - log_mass(self.law, low, high)
        return origin + e @ self.factor.T, log_q


@dataclass(frozen=True)
class LocatedPrior:
    """A prior at one row.

    Parameters
    ----------
    map : LatentMap
        Latent noise to rows.
    cost : callable
        The paper's ``d(row, x)``: ``(n, d)`` to ``(n,)``. The prior's density is ``exp(-cost)`` up to a constant.
    exact : bool
        Whether the map's law is the prior, so that no correction is due.
    """

    map: LatentMap
    cost: Callable[[Array], Array]
    exact: bool

    @property
    def dimension(self) -> int:
        """Number of latent coordinates ``m``: the features that can move."""
        return len(self.map.free)

    @property
    def x0(self) -> Array:
        """The row, ``(d,)``."""
        return self.map.x0

    def place(self, z: Array) -> Placed:
        """See latent points ``(n, m)`` as rows."""
        x, log_q = self.map.transform(z)
        cost = self.cost(x)
        return Placed(x, cost, np.zeros(len(z)) if self.exact else log_q + cost)

    def locate(self, x: Array) -> Array:
        """Return latent points ``(n, m)`` that stand for rows ``(n, d)``, made admissible."""
        return self.map.inverse(x)


def free_features(space: Space, x0: Array) -> tuple[Array, Array, Array]:
    """Positions and limits ``(free, low, high)`` of the features that can move from ``x0``."""
    low, high = space.limits(x0)
    free = np.flatnonzero(high > low)
    if len(free) == 0:
        raise ValueError(
            "no feature can change: every one is immutable or has no room between its bounds. Make at least one "
            "feature mutable."
        )
    return free, low[free], high[free]


def per_feature(value: Any, space: Space, what: str) -> Array:
    """Read a number, one number per feature, or a mapping by name as positive numbers of shape ``(d,)``."""
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - set(space.names))
        missing = [name for name in space.names if name not in value]
        if unknown or missing:
            raise ValueError(f"{what} must name every feature once: unknown {unknown}, missing {missing}")
        value = [value[name] for name in space.names]
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a number or one number per feature, not {value!r}") from None
    if numbers.shape not in ((), (len(space),)):
        raise ValueError(f"{what} must have one number or {len(space)}, one per feature, not shape {numbers.shape}")
    if not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise ValueError(f"{what} must be positive and finite, not {value!r}")
    return np.broadcast_to(numbers, (len(space),))
