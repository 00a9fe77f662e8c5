"""The parts of a law around a row, one for each kind of feature, in the same units of change.

A number that moves by ``t`` of its deviations costs ``law.cost(t)``, be it real, whole or an ordinal's position. Any
change of a category is a move by one unit, paid once; which level it goes to follows the levels' frequencies.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from gbce.base import Array
from gbce.priors._distributions import Distribution, log_mass, truncate_and_weigh, untruncate
from gbce.priors._located import LocatedPrior, free_features
from gbce.priors._parts import IntegerSteps, MaybeMissing, Part, Reals, standardise
from gbce.space import Feature, Space

__all__ = ["Categories", "Chained", "assemble"]

# --- numbers that depend on each other -------------------------------------------------------------------------------

_INSIDE = 1e-12  # relative: how far inside a condition a value stays, so that rounding does not break it
_WHOLE_ROUNDING = 1e-9  # of a step: a limit that rounding puts just short of a whole number is that number


class _Pairs(NamedTuple):
    """Conditions and features that look at each other, each feature once: positions, and the features' in a step."""

    condition: Array
    feature: Array
    row: Array


class _Step(NamedTuple):
    """Features ``(c,)`` that are drawn together, and in which conditions they are."""

    features: Array
    pairs: list[_Pairs]

    @classmethod
    def of(cls, features: Array, sides: Array) -> "_Step":
        """Find the conditions, whose coefficients are ``sides``, that look at features."""
        row, condition = np.nonzero(sides[:, features].T)
        turn = np.arange(len(row)) - np.searchsorted(row, row)  # of several conditions of a feature
        parts = [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]
        return cls(features, [_Pairs(condition[part], features[row[part]], row[part]) for part in parts])


