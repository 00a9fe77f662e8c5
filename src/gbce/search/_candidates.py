"""Candidate rows of the nearest-point search: single changes, combinations, undone and shrunk changes.

Nothing here calls a model. Every function takes known points and returns admissible rows ``(n, d)``: within the limits,
rounded to steps, complete, and meeting the constraints.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.space import Space

__all__ = ["MOST_PARTS", "CandidateMoves", "Sections", "Singles", "keep_cheapest", "step_to_plane"]

# Chosen by hand: they decide how many points are tried, never which of them count as reaching.
_SHARES = (0.7, 1.0, 1.4)  # of the shortfall: models are rarely additive, and excess is shrunk later
_PAIRS, _PAIRS_AGAIN = 60, 20  # for each share: of changes of the row, and of a later point
_BALANCED, _RATES = 16, 48  # larger sets for each share, and rates of price to gain at which they are made
_NEARBY = np.array([0.3, 0.6, 0.8, 0.9, 0.96, 0.99, 1.01, 1.04, 1.1, 1.3])  # parts of a change that are tried
_MOST_SINGLES = 400  # that are combined in pairs
_KEPT_SIZES = np.unique(np.geomspace(1, 1_000, 24).round().astype(int))  # numbers of changes that are kept
_ALL_SINGLY = 12  # changes that are each undone alone
# Shares of the interval from the row, or from a value known not to be enough, to a value that reaches: at first mostly
# near that value, then evenly. Fewer for points with many changes, which are shrunk together or along gradients.
_PARTS = {  # by whether it is the first time, and whether they are to be few
    (True, False): np.array([0.0, 0.5, 0.75, 0.88, 0.94, 0.97, 0.985, 0.995]),
    (False, False): np.linspace(0.0, 1.0, 9)[1:-1],
    (True, True): np.array([0.0, 0.9, 0.98, 0.997]),
    (False, True): np.array([0.3, 0.6]),
}
MOST_PARTS = max(map(len, _PARTS.values()))  # rows that refining one change takes at most
_MANY_CHANGES = 6
_VALUES_EACH_WAY = 5  # tried for one more change, on each side of the row
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)  # the fractional parts of its multiples are evenly spread
_BLENDS = (0.1, 0.4, 1.0)  # of the way to the linearised solution: gradients change on the way
_RAYS = np.array([0.0005, 0.01, 0.1])  # relative excess over the linearised solution; less for short steps


class Singles(NamedTuple):
    """Rows ``(n, d)`` that change one feature ``(n,)`` of a point, with price and gain on the shortfall ``(n,)``."""

    x: Array
    feature: Array
    price: Array
    gain: Array

    def efficient(self) -> Array:
        """Return positions of changes that gain or save, and that no cheaper change of the same feature matches."""
        order = np.lexsort((-self.gain, self.price, self.feature))
        kept: list[int] = []
        feature, most = -1, -np.inf
        for i in order.tolist():
            if self.feature[i] != feature:
                feature, most = int(self.feature[i]), -np.inf
            if self.gain[i] > most and (self.gain[i] > 0 or self.price[i] < 0):
                most = float(self.gain[i])
                kept.append(i)
        return np.array(kept, dtype=int)


class Sections(NamedTuple):
    """Rows ``(n, d)`` between points ``parent`` ``(n,)`` and the row.

    ``feature`` ``(n,)`` is the one that is shrunk, or ``d`` for all together; ``part`` ``(n,)`` is the share of the
    change that is kept.
    """

    x: Array
    parent: Array
    feature: Array
    part: Array


@dataclass(frozen=True)
class CandidateMoves:
    """Candidates around one row."""

    space: Space  # with limits, steps and constraints
    x0: Array  # (d,): the row
    values: dict[int, Array]  # to try, for each feature that can move, by position; see :func:`values_to_try`
    cost: Callable[[Array], Array]  # takes points ``(n, d)``, returns their cost ``(n,)``

    # --- properties of points -----------------------------------------------------------------------------------------

    def changed(self, x: Array) -> Array:
        """Return where points ``(n, d)`` differ from the row in a feature that can move by itself: ``(n, d)``."""
        return self.space.changed(x, self.x0) & self._movable

    @cached_property
    def _movable(self) -> Array:
        """Features that can move by themselves, ``(d,)``."""
        moves = np.zeros(len(self.x0), dtype=bool)
        moves[list(self.values)] = True
        return moves

    def snap(self, rows: Array) -> tuple[Array, Array]:
        """Return admissible points near ``rows`` ``(n, d)``, and which of them exist ``(n,)``."""
        if len(rows) == 0:
            return rows, np.zeros(0, dtype=bool)
        return self.space.place(rows, self.x0)

    def _place_admissible(self, rows: Array) -> Array:
        """Return the admissible points near ``rows``."""
        rows, good = self.snap(rows)
        return rows[good]

    @cached_property
    def on_axis(self) -> Array:
        """Features that are ordered and known in the row, ``(d,)``: a change of them can be shrunk."""
        return ~self.space.unordered & ~np.isnan(self.x0)

    # --- more changes -------------------------------------------------------------------------------------------------

    def singles(self) -> tuple[Array, Array]:
        """Return rows ``(n, d)`` that differ from the row in one feature, and which it is ``(n,)``."""
        feature = np.repeat(list(self.values), [len(values) for values in self.values.values()]).astype(int)
        rows = np.tile(self.x0, (len(feature), 1))
        if len(feature):
            rows[np.arange(len(rows)), feature] = np.concatenate(list(self.values.values()))
        rows, good = self.snap(rows)
        good &= self.space.changed(rows, self.x0).any(axis=1) if len(rows) else good
        # where a budget allows only some, these are spread over all features and their values
        turn = np.concatenate([np.arange(len(values)) for values in self.values.values()]) if len(rows) else feature
        order = np.argsort((_GOLDEN * turn) % 1.0, kind="stable")
        order = order[good[order]]
        return rows[order], feature[order]

    def enumerate_all(self, most: int) -> Array | None:
        """Return all admissible rows ``(n, d)``, if no feature is real and there are at most ``most``."""
        if any(not self.space.discrete[j] for j in self.values) or not self._lists_all_values():
            return None
        sizes = [len(values) + 1 for values in self.values.values()]
        if np.prod(np.array(sizes, dtype=float)) > most:
            return None
        grids = np.meshgrid(*([self.x0[j], *values] for j, values in self.values.items()), indexing="ij")
        rows = np.tile(self.x0, (grids[0].size, 1))
        rows[:, list(self.values)] = np.column_stack([grid.ravel() for grid in grids])
        return self._place_admissible(rows)

    def _lists_all_values(self) -> bool:
        """Whether ``values`` holds every possible value of every movable feature."""
        low, high = self.space.limits(self.x0)
        given = {j: np.unique(np.append(values, self.x0[j])) for j, values in self.values.items()}
        features = self.space.features
        return all(
            (len(features[j].levels_from(self.x0[j])) if features[j].unordered else high[j] - low[j] + 1)
            == np.isfinite(values).sum()
            for j, values in given.items()
        )

    def profile(self, x: Array, few: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return rows ``(n, d)`` that differ from ``x`` ``(d,)`` in one feature, and which it is ``(n,)``.

        A ``few`` values of the data, parts of each change of ``x``, and a little more of it.
        """
        feature, to = few
        own = np.flatnonzero(self.changed(x[None, :])[0])
        near = own[self.on_axis[own]]
        part = self.x0[near] + _NEARBY[:, None] * (x[near] - self.x0[near])
        feature = np.concatenate([feature, own, np.tile(near, len(_NEARBY))])
        to = np.concatenate([to, self.x0[own], part.ravel()])
        rows = np.tile(x, (len(feature), 1))
        rows[np.arange(len(rows)), feature] = to
        rows, good = self.snap(rows)
        good &= self.space.changed(rows, x).any(axis=1)
        return rows[good], feature[good]

    def combine(self, base: Array, singles: Singles, shortfall: float, room: float, most: int) -> Array:
        """Return rows in which several single changes of ``base`` ``(d,)`` are made together.

        They are expected to make up for the ``shortfall``, for prices that add up to less than ``room``: the cheapest
        pairs, and sets of changes that are each the best at one rate of price to gain. At most ``most`` features differ
        from the row.
        """
        which = singles.efficient()
        if most < 2 or len(np.unique(singles.feature[which])) < 2:
            return np.zeros((0, len(self.x0)))
        sets = self._pair_up(singles, which, shortfall, room) + self._balance(singles, which, shortfall, room)
        rows = np.tile(base, (len(sets), 1))
        for row, members in zip(rows, sets, strict=True):
            row[singles.feature[members]] = singles.x[members, singles.feature[members]]
        rows = self._place_admissible(rows)
        return rows[self.changed(rows).sum(axis=1) <= most] if len(rows) else rows

    def _pair_up(self, singles: Singles, which: Array, shortfall: float, room: float) -> list[Array]:
        """Return positions of the cheapest pairs that are expected to be enough."""
        if len(which) > _MOST_SINGLES:
            worth = singles.gain[which] / np.maximum(singles.price[which], np.finfo(float).tiny)
            worth = np.where(singles.price[which] > 0, worth, np.inf)  # what leads back to the row is kept
            which = np.sort(which[np.argsort(-worth, kind="stable")[:_MOST_SINGLES]])
        one, other = np.triu_indices(len(which), 1)
        apart = singles.feature[which[one]] != singles.feature[which[other]]
        one, other = which[one[apart]], which[other[apart]]
        gain, price = singles.gain, singles.price[one] + singles.price[other]
        won, lost = np.maximum(gain, 0.0), np.minimum(gain, 0.0)
        share = _share_of_need(won[one] + won[other], lost[one] + lost[other], shortfall)
        found: dict[tuple[int, int], None] = {}
        for least in _SHARES:
            enough = np.flatnonzero((share >= least) & (price < room))
            cheap = enough[np.argsort(price[enough], kind="stable")[: _PAIRS if room == np.inf else _PAIRS_AGAIN]]
            found |= dict.fromkeys(zip(one[cheap].tolist(), other[cheap].tolist(), strict=True))
        return [np.array(pair) for pair in found]

    def _balance(self, singles: Singles, which: Array, shortfall: float, room: float) -> list[Array]:
        """Return positions of the cheapest sets that are best at a rate of price to gain, and expected to be enough."""
        gain, price = singles.gain[which], singles.price[which]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rates = np.abs(price / gain)
        rates = rates[np.isfinite(rates) & (rates > 0)]
        found: dict[tuple[int, ...], tuple[float, float]] = {}
        for rate in np.unique(np.quantile(rates, np.linspace(0.0, 1.0, _RATES))) if len(rates) else []:
            profit = rate * gain - price
            order = np.argsort(-profit, kind="stable")
            _, first = np.unique(singles.feature[which[order]], return_index=True)
            order = order[np.sort(first)]
            order = order[profit[order] > 0]
            won, lost = np.cumsum(np.maximum(gain[order], 0.0)), np.cumsum(np.minimum(gain[order], 0.0))
            share, spent = _share_of_need(won, lost, shortfall), np.cumsum(price[order])
            for last in np.flatnonzero((share >= _SHARES[0]) & (spent < room)).tolist():
                found[tuple(np.sort(which[order[: last + 1]]).tolist())] = float(spent[last]), float(share[last])
        chosen: dict[tuple[int, ...], None] = {}
        for least in _SHARES:
            own = sorted((spent, members) for members, (spent, share) in found.items() if share >= least)
            chosen |= dict.fromkeys(members for _, members in own[:_BALANCED])
        return [np.array(members) for members in chosen if len(members) > 1]

    def few_changes(self, singles: Array, feature: Array, gap: Array, here: float) -> tuple[Array, Array]:
        """Return features ``(n,)`` and a few values of each ``(n,)``, denser near the row's.

        Taken first where a single change ``(s, d)`` of one ``feature`` ``(s,)`` moves the ``gap`` ``(s,)`` from that of
        the next value towards the row: those are all values of a smooth model, and for trees those beyond a split.
        """
        chosen, to = [np.zeros(0, dtype=int)], [np.zeros(0)]
        for j in self.values:
            own = np.flatnonzero(feature == j)
            value = singles[own, j]
            if self.on_axis[j]:
                kept = [own[np.isnan(value)]]
                for side in (value < self.x0[j], value > self.x0[j]):
                    outwards = own[side][np.argsort(np.abs(value[side] - self.x0[j]), kind="stable")]
                    new = np.append(here, gap[outwards])[:-1] != gap[outwards]
                    kept += [_thin_outwards(outwards[new], outwards)]
                own = np.concatenate(kept)
            chosen.append(np.full(len(own), j))
            to.append(singles[own, j])
        return np.concatenate(chosen), np.concatenate(to)

    # --- fewer and smaller changes ------------------------------------------------------------------------------------

    def undo_changes(self, x: Array) -> Array:
        """Return rows in which changes of points ``(k, d)`` are undone, the largest ones first."""
        found = [np.zeros((0, len(self.x0)))]
        sizes = self.space.change(x, self.x0) / np.maximum(self.space.scale, np.finfo(float).tiny)
        for one, size, changed in zip(x, sizes, self.changed(x), strict=True):
            where = np.flatnonzero(changed)
            n = len(where)
            if n < 2:
                continue
            rank = np.argsort(np.argsort(size[where], kind="stable"))  # the last one is undone first
            kept = [rank < _KEPT_SIZES[n > _KEPT_SIZES][:, None]]
            if n <= _ALL_SINGLY:
                kept.append(~np.eye(n, dtype=bool))
            stays = np.concatenate(kept)
            rows = np.tile(one, (len(stays), 1))
            rows[:, where] = np.where(stays, one[where], self.x0[where])
            found.append(rows)
        return self._place_admissible(np.vstack(found))

    def sections(self, x: Array, low: Array, open_enough: Array, *, smooth: bool) -> Sections:
        """Return rows between points ``(k, d)`` that reach and values nearer to the row that may not.

        ``low`` ``(k, d + 1)`` is the share of each change, and of all together, known not to be enough; ``open_enough``
        ``(k, d + 1)`` marks the intervals worth refining; with ``smooth`` models, several changes are better shrunk
        together.
        """
        d, dense = len(self.x0), self.changed(x).sum(axis=1) > (1 if smooth else _MANY_CHANGES)
        parent, feature = np.nonzero(open_enough)
        first, few = low[parent, feature] == 0, dense[parent] & (feature < d)
        parts = [_PARTS[one, other] for one, other in zip(first.tolist(), few.tolist(), strict=True)]
        times = [len(some) for some in parts]
        parent, feature = np.repeat(parent, times), np.repeat(feature, times)
        rest = np.concatenate([*parts, np.zeros(0)])
        rest = low[parent, feature] + rest * (1.0 - low[parent, feature])
        rows, axis = x[parent], self.on_axis
        with np.errstate(invalid="ignore"):
            shrunk = self.x0 + rest[:, None] * (rows - self.x0)
        moves = np.where((feature == d)[:, None], axis, np.arange(d) == feature[:, None])
        rows, good = self.snap(np.where(moves & ~np.isnan(shrunk), shrunk, rows))
        good &= self.space.changed(rows, x[parent]).any(axis=1) if len(rows) else good
        return Sections(rows[good], parent[good], feature[good], rest[good])

    def shrink_together(self, x: Array, rest: Array) -> Array:
        """Return points ``(k, d)`` with each change shrunk to its own share ``(k, d)``."""
        with np.errstate(invalid="ignore"):
            shrunk = self.x0 + rest * (x - self.x0)
        return self.snap(np.where(self.on_axis & ~np.isnan(shrunk), shrunk, x))[0]

    # --- values of few digits -----------------------------------------------------------------------------------------

    def rounded(self, x: Array, most_digits: int) -> tuple[Array, Array, Array]:
        """Return rows near points ``(k, d)`` with few digits, these ``(n,)`` and the points' positions ``(n,)``."""
        rows, digits, whose = [np.zeros((0, len(self.x0)))], [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)]
        wanted = np.arange(1, most_digits + 1)
        for i, (one, real) in enumerate(zip(x, self.changed(x) & ~self.space.discrete & ~np.isnan(x), strict=True)):
            where = np.flatnonzero(real)
            if len(where) == 0:
                continue
            value, here = one[where], self.x0[where]
            size = np.fmax(np.abs(value), np.abs(np.where(np.isnan(here), value, here)))
            size = np.where(size > 0, size, 1.0)
            places = wanted[:, None] - 1 - np.floor(np.log10(size)).astype(int)
            step = 10.0 ** (-places.astype(float))
            away = np.where(value > here, np.ceil(value / step), np.floor(value / step)) * step
            near = np.round(value / step) * step
            to = np.stack([near, away], axis=1).reshape(-1, len(where))
            tried = np.tile(one, (len(to), 1))
            tried[:, where] = [
                list(map(round, line, places_of))
                for line, places_of in zip(to.tolist(), np.repeat(places, 2, axis=0).tolist(), strict=True)
            ]
            rows.append(tried)
            digits.append(np.repeat(wanted, 2))
            whose.append(np.full(len(to), i))
        placed, good = self.snap(np.vstack(rows))
        return placed[good], np.concatenate(digits)[good], np.concatenate(whose)[good]


