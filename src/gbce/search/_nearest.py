"""Search for the cheapest points that reach a target, for any model.

The first round changes every feature alone; pairs and larger sets follow from the gains of single changes. Points known
to reach have needless changes undone, and points with identical outputs are replaced by the near corner of their box.
Points that reach are then refined by bisection, feature by feature, up to the boundary. Around them, and around points
halfway, single changes are judged again, and those made together that are expected to save: to go back with one and on
with another. Smooth models have a gradient at the boundary, which gives a linearised solution.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gbce._numerics import row_keys
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.search._candidates import MOST_PARTS, CandidateMoves, Sections, Singles, keep_cheapest, step_to_plane
from gbce.search._corners import try_near_corners

__all__ = ["Evaluations", "Judged", "NearestPoints", "find_nearest"]

_MOST_ROWS, _MOST_ROWS_PER_FEATURE = 4_000, 150  # the sum of both; by hand: no more than a usual sampler run
_MOST_ROWS_IN_ALL = 12_000  # with many columns: all rows are kept, so memory would grow with their square
_REFINED = 0.5  # share of the rows left that may bisect single changes in one call
# Chosen by hand: they trade rows for the width of the search.
_FEW_POINTS = 1_000  # rows of a table of levels and integers that are all judged, which is exact
_ROUNDS = 14  # after the first one, at most
_PATH = 6  # numbers of changes with an answer of their own
_EACH = 3  # sets of changed features that are refined, for each number of changes
_CHEAPEST = 4  # and of any number
_STARTS = 24  # known points that reach, whose changes are undone
_ANCHORS = 6  # points whose single changes are judged in a round, to be made together
_HALFWAY = (
    0.5  # share of the shortfall that such a point has made up for, if it does not reach: the row is the other end
)
_SPARED = 4  # judging single changes again may take one part in this many of the rows left
_SPARED_SMOOTH = 8  # and for smooth models
_DEARER = 1.5  # times the cheapest with fewer changes, beyond which a set of changes is not refined
_DEARER_ALIKE = 1.5  # and times the cheapest with as many changes
_CLOSE = 1e-4  # of the cost: shorter intervals are not bisected any further
_LEAST_SAVING, _QUIET_ROUNDS = 1e-3, 2  # of the cost in a round, and rounds with less that end a search
_DIFFERENCED = 4  # points whose gradients are computed in a round
_DESCENTS = 8  # linearised steps from known points, at most
_DIFFERENCE = 1e-3  # of a feature's scale: finite-difference step; many models round to single precision
_SMOOTH_SHARE = 0.3  # of the real features with a gradient, from which a point is not just beside a step
_SMOOTH_SHARE_INTEGER = 0.6  # of integers, whose steps of one cross more steps of trees


class Judged(NamedTuple):
    """Shortfall of points ``(n,)``, zero or less where there is none, and whether they reach the target ``(n,)``."""

    gap: Array
    reached: Array


class NearestPoints(NamedTuple):
    """The cheapest point ``(n, d)`` for each set of changed features, the cheapest first, with cost and size."""

    x: Array
    cost: Array
    changes: Array


@dataclass
class Evaluations:
    """Evaluates points in few calls, and keeps the cheapest that reach for each set of changed features."""

    around: CandidateMoves
    judge: Callable[[Array], Judged]
    affords: Callable[[int], int]
    rows_left: int
    judged: dict[bytes, tuple[float, bool]] = field(default_factory=dict)
    reaching: dict[bytes, tuple[float, int, Array]] = field(default_factory=dict)  # cost, number of changes, point
    missed: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)  # points, cost, shortfall, changed
    sorted_points: NearestPoints | None = None  # in order, unless something was added since

    def judge_all(self, *parts: Array) -> list[Judged]:
        """Judge several sets of points in one call; points beyond the row limit count as not reaching."""
        x = np.vstack(parts)
        keys = row_keys(x)
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in self.judged:
                first.setdefault(key, i)
        most = self.affords(min(len(first), self.rows_left)) if first else 0
        if first and most == 0:
            raise BudgetSpentError("the search for the nearest point has used up its rows")
        new = list(first.values())[:most]
        if new:
            rows = x[new]
            self.rows_left -= len(rows)
            found = self.judge(rows)
            shortfalls, verdicts = found.gap.tolist(), found.reached.tolist()
            self.judged.update(
                (keys[i], (shortfall, yes)) for i, shortfall, yes in zip(new, shortfalls, verdicts, strict=True)
            )
            self.add(rows[found.reached])
            self._remember_missed(rows[~found.reached], found.gap[~found.reached])
        results = [self.judged.get(key, (np.inf, False)) for key in keys]
        shortfall, reached = np.array([g for g, _ in results]), np.array([yes for _, yes in results], dtype=bool)
        ends = np.cumsum([len(part) for part in parts])[:-1]
        return [Judged(*both) for both in zip(np.split(shortfall, ends), np.split(reached, ends), strict=True)]

    def are_new(self, x: Array) -> Array:
        """Return which of points ``(n, d)`` were not judged before, ``(n,)``."""
        return np.array([key not in self.judged for key in row_keys(x)], dtype=bool)

    def add(self, x: Array) -> None:
        """Keep points ``(n, d)`` that reach where they are cheaper than the current ones."""
        if len(x) == 0:
            return
        cost, changed = self.around.cost(x), self.around.changed(x)
        supports = zip(row_keys(np.packbits(changed, axis=1)), changed.sum(axis=1).tolist(), strict=True)
        for one, price, (key, n) in zip(x, cost.tolist(), supports, strict=True):
            if key not in self.reaching or price < self.reaching[key][0]:
                self.reaching[key] = (price, n, one)
                self.sorted_points = None

    def _remember_missed(self, x: Array, shortfall: Array) -> None:
        """Keep points that do not reach, with their shortfall."""
        if len(x):
            self.missed.append((x, self.around.cost(x), shortfall, self.around.changed(x)))

    def cheapest(self) -> NearestPoints:
        """Return the cheapest point that reaches for each set of changed features, the cheapest first."""
        if self.sorted_points is not None:
            return self.sorted_points
        cost = np.array([price for price, _, _ in self.reaching.values()])
        changes = np.array([n for _, n, _ in self.reaching.values()], dtype=int)
        x = np.array([one for _, _, one in self.reaching.values()]).reshape(len(cost), len(self.around.x0))
        order = np.lexsort((changes, cost))
        self.sorted_points = NearestPoints(x[order], cost[order], changes[order])
        return self.sorted_points

    def least(self) -> Array:
        """Return the least cost with at most 1, 2, ... changes ``(_PATH,)``, and with any number, the last."""
        cheapest = self.cheapest()
        return np.array(
            [
                cheapest.cost[cheapest.changes <= k].min(initial=np.inf)
                for k in (*range(1, _PATH + 1), len(self.around.x0))
            ]
        )


def find_nearest(
    around: CandidateMoves,
    judge: Callable[[Array], Judged],
    starts: Array,
    *,
    trials: Array | None = None,
    known: tuple[Array, Array] | None = None,
    power: int = 1,
    most_changes: int | None = None,
    affords: Callable[[int], int] = lambda n: n,
    max_rows: int | None = None,
) -> NearestPoints:
    """Find the cheapest point that reaches a target for each set of changed features, within a row limit.

    ``judge`` maps points ``(n, d)`` to :class:`Judged`, and may raise :class:`gbce.BudgetSpentError`, which ends the
    search; ``affords`` says how many of ``n`` points may be judged. ``starts`` ``(s, d)`` are known to reach,
    ``trials`` ``(t, d)`` may reach, and ``known`` are further points that reach, the cheapest first, admissible or not,
    with their outputs. Costs add up (``power`` 1) or are Euclidean (2); points with more than ``most_changes`` changes
    are only intermediate.
    """
    n_free = len(around.values)
    limit = min(_MOST_ROWS + _MOST_ROWS_PER_FEATURE * n_free, _MOST_ROWS_IN_ALL) if max_rows is None else max_rows
    known_points = Evaluations(around, judge, affords, limit)
    known_points.add(starts)
    most = n_free if most_changes is None else min(most_changes, n_free)
    if most:
        with suppress(BudgetSpentError):
            _NearestSearch(known_points, power, most, known).run(starts, starts[:0] if trials is None else trials)
    return known_points.cheapest()


@dataclass
class _NearestSearch:
    """The rounds of one search."""

    known_points: Evaluations
    power: int
    most: int
    known: tuple[Array, Array] | None = None
    low: dict[bytes, Array] = field(default_factory=dict)  # share of each change known not to be enough
    undone: set[bytes] = field(default_factory=set)  # points whose changes were undone
    differenced: set[bytes] = field(default_factory=set)  # points whose gradients were computed
    try_gradients: bool = True  # whether gradients are worth computing
    gradient_seen: bool = False
    shortfall: float = np.inf  # of the row
    few: tuple[Array, Array] = (np.zeros(0, dtype=int), np.zeros(0))  # features, and values of these to try with others
    profiled: set[float | bytes] = field(default_factory=set)  # shortfalls of points whose single changes were judged

    def run(self, starts: Array, trials: Array) -> None:
        """Judge single changes and sets of them, then refine points that reach."""
        known_points, around = self.known_points, self.known_points.around
        all_rows = around.enumerate_all(min(_FEW_POINTS, known_points.rows_left))
        if all_rows is not None:
            known_points.judge_all(all_rows)
            return
        x, feature = around.singles()
        here, alone, tried, _ = known_points.judge_all(
            around.x0[None, :], x, trials, around.undo_changes(starts[:_STARTS])
        )
        self.shortfall = float(here.gap[0])
        self.few = around.few_changes(x, feature, alone.gap, self.shortfall)
        with np.errstate(invalid="ignore", over="ignore"):  # an infinite shortfall gains nothing
            singles = self._price(x, feature, self.shortfall - alone.gap, 0.0)
        joined = around.combine(around.x0, singles, self.shortfall, np.inf, self.most)
        if self.known is not None:
            try_near_corners(
                around.space,
                around.x0,
                *self.known,
                lambda x, _: around.cost(x),
                self._judge_cost,
                known_points.least()[-1],
            )
        starts = np.vstack([trials[tried.reached], starts])
        starts = starts[keep_cheapest(around.cost(starts), _STARTS)] if len(starts) else starts
        known_points.judge_all(around.undo_changes(starts), joined)
        self._descend(starts)
        before, quiet = known_points.least(), 0
        for _ in range(_ROUNDS):
            n_judged = len(known_points.judged)
            self._run_round()
            after = known_points.least()
            with np.errstate(invalid="ignore"):
                saved = np.nan_to_num(before - after, nan=0.0) > _LEAST_SAVING * after
            quiet = 0 if saved.any() else quiet + 1
            if len(known_points.judged) == n_judged or quiet == _QUIET_ROUNDS:
                return
            before = after

    def _judge_cost(self, x: Array) -> Array:
        """Return the cost of points ``(n, d)``, infinite where they do not reach."""
        (results,) = self.known_points.judge_all(x)
        return np.where(results.reached, self.known_points.around.cost(x), np.inf)

    def _run_round(self) -> None:
        """Refine points that reach, undo changes, make several together, and follow gradients: one or two calls."""
        around, active = self.known_points.around, self._pick_active()
        sections = self._open_sections(active)
        back = around.undo_changes(self._take_fresh(active, self.undone))
        differences, whose = self._difference_rows(active, _DIFFERENCED) if self.try_gradients else ([], active[:0])
        anchors, ceiling = self._pick_anchors(active)
        profiles = [around.profile(x, self.few) for x in anchors]
        around_anchors = [np.vstack([x, rows]) for x, (rows, _) in zip(anchors, profiles, strict=True)]
        results = self.known_points.judge_all(sections.x, back, *differences, *around_anchors)
        together = self._update_intervals(active, sections, results[0])
        sizes = np.unique([*range(1, min(self.most, _PATH) + 1), self.most])
        planes, _ = self._step_to_planes(whose, differences, results[2 : 2 + len(differences)], sizes)
        traded = self._trade(anchors, ceiling, profiles, results[2 + len(differences) :])
        if len(together) + len(planes) + len(traded):
            self.known_points.judge_all(together, planes, traded)

    def _pick_active(self) -> Array:
        """Return points that reach and are worth refining ``(k, d)``: a few for each number of changes."""
        cheapest = self.known_points.cheapest()
        chosen = np.arange(min(_CHEAPEST, len(cheapest.cost)))
        ceiling = np.inf
        for k in range(1, min(self.most, _PATH) + 1):
            own = np.flatnonzero((cheapest.changes == k) & (cheapest.cost < ceiling))[:_EACH]
            own = own[cheapest.cost[own] < _DEARER_ALIKE * cheapest.cost[own[:1]].min(initial=np.inf)]
            chosen = np.concatenate([chosen, own])
            if len(own):
                ceiling = min(ceiling, _DEARER * float(cheapest.cost[own[0]]))
        useful = np.flatnonzero(cheapest.changes <= self.most)[:_CHEAPEST]
        return cheapest.x[np.unique(np.concatenate([chosen, useful]))]

    def _take_fresh(self, x: Array, done: set[bytes], most: int | None = None) -> Array:
        """Return the first points of ``x`` ``(k, d)`` that are not in ``done``, and add them to it."""
        new = [i for i, one in enumerate(x) if one.tobytes() not in done][:most]
        done.update(x[i].tobytes() for i in new)
        return x[new]

    # --- bisection ----------------------------------------------------------------------------------------------------

    def _insufficient_shares(self, x: Array) -> Array:
        """Return the share of each change of points ``(k, d)`` known not to be enough, ``(k, d + 1)``."""
        none = np.zeros(len(self.known_points.around.x0) + 1)
        return np.array([self.low.get(key, none) for key in row_keys(x)]).reshape(len(x), len(none))

    def _open_sections(self, x: Array) -> Sections:
        """Return rows within the intervals that are still worth bisecting."""
        around, low = self.known_points.around, self._insufficient_shares(x)
        size = around.space.change(x, around.x0) / around.space.scale
        size = np.where(around.changed(x) & around.on_axis, size, 0.0)
        several = (size > 0).sum(axis=1) > 1
        size = np.column_stack([size, np.where(several, around.cost(x), 0.0)])
        open_part = size * (1.0 - low)
        worth = open_part > _CLOSE * around.cost(x)[:, None]
        room = max(int(_REFINED * self.known_points.rows_left) // MOST_PARTS, 1)
        if worth.sum() > room:  # the largest changes first
            worth &= open_part >= np.partition(open_part[worth], -room)[-room]
        return around.sections(x, low, worth, smooth=self.gradient_seen)

    def _update_intervals(self, x: Array, sections: Sections, results: Judged) -> Array:
        """Record which shares are not enough; return points ``(n, d)`` with several changes shrunk."""
        around, d = self.known_points.around, len(self.known_points.around.x0)
        rest = np.ones((len(x), d + 1))
        low = self._insufficient_shares(x)
        parents, features, parts = sections.parent.tolist(), sections.feature.tolist(), sections.part.tolist()
        reached = results.reached.tolist()
        nearest: dict[tuple[int, int], float] = {}  # least share of the change that reaches
        short: dict[tuple[int, int], float] = {}  # largest share below it that does not
        for i in np.lexsort((sections.part, sections.feature, sections.parent)).tolist():  # outwards from the row
            at = parents[i], features[i]
            if nearest.get(at, 1.0) == 1.0:
                (nearest if reached[i] else short)[at] = parts[i]
        for at, part in nearest.items():
            rest[at] = part
        for at, part in short.items():
            low[at] = max(low[at], part)
        for key, floor in zip(row_keys(x), low, strict=True):
            self.low[key] = floor
        # a shrunk point inherits this, as shares of its own change
        for i in np.flatnonzero(results.reached).tolist():
            parent, j, part = parents[i], features[i], parts[i]
            if part > 0 and part == rest[parent, j]:
                floor = low[parent].copy()
                floor[j] = min(floor[j] / part, 1.0)
                self.low.setdefault(sections.x[i].tobytes(), floor)
        return self._shrink_together(around, x, rest, low)

    def _shrink_together(self, around: CandidateMoves, x: Array, rest: Array, low: Array) -> Array:
        """Shrink several changes of each point to the shares found, and record their intervals."""
        shrunk = rest[:, :-1] < 1.0
        several = np.flatnonzero(shrunk.sum(axis=1) > 1)
        rows = around.shrink_together(x[several], rest[several, :-1])
        for row, i in zip(rows, several.tolist(), strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                floor = np.where(rest[i] > 0, np.minimum(low[i] / rest[i], 1.0), 0.0)
            floor[-1] = 0.0
            self.low.setdefault(row.tobytes(), floor)
        return rows[around.space.admissible(rows, around.x0)] if len(rows) else rows

    # --- several changes together -------------------------------------------------------------------------------------

    def _pick_anchors(self, active: Array) -> tuple[Array, Array]:
        """Return points whose single changes are worth judging ``(k, d)``, and the cost they have to stay below."""
        around, known_points = self.known_points.around, self.known_points
        by_gradients = self.gradient_seen and (self.profiled or not around.space.discrete[list(around.values)].any())
        room = known_points.rows_left // (_SPARED_SMOOTH if by_gradients else _SPARED)
        most = min(room // max(len(self.few[0]), 1), _ANCHORS)
        missed, ceiling, shortfall = self._pick_promising(most)
        cost, changed = around.cost(active), around.changed(active)
        chosen: list[int] = []
        for i in np.argsort(cost, kind="stable").tolist():
            gap = known_points.judged.get(row_keys(active[i : i + 1])[0], (0.0, True))[0]
            likeness = gap or np.packbits(changed[i]).tobytes()  # one output is one box, or one boundary is one set
            if len(chosen) < most - min(len(missed), 1) and likeness not in self.profiled:
                self.profiled.add(likeness)
                chosen.append(i)
        n = most - len(chosen)
        self.profiled.update(shortfall[:n].tolist())
        return np.vstack([active[chosen], missed[:n]]), np.append(cost[chosen], ceiling[:n])

    def _pick_promising(self, most: int) -> tuple[Array, Array, Array]:
        """Return points more than halfway to the target, the cost they may have with more changes, and shortfalls."""
        if not self.known_points.missed or self.most < 2:
            return np.zeros((0, len(self.known_points.around.x0))), np.zeros(0), np.zeros(0)
        least = self.known_points.least()
        x, cost, shortfall, changed = (np.concatenate(part) for part in zip(*self.known_points.missed, strict=True))
        n = changed.sum(axis=1)
        ceiling = np.where(n < _PATH, least[np.minimum(n, _PATH)], least[-1])  # with one more change
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = 1.0 - shortfall / self.shortfall
            foreseen = cost**self.power / share
        can = (n > 0) & (n < self.most) & (cost < ceiling) & np.isfinite(foreseen) & (share > _HALFWAY)
        order = np.flatnonzero(can)[np.argsort(foreseen[can], kind="stable")]
        _, first = np.unique(shortfall[order], return_index=True)
        chosen = [i for i in order[np.sort(first)].tolist() if shortfall[i] not in self.profiled][:most]
        return x[chosen], ceiling[chosen], shortfall[chosen]

    def _trade(
        self, anchors: Array, ceiling: Array, profiles: list[tuple[Array, Array]], results: list[Judged]
    ) -> Array:
        """Return points in which several single changes are made together that are expected to save."""
        around = self.known_points.around
        found = [anchors[:0]]
        for x, most, (rows, feature), judged in zip(anchors, ceiling, profiles, results, strict=True):
            before = float(around.cost(x[None, :])[0] ** self.power)
            with np.errstate(invalid="ignore", over="ignore"):
                singles = self._price(rows, feature, judged.gap[0] - judged.gap[1:], before)
            found.append(around.combine(x, singles, float(judged.gap[0]), float(most**self.power) - before, self.most))
        return np.vstack(found)

    def _price(self, rows: Array, feature: Array, gain: Array, before: float) -> Singles:
        """Return single changes of a point, with prices that add up and finite gains."""
        price = self.known_points.around.cost(rows) ** self.power - before
        return Singles(rows, feature, price, np.where(np.isfinite(gain), gain, 0.0))

    # --- gradients ----------------------------------------------------------------------------------------------------

    @cached_property
    def _axis(self) -> Array:
        """Positions of the features that can move, are ordered, and are known in the row."""
        around = self.known_points.around
        return np.array([j for j in around.values if around.on_axis[j]], dtype=int)

    def _descend(self, x: Array) -> None:
        """Follow a smooth boundary from points that reach ``(k, d)``, side by side, for as long as that saves."""
        known_points, around = self.known_points, self.known_points.around
        spared = known_points.rows_left - known_points.rows_left // _SPARED
        for _ in range(_DESCENTS):
            differences, x = self._difference_rows(x, _DIFFERENCED)
            if len(x) == 0 or known_points.rows_left < spared:
                return
            results = known_points.judge_all(*differences)
            planes, whose = self._step_to_planes(x, differences, results, np.array([self.most]))
            if not self.try_gradients:
                return
            (found,) = known_points.judge_all(planes)
            saving = around.cost(x)[whose] - np.where(found.reached, around.cost(planes), np.inf)
            order = np.argsort(-saving, kind="stable")
            order = order[np.sort(np.unique(whose[order], return_index=True)[1])]
            x = planes[order[saving[order] > _LEAST_SAVING * around.cost(x)[whose[order]]]]

    def _difference_rows(self, active: Array, most: int) -> tuple[list[Array], Array]:
        """Return finite-difference rows at ``most`` points that reach, one set for each, and the points."""
        around, axis = self.known_points.around, self._axis
        if len(axis) == 0:
            return [], active[:0]
        beyond = around.changed(active).sum(axis=1) > self.most
        order = np.lexsort((around.cost(active), beyond))
        points = self._take_fresh(active[order], self.differenced, most)
        low, high = around.space.limits(around.x0)
        step = np.where(around.space.discrete[axis], 1.0, _DIFFERENCE * around.space.scale[axis])
        step = np.where(points[:, axis] < around.x0[axis], -step, step)  # away from the row: the other way is an edge
        step = np.where(points[:, axis] + step > high[axis], -step, step)
        step = np.where(points[:, axis] + step < low[axis], 0.0, step)
        rows = np.repeat(points[:, None, :], len(axis), axis=1)
        rows[:, np.arange(len(axis)), axis] += step
        moved = around.snap(rows.reshape(-1, len(around.x0)))[0].reshape(rows.shape)
        return list(np.concatenate([points[:, None, :], moved], axis=1)), points

    def _is_smooth_at(self, gradient: Array) -> bool:
        """Whether enough features, real ones if there are any, have a gradient, unlike beside a step."""
        real = ~self.known_points.around.space.discrete[self._axis]
        if real.any():
            return bool((gradient[self._axis[real]] != 0).sum() >= max(_SMOOTH_SHARE * real.sum(), 1))
        return bool((gradient[self._axis] != 0).mean() >= _SMOOTH_SHARE_INTEGER)

    def _step_to_planes(
        self, points: Array, sets: list[Array], results: list[Judged], sizes: Array
    ) -> tuple[Array, Array]:
        """Return the cheapest points ``(n, d)`` on linearised boundaries, and where each starts from ``(n,)``."""
        around = self.known_points.around
        found, whose = [np.zeros((0, len(around.x0)))], [np.zeros(0, dtype=int)]
        try_gradients = False
        for i, (one, rows, judged) in enumerate(zip(points, sets, results, strict=True)):
            gradient, axis = np.zeros(len(one)), self._axis
            step = (rows[1:][np.arange(len(axis)), axis] - one[axis]) / around.space.scale[axis]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                gradient[axis] = (judged.gap[1:] - judged.gap[0]) / step
            gradient = np.where(np.isfinite(gradient), gradient, 0.0)
            if self._is_smooth_at(gradient):
                try_gradients = True
                found.append(step_to_plane(around, one, gradient, float(judged.gap[0]), self.power, sizes))
                whose.append(np.full(len(found[-1]), i))
        self.try_gradients, self.gradient_seen = try_gradients or len(points) == 0, self.gradient_seen or try_gradients
        placed, good = around.snap(np.vstack(found))
        return placed[good], np.concatenate(whose)[good]
