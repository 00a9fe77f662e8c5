"""Find the nearest point that reaches the target: the constrained problem of the paper's Section 2.1.

Points come from the cells of a readable tree ensemble or from a local search; each is confirmed by the model's own
``predict``, rounded, and freed of changes that the model does not need.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from gbce._numerics import first_of_least
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule, Target
from gbce.budget import BudgetSpentError
from gbce.decisions._needed import undo_singly
from gbce.decisions._structure import NO_PROOF, Reaching, prove_nearest, seek_on_cells
from gbce.draws import Points, Scene
from gbce.metrics import costs
from gbce.posterior import FEW_ROWS, Evaluated, GibbsPosterior
from gbce.search import (
    CandidateMoves,
    Judged,
    NearestPoints,
    find_nearest,
    find_nearest_with_few_rows,
    values_to_try,
)
from gbce.space import Space
from gbce.trees import read_models

# Chosen by hand, except _CONFIRMED.
_PATH = 6  # largest number of changes with a point of its own: nobody plans with more
_MODES = 12  # cheap points with different sets of changes that are confirmed besides these
_KNOWN_STARTS, _LANDMARK_STARTS = 12, 12  # cheapest evaluated points, and training rows, from which changes are undone
_TRIALS = 60  # training rows that reach the target but must be projected, and evaluated again, to be admissible
_SAME_COST = 0.005  # relative: a point dearer by no more than this is preferred if it has fewer changes
_READABLE = 0.01  # relative cost that rounding to few digits may add
_MOST_DIGITS = 6  # of rounded numbers
_UNDO_ROUNDS, _MOST_UNDONE = 4, 2_000  # rounds of undoing single changes at the end, and rows evaluated in each
_CONFIRMED = 1e-9  # relative rounding error of the cost of a point found on cells
_FIRST_CONFIRMED = 2  # points evaluated next where the model rejects one; doubled each time
_SEARCHED = 0.85  # share of few rows for the search; the rest confirms, undoes and rounds
_PRICE_OF_A_CHANGE = 3.0  # beside its size, in units of scale, while the fewest changes are searched
_KEPT_OF_FEW = 3  # points that are confirmed, undone and rounded then


@dataclass(frozen=True)
class Nearest(Rule):
    """The cheapest point that reaches the target: least distance from the row, subject to the model's own decision.

    Parameters
    ----------
    distance : {"l1", "l2", "changes"}
        Distance to minimise, in units of each feature's scale, where any change of a category counts as one: the sum of
        absolute changes, the Euclidean distance, or the number of changed features (ties go to the smaller sum).
    max_changes : int, optional
        Largest number of features that may change; computed columns do not count.
    margin : float
        How far beyond the boundary, in units of the target's output: a probability for :class:`gbce.Class` (0.1 means
        at least 0.6 if the model's own decision counts), the model's output for :class:`gbce.AtLeast`,
        :class:`gbce.AtMost`, :class:`gbce.Range`, :class:`gbce.Value` and :class:`gbce.Change`. Refused for targets
        that do not depend on a single output (:class:`gbce.Multi`, :class:`gbce.Loss`).
    prove : bool
        Whether to prove a lower bound on the cost, if the first model is a tree ensemble that can be read: the bound is
        in the decision's ``proof``, and a cheaper point found on the way is taken. The work is limited: well below a
        second for ten columns. A gap that this leaves open goes to scipy's mixed-integer solver (HiGHS) if no budget is
        set: 3 to 23 CPU seconds in all were measured for a forest of thirty columns. The bound holds for the whole
        space, as constraints between columns only exclude points.

    Notes
    -----
    With several models the first decides, as in ``reached`` and ``status``, however they are combined; use
    ``ChanceConstrained(across="models")`` or :meth:`gbce.Explainer.frontier` for points that the others accept too.

    A tree ensemble that can be read is searched on the cells between its splits without calling the model, which only
    confirms the result. For other models, and where constraints between columns obstruct the search on cells, the
    search evaluates at most 4,000 rows plus 150 per feature, never more than 12,000, in few calls. The result is never
    dearer than any point of the explanation that reaches the target: the sampler's points, the training rows it
    evaluated, the row itself. The chosen point is confirmed by the model's own decision; if the model rejects a point,
    the next one is taken. Real numbers are rounded to few digits where that adds at most 1% to the cost. Among points
    whose costs differ by less than 0.5%, the one with the fewest changes is taken.

    If no point reaches the target, the point of least loss is chosen, and a note says so.

    The cheapest points with at most 1, 2, ... 6 changes accompany it: :attr:`gbce.Explanation.sparsity_path`.
    Without a model at hand (``explanation.decide``, ``explanation.at``) all are chosen among evaluated points.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> data = np.random.default_rng(0).normal(size=(200, 2))
    >>> explainer = gbce.Explainer(lambda x: x[:, 0] + 3 * x[:, 1], data, space=gbce.Space.real(2))
    >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(3), rules=[gbce.Nearest()], seed=0)
    >>> explanation.counterfactuals.loc["Nearest"].tolist()
    [0.0, 1.0]
    """

    distance: Literal["l1", "l2", "changes"] = "l1"
    max_changes: int | None = None
    margin: float = 0.0
    prove: bool = False

    def __post_init__(self) -> None:
        if self.distance not in ("l1", "l2", "changes"):
            raise ValueError(f"Nearest: distance must be 'l1', 'l2' or 'changes', not {self.distance!r}")
        if self.max_changes is not None:
            require_counts(self, "max_changes")
        require_finite(self, "margin")
        if self.margin < 0:
            raise ValueError(f"Nearest: margin must be zero or more, not {self.margin!r}")
        if not isinstance(self.prove, bool):
            raise ValueError(f"Nearest: prove must be True or False, not {self.prove!r}")

    def check_target(self, target: Target) -> None:
        """Refuse a margin that does not fit into the target."""
        Reaching(target, self.margin).require(self)

    @property
    def has_path(self) -> bool:
        """True: the cheapest points for each number of changes accompany the chosen one."""
        return True

    @property
    def priced_by(self) -> str:
        """The distance that ranks points: ``"changes"`` breaks ties by the sum of changes."""
        return "l2" if self.distance == "l2" else "l1"

    def choose(self, scene: Scene) -> Choice:
        """Choose the cheapest point that reaches the target, and the cheapest for each number of changes."""
        known = _Known.of(scene, self)
        if known.row_reaches:
            return Choice(scene.row.x, scene.row)
        if scene.posterior is None:
            return self._choose_among_evaluated(scene, known)
        points, seen = _search(scene, scene.posterior, self, known)
        path = self._order_path(points, known.cheapest)
        if not path:
            return self._choose_best_seen(scene, known, seen)
        if self.prove:
            return self._choose_proved(scene, scene.posterior, points, path)
        return Choice(points.x[path], names=self._name_path(points.changes[path]))

    def _choose_proved(self, scene: Scene, posterior: GibbsPosterior, points: NearestPoints, path: list[int]) -> Choice:
        """Choose with a proof, taking a cheaper point if the proof finds one."""
        reaching, names = Reaching(posterior.target, self.margin), self._name_path(points.changes[path])

        def accepts(x: Array) -> Array:
            return reaching.judge(_predict_first(posterior, x)).reached

        x, proof = prove_nearest(scene, posterior, self, points.x[path[0]], accepts, _READABLE)
        note = "" if proof else f"{self.label}: nothing could be proved; {NO_PROOF}"
        return Choice(np.vstack([x[None, :], points.x[path[1:]]]), note=note, names=names, proof=proof)

    def _order_path(self, points: NearestPoints, bound: float) -> list[int]:
        """Return positions of the chosen point, first, and of the cheapest points for other numbers of changes."""
        steps: list[int] = []
        least = np.inf
        order = np.lexsort((points.cost, points.changes))
        for i in order.tolist():
            if points.cost[i] < least * (1.0 - _SAME_COST) and (
                points.changes[i] <= _PATH or i == points.cost.argmin()
            ):
                if steps and points.changes[steps[-1]] == points.changes[i]:
                    steps.pop()
                steps.append(i)
                least = float(points.cost[i])
        if not steps:
            return []
        if self.distance != "changes" and least > bound:  # never dearer than a known point
            steps.append(int(points.cost.argmin()))
        answer = steps[0] if self.distance == "changes" else steps[-1]
        return [answer, *(i for i in steps if i != answer)]

    def _name_path(self, changes: Array) -> tuple[str, ...]:
        return ("", *(f"with {k} change{'s' * (k > 1)}" for k in changes[1:].tolist()))

    def _choose_among_evaluated(self, scene: Scene, known: "_Known") -> Choice:
        """Choose among evaluated points, without calling the model."""
        if len(known.where) == 0:
            return self._choose_best_seen(scene, known, None)
        x = scene.draws.known.x[known.where]
        best: dict[int, int] = {}
        for i in np.lexsort((known.cost, known.changes)).tolist():
            best.setdefault(int(known.changes[i]), i)
        few = np.array(list(best.values()))
        path = self._order_path(NearestPoints(x[few], known.cost[few], known.changes[few]), known.cheapest)
        points = scene.draws.known.take(known.where[few[path]])
        return Choice(points.x, points, names=self._name_path(known.changes[few[path]]))

    def _choose_best_seen(self, scene: Scene, known: "_Known", seen: "_Best | None") -> Choice:
        """Choose the point of least loss, with a note that none reaches the target."""
        limits = [] if self.max_changes is None else [f"at most {self.max_changes} changed features"]
        limits += [] if self.margin == 0 else [f"a margin of {self.margin:g}"]
        under = f" with {' and '.join(limits)}" if limits else ""
        note = (
            f"{self.label}: no evaluated point reaches the target ({scene.query.target.describe()}){under}; "
            "this is the best one seen, with the lowest loss."
        )
        row = scene.row.take(np.isfinite(scene.row.cost))  # unless it violates the conditions of a follow-up question
        points = Points.join([row, scene.draws.known.take(known.allowed)])
        at = first_of_least(points.loss[:, 0], costs(scene.space, points.x, scene.x0, self.priced_by))
        if seen is not None and seen.loss < points.loss[at, 0]:
            return Choice(seen.x[None, :], note=note)
        best = points.take(np.array([at]))
        return Choice(best.x, best, note)


class _Best(NamedTuple):
    """The point of least loss that a search has evaluated."""

    x: Array
    loss: float


@dataclass(frozen=True)
class _Known:
    """Points known to reach the target before the search.

    ``where`` ``(n,)`` are positions among the evaluated points, with ``cost`` and ``changes`` ``(n,)``; ``allowed`` are
    those within the number of changes, whether they reach or not. ``rows`` ``(l, d)`` are admissible training rows that
    reach; ``others`` ``(m, d)`` are projections of those that are not admissible.
    """

    row_reaches: bool
    allowed: Array
    where: Array
    cost: Array
    changes: Array
    rows: Array
    others: Array
    row_costs: Array
    row_changes: Array

    @classmethod
    def of(cls, scene: Scene, rule: Nearest) -> "_Known":
        """Collect the points of a scene that reach the target."""
        space, x0, points = scene.space, scene.x0, scene.draws.known
        reaching = Reaching(scene.query.target, rule.margin)
        most = len(space) if rule.max_changes is None else rule.max_changes
        changes = _count_changes(scene, points.x)
        allowed = np.flatnonzero(np.isfinite(points.log_correction) & (changes <= most))
        where = allowed[_judge_points(reaching, points).reached[allowed]]
        rows, others = reaching_rows(scene, reaching, most)
        return cls(
            row_reaches=bool(np.isfinite(scene.row.cost[0]) and _judge_points(reaching, scene.row).reached[0]),
            allowed=allowed,
            where=where,
            cost=costs(space, points.x[where], x0, rule.priced_by),
            changes=changes[where],
            rows=rows,
            others=others,
            row_costs=costs(space, rows, x0, rule.priced_by),
            row_changes=_count_changes(scene, rows),
        )

    @property
    def cheapest(self) -> float:
        """The least cost of a known point that reaches."""
        return float(min(self.cost.min(initial=np.inf), self.row_costs.min(initial=np.inf)))

    def cheapest_with(self, k: int) -> float:
        """Return the least cost of a known point that reaches with at most ``k`` changes."""
        own = self.cost[self.changes <= k].min(initial=np.inf)
        return float(min(own, self.row_costs[self.row_changes <= k].min(initial=np.inf)))

    def choose_starts(self, scene: Scene) -> Array:
        """Return known points ``(s, d)`` to start from: the cheapest, also for each number of changes."""
        order = np.argsort(self.cost, kind="stable")
        chosen = list(order[:_KNOWN_STARTS])
        for k in range(1, _PATH + 1):
            chosen += list(order[self.changes[order] == k][:2])
        mine = scene.draws.known.x[self.where[np.unique(np.array(chosen, dtype=int))]]
        return np.vstack([mine, self.rows[np.argsort(self.row_costs, kind="stable")[:_LANDMARK_STARTS]]])

    def outputs(self, scene: Scene, reaching: Reaching, cost: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return known points ``(n, d)`` that reach, the cheapest first, and the first model's outputs ``(n, 1)``.

        Training rows are included, admissible or not.
        """
        posterior, points = scene.posterior, scene.draws.known
        x, outputs = points.x[self.where], points.outputs[self.where, :1]
        if posterior is not None and posterior.landmarks is not None and posterior.landmark_evaluated is not None:
            own = reaching.judge(posterior.landmark_evaluated).reached
            x = np.vstack([x, posterior.landmarks[own]])
            outputs = np.vstack([outputs, posterior.landmark_evaluated.outputs[own, :1]])
        order = np.argsort(cost(x), kind="stable")
        return x[order], outputs[order]


