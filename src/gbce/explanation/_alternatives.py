"""Distinct strategies: modes of the posterior with their probability, each with a representative point.

Discrete moves (a column that moves at all if most stay, a level of a category, a missing value that becomes known) are
separated first, by a tree: a move splits a node if the posterior makes it clearly more often than the prior among the
draws of that node. Numbers that always move are then separated by the modes of their density.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from gbce._numerics import DECIDING, ENOUGH_ESS, TINY, effective_sample_size, first_of_least, stream
from gbce._validation import is_count, printable
from gbce.base import Array
from gbce.decisions import stack_points
from gbce.draws import Draws
from gbce.explanation._words import describe_changes
from gbce.metrics import PRINTED_Z_95, costs, find_modes, most_moved
from gbce.space import Space

if TYPE_CHECKING:
    from gbce.explanation._explanation import Explanation

__all__ = ["Alternatives", "alternatives"]

LEAST_MASS = 0.05  # smallest posterior probability of a listed strategy, one draw in twenty; by hand
LEAST_ESS = 20.0  # fewest effective draws of a listed strategy: the relative error of its mass is then about a fifth
_LIFT = 1.25  # least ratio of posterior to prior frequency of a move that separates strategies; by hand
_CERTAIN = 3.0  # standard errors by which the frequencies must differ: one move in 700 passes by chance
_CLEAR = 0.9  # least membership probability of the point that represents a strategy; by hand
_MOST_LEAVES = 64  # strategies that are distinguished, listed or not; by hand
_MOST_NUMBERS = 30  # columns whose modes are sought: those whose movement differs most from the prior's; by hand


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Distinct strategies, those that reach the target first, then by probability.

    Parameters
    ----------
    table : DataFrame
        One line per strategy: ``mass``, its posterior probability, with its Monte Carlo error ``mass_se``; ``ess``, its
        effective draws; ``success``, the share of them that reach the target; then, for its representative point,
        ``reached``, ``output``, ``cost`` (the sum of its changes in units of each column's scale) and ``sentence``;
        and that point in the user's columns. The point is the cheapest known one that reaches the target, or the most
        central if none does.
    other, other_se : float
        Probability of everything else, and its error: strategies beyond the requested number, and those with a mass
        below 0.05 or fewer than 20 effective draws.

    Examples
    --------
    See :meth:`gbce.Explanation.alternatives`.
    """

    table: pd.DataFrame
    other: float
    other_se: float

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    @property
    def sentences(self) -> list[str]:
        """One sentence per strategy."""
        return list(self.table["sentence"])

    def __str__(self) -> str:
        lines = [
            f"{number}. {_format_share(line.mass, line.mass_se)}: {line.sentence}"
            for number, line in enumerate(self.table.itertuples(), start=1)
        ]
        return "\n".join([*lines, f"other: {_format_share(self.other, self.other_se)}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = self.table.drop(columns="sentence")
        return f"<pre>{_escape_html(str(self))}</pre>{shown.to_html(escape=True)}"


def alternatives(explanation: "Explanation", k: int) -> Alternatives:
    """Return at most ``k`` distinct strategies, see :meth:`gbce.Explanation.alternatives`."""
    if not is_count(k):
        raise ValueError(f"alternatives: k must be an integer of at least 1, not {k!r}")
    draws = explanation.draws
    draws.require_pool("alternatives(k)")
    if not draws.info.draws_posterior:
        raise ValueError(
            f"alternatives are parts of a posterior, and the row was explained without one: {draws.info.advice}"
        )
    if draws.ess < ENOUGH_ESS:
        raise ValueError(
            f"there are too few effective draws for alternatives: {draws.ess:.0f}, and {ENOUGH_ESS:.0f} are needed to "
            "estimate their probabilities. Explain the row with more candidates or a larger budget."
        )
    known = _Known.of(explanation)
    share = _find_memberships(explanation, known.x)  # of the pool first
    pool = share[: len(draws.pool)]
    mass = draws.pool_weights @ pool
    error = replace(draws, resampled=False).standard_error(pool - mass)
    found = [_describe(explanation, known, share[:, c], mass[c], float(error[c])) for c in range(len(mass))]
    good = [c for c, one in enumerate(found) if one.mass >= LEAST_MASS and one.ess >= LEAST_ESS]
    shown = sorted(good, key=lambda c: (not found[c].reached, -found[c].mass))[:k]
    rest = 1.0 - pool[:, shown].sum(axis=1)
    other = float(np.clip(draws.pool_weights @ rest, 0.0, 1.0))
    other_se = float(replace(draws, resampled=False).standard_error(rest - other))
    return Alternatives(_build_table(explanation, known, [found[c] for c in shown]), other, other_se)


class _Strategy(NamedTuple):
    """Figures of a strategy, and the position of its representative point."""

    mass: float
    mass_se: float
    ess: float
    success: float
    reached: bool
    output: float
    cost: float
    point: int


@dataclass(frozen=True, eq=False)
class _Known:
    """All evaluated points: the pool, those of searches, decisions; ``x (n, d)``, the rest ``(n,)``."""

    x: Array
    reached: Array
    outputs: Array
    cost: Array

    @classmethod
    def of(cls, explanation: "Explanation") -> "_Known":
        points, decided = explanation.draws.known, explanation.decisions
        x = np.vstack([points.x, stack_points(decided, len(explanation.space))])
        reached = np.append(points.reached[:, 0], np.array([one.reached[0] for one in decided], dtype=bool))
        reached &= np.append(np.isfinite(points.log_correction), np.ones(len(decided), dtype=bool))
        outputs = np.append(points.outputs[:, 0], [one.outputs[0] for one in decided])
        return cls(x, reached, outputs, costs(explanation.space, x, explanation.x0, "l1"))


def _describe(explanation: "Explanation", known: _Known, share: Array, mass: float, mass_se: float) -> _Strategy:
    draws = explanation.draws
    weight = draws.pool_weights * share[: len(draws.pool)]
    total = max(float(weight.sum()), TINY)
    own = np.flatnonzero((share > _CLEAR) & known.reached)
    point = int(own[first_of_least(known.cost[own])]) if len(own) else _find_central(explanation, weight / total)
    return _Strategy(
        mass=float(mass),
        mass_se=mass_se,
        # of the weights within the strategy, but at most its share of the ess over all runs
        ess=min(effective_sample_size(weight / total), float(mass) * draws.ess) if mass > 0 else 0.0,
        success=float(weight @ draws.pool.reached[:, 0]) / total,
        reached=bool(known.reached[point]),
        output=float(known.outputs[point]),
        cost=float(known.cost[point]),
        point=point,
    )


def _find_central(explanation: "Explanation", weight: Array) -> int:
    """Return the position of the pool point of positive weight nearest to the mean under weights ``(N,)``."""
    places = explanation.space.embed(explanation.draws.pool.x, explanation.free)
    inside = np.flatnonzero(weight > 0)
    return int(inside[np.argmin(places.take(inside).squares_from(places.centre(weight)))]) if len(inside) else 0


def _build_table(explanation: "Explanation", known: _Known, shown: list[_Strategy]) -> pd.DataFrame:
    points = [one.point for one in shown]
    figures = {name: [getattr(one, name) for one in shown] for name in _Strategy._fields if name != "point"}
    figures["sentence"] = [_write_sentence(explanation, known, one) for one in shown]
    index = pd.RangeIndex(1, len(shown) + 1, name="strategy")
    own = explanation.space.frame(known.x[points]).set_axis(index)
    table = pd.DataFrame(figures, index=index)
    twice = {name: f"{name} (column)" for name in own.columns if name in table.columns}
    return pd.concat([table, own.rename(columns=twice)], axis=1)


def _write_sentence(explanation: "Explanation", known: _Known, one: _Strategy) -> str:
    changes = describe_changes(explanation.space, explanation.x0, known.x[one.point]) or "leave the row as it is"
    model = "the model" if len(explanation.models) == 1 else printable(explanation.models[0])
    return (
        f"{changes[0].upper()}{changes[1:]}: {model} then {printable(explanation.target.say(one.output, one.reached))}."
    )


def _format_share(mass: float, error: float) -> str:
    return f"{mass:.0%} (± {PRINTED_Z_95 * error:.0%})"


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# --- membership in strategies ----------------------------------------------------------------------------------------


def _find_memberships(explanation: "Explanation", x: Array) -> Array:
    """Return the probability ``(n, c)`` that each known point ``(n, d)``, the pool first, belongs to each strategy."""
    space, draws = explanation.space, explanation.draws
    moves = _Moves.of(explanation, x)
    leaves = _grow_tree(moves, draws)
    if explanation.query.sparse:
        return np.column_stack(leaves).astype(float)
    numbers = [int(j) for j in explanation.free if not space.features[j].unordered]
    if len(numbers) > _MOST_NUMBERS:
        moved = set(most_moved(explanation.importance.iloc[numbers], _MOST_NUMBERS))
        numbers = [j for j in numbers if space.names[j] in moved]
    rng = stream(explanation.seed, DECIDING, explanation.query.key)
    at = _jitter_numbers(space, x, explanation.x0, numbers, rng)
    where, weight = draws.distinct
    found: list[Array] = []
    for leaf in leaves:
        own = leaf[where]
        part = float(weight[own].sum())
        if not numbers or part * draws.ess < ENOUGH_ESS:
            found.append(leaf[:, None].astype(float))
            continue
        modes = find_modes(at[where[own]], weight[own] / part, part * draws.ess, rng)
        found.append(leaf[:, None] * modes.memberships(at))
    return np.column_stack(found)


def _jitter_numbers(space: Space, x: Array, x0: Array, which: list[int], rng: np.random.Generator) -> Array:
    """Return numeric columns ``(n, k)`` relative to the row in units of scale, integers jittered over their width."""
    start = [space.features[j].centre or 0.0 if np.isnan(x0[j]) else x0[j] for j in which]
    offset = np.where(np.isnan(x[:, which]), start, x[:, which]) - start
    step = space.discrete[which]
    if step.any():
        offset = offset + step * (rng.random(offset.shape) - 0.5)
    return offset / space.scale[which]


@dataclass(frozen=True, eq=False)
class _Moves:
    """Discrete moves: which known points make which move, ``(n, moves)``."""

    made: Array
    n_pool: int

    @classmethod
    def of(cls, explanation: "Explanation", x: Array) -> "_Moves":
        """List the discrete moves: of all columns under a sparse prior, else of levels and missing values."""
        space, x0 = explanation.space, explanation.x0
        changed = space.changed(x, x0)
        columns: list[Array] = []
        for j in explanation.free:
            feature, value = space.features[j], x[:, j]
            moved = changed[:, j]
            if feature.missing is not None and (np.isnan(value) & moved).any():
                columns.append(np.isnan(value) & moved)
            if feature.unordered:
                columns += [moved & (value == code) for code in np.unique(value[moved & ~np.isnan(value)])]
            elif np.isnan(x0[j]):
                columns.append(moved)
            elif explanation.query.sparse:
                columns += [moved & (value > x0[j]), moved & (value < x0[j])]
        made = np.column_stack(columns) if columns else np.zeros((len(x), 0), dtype=bool)
        return cls(made, len(explanation.draws.pool))

    @cached_property
    def in_pool(self) -> Array:
        """Moves of the pool as floats."""
        return self.made[: self.n_pool].astype(float)


def _grow_tree(moves: _Moves, draws: Draws) -> list[Array]:
    """Return the leaves of the tree as disjoint masks ``(n,)`` of known points."""
    waiting = [np.ones(len(moves.made), dtype=bool)]
    leaves: list[Array] = []
    while waiting:
        leaf = waiting.pop()
        move = _find_split(moves, draws, leaf) if len(waiting) + len(leaves) + 1 < _MOST_LEAVES else None
        if move is None:
            leaves.append(leaf)
        else:
            waiting += [leaf & ~moves.made[:, move], leaf & moves.made[:, move]]
    return leaves


def _find_split(moves: _Moves, draws: Draws, leaf: Array) -> int | None:
    """Return the move that the posterior favours most over the prior among a leaf's draws, None without one."""
    own = leaf[: moves.n_pool]
    after, before = (weights * own for weights in (draws.pool_weights, draws.prior_weights))
    n_draws = float(after.sum()) * draws.ess
    if moves.made.shape[1] == 0 or n_draws < 2 * LEAST_ESS or not before.any():
        return None
    after, before = after / after.sum(), before / before.sum()
    often, usual = (np.clip(weights @ moves.in_pool, 0.0, 1.0) for weights in (after, before))
    n_prior = effective_sample_size(before)
    error = np.sqrt(often * (1 - often) / n_draws + usual * (1 - usual) / n_prior)
    rare = np.minimum(often, 1 - often) * n_draws < LEAST_ESS / 2
    favoured = (often > _LIFT * usual) & (often - usual > _CERTAIN * error) & ~rare
    where = np.flatnonzero(favoured)
    gain = often[where] * np.log(often[where] / np.maximum(usual[where], TINY))
    return int(where[np.argmax(gain)]) if len(where) else None
