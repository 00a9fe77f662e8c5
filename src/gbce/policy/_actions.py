"""Group actions: few changes, the same for everybody who takes them, that bring most rows to the target.

Rows of the explainer's data help to choose: those that miss the target are served as well as possible, too, and what
those that reach it have is tried for everybody. They measure nothing.

What is promised is measured on rows that did not choose the actions: some of the rows, at random, choose, all others
measure these very actions, so that their intervals are those of a plain sample. Folds would let all rows choose, but
they measure other actions than those that are handed over: in simulated tables of 300 rows, intervals from five folds
held the truth in 78% of the runs instead of 95%.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from gbce._numerics import seed_number
from gbce._validation import is_count, is_number, show
from gbce.base import Array, Target
from gbce.budget import BudgetSpentError, budget_of
from gbce.explanation import Mean, Share
from gbce.policy._action import (
    Action,
    Move,
    choose_best,
    exchange_moves,
    gains_of,
    pair_moves,
    pick_next,
    propose_actions,
    propose_moves,
    upper_bound,
    values_of,
    vary_action,
)
from gbce.policy._group_actions import GroupActions
from gbce.policy._read import AnsweredRows, read_groups, read_whole
from gbce.policy._serving import Prices, Serving, open_serving, split_data
from gbce.space import Space

if TYPE_CHECKING:
    from gbce.explainer import Explainer

Sharing = Literal["own", "equal"]


class _Tuning(NamedTuple):
    """Chosen by hand; benchmarks/policy.py has what they lead to."""

    most_chosen_on: int = 2_000  # rows that choose: more change little, and each takes a model row per candidate
    rounds: int = 6  # of changes around a chosen action
    most_data: int = 500  # rows of the data that choose, with as much weight as the table's at most
    paired: int = 10  # single changes whose pairs are tried
    others: int = 40  # changes from other candidates that are tried in addition
    spared: float = 0.01  # share of the rows that are not served if the others are served for less
    worths: tuple[float, ...] = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)  # of a row, in mean least costs


_TUNING = _Tuning()


# --- the call --------------------------------------------------------------------------------------------------------


def actions(
    table: Any,
    k: int = 3,
    *,
    explainer: "Explainer",
    target: Target | Any = None,
    groups: Any = None,
    share: Sharing = "own",
    prices: Any = None,
    worth: float | None = None,
    max_columns: int = 3,
    keep: Iterable[str] = (),
    min_reliability: float | None = None,
    exact: bool = False,
    max_candidates: int = 200,
    choosing: float = 0.5,
    with_data: bool = True,
    seed: int | None = None,
    max_model_rows: int | None = None,
    time_budget: float | None = None,
) -> GroupActions:
    """Find at most k changes, the same for everybody who takes them, that bring most rows to the target at least cost.

    Actions are built from the answers of the rows: their changes as amounts or values, their quantiles, multiples and
    unions, and changes around the chosen ones. The model confirms each of them for each row; bounds, directions,
    immutable columns and constraints of every row are kept, and a row for which an action is not possible as it stands
    is not served by it. Each row takes the cheapest action that serves it.

    Actions are chosen one after the other, each the one that adds most, so that a larger k adds actions and changes
    none. The total, ``worth - cost`` summed over the served rows, is at least ``1 - 1/e`` = 63% of the best possible of
    the candidates; ``guarantee`` says what is known for this table. ``exact=True`` finds the best k of the candidates,
    which are not nested.

    Parameters
    ----------
    table : ExplanationTable or DataFrame
        The answers of many rows: from ``explain_many``, or stored lines (:func:`gbce.policy.read_answers`).
    k : int
        Number of actions; with ``share="own"``, of each group.
    explainer : Explainer
        Whose first model confirms.
    target : Target or label, optional
        By default that of the table; needed for stored lines.
    groups : str, sequence, Series or mapping, optional
        Groups of rows: the name of a column, or the group of each row, in order or by row label.
    share : {"own", "equal"}
        With groups: k actions for each group, or k actions for all of them, each the best for the group that is served
        least so far.
    prices : mapping or Series of str to float, optional
        The price of one unit of a number, or of one change of a category, by column; other columns do not change. By
        default cost is the sum of changes in units of each feature's scale, as in ``table.answers``.
    worth : float, optional
        What serving a row is worth, in units of cost: no row is served at more, and actions for few more rows are not
        chosen where a cheaper one for the others saves more. By default as many rows as possible, but for one in a
        hundred if the others are served for less; a large worth serves every one.
    max_columns : int
        Largest number of columns that an action changes.
    keep : iterable of str
        Columns that no action changes, besides immutable ones.
    min_reliability : float, optional
        Answers below are not built from. By default all that keep their policy's promise, or all if none does.
    exact : bool
        Whether to find the best k of the candidates by mixed-integer programming.
    max_candidates : int
        Largest number of actions that answers suggest.
    choosing : float
        Share of the rows that choose, at random, at most 2,000; the others measure what is promised.
    with_data : bool
        Whether rows of the explainer's data that miss the target help to choose, and those that reach it suggest
        values; not with groups. Rows of the table among them are left out.
    seed : int, optional
        Of the rows that choose.
    max_model_rows, time_budget : optional
        Budget as in :meth:`gbce.Explainer.explain`. Fewer candidates are evaluated where it is short.

    Returns
    -------
    GroupActions
        The actions with coverage and cost on rows that did not choose them, and the action of each row.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:9]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> found = gbce.policy.actions(table, 2, explainer=explainer, seed=0)
    >>> found.coverage[1].share >= found.coverage[0].share > 0.5
    True
    """
    if explainer is None:
        raise TypeError("explainer must be the gbce.Explainer that explained the rows, whose model confirms, not None")
    known = read_whole(table, explainer, words=False)
    _require_options(k, share, worth, max_columns, min_reliability, max_candidates, choosing, exact, with_data)
    wanted = known.target if target is None else target
    if wanted is None:
        raise ValueError("the rows have no common target: give one for all of them with target=")
    rows, grouping = _select_rows(known, groups)
    priced = Prices.of(rows.space, prices)
    budget = budget_of(max_model_rows, time_budget)
    numbers = None if grouping is None else pd.factorize(grouping)[0]
    rng = np.random.default_rng(seed_number(seed))
    chosen_on = _split(len(rows), numbers, choosing, rng)
    own = rows.take(chosen_on)
    serving = open_serving(explainer, wanted, budget, own.x0, priced, np.inf if worth is None else worth)
    allowed = _allow(rows.space, keep) & priced.priced
    if not allowed.any():
        raise ValueError("actions may change no column: each is immutable, computed, kept, or has no price")
    weights, moves = np.ones(len(own)), list[Move]()
    if with_data and grouping is None:
        missing, reaching = split_data(serving, explainer._session.data, known.x0, rng)
        serving.x0 = np.vstack([own.x0, missing[: _TUNING.most_data]])
        n = len(serving.x0) - len(own)
        weights = np.append(weights, np.full(n, min(1.0, len(own) / max(n, 1))))
        moves = propose_moves(rows.space, reaching, allowed)
    chooser = _Chooser(
        serving, own, weights, None if numbers is None else numbers[chosen_on], k, share, worth, max_columns, allowed,
        moves, _trust(own, min_reliability), exact, max_candidates,
        _reserve(k, numbers, share, len(rows) - len(chosen_on)),
    )  # fmt: skip
    plan = chooser.choose()
    if not plan.actions and not serving.known:
        raise BudgetSpentError(
            f"the budget does not allow one candidate for the {len(rows)} rows: raise max_model_rows or time_budget"
        )
    rest = np.setdiff1d(np.arange(len(rows)), chosen_on)
    row_costs = np.full((len(rows), len(plan.actions)), np.inf)
    if plan.actions:
        row_costs[chosen_on] = serving.costs(plan.actions)[: len(chosen_on)]
        row_costs[rest] = serving.evaluate(plan.actions, rows.x0[rest])
    row_costs = _keep_to_groups(row_costs, plan.groups, numbers)
    names = None if grouping is None else list(pd.unique(grouping))
    return _report(rows, wanted, plan, row_costs, rest, numbers, names, priced, exact, serving, chosen_on)


def _reserve(k: int, numbers: Array | None, share: Sharing, n: int) -> int:
    """Return the model rows that measuring takes: every action at every row that did not choose."""
    n_groups = 1 if numbers is None or share == "equal" else int(numbers.max()) + 1
    return k * n_groups * n


def _require_options(
    k: Any, share: Any, worth: Any, max_columns: Any, min_reliability: Any, max_candidates: Any, choosing: Any,
    exact: Any, with_data: Any,
) -> None:  # fmt: skip
    for name, value in (("k", k), ("max_columns", max_columns), ("max_candidates", max_candidates)):
        if not is_count(value):
            raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
    for name, value in (("exact", exact), ("with_data", with_data)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")
    if share not in ("own", "equal"):
        raise ValueError(f"share must be 'own' (k actions for each group) or 'equal' (k for all groups), not {share!r}")
    if worth is not None and not (is_number(worth) and 0 < worth < np.inf):
        raise ValueError(f"worth must be a positive number, the most that serving a row may cost, not {worth!r}")
    if not is_number(choosing) or not 0 < choosing < 1:
        raise ValueError(f"choosing must lie between 0 and 1, the share of the rows that choose, not {choosing!r}")
    if min_reliability is not None and not (is_number(min_reliability) and 0 <= min_reliability <= 1):
        raise ValueError(f"min_reliability must lie between 0 and 1, not {min_reliability!r}")


def _select_rows(known: AnsweredRows, groups: Any) -> tuple[AnsweredRows, Array | None]:
    """Return the rows that have to be served, and their groups if there are any."""
    listed = None if groups is None else read_groups(groups, known)
    needed = np.flatnonzero(~known.already & ~known.failed)
    if len(needed) < 2:
        raise ValueError(
            f"{len(needed)} of {len(known)} rows miss the target: actions for a group need at least 2 such rows"
        )
    if not known.answered[needed].any():
        raise ValueError(
            "none of the rows has an answer that reaches the target: there is nothing to build actions from"
        )
    return known.take(needed), None if listed is None else listed[needed]


def _allow(space: Space, keep: Iterable[str]) -> Array:
    """Return which columns actions may change, ``(d,)``."""
    kept = [keep] if isinstance(keep, str) else list(keep)
    unknown = [name for name in kept if name not in space.position]
    if unknown:
        raise ValueError(
            f"keep names {show(unknown[0])}, which the table does not have; columns are {list(space.names)}"
        )
    mutable = np.array([feature.mutable for feature in space.features])
    return mutable & ~space.is_computed & ~np.isin(space.names, kept)


def _trust(rows: AnsweredRows, least: float | None) -> Array:
    """Return which answers actions are built from, ``(n,)``: the reliable ones, or all where none is."""
    if least is None:
        reliable = rows.answered & rows.reliable
        return reliable if reliable.any() else rows.answered
    enough = rows.answered & (rows.reliability[:, 0] >= least)
    if not enough.any():
        raise ValueError(f"no answer has a reliability of at least {least:g}: lower min_reliability, or leave it out")
    return enough


def _split(n: int, groups: Array | None, share: float, rng: np.random.Generator) -> Array:
    """Return the ascending positions of the rows that choose, of each group in proportion."""
    order = rng.permutation(n)
    if groups is not None:
        order = order[np.argsort(groups[order], kind="stable")]
    most = min(max(round(share * n), 1), _TUNING.most_chosen_on, n - 1)
    return np.sort(order[np.unique(np.linspace(0, n - 1, most).round().astype(int))])


# --- choosing --------------------------------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """Chosen actions in order, with their groups (-1: everybody), steps, and how good they are known to be."""

    actions: list[Action]
    groups: list[int]
    steps: list[int]
    guarantee: float


@dataclass(frozen=True, eq=False)
class _Chooser:
    """Chooses actions for the rows that choose, or for each group of them."""

    serving: Serving
    rows: AnsweredRows  # of the table; rows of the data follow them in the serving
    weights: Array
    groups: Array | None
    k: int
    share: Sharing
    worth: float | None
    max_columns: int
    allowed: Array
    moves: list[Move]
    trusted: Array
    exact: bool
    most: int
    reserve: int

    def choose(self) -> _Plan:
        """Choose for everybody, or for each group."""
        if self.groups is None or self.share == "equal":
            return self._choose_for(np.ones(len(self.weights), dtype=bool), self.groups, -1)
        plans = [self._choose_for(self.groups == g, None, int(g)) for g in np.unique(self.groups)]
        merged = [
            (step, group, action)
            for plan in plans for action, group, step in zip(plan.actions, plan.groups, plan.steps, strict=True)
        ]  # fmt: skip
        merged.sort(key=lambda one: (one[0], one[1]))
        return _Plan(
            [action for _, _, action in merged], [group for _, group, _ in merged], [step for step, _, _ in merged],
            min(plan.guarantee for plan in plans),
        )  # fmt: skip

    def _choose_for(self, inside: Array, groups: Array | None, group: int) -> _Plan:
        """Choose for the rows where ``inside (n,)`` holds."""
        own = inside[: len(self.rows)]
        source = own & self.trusted
        if not source.any():
            source = own & self.rows.answered
        space, weights = self.rows.space, self.weights * inside
        pool = propose_actions(
            space, self.rows.x0[source], self.rows.answers[source], self.allowed, self.max_columns, self.most
        )
        candidates = _Candidates(self.serving, self.serving.learn(pool, self.reserve), weights, groups)
        self._add_moves(candidates)
        if self.exact:
            values = candidates.values(self._worths(candidates)[0])[inside]
            found = choose_best(values, self.k, weights[inside], None if groups is None else groups[inside])
            chosen, known = self._order(candidates, found.chosen), float(found.proved)
        else:
            chosen, known = self._add_up(candidates)
        listed = [candidates.actions[i] for i in chosen]
        return _Plan(listed, [group] * len(listed), list(range(1, len(listed) + 1)), known)

    def _add_moves(self, candidates: "_Candidates") -> None:
        """Add single changes towards rows that reach the target, and pairs of the best of them."""
        singles = self.serving.learn([Action((move,)) for move in self.moves], self.reserve)
        if singles:
            candidates.add(singles)
            worth = self._worths(candidates)[0]
            best = np.argsort(-candidates.weights @ values_of(self.serving.costs(singles), worth), kind="stable")
            moves = [singles[i].moves[0] for i in best[: _TUNING.paired]]
            candidates.add(self.serving.learn(pair_moves(moves, self.max_columns), self.reserve))

    def _worths(self, candidates: "_Candidates") -> list[float]:
        """Return what serving a row is worth: as given; or first more than any saving of cost, then less and less."""
        if self.worth is not None:
            return [self.worth]
        least, largest = candidates.ends()
        # one more row counts more than the largest difference of cost over all rows
        worths = [1.0 + largest * len(least)]
        if candidates.groups is None and not self.exact and np.isfinite(least).any():
            worths += [times * float(least[np.isfinite(least)].mean()) for times in _TUNING.worths]
        return worths

    def _add_up(self, candidates: "_Candidates") -> tuple[list[int], float]:
        """Choose one action after the other; return their positions and how good they are known to be."""
        chosen: list[int] = []
        for _ in range(self.k):
            at = self._next(candidates, chosen)
            if at is None:
                break
            chosen.append(at)
        values = candidates.values(self._worths(candidates)[0])
        best = values[:, chosen].max(axis=1, initial=0.0)
        bound = upper_bound(values, best, candidates.weights, self.k)
        return chosen, 1.0 if bound <= 0 else min(float(candidates.weights @ best) / bound, 1.0)

    def _order(self, candidates: "_Candidates", chosen: Array) -> list[int]:
        """Return the best set with the action that adds most first."""
        values = candidates.values(self._worths(candidates)[0])
        left, order = chosen.tolist(), list[int]()
        while left:
            best = values[:, order].max(axis=1, initial=0.0)
            order.append(left.pop(pick_next(values[:, left], best, candidates.weights, candidates.groups)))
        return order

    def _next(self, candidates: "_Candidates", chosen: list[int]) -> int | None:
        """Return the next action: the one that serves most rows, or a cheaper one that serves hardly fewer."""
        found = [self._climb(candidates, chosen, worth) for worth in self._worths(candidates)]
        if found[0] is None:
            return None
        served, paid = zip(*(candidates.count([*chosen, at]) for at in found if at is not None), strict=True)
        enough = np.array(served) >= max(served) - _TUNING.spared * candidates.weights.sum()
        return [at for at in found if at is not None][int(np.argmin(np.where(enough, paid, np.inf)))]

    def _climb(self, candidates: "_Candidates", chosen: list[int], worth: float) -> int | None:
        """Return the candidate that adds most, after adding those around it as long as one is better."""
        if not candidates.actions:
            return None
        values = candidates.values(worth)
        best = values[:, chosen].max(axis=1, initial=0.0)
        at = pick_next(values, best, candidates.weights, candidates.groups)
        gains = gains_of(values, best, candidates.weights)
        if gains[at] <= 0:
            return None
        top = np.argsort(-gains, kind="stable")
        others = _list_moves([candidates.actions[i] for i in top], _TUNING.others)
        for _ in range(_TUNING.rounds):
            action = candidates.actions[at]
            around = vary_action(self.rows.space, action, others, self.max_columns)
            better = self._step(candidates, at, around, best, worth)
            if better == at:
                better = self._step(candidates, at, exchange_moves(action, others), best, worth)
            if better == at:
                break
            at = better
        return at

    def _step(self, candidates: "_Candidates", at: int, around: Sequence[Action], best: Array, worth: float) -> int:
        """Return the candidate that adds most among one and those around it, which are added."""
        around = [one for one in around if self.allowed[list(one.columns)].all()]
        listed = self.serving.learn(around, self.reserve)
        candidates.add(listed)
        tried = [at, *(candidates.position[one] for one in listed)]
        values = values_of(candidates.cost(tried), worth)
        return tried[pick_next(values, best, candidates.weights, candidates.groups)]


class _Candidates:
    """Actions whose costs at the rows are known, to which others are added."""

    def __init__(self, serving: Serving, actions: Sequence[Action], weights: Array, groups: Array | None) -> None:
        self.serving, self.actions, self.weights, self.groups = serving, list(actions), weights, groups
        self.position = {action: i for i, action in enumerate(self.actions)}

    def add(self, actions: Sequence[Action]) -> None:
        """Add actions that are not there yet."""
        for action in actions:
            if action not in self.position:
                self.position[action] = len(self.actions)
                self.actions.append(action)

    def cost(self, which: Sequence[int]) -> Array:
        """Return the costs ``(n, m)`` of actions by position."""
        return self.serving.costs([self.actions[i] for i in which])

    def ends(self) -> tuple[Array, float]:
        """Return the least cost of each row ``(n,)``, and the largest of all that serve."""
        least, largest = np.full(len(self.weights), np.inf), 0.0
        for action in self.actions:
            own = self.serving.known[action]
            np.minimum(least, own, out=least)
            largest = max(largest, float(own.max(initial=0.0, where=np.isfinite(own))))
        return least, largest

    def values(self, worth: float) -> Array:
        """Return what each action is worth to each row ``(n, m)``."""
        return values_of(self.serving.costs(self.actions), worth)

    def count(self, chosen: list[int]) -> tuple[float, float]:
        """Return the weight of the rows that chosen actions serve, and what it costs, the dearest for others."""
        least = self.cost(chosen).min(axis=1)
        served = np.isfinite(least)
        most = least[served].max(initial=0.0)
        return float(self.weights @ served), float(self.weights @ np.where(served, least, most))


def _list_moves(listed: Sequence[Action], most: int) -> list[Move]:
    """Return the first different changes of actions."""
    return list(dict.fromkeys(move for action in listed for move in action.moves))[:most]


def _keep_to_groups(costs: Array, of_actions: Sequence[int], of_rows: Array | None) -> Array:
    """Return costs ``(n, m)`` with those of actions for other groups made infinite."""
    if of_rows is None or not of_actions:
        return costs
    own = np.array(of_actions)
    return np.where((own < 0) | (own == of_rows[:, None]), costs, np.inf)


# --- what is promised ------------------------------------------------------------------------------------------------


def _least_costs(costs: Array, steps: Sequence[int], k: int) -> Array:
    """Return the least cost ``(n, k)`` of the actions up to each step."""
    found = np.full((len(costs), k), np.inf)
    for step in range(k):
        own = np.array([one <= step + 1 for one in steps], dtype=bool)
        found[:, step] = costs[:, own].min(axis=1, initial=np.inf)
    return found


def _mean_of(values: Array) -> Mean:
    """Return a mean over rows with its 95% interval by Student's t."""
    n = len(values)
    if n < 2:
        return Mean(float(values.mean()) if n else float("nan"), float("nan"), float("nan"), n)
    half = float(stdtrit(n - 1, 0.975)) * float(values.std(ddof=1)) / np.sqrt(n)
    mean = float(values.mean())
    return Mean(mean, max(mean - half, 0.0), mean + half, n)


