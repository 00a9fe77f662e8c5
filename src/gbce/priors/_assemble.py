"""The parts of a law around a row, one for each kind of feature, in the same units of change.

A number that moves by ``t`` of its deviations costs ``law.cost(t)``, be it real, whole or an ordinal's position. Any
change of a category is a move by one unit, paid once; which level it goes to follows the levels' frequencies.
"""

from typing import Literal

import numpy as np

from gbce.base import Array
from gbce.priors._atoms import Blank
from gbce.priors._chained import Chained
from gbce.priors._laws import Law
from gbce.priors._located import LocatedPrior, free_features
from gbce.priors._parts import Part, Reals, WholeSteps
from gbce.space import Feature, Space

__all__ = ["Categories", "assemble"]

Categories = Literal["frequency", "uniform"]

# Values of a whole number that are laid out one by one; where there are more, and a deviation has so many steps that
# rounding a real number is as good, it is a rounded real number. Both chosen by hand.
_MOST_VALUES, _MANY_STEPS = 20_000, 400.0


def assemble(
    space: Space,
    x0: Array,
    law: Law,
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
        parts.append(_joint_part(space, x0, law, sorted(together), scale, factor, limits, sides, room))
    if plain:
        ends = np.array([limits[int(j)] for j in plain])
        parts.append(Reals(np.array(plain), law, x0[plain], scale[plain], ends[:, 0], ends[:, 1]))
    for j in free:
        if j not in together and j not in plain:
            parts.append(
                _single_part(space.features[j], int(j), x0[j], law, scale[j], sigma[j], limits[int(j)], categories)
            )
    return LocatedPrior(space, x0, tuple(parts))


def _single_part(
    feature: Feature,
    j: int,
    now: float,
    law: Law,
    scale: float,
    sigma: float,
    limits: tuple[float, float],
    categories: Categories,
) -> Part:
    """Return the part of one feature that is no plain real number."""
    gone = bool(np.isnan(now))
    move = float(np.exp(-law.cost(np.array(1.0 / sigma))))
    move = move / (1.0 + move)
    start = now if not gone else (0.0 if feature.centre is None else feature.centre)
    inner: Part
    if feature.unordered:
        inner = _level_part(feature, j, now, law, scale, categories)
    elif feature.discrete:
        inner = _whole_part(j, start, law, scale, limits)
    else:
        low, high = np.array([limits[0]]), np.array([limits[1]])
        inner = Reals(np.array([j]), law, np.array([start]), np.array([scale]), low, high)
    if not gone and feature.missing != "any":
        return inner
    return Blank(inner, gone, move)


def _level_part(feature: Feature, j: int, now: float, law: Law, scale: float, categories: Categories) -> WholeSteps:
    """Lay out a category's levels with the row's own in the middle; a missing one has no middle."""
    size = len(feature.levels or ())
    known = feature.frequencies is not None and categories == "frequency"
    share = np.array(feature.frequencies) if known and feature.frequencies else np.full(size, 1.0)
    codes = np.arange(size, dtype=float)
    others = codes[codes != now]
    with np.errstate(divide="ignore"):
        price = float(law.cost(np.array(1.0 / scale))) - np.log(
            share[others.astype(int)] / share[others.astype(int)].sum()
        )
    if np.isnan(now):
        return WholeSteps(np.array([j]), others, price - price.min(), 1.0)
    half = len(others) // 2
    values = np.concatenate([others[:half], [now], others[half:]])
    return WholeSteps(np.array([j]), values, np.concatenate([price[:half], [0.0], price[half:]]), 1.0)


def _whole_part(j: int, now: float, law: Law, scale: float, limits: tuple[float, float]) -> Part:
    """Lay out whole steps from the row's value, or round where there are very many."""
    reach = np.ceil(law.reach * scale) + 1.0
    low, high = max(limits[0], now - reach), min(limits[1], now + reach)
    if high - low > _MOST_VALUES and scale > _MANY_STEPS:
        none = np.zeros((0, 1))
        whole = np.ones(1, dtype=bool)
        ends = np.array([limits[0]]), np.array([limits[1]])
        return Chained(np.array([j]), law, np.array([now]), np.array([scale]), *ends, whole, none, np.zeros(0))
    farthest = np.ceil(law.farthest * scale) + 1.0
    low, high = max(limits[0], now - farthest), min(limits[1], now + farthest)
    values = now + np.arange(np.ceil(low - now), np.floor(high - now) + 1)
    return WholeSteps(np.array([j]), values, law.cost((values - now) / scale), float(scale))


def _joint_part(
    space: Space,
    x0: Array,
    law: Law,
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
        return Reals(where, law, x0[where], lower, ends[:, 0], ends[:, 1])
    return Chained(
        where, law, x0[where], lower, ends[:, 0], ends[:, 1], whole, sides[active][:, where], room[active]
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
