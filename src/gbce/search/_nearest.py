"""The cheapest points that reach a target, for any model: changes are tried, combined, given back and drawn back.

Only rows are asked about, many in each call. A first look tries every feature alone; pairs and larger sets follow from
what single changes gained. Points that are known to reach give back the changes that they do not need, and those with
the very same output meet between themselves, as near to the row as they lie in every column. What reaches is
then closed in on, feature by feature, up to the boundary, and one change is exchanged for another where that is
cheaper. Smooth models show a slope at the boundary, and a plane through it says where to go.
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
from gbce.search._polish import meet_alike

__all__ = ["Judged", "NearestPoints", "find_nearest"]

# What a search may ask, in rows of the model: the sum of both. By hand: about as much as the sampler asks in a usual
# explanation, or less.
_MOST_ROWS, _MOST_ROWS_PER_FEATURE = 4_000, 150
_MOST_ROWS_IN_ALL = 12_000  # of many columns: all rows are remembered, so that memory would grow with their square
_OPENED = 0.5  # of the rows that are left, in closing in on single changes in one call
# Chosen by hand: they trade rows for how widely is searched.
_FEW_POINTS = 1_000  # that a table of levels and whole numbers can have to be looked at whole, which is exact
_ROUNDS = 14  # after the first look, at most
_PATH = 6  # numbers of changes that have an answer of their own
_EACH = 3  # sets of changed features that are closed in on, for each number of changes
_CHEAPEST = 4  # and of any number
_STARTS = 24  # known points that reach, to give changes back from
_BASES = 6  # points that do not reach yet, and get one more change in a round
_EXCHANGED = 6  # points that reach, and exchange one change for another in a round
_MOST_EXCHANGED = 40  # changes of one point that are exchanged, the first ones: what has more is given back first
_EXCHANGE_ROUNDS = 5
_SPARED = 4  # one part in so many of the rows that are left may go into exchanges in a round
_SPARED_SLOPED = 16  # and where slopes lead on
_DEARER = 1.5  # times the cheapest with fewer changes, beyond which a set of changes is not closed in on
_DEARER_ALIKE = 1.5  # and times the cheapest with as many changes
_CLOSE = 1e-4  # of the cost: a stretch that is shorter is not closed in on any more
_LEAST_SAVING, _QUIET_ROUNDS = 1e-3, 2  # of the cost in a round, or nothing was saved; so many of these end a search
_LEANT = 4  # points whose slopes are looked at in a round
_DIFFERENCE = 1e-3  # of a feature's scale, over which a slope is read: many models round to single precision
_SLOPED_SHARE = 0.3  # of the real features, with which a point lies on a slope and not beside a step
_SLOPED_SHARE_WHOLE = 0.6  # of whole numbers, whose steps of one cross more steps of trees


class Judged(NamedTuple):
    """What is missing at points ``(n,)``, zero or less where nothing is, and whether they reach the target ``(n,)``."""

    gap: Array
    reached: Array


class NearestPoints(NamedTuple):
    """Cheap points that reach, each with another set of changed features: ``n`` points, the cheapest first.

    ``cost`` ``(n,)`` is in units of the features' scales, ``changes`` ``(n,)`` counts changed features.
    """

    x: Array
    cost: Array
    changes: Array


@dataclass
class _Shelf:
    """Asks about points in few calls, and remembers what was said: the cheapest that reach, by what they change."""

    around: CandidateMoves
    judge: Callable[[Array], Judged]
    affords: Callable[[int], int]
    rows_left: int
    said: dict[bytes, tuple[float, bool]] = field(default_factory=dict)
    reaching: dict[bytes, tuple[float, int, Array]] = field(default_factory=dict)  # cost, number of changes, point
    missed: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)  # points, cost, gap, changed
    known_modes: NearestPoints | None = None  # in order, unless something was added since

    def ask(self, *parts: Array) -> list[Judged]:
        """Ask about several sets of points in one call; what is beyond the limit of rows counts as not reaching."""
        x = np.vstack(parts)
        keys = row_keys(x)
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in self.said:
                first.setdefault(key, i)
        most = self.affords(min(len(first), self.rows_left)) if first else 0
        if first and most == 0:
            raise BudgetSpentError("no more points are within the limit of a search for the nearest")
        new = list(first.values())[:most]
        if new:
            rows = x[new]
            self.rows_left -= len(rows)
            found = self.judge(rows)
            gaps, verdicts = found.gap.tolist(), found.reached.tolist()
            self.said.update((keys[i], (gap, yes)) for i, gap, yes in zip(new, gaps, verdicts, strict=True))
            self.add(rows[found.reached])
            self._remember_missed(rows[~found.reached], found.gap[~found.reached])
        told = [self.said.get(key, (np.inf, False)) for key in keys]
        gap, reached = np.array([g for g, _ in told]), np.array([yes for _, yes in told], dtype=bool)
        ends = np.cumsum([len(part) for part in parts])[:-1]
        return [Judged(*both) for both in zip(np.split(gap, ends), np.split(reached, ends), strict=True)]

    def add(self, x: Array) -> None:
        """Put points ``(n, d)`` that reach where they are cheaper than what is there."""
        if len(x) == 0:
            return
        cost, changed = self.around.cost(x), self.around.changed(x)
        supports = zip(row_keys(np.packbits(changed, axis=1)), changed.sum(axis=1).tolist(), strict=True)
        for one, price, (key, n) in zip(x, cost.tolist(), supports, strict=True):
            if key not in self.reaching or price < self.reaching[key][0]:
                self.reaching[key] = (price, n, one)
                self.known_modes = None

    def _remember_missed(self, x: Array, gap: Array) -> None:
        if len(x):
            self.missed.append((x, self.around.cost(x), gap, self.around.changed(x)))

    def modes(self) -> NearestPoints:
        """Return what reaches, one point for each set of changed features, the cheapest first."""
        if self.known_modes is not None:
            return self.known_modes
        cost = np.array([price for price, _, _ in self.reaching.values()])
        changes = np.array([n for _, n, _ in self.reaching.values()], dtype=int)
        x = np.array([one for _, _, one in self.reaching.values()]).reshape(len(cost), len(self.around.x0))
        order = np.lexsort((changes, cost))
        self.known_modes = NearestPoints(x[order], cost[order], changes[order])
        return self.known_modes

    def least(self) -> Array:
        """Return the least cost with at most 1, 2, ... changes ``(_PATH,)`` and with any number, the last."""
        modes = self.modes()
        return np.array(
            [modes.cost[modes.changes <= k].min(initial=np.inf) for k in (*range(1, _PATH + 1), len(self.around.x0))]
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
    """Find cheap points that reach a target.

    Parameters
    ----------
    around : Around
        The row, the values that are tried, and what points cost.
    judge : callable
        Takes points ``(n, d)``, returns :class:`Judged`; it may raise :class:`gbce.BudgetSpentError`, which ends the
        search.
    starts : array of shape (s, d)
        Points that are known to reach.
    trials : array of shape (t, d), optional
        Points that may reach, to be asked about at first.
    known : tuple of arrays of shapes (n, d) and (n, K), optional
        Points that reach, the cheapest first, whether the row can become them or not, and what models said there.
    power : {1, 2}
        Whether the costs of single changes add up, or their squares.
    most_changes : int, optional
        Largest number of changed features that is of use; points that change more are only on the way.
    affords : callable, optional
        Takes a number of points, returns how many of them may be asked about.
    max_rows : int, optional
        What is asked in all; 4,000 rows and 150 for each feature that can move, 12,000 at most, when left out.

    Returns
    -------
    NearestPoints
        One point for each set of changed features that was met, what was known before included.
    """
    n_free = len(around.values)
    limit = min(_MOST_ROWS + _MOST_ROWS_PER_FEATURE * n_free, _MOST_ROWS_IN_ALL) if max_rows is None else max_rows
    shelf = _Shelf(around, judge, affords, limit)
    shelf.add(starts)
    most = n_free if most_changes is None else min(most_changes, n_free)
    if most:
        with suppress(BudgetSpentError):
            _Search(shelf, power, most, known).run(starts, starts[:0] if trials is None else trials)
    return shelf.modes()


@dataclass
class _Search:
    """The rounds of one search."""

    shelf: _Shelf
    power: int
    most: int
    known: tuple[Array, Array] | None = None
    low: dict[bytes, Array] = field(default_factory=dict)  # how much of each change is known not to be enough
    given: set[bytes] = field(default_factory=set)  # points whose changes were given back
    swept: set[bytes] = field(default_factory=set)  # points that got one more change
    leant: set[bytes] = field(default_factory=set)  # points whose slopes were looked at
    sloped: bool = True  # whether slopes are worth looking for
    slope_seen: bool = False
    worth: Array | None = None

    def run(self, starts: Array, trials: Array) -> None:
        """Look at single changes and sets of them, then close in on what reaches and exchange changes."""
        shelf, around = self.shelf, self.shelf.around
        whole = around.everything(min(_FEW_POINTS, shelf.rows_left))
        if whole is not None:
            shelf.ask(whole)
            return
        x, feature = around.singles()
        here, alone, tried, _ = shelf.ask(around.x0[None, :], x, trials, around.give_back(starts[:_STARTS]))
        with np.errstate(invalid="ignore", over="ignore"):  # what misses infinitely much gains nothing
            gain = here.gap[0] - alone.gap
        singles = Singles(x, feature, around.cost(x) ** self.power, np.where(np.isfinite(gain), gain, 0.0))
        self.worth = singles.worth(len(around.x0), around.x0)
        joined = around.combine(singles, float(here.gap[0]), self.most)
        if self.known is not None:
            meet_alike(
                around.space, around.x0, *self.known, lambda x, _: around.cost(x), self._priced, shelf.least()[-1]
            )
        starts = np.vstack([trials[tried.reached], starts])
        starts = starts[keep_cheapest(around.cost(starts), _STARTS)] if len(starts) else starts
        shelf.ask(around.give_back(starts, self.worth), joined)
        before, quiet = shelf.least(), 0
        for number in range(_ROUNDS):
            asked = len(shelf.said)
            self._round(number)
            after = shelf.least()
            with np.errstate(invalid="ignore"):
                saved = np.nan_to_num(before - after, nan=0.0) > _LEAST_SAVING * after
            quiet = 0 if saved.any() else quiet + 1
            if len(shelf.said) == asked or quiet == _QUIET_ROUNDS:
                return
            before = after

    def _priced(self, x: Array) -> Array:
        """Return what points ``(n, d)`` cost, infinite where they do not reach."""
        (told,) = self.shelf.ask(x)
        return np.where(told.reached, self.shelf.around.cost(x), np.inf)

    def _round(self, number: int) -> None:
        """One call: what reaches is closed in on, gives changes back, exchanges them, and follows slopes."""
        around, active = self.shelf.around, self._pick()
        sections = self._open_sections(active)
        back = around.give_back(self._fresh(active, self.given), self.worth)
        slopes, whose = self._differences(active) if self.sloped else ([], active[:0])
        more = self._one_more(active) if number < _EXCHANGE_ROUNDS else active[:0]
        told = self.shelf.ask(sections.x, back, *slopes, more)
        together = self._close_in(active, sections, told[0])
        planes = self._planes(whose, slopes, told[2 : 2 + len(slopes)])
        if len(together) + len(planes):
            self.shelf.ask(together, planes)

    def _pick(self) -> Array:
        """Return points that reach and are worth closing in on, ``(k, d)``: a few for each number of changes."""
        modes = self.shelf.modes()
        chosen = np.arange(min(_CHEAPEST, len(modes.cost)))
        ceiling = np.inf
        for k in range(1, min(self.most, _PATH) + 1):
            own = np.flatnonzero((modes.changes == k) & (modes.cost < ceiling))[:_EACH]
            own = own[modes.cost[own] < _DEARER_ALIKE * modes.cost[own[:1]].min(initial=np.inf)]
            chosen = np.concatenate([chosen, own])
            if len(own):
                ceiling = min(ceiling, _DEARER * float(modes.cost[own[0]]))
        useful = np.flatnonzero(modes.changes <= self.most)[:_CHEAPEST]
        return modes.x[np.unique(np.concatenate([chosen, useful]))]

    def _fresh(self, x: Array, done: set[bytes], most: int | None = None) -> Array:
        """Return the first points of ``x`` ``(k, d)`` that something was not done with yet, and note that it is now."""
        new = [i for i, one in enumerate(x) if one.tobytes() not in done][:most]
        done.update(x[i].tobytes() for i in new)
        return x[new]

    # --- closing in ---------------------------------------------------------------------------------------------

    def _low_of(self, x: Array) -> Array:
        """Return how much of each change of points ``(k, d)`` is known not to be enough, ``(k, d + 1)``."""
        none = np.zeros(len(self.shelf.around.x0) + 1)
        return np.array([self.low.get(key, none) for key in row_keys(x)]).reshape(len(x), len(none))

    def _open_sections(self, x: Array) -> Sections:
        around, low = self.shelf.around, self._low_of(x)
        size = around.space.change(x, around.x0) / around.space.scale
        size = np.where(around.changed(x) & around.on_axis, size, 0.0)
        several = (size > 0).sum(axis=1) > 1
        size = np.column_stack([size, np.where(several, around.cost(x), 0.0)])
        open_part = size * (1.0 - low)
        worth = open_part > _CLOSE * around.cost(x)[:, None]
        room = max(int(_OPENED * self.shelf.rows_left) // MOST_PARTS, 1)
        if worth.sum() > room:  # the largest changes come first
            worth &= open_part >= np.partition(open_part[worth], -room)[-room]
        return around.sections(x, low, worth, sloped=self.slope_seen)

    def _close_in(self, x: Array, sections: Sections, told: Judged) -> Array:
        """Note which parts of changes are not enough; return points ``(n, d)`` in which several are drawn back."""
        around, d = self.shelf.around, len(self.shelf.around.x0)
        rest = np.ones((len(x), d + 1))
        low = self._low_of(x)
        parents, features, parts = sections.parent.tolist(), sections.feature.tolist(), sections.part.tolist()
        reached = told.reached.tolist()
        nearest: dict[tuple[int, int], float] = {}  # part of the change that reaches, the least
        short: dict[tuple[int, int], float] = {}  # and below it the largest that does not
        for i in np.lexsort((sections.part, sections.feature, sections.parent)).tolist():  # from the row on
            at = parents[i], features[i]
            if nearest.get(at, 1.0) == 1.0:
                (nearest if reached[i] else short)[at] = parts[i]
        for at, part in nearest.items():
            rest[at] = part
        for at, part in short.items():
            low[at] = max(low[at], part)
        for key, floor in zip(row_keys(x), low, strict=True):
            self.low[key] = floor
        # what was drawn back knows as much, in parts of its own way
        for i in np.flatnonzero(told.reached).tolist():
            parent, j, part = parents[i], features[i], parts[i]
            if part > 0 and part == rest[parent, j]:
                floor = low[parent].copy()
                floor[j] = min(floor[j] / part, 1.0)
                self.low.setdefault(sections.x[i].tobytes(), floor)
        return self._draw_together(around, x, rest, low)

    def _draw_together(self, around: CandidateMoves, x: Array, rest: Array, low: Array) -> Array:
        drawn = rest[:, :-1] < 1.0
        several = np.flatnonzero(drawn.sum(axis=1) > 1)
        rows = around.draw_together(x[several], rest[several, :-1])
        for row, i in zip(rows, several.tolist(), strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                floor = np.where(rest[i] > 0, np.minimum(low[i] / rest[i], 1.0), 0.0)
            floor[-1] = 0.0
            self.low.setdefault(row.tobytes(), floor)
        return rows[around.space.admissible(rows, around.x0)] if len(rows) else rows

    # --- one more change ------------------------------------------------------------------------------------------

    def _one_more(self, active: Array) -> Array:
        """Return points in which a change is exchanged for another, or one more is made where that may be enough."""
        around, least = self.shelf.around, self.shelf.least()
        room = self.shelf.rows_left // (_SPARED_SLOPED if self.slope_seen else _SPARED)
        base, whose = [np.zeros((0, len(around.x0)))], [np.zeros(0, dtype=int)]
        cost, changed = around.cost(active), around.changed(active)
        for i in keep_cheapest(cost, _EXCHANGED).tolist():
            where = np.flatnonzero(changed[i])[:_MOST_EXCHANGED]
            if len(where) < 2 or active[i].tobytes() in self.swept:
                continue
            self.swept.add(active[i].tobytes())
            rows = np.tile(active[i], (len(where), 1))
            rows[np.arange(len(where)), where] = around.x0[where]
            base.append(rows)
            whose.append(np.full(len(rows), i))
        rows, good = around.snap(np.vstack(base))
        exchanged = around.one_more(rows[good], cost[np.concatenate(whose)[good]], room)
        added = around.one_more(*self._promising(least), room)[: max(room // 2, room - len(exchanged))]
        return np.vstack([added, exchanged[: room - len(added)]])

    def _promising(self, least: Array) -> tuple[Array, Array]:
        """Return points that do not reach but may with one more change, and what they may cost then."""
        if not self.shelf.missed or self.worth is None or self.worth.max() <= 0 or self.most < 2:
            return np.zeros((0, len(self.shelf.around.x0))), np.zeros(0)
        x, cost, gap, changed = (np.concatenate(part) for part in zip(*self.shelf.missed, strict=True))
        n = changed.sum(axis=1)
        ceiling = least[np.minimum(n, _PATH)]  # of what has one change more
        foreseen = cost**self.power + np.maximum(gap, 0.0) / self.worth.max()
        can = (n > 0) & (n < min(self.most, _PATH)) & (cost < ceiling) & np.isfinite(foreseen)
        order = np.flatnonzero(can)[np.argsort(foreseen[can], kind="stable")]
        chosen: list[int] = []
        supports: set[bytes] = set()
        for i in order.tolist():
            support = np.packbits(changed[i]).tobytes()
            if support in supports or x[i].tobytes() in self.swept:
                continue
            supports.add(support)
            self.swept.add(x[i].tobytes())
            chosen.append(i)
            if len(chosen) == _BASES:
                break
        return x[chosen], ceiling[chosen]

    # --- slopes -----------------------------------------------------------------------------------------------------

    @cached_property
    def _axis(self) -> Array:
        """Positions of the features that can move, are ordered and known in the row."""
        around = self.shelf.around
        return np.array([j for j in around.values if around.on_axis[j]], dtype=int)

    def _differences(self, active: Array) -> tuple[list[Array], Array]:
        """Return small steps from a few points that reach, one set of rows for each, and these points."""
        around, axis = self.shelf.around, self._axis
        if len(axis) == 0:
            return [], active[:0]
        beyond = around.changed(active).sum(axis=1) > self.most
        order = np.lexsort((around.cost(active), beyond))
        points = self._fresh(active[order], self.leant, _LEANT)
        low, high = around.space.limits(around.x0)
        step = np.where(around.space.discrete[axis], 1.0, _DIFFERENCE * around.space.scale[axis])
        step = np.where(points[:, axis] + step > high[axis], -step, step)
        step = np.where(points[:, axis] + step < low[axis], 0.0, step)
        rows = np.repeat(points[:, None, :], len(axis), axis=1)
        rows[:, np.arange(len(axis)), axis] += step
        moved = around.snap(rows.reshape(-1, len(around.x0)))[0].reshape(rows.shape)
        return list(np.concatenate([points[:, None, :], moved], axis=1)), points

    def _on_slope(self, slope: Array) -> bool:
        """Whether a point lies on a slope, and not beside a step: by real features, or by all if there are none."""
        real = ~self.shelf.around.space.discrete[self._axis]
        if real.any():
            return bool((slope[self._axis[real]] != 0).sum() >= max(_SLOPED_SHARE * real.sum(), 1))
        return bool((slope[self._axis] != 0).mean() >= _SLOPED_SHARE_WHOLE)

    def _planes(self, points: Array, sets: list[Array], told: list[Judged]) -> Array:
        """Return points where planes through the boundary are met at the least cost."""
        around = self.shelf.around
        found = [np.zeros((0, len(around.x0)))]
        sizes = np.unique([*range(1, min(self.most, _PATH) + 1), self.most])
        sloped = False
        for one, rows, said in zip(points, sets, told, strict=True):
            slope, axis = np.zeros(len(one)), self._axis
            step = (rows[1:][np.arange(len(axis)), axis] - one[axis]) / around.space.scale[axis]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                slope[axis] = (said.gap[1:] - said.gap[0]) / step
            slope = np.where(np.isfinite(slope), slope, 0.0)
            if self._on_slope(slope):
                sloped = True
                found.append(step_to_plane(around, one, slope, float(said.gap[0]), self.power, sizes))
        self.sloped, self.slope_seen = sloped or len(points) == 0, self.slope_seen or sloped
        placed, good = around.snap(np.vstack(found))
        return placed[good]
