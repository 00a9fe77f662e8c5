"""Compare groups of rows: the cost of recourse, its availability, and the features it changes."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from gbce._validation import is_number, show
from gbce.base import Array
from gbce.batch._stored import StoredTable
from gbce.batch._table import ANSWER, ExplanationTable, record_of, stack_records
from gbce.decisions import Rule
from gbce.explanation import Explanation, Status
from gbce.metrics import wilson

POSTERIOR = "posterior"  # used like the label of a rule, for the mean over the draws

MISSING = "missing"  # the group of rows whose group is missing, as pages call it
_FEWEST_RESAMPLES = 100  # by convention: with fewer, the ends of a 95% interval are two or three resamples

_RESAMPLED = 4_000_000  # counts drawn at once: 64 MB with the same as floats

Explanations = ExplanationTable | StoredTable | Sequence[Explanation] | Mapping[Hashable, Explanation]


def group_costs(
    explanations: Explanations,
    groups: Any,
    *,
    rule: Rule | str = ANSWER,
    mass: float = 0.95,
    n_bootstrap: int = 2_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare the cost and availability of recourse between groups of rows.

    Parameters
    ----------
    explanations : ExplanationTable, StoredTable, sequence or mapping of Explanation
        Explanations of one row each.
    groups : sequence, Series or mapping
        The group of each row: in order, or by row label.
    rule : Rule or str
        Whose cost: ``"answer"``, that of ``table.answers``, over rows whose answer reaches the target; a decision rule
        or its label, such as ``"MAP"``, that of its decision, over rows where it reaches the target; ``"posterior"``,
        the mean over the draws, over rows that can reach it. The draws scatter around an answer, so the last says
        little about what people have to do.
    mass : float
        Probability of the intervals.
    n_bootstrap : int
        Number of bootstrap resamples of the rows of each group.
    seed : int
        Seed of the resamples.

    Returns
    -------
    DataFrame
        By group: ``rows``; ``failed``, those that could not be explained, and ``already``, those that reach the
        target unchanged, both excluded from the rest; ``attainable``, the share of the others for which a change was
        found, with Wilson's interval; ``cost``, the mean over these, in units of each feature's scale, with a bootstrap
        interval over rows that is widened where they are few; ``se_mc``, its Monte Carlo error, zero for
        decisions and answers. A single row has no interval.

    Notes
    -----
    The figure of each row has a Monte Carlo error, which the spread between rows, and so the interval, includes.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:6], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0, progress=False)
    >>> gbce.group_costs(table, ["a", "a", "a", "b", "b", "b"]).loc["a", "rows"]
    np.int64(3)
    """
    table = _as_table(explanations)
    labels = label_groups(groups, table.diagnostics.index)
    _require_options(mass, n_bootstrap)
    status = table.diagnostics["status"]
    cost, se, attained = find_costs(table, rule)
    lines, parts = [], _parts_of(labels)
    for _, inside in parts:
        counted = inside & ~status.isin([Status.FAILED, Status.ALREADY_REACHED]).to_numpy()
        found = counted & attained
        n = int(counted.sum())
        share = float(attained[counted].mean()) if n else float("nan")
        low, high = (
            wilson(np.array(share), n, float(ndtri(0.5 + mass / 2))) if n else (np.array(np.nan), np.array(np.nan))
        )
        mean, bottom, top = _bootstrap(cost[found, None], mass, n_bootstrap, np.random.default_rng(seed))
        bottom = np.maximum(bottom, 0.0)  # the widened interval must not be negative
        line = {
            "rows": int(inside.sum()),
            "failed": int((inside & (status == Status.FAILED).to_numpy()).sum()),
            "already": int((inside & (status == Status.ALREADY_REACHED).to_numpy()).sum()),
            "attainable": share,
            "attainable_low": float(low),
            "attainable_high": float(high),
            "cost": float(mean[0]),
            "cost_low": float(bottom[0]),
            "cost_high": float(top[0]),
            "se_mc": float(np.sqrt(np.square(se[found]).sum())) / found.sum() if found.any() else float("nan"),
        }
        lines.append(line)
    return pd.DataFrame(lines, index=pd.Index([group for group, _ in parts], name="group", tupleize_cols=False))