@dataclass(frozen=True)
class Chained:
    """Numbers that depend on each other, drawn one after another, each within what the ones before it leave.

    They are correlated (``factor``), or bound together by linear conditions ``sides @ x <= room``, or both (for limits
    alone this is the map of Geweke, Hajivassiliou and Keane). Whole numbers are cells of the continuous law.

    Parameters
    ----------
    where, law, origin, factor, low, high
        As in :class:`Reals`.
    whole : bool array of shape (k,)
        Which of them move in whole steps.
    sides, room : arrays of shape (c, k) and (c,)
        The conditions.
    """

    where: Array
    distribution: Distribution
    origin: Array
    factor: Array
    low: Array
    high: Array
    whole: Array
    sides: Array
    room: Array

    exact = False

    @property
    def covariance(self) -> Array:
        """Spread of the law."""
        lower = self._lower
        return lower @ lower.T

    @property
    def _lower(self) -> Array:
        return np.diag(self.factor) if self.factor.ndim == 1 else self.factor

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values and their log density; minus infinity where there is no room left."""
        x, log_q, _ = self._go_through(z, None)
        return x, log_q

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        return self.draw(z)[0]

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        return self._go_through(np.zeros_like(x), x)[2]

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.distribution.cost(standardise(x - self.origin, self.factor)).sum(axis=1)

    @cached_property
    def _steps(self) -> "list[_Step]":
        """Features that are drawn together, because none of them looks at another: step by step, in order."""
        k = len(self.origin)
        number = np.arange(k)  # with a matrix each looks at all before it
        if self.factor.ndim == 1:
            shared = (self.sides != 0).T.astype(int) @ (self.sides != 0).astype(int) > 0
            for j in range(k):
                number[j] = (number[:j][shared[j, :j]] + 1).max(initial=0)
        return [_Step.of(np.flatnonzero(number == i), self.sides) for i in range(number.max(initial=-1) + 1)]

    @cached_property
    def _later(self) -> Array:
        """What features after each one can give back of the conditions' room, at least: ``(c, k)``."""
        least = np.minimum(_times(self.sides, self.low), _times(self.sides, self.high))
        later = [least[:, j + 1 :].sum(axis=1) for j in range(len(self.origin))]
        return np.array(later).reshape(len(self.origin), len(self.room)).T

    def _go_through(self, z: Array, given: Array | None) -> tuple[Array, Array, Array]:
        """Go through the features; values are drawn, or those nearest to ``given`` are taken and their noise found.

        Within a step arrays are ``(c, n)``, or ``(c, 1)`` where they are the same for all points.
        """
        (n, k), lower, alone = z.shape, self._lower, self.factor.ndim == 1
        x, e, noise = np.empty((n, k)), np.empty((n, k)), np.array(z)
        terms, used = np.empty((k, n)), np.zeros((len(self.room), n))
        for number, (step, pairs) in enumerate(self._steps):
            origin, whole = self.origin[step][:, None], self.whole[step]
            shift = origin if alone else (self.origin[step[0]] + e[:, : step[0]] @ lower[step[0], : step[0]])[None, :]
            scale, half = lower[step, step][:, None], 0.5 * whole[:, None]
            low, high = self._limits(step, pairs, used if number else used[:, :1])  # at first nothing is used
            empty = ~(low <= high)
            low, high = np.where(empty, origin, low), np.where(empty, origin, high)
            edges = (low - half - shift) / scale, (high + half - shift) / scale
            if given is not None:
                value = np.clip(given[:, step].T, low, high)
                noise[:, step] = untruncate(self.distribution, (value - shift) / scale, *edges).T
                log_room = log_mass(self.distribution, *edges)
            else:
                drawn, log_room = truncate_and_weigh(self.distribution, z[:, step].T, *edges)
                value = shift + scale * drawn
                if whole.any():
                    value[whole] = origin[whole] + np.round(value[whole] - origin[whole])
                value = np.clip(value, low, high)
            own = (value - shift) / scale
            x[:, step], e[:, step] = value.T, own.T
            for pair in pairs:
                used[pair.condition] += self.sides[pair.condition, pair.feature][:, None] * value[pair.row]
            log_density = self.distribution.log_pdf(own)
            if whole.any():
                side = (half / scale)[whole]
                log_density[whole] = log_mass(self.distribution, own[whole] - side, own[whole] + side)
            terms[step] = np.where(empty, np.inf, log_density - log_room)
        log_q = np.zeros(n)
        for term in terms:  # one after the other, as they would be summed feature by feature
            log_q += term
        return x, np.where(np.isnan(log_q), np.inf, log_q), noise

    def _limits(self, step: Array, pairs: "list[_Pairs]", used: Array) -> tuple[Array, Array]:
        """Limits ``(c, n)`` of features, given what is used of the conditions' room and what later ones can give."""
        low, high = self.low[step][:, None], self.high[step][:, None]
        if pairs:
            low, high = (np.repeat(end, used.shape[1], axis=1) for end in (low, high))
        for i, j, row in pairs:
            side = self.sides[i, j][:, None]
            bound = (self.room[i][:, None] - used[i] - self._later[i, j][:, None]) / side
            margin = _INSIDE * np.maximum(1.0, np.abs(np.where(np.isfinite(bound), bound, 0.0)))
            up = side[:, 0] > 0
            high[row[up]] = np.minimum(high[row[up]], (bound - margin)[up])
            low[row[~up]] = np.maximum(low[row[~up]], (bound + margin)[~up])
        whole = self.whole[step]
        if whole.any():
            origin = self.origin[step][whole][:, None]
            low, high = low.copy(), high.copy()
            low[whole] = origin + np.ceil(low[whole] - origin - _WHOLE_ROUNDING)
            high[whole] = origin + np.floor(high[whole] - origin + _WHOLE_ROUNDING)
        return low, high


def _times(sides: Array, limit: Array) -> Array:
    """Product of coefficients and limits, zero where a feature has no part in a condition."""
    with np.errstate(invalid="ignore"):
        return np.where(sides == 0, 0.0, sides * limit)


# --- the parts of a law around a row, one for each kind of feature, in the same units of change ----------------------