def nearest_points(scene: Scene, posterior: GibbsPosterior, rule: Nearest) -> NearestPoints:
    """Return cheap points that reach the target, each confirmed by ``predict`` and with another set of changes.

    The cheapest come first; empty if none was found. ``rule`` gives distance, largest number of changes and margin.
    """
    return _search(scene, posterior, rule, _Known.of(scene, rule))[0]


def _search(
    scene: Scene, posterior: GibbsPosterior, rule: Nearest, known: _Known
) -> tuple[NearestPoints, _Best | None]:
    """Search, confirm, undo changes and round; return the points found and the best point evaluated."""
    space, x0 = scene.space, scene.x0
    reaching = Reaching(posterior.target, rule.margin)
    best: list[_Best] = []
    most = len(space) if rule.max_changes is None else rule.max_changes

    def judge(x: Array) -> Judged:
        evaluated = posterior.evaluate_first(x)
        few = np.flatnonzero(_count_changes(scene, x) <= most)
        if len(few):
            least = few[int(evaluated.loss[few, 0].argmin())]
            best.append(_Best(x[least], float(evaluated.loss[least, 0])))
        return reaching.judge(evaluated)

    def cost(x: Array) -> Array:
        return costs(space, x, x0, rule.priced_by)

    def price(x: Array) -> Array:
        return cost(x) + (_PRICE_OF_A_CHANGE * _count_changes(scene, x) if rule.distance == "changes" else 0.0)

    data = scene.draws.known.x if posterior.landmarks is None else posterior.landmarks
    moves = CandidateMoves(space, x0, values_to_try(space, x0, data), cost)
    first = replace(posterior, predictors=posterior.predictors[:1])
    power, starts, trials = 2 if rule.priced_by == "l2" else 1, known.choose_starts(scene), known.others
    begin = np.vstack([starts, trials])
    on_cells = seek_on_cells(scene, posterior, reaching, begin, power=power, most_changes=rule.max_changes, path=_PATH)
    confirmed, few = False, first.has_few_rows
    for found in on_cells:
        points = _confirm(posterior, reaching, _join_known(scene, found, known, most))
        confirmed = bool(
            points.cost.min(initial=np.inf) <= (1.0 + _CONFIRMED) * found.cost.min(initial=np.inf) < np.inf
        )
        trials = np.vstack([found.x, trials])
        if confirmed:
            break
    if not confirmed or _has_constraints(space):  # constraints may require several features to move together
        if few:
            found = find_nearest_with_few_rows(
                moves, judge, starts, int(_SEARCHED * first.affords(FEW_ROWS)), trials=trials,
                evidence=_collect_evidence(scene, reaching), power=power, most_changes=rule.max_changes,
            )  # fmt: skip
        else:
            found = find_nearest(
                replace(moves, cost=price), judge, starts, trials=trials, known=known.outputs(scene, reaching, cost),
                power=power, most_changes=rule.max_changes, affords=first.affords,
            )  # fmt: skip
            found = found._replace(cost=cost(found.x))
        points = _confirm(posterior, reaching, _join_known(scene, found, known, most), 1 if few else _MODES)
        points = _keep_leading(points) if few else points
    return _tidy(posterior, reaching, moves, points, known), min(best, key=lambda seen: seen.loss, default=None)


