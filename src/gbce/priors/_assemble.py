"""Assemble a prior around a row from parts, one for each kind of feature, in common units of change.

A number that moves by ``t`` deviations costs ``distribution.cost(t)``, be it real, an integer or an ordinal's position.
Any change of a category costs one unit; its new level is drawn by the levels' frequencies. Numbers that are correlated
or share linear constraints are drawn sequentially.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from gbce._numerics import ROUNDING, WIDE_ROUNDING
from gbce.base import Array
from gbce.priors._distributions import Distribution, log_mass, truncate_and_weigh, untruncate
from gbce.priors._located import LocatedPrior, free_features
from gbce.priors._parts import FiniteValues, MaybeMissing, Part, Reals, standardise
from gbce.space import Feature, Space

Categories = Literal["frequency", "uniform"]

# Values of an integer that are enumerated; where there are more, and a deviation has so many steps that a rounded real
# number is as good, it is one. Both chosen by hand.
_MOST_VALUES, _MANY_STEPS = 20_000, 400.0


# --- dependent numbers -----------------------------------------------------------------------------------------------


class _Pairs(NamedTuple):
    """Constraints with one of their features each, no feature twice; ``row`` is the feature's position in its step."""

    constraint: Array
    feature: Array
    row: Array


class _Step(NamedTuple):
    """Features ``(c,)`` that are drawn together, and the constraints they are in."""

    features: Array
    pairs: list[_Pairs]

    @classmethod
    def of(cls, features: Array, coefs: Array) -> "_Step":
        """Find the constraints, with coefficients ``coefs``, on some features."""
        row, constraint = np.nonzero(coefs[:, features].T)
        rank = np.arange(len(row)) - np.searchsorted(row, row)  # among the constraints of one feature
        parts = [np.flatnonzero(rank == t) for t in range(rank.max(initial=-1) + 1)]
        return cls(features, [_Pairs(constraint[part], features[row[part]], row[part]) for part in parts])


