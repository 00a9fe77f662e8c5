"""A prior placed at a row: Gaussian noise in, admissible rows out.

Every prior is a map ``x = T(z)`` of ``z ~ N(0, I)``, put together from parts. With ``q`` the density of ``T(z)`` and
``cost`` the distance ``d(row, x)`` of the paper, so that the prior is ``exp(-cost)`` on the space, the term
``log_correction = log q + cost`` makes up for a map that is not the prior itself: samplers add it to the potential. It
is zero wherever the map is exact, and infinite where a constraint is broken. Samplers see ``z`` and ``log_correction``
only; kinds, bounds, direction, immutable features and constraints are settled here.
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

__all__ = ["LocatedPrior", "Placed", "free_features", "per_feature", "require_width"]

_FARTHEST = 6.0  # latent deviations that stand for a value at a limit, which has no finite ones: a chance of 1e-9
_PILOT_SEED = 20_001  # any number, but fixed: the mass of a prior must not depend on the user's seed
_N_PILOT = 20_000  # points: their error of a share is 0.4% at most; they cost no model call
# Sets of them that are remembered, and of how many coordinates at most: rows of one table share one. By hand: 16 MB.
_MOST_PILOTS, _REMEMBERED = 2, 50
_RARE = 0.5 / _N_PILOT  # share of admissible points where the pilot met none
# How many latent points are tried at a time: a fifth more than are likely to be needed, within these limits; by hand.
_SPARE, _FEWEST_TRIED, _MOST_AT_ONCE = 1.2, 1_000, 100_000
# Tried in all before constraints are called impossible to meet; fewer if none was met at all. Both chosen by hand.
_MOST_TRIED, _MOST_IN_VAIN = 2_000_000, 500_000

Term = Callable[[Array], Array]


class Placed(NamedTuple):
    """Latent points seen as rows: ``x`` ``(n, d)``, their cost ``(n,)`` and correction ``(n,)``."""

    x: Array
    cost: Array
    log_correction: Array


@dataclass(frozen=True)
class LocatedPrior:
    """A prior at one row.

    Parameters
    ----------
    space : Space
        Whose constraints hold.
    x0 : array of shape (d,)
        The row.
    parts : tuple of Part
        Latent noise to the values of all features that can move.
    distance : callable, optional
        ``(n, d)`` to ``(n,)``: the cost, where it is not the sum of the parts' own.
    terms : tuple of callable
        What else points pay beside that cost, ``(n, d)`` to ``(n,)``.
    spikes : bool
        Whether features stay exactly where they are with positive probability, so that densities of points with
        different numbers of changed features cannot be compared.
    """

    space: Space
    x0: Array
    parts: tuple[Part, ...]
    distance: Term | None = None
    terms: tuple[Term, ...] = ()
    spikes: bool = False

    @cached_property
    def free(self) -> Array:
        """Positions ``(m,)`` of the features that can move, in the order of latent coordinates."""
        return np.sort(np.concatenate([part.where for part in self.parts]))

    @cached_property
    def _coordinates(self) -> list[Array | slice]:
        """Latent coordinates of each part."""
        return [_as_index(np.searchsorted(self.free, part.where)) for part in self.parts]

    @cached_property
    def _columns(self) -> list[Array | slice]:
        """Features of each part."""
        return [_as_index(part.where) for part in self.parts]

    def _at_row(self, n: int) -> Array:
        """Return the row ``n`` times, to be written into: ``(n, d)``."""
        x = np.empty((n, len(self.x0)))
        x[:] = self.x0
        return x

    @property
    def dimension(self) -> int:
        """Number of latent coordinates ``m``: the features that can move."""
        return len(self.free)

    @property
    def exact(self) -> bool:
        """Whether the map's law is the prior, so that no correction is due."""
        return self.distance is None and not self.terms and all(part.exact for part in self.parts)

    @cached_property
    def conditional(self) -> bool:
        """Whether there are constraints that some latent points break."""
        return bool(self.space.constraints or self.space.computed)

    @cached_property
    def covariance(self) -> Array:
        """Spread of the free features ``(m, m)``, roughly: units for a search."""
        whole = np.zeros((self.dimension, self.dimension))
        for part in self.parts:
            own = np.searchsorted(self.free, part.where)
            whole[np.ix_(own, own)] = part.covariance
        return whole

    def place(self, z: Array) -> Placed:
        """See latent points ``(n, m)`` as rows."""
        x, log_correction = self._at_row(len(z)), np.zeros(len(z))
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
        more = self._term_cost(x)
        if more is not None:
            base, log_correction = base + more, log_correction + more
        if self.conditional:
            log_correction = np.where(self.space.admissible(x, self.x0), log_correction, np.inf)
        return Placed(x, base, log_correction)

    def cost(self, x: Array) -> Array:
        """Return the paper's ``d(row, x)``, ``(n, d)`` to ``(n,)``: minus the log density up to a constant."""
        base, more = self._base_cost(x), self._term_cost(x)
        return base if more is None else base + more

    def _base_cost(self, x: Array) -> Array:
        if self.distance is not None:
            return self.distance(x)
        costs = [part.cost(x[:, where]) for part, where in zip(self.parts, self._columns, strict=True)]
        return costs[0] if len(costs) == 1 else np.sum(costs, axis=0)

    def _term_cost(self, x: Array) -> Array | None:
        return np.sum([term(x) for term in self.terms], axis=0) if self.terms else None

    def change(self, x: Array) -> Array:
        """Size of each feature's change ``(n, d)``."""
        return self.space.change(x, self.x0)

    def locate(self, x: Array) -> Array:
        """Return latent points ``(n, m)`` that stand for rows ``(n, d)``, made admissible feature by feature.

        Features that cannot move are not looked at; a value at or beyond a limit, which no finite noise gives, is seen
        six deviations out.
        """
        z = np.empty((len(x), len(self.free)))
        for part, own, where in zip(self.parts, self._coordinates, self._columns, strict=True):
            values = x[:, where]
            z[:, own] = part.invert(np.where(np.isnan(values), self.x0[where], values))
        return np.nan_to_num(z, posinf=_FARTHEST, neginf=-_FARTHEST)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points whose rows meet the constraints, ``(n, m)``."""
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
                self._refuse(have, tried)
        return np.concatenate(found)[:n]

    @cached_property
    def mass(self) -> float:
        """Share of latent points whose rows meet the constraints, roughly."""
        if not self.conditional:
            return 1.0
        return max(float(self._admissible(_pilot(self.dimension)).mean()), _RARE)

    def _admissible(self, z: Array) -> Array:
        """Whether the rows of latent points ``(n, m)`` meet the constraints, without what they would pay: ``(n,)``."""
        if self.distance is not None:
            bare = replace(self, terms=()) if self.terms else self
            return np.isfinite(bare.place(z).log_correction)
        x, log_correction = self._at_row(len(z)), np.zeros(len(z))
        for part, own, where in zip(self.parts, self._coordinates, self._columns, strict=True):
            if not part.exact:
                values, log_density = part.draw(z[:, own])
                log_correction += log_density + part.cost(values)
            elif self.space.is_bound[part.where].any():
                values = part.draw_values(z[:, own])
            else:  # no constraint looks at it
                continue
            x[:, where] = values
        return np.isfinite(log_correction) & self.space.admissible(self.space.completed(x, self.x0), self.x0)

    def _refuse(self, have: int, tried: int) -> None:
        x = self.place(_pilot(self.dimension)).x
        alone = {
            constraint.text: float(constraint.holds(self.space, x).mean()) for constraint in self.space.constraints
        }
        hardest = min(alone, key=alone.__getitem__, default="the bounds of what is computed")
        raise ValueError(
            f"only {have} of {tried:,} candidates around the row meet the constraints; {hardest!r} is the hardest, met "
            f"by {alone.get(hardest, 0.0):.2%}. Loosen it, widen the prior, or compute a column instead of "
            "constraining it."
        )


def _as_index(positions: Array) -> Array | slice:
    """Return positions as what picks their columns: a single one without a copy."""
    return slice(int(positions[0]), int(positions[0]) + 1) if len(positions) == 1 else positions


def _pilot(dimension: int) -> Array:
    """Return latent points ``(n, dimension)``, the same ones each time, to be read only."""
    return _remembered_pilot(dimension) if dimension <= _REMEMBERED else _draw_pilot(dimension)


def _draw_pilot(dimension: int) -> Array:
    z = np.random.default_rng(_PILOT_SEED).standard_normal((_N_PILOT, dimension))
    z.flags.writeable = False
    return z


_remembered_pilot = lru_cache(maxsize=_MOST_PILOTS)(_draw_pilot)


def free_features(space: Space, x0: Array) -> tuple[Array, Array, Array]:
    """Positions and limits ``(free, low, high)`` of the features that can move from ``x0``."""
    low, high = space.limits(x0)
    free = space.free(x0)
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
    require_width(numbers, what)
    return np.broadcast_to(numbers, (len(space),))


def require_width(numbers: Array, what: str) -> None:
    """Require deviations in units of scale at which neither the row nor a move away from it is lost to rounding."""
    odd = numbers[(numbers > WIDEST) | (numbers < 1.0 / WIDEST)]
    if len(np.atleast_1d(odd)):
        swallowed = "the row itself" if odd.flat[0] > 1 else "every move"
        raise ValueError(
            f"{what} is in units of each feature's scale and must lie between {1.0 / WIDEST:.0e} and {WIDEST:.0e}, not "
            f"{odd.flat[0]:g}: beyond that, rounding swallows {swallowed}. 1 is a typical change, 10 a very large one."
        )