def _tidy(
    posterior: GibbsPosterior, reaching: Reaching, moves: CandidateMoves, points: NearestPoints, known: _Known
) -> NearestPoints:
    """Undo changes and round numbers as far as the model allows; trees are read, and confirm the result."""
    read = read_models(posterior)
    tidy = _undo_changes(read, reaching, moves, points)
    tidy = _round(read, reaching, moves, tidy, known)
    fewer = _undo_changes(read, reaching, moves, tidy)  # rounding may have made another change unnecessary
    if len(fewer.x) > len(tidy.x):
        tidy = _round(read, reaching, moves, fewer, known)
    if read.predictors[0] is posterior.predictors[0]:
        return tidy
    confirmed = {x.tobytes() for x in points.x}
    new = [i for i, x in enumerate(tidy.x) if x.tobytes() not in confirmed]
    if not new:
        return tidy
    good = np.ones(len(tidy.x), dtype=bool)
    try:
        good[new] = reaching.judge(_predict_first(posterior, tidy.x[new])).reached
    except BudgetSpentError:
        return points
    if good.all():
        return tidy
    both = (np.concatenate([own[good], before]) for own, before in zip(tidy, points, strict=True))
    x, cost, changes = both
    order = np.lexsort((changes, cost))
    return NearestPoints(x[order], cost[order], changes[order])


