"""The nearest point that reaches the target: the constrained problem of the paper's Section 2.1."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from gbce._numerics import first_of_least
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule, Target
from gbce.budget import BudgetSpentError
from gbce.decisions._structure import NO_PROOF, Reaching, prove_nearest, seek_on_cells
from gbce.draws import Points, Scene
from gbce.metrics import costs
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import CandidateMoves, Judged, NearestPoints, find_nearest, values_to_try
from gbce.space import Space

__all__ = ["Nearest", "nearest_points", "reaching_rows"]

_PATH = 6  # numbers of changes that have an answer of their own; by hand: more is nobody's plan
_MODES = 12  # cheap points with different sets of changes that are confirmed beside these
_KNOWN_STARTS, _LANDMARK_STARTS = 12, 12  # the cheapest known points, and training rows, to give changes back from
_TRIALS = 60  # training rows that reach, and are asked about again where the row cannot become them as they are
_SAME_COST = 0.005  # of the cost: so much dearer a point with fewer changes is as good; by hand
_READABLE = 0.01  # of the cost, that numbers with few digits may add
_MOST_DIGITS = 6  # of such numbers
_BACK_ROUNDS, _MOST_BACK = 4, 2_000  # of giving single changes back in the end, and rows asked about in each
_CONFIRMED = 1e-9  # of the cost: what was found on cells is as cheap as it was priced, but for rounding
_FIRST_CONFIRMED = 2  # points asked about next where the model denies one, twice as many each time


@dataclass(frozen=True)
class Nearest(Rule):
    """The cheapest point that reaches the target: least distance from the row, subject to the model's own decision.

    Parameters
    ----------
    distance : {"l1", "l2", "changes"}
        What is made small, in units of each feature's scale, any change of a category being one: the sum of changes,
        the Euclidean distance, or the number of changed features, and the sum of changes among as many.
    max_changes : int, optional
        Most features that may change; what is computed from others does not count.
    margin : float
        How far beyond the boundary, in units of the target's output: probability for :class:`gbce.Class` (with 0.1 at
        least 0.6, where its own decision counts), the model's output for :class:`gbce.AtLeast`, :class:`gbce.AtMost`,
        :class:`gbce.Range`, :class:`gbce.Value` and :class:`gbce.Change`. Refused for targets that no single output
        tells about (:class:`gbce.Multi`, :class:`gbce.Loss`).
    prove : bool
        Whether to prove, where the first model is a tree ensemble that can be read, how much cheaper any other point
        can be: the decision's ``proof`` says it, and a cheaper point that turns up on the way is taken. Its work is
        limited: that is well below a second for ten columns, and 4 and 8 CPU seconds were measured for thirty. It holds
        for the whole space: rules between columns only leave fewer points.

    Notes
    -----
    With several models the first decides, as in ``reached`` and ``status``, however they are combined; points that the
    others accept too are for ``ChanceConstrained(across="models")`` and :meth:`gbce.Explainer.frontier`.

    A tree ensemble that can be read is searched on the cells between its splits, without asking it, and asked to
    confirm what was found. Of other models, and where rules between columns close the way on cells, the search asks
    about 4,000 rows and 150 for each feature at most, and never more than 12,000, in few calls. If any point that the
    explanation looked at reaches, so does this one, at no higher cost: the sampler's points, the training rows it asked
    about, the row. What is chosen is confirmed by the model's own decision; where the model denies a point, the
    next one is taken. Real numbers are rounded to few digits where that adds no more than a hundredth to the cost.
    Of points whose costs differ by less than half a percent, the one with fewer changes is taken.

    If none reaches, it is the best seen: the point of least loss, and a note says so.

    The cheapest points with at most 1, 2, ... 6 changes stand beside it: :attr:`gbce.Explanation.sparsity_path`.
    Without a model at hand (``explanation.decide``, ``explanation.at``) all are picked among evaluated points.

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
        """Refuse a margin that the target has no room for."""
        Reaching(target, self.margin).require(self)

    @property
    def has_path(self) -> bool:
        """True: the cheapest points for each number of changes stand beside its answer."""
        return True

    @property
    def priced_by(self) -> str:
        """The distance that prices points: ties between numbers of changes go by the sum of changes."""
        return "l2" if self.distance == "l2" else "l1"

    def choose(self, scene: Scene) -> Choice:
        """Choose the cheapest point that reaches, with the cheapest for each number of changes beside it."""
        known = _Known.of(scene, self)
        if known.row_reaches:
            return Choice(scene.row.x, scene.row)
        if scene.posterior is None:
            return self._choose_known(scene, known)
        sites, seen = _find(scene, scene.posterior, self, known)
        path = self._path(sites, known.cheapest)
        if not path:
            return self._best_seen(scene, known, seen)
        if self.prove:
            return self._choose_proved(scene, scene.posterior, sites, path)
        return Choice(sites.x[path], names=self._names(sites.changes[path]))

    def _choose_proved(self, scene: Scene, posterior: GibbsPosterior, sites: NearestPoints, path: list[int]) -> Choice:
        """Choose with a proof, and a cheaper point where the proof comes upon one."""
        reaching, names = Reaching(posterior.target, self.margin), self._names(sites.changes[path])

        def accepts(x: Array) -> Array:
            return reaching.judge(_decide(posterior, x)).reached

        x, proof = prove_nearest(scene, posterior, self, sites.x[path[0]], accepts, _READABLE)
        note = "" if proof else f"{self.label}: nothing could be proved; {NO_PROOF}"
        return Choice(np.vstack([x[None, :], sites.x[path[1:]]]), note=note, names=names, proof=proof)

    def _path(self, sites: NearestPoints, bound: float) -> list[int]:
        """Return positions of the answer, first, and of the cheapest points for other numbers of changes."""
        steps: list[int] = []
        least = np.inf
        order = np.lexsort((sites.cost, sites.changes))
        for i in order.tolist():
            if sites.cost[i] < least * (1.0 - _SAME_COST) and (sites.changes[i] <= _PATH or i == sites.cost.argmin()):
                if steps and sites.changes[steps[-1]] == sites.changes[i]:
                    steps.pop()
                steps.append(i)
                least = float(sites.cost[i])
        if not steps:
            return []
        if self.distance != "changes" and least > bound:  # never dearer than what was known
            steps.append(int(sites.cost.argmin()))
        answer = steps[0] if self.distance == "changes" else steps[-1]
        return [answer, *(i for i in steps if i != answer)]

    def _names(self, changes: Array) -> tuple[str, ...]:
        return ("", *(f"with {k} change{'s' * (k > 1)}" for k in changes[1:].tolist()))

    def _choose_known(self, scene: Scene, known: "_Known") -> Choice:
        """Choose among evaluated points."""
        if len(known.where) == 0:
            return self._best_seen(scene, known, None)
        x = scene.draws.known.x[known.where]
        best: dict[int, int] = {}
        for i in np.lexsort((known.cost, known.changes)).tolist():
            best.setdefault(int(known.changes[i]), i)
        few = np.array(list(best.values()))
        path = self._path(NearestPoints(x[few], known.cost[few], known.changes[few]), known.cheapest)
        points = scene.draws.known.take(known.where[few[path]])
        return Choice(points.x, points, names=self._names(known.changes[few[path]]))

    def _best_seen(self, scene: Scene, known: "_Known", seen: "_Seen | None") -> Choice:
        """Choose the point of least loss, and say that none reaches."""
        limits = [] if self.max_changes is None else [f"at most {self.max_changes} changed features"]
        limits += [] if self.margin == 0 else [f"a margin of {self.margin:g}"]
        under = f" with {' and '.join(limits)}" if limits else ""
        note = (
            f"{self.label}: no point that was looked at reaches the target ({scene.query.target.describe()}){under}; "
            "this is the best seen, the point of least loss."
        )
        row = scene.row.take(np.isfinite(scene.row.cost))  # not one that breaks the conditions of a follow-up question
        points = Points.join([row, scene.draws.known.take(known.allowed)])
        at = first_of_least(points.loss[:, 0], costs(scene.space, points.x, scene.x0, self.priced_by))
        if seen is not None and seen.loss < points.loss[at, 0]:
            return Choice(seen.x[None, :], note=note)
        best = points.take(np.array([at]))
        return Choice(best.x, best, note)


