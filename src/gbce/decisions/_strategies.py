"""Find strategies while the model is at hand: what draws need, and the cheapest points that make just these changes.

Draws are reduced to the moves that they need; the sets of moves that most draws follow, and those of few columns, get a
cheap and a reliable point each, which the model confirms. The result is plain data, see :class:`Strategies`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gbce._numerics import ENOUGH_ESS, LISTING, resample_evenly, stream
from gbce.base import Array, Query, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._apply import Decision
from gbce.decisions._needed import Judge, choose_strategies, follow_strategies, undo_unneeded
from gbce.decisions._reliable import Reliable
from gbce.decisions._risk import UnderNoise
from gbce.decisions._set_points import MOST_COLUMNS, PointFinder, explore_columns
from gbce.draws import Draws, Scene
from gbce.posterior import GibbsPosterior


@dataclass(frozen=True)
class _Effort:
    """How many draws, strategies and sets of columns are worked out."""

    # All of these were chosen by hand; they trade model rows for the number of strategies and their cost.
    draws: int = 256  # draws whose needed changes are found: a share is then off by 3%
    draws_by_leaves: int = 600  # the same where they cost time only: off by 2%
    fewest_draws: int = 50  # with fewer, shares would be off by 7%
    undo_rows: int = 4_000  # model rows that finding them may take, one part in three of what is left
    parts: int = 3
    strategies: int = 5  # that get points
    fewest_strategies: int = 3  # where draws show fewer, sets of columns that were found otherwise are added
    # sets of moves of few columns that get points, those with fewer columns and then the cheapest first
    few_sets: int = 5
    copies: int = 128  # under noise, for the figure of a point: it is off by 3% at a share of 0.9


_EFFORT = _Effort()


@dataclass(frozen=True, eq=False)
class Strategies:
    """Sets of moves that reach the target, with the draws that need them and points that make them; plain data.

    ``m`` draws, ``u`` sets of moves that they need, ``p`` points, ``t`` sets of columns by which nothing was found.
    """

    index: Array  # (m,), positions of the draws in the pool; empty if the pool was dropped
    weights: Array  # (m,), theirs, which sum to one
    which: Array  # (m,), the set that each of them needs, -1 if it misses the target
    # (u, d): 1, -1, or 0 if a column stays; 1 for another level, 2 for a value that becomes missing or known
    needs: Array
    # (p, d), by the model's own predict: for each set the cheapest point found, and the cheapest that is reliable
    x: Array
    outputs: Array  # (p,), of the first model
    reliability: Array  # (p,), probability of reaching under execution noise, from ``copies`` noisy copies
    holds: Array  # (p,), whether :class:`gbce.Reliable` accepts the point, and these copies confirm it
    strategy: Array  # (p,), which strategy it represents, in the order of shares when they were found; -1 for others
    missed: Array  # (t, d), sets of columns by which no point was found
    proofs: tuple[str, ...]  # t sentences that none can be found, empty without a proof
    copies: int

    def reweigh(self, before: Draws, after: Draws, inside: Array | None = None) -> "Strategies | None":
        """Return the strategies under another posterior of points ``inside``; None if no labelled draw has weight."""
        kept = np.ones(len(self.index), dtype=bool) if inside is None else inside[self.index]
        index = self.index[kept]
        place = index if inside is None else (np.cumsum(inside) - 1)[index]
        weights = self.weights[kept] * after.pool_weights[place] / before.pool_weights[index]
        if not weights.sum() > 0:
            return None
        return replace(self, index=place, weights=weights / weights.sum(), which=self.which[kept])

    def find_representatives(self, cost: Array) -> Array:
        """Return the point that represents each strategy: its cheapest reliable one, else its cheapest; ``(s,)``."""
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


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Draws with what they need: positions in the pool, the set each needs, all sets, and reduced points ``(r, d)``."""

    index: Array
    which: Array
    needs: Array
    reduced: Array