Categories = Literal["frequency", "uniform"]

# Values of a whole number that are laid out one by one; where there are more, and a deviation has so many steps that
# rounding a real number is as good, it is a rounded real number. Both chosen by hand.
_MOST_VALUES, _MANY_STEPS = 20_000, 400.0


def assemble(
    space: Space,
    x0: Array,
    distribution: Distribution,
    sigma: Array,
    *,
    categories: Categories = "frequency",
    factor: Array | None = None,
) -> LocatedPrior:
    """Place a law at a row.

    Parameters
    ----------
    space : Space
        What may change.
    x0 : array of shape (d,)
        The row.
    law : Law
        Of standard moves.
    sigma : array of shape (d,)
        Deviation of each feature in units of its scale.
    categories : {"frequency", "uniform"}
        Which levels changes of categories go to.
    factor : array of shape (d, d), optional
        Lower triangular: correlated moves of numbers, in their own units, instead of ``sigma``. Lines of features that
        cannot move, or are no numbers, are not looked at.
    """
    free, low, high = free_features(space, x0)
    limits = {int(j): (low[i], high[i]) for i, j in enumerate(free)}
    sides, room, bound = _conditions(space, x0, free)
    scale = sigma * space.scale
    numeric = [j for j in free if not space.features[j].unordered and not np.isnan(x0[j])]
    numeric = [j for j in numeric if space.features[j].missing != "any"]
    together = {j for j in numeric if j in bound} | (set(numeric) if factor is not None else set())
    plain = [j for j in numeric if space.features[j].kind == "real" and j not in together]
    parts: list[Part] = []
    if together:
        parts.append(_joint_part(space, x0, distribution, sorted(together), scale, factor, limits, sides, room))
    if plain:
        ends = np.array([limits[int(j)] for j in plain])
        parts.append(Reals(np.array(plain), distribution, x0[plain], scale[plain], ends[:, 0], ends[:, 1]))
    for j in free:
        if j not in together and j not in plain:
            parts.append(
                _single_part(
                    space.features[j], int(j), x0[j], distribution, scale[j], sigma[j], limits[int(j)], categories
                )
            )
    return LocatedPrior(space, x0, tuple(parts))


def _single_part(
    feature: Feature,
    j: int,
    now: float,
    distribution: Distribution,
    scale: float,
    sigma: float,
    limits: tuple[float, float],
    categories: Categories,
) -> Part:
    """Return the part of one feature that is no plain real number."""
    gone = bool(np.isnan(now))
    move = float(np.exp(-distribution.cost(np.array(1.0 / sigma))))
    move = move / (1.0 + move)
    start = now if not gone else (0.0 if feature.centre is None else feature.centre)
    inner: Part
    if feature.unordered:
        inner = _level_part(feature, j, now, distribution, scale, categories)
    elif feature.discrete:
        inner = _whole_part(j, start, distribution, scale, limits)
    else:
        low, high = np.array([limits[0]]), np.array([limits[1]])
        inner = Reals(np.array([j]), distribution, np.array([start]), np.array([scale]), low, high)
    if not gone and feature.missing != "any":
        return inner
    return MaybeMissing(inner, gone, move)


def _level_part(
    feature: Feature, j: int, now: float, distribution: Distribution, scale: float, categories: Categories
) -> IntegerSteps:
    """Lay out a category's levels with the row's own in the middle; a missing one has no middle."""
    size = len(feature.levels or ())
    known = feature.frequencies is not None and categories == "frequency"
    share = np.array(feature.frequencies) if known and feature.frequencies else np.full(size, 1.0)
    codes = np.arange(size, dtype=float)
    others = codes[codes != now]
    with np.errstate(divide="ignore"):
        price = float(distribution.cost(np.array(1.0 / scale))) - np.log(
            share[others.astype(int)] / share[others.astype(int)].sum()
        )
    if np.isnan(now):
        return IntegerSteps(np.array([j]), others, price - price.min(), 1.0)
    half = len(others) // 2
    values = np.concatenate([others[:half], [now], others[half:]])
    return IntegerSteps(np.array([j]), values, np.concatenate([price[:half], [0.0], price[half:]]), 1.0)