@dataclass(frozen=True)
class Chained:
    """Dependent numbers, drawn sequentially, each within the limits that the earlier ones leave.

    They are correlated (``factor``), or linked by linear constraints ``coefs @ x <= rhs``, or both; for limits alone
    this is the GHK simulator (Geweke, Hajivassiliou and Keane). Integers are intervals of the continuous distribution.
    """

    where: Array  # the first six fields as in Reals
    distribution: Distribution
    origin: Array
    factor: Array
    low: Array
    high: Array
    is_integer: Array  # (k,), whether each changes in integer steps
    coefs: Array  # coefficients (c, k) of the constraints
    rhs: Array  # (c,)

    exact = False

    @property
    def covariance(self) -> Array:
        """Covariance without limits."""
        lower = self._lower
        return lower @ lower.T

    @property
    def _lower(self) -> Array:
        return np.diag(self.factor) if self.factor.ndim == 1 else self.factor

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Map noise to values and their log density, infinite where the limits contradict each other."""
        x, log_q, _ = self._map(z, None)
        return x, log_q

    def draw_values(self, z: Array) -> Array:
        """Map noise to values."""
        return self.draw(z)[0]

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        return self._map(np.zeros_like(x), x)[2]

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.distribution.cost(standardise(x - self.origin, self.factor)).sum(axis=1)

    @cached_property
    def _steps(self) -> "list[_Step]":
        """Steps in order; features drawn in one step do not depend on each other."""
        k = len(self.origin)
        number = np.arange(k)  # with a matrix each depends on all before it
        if self.factor.ndim == 1:
            linked = (self.coefs != 0).T.astype(int) @ (self.coefs != 0).astype(int) > 0
            for j in range(k):
                number[j] = (number[:j][linked[j, :j]] + 1).max(initial=0)
        return [_Step.of(np.flatnonzero(number == i), self.coefs) for i in range(number.max(initial=-1) + 1)]

    @cached_property
    def _later(self) -> Array:
        """Least contribution to each constraint of the features after each one: ``(c, k)``."""
        least = np.minimum(_multiply(self.coefs, self.low), _multiply(self.coefs, self.high))
        later = [least[:, j + 1 :].sum(axis=1) for j in range(len(self.origin))]
        return np.array(later).reshape(len(self.origin), len(self.rhs)).T

    def _map(self, z: Array, given: Array | None) -> tuple[Array, Array, Array]:
        """Map noise to values and log density; or invert the map at the admissible values nearest to ``given``."""
        # within a step arrays are (c, n), or (c, 1) where they are the same for all points
        (n, k), lower, independent = z.shape, self._lower, self.factor.ndim == 1
        x, e, noise = np.empty((n, k)), np.empty((n, k)), np.array(z)
        terms, used = np.empty((k, n)), np.zeros((len(self.rhs), n))
        for number, (step, pairs) in enumerate(self._steps):
            origin, stepped = self.origin[step][:, None], self.is_integer[step]
            first = step[0]
            shift = origin if independent else (self.origin[first] + e[:, :first] @ lower[first, :first])[None, :]
            scale, half = lower[step, step][:, None], 0.5 * stepped[:, None]
            low, high = self._find_limits(step, pairs, used if number else used[:, :1])  # nothing is used at first
            empty = ~(low <= high)
            low, high = np.where(empty, origin, low), np.where(empty, origin, high)
            edges = (low - half - shift) / scale, (high + half - shift) / scale
            if given is not None:
                value = np.clip(given[:, step].T, low, high)
                noise[:, step] = untruncate(self.distribution, (value - shift) / scale, *edges).T
                log_truncated = log_mass(self.distribution, *edges)
            else:
                drawn, log_truncated = truncate_and_weigh(self.distribution, z[:, step].T, *edges)
                value = shift + scale * drawn
                if stepped.any():
                    value[stepped] = origin[stepped] + np.round(value[stepped] - origin[stepped])
                value = np.clip(value, low, high)
            own = (value - shift) / scale
            x[:, step], e[:, step] = value.T, own.T
            for pair in pairs:
                used[pair.constraint] += self.coefs[pair.constraint, pair.feature][:, None] * value[pair.row]
            log_density = self.distribution.log_pdf(own)
            if stepped.any():
                width = (half / scale)[stepped]
                log_density[stepped] = log_mass(self.distribution, own[stepped] - width, own[stepped] + width)
            terms[step] = np.where(empty, np.inf, log_density - log_truncated)
        log_q = np.zeros(n)
        for term in terms:  # in the order of the features, so that the sum does not depend on the steps
            log_q += term
        return x, np.where(np.isnan(log_q), np.inf, log_q), noise

    def _find_limits(self, step: Array, pairs: "list[_Pairs]", used: Array) -> tuple[Array, Array]:
        """Return limits ``(c, n)`` of features, given the constraint sums ``used`` by the features before them."""
        low, high = self.low[step][:, None], self.high[step][:, None]
        if pairs:
            low, high = (np.repeat(end, used.shape[1], axis=1) for end in (low, high))
        for i, j, row in pairs:
            coef = self.coefs[i, j][:, None]
            bound = (self.rhs[i][:, None] - used[i] - self._later[i, j][:, None]) / coef
            margin = ROUNDING * np.maximum(1.0, np.abs(np.where(np.isfinite(bound), bound, 0.0)))
            up = coef[:, 0] > 0
            high[row[up]] = np.minimum(high[row[up]], (bound - margin)[up])
            low[row[~up]] = np.maximum(low[row[~up]], (bound + margin)[~up])
        stepped = self.is_integer[step]
        if stepped.any():
            origin = self.origin[step][stepped][:, None]
            low, high = low.copy(), high.copy()
            low[stepped] = origin + np.ceil(low[stepped] - origin - WIDE_ROUNDING)
            high[stepped] = origin + np.floor(high[stepped] - origin + WIDE_ROUNDING)
        return low, high


def _multiply(coefs: Array, limit: Array) -> Array:
    """Multiply coefficients by limits, zero where the coefficient is zero and the limit infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(coefs == 0, 0.0, coefs * limit)


# --- assembly --------------------------------------------------------------------------------------------------------