def _has_constraints(space: Space) -> bool:
    return bool(space.constraints) or bool(space.computed)


def _join_known(scene: Scene, found: NearestPoints, known: _Known, most: int) -> NearestPoints:
    """Join the points found and those known, within the number of changes, the cheapest first."""
    few = (found.changes <= most) & scene.space.admissible(found.x, scene.x0)
    x = np.vstack([found.x[few], scene.draws.known.x[known.where], known.rows])
    cost = np.concatenate([found.cost[few], known.cost, known.row_costs])
    changes = np.concatenate([found.changes[few], known.changes, known.row_changes])
    order = np.lexsort((changes, cost))
    return NearestPoints(x[order], cost[order], changes[order])


def _collect_evidence(scene: Scene, reaching: Reaching) -> tuple[Array, Array]:
    """Return all points ``(n, d)`` that were evaluated so far, admissible or not, and their shortfalls ``(n,)``."""
    posterior, points = scene.posterior, Points.join([scene.row, scene.draws.known])
    x, gap = points.x, _judge_points(reaching, points).gap
    if posterior is not None and posterior.landmarks is not None and posterior.landmark_evaluated is not None:
        x = np.vstack([x, posterior.landmarks])
        gap = np.append(gap, reaching.judge(posterior.landmark_evaluated).gap)
    return x, gap