def step_to_plane(
    around: CandidateMoves, x: Array, gradient: Array, shortfall: float, power: int, sizes: Array
) -> Array:
    """Return the cheapest points on the linearised boundary of the target, not yet projected.

    ``x`` ``(d,)`` reaches, with a ``shortfall`` of at most zero and its ``gradient`` ``(d,)`` per unit of each
    feature's scale. Costs add up (``power`` 1) or are Euclidean (2); ``sizes`` are the numbers of changed features to
    try.
    """
    space, x0 = around.space, around.x0
    with np.errstate(invalid="ignore"):
        u = np.where(around.on_axis, (x - x0) / space.scale, 0.0)
    u = np.where(np.isnan(u), 0.0, u)
    scale = int(np.frexp(np.abs(gradient).max(initial=0.0))[1])  # by a power of two, exactly: large squares overflow
    gradient, shortfall = np.ldexp(gradient, -scale), float(np.ldexp(shortfall, -scale))
    needed = float(gradient @ u) - shortfall  # change of the plane from the row to the boundary
    with np.errstate(invalid="ignore"):
        ends = (np.array(space.limits(x0)) - x0) / space.scale
    room = np.where(np.sign(gradient) * np.sign(needed) > 0, ends[1], -ends[0])
    order = np.argsort(-np.abs(gradient), kind="stable")
    order = order[(gradient[order] != 0) & (room[order] > 0)]
    rows = []
    for size in np.unique(np.minimum(sizes, len(order))).tolist():
        ideal = (_spend_evenly if power == 2 else _spend_steepest_first)(gradient, room, needed, order[:size])
        for blend in _BLENDS:
            change = _take_whole_steps(space, u + blend * (ideal - u), gradient, power)
            rays = 1.0 + min(2.0 * blend, 1.0) * _RAYS[:, None]
            with np.errstate(over="ignore", invalid="ignore"):  # an overflow is placed at a limit
                rows.append(np.where(around.on_axis, x0 + rays * change * space.scale, x))
    return np.vstack(rows)