def _whole_part(j: int, now: float, distribution: Distribution, scale: float, limits: tuple[float, float]) -> Part:
    """Lay out whole steps from the row's value, or round where there are very many."""
    reach = np.ceil(distribution.reach * scale) + 1.0
    low, high = max(limits[0], now - reach), min(limits[1], now + reach)
    if high - low > _MOST_VALUES and scale > _MANY_STEPS:
        none = np.zeros((0, 1))
        whole = np.ones(1, dtype=bool)
        ends = np.array([limits[0]]), np.array([limits[1]])
        return Chained(np.array([j]), distribution, np.array([now]), np.array([scale]), *ends, whole, none, np.zeros(0))
    farthest = np.ceil(distribution.farthest * scale) + 1.0
    low, high = max(limits[0], now - farthest), min(limits[1], now + farthest)
    values = now + np.arange(np.ceil(low - now), np.floor(high - now) + 1)
    return IntegerSteps(np.array([j]), values, distribution.cost((values - now) / scale), float(scale))


def _joint_part(
    space: Space,
    x0: Array,
    distribution: Distribution,
    which: list[int],
    scale: Array,
    factor: Array | None,
    limits: dict[int, tuple[float, float]],
    sides: Array,
    room: Array,
) -> Part:
    """Return one part for numbers that are correlated, or bound together by linear conditions."""
    where = np.array(which)
    ends = np.array([limits[j] for j in which])
    whole = space.discrete[where]
    lower = scale[where] if factor is None else _conditional_factor(factor, where)
    active = np.abs(sides[:, where]).sum(axis=1) > 0
    if factor is not None and not np.isfinite(ends).any() and not whole.any() and not active.any():
        return Reals(where, distribution, x0[where], lower, ends[:, 0], ends[:, 1])
    return Chained(
        where, distribution, x0[where], lower, ends[:, 0], ends[:, 1], whole, sides[active][:, where], room[active]
    )  # fmt: skip


def _conditional_factor(factor: Array, where: Array) -> Array:
    """Cholesky factor of the chosen features' covariance, given that the others stay where they are."""
    precision = np.linalg.inv(factor @ factor.T)[np.ix_(where, where)]
    conditional = np.linalg.inv(precision)
    return np.linalg.cholesky(0.5 * (conditional + conditional.T))


def _conditions(space: Space, x0: Array, free: Array) -> tuple[Array, Array, set[int]]:
    """Return linear conditions ``sides @ x <= room`` on numbers that can move, and which of these they bind together.

    Computed columns that are linear are written out; what cannot move is counted in. A condition with anything else in
    it (a category, a computed column that is not linear) is left to the check of every draw.
    """
    d = len(space)
    position = {name: j for j, name in enumerate(space.names)}
    movable = {int(j) for j in free}
    formulas = {one.name: one.linear() for one in space.computed}
    asked = [half for constraint in space.constraints for half in constraint.halfspaces()]
    for one in space.computed:
        feature = space.features[position[one.name]]
        low, high = feature.range_from(x0[position[one.name]])
        asked += [({one.name: -1.0}, -low)] if np.isfinite(low) else []
        asked += [({one.name: 1.0}, high)] if np.isfinite(high) else []
    lines, rooms = [], []
    for weights, bound in asked:
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
            rooms.append(bound)
    sides = np.array(lines).reshape(-1, d)
    return sides, np.array(rooms), {int(j) for j in np.flatnonzero(np.abs(sides).sum(axis=0))}


def _expand(
    weights: dict[str, float], bound: float, formulas: dict[str, tuple[dict[str, float], float] | None]
) -> tuple[dict[str, float], float] | None:
    """Write out computed columns, or give up where one of them is not linear."""
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