def find_strategies(
    query: Query,
    draws: Draws,
    posterior: GibbsPosterior,
    decisions: Sequence[Decision],
    policy: Rule | None = None,
    answer: Decision | None = None,
    share: float | None = None,
) -> Strategies | None:
    """Return the strategies of a posterior under the promise of the ``policy``; None without need, draws or budget.

    ``answer`` is a point known to be reliable, and ``share`` its measured reliability.
    """
    reached = draws.reached[:, 0] & np.isfinite(draws.points.log_correction)
    if query.row.reached[0, 0] or not draws.info.draws_posterior or not reached.any() or draws.ess < ENOUGH_ESS:
        return None
    promise = policy if isinstance(policy, Reliable) else Reliable()
    try:
        return _Search(query, draws, promise, Judge.of(query, posterior), posterior).run(decisions, answer, share)
    except BudgetSpentError:
        return None


@dataclass(frozen=True, eq=False)
class _Search(PointFinder):
    """One search for strategies; ``posterior`` has the model itself."""

    posterior: GibbsPosterior

    def run(self, decisions: Sequence[Decision], answer: Decision | None, share: float | None) -> Strategies | None:
        """Label draws, find points of their sets of moves and of few columns, judge and confirm them."""
        labelled = self._label_draws()
        if labelled is None:
            return None
        needs = labelled.needs
        mass = np.bincount(labelled.which[labelled.which >= 0], minlength=len(needs)) / len(labelled.index)
        decided = [one for one in (*decisions, answer) if one is not None and one.reached[0]]
        known = np.vstack([labelled.reduced, self._reduce(np.array([one.x for one in decided]))])
        explored = explore_columns(self.judge, self.posterior, self.draws, needs, mass, known)
        chosen = needs[choose_strategies(needs, mass, _EFFORT.strategies)]
        groups = self._group_starts(self.drop_invalid(np.vstack([known, explored.x])), chosen)
        nearest = self.shrink_all(groups)
        reliable = [*self.find_reliable(groups, nearest), None if answer is None else answer.x]
        measured = {} if answer is None or share is None else {answer.x.tobytes(): share}
        points = self._confirm(nearest, reliable, chosen, measured)
        return Strategies(
            index=labelled.index,
            weights=np.full(len(labelled.index), 1.0 / len(labelled.index)),
            which=labelled.which,
            needs=needs,
            **points,
            missed=explored.missed,
            proofs=explored.proofs,
            copies=_EFFORT.copies,
        )

    def _label_draws(self) -> _Labelled | None:
        """Return some draws with the moves that they need; None if the budget allows too few."""
        draws = self.draws
        each = 2.0 * float(draws.weights @ (self.find_moves(draws.x) != 0).sum(axis=1))
        n = min(_EFFORT.draws_by_leaves if self.judge.trees else _EFFORT.draws, len(draws))
        if self.judge.trees is None:
            rows = self.posterior.affords(_EFFORT.parts * _EFFORT.undo_rows) / _EFFORT.parts
            n = min(n, int(rows / max(each, 1.0)))
        if n < _EFFORT.fewest_draws:
            return None
        rng = stream(self.query.seed, LISTING, self.query.key)
        index = draws.index[resample_evenly(rng, draws.weights, n)]
        reaches = draws.pool.reached[index, 0]
        reduced = undo_unneeded(self.judge, draws.pool.x[index[reaches]])
        needs, inverse = np.unique(self.find_moves(reduced), axis=0, return_inverse=True)
        which = np.full(n, -1)
        which[reaches] = inverse.ravel()
        return _Labelled(index, which, needs, reduced)

    def _reduce(self, x: Array) -> Array:
        """Return points that reach without unneeded changes, and as they are where they have none ``(n, d)``."""
        x = x.reshape(-1, len(self.x0))
        x = x[self.judge(x).reached]
        reduced = undo_unneeded(self.judge, x)
        moves = self.find_moves(x), self.find_moves(reduced)
        return np.vstack([reduced, x[(moves[0] == moves[1]).all(axis=1)]])

    def _group_starts(self, starts: Array, chosen: Array) -> list[Array]:
        """Return the starts of each set of moves: of the chosen strategies, then of those with few columns."""
        moves = self.find_moves(starts)
        size = (moves != 0).sum(axis=1)
        order = np.argsort(size, kind="stable")[: np.count_nonzero(size <= MOST_COLUMNS)]
        few = {moves[i].tobytes(): moves[i] for i in order}  # with fewer columns first, then the cheapest
        listed = {one.tobytes(): one for one in chosen} | dict(list(few.items())[: _EFFORT.few_sets])
        groups = [starts[(moves == one).all(axis=1)] for one in listed.values()]
        return [group for group in groups if len(group)]

    # --- confirmation ---------------------------------------------------------------------------------------

    def _confirm(
        self,
        nearest: Sequence[Array | None],
        reliable: Sequence[Array | None],
        chosen: Array,
        measured: Mapping[bytes, float],
    ) -> dict[str, Array]:
        """Return the points that the model's own ``predict`` confirms, with their figures, the cheapest first.

        Reliability is that of fresh copies, or as already ``measured`` of a point.
        """
        held = {one.tobytes() for one in reliable if one is not None}
        points = [one for one in (*nearest, *reliable) if one is not None]
        x = self.drop_invalid(np.array(points).reshape(-1, len(self.x0)))
        scene = Scene(self.query, self.draws, stream(self.query.seed, LISTING, (*self.query.key, 0)))
        noisy = UnderNoise(scene, self.judge.posterior, self.rule.noise, first_only=True)
        share = noisy.success(x, noisy.draw_offsets(_EFFORT.copies)) if len(x) else np.zeros(0)
        share = np.array([measured.get(one.tobytes(), own) for one, own in zip(x, share, strict=True)], dtype=float)
        holds = np.array([one.tobytes() in held for one in x], dtype=bool) & (share >= self.rule.probability)
        alone = find_representatives(self._number_strategies(x, chosen), holds, self.cost(x))
        outputs, reached = self._predict(x, np.isin(np.arange(len(x)), alone))
        x, outputs, holds, share = x[reached], outputs[reached], holds[reached], share[reached]
        return {
            "x": x,
            "outputs": outputs,
            "reliability": share,
            "holds": holds,
            "strategy": self._number_strategies(x, chosen),
        }

    def _predict(self, x: Array, alone: Array) -> tuple[Array, Array]:
        """Return outputs and verdicts ``(p,)`` of ``predict``, row by row where ``alone``, or all if it matters."""
        if len(x) == 0:
            return np.zeros(0), np.zeros(0, dtype=bool)
        together = self.posterior.read(self.posterior.ask(x, use_predict=True, models=1))
        outputs, reached = together.outputs[:, 0].copy(), together.reached[:, 0].astype(bool)
        for which in (alone, ~alone):
            own = self.posterior.read(self.posterior.ask_alone(x[which])) if which.any() else None
            if own is None:
                continue
            if len(own.reached) < np.count_nonzero(which):
                raise BudgetSpentError("the time ran out before the points were confirmed")
            same = (own.reached[:, 0] == reached[which]).all()
            outputs[which], reached[which] = own.outputs[:, 0], own.reached[:, 0]
            if same:
                break
        return outputs, reached

    def _number_strategies(self, x: Array, chosen: Array) -> Array:
        """Return which strategy points ``(p, d)`` represent, -1 for none; cheap small sets make up the fewest."""
        moves = self.find_moves(x)
        listed = [one for one in chosen if (moves == one).all(axis=1).any()]
        for one in moves:
            if len(listed) >= _EFFORT.fewest_strategies:
                break
            if follow_strategies(one[None, :], np.array(listed).reshape(-1, len(one)))[0] < 0:
                listed.append(one)
        number = {one.tobytes(): i for i, one in enumerate(listed)}
        return np.array([number.get(one.tobytes(), -1) for one in moves], dtype=int)
