"""Order the changes of an answer as steps, each of which keeps all rules, and judge what may still go wrong.

The best order is exact: dynamic programming over the sets of changes that are already made.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gbce._numerics import ENOUGH_ESS, PLANNING, effective_sample_size, stream
from gbce._validation import is_count, is_number
from gbce.base import Array
from gbce.budget import HALF, Budget, BudgetSpentError
from gbce.decisions import Nearest
from gbce.explanation import (
    Explanation,
    Fallback,
    Plan,
    PlanStep,
    Share,
    Status,
    changed_columns,
    describe_changes,
    join_words,
)
from gbce.metrics import offsets
from gbce.posterior import GibbsPosterior
from gbce.space import Condition, Effort, Space, read_effort, restate

if TYPE_CHECKING:
    from gbce.explainer._session import Session

# Sets of changes grow as 2**n: a person is not told more, and all of them are evaluated in one call.
_MOST_CHANGES = 10
_MOST_ROWS = 65_536  # noisy copies of all sets of changes together, in a few batches of a usual explanation
_COPIES = 2_048  # of one set: its probability has an error of about 0.01; fewer where there are many sets
_ANSWER = "answer"
_EVEN = 0.5  # below it a way is likelier to fail than to work
_OTHERWISE = "If this cannot be done"

# --- the best order --------------------------------------------------------------------------------------------------


class Steps(NamedTuple):
    """Sets of changes in their order, as bit masks, what the order costs, and how many orders are possible."""

    masks: tuple[int, ...]
    short: float
    short_loss: float
    n_orders: int


def best_order(weight: Array, before: Sequence[int], possible: Array, chance: Array, loss: Array) -> Steps | None:
    """Return the best sequence of changes with ``weight`` ``(m,)``; None if no sequence is possible.

    It minimises how many changes are made together, then the expected weight spent before the target is reached, then
    the loss before each step times its weight. Over sets of changes, bit masks as in ``before``, are ``(2**m,)``:
    whether a set keeps all rules, its probability of reaching, and its loss.
    """
    single = _search(weight, before, possible, chance, loss, together=False)
    return _search(weight, before, possible, chance, loss, together=True) if single is None else single


def _search(
    weight: Array, before: Sequence[int], possible: Array, chance: Array, loss: Array, *, together: bool
) -> Steps | None:
    """Run the recursion from the full set of changes back to none, by single changes or by sets of them."""
    m = len(weight)
    full = (1 << m) - 1
    spent = [float(sum(weight[j] for j in range(m) if mask >> j & 1)) for mask in range(full + 1)]
    # what is left to pay from each set on: changes made together, weight before the target, and loss; the first step
    left: list[tuple[float, float, float]] = [(inf, inf, inf)] * (full + 1)
    first, orders = [0] * (full + 1), [0] * (full + 1)
    left[full], orders[full] = (0.0, 0.0, 0.0), 1
    for mask in range(full - 1, -1, -1):
        if mask and not possible[mask]:
            continue
        for step in _list_steps(full & ~mask, m, together):
            following = mask | step
            late = any(step >> j & 1 and before[j] & ~mask for j in range(m))
            if late or left[following][0] == inf or not possible[following]:
                continue
            orders[mask] += orders[following]
            now = spent[step]
            price = (step.bit_count() - 1.0, now * -float(chance[mask]), now * float(loss[mask]))
            total = tuple(a + b for a, b in zip(price, left[following], strict=True))
            if total < left[mask]:
                left[mask], first[mask] = total, step  # type: ignore[assignment]
    if left[0][0] == inf:
        return None
    masks, mask = [], 0
    while mask != full:
        masks.append(first[mask])
        mask |= first[mask]
    return Steps(tuple(masks), spent[full] + left[0][1], left[0][2], orders[0])


def _list_steps(rest: int, m: int, together: bool) -> list[int]:
    """Return the steps that may follow, those with few changes first: single ones, or all sets of the ``rest``."""
    bits = [1 << j for j in range(m) if rest >> j & 1]
    if not together:
        return bits
    return [sum(some) for size in range(1, len(bits) + 1) for some in combinations(bits, size)]


# --- options ---------------------------------------------------------------------------------------------------------


def _read_order(space: Space, order: Any) -> dict[str, set[str]]:
    """Return, for each column, those that must be changed before it; raise if an order contradicts itself."""
    if order is None:
        return {}
    if isinstance(order, (str, Mapping)) or not isinstance(order, Iterable):
        raise TypeError(f"order must be a list of sequences of columns, such as [('degree', 'job')], not {order!r}")
    earlier: dict[str, set[str]] = {}
    for chain in order:
        if isinstance(chain, (str, Mapping)) or not isinstance(chain, Iterable):
            raise TypeError(f"order: {chain!r} must be a sequence of columns, the first to change first")
        names = [str(name) for name in chain]
        unknown = [name for name in names if name not in space.position]
        if unknown:
            raise ValueError(
                f"order names {unknown[0]!r}, which the table does not have; columns are {list(space.names)}"
            )
        for i, name in enumerate(names):
            earlier.setdefault(name, set()).update(names[:i])
    for name in earlier:
        seen, new = set(), set(earlier[name])
        while new:
            seen |= new
            new = {one for other in new for one in earlier.get(other, ())} - seen
        if name in seen:
            raise ValueError(f"order contradicts itself: {name!r} would have to change before itself")
        earlier[name] = seen
    return earlier


def _read_times(space: Space, time: Any) -> dict[str, float]:
    """Return the time that a change of each column takes; columns that are not named take none."""
    if time is None:
        return {}
    if not isinstance(time, Mapping):
        raise TypeError(f"time must be a mapping of column names to numbers, such as {{'degree': 24}}, not {time!r}")
    for name, one in time.items():
        if name not in space.position:
            raise ValueError(f"time names {name!r}, which the table does not have; columns are {list(space.names)}")
        if not is_number(one) or not 0 <= one < inf:
            raise ValueError(f"time: a change of {name!r} must take zero or more, not {one!r}")
    return {str(name): float(one) for name, one in time.items()}


def _read_goal(explanation: Explanation, to: Any) -> tuple[str, Array, Share | None]:
    """Return where a plan leads: its name, the point ``(d,)``, and its reliability if it is known."""
    answer = explanation.answer
    if is_count(to):
        found = explanation.alternatives(int(to))
        if len(found) < to:
            raise ValueError(f"to: there is no strategy {to}; explanation.alternatives() lists {len(found)}")
        return f"strategy {to}", found.x[to - 1], None
    if not isinstance(to, str):
        raise TypeError(f"to must be 'answer', the label of a rule, or the number of a strategy, not {to!r}")
    if to != _ANSWER:
        decided = {one.label: one.x for one in explanation.decisions}
        if to not in decided:
            raise ValueError(f"to: there is no decision {to!r}; the labels are {list(decided)}, and 'answer'")
        return to, decided[to], None
    if answer is not None and answer.reached:
        return to, answer.decision.x, answer.reliability
    reaching = [one for one in explanation.decisions if one.reached[0]]
    if reaching:
        best = min(reaching, key=lambda one: one.cost)
        return best.label, best.x, None
    if answer is None and not explanation.decisions:
        raise ValueError("plan: the explanation has no answer; explain the row with rules and with a policy")
    known = answer.decision if answer is not None else min(explanation.decisions, key=lambda one: float(one.loss[0]))
    return "best seen", known.x, None


# --- figures after each step -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Planner:
    """A goal ``(d,)`` with its changed columns ``(m,)``, and what judges the ways to it under efforts."""

    session: "Session"
    explanation: Explanation
    posterior: GibbsPosterior
    goal: Array
    columns: Array
    effort: Effort

    def __post_init__(self) -> None:
        if len(self.columns) > _MOST_CHANGES:
            raise ValueError(
                f"plan: {len(self.columns)} columns change, and the best order is found for at most {_MOST_CHANGES}; "
                "plan for a point with fewer changes, such as to='Nearest' or an alternative"
            )

    @property
    def x0(self) -> Array:
        """The row ``(d,)``."""
        return self.explanation.x0

    @cached_property
    def first(self) -> GibbsPosterior:
        """The posterior with the first model only."""
        return replace(self.posterior, predictors=self.posterior.predictors[:1])

    def rows(self) -> tuple[Array, Array]:
        """Return the row with each set of changes ``(2**m, d)``, and whether it keeps all rules ``(2**m,)``."""
        space, m = self.explanation.space, len(self.columns)
        bits = (np.arange(1 << m)[:, None] >> np.arange(m)) & 1 == 1
        x = np.tile(self.x0, (1 << m, 1))
        x[:, self.columns] = np.where(bits, self.goal[self.columns], self.x0[self.columns])
        x = space.completed(x, self.x0)
        good = space.admissible(x, self.x0)
        x[-1], good[-1] = self.goal, True  # as the model was asked about it
        return x, good

    def copies(self, k: int) -> Array:
        """Draw offsets ``(n, d)`` for ``k`` rows, and the goal after each step: fewer where the budget is short."""
        query, tried = self.explanation.query, k + len(self.columns) + 1
        n = int(np.clip(_MOST_ROWS // max(k, 1), 64, _COPIES))
        part = replace(self.first, budget=self.first.budget.share(HALF))  # the rest is for fallbacks
        n = max(min(part.affords(n * tried) // tried, n), 1)
        return offsets(query.evaluation.noise, query.space, stream(query.seed, PLANNING, query.key), n)

    def try_out(self, rows: Array, shifts: Array) -> Array:
        """Return whether rows ``(k, d)`` reach under offsets ``(k, n, d)``: ``(k, n)``."""
        space, (k, n, d) = self.explanation.space, shifts.shape
        intended = np.repeat(rows, n, axis=0)
        moved = space.move_each(intended, intended + shifts.reshape(-1, d), self.x0)
        return self.first.evaluate_first(moved).reached[:, 0].reshape(k, n)


def make_plan(
    session: "Session",
    explanation: Explanation,
    *,
    to: Any,
    effort: Any,
    time: Any,
    order: Any,
    fallbacks: Any,
    budget: Budget,
) -> Plan:
    """Order the changes of an explanation's answer, see :meth:`gbce.Explainer.plan`."""
    posterior = session.own_posterior(explanation, budget)
    space, query = explanation.space, explanation.query
    factors = query.effort if effort is None else read_effort(space, effort, query.effort)
    times, earlier = _read_times(space, time), _read_order(space, order)
    name, goal, known = _read_goal(explanation, to)
    columns = changed_columns(space, explanation.x0, goal)
    row_output = float(query.row.outputs[0, 0])
    if len(columns) == 0:
        note = (
            "The row reaches the target as it is: there is nothing to change."
            if explanation.status == Status.ALREADY_REACHED or query.row.reached[0, 0]
            else "Nothing was found that is better than the row as it is."
        )
        certain = float(query.row.reached[0, 0])
        return Plan(space, explanation.target, explanation.x0, name, row_output,
                    Share(certain, certain, certain, 0), (), 0.0, 0.0, 0, note)  # fmt: skip
    planner = _Planner(session, explanation, posterior, goal, columns, factors)
    rows, good = planner.rows()
    where = np.flatnonzero(good)
    exact = planner.first.evaluate_first(rows[where])
    shifts = planner.copies(len(where))
    held = np.zeros(len(rows))
    held[where] = planner.try_out(rows[where], np.broadcast_to(shifts, (len(where), *shifts.shape))).mean(axis=1)
    loss = np.full(len(rows), inf)
    loss[where] = np.nan_to_num(exact.loss[:, 0], nan=inf, posinf=inf)
    step_cost = space.change(goal[None, :], explanation.x0)[0, columns] / space.scale[columns]
    step_cost *= np.array([dict(factors).get(space.names[j], 1.0) for j in columns])
    step_time = np.array([times.get(space.names[j], 0.0) for j in columns])
    bit = {space.names[j]: 1 << i for i, j in enumerate(columns)}
    before = [sum(bit[one] for one in earlier.get(space.names[j], ()) if one in bit) for j in columns]
    timed = bool((step_time > 0).any())
    found = best_order(step_time if timed else step_cost, before, good, held, loss)
    if found is None:
        raise ValueError(
            "plan: no sequence of these changes keeps both the rules between columns and the given order; drop a part "
            "of order="
        )
    done = np.cumsum(found.masks)  # masks are disjoint
    at = {int(mask): i for i, mask in enumerate(where)}
    prospects = _find_prospects(planner, done, shifts, known)
    n, steps = len(shifts), []
    for i, mask in enumerate(found.masks):
        own = [j for k, j in enumerate(columns) if mask >> k & 1]
        start = rows[done[i - 1]] if i else explanation.x0
        here = done[i]
        last = here == len(rows) - 1
        chance, error = _share_given(explanation, goal, [j for k, j in enumerate(columns) if here >> k & 1])
        steps.append(
            PlanStep(
                columns=tuple(space.names[j] for j in own),
                x=rows[here],
                changes=describe_changes(space, start, rows[here]),
                cost=float(sum(step_cost[k] for k in range(len(columns)) if mask >> k & 1)),
                time=float(sum(step_time[k] for k in range(len(columns)) if mask >> k & 1)) if timed else float("nan"),
                output=float(exact.outputs[at[int(here)], 0]),
                reached=bool(exact.reached[at[int(here)], 0]),
                holds=known if last and known is not None else Share.of(held[here], n),
                prospect=prospects[i + 1],
                posterior=chance,
                posterior_se=error,
            )
        )
    if fallbacks:
        listed = _find_fallbacks(planner, steps, budget)
        steps = [replace(one, fallback=other) for one, other in zip(steps, listed, strict=True)]
    joint = [one.columns for one in steps if len(one.columns) > 1]
    notes = [f"{join_words(list(names))} have to change together to keep the rules between columns." for names in joint]
    if not steps[-1].reached:
        notes.insert(
            0, f"No point was found that reaches the target ({explanation.target.describe()}); this is the best seen."
        )
    return Plan(
        space, explanation.target, explanation.x0, name, row_output, prospects[0], tuple(steps), found.short,
        found.short_loss, found.n_orders, " ".join(notes),
    )  # fmt: skip