def assemble(
    space: Space,
    x0: Array,
    distribution: Distribution,
    sigma: Array,
    *,
    categories: Categories = "frequency",
    factor: Array | None = None,
) -> LocatedPrior:
    """Build the prior at the row ``x0`` ``(d,)`` from a standard distribution and deviations ``sigma`` ``(d,)``.

    ``sigma`` is in units of each feature's scale. With ``factor``, lower triangular ``(d, d)`` in the features' own
    units, numbers are correlated instead; its rows of features that cannot change or are not numbers are ignored.
    """
    free, low, high = free_features(space, x0)
    limits = {int(j): (low[i], high[i]) for i, j in enumerate(free)}
    coefs, rhs, constrained = _linear_constraints(space, x0, free)
    scale = sigma * space.scale
    numeric = [j for j in free if not space.features[j].unordered and not np.isnan(x0[j])]
    numeric = [j for j in numeric if space.features[j].missing != "any"]
    joint = {j for j in numeric if j in constrained} | (set(numeric) if factor is not None else set())
    plain = [j for j in numeric if space.features[j].kind == "real" and j not in joint]
    parts: list[Part] = []
    if joint:
        parts.append(_build_joint(space, x0, distribution, sorted(joint), scale, factor, limits, coefs, rhs))
    if plain:
        ends = np.array([limits[int(j)] for j in plain])
        parts.append(Reals(np.array(plain), distribution, x0[plain], scale[plain], ends[:, 0], ends[:, 1]))
    for j in free:
        if j not in joint and j not in plain:
            parts.append(
                _build_single(
                    space.features[j], int(j), x0[j], distribution, scale[j], sigma[j], limits[int(j)], categories
                )
            )
    return LocatedPrior(space, x0, tuple(parts))


def _build_single(
    feature: Feature,
    j: int,
    now: float,
    distribution: Distribution,
    scale: float,
    sigma: float,
    limits: tuple[float, float],
    categories: Categories,
) -> Part:
    """Build the part of one feature that is not a plain real number."""
    missing_now = bool(np.isnan(now))
    move = float(np.exp(-distribution.cost(np.array(1.0 / sigma))))
    move = move / (1.0 + move)
    start = now if not missing_now else (0.0 if feature.centre is None else feature.centre)
    inner: Part
    if feature.unordered:
        inner = _build_levels(feature, j, now, distribution, scale, categories)
    elif feature.discrete:
        inner = _build_integer(j, start, distribution, scale, limits)
    else:
        low, high = np.array([limits[0]]), np.array([limits[1]])
        inner = Reals(np.array([j]), distribution, np.array([start]), np.array([scale]), low, high)
    if not missing_now and feature.missing != "any":
        return inner
    return MaybeMissing(inner, missing_now, move)


def _build_levels(
    feature: Feature, j: int, now: float, distribution: Distribution, scale: float, categories: Categories
) -> FiniteValues:
    """Build the part of a category, the row's level in the middle of the noise axis unless it is missing."""
    size = len(feature.levels or ())
    known = feature.frequencies is not None and categories == "frequency"
    share = np.array(feature.frequencies) if known and feature.frequencies else np.full(size, 1.0)
    codes = np.arange(size, dtype=float)
    others = codes[codes != now]
    with np.errstate(divide="ignore"):
        price = float(distribution.cost(np.array(1.0 / scale))) - np.log(
            share[others.astype(int)] / share[others.astype(int)].sum()
        )
    allowed = np.isin(others, feature.levels_from(now))  # the prior is truncated, as by a bound
    others, price = others[allowed], price[allowed]
    if np.isnan(now):
        return FiniteValues(np.array([j]), others, price - price.min(), 1.0)
    half = len(others) // 2
    values = np.concatenate([others[:half], [now], others[half:]])
    return FiniteValues(np.array([j]), values, np.concatenate([price[:half], [0.0], price[half:]]), 1.0)


def _build_integer(j: int, now: float, distribution: Distribution, scale: float, limits: tuple[float, float]) -> Part:
    """Build the part of an integer: enumerated steps from the row's value, or rounding if there are very many."""
    reach = np.ceil(distribution.reach * scale) + 1.0
    low, high = max(limits[0], now - reach), min(limits[1], now + reach)
    if high - low > _MOST_VALUES and scale > _MANY_STEPS:
        stepped, no_coefs, no_rhs = np.ones(1, dtype=bool), np.zeros((0, 1)), np.zeros(0)
        ends = np.array([limits[0]]), np.array([limits[1]])
        origin, factor = np.array([now]), np.array([scale])
        return Chained(np.array([j]), distribution, origin, factor, *ends, stepped, no_coefs, no_rhs)
    farthest = np.ceil(distribution.farthest * scale) + 1.0
    low, high = max(limits[0], now - farthest), min(limits[1], now + farthest)
    values = now + np.arange(np.ceil(low - now), np.floor(high - now) + 1)
    return FiniteValues(np.array([j]), values, distribution.cost((values - now) / scale), float(scale))


