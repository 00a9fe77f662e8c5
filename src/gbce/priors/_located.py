"""Place a prior at a row: a map ``x = T(z)`` of Gaussian noise ``z ~ N(0, I)`` to admissible rows.

With ``q`` the density of ``T(z)`` and ``cost`` the distance ``d(row, x)`` of the paper, the prior is ``exp(-cost)`` on
the space, and samplers add ``log_correction = log q + cost`` to the potential. It is zero wherever the map is exact,
and infinite where a constraint is violated. Samplers see only ``z`` and ``log_correction``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import WIDEST
from gbce.base import Array
from gbce.priors._parts import Part
from gbce.space import Space

_FARTHEST = 6.0  # latent deviations that stand for a value at a limit, which has no finite ones: probability 1e-9
_PILOT_SEED = 20_001  # any number, but fixed: the mass of a prior must not depend on the user's seed
_N_PILOT = 20_000  # points: the standard error of a share is 0.4% at most; they need no model call
# Cached sets of pilot points, and the largest dimension of one: rows of one table share a set. By hand: 16 MB.
_MOST_PILOTS, _MOST_CACHED_DIMENSIONS = 2, 50
_RARE = 0.5 / _N_PILOT  # assumed share of admissible points if the pilot found none
# Latent points tried at a time: a fifth more than are likely to be needed, within these limits; by hand.
_SPARE, _FEWEST_TRIED, _MOST_AT_ONCE = 1.2, 1_000, 100_000
# Points tried before constraints are called infeasible; fewer if none was admissible at all. Both chosen by hand.
_MOST_TRIED, _MOST_IN_VAIN = 2_000_000, 500_000

Term = Callable[[Array], Array]


class Placed(NamedTuple):
    """Rows ``x`` ``(n, d)`` of latent points, their cost ``(n,)`` and log correction ``(n,)``."""

    x: Array
    cost: Array
    log_correction: Array


@dataclass(frozen=True)
class LocatedPrior:
    """A prior at one row."""

    space: Space
    x0: Array  # the row (d,)
    parts: tuple[Part, ...]  # maps of latent noise to all features that can change
    distance: Term | None = None  # the cost, (n, d) to (n,), if it is not the sum of the parts' costs
    terms: tuple[Term, ...] = ()  # further costs, (n, d) to (n,)
    # Whether features keep the row's value with positive probability, so that densities of points with different
    # numbers of changed features cannot be compared.
    spikes: bool = False

    @cached_property
    def free(self) -> Array:
        """Positions ``(m,)`` of the features that can change, in the order of latent coordinates."""
        return np.sort(np.concatenate([part.where for part in self.parts]))

    @cached_property
    def _coordinates(self) -> list[Array | slice]:
        """Latent coordinates of each part."""
        return [_as_index(np.searchsorted(self.free, part.where)) for part in self.parts]

    @cached_property
    def _columns(self) -> list[Array | slice]:
        """Features of each part."""
        return [_as_index(part.where) for part in self.parts]

    def _repeat_row(self, n: int) -> Array:
        """Return a writable array ``(n, d)`` of ``n`` copies of the row."""
        x = np.empty((n, len(self.x0)))
        x[:] = self.x0
        return x

    @property
    def dimension(self) -> int:
        """Number of latent coordinates ``m``: the features that can change."""
        return len(self.free)

    @property
    def exact(self) -> bool:
        """Whether the map samples the prior exactly, so that the log correction is zero."""
        return self.distance is None and not self.terms and all(part.exact for part in self.parts)

    @cached_property
    def conditional(self) -> bool:
        """Whether some latent points may violate constraints."""
        return bool(self.space.constraints or self.space.computed)

    @cached_property
    def covariance(self) -> Array:
        """Approximate covariance of the free features ``(m, m)``: units for a search."""
        covariance = np.zeros((self.dimension, self.dimension))
        for part in self.parts:
            own = np.searchsorted(self.free, part.where)
            covariance[np.ix_(own, own)] = part.covariance
        return covariance

    def place(self, z: Array) -> Placed:
        """Map latent points ``(n, m)`` to rows."""
        x, log_correction = self._repeat_row(len(z)), np.zeros(len(z))
        for part, own, where in zip(self.parts, self._coordinates, self._columns, strict=True):
            if self.distance is None and part.exact:
                x[:, where] = part.draw_values(z[:, own])
                continue
            values, log_density = part.draw(z[:, own])
            x[:, where] = values
            log_correction += log_density if self.distance is not None else log_density + part.cost(values)
        x = self.space.completed(x, self.x0)
        base = self._base_cost(x)
        if self.distance is not None:
            log_correction = log_correction + base
        extra = self._term_cost(x)
        if extra is not None:
            base, log_correction = base + extra, log_correction + extra
        if self.conditional:
            log_correction = np.where(self.space.admissible(x, self.x0), log_correction, np.inf)
        return Placed(x, base, log_correction)

    def cost(self, x: Array) -> Array:
        """Return the paper's ``d(row, x)``, ``(n, d)`` to ``(n,)``: minus the log density up to a constant."""
        base, extra = self._base_cost(x), self._term_cost(x)
        return base if extra is None else base + extra

    def _base_cost(self, x: Array) -> Array:
        if self.distance is not None:
            return self.distance(x)
        costs = [part.cost(x[:, where]) for part, where in zip(self.parts, self._columns, strict=True)]
        return costs[0] if len(costs) == 1 else np.sum(costs, axis=0)

    def _term_cost(self, x: Array) -> Array | None:
        return np.sum([term(x) for term in self.terms], axis=0) if self.terms else None

    def change(self, x: Array) -> Array:
        """Return the size of each feature's change ``(n, d)``."""
        return self.space.change(x, self.x0)

    def locate(self, x: Array) -> Array:
        """Return the latent points ``(n, m)`` of rows ``(n, d)``, clipped to their limits feature by feature.

        Features that cannot change are ignored, as are missing values where the row's is known and stays so; a value at
        or beyond a limit, which no finite noise reaches, is placed six deviations out.
        """
        stays = np.isnan(x) & ~self.space.may_become_missing
        z = np.empty((len(x), len(self.free)))
        for part, own, where in zip(self.parts, self._coordinates, self._columns, strict=True):
            z[:, own] = part.invert(np.where(stays[:, where], self.x0[where], x[:, where]))
        return np.nan_to_num(z, posinf=_FARTHEST, neginf=-_FARTHEST)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points ``(n, m)`` whose rows satisfy the constraints, by rejection."""
        if not self.conditional:
            return rng.standard_normal((n, self.dimension))
        found: list[Array] = []
        have = tried = 0
        while have < n:
            needed = round(_SPARE * (n - have) * (tried + 1) / (have + 1))
            size = min(max(needed, _FEWEST_TRIED), _MOST_AT_ONCE)
            z = rng.standard_normal((size, self.dimension))
            z = z[self._admissible(z)]
            found.append(z)
            have, tried = have + len(z), tried + size
            if have < n and tried >= (_MOST_TRIED if have else _MOST_IN_VAIN):
                self._raise_infeasible(have, tried)
        return np.concatenate(found)[:n]

    @cached_property
    def mass(self) -> float:
        """Estimated prior probability of the constraints."""
        if not self.conditional:
            return 1.0
        return max(float(self._admissible(_pilot(self.dimension)).mean()), _RARE)

    def _admissible(self, z: Array) -> Array:
        """Whether the rows of latent points ``(n, m)`` satisfy the constraints, ``(n,)``, without computing costs."""
        if self.distance is not None:
            bare = replace(self, terms=()) if self.terms else self
            return np.isfinite(bare.place(z).log_correction)
        x, log_correction = self._repeat_row(len(z)), np.zeros(len(z))
        for part, own, where in zip(self.parts, self._coordinates, self._columns, strict=True):
            if not part.exact:
                values, log_density = part.draw(z[:, own])
                log_correction += log_density + part.cost(values)
            elif self.space.is_bound[part.where].any():
                values = part.draw_values(z[:, own])
            else:  # in no constraint
                continue
            x[:, where] = values
        return np.isfinite(log_correction) & self.space.admissible(self.space.completed(x, self.x0), self.x0)

    def _raise_infeasible(self, have: int, tried: int) -> None:
        """Raise the error for constraints that hardly any candidate satisfies."""
        x = self.place(_pilot(self.dimension)).x
        shares = {
            constraint.text: float(constraint.holds(self.space, x).mean()) for constraint in self.space.constraints
        }
        hardest = min(shares, key=shares.__getitem__, default="the bounds of computed columns")
        raise ValueError(
            f"only {have} of {tried:,} candidates around the row meet the constraints; {hardest!r} is the hardest, met "
            f"by {shares.get(hardest, 0.0):.2%}. Loosen it, widen the prior, or compute a column instead of "
            "constraining it."
        )


def _as_index(positions: Array) -> Array | slice:
    """Return an index of columns: a slice, which avoids a copy, for a single one."""
    return slice(int(positions[0]), int(positions[0]) + 1) if len(positions) == 1 else positions


def _pilot(dimension: int) -> Array:
    """Return read-only latent points ``(n, dimension)``, the same ones each time."""
    return _cached_pilot(dimension) if dimension <= _MOST_CACHED_DIMENSIONS else _draw_pilot(dimension)


def _draw_pilot(dimension: int) -> Array:
    """Draw the pilot points of a dimension."""
    z = np.random.default_rng(_PILOT_SEED).standard_normal((_N_PILOT, dimension))
    z.flags.writeable = False
    return z


_cached_pilot = lru_cache(maxsize=_MOST_PILOTS)(_draw_pilot)


def free_features(space: Space, x0: Array) -> tuple[Array, Array, Array]:
    """Return positions and limits ``(free, low, high)`` of the features that can change from ``x0``."""
    low, high = space.limits(x0)
    free = space.free(x0)
    if len(free) == 0:
        raise ValueError(
            "no feature can change: every one is immutable or has no room between its bounds. Make at least one "
            "feature mutable."
        )
    return free, low[free], high[free]


def per_feature(value: Any, space: Space, what: str) -> Array:
    """Expand a number, one number per feature, or a mapping by name to positive numbers ``(d,)``."""
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
    require_width(numbers, what)
    return np.broadcast_to(numbers, (len(space),))


def require_width(numbers: Array, what: str) -> None:
    """Require deviations, in units of scale, at which neither the row nor a change is lost to rounding."""
    outside = numbers[(numbers > WIDEST) | (numbers < 1.0 / WIDEST)]
    if len(np.atleast_1d(outside)):
        lost = "the row itself" if outside.flat[0] > 1 else "every change"
        raise ValueError(
            f"{what} is in units of each feature's scale and must lie between {1.0 / WIDEST:.0e} and {WIDEST:.0e}, not "
            f"{outside.flat[0]:g}: beyond that, {lost} is lost to rounding. 1 is a typical change, 10 a very large one."
        )