class _Seen(NamedTuple):
    """The point of least loss that a search has asked about."""

    x: Array
    loss: float


@dataclass(frozen=True)
class _Known:
    """What an explanation knows to reach before anything more is asked.

    ``where`` ``(n,)`` are positions among the known points, with ``cost`` and ``changes`` ``(n,)``; ``allowed`` are
    those within the number of changes, whether they reach or not. ``rows`` ``(l, d)`` are training rows that reach and
    that the row can become; ``others`` ``(m, d)`` those that it cannot become, as near as it can.
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
        """Look through the points of a scene."""
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

    def starts(self, scene: Scene) -> Array:
        """Return known points ``(s, d)`` to begin with: cheap ones, and the cheapest for each number of changes."""
        order = np.argsort(self.cost, kind="stable")
        chosen = list(order[:_KNOWN_STARTS])
        for k in range(1, _PATH + 1):
            chosen += list(order[self.changes[order] == k][:2])
        mine = scene.draws.known.x[self.where[np.unique(np.array(chosen, dtype=int))]]
        return np.vstack([mine, self.rows[np.argsort(self.row_costs, kind="stable")[:_LANDMARK_STARTS]]])

    def said(self, scene: Scene, reaching: Reaching, cost: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return known points ``(n, d)`` that reach, the cheapest first, and what the first model said, ``(n, 1)``.

        Training rows are among them, whether the row can become them or not.
        """
        posterior, points = scene.posterior, scene.draws.known
        x, outputs = points.x[self.where], points.outputs[self.where, :1]
        if posterior is not None and posterior.landmarks is not None and posterior.landmark_said is not None:
            own = reaching.judge(posterior.landmark_said).reached
            x = np.vstack([x, posterior.landmarks[own]])
            outputs = np.vstack([outputs, posterior.landmark_said.outputs[own, :1]])
        order = np.argsort(cost(x), kind="stable")
        return x[order], outputs[order]


