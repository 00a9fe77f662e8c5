"""Actions: changes of few columns, the same for everybody; those that answers suggest, and the choice of k of them.

A number changes by an amount, or up or down to a value, which leaves those who are beyond it where they are; a category
is set to a level.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, hstack, vstack

from gbce.base import Array
from gbce.explanation import join_words
from gbce.space import Space

How = Literal["by", "at least", "at most", "to"]

# Amounts that people name: two digits of a step, a tenth apart or more.
_ROUND = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 20, 25, 30, 35, 40, 50, 60, 70, 80)
_FINEST = 0.05  # of a column's scale: the step of amounts in a column that has none of its own; by hand
_QUANTILES = (0.5, 0.8, 0.95, 1.0)  # of the changes of answers that change the same columns, by hand
_MULTIPLES = (1.5, 2.0)  # of the largest of them: answers are near, and the rows that they missed are farther
_DECILES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of a number over rows that reach the target, by hand
_FREQUENT = 0.1  # share of these rows from which a level is tried, by hand
_AMOUNT_DIGITS = 15  # significant digits of an amount: all that every double keeps
_FIRST_UNIONS = 10  # most frequent ways whose pairs are united: 45 unions


class Move(NamedTuple):
    """The change of one column: the position of the feature, how it changes, and the amount or the encoded value."""

    column: int
    how: How
    value: float


@dataclass(frozen=True)
class Action:
    """Changes of few columns, the same for everybody who takes them.

    Parameters
    ----------
    moves : tuple of Move
        One for each column that changes, in column order.
    """

    moves: tuple[Move, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns that change."""
        return tuple(move.column for move in self.moves)

    def describe(self, space: Space) -> str:
        """Return the action in words, such as ``"raise hours by 5 and lower debt to at most 300"``."""
        return join_words([_describe_move(space, move) for move in self.moves])

    def to_dict(self, space: Space) -> dict[str, Any]:
        """Return the action as plain data by column: how it changes, and the amount or the value."""
        plain = {}
        for move in self.moves:
            feature = space.features[move.column]
            value = (feature.levels or ())[round(move.value)] if feature.leveled and move.how != "by" else move.value
            plain[feature.name] = {"how": move.how, "value": value}
        return plain


def _describe_move(space: Space, move: Move) -> str:
    j, value = move.column, move.value
    name, feature = space.label(j), space.features[j]
    if move.how == "to":
        return f"set {name} to {space.format(j, value, quoted=True)}"
    if move.how != "by":
        verb = "raise" if move.how == "at least" else "lower"
        return f"{verb} {name} to {move.how} {space.format(j, value, exact=True, quoted=True)}"
    if feature.leveled:
        return f"{'raise' if value > 0 else 'lower'} {name} by {abs(value):g} level{'s' * (abs(value) != 1)}"
    return f"{'raise' if value > 0 else 'lower'} {name} by {space.format(j, abs(value), exact=True)}"


def apply_action(action: Action, x0: Array) -> Array:
    """Return the rows ``(n, d)`` after an action, before computed columns; a missing number stays missing."""
    x = x0.copy()
    for column, how, value in action.moves:
        now = x0[:, column]
        if how == "by":
            x[:, column] = now + value
        elif how == "at least":
            x[:, column] = np.maximum(now, value)
        elif how == "at most":
            x[:, column] = np.minimum(now, value)
        else:
            x[:, column] = value
    return x


# --- actions that answers suggest ------------------------------------------------------------------------------------


