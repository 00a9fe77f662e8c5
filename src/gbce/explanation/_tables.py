"""Draws and decisions as a person reads them: values as the table has them, not as they are encoded."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from gbce._numerics import weighted_quantile
from gbce.base import Array, Choice, Rule
from gbce.decisions import Decision
from gbce.draws import Draws, Points
from gbce.metrics import costs, frontier_table, pareto_front, positions_at_levels, prior_shares
from gbce.space import Space

__all__ = ["changes", "choice_table", "draws_frontier", "intervals", "point_table", "quantiles", "rule_index", "shares"]


def point_table(space: Space, x: Array, labels: Sequence[str]) -> pd.DataFrame:
    """Return points ``(k, d)`` in the user's columns and dtypes, one line each, under the names of their rules."""
    return space.frame(x).set_axis(rule_index(labels))


def choice_table(space: Space, choice: Choice, rule: Rule) -> pd.DataFrame:
    """Return what a rule chose in the user's columns, without a path over the number of changes beside its answer."""
    answers = [i for i, beside in enumerate(choice.beside) if not (beside and rule.has_path)]
    labels = choice.labels(rule.label)
    return point_table(space, choice.x[answers], [labels[i] for i in answers])


def rule_index(labels: Iterable[str]) -> pd.Index:
    """Return the index of tables with one line per decision."""
    return pd.Index(list(labels), name="rule", dtype=object)


def changes(space: Space, x0: Array, decisions: Sequence[Decision]) -> pd.DataFrame:
    """Return one line per decision and changed feature."""
    before = space.readable(x0[None, :]).iloc[0]
    lines = []
    for decision in decisions:
        after = space.readable(decision.x[None, :]).iloc[0]
        for j in np.flatnonzero(space.changed(decision.x[None, :], x0)[0]):
            by = float("nan") if space.features[j].unordered else float(decision.x[j] - x0[j])
            lines.append((decision.label, space.names[j], before.iloc[j], after.iloc[j], by))
    return pd.DataFrame(lines, columns=["rule", "feature", "from", "to", "change"]).infer_objects()


def intervals(draws: Draws, space: Space, x0: Array, mass: float) -> pd.DataFrame:
    """Return the row's value and a central interval of each feature; a category has only its most probable level."""
    at = {"row": x0}
    for name, q in (("low", (1 - mass) / 2), ("median", 0.5), ("high", (1 + mass) / 2)):
        at[name] = quantiles(draws, space, q)
    columns = {name: space.readable(x[None, :]).iloc[0].tolist() for name, x in at.items()}
    for j, feature in enumerate(space.features):
        if feature.unordered:
            columns["low"][j] = columns["high"][j] = None
    return pd.DataFrame(columns, index=pd.Index(space.names, name="feature")).infer_objects()


def quantiles(draws: Draws, space: Space, q: float) -> Array:
    """Return a quantile of each feature as encoded, ``(d,)``; of a category, its most probable level."""
    read = draws.read
    return np.array([_quantile(read, space, j, q) for j in range(len(space))])


def _quantile(draws: Draws, space: Space, j: int, q: float) -> float:
    """Quantile of one feature's known values; NaN where most are missing."""
    column, weights, feature = draws.x[:, j], draws.weights, space.features[j]
    if not feature.plain:
        known = ~np.isnan(column)
        if weights[known].sum() < 0.5:  # more missing than not
            return float("nan")
        column, weights = column[known], weights[known] / weights[known].sum()
    if feature.unordered:
        return float(np.bincount(column.astype(int), weights).argmax())
    return float(weighted_quantile(column, weights, q))


def shares(draws: Draws, space: Space, feature: str) -> pd.DataFrame:
    """Return how probable each level of a feature is, under the posterior and under the prior."""
    if feature not in space.names:
        raise ValueError(f"there is no feature {feature!r}; the features are {list(space.names)}")
    j = space.names.index(feature)
    levels = space.features[j].levels
    if levels is None:
        raise ValueError(f"{feature!r} has no levels; explanation.intervals() shows where its values lie")
    read = draws.read
    codes = np.where(np.isnan(read.x[:, j]), len(levels), read.x[:, j]).astype(int)
    table = {
        "posterior": np.bincount(codes, read.weights, minlength=len(levels) + 1),
        "prior": prior_shares(draws, space, j),
    }
    shown = pd.DataFrame(table, index=pd.Index([*levels, "(missing)"], name=feature, dtype=object))
    return shown if space.features[j].missing is not None else shown.iloc[:-1]


def draws_frontier(
    draws: Draws,
    row: Points,
    decisions: Sequence[Decision],
    space: Space,
    weights: Array,
    *,
    distance: str,
    levels: Sequence[float] | None,
    among: str,
) -> pd.DataFrame:
    """Return the cheapest of the draws (or of the pool), the row and the decisions for every reliability.

    Reliability is the share of the models' weights ``(K,)`` under which the target is reached.
    """
    if among not in ("draws", "pool"):
        raise ValueError(f"among must be 'draws' or 'pool', not {among!r}")
    if among == "pool":
        draws.require_pool('frontier(among="pool")')
    where = draws.distinct[0] if among == "draws" else np.flatnonzero(np.isfinite(draws.pool.log_correction))
    x = np.vstack([row.x, draws.pool.x[where], *(decision.x for decision in decisions)])
    reached = np.vstack([row.reached, draws.pool.reached[where], *(decision.reached for decision in decisions)])
    cost, reliability = costs(space, x, row.x[0], distance), reached @ weights
    which = pareto_front(reliability, cost)
    which = which[positions_at_levels(reliability[which], levels)]
    return frontier_table(space, x[which], reliability[which], {"distance": cost[which], "se": np.zeros(len(which))})
