"""Find strategies while the model is at hand: what draws need, and the cheapest points that make just these changes.

Points of all sets of moves are found together: changes of reduced draws are shrunk in lockstep, then extended until one
point keeps reaching the target under execution noise. The result is plain data, see :class:`Strategies`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gbce._numerics import ENOUGH_ESS, LISTING, resample_evenly, stream
from gbce.base import Array, Query, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._apply import Decision
from gbce.decisions._column_sets import MOST_COLUMNS, explore_columns
from gbce.decisions._needed import Judge, choose_strategies, find_moves, follow_strategies, undo_unneeded
from gbce.decisions._reliable import Reliable, extend_changes, extend_each_change, round_away
from gbce.decisions._risk import UnderNoise, thin_out
from gbce.decisions._screening import Promise, PromiseSearch
from gbce.draws import Draws, Scene
from gbce.metrics import costs, signed_changes
from gbce.posterior import GibbsPosterior, run_together
from gbce.space import Space

__all__ = ["LEAST_CHANGE", "Strategies", "find_strategies"]

LEAST_CHANGE = 0.01  # of a column's unit: nobody makes, or can measure, a smaller change; a convention
# All of these were chosen by hand; they trade model rows for the number of strategies and their cost.
_DRAWS, _DRAWS_BY_LEAVES = 256, 1_000  # draws whose needed changes are found; the share of a strategy is off by 3%, 1.5%
_FEWEST_DRAWS = 50  # with fewer, shares would be off by 7%
_UNDO_ROWS = 4_000  # model rows that finding them may take
_STRATEGIES = 6  # that get points
_FEWEST_STRATEGIES = 3  # where draws show fewer, sets of columns that were found otherwise are added
_FEW_SETS = 8  # further sets of moves of few columns that get points, the cheapest
_DOUBLED = 3  # columns whose change is doubled, one at a time, so that others can shrink instead
_HALVINGS = 6  # of each change: it is known to 2% of itself
_SCREENED, _CONFIRMING, _COPIES = 32, 128, 200  # copies under noise: to screen, to confirm, for the figure shown
_CANDIDATES, _OF_DRAWS = 24, 6  # points of a set that may be reliable, and how many of them are reduced draws
_RELIABLE_ROWS = 1_500  # model rows that the search for a reliable point takes at most, for one set


@dataclass(frozen=True, eq=False)
class Strategies:
    """Sets of moves that reach the target, with the draws that need them and points that make them; plain data.

    ``m`` draws, ``u`` sets of moves that they need, ``p`` points, ``t`` sets of columns by which nothing was found.

    Parameters
    ----------
    index : int array of shape (m,)
        Positions of the draws in the pool; empty if the pool was dropped.
    weights : array of shape (m,)
        Their weights, which sum to one.
    which : int array of shape (m,)
        The set that each of them needs, -1 if it misses the target.
    needs : int8 array of shape (u, d)
        Direction in which each column moves: 1, -1, or 0 if it stays; 1 for another level of a category, 2 for a value
        that becomes missing or known.
    x : array of shape (p, d)
        Points that reach the target by the model's own ``predict``: for each set of moves the cheapest found, and the
        cheapest that is reliable, if another one.
    outputs : array of shape (p,)
        The first model's output.
    reliability : array of shape (p,)
        Probability of reaching under execution noise, from ``copies`` noisy copies.
    holds : bool array of shape (p,)
        Whether the point is reliable, as :class:`gbce.Reliable` judges.
    strategy : int array of shape (p,)
        The strategy that a point represents, in the order of their shares when they were found; -1 for others.
    missed : bool array of shape (t, d)
        Sets of columns by which no point was found that reaches.
    proofs : tuple of t str
        Sentence of the proof that none can, empty without one.
    copies : int
        Noisy copies of each point.
    """

    index: Array
    weights: Array
    which: Array
    needs: Array
    x: Array
    outputs: Array
    reliability: Array
    holds: Array
    strategy: Array
    missed: Array
    proofs: tuple[str, ...]
    copies: int

    def reweigh(self, before: Draws, after: Draws, inside: Array | None = None) -> "Strategies | None":
        """Return the same strategies under another posterior; None if none of the labelled draws has any weight there.

        ``inside`` ``(N,)`` are the points of the pool that are left in the pool of ``after``; by default all.
        """
        kept = np.ones(len(self.index), dtype=bool) if inside is None else inside[self.index]
        index = self.index[kept]
        place = index if inside is None else (np.cumsum(inside) - 1)[index]
        weights = self.weights[kept] * after.pool_weights[place] / before.pool_weights[index]
        if not weights.sum() > 0:
            return None
        return replace(self, index=place, weights=weights / weights.sum(), which=self.which[kept])

    def find_representatives(self, cost: Array) -> Array:
        """Return the point that represents each strategy: its cheapest reliable one, else its cheapest; ``(s,)``.

        ``cost`` ``(p,)`` is that of the points.
        """
        return find_representatives(self.strategy, self.holds, cost)

    def keep_points(self, good: Array) -> "Strategies":
        """Return the strategies with some of their points ``(p,)``."""
        names = ("x", "outputs", "reliability", "holds", "strategy")
        return replace(self, **{name: getattr(self, name)[good] for name in names})


def find_representatives(strategy: Array, holds: Array, cost: Array) -> Array:
    """Return the positions of the cheapest reliable point of each strategy, of the cheapest where there is none."""
    order = np.lexsort((cost, ~holds, strategy))
    order = order[strategy[order] >= 0]
    _, first = np.unique(strategy[order], return_index=True)
    return np.asarray(order[first])


class _Labelled(NamedTuple):
    """Draws with what they need: positions in the pool, the set each needs, all sets, and reduced points ``(r, d)``."""

    index: Array
    which: Array
    needs: Array
    reduced: Array


def find_strategies(
    query: Query, draws: Draws, posterior: GibbsPosterior, decisions: Sequence[Decision], policy: Rule | None = None
) -> Strategies | None:
    """Return the strategies of a posterior; None if the row needs none, no draw reaches, or the budget is too small."""
    reached = draws.reached[:, 0] & np.isfinite(draws.points.log_correction)
    if query.row.reached[0, 0] or not draws.info.draws_posterior or not reached.any() or draws.ess < ENOUGH_ESS:
        return None
    promise = policy if isinstance(policy, Reliable) else Reliable()
    try:
        return _Search(query, draws, posterior, promise, Judge.of(query, posterior)).run(decisions)
    except BudgetSpentError:
        return None


@dataclass(frozen=True, eq=False)
class _Search:
    """One search for strategies; ``judge`` knows whether points reach the target."""

    query: Query
    draws: Draws
    posterior: GibbsPosterior
    rule: Reliable
    judge: Judge

    @property
    def space(self) -> Space:
        return self.query.space

    @property
    def x0(self) -> Array:
        return self.query.x0

    def run(self, decisions: Sequence[Decision]) -> Strategies | None:
        """Label draws, find points of their sets of moves and of few columns, judge and confirm them."""
        labelled = self._label_draws()
        if labelled is None:
            return None
        needs, x0 = labelled.needs, self.x0
        mass = np.bincount(labelled.which[labelled.which >= 0], minlength=len(needs)) / len(labelled.index)
        decided = np.array([one.x for one in decisions if one.reached[0]]).reshape(-1, len(x0))
        known = np.vstack([labelled.reduced, undo_unneeded(self.judge, decided[self.judge(decided).reached])])
        explored = explore_columns(self.judge, self.posterior, self.draws, needs, mass, known)
        chosen = needs[choose_strategies(needs, mass, _STRATEGIES)]
        groups = self._group_starts(self._drop_invalid(np.vstack([known, explored.x])), chosen)
        nearest = self._shrink_all(groups)
        reliable = self._find_reliable(groups, nearest)
        points = self._confirm(nearest, reliable, chosen)
        return Strategies(
            index=labelled.index,
            weights=np.full(len(labelled.index), 1.0 / len(labelled.index)),
            which=labelled.which,
            needs=needs,
            **points,
            missed=explored.missed,
            proofs=explored.proofs,
            copies=_COPIES,
        )

    def _label_draws(self) -> _Labelled | None:
        """Return some draws with the moves that they need; None if the budget allows too few."""
        draws, space, x0 = self.draws, self.space, self.x0
        each = 2.0 * float(draws.weights @ (find_moves(space, draws.x, x0) != 0).sum(axis=1))
        n = min(_DRAWS_BY_LEAVES if self.judge.trees else _DRAWS, len(draws))
        if self.judge.trees is None:
            rows = min(_UNDO_ROWS, self.posterior.affords(_UNDO_ROWS + _RELIABLE_ROWS) - _RELIABLE_ROWS)
            n = min(n, int(rows / max(each, 1.0)))
        if n < _FEWEST_DRAWS:
            return None
        rng = stream(self.query.seed, LISTING, self.query.key)
        index = draws.index[resample_evenly(rng, draws.weights, n)]
        reaches = draws.pool.reached[index, 0]
        reduced = undo_unneeded(self.judge, draws.pool.x[index[reaches]])
        needs, inverse = np.unique(find_moves(space, reduced, x0), axis=0, return_inverse=True)
        which = np.full(n, -1)
        which[reaches] = inverse.ravel()
        return _Labelled(index, which, needs, reduced)

    # --- points of a set of moves ---------------------------------------------------------------------------

    def _drop_invalid(self, x: Array) -> Array:
        """Return the distinct points ``(n, d)`` whose changes are all large enough, the cheapest first."""
        size = np.abs(signed_changes(self.space, x, self.x0))
        moved = find_moves(self.space, x, self.x0) != 0
        good = np.where(moved, size, np.inf).min(axis=1, initial=np.inf) >= LEAST_CHANGE
        x = np.unique(x[good & moved.any(axis=1)], axis=0)
        return x[np.argsort(costs(self.space, x, self.x0, "l1"), kind="stable")]

    def _group_starts(self, starts: Array, chosen: Array) -> list[Array]:
        """Return the starts of each set of moves: of the chosen strategies, then of those with few columns."""
        moves = find_moves(self.space, starts, self.x0)
        few = moves[(moves != 0).sum(axis=1) <= MOST_COLUMNS]
        _, first = np.unique(few, axis=0, return_index=True)
        listed = {one.tobytes(): one for one in (*chosen, *few[np.sort(first)][:_FEW_SETS])}  # cheap ones first
        groups = [starts[(moves == one).all(axis=1)] for one in listed.values()]
        return [group for group in groups if len(group)]

    def _shrink_all(self, groups: Sequence[Array]) -> list[Array | None]:
        """Return the cheapest point found of each group, all shrunk together, rounded where it still reaches."""
        parts = [self._vary(group[0]) for group in groups]
        last = np.concatenate([np.zeros(0, dtype=int), *(part[1] for part in parts)])
        x = np.vstack([np.zeros((0, len(self.x0))), *(part[0] for part in parts)])
        reached = self.judge(x).reached
        x[reached] = self._shrink(x[reached], last[reached])
        rounded = round_away(self.space, self.x0, x)
        tidy = self.judge(rounded).reached
        own = np.repeat(np.arange(len(groups)), [len(part[0]) for part in parts])
        found: list[Array | None] = []
        for number, group in enumerate(groups):
            mine = np.flatnonzero(own == number)
            points = np.vstack([rounded[mine[tidy[mine]]], x[mine[reached[mine]]]])
            same = (find_moves(self.space, points, self.x0) == find_moves(self.space, group[:1], self.x0)).all(axis=1)
            points = points[same & (np.arange(len(points)) < max(int(tidy[mine].sum()), 1))]  # rounded ones if any
            good = self._drop_invalid(points)
            found.append(good[0] if len(good) else None)
        return found

    def _vary(self, x: Array) -> tuple[Array, Array]:
        """Return a point and copies with one change doubled ``(k, d)``, and the column to shrink last ``(k,)``."""
        size = np.abs(signed_changes(self.space, x[None, :], self.x0))[0] * self._is_shrinkable(x[None, :])[0]
        columns = np.argsort(-size, kind="stable")[: min(_DOUBLED, np.count_nonzero(size))]
        rows = np.repeat(x[None, :], len(columns) + 1, axis=0)
        rows[np.arange(1, len(rows)), columns] += (x - self.x0)[columns]
        return self.space.project(rows, self.x0), np.concatenate([[-1], columns]).astype(int)

    def _is_shrinkable(self, x: Array) -> Array:
        """Whether each change of points ``(n, d)`` can be made smaller: of a number or an ordinal, known in both."""
        moves = find_moves(self.space, x, self.x0)
        return np.asarray((np.abs(moves) == 1) & ~self.space.unordered)

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
            low, high = np.minimum(LEAST_CHANGE / size[which, column], 1.0), np.ones(len(which))
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                change = np.where(self.space.discrete[column], np.sign(full) * np.ceil(np.abs(full) * middle), full * middle)
                trial = x[which]
                trial[np.arange(len(which)), column] = self.x0[column] + change
                trial = self.space.completed(trial, self.x0)
                reached = self.judge(trial).reached
                x[which[reached]] = trial[reached]
                low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return x

    # --- reliable points ------------------------------------------------------------------------------------

    def _find_reliable(self, groups: Sequence[Array], nearest: Sequence[Array | None]) -> list[Array | None]:
        """Return the cheapest reliable point found of each group; sets beyond the budget have none."""
        tasks = [
            self._make_task(number, group, near)
            for number, (group, near) in enumerate(zip(groups, nearest, strict=True))
            if near is not None
        ]
        posterior = self.judge.posterior
        n = posterior.affords(len(tasks) * _RELIABLE_ROWS) // _RELIABLE_ROWS
        return run_together(posterior, tasks[:n], _RELIABLE_ROWS) if n else []

    def _make_task(self, number: int, group: Array, near: Array) -> Callable[[GibbsPosterior], Array | None]:
        """Return the search for a reliable point among extensions of a point and reduced draws of the same moves."""
        rule = self.rule

        def seek(posterior: GibbsPosterior) -> Array | None:
            rng = stream(self.query.seed, LISTING, (*self.query.key, 1 + number))
            scene = Scene(self.query, self.draws, rng, posterior)
            further = [extend_changes(self.space, self.x0, near[None, :]), extend_each_change(scene, near[None, :])]
            x = round_away(self.space, self.x0, np.vstack([near[None, :], *further, group[:_OF_DRAWS]]))
            x = x[(find_moves(self.space, x, self.x0) == find_moves(self.space, near[None, :], self.x0)).all(axis=1)]
            x = self._drop_invalid(x[self.space.admissible(x, self.x0)])
            promise = Promise(rule.probability, rule.confidence, _SCREENED, _CONFIRMING)
            noisy = UnderNoise(scene, posterior, rule.noise, first_only=True)
            x = thin_out(x, _CANDIDATES)
            search = PromiseSearch(noisy, promise, x, lambda x: costs(self.space, x, self.x0, "l1"))
            try:
                held = search.find_holding()
            except BudgetSpentError:
                return None
            return None if held is None else x[held]

        return seek

    # --- confirmation ---------------------------------------------------------------------------------------

    def _confirm(
        self, nearest: Sequence[Array | None], reliable: Sequence[Array | None], chosen: Array
    ) -> dict[str, Array]:
        """Return the points that the model's own ``predict`` confirms, with their figures, the cheapest first."""
        held = {one.tobytes() for one in reliable if one is not None}
        points = [one for one in (*nearest, *reliable) if one is not None]
        x = self._drop_invalid(np.array(points).reshape(-1, len(self.x0)))
        holds = np.array([one.tobytes() in held for one in x], dtype=bool)
        alone = find_representatives(self._number_strategies(x, chosen), holds, costs(self.space, x, self.x0, "l1"))
        outputs, reached = self._predict(x, np.isin(np.arange(len(x)), alone))
        x, outputs, holds = x[reached], outputs[reached], holds[reached]
        scene = Scene(self.query, self.draws, stream(self.query.seed, LISTING, (*self.query.key, 0)))
        noisy = UnderNoise(scene, self.judge.posterior, self.rule.noise, first_only=True)
        return {
            "x": x,
            "outputs": outputs,
            "reliability": noisy.success(x, noisy.draw_offsets(_COPIES)) if len(x) else np.zeros(0),
            "holds": holds,
            "strategy": self._number_strategies(x, chosen),
        }

    def _predict(self, x: Array, alone: Array) -> tuple[Array, Array]:
        """Return outputs and verdicts ``(p,)`` of the model's own ``predict``, one row at a time where ``alone``.

        Where a verdict of a row alone differs from that in a batch, all points are predicted alone.
        """
        if len(x) == 0:
            return np.zeros(0), np.zeros(0, dtype=bool)
        together = self.posterior.read(self.posterior.ask(x, use_predict=True, models=1))
        outputs, reached = together.outputs[:, 0].copy(), together.reached[:, 0].astype(bool)
        for which in (alone, ~alone):
            own = self.posterior.read(self.posterior.ask_alone(x[which])) if which.any() else None
            if own is None:
                continue
            if len(own.reached) < np.count_nonzero(which):
                raise BudgetSpentError("the time is over: the points cannot be confirmed")
            same = (own.reached[:, 0] == reached[which]).all()
            outputs[which], reached[which] = own.outputs[:, 0], own.reached[:, 0]
            if same:
                break
        return outputs, reached

    def _number_strategies(self, x: Array, chosen: Array) -> Array:
        """Return which strategy points ``(p, d)`` represent, -1 for none.

        Sets of few columns are added where draws show too few strategies, the cheapest first.
        """
        moves = find_moves(self.space, x, self.x0)
        listed = [one for one in chosen if (moves == one).all(axis=1).any()]
        for one in moves:
            if len(listed) >= _FEWEST_STRATEGIES:
                break
            if follow_strategies(one[None, :], np.array(listed).reshape(-1, len(one)))[0] < 0:
                listed.append(one)
        number = {one.tobytes(): i for i, one in enumerate(listed)}
        return np.array([number.get(one.tobytes(), -1) for one in moves], dtype=int)