def _find_prospects(planner: _Planner, done: Array, shifts: Array, known: Share | None) -> list[Share]:
    """Return the probability that the goal is reached after each number of steps, those made without noise."""
    part = np.tile(shifts, (len(done) + 1, 1, 1))
    for i, mask in enumerate(done, start=1):
        part[i][:, [j for k, j in enumerate(planner.columns) if mask >> k & 1]] = 0.0
    share = planner.try_out(np.tile(planner.goal, (len(part), 1)), part).mean(axis=1)
    found = [Share.of(one, len(shifts)) for one in share]
    return found if known is None else [known, *found[1:]]


def _share_given(explanation: Explanation, goal: Array, which: list[int]) -> tuple[float, float]:
    """Return the posterior probability of the target given that columns changed at least as far, and its error."""
    nothing, draws = (float("nan"), float("nan")), replace(explanation.draws, resampled=False)
    if not draws.info.draws_posterior or draws.record is not None:
        return nothing
    space, x0, x = explanation.space, explanation.x0, draws.pool.x
    agree = np.ones(len(x), dtype=bool)
    for j in which:
        if space.unordered[j] or np.isnan(goal[j]) or np.isnan(x0[j]):
            agree &= (x[:, j] == goal[j]) | (np.isnan(x[:, j]) & np.isnan(goal[j]))
        else:
            agree &= x[:, j] >= goal[j] if goal[j] > x0[j] else x[:, j] <= goal[j]
    weights = draws.pool_weights * agree
    mass = float(weights.sum())
    if mass == 0.0 or effective_sample_size(weights / mass) < ENOUGH_ESS:
        return nothing
    reached = draws.pool.reached[:, 0].astype(float)
    share = float(weights @ reached) / mass
    return share, float(draws.standard_error(np.where(agree, reached - share, 0.0) / mass))