def group_changes(
    explanations: Explanations, groups: Any, *, mass: float = 0.95, n_bootstrap: int = 2_000, seed: int = 0
) -> pd.DataFrame:
    """Return the mean change of each feature in the pooled posterior of each group of rows.

    The pooled posterior of a group is the mixture of the posteriors of its rows that can reach the target and do not
    reach it already.

    Parameters
    ----------
    explanations, groups, mass, n_bootstrap, seed
        As in :func:`group_costs`.

    Returns
    -------
    DataFrame
        By group and feature: ``change``, the mean absolute change in the feature's own units (for a category, the
        probability of a change), its interval ``low`` to ``high`` over rows, Monte Carlo error ``se_mc``, and ``ratio``
        to the mean change under the prior. From explanations, which have their draws, also the signed mean ``shift``,
        with ``shift_low`` and ``shift_high``; NaN for a category.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:4], gbce.AtLeast(2), rules=[], seed=0, progress=False)
    >>> gbce.group_changes(table, ["a", "a", "b", "b"]).index.tolist()
    [('a', 'x1'), ('a', 'x2'), ('b', 'x1'), ('b', 'x2')]
    """
    table = _as_table(explanations)
    labels = label_groups(groups, table.diagnostics.index)
    _require_options(mass, n_bootstrap)
    if not len(table.importance):
        raise ValueError(
            "group_changes needs the draws, which this store does not keep: explain_many(..., keep='draws') keeps them"
        )
    features = table.importance.index.get_level_values("feature")[: len(table.importance) // len(table)]
    change, error, prior = (
        table.importance[name].to_numpy().reshape(len(table), -1) for name in ("change", "se", "prior")
    )
    counted = (table.diagnostics["status"] == Status.ATTAINABLE).to_numpy()
    most = _bound_changes(table, len(features))
    shift = None
    if not isinstance(explanations, (ExplanationTable, StoredTable)):
        shift = np.array([_mean_shift(one) for one in _as_list(explanations)])
    parts = []
    for group, inside in _parts_of(labels):
        found = inside & counted
        rng = np.random.default_rng(seed)
        mean, low, high = _bootstrap(change[found], mass, n_bootstrap, rng)
        low, high = np.maximum(low, 0.0), np.minimum(high, most)  # the widened interval must stay in range
        n, before = max(int(found.sum()), 1), prior[found].sum(axis=0)
        part = {"change": mean, "low": low, "high": high, "se_mc": np.sqrt(np.square(error[found]).sum(axis=0)) / n}
        with np.errstate(invalid="ignore", divide="ignore"):
            part["ratio"] = np.where(before > 0, n * mean / before, 1.0)
        if shift is not None:
            rng = np.random.default_rng(seed)
            part["shift"], part["shift_low"], part["shift_high"] = _bootstrap(shift[found], mass, n_bootstrap, rng)
        own = pd.Index([group] * len(features), tupleize_cols=False)
        parts.append(pd.DataFrame(part, index=pd.MultiIndex.from_arrays([own, features], names=["group", "feature"])))
    return pd.concat(parts)


def find_costs(table: ExplanationTable, rule: Rule | str) -> tuple[Array, Array, Array]:
    """Return the cost, its Monte Carlo error and whether the target is attained, by row: ``(n,)`` each."""
    if isinstance(rule, str) and rule == POSTERIOR:
        figures = table.distribution
        attained = (table.diagnostics["status"] == Status.ATTAINABLE).to_numpy()
        return figures["expected_cost"].to_numpy(), figures["expected_cost_se"].to_numpy(), attained
    label = table.label_of(rule)
    if label == ANSWER:
        if not table.has_answers:
            raise ValueError(
                "no row has an answer: explain them with rules and with a policy, or compare rule='posterior'"
            )
        cost, reached = table.answers["cost"].to_numpy(dtype=float), table.answers["reached"].to_numpy(dtype=bool)
        return cost, np.zeros(len(table)), reached
    own = table.pointwise[table.pointwise.index.get_level_values("rule") == label]
    explained = (table.diagnostics["status"] != Status.FAILED).to_numpy()
    if len(own) != explained.sum():
        raise ValueError(
            f"{label!r} chose a point for only {len(own)} of {explained.sum()} rows: give a rule that chooses for "
            "all of them"
        )
    cost, reached = np.full(len(table), np.nan), np.zeros(len(table), dtype=bool)
    cost[explained], reached[explained] = own["cost"], own["reached"]
    return cost, np.zeros(len(table)), reached


def _bootstrap(values: Array, mass: float, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return means over rows of ``(r, k)`` and their bootstrap intervals, wider for few rows, unknown for one row."""
    unknown, rows = np.full(values.shape[1], np.nan), len(values)
    if rows == 0:
        return unknown, unknown, unknown
    if rows == 1:
        return values[0], unknown, unknown
    equal, block = np.full(rows, 1.0 / rows), max(_RESAMPLED // rows, 1)
    sizes = [min(block, n - start) for start in range(0, n, block)]
    resampled = np.vstack([rng.multinomial(rows, equal, size=size) / rows @ values for size in sizes])
    mean, level = values.mean(axis=0), 0.5 + mass / 2
    # bootstrap intervals of few rows are too short: widened by the ratio of Student's to normal quantiles
    wider = np.sqrt(rows / (rows - 1)) * stdtrit(rows - 1, level) / ndtri(level)
    low, high = np.quantile(resampled, [1 - level, level], axis=0)
    return mean, mean + wider * (low - mean), mean + wider * (high - mean)


def _bound_changes(table: ExplanationTable, d: int) -> Array:
    """Return the largest possible mean change ``(d,)`` of each feature: one for the probability of a category."""
    if table.encoded is None:  # the kinds of columns are not known
        return np.full(d, np.inf)
    return np.where([feature.unordered for feature in table.encoded.space.features], 1.0, np.inf)


def _mean_shift(explanation: Explanation) -> Array:
    """Return the mean signed change ``(d,)`` of each feature; NaN for a category, without missing values."""
    draws, space = explanation.draws, explanation.space
    change = draws.x - explanation.x0
    known = np.isfinite(change)
    mass = draws.weights @ known
    mean = draws.weights @ np.where(known, change, 0.0) / np.where(mass > 0, mass, 1.0)
    excluded = np.array([feature.unordered for feature in space.features]) | (mass == 0)
    return np.where(excluded, np.nan, mean)


def _as_list(explanations: Any) -> list[Explanation]:
    return list(explanations.values()) if isinstance(explanations, Mapping) else list(explanations)


def _as_table(explanations: Any) -> ExplanationTable:
    if isinstance(explanations, StoredTable):
        return explanations.read()
    if isinstance(explanations, ExplanationTable):
        return explanations
    if isinstance(explanations, Explanation) or not isinstance(explanations, (Mapping, Sequence)):
        raise TypeError(
            "explanations must be an ExplanationTable or a list or mapping of explanations, not "
            f"{type(explanations).__name__}"
        )
    listed = _as_list(explanations)
    if not listed or not all(isinstance(one, Explanation) for one in listed):
        raise TypeError("explanations must contain at least one explanation, and nothing else")
    if len({one.space.names for one in listed}) > 1:
        raise ValueError("the explanations belong to different tables: their features differ")
    labels = list(explanations) if isinstance(explanations, Mapping) else list(range(len(listed)))
    return stack_records([record_of(one) for one in listed], labels, 0, 0)


def label_groups(groups: Any, rows: pd.Index) -> pd.Series:
    """Return the group of each row by its label, from a sequence in order, or a Series or mapping by row label.

    Rows whose group is missing are a group of their own.
    """
    if groups is None or isinstance(groups, str):
        raise TypeError(f"groups must have the group of each row, in order or by row label, not {groups!r}")
    if isinstance(groups, (pd.Series, Mapping)) and not (isinstance(groups, pd.Series) and groups.index.equals(rows)):
        known = groups if isinstance(groups, Mapping) else _by_label(groups)
        missing = [row for row in rows if row not in known]
        if missing:
            raise ValueError(f"groups has no entry for rows {missing[:5]}: its index must have the row labels")
        labels = pd.Series([known[row] for row in rows], index=rows, dtype=object)
    else:
        listed = list(groups)
        if len(listed) != len(rows):
            raise ValueError(f"groups must have one entry per row: {len(rows)} rows, but {len(listed)} entries")
        labels = pd.Series(listed, index=rows, dtype=object)
    odd = next((label for label in labels if not isinstance(label, Hashable)), None)
    if odd is not None:
        raise TypeError(f"a group must be a string, a number or a tuple of these, not {show(odd)}")
    return labels.where(labels.notna(), MISSING)


def _by_label(groups: pd.Series) -> dict[Any, Any]:
    """Return a Series as a mapping, or raise if rows of one label are in different groups."""
    if not groups.index.is_unique:
        twice = groups[groups.groupby(level=0).transform(lambda own: own.nunique(dropna=False)) > 1]
        if len(twice):
            raise ValueError(
                f"groups has different entries for row {show(twice.index[0])}: list the groups in the order of the rows"
            )
    return groups.to_dict()


def _parts_of(labels: pd.Series) -> list[tuple[Any, Array]]:
    """Return each group, in order of appearance, with its rows as booleans ``(n,)``; a group may be a tuple."""
    codes, found = pd.factorize(labels)
    return [(group, codes == k) for k, group in enumerate(found)]


def _require_options(mass: Any, n_bootstrap: Any) -> None:
    if not is_number(mass) or not 0 < mass < 1:
        raise ValueError(f"mass must lie between 0 and 1, not {mass!r}")
    if (
        not isinstance(n_bootstrap, (int, np.integer))
        or isinstance(n_bootstrap, bool)
        or n_bootstrap < _FEWEST_RESAMPLES
    ):
        at_least = f"an integer of at least {_FEWEST_RESAMPLES}"
        raise ValueError(f"n_bootstrap must be {at_least}, not {n_bootstrap!r}")