def propose_actions(space: Space, x0: Array, x: Array, allowed: Array, max_columns: int, most: int) -> list[Action]:
    """List actions that would bring rows ``(n, d)`` to their answers ``(n, d)``, the most frequent ways first.

    Answers that change the same columns in the same directions, or to the same levels, are one way. Of each way come
    the quantiles of its changes, by amounts and to values, and multiples of the largest; then the unions of the most
    frequent ways, and every single answer as long as ``most`` are not exceeded.
    """
    ways: dict[tuple[tuple[int, float], ...], list[int]] = {}
    for i, way in enumerate(_list_ways(space, x0, x, allowed, max_columns)):
        if way:
            ways.setdefault(way, []).append(i)
    order = sorted(ways, key=lambda way: (-len(ways[way]), way))
    found: dict[Action, None] = {}
    largest: list[Action] = []
    for way in order:
        own = np.array(ways[way])
        for absolute in (False, True):
            options = [_move_at(space, way, x0[own], x[own], share, absolute) for share in _QUANTILES]
            found |= dict.fromkeys(options)
            if not absolute:
                largest.append(options[-1])
                found |= dict.fromkeys(_stretch(space, options[-1], times) for times in _MULTIPLES)
    united = [_unite(a, b) for i, a in enumerate(largest[:_FIRST_UNIONS]) for b in largest[:i]]
    singles = (
        _move_at(space, way, x0[[i]], x[[i]], 1.0, absolute)
        for way in order for i in ways[way] for absolute in (False, True)
    )  # fmt: skip
    # half of the places for unions and single answers, so that many ways do not leave them out
    listed = list(found)
    few = [action for action in united if len(action.moves) <= max_columns]
    ordered = dict.fromkeys([*listed[: most // 2], *few, *listed[most // 2 :], *singles])
    return [action for action in ordered if action.moves][:most]


def propose_moves(space: Space, reaching: Array, allowed: Array) -> list[Move]:
    """List changes towards what rows ``(n, d)`` that reach the target have: quantiles of numbers, frequent levels."""
    found: dict[Move, None] = {}
    for j in np.flatnonzero(allowed):
        known = reaching[np.isfinite(reaching[:, j]), j]
        if not len(known):
            continue
        if space.features[j].unordered:
            share = np.bincount(known.astype(int)) / len(known)
            found |= dict.fromkeys(Move(int(j), "to", float(level)) for level in np.flatnonzero(share >= _FREQUENT))
            continue
        for value in np.quantile(known, _DECILES, method="nearest").tolist():
            found[Move(int(j), "at least", _round_value(space, int(j), value, 1.0))] = None
            found[Move(int(j), "at most", _round_value(space, int(j), value, -1.0))] = None
    return list(found)


def pair_moves(moves: Sequence[Move], max_columns: int) -> list[Action]:
    """List the pairs of changes of different columns."""
    if max_columns < 2:
        return []
    pairs = ((a, b) for i, b in enumerate(moves) for a in moves[:i] if a.column != b.column)
    return list(dict.fromkeys(Action(tuple(sorted(pair))) for pair in pairs))


def _list_ways(
    space: Space, x0: Array, x: Array, allowed: Array, max_columns: int
) -> Iterable[tuple[tuple[int, float], ...]]:
    """Yield for each answer its largest changes: each column with the direction, or with the new level."""
    changed = space.changed(x, x0) & allowed & np.isfinite(x) & (np.isfinite(x0) | space.unordered)
    size = np.where(changed, np.nan_to_num(space.change(x, x0)) / space.scale, 0.0)
    for i in range(len(x)):
        columns = np.argsort(-size[i], kind="stable")[: min(int(changed[i].sum()), max_columns)]
        yield tuple(
            (int(j), float(x[i, j]) if space.features[j].unordered else float(np.sign(x[i, j] - x0[i, j])))
            for j in np.sort(columns)
        )


def _move_at(
    space: Space, way: tuple[tuple[int, float], ...], x0: Array, x: Array, share: float, absolute: bool
) -> Action:
    """Return the action whose every change is a quantile of those of answers ``(n, d)`` that go the same way."""
    moves = []
    for j, sign in way:
        feature = space.features[j]
        if feature.unordered:
            moves.append(Move(j, "to", sign))
        elif absolute or feature.kind == "datetime":
            ends = x[:, j] if sign > 0 else -x[:, j]
            value = sign * float(np.quantile(ends, share, method="higher"))
            moves.append(Move(j, "at least" if sign > 0 else "at most", _round_value(space, j, value, sign)))
        else:
            size = float(np.quantile(np.abs(x[:, j] - x0[:, j]), share, method="higher"))
            moves.append(Move(j, "by", sign * round_amount(space, j, size)))
    return Action(tuple(moves))


def list_amounts(space: Space, j: int, upto: float) -> Array:
    """Return the amounts that people name for a column, ``(m,)`` ascending, up to one above ``upto``."""
    step = space.steps[j] or (1.0 if space.features[j].discrete else _FINEST * space.scale[j])
    amounts: list[float] = []
    power = 1.0
    while not amounts or amounts[-1] < upto:
        amounts += [one for one in (_round_off(step * power * some) for some in _ROUND) if one > (amounts or [0.0])[-1]]
        power *= 10.0
    return np.array(amounts)


def round_amount(space: Space, j: int, size: float) -> float:
    """Return the least amount that people name which is not smaller, up to rounding."""
    amounts = list_amounts(space, j, size)
    return float(amounts[np.searchsorted(amounts, size * (1.0 - 1e-9))])


def _round_off(value: float) -> float:
    """Return a multiple of a step without the last bits of its product: 0.6, not 0.6000000000000001."""
    return float(f"{value:.{_AMOUNT_DIGITS}g}")


def _round_value(space: Space, j: int, value: float, sign: float) -> float:
    """Round a value outwards to a step of its column, within its bounds."""
    feature, step = space.features[j], space.steps[j]
    if step > 0:
        value = _round_off(sign * np.ceil(sign * value / step - 1e-9) * step)
    low = -np.inf if feature.low is None else feature.low
    return float(np.clip(value, low, np.inf if feature.high is None else feature.high))


def _stretch(space: Space, action: Action, times: float) -> Action:
    """Return an action with its amounts multiplied."""
    return Action(
        tuple(
            Move(j, how, float(np.sign(value)) * round_amount(space, j, times * abs(value))) if how == "by"
            else Move(j, how, value)
            for j, how, value in action.moves
        )
    )  # fmt: skip


def _unite(a: Action, b: Action) -> Action:
    """Return the changes of both actions, in a column of both the larger one, or the first one's level."""
    moves = {move.column: move for move in b.moves}
    for move in a.moves:
        other = moves.get(move.column)
        if other is None or other.how != move.how or move.how == "to" or abs(move.value) > abs(other.value):
            moves[move.column] = move
    return Action(tuple(moves[j] for j in sorted(moves)))


def vary_action(space: Space, action: Action, others: Sequence[Move], max_columns: int) -> list[Action]:
    """List the actions around one: without a change, with another amount, in another form, or with one change more."""
    found: Counter[Action] = Counter()
    for position, move in enumerate(action.moves):
        rest = action.moves[:position] + action.moves[position + 1 :]
        if rest:
            found[Action(rest)] += 1
        for value in _neighbours(space, move):
            changed = move._replace(value=value)
            found[Action((*action.moves[:position], changed, *action.moves[position + 1 :]))] += 1
        for other in others:
            if other.column == move.column and other != move:
                found[Action((*action.moves[:position], other, *action.moves[position + 1 :]))] += 1
    if len(action.moves) < max_columns:
        for other in others:
            if other.column not in action.columns:
                found[Action(tuple(sorted((*action.moves, other))))] += 1
    return [one for one in found if one != action]


def exchange_moves(action: Action, others: Sequence[Move]) -> list[Action]:
    """List the actions with one change exchanged for that of another column."""
    found: dict[Action, None] = {}
    for position in range(len(action.moves)):
        rest = action.moves[:position] + action.moves[position + 1 :]
        for other in others:
            if other.column not in action.columns:
                found[Action(tuple(sorted((*rest, other))))] = None
    return list(found)


def _neighbours(space: Space, move: Move) -> list[float]:
    """Return other amounts or values for a change: the next ones and some farther away."""
    j, how, value = move
    if how == "to":
        return []
    if how == "by":
        amounts = list_amounts(space, j, 2.0 * abs(value))
        at = int(np.searchsorted(amounts, abs(value) * (1.0 - 1e-9)))
        picks = [at + step for step in (-8, -4, -2, -1, 1, 2, 4) if 0 <= at + step < len(amounts)]
        return [float(np.sign(value)) * float(amounts[pick]) for pick in picks]
    if space.features[j].leveled:
        levels = len(space.features[j].levels or ())
        return [value + step for step in (-1.0, 1.0) if 0 <= value + step < levels]
    sizes = list_amounts(space, j, float(space.scale[j]))
    sizes = sizes[sizes <= space.scale[j]][-8:]
    sign = 1.0 if how == "at least" else -1.0
    return [_round_value(space, j, value + step, sign) for size in sizes for step in (size, -size)]


# --- k of many candidates ----------------------------------------------------------------------------------------


MOST_PAIRS = 200_000  # of rows and actions in one program; by hand: HiGHS then takes seconds, not minutes
_ROUNDING = 1e-9  # relative differences of totals that are rounding


def values_of(cost: Array, worth: Array | float) -> Array:
    """Return what each action is worth to each row ``(n, m)``, from costs that are infinite where it does not serve."""
    values = worth - cost  # one array, and no other of its size: there may be thousands of rows and of actions
    return np.asarray(np.maximum(values, 0.0, out=values))


def gains_of(values: Array, best: Array, weights: Array) -> Array:
    """Return how much each action ``(m,)`` adds to what rows have from the best so far ``(n,)``."""
    gains = values - best[:, None]
    return weights @ np.maximum(gains, 0.0, out=gains)


def pick_next(values: Array, best: Array, weights: Array, groups: Array | None = None) -> int:
    """Return the action that adds most; with groups ``(n,)``, from zero, to the group that is served least so far."""
    total = gains_of(values, best, weights)
    if groups is None:
        return int(np.argmax(total))
    share = np.bincount(groups, weights * (best > 0)) / np.maximum(np.bincount(groups, weights), 1e-300)
    for group in np.argsort(share, kind="stable"):
        own = gains_of(values, best, weights * (groups == group))
        if own.max(initial=0.0) > 0:
            return int(np.lexsort((-total, -own))[0])
    return int(np.argmax(total))


def upper_bound(values: Array, best: Array, weights: Array, k: int) -> float:
    """Return a bound on the total of any ``k`` actions: the total so far and the ``k`` largest gains left."""
    left = np.sort(gains_of(values, best, weights))[::-1][:k]
    return float(weights @ best + left.sum())


class Cover(NamedTuple):
    """The best set: its positions, its total, and whether the solver proved it."""

    chosen: Array
    total: float
    proved: bool


def choose_best(values: Array, k: int, weights: Array, groups: Array | None = None, *, seconds: float = 60.0) -> Cover:
    """Return the ``k`` actions of most worth; with groups ``(n,)``, of those that serve the least served one most."""
    n, m = values.shape
    rows, columns = np.nonzero(values > 0)
    if len(rows) > MOST_PAIRS:
        raise ValueError(
            f"{len(rows):,} pairs of a row and an action that serves it are too many for an exact choice; "
            f"{MOST_PAIRS:,} is the limit. Leave out exact=True, or give fewer rows or max_candidates."
        )
    p = len(rows)
    pairs = np.arange(p)
    # y_a for actions, z for pairs, and t, the least share of a group, if there are groups
    one_each = coo_array((np.ones(p), (rows, m + pairs)), shape=(n, m + p))
    signs = np.r_[np.ones(p), -np.ones(p)]
    opened = coo_array((signs, (np.r_[pairs, pairs], np.r_[m + pairs, columns])), shape=(p, m + p))
    at_most_k = coo_array((np.ones(m), (np.zeros(m, dtype=int), np.arange(m))), shape=(1, m + p))
    blocks = [
        LinearConstraint(csr_array(vstack([one_each, opened, at_most_k])), -np.inf, np.r_[np.ones(n), np.zeros(p), k])
    ]
    objective = np.r_[np.zeros(m), -weights[rows] * values[rows, columns]]
    upper = np.ones(m + p)
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
        share = 1.0 / np.bincount(groups)
        served = coo_array((-share[groups[rows]], (groups[rows], m + pairs)), shape=(len(share), m + p))
        least = csr_array(np.ones((len(share), 1)))
        blocks = [
            LinearConstraint(hstack([blocks[0].A, csr_array((n + p + 1, 1))]), -np.inf, blocks[0].ub),
            LinearConstraint(hstack([served, least]), -np.inf, 0.0),
        ]
        fair = _solve(np.r_[np.zeros(m + p), -1.0], blocks, np.r_[upper, 1.0], m, seconds)
        objective, upper = np.r_[objective, 0.0], np.r_[upper, 1.0]
        floor = np.zeros(m + p + 1)  # the share of the set itself: the solver's own may be more by its tolerance
        reached = np.bincount(groups, (values[:, fair.x[:m] > 0.5] > 0).any(axis=1))
        floor[-1] = max(float((share * reached).min()) - _ROUNDING, 0.0)
        found = _solve(objective, blocks, upper, m, seconds, floor)
    else:
        found = _solve(objective, blocks, upper, m, seconds)
    chosen = np.flatnonzero(found.x[:m] > 0.5)
    total = float(weights @ values[:, chosen].max(axis=1, initial=0.0))
    return Cover(chosen, total, bool(found.status == 0))


def _solve(
    objective: Array, blocks: list[LinearConstraint], upper: Array, m: int, seconds: float, lower: Array | None = None
) -> Any:
    """Minimise a linear objective over ``m`` binary variables and others between zero and one."""
    integral = np.zeros(len(objective))
    integral[:m] = 1
    low = np.zeros(len(objective)) if lower is None else lower
    found = milp(
        objective, constraints=blocks, bounds=Bounds(low, upper), integrality=integral,
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )  # fmt: skip
    if found.x is None:
        raise RuntimeError(f"no exact choice within {seconds:g} s: leave out exact=True, or give fewer rows")
    return found