def _confirm(
    posterior: GibbsPosterior, reaching: Reaching, points: NearestPoints, modes: int = _MODES
) -> NearestPoints:
    """Return the points that ``predict`` confirms: the cheapest for each number of changes, and ``modes`` in all.

    If the model rejects a point, the next one is tried. If the budget allows no confirmation, the cheapest are kept.
    """
    verdict: dict[int, bool] = {}
    batch = _FIRST_CONFIRMED
    with suppress(BudgetSpentError):
        while open_ones := _select_unconfirmed(points, verdict, batch, modes):
            accepted = reaching.judge(_predict_first(posterior, points.x[open_ones])).reached
            verdict |= dict(zip(open_ones, accepted.tolist(), strict=True))
            batch *= 2
    if not verdict:
        verdict = dict.fromkeys(_select_unconfirmed(points, verdict, 1, modes), True)
    kept = np.array(sorted(i for i, yes in verdict.items() if yes), dtype=int)
    return NearestPoints(points.x[kept], points.cost[kept], points.changes[kept])


def _keep_leading(points: NearestPoints) -> NearestPoints:
    """Return the cheapest of the points that no point with fewer changes matches in cost."""
    order = np.lexsort((points.cost, points.changes))
    least = np.minimum.accumulate(np.append(np.inf, points.cost[order]))[:-1]
    leading = np.sort(order[points.cost[order] < least][-_KEPT_OF_FEW:])
    return NearestPoints(points.x[leading], points.cost[leading], points.changes[leading])


def _select_unconfirmed(points: NearestPoints, verdict: dict[int, bool], batch: int, modes: int) -> list[int]:
    """Return points to confirm: the next few for each number of changes without a confirmed point."""
    wanted: dict[int, None] = {}
    confirmed = [int(points.changes[i]) for i, yes in verdict.items() if yes]
    n = batch if verdict else 1
    for k in (*range(1, _PATH + 1), np.inf):
        if confirmed and min(confirmed) <= k:
            continue
        own = np.flatnonzero(points.changes <= k)[
            : n + len(verdict)
        ]  # contains n unevaluated ones if there are that many
        wanted |= dict.fromkeys([i for i in own.tolist() if i not in verdict][:n])
    if not verdict:
        wanted |= dict.fromkeys(range(min(modes, len(points.cost))))
    return list(wanted)