def _report(
    rows: AnsweredRows, target: Any, plan: _Plan, row_costs: Array, rest: Array, numbers: Array | None,
    names: list[Any] | None, prices: Prices, exact: bool, serving: Serving, chosen_on: Array,
) -> GroupActions:  # fmt: skip
    """Put the figures together; steps at which nothing was added are left out."""
    n_steps = max(plan.steps, default=0)
    least = _least_costs(row_costs, plan.steps, n_steps)
    served, steps = np.isfinite(least), range(n_steps)
    by_group: dict[Any, tuple[Share, ...]] = {}
    if numbers is not None and names is not None:
        own = numbers[rest]
        by_group = {
            name: tuple(Share.of(served[rest[own == g], step].mean(), int((own == g).sum())) for step in steps)
            for g, name in enumerate(names) if (own == g).any()
        }  # fmt: skip
    return GroupActions(
        space=rows.space,
        target=target.describe() if isinstance(target, Target) else show(target),
        actions=tuple(plan.actions),
        groups=tuple(None if g < 0 or names is None else names[g] for g in plan.groups),
        steps=tuple(plan.steps),
        coverage=tuple(Share.of(served[rest, step].mean(), len(rest)) for step in steps),
        cost=tuple(_mean_of(least[rest, step][served[rest, step]]) for step in steps),
        group_coverage=by_group,
        seen=tuple(float(served[chosen_on, step].mean()) for step in steps),
        labels=rows.labels,
        row_costs=row_costs,
        group_of_rows=None if numbers is None or names is None else tuple(names[g] for g in numbers),
        prices="units of scale" if prices.by_column is None else "",
        guarantee=plan.guarantee,
        exact=exact,
        n_chosen_on=len(chosen_on),
        n_model_calls=serving.n_calls,
        n_model_rows=serving.n_rows,
    )