# --- what to do if a step cannot be made -----------------------------------------------------------------------------


def _find_fallbacks(planner: _Planner, steps: Sequence[PlanStep], budget: Budget) -> list[Fallback]:
    """Explain the row again after the steps before each one, with their columns and those of the step as they are."""
    made: list[str] = []
    found, x = [], planner.x0
    refits = planner.session.prepare_refits(planner.posterior.target, budget)
    for i, step in enumerate(steps):
        part = budget.share(1 / (len(steps) - i))
        held = [*made, *step.columns]
        try:
            found.append(_explain_without(planner, x, held, part, refits))
        except BudgetSpentError:
            found.append(_no_fallback("the budget did not allow looking for another way."))
        made += step.columns
        x = step.x
    return found


def _no_fallback(why: str) -> Fallback:
    """Return that there is nothing to do instead of a step, and why."""
    nan = float("nan")
    return Fallback(None, "", nan, None, nan, nan, f"{_OTHERWISE}, {why}")


def _describe_fallback(changes: str, reliability: Share | None, promised: float | None) -> str:
    """Return what to do instead, and plainly so if it is likelier to fail, or falls short of what was promised."""
    if reliability is None:
        return f"{_OTHERWISE}: {changes}."
    if reliability.share < _EVEN:
        return (
            f"{_OTHERWISE}, no other way was found that is likely to work: the best, {changes}, works only "
            f"{reliability.in_hundred} times in 100."
        )
    short = f", less than the {promised:g} wanted" if promised is not None and reliability.share < promised else ""
    return f"{_OTHERWISE}: {changes}, which works with probability {reliability.digits}{short}."