def _round(
    posterior: GibbsPosterior, reaching: Reaching, moves: CandidateMoves, points: NearestPoints, known: _Known
) -> NearestPoints:
    """Round real numbers to few digits where the model confirms the point and the cost hardly grows."""
    tried, digit, source = moves.rounded(points.x, _MOST_DIGITS)
    cost, changes = moves.cost(tried), moves.changed(tried).sum(axis=1)
    bound = np.array([known.cheapest_with(k) for k in points.changes.tolist()])
    ceiling = np.minimum((1.0 + _READABLE) * points.cost, np.maximum(bound, points.cost))
    fits = (cost <= ceiling[source]) & (changes <= points.changes[source])
    tried, digit, source, cost, changes = tried[fits], digit[fits], source[fits], cost[fits], changes[fits]
    if len(tried) == 0:
        return points
    try:
        reached = reaching.judge(_predict_first(posterior, tried)).reached
    except BudgetSpentError:
        return points
    x, new_cost, new_changes = points.x.copy(), points.cost.copy(), points.changes.copy()
    for i in np.unique(source[reached]).tolist():
        own = np.flatnonzero((source == i) & reached)
        best = own[first_of_least(digit[own].astype(float), cost[own])]
        x[i], new_cost[i], new_changes[i] = tried[best], cost[best], changes[best]
    order = np.lexsort((new_changes, new_cost))
    return NearestPoints(x[order], new_cost[order], new_changes[order])


def _undo_changes(
    posterior: GibbsPosterior, reaching: Reaching, moves: CandidateMoves, points: NearestPoints
) -> NearestPoints:
    """Return the points, preceded by those from which changes that the model does not need were undone."""
    x = points.x.copy()
    for _ in range(_UNDO_ROUNDS):
        rows, whose, _column = undo_singly(moves.space, moves.x0, x, moves.changed(x))
        rows, good = moves.snap(rows)
        good &= (moves.cost(rows) < moves.cost(x)[whose]) & moves.changed(rows).any(axis=1) if len(rows) else good
        rows, whose = rows[good], whose[good]
        if len(rows) == 0 or len(rows) > _MOST_UNDONE:
            break
        try:
            reached = reaching.judge(_predict_first(posterior, rows)).reached
        except BudgetSpentError:
            break
        if not reached.any():
            break
        for i in np.unique(whose[reached]).tolist():
            own = np.flatnonzero((whose == i) & reached)
            x[i] = rows[own[np.argmin(moves.cost(rows[own]))]]
    fewer = x[moves.changed(x).sum(axis=1) < points.changes]
    x = np.vstack([np.unique(fewer, axis=0), points.x])
    cost, changes = moves.cost(x), moves.changed(x).sum(axis=1)
    order = np.lexsort((changes, cost))
    return NearestPoints(x[order], cost[order], changes[order])


def _predict_first(posterior: GibbsPosterior, x: Array) -> Evaluated:
    """Evaluate points ``(n, d)`` by the first model's own ``predict``, if the budget allows it."""
    first = replace(posterior, predictors=posterior.predictors[:1])
    if replace(first.panel, use_predict=True).affords_first(x) < len(x):
        raise BudgetSpentError(f"{len(x):,} points to confirm exceed the budget")
    return first.evaluate(x, use_predict=True)


def _judge_points(reaching: Reaching, points: Points) -> Judged:
    return reaching.judge(Evaluated(points.outputs, points.loss, points.reached))


def _count_changes(scene: Scene, x: Array) -> Array:
    """Count the free features that differ from the row: ``(n,)``."""
    return np.asarray(scene.space.changed(x, scene.x0)[:, scene.free].sum(axis=1))


def reaching_rows(scene: Scene, reaching: Reaching, most: int) -> tuple[Array, Array]:
    """Return admissible training rows ``(n, d)`` that reach the target, and projections of the cheapest others."""
    posterior, none = scene.posterior, np.zeros((0, len(scene.space)))
    evaluated = None if posterior is None else posterior.landmark_evaluated
    if posterior is None or posterior.landmarks is None or evaluated is None:
        return none, none
    rows = posterior.landmarks[reaching.judge(evaluated).reached]
    placed = scene.space.project(rows, scene.x0)
    good = scene.space.admissible(placed, scene.x0) & scene.space.changed(placed, scene.x0).any(axis=1)
    rows, placed = rows[good], placed[good]
    same = ~scene.space.changed(placed, rows).any(axis=1) if len(rows) else np.zeros(0, dtype=bool)
    few = _count_changes(scene, placed) <= most
    others = placed[~same | ~few]
    return placed[same & few], others[np.argsort(scene.distance(others), kind="stable")[:_TRIALS]]
