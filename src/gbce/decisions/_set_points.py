"""Find cheap points, and cheap reliable points, that make given moves: a set of columns with a direction each.

Points of all sets are shrunk in lockstep by bisection of their changes. From the cheapest one of a set, changes are
extended until a point keeps reaching the target under execution noise, as :class:`gbce.Reliable` judges it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np

from gbce._numerics import LISTING, stream
from gbce.base import Array, Query
from gbce.budget import BudgetSpentError
from gbce.decisions._needed import Judge, find_idle, find_moves
from gbce.decisions._reliable import Reliable, extend_changes, extend_each_change, round_away
from gbce.decisions._risk import UnderNoise, thin_out
from gbce.decisions._screening import Promise, PromiseSearch
from gbce.decisions._structure import Reaching, seek_on_cells
from gbce.draws import Draws, Scene
from gbce.metrics import costs, signed_changes
from gbce.posterior import GibbsPosterior, run_together
from gbce.search import values_to_try
from gbce.space import Space
from gbce.trees import TreeScores, prove_unattainable

_LEAST_CHANGE = 0.01  # of a column's unit: nobody makes, or can measure, a smaller change; a convention


@dataclass(frozen=True)
class _Effort:
    """What a search may cost; chosen by hand: model rows and time for cheaper points."""

    doubled: int = 3  # columns whose change is doubled, one at a time, so that others can shrink instead
    halvings: int = 6  # of each change: it is known to 2% of itself
    screened: int = 16  # copies under noise: to screen a point, and to confirm it
    confirming: int = 64
    extended: int = 14  # points of a set that may be reliable: extensions of the cheapest, and its starts
    started: int = 4
    share: float = 0.7  # of the budget that is left; the rest is to confirm and assess points
    reliable_rows: int = 1_000  # model rows that the search for a reliable point of one set is planned with


_ASKED = _Effort()
_BY_LEAVES = replace(_ASKED, screened=32, confirming=192, extended=40)  # where points cost time only

_BETWEEN = np.array([0.35, 0.6, 0.85])  # of the way from the cheapest point to a reliable one, tried once


@dataclass(frozen=True, eq=False)
class PointFinder:
    """Finds points for a query; ``judge`` knows whether they reach, ``rule`` what is promised under noise."""

    query: Query
    draws: Draws
    rule: Reliable
    judge: Judge

    @property
    def space(self) -> Space:
        """The features."""
        return self.query.space

    @property
    def x0(self) -> Array:
        """The row, encoded: ``(d,)``."""
        return self.query.x0

    @property
    def _effort(self) -> _Effort:
        return _ASKED if self.judge.trees is None else _BY_LEAVES

    def cost(self, x: Array) -> Array:
        """Return the cost of points ``(n, d)``: the sum of their changes in units of scale."""
        return costs(self.space, x, self.x0, "l1")

    def find_moves(self, x: Array) -> Array:
        """Return the moves of points ``(n, d)``."""
        return find_moves(self.space, x, self.x0)

    def drop_invalid(self, x: Array) -> Array:
        """Return the distinct points of ``(n, d)`` whose changes are all large enough, the cheapest first."""
        size, moved = np.abs(signed_changes(self.space, x, self.x0)), self.find_moves(x) != 0
        good = np.where(moved, size, np.inf).min(axis=1, initial=np.inf) >= _LEAST_CHANGE
        x = np.unique(x[good & moved.any(axis=1)], axis=0)
        return x[np.argsort(self.cost(x), kind="stable")]

    # --- cheap points ---------------------------------------------------------------------------------------

    def shrink_all(self, groups: Sequence[Array]) -> list[Array | None]:
        """Return for each group of starts ``(n, d)`` that reach the cheapest point found with the same moves."""
        parts = [self._vary(group[0]) for group in groups]
        last = np.concatenate([np.zeros(0, dtype=int), *(part[1] for part in parts)])
        x = np.vstack([np.zeros((0, len(self.x0))), *(part[0] for part in parts)])
        own = np.repeat(np.arange(len(groups)), [len(part[0]) for part in parts])
        reached = self.judge(x).reached
        x, own = self._shrink(x[reached], last[reached]), own[reached]
        rounded = round_away(self.space, self.x0, x)
        x = np.where(self.judge(rounded).reached[:, None], rounded, x)
        useful = ~find_idle(self.judge, x)
        x, own = x[useful], own[useful]
        found: list[Array | None] = []
        for number, group in enumerate(groups):
            mine = x[own == number]
            good = self.drop_invalid(mine[(self.find_moves(mine) == self.find_moves(group[:1])).all(axis=1)])
            found.append(good[0] if len(good) else None)
        return found

    def _vary(self, x: Array) -> tuple[Array, Array]:
        """Return a point and copies with one change doubled ``(k, d)``, and the column to shrink last ``(k,)``."""
        size = np.abs(signed_changes(self.space, x[None, :], self.x0))[0] * self._is_shrinkable(x[None, :])[0]
        columns = np.argsort(-size, kind="stable")[: min(self._effort.doubled, np.count_nonzero(size))]
        rows = np.repeat(x[None, :], len(columns) + 1, axis=0)
        rows[np.arange(1, len(rows)), columns] += (x - self.x0)[columns]
        return self.space.project(rows, self.x0), np.concatenate([[-1], columns]).astype(int)

    def _is_shrinkable(self, x: Array) -> Array:
        """Whether each change of points ``(n, d)`` can be made smaller: of a number or an ordinal, known in both."""
        return np.asarray((np.abs(self.find_moves(x)) == 1) & ~self.space.unordered & ~np.isnan(self.x0))

    def _shrink(self, x: Array, last: Array) -> Array:
        """Shrink the changes of points ``(n, d)`` that reach by bisection, the dearest first, column ``last`` last."""
        size = np.abs(signed_changes(self.space, x, self.x0)) * self._is_shrinkable(x)
        count, rank = np.count_nonzero(size, axis=1), size.copy()
        rank[np.arange(len(x)), last] *= np.where(last >= 0, np.finfo(float).tiny, 1.0)
        order = np.argsort(-rank, axis=1, kind="stable")
        x = x.copy()
        for step in range(int(count.max(initial=0))):
            which = np.flatnonzero(count > step)
            column = order[which, step]
            full = (x - self.x0)[which, column]
            low, high = np.minimum(_LEAST_CHANGE / size[which, column], 1.0), np.ones(len(which))
            for _ in range(self._effort.halvings):
                middle = (low + high) / 2
                change = full * middle
                change = np.where(self.space.discrete[column], np.sign(full) * np.ceil(np.abs(change)), change)
                trial = x[which]
                trial[np.arange(len(which)), column] = self.x0[column] + change
                trial = self.space.completed(trial, self.x0)
                reached = self.judge(trial).reached
                x[which[reached]] = trial[reached]
                low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return x

    # --- reliable points ------------------------------------------------------------------------------------

    def find_reliable(self, groups: Sequence[Array], nearest: Sequence[Array | None]) -> list[Array | None]:
        """Return the cheapest reliable point found of groups of starts; groups beyond the budget are left out."""
        tasks = [
            self._make_task(number, group, near)
            for number, (group, near) in enumerate(zip(groups, nearest, strict=True))
            if near is not None
        ]
        posterior = replace(self.judge.posterior, budget=self.judge.posterior.budget.share(self._effort.share))
        n = posterior.affords(len(tasks) * self._effort.reliable_rows) // self._effort.reliable_rows
        return run_together(posterior, tasks[:n], self._effort.reliable_rows) if n else []

    def _make_task(self, number: int, group: Array, near: Array) -> Callable[[GibbsPosterior], Array | None]:
        """Return the search for a reliable point of a group, whose cheapest point is ``near`` ``(d,)``."""
        promise = Promise(self.rule.probability, self.rule.confidence, self._effort.screened, self._effort.confirming)

        def seek(posterior: GibbsPosterior) -> Array | None:
            rng = stream(self.query.seed, LISTING, (*self.query.key, 1 + number))
            scene = Scene(self.query, self.draws, rng, posterior)
            noisy = UnderNoise(scene, posterior, self.rule.noise, first_only=True)
            further = [extend_changes(self.space, self.x0, near[None, :]), extend_each_change(scene, near[None, :])]
            x = self._list_candidates(near, np.vstack([near[None, :], *further]), group[: self._effort.started])
            held, tried = self._find_holding(noisy, promise, x, 0)
            if held is None:
                return None
            between = np.where(self.space.unordered, held, near + _BETWEEN[:, None] * (held - near))
            x = self._list_candidates(near, between)
            cheaper, _ = self._find_holding(noisy, promise, x[self.cost(x) < self.cost(held[None, :])], tried)
            return held if cheaper is None else cheaper

        return seek

    def _list_candidates(self, near: Array, *parts: Array) -> Array:
        """Return some points of ``parts`` ``(n, d)``, rounded, that move as ``near`` ``(d,)`` does, cheapest first."""
        kept = []
        for x in parts:
            x = round_away(self.space, self.x0, x)
            same = (self.find_moves(x) == self.find_moves(near[None, :])).all(axis=1)
            kept.append(thin_out(self.drop_invalid(x[same & self.space.admissible(x, self.x0)]), self._effort.extended))
        x = self.drop_invalid(np.vstack(kept))
        return x[~find_idle(self.judge, x)]

    def _find_holding(self, noisy: UnderNoise, promise: Promise, x: Array, tried: int) -> tuple[Array | None, int]:
        """Return the first of ``x`` ``(k, d)`` that keeps the promise, if one does, and the number of trials so far."""
        search = PromiseSearch(noisy, promise, x, self.cost, tried=tried)
        try:
            held = search.find_holding() if len(x) and search.trials.possible else None
        except BudgetSpentError:
            return None, tried
        return None if held is None else x[held], search.trials.done


# --- few columns -------------------------------------------------------------------------------------------------


MOST_COLUMNS = 3  # of a set that is tried: nobody asks for a list of larger ones
# All of these were chosen by hand; they trade model rows and time for the number of sets.
_RANKED = (8, 5, 4)  # first columns of which all sets of one, two and three are tried: 8, 10 and 4 sets
_VALUES = (12, 6, 4)  # of each column in a set of one, two and three, where the model is asked
_KEPT = 2  # cheapest points of a set that are kept
_MOST_WORK = 50_000  # leaves over all boxes of a proof for one set: some hundredths of a second


class Explored(NamedTuple):
    """Points ``(n, d)`` that reach by few columns, sets of columns ``(t, d)`` that were missed, and their proofs."""

    x: Array
    missed: Array
    proofs: tuple[str, ...]


def explore_columns(
    judge: Judge, posterior: GibbsPosterior, draws: Draws, needs: Array, mass: Array, known: Array
) -> Explored:
    """Try sets of columns that no ``known`` point keeps to; ``needs`` ``(u, d)`` of ``mass`` ``(u,)`` rank columns."""
    explorer = _Explorer(judge, posterior, draws)
    space, x0 = judge.query.space, judge.query.x0
    free = np.array([j for j in judge.query.free.tolist() if not space.is_computed[j]], dtype=int)
    ranked = free[np.argsort(-(mass @ (needs != 0))[free], kind="stable")]
    reaching = {frozenset(np.flatnonzero(one).tolist()) for one in find_moves(space, known, x0) != 0}
    found: list[Array] = []
    missed: list[frozenset[int]] = []
    for size, most in enumerate(_RANKED, start=1):
        sets = map(frozenset, combinations(sorted(ranked[:most].tolist()), size))
        tried = [columns for columns in sets if not any(one <= columns for one in reaching)]
        points = explorer.seek(tried)
        missed += [columns for columns, x in zip(tried, points, strict=True) if len(x) == 0]
        reaching |= {columns for columns, x in zip(tried, points, strict=True) if len(x)}
        found += points
    masks = np.zeros((len(missed), len(x0)), dtype=bool)
    for i, columns in enumerate(missed):
        masks[i, sorted(columns)] = True
    x = np.vstack([np.zeros((0, len(x0))), *found])
    return Explored(x, masks, explorer.prove_all(missed))


class _Explorer:
    """Seeks points that change only some columns, and proofs that there are none."""

    def __init__(self, judge: Judge, posterior: GibbsPosterior, draws: Draws) -> None:
        self.judge, self.posterior, self.draws = judge, posterior, draws
        self.space, self.x0 = judge.query.space, judge.query.x0
        data = draws.known.x if posterior.landmarks is None else posterior.landmarks
        self.values = values_to_try(self.space, self.x0, data)

    def seek(self, sets: list[frozenset[int]]) -> list[Array]:
        """Return a few points ``(n, d)`` that reach by changing only the columns of each set, the cheapest first."""
        propose = self._try_values if self.judge.trees is None else self._search_cells
        parts = [propose(columns) for columns in sets]
        x = np.vstack([np.zeros((0, len(self.x0))), *parts])
        reached, cost = self.judge(x).reached, costs(self.space, x, self.x0, "l1")
        ends = np.cumsum([0, *map(len, parts)])
        found = []
        for first, last in pairwise(ends.tolist()):
            own = np.flatnonzero(reached[first:last]) + first
            found.append(x[own[np.argsort(cost[own], kind="stable")[:_KEPT]]])
        return found

    def _search_cells(self, columns: frozenset[int]) -> Array:
        """Return the cheapest points found on the cells of the first model."""
        query = replace(self.judge.query, space=_freeze(self.space, columns))
        scene = Scene(query, self.draws, stream(query.seed, LISTING, query.key))
        none, reaching = np.zeros((0, len(self.x0))), Reaching(self.posterior.target)
        found = seek_on_cells(scene, self.posterior, reaching, none, power=1, most_changes=None, path=0)
        return np.vstack([none, *(one.x for one in found)])

    def _try_values(self, columns: frozenset[int]) -> Array:
        """Return all combinations of some values of the columns."""
        most = _VALUES[len(columns) - 1]
        listed = [_spread(self.values.get(j, self.x0[[j]]), most).tolist() for j in sorted(columns)]
        rows = np.array(list(product(*listed))).reshape(-1, len(columns))
        x = np.repeat(self.x0[None, :], len(rows), axis=0)
        x[:, sorted(columns)] = rows
        return self.space.completed(x, self.x0)

    def prove_all(self, missed: list[frozenset[int]]) -> tuple[str, ...]:
        """Return the sentence of a proof for each set of columns, empty without one; it holds for subsets as well."""
        proofs: dict[frozenset[int], str] = {}
        for columns in sorted(missed, key=len, reverse=True):
            larger = next((proof for one, proof in proofs.items() if columns < one and proof), None)
            proofs[columns] = self._prove(columns) if larger is None else larger
        return tuple(proofs[columns] for columns in missed)

    def _prove(self, columns: frozenset[int]) -> str:
        """Return the sentence of a proof that no row reaches by changing only these columns, empty without one."""
        posterior, target, row = self.posterior, self.posterior.target, self.judge.query.row
        inside = posterior.readers[0].inside if posterior.readers else None
        if inside is None or (target.reads_classes and posterior.predictors[0].decide_always):
            return ""
        if isinstance(inside.parts, TreeScores) and self.judge.trees is None:  # under a budget
            return ""
        problem = _freeze(self.space, columns), self.x0, target, row.x, row.outputs[:, 0]
        proof = prove_unattainable(inside, *problem, self.judge.trees, most_work=_MOST_WORK)
        return "" if proof is None else proof.sentence


def _freeze(space: Space, columns: frozenset[int]) -> Space:
    """Return the space in which only these columns, and those computed from them, can change."""
    return replace(
        space,
        features=tuple(
            one if j in columns or space.is_computed[j] else replace(one, mutable=False)
            for j, one in enumerate(space.features)
        ),
    )


def _spread(values: Array, most: int) -> Array:
    """Return at most ``most`` of ``values``, evenly spaced, including both ends."""
    return values if len(values) <= most else values[np.linspace(0, len(values) - 1, most).round().astype(int)]