def nearest_points(scene: Scene, posterior: GibbsPosterior, rule: Nearest) -> NearestPoints:
    """Return cheap points that reach, each confirmed by the model's own decision and with another set of changes.

    Parameters
    ----------
    scene : Scene
        What was asked and drawn.
    posterior : GibbsPosterior
        With the models, and what may be spent.
    rule : Nearest
        With distance, largest number of changes and margin.

    Returns
    -------
    NearestPoints
        The cheapest first; empty where none was found.
    """
    return _find(scene, posterior, rule, _Known.of(scene, rule))[0]


def _find(scene: Scene, posterior: GibbsPosterior, rule: Nearest, known: _Known) -> tuple[NearestPoints, _Seen | None]:
    """Search, confirm and round; the best point that was seen comes with it."""
    space, x0 = scene.space, scene.x0
    reaching = Reaching(posterior.target, rule.margin)
    best: list[_Seen] = []
    most = len(space) if rule.max_changes is None else rule.max_changes

    def judge(x: Array) -> Judged:
        said = posterior.evaluate_first(x)
        few = np.flatnonzero(_count_changes(scene, x) <= most)
        if len(few):
            least = few[int(said.loss[few, 0].argmin())]
            best.append(_Seen(x[least], float(said.loss[least, 0])))
        return reaching.judge(said)

    def cost(x: Array) -> Array:
        return costs(space, x, x0, rule.priced_by)

    data = scene.draws.known.x if posterior.landmarks is None else posterior.landmarks
    around = CandidateMoves(space, x0, values_to_try(space, x0, data), cost)
    first = replace(posterior, predictors=posterior.predictors[:1])
    power, starts, trials = 2 if rule.priced_by == "l2" else 1, known.starts(scene), known.others
    begin = np.vstack([starts, trials])
    on_cells = seek_on_cells(scene, posterior, reaching, begin, power=power, most_changes=rule.max_changes, path=_PATH)
    confirmed = False
    for found in on_cells:
        sites = _confirm(posterior, reaching, _join_known(scene, found, known, most))
        confirmed = bool(sites.cost.min(initial=np.inf) <= (1.0 + _CONFIRMED) * found.cost.min(initial=np.inf) < np.inf)
        trials = np.vstack([found.x, trials])
        if confirmed:
            break
    if not confirmed or _has_rules(space):  # which may ask for moves that are made together
        found = find_nearest(
            around, judge, starts, trials=trials, known=known.said(scene, reaching, cost), power=power,
            most_changes=rule.max_changes, affords=first.affords,
        )  # fmt: skip
        sites = _confirm(posterior, reaching, _join_known(scene, found, known, most))
    sites = _give_back(posterior, reaching, around, sites)
    sites = _round(posterior, reaching, around, sites, known)
    fewer = _give_back(posterior, reaching, around, sites)  # a number that was rounded may make up for another change
    if len(fewer.x) > len(sites.x):
        sites = _round(posterior, reaching, around, fewer, known)
    return sites, min(best, key=lambda seen: seen.loss, default=None)


