"""Tables and exports of an explanation: decisions, intervals, shares, frontier, plain data, ArviZ.

Values are decoded, in the user's columns.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._numerics import REWEIGHTING, normalise, resample_evenly, stream, weighted_quantile
from gbce.base import Array, Choice, Rule
from gbce.decisions import Decision, Nearest, stack_points
from gbce.draws import Draws
from gbce.metrics import costs, frontier_table, pareto_front, positions_at_levels, prior_shares
from gbce.space import Space, plain_records, plain_value

if TYPE_CHECKING:
    from gbce.explanation._explanation import Explanation

_SHORTEST_CHAIN = 4  # draws; ArviZ computes neither R-hat nor an effective sample size for fewer

# --- decisions and draws ---------------------------------------------------------------------------------------------


def point_table(space: Space, x: Array, labels: Sequence[str]) -> pd.DataFrame:
    """Return points ``(k, d)`` in the user's columns and dtypes, indexed by rule."""
    return space.frame(x).set_axis(rule_index(labels))


def choice_table(space: Space, choice: Choice, rule: Rule) -> pd.DataFrame:
    """Return the choice of a rule in the user's columns, without a path over the number of changes."""
    answers = [i for i, beside in enumerate(choice.beside) if not (beside and rule.has_path)]
    labels = choice.labels(rule.label)
    return point_table(space, choice.x[answers], [labels[i] for i in answers])


def rule_index(labels: Iterable[str]) -> pd.Index:
    """Return the index of tables with one line per decision."""
    return pd.Index(list(labels), name="rule", dtype=object)


def changes(space: Space, x0: Array, decisions: Sequence[Decision]) -> pd.DataFrame:
    """Return one line per decision and changed feature."""
    points = stack_points(decisions, len(space))
    shown = space.readable(np.vstack([x0, points])).to_numpy()
    changed, by = space.changed(points, x0), np.where(space.unordered, np.nan, points - x0)
    lines = [
        (decisions[i].label, space.names[j], shown[0, j], shown[i + 1, j], float(by[i, j]))
        for i, j in np.argwhere(changed).tolist()
    ]
    return pd.DataFrame(lines, columns=["rule", "feature", "from", "to", "change"]).infer_objects()


def intervals(draws: Draws, space: Space, x0: Array, mass: float) -> pd.DataFrame:
    """Return the row's value and a central interval of each feature; for a category only its most probable level."""
    at = {"row": x0}
    for name, q in (("low", (1 - mass) / 2), ("median", 0.5), ("high", (1 + mass) / 2)):
        at[name] = quantiles(draws, space, q)
    columns = {name: space.readable(x[None, :]).iloc[0].tolist() for name, x in at.items()}
    for j, feature in enumerate(space.features):
        if feature.unordered:
            columns["low"][j] = columns["high"][j] = None
    return pd.DataFrame(columns, index=pd.Index(space.names, name="feature")).infer_objects()


def quantiles(draws: Draws, space: Space, q: float) -> Array:
    """Return a quantile of each encoded feature, ``(d,)``; for a category, its most probable level."""
    read = draws.read
    return np.array([_quantile(read, space, j, q) for j in range(len(space))])


def _quantile(draws: Draws, space: Space, j: int, q: float) -> float:
    """Return a quantile of one feature's known values, NaN if most are missing."""
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
    """Return the probability of each level of a feature under the posterior and the prior."""
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
    explanation: "Explanation", *, distance: str, levels: Sequence[float] | None, among: str
) -> pd.DataFrame:
    """Return the cheapest of draws (or pool), row and decisions for every weighted share of models that reach."""
    if among not in ("draws", "pool"):
        raise ValueError(f"among must be 'draws' or 'pool', not {among!r}")
    draws, row, space, decisions = explanation.draws, explanation.row, explanation.space, explanation.decisions
    if among == "pool":
        draws.require_pool('frontier(among="pool")')
    where = draws.distinct[0] if among == "draws" else np.flatnonzero(np.isfinite(draws.pool.log_correction))
    x = np.vstack([row.x, draws.pool.x[where], *(decision.x for decision in decisions)])
    reached = np.vstack([row.reached, draws.pool.reached[where], *(decision.reached for decision in decisions)])
    cost, reliability = costs(space, x, row.x[0], distance), reached @ explanation.mixture.weights
    which = pareto_front(reliability, cost)
    which = which[positions_at_levels(reliability[which], levels)]
    figures = {"cost": cost[which], "distance": space.distance(x[which], row.x[0]), "se": np.zeros(len(which))}
    return frontier_table(space, x[which], reliability[which], figures)


def path_table(space: Space, x0: Array, free: Array, decisions: Sequence[Decision]) -> pd.DataFrame:
    """Return the sparsity path by number of changes among the ``free`` features, which excludes computed ones."""
    own = _find_path(decisions)
    x = stack_points(own, len(space))
    n = space.changed(x, x0)[:, free].sum(axis=1) if len(own) else np.zeros(0, dtype=int)
    order = np.argsort(n, kind="stable")
    own, x = [own[i] for i in order], x[order]
    priced_by = own[0].rule.priced_by if own and isinstance(own[0].rule, Nearest) else "l1"
    rows = space.frame(x)
    taken = {str(name) for name in rows.columns}
    figures = {
        "rule": [one.label for one in own],
        "cost": costs(space, x, x0, priced_by),
        "distance": space.distance(x, x0),
        "loss": [float(one.loss[0]) for one in own],
        "output": [float(one.outputs[0]) for one in own],
        "reached": np.array([one.reached[0] for one in own], dtype=bool),
    }
    index = pd.Index(n[order], name="changes", dtype=int)
    named = {name + "_" * (name in taken): values for name, values in figures.items()}
    return pd.concat([pd.DataFrame(named, index=index), rows.set_axis(index)], axis=1)