def _build_joint(
    space: Space,
    x0: Array,
    distribution: Distribution,
    which: list[int],
    scale: Array,
    factor: Array | None,
    limits: dict[int, tuple[float, float]],
    coefs: Array,
    rhs: Array,
) -> Part:
    """Build one part for numbers that are correlated or linked by linear constraints."""
    where = np.array(which)
    ends = np.array([limits[j] for j in which])
    stepped = space.discrete[where]
    lower = scale[where] if factor is None else _condition_factor(factor, where)
    active = np.abs(coefs[:, where]).sum(axis=1) > 0
    if factor is not None and not np.isfinite(ends).any() and not stepped.any() and not active.any():
        return Reals(where, distribution, x0[where], lower, ends[:, 0], ends[:, 1])
    return Chained(
        where, distribution, x0[where], lower, ends[:, 0], ends[:, 1], stepped, coefs[active][:, where], rhs[active]
    )  # fmt: skip


def _condition_factor(factor: Array, where: Array) -> Array:
    """Return the Cholesky factor of the covariance of some features conditional on the others."""
    precision = np.linalg.inv(factor @ factor.T)[np.ix_(where, where)]
    conditional = np.linalg.inv(precision)
    return np.linalg.cholesky(0.5 * (conditional + conditional.T))


def _linear_constraints(space: Space, x0: Array, free: Array) -> tuple[Array, Array, set[int]]:
    """Collect linear constraints ``coefs @ x <= rhs`` on numbers that can change, and the positions of these."""
    # Linear computed columns are expanded, and values that cannot change are moved to the right-hand side. A constraint
    # with anything else in it (a category, a nonlinear computed column) is left to the check of every draw.
    d = len(space)
    position = {name: j for j, name in enumerate(space.names)}
    movable = {int(j) for j in free}
    formulas = {one.name: one.linear() for one in space.computed}
    inequalities = [half for constraint in space.constraints for half in constraint.halfspaces()]
    for one in space.computed:
        feature = space.features[position[one.name]]
        low, high = feature.range_from(x0[position[one.name]])
        inequalities += [({one.name: -1.0}, -low)] if np.isfinite(low) else []
        inequalities += [({one.name: 1.0}, high)] if np.isfinite(high) else []
    lines, bounds = [], []
    for weights, bound in inequalities:
        line = np.zeros(d)
        expanded = _expand(weights, bound, formulas)
        if expanded is None:
            continue
        weights, bound = expanded
        for name, weight in weights.items():
            line[position[name]] = weight
        used = np.flatnonzero(line)
        if any(space.features[j].leveled or space.features[j].missing is not None for j in used):
            continue
        fixed = [j for j in used if j not in movable]
        bound -= float(line[fixed] @ x0[fixed])
        line[fixed] = 0.0
        if (line != 0).any():
            lines.append(line)
            bounds.append(bound)
    coefs = np.array(lines).reshape(-1, d)
    return coefs, np.array(bounds), {int(j) for j in np.flatnonzero(np.abs(coefs).sum(axis=0))}


def _expand(
    weights: dict[str, float], bound: float, formulas: dict[str, tuple[dict[str, float], float] | None]
) -> tuple[dict[str, float], float] | None:
    """Substitute computed columns by their linear formulas; ``None`` if one of them is not linear."""
    while any(name in formulas for name in weights):
        name = next(name for name in weights if name in formulas)
        formula = formulas[name]
        if formula is None:
            return None
        weight = weights[name]
        rest = {other: value for other, value in weights.items() if other != name}
        for other, value in formula[0].items():
            rest[other] = rest.get(other, 0.0) + weight * value
        weights, bound = rest, bound - weight * formula[1]
    return weights, bound