def _take_whole_steps(space: Space, change: Array, gradient: Array, power: int) -> Array:
    """Return a change ``(d,)`` with integers in whole steps, and real features that make up for the rest."""
    with np.errstate(invalid="ignore"):
        whole = np.where(space.discrete, np.round(change * space.scale) / space.scale, change)
    real = np.flatnonzero(~space.discrete & (gradient != 0))
    if power == 1:
        real = real[np.argsort(-np.abs(gradient[real]), kind="stable")[:1]]
    if len(real):
        whole[real] += gradient[real] * float(gradient @ (change - whole)) / np.square(gradient[real]).sum()
    return whole


def _spend_steepest_first(gradient: Array, room: Array, needed: float, order: Array) -> Array:
    """Return the changes ``(d,)`` of least sum that give ``needed``: the steepest go to their limits."""
    ideal, left = np.zeros(len(gradient)), needed
    for j in order.tolist():
        ideal[j] = np.clip(left / gradient[j], -room[j], room[j])
        left -= ideal[j] * gradient[j]
    return ideal


def _spend_evenly(gradient: Array, room: Array, needed: float, order: Array) -> Array:
    """Return the changes ``(d,)`` of least Euclidean length that give ``needed``, within their limits."""
    ideal, left = np.zeros(len(gradient)), needed
    while len(order):
        ideal[order] = gradient[order] * left / np.square(gradient[order]).sum()
        over = np.abs(ideal[order]) > room[order]
        if not over.any():
            break
        ideal[order[over]] = np.copysign(room[order[over]], ideal[order[over]])
        left -= float(gradient[order[over]] @ ideal[order[over]])
        order = order[~over]
    return ideal


def keep_cheapest(cost: Array, most: int) -> Array:
    """Return positions of at most ``most`` points, the cheapest first."""
    return np.argsort(cost, kind="stable")[:most]


def _share_of_need(won: Array, lost: Array, shortfall: float) -> Array:
    """Return which share gains ``(n,)`` have of the shortfall and what is lost; infinite where nothing is needed."""
    needed = shortfall - lost
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(needed > 0, won / needed, np.inf)


def _thin_outwards(preferred: Array, everything: Array) -> Array:
    """Return a few of the ``preferred`` positions, denser near the row, filled up with those of ``everything``."""
    few = _take_denser_first(preferred, _VALUES_EACH_WAY)
    others = everything[~np.isin(everything, few)]
    return np.concatenate([few, _take_denser_first(others, _VALUES_EACH_WAY - len(few))])


def _take_denser_first(values: Array, most: int) -> Array:
    """Return at most ``most`` of ``values``, denser at the start."""
    if len(values) <= most:
        return values
    where = np.unique(np.geomspace(1, len(values), most).round().astype(int)) - 1
    return values[where]