def _has_rules(space: Space) -> bool:
    return bool(space.constraints) or bool(space.computed)


def _join_known(scene: Scene, found: NearestPoints, known: _Known, most: int) -> NearestPoints:
    """Return what a search found and what was known, within the number of changes, the cheapest first."""
    few = (found.changes <= most) & scene.space.admissible(found.x, scene.x0)
    x = np.vstack([found.x[few], scene.draws.known.x[known.where], known.rows])
    cost = np.concatenate([found.cost[few], known.cost, known.row_costs])
    changes = np.concatenate([found.changes[few], known.changes, known.row_changes])
    order = np.lexsort((changes, cost))
    return NearestPoints(x[order], cost[order], changes[order])


def _confirm(posterior: GibbsPosterior, reaching: Reaching, sites: NearestPoints) -> NearestPoints:
    """Return sites that the model's own decision confirms: the cheapest for each number of changes, and some more.

    Where the model denies a point, the next one takes its place. What a budget leaves no row to confirm is taken as
    it was found.
    """
    verdict: dict[int, bool] = {}
    batch = _FIRST_CONFIRMED
    with suppress(BudgetSpentError):
        while open_ones := _open(sites, verdict, batch):
            told = reaching.judge(_decide(posterior, sites.x[open_ones])).reached
            verdict |= dict(zip(open_ones, told.tolist(), strict=True))
            batch *= 2
    if not verdict:
        verdict = dict.fromkeys(_open(sites, verdict, 1), True)
    kept = np.array(sorted(i for i, yes in verdict.items() if yes), dtype=int)
    return NearestPoints(sites.x[kept], sites.cost[kept], sites.changes[kept])


def _open(sites: NearestPoints, verdict: dict[int, bool], batch: int) -> list[int]:
    """Return sites to ask about: for each number of changes the next few, unless one is confirmed already."""
    wanted: dict[int, None] = {}
    confirmed = [int(sites.changes[i]) for i, yes in verdict.items() if yes]
    n = batch if verdict else 1
    for k in (*range(1, _PATH + 1), np.inf):
        if confirmed and min(confirmed) <= k:
            continue
        own = np.flatnonzero(sites.changes <= k)[: n + len(verdict)]  # among so many there are enough untried ones
        wanted |= dict.fromkeys([i for i in own.tolist() if i not in verdict][:n])
    if not verdict:
        wanted |= dict.fromkeys(range(min(_MODES, len(sites.cost))))
    return list(wanted)