def _explain_without(planner: _Planner, x: Array, held: list[str], budget: Budget, refits: Any) -> Fallback:
    """Return the answer from the row ``x`` ``(d,)`` with columns held: the posterior given what was done."""
    before, session, posterior, effort = planner.explanation.query, planner.session, planner.posterior, planner.effort
    keep = [Condition(name, None, None, name, kept=True) for name in held]
    space = restate(before.space, keep, x, spikes=before.sparse)
    nan = float("nan")
    if len(space.free(x)) == 0:
        return _no_fallback("nothing else may change.")
    again = session.drawing(planner.explanation.draws.info.draws_posterior).under(space, before.mixture, effort)
    again.ask_about_data(posterior.predictors, budget)
    found = again.explain_encoded(x, posterior.predictors, posterior.target, (Nearest(),), before.seed, budget, refits)
    chance, error = nan, nan
    if found.draws.info.draws_posterior:
        figures = found.distribution
        chance, error = float(figures["success_probability"]), float(figures["success_probability_se"])
    answer = found.answer
    goal = (
        answer.decision if answer is not None else min(found.decisions, key=lambda one: (not one.reached[0], one.cost))
    )
    if not goal.reached[0]:
        return Fallback(None, "", nan, None, chance, error, f"{_OTHERWISE}, no other way was found from there.")
    changes = describe_changes(space, x, goal.x)
    factors = np.array([dict(effort).get(name, 1.0) for name in space.names])
    cost = float((space.change(goal.x[None, :], x)[0] / space.scale * factors)[~space.is_computed].sum())
    reliability = None if answer is None else answer.reliability
    words = f"{_OTHERWISE}, the target is reached without it."
    if changes:
        words = _describe_fallback(changes, reliability, None if answer is None else answer.promised)
    return Fallback(goal.x, changes, cost, reliability, chance, error, words)