def _find_path(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions of the first Nearest, else of the first rule with a path, else none."""
    for is_it in (lambda rule: isinstance(rule, Nearest), lambda rule: rule.has_path):
        rule = next((one.rule for one in decisions if one.rule is not None and is_it(one.rule)), None)
        if rule is not None:
            return [one for one in decisions if one.rule is rule]
    return []


# --- plain data ------------------------------------------------------------------------------------------------------


def as_dict(explanation: "Explanation", *, draws: bool = False) -> dict[str, Any]:
    """Return an explanation as plain data, see :meth:`gbce.Explanation.to_dict`."""
    if not isinstance(draws, bool):
        raise TypeError(f"to_dict: draws must be True or False, not {draws!r}")
    row, space = explanation.row, explanation.space
    answer = explanation.answer
    results = {"output": row.outputs[0], "loss": row.loss[0], "reached": row.reached[0]}
    found = {
        "target": explanation.target.describe(),
        "status": explanation.status,
        "models": explanation.models,
        "row": {
            "values": plain_records(space.frame(row.x))[0],
            "said": [
                {"model": name, **{key: results[key][k] for key in results}}
                for k, name in enumerate(explanation.models)
            ],
        },
        "answer": None if answer is None else answer.to_dict(),
        "rules": [rule.label for rule in explanation.rules],
        "counterfactuals": plain_records(explanation.counterfactuals, values="values"),
        "changes": plain_records(explanation.changes()),
        "pointwise": plain_records(explanation.pointwise),
        "distribution": explanation.distribution.to_dict(),
        "importance": plain_records(explanation.importance),
        "intervals": plain_records(explanation.intervals()),
        "diagnostics": {name: one for name, one in explanation.diagnostics.items() if name != "verdict"},
        "eta": explanation.eta,
        "seed": explanation.seed,
    }
    if draws:
        drawn = explanation.draws
        figures = {
            "weight": drawn.weights,
            "output": drawn.outputs[:, 0],
            "loss": drawn.loss[:, 0],
            "reached": drawn.reached[:, 0],
            "cost": costs(space, drawn.x, explanation.x0, "l1"),
        }
        found["draws"] = [
            {**{name: figure[i] for name, figure in figures.items()}, "values": values}
            for i, values in enumerate(plain_records(drawn.frame()))
        ]
    plain: dict[str, Any] = plain_value(found)
    return plain


# --- ArviZ -----------------------------------------------------------------------------------------------------------


def to_arviz(explanation: "Explanation") -> Any:
    """Return the draws as an ``xarray.DataTree``, whose chains lose the relative mass of the runs."""
    picks = _resample_chains(explanation)
    pool, space = explanation.draws.pool, explanation.space
    posterior: dict[str, Array] = {space.names[j]: pool.x[:, j][picks] for j in explanation.free}
    posterior |= {
        _make_unique("loss", posterior): pool.loss[:, 0][picks],
        _make_unique("cost", posterior): costs(space, pool.x, explanation.x0, "l1")[picks],
        _make_unique("distance", posterior): space.distance(pool.x, explanation.x0)[picks],
    }
    log_density = -explanation.mixture.objective(pool.loss, pool.cost)
    groups = {"posterior": posterior, "sample_stats": {"lp": log_density[picks], "success": pool.reached[:, 0][picks]}}
    tree = _import_arviz_base().from_dict(groups)
    tree.attrs |= {
        "eta": explanation.eta,
        "target": explanation.target.describe(),
        "seed": str(explanation.seed),
        "sampling": explanation.diagnostics["sampling_note"],
        "inference_library": "gbce",
    }
    return tree


def _resample_chains(explanation: "Explanation") -> Array:
    """Return positions in the pool, ``(chains, draws)``."""
    draws = explanation.draws
    if draws.groups is None:
        return draws.index[None, :]
    rng = stream(explanation.seed, REWEIGHTING, explanation.query.key)
    runs = [np.flatnonzero((draws.groups == j) & (draws.pool_weights > 0)) for j in range(int(draws.groups.max()) + 1)]
    runs = [own for own in runs if len(own)]
    each = max(len(draws) // len(runs), _SHORTEST_CHAIN, len(runs))  # ArviZ warns if there are more chains than draws
    picked = [own[resample_evenly(rng, normalise(np.log(draws.pool_weights[own])), each)] for own in runs]
    # permuted, because repeated points side by side would look like a stuck chain
    return np.array([rng.permutation(one) for one in picked])


def _make_unique(name: str, taken: dict[str, Array]) -> str:
    while name in taken:
        name += "_"
    return name


def _import_arviz_base() -> Any:
    try:
        return import_module("arviz_base")
    except ImportError:
        raise ImportError("to_arviz needs the extra 'arviz': pip install 'gbce[arviz]'") from None