def _round(
    posterior: GibbsPosterior, reaching: Reaching, around: CandidateMoves, sites: NearestPoints, known: _Known
) -> NearestPoints:
    """Return sites with real numbers of few digits, where the model confirms them and they cost hardly more."""
    tried, digit, site = around.rounded(sites.x, _MOST_DIGITS)
    cost, changes = around.cost(tried), around.changed(tried).sum(axis=1)
    bound = np.array([known.cheapest_with(k) for k in sites.changes.tolist()])
    ceiling = np.minimum((1.0 + _READABLE) * sites.cost, np.maximum(bound, sites.cost))
    fits = (cost <= ceiling[site]) & (changes <= sites.changes[site])
    tried, digit, site, cost, changes = tried[fits], digit[fits], site[fits], cost[fits], changes[fits]
    if len(tried) == 0:
        return sites
    try:
        reached = reaching.judge(_decide(posterior, tried)).reached
    except BudgetSpentError:
        return sites
    x, new_cost, new_changes = sites.x.copy(), sites.cost.copy(), sites.changes.copy()
    for i in np.unique(site[reached]).tolist():
        own = np.flatnonzero((site == i) & reached)
        best = own[first_of_least(digit[own].astype(float), cost[own])]
        x[i], new_cost[i], new_changes[i] = tried[best], cost[best], changes[best]
    order = np.lexsort((new_changes, new_cost))
    return NearestPoints(x[order], new_cost[order], new_changes[order])


def _give_back(
    posterior: GibbsPosterior, reaching: Reaching, around: CandidateMoves, sites: NearestPoints
) -> NearestPoints:
    """Return sites, and beside them those without single changes that the model itself does not need."""
    x = sites.x.copy()
    for _ in range(_BACK_ROUNDS):
        whose, feature = np.nonzero(around.changed(x))
        rows = x[whose]
        rows[np.arange(len(rows)), feature] = around.x0[feature]
        rows, good = around.snap(rows)
        good &= (around.cost(rows) < around.cost(x)[whose]) & around.changed(rows).any(axis=1) if len(rows) else good
        rows, whose = rows[good], whose[good]
        if len(rows) == 0 or len(rows) > _MOST_BACK:
            break
        try:
            reached = reaching.judge(_decide(posterior, rows)).reached
        except BudgetSpentError:
            break
        if not reached.any():
            break
        for i in np.unique(whose[reached]).tolist():
            own = np.flatnonzero((whose == i) & reached)
            x[i] = rows[own[np.argmin(around.cost(rows[own]))]]
    fewer = x[around.changed(x).sum(axis=1) < sites.changes]
    x = np.vstack([np.unique(fewer, axis=0), sites.x])
    cost, changes = around.cost(x), around.changed(x).sum(axis=1)
    order = np.lexsort((changes, cost))
    return NearestPoints(x[order], cost[order], changes[order])


def _decide(posterior: GibbsPosterior, x: Array) -> Evaluated:
    """Return what the first model itself decides about points ``(n, d)``, if the budget allows it."""
    first = replace(posterior, predictors=posterior.predictors[:1])
    if replace(first.panel, use_predict=True).affords(len(x)) < len(x):
        raise BudgetSpentError(f"{len(x):,} points to confirm are not within the budget")
    return first.evaluate(x, use_predict=True)


def _judge_points(reaching: Reaching, points: Points) -> Judged:
    return reaching.judge(Evaluated(points.outputs, points.loss, points.reached))


def _count_changes(scene: Scene, x: Array) -> Array:
    """Return how many features that can move differ from the row, ``(n,)``."""
    return np.asarray(scene.space.changed(x, scene.x0)[:, scene.free].sum(axis=1))


def reaching_rows(scene: Scene, reaching: Reaching, most: int) -> tuple[Array, Array]:
    """Return training rows ``(n, d)`` that reach and the row can become, and the cheapest others as near as it can."""
    posterior, none = scene.posterior, np.zeros((0, len(scene.space)))
    said = None if posterior is None else posterior.landmark_said
    if posterior is None or posterior.landmarks is None or said is None:
        return none, none
    rows = posterior.landmarks[reaching.judge(said).reached]
    placed = scene.space.project(rows, scene.x0)
    good = scene.space.admissible(placed, scene.x0) & scene.space.changed(placed, scene.x0).any(axis=1)
    rows, placed = rows[good], placed[good]
    same = ~scene.space.changed(placed, rows[:, :]).any(axis=1) if len(rows) else np.zeros(0, dtype=bool)
    few = _count_changes(scene, placed) <= most
    others = placed[~same | ~few]
    return placed[same & few], others[np.argsort(scene.distance(others), kind="stable")[:_TRIALS]]
