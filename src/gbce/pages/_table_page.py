"""The page of many explained rows: rows, decisions and groups as plain data and packed arrays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import gbce
from gbce._validation import is_count, printable
from gbce.base import Array
from gbce.batch import ANSWER, POSTERIOR, EncodedRows, ExplanationTable, group_changes, group_costs, label_groups
from gbce.explanation import Status
from gbce.metrics import FIGURE_TITLES, POINT_FIGURES
from gbce.pages._document import UNFILLED, build_page, pack_array
from gbce.pages._policy import policy_sections

_ANY_ERROR = np.inf  # precision of figures: four digits are shown, and single precision has seven
_SHOWN = 1e-5  # largest relative error of a change, of which four digits are shown
_MOST_APART = 0.1  # share of values stored separately in full: as text each takes several times the four bytes saved
_MOST_LEVELS = 8  # levels of a column that is compared by default; by hand
_MOST_GROUPINGS = 8  # columns compared by default: each costs a bootstrap
_MOST_GROUPS = 40  # groups that remain legible side by side
_MOST_FEATURES = 8  # features compared between groups: those that change most
_DECISION_FIGURES = ("output", "cost", "loss", "distance")
_ROW_FIGURES = ("success_probability", "expected_loss", "expected_cost", "tail", "stability")
_DIAGNOSTICS = ("ess", "n_model_calls", "n_model_rows")


_SCRIPTS = ("common.js", "words.js", "policy.js", "table.js")
_STYLES = ("page.css", "table.css", "policy.css")


class Grouping(NamedTuple):
    """A name, the group of each row, and the order of the groups; if that is empty, by first occurrence."""

    name: str
    rows: Any
    order: list[str]


def table_payload(table: ExplanationTable, groups: Any = None) -> dict[str, Any]:
    """Return the data of a table's page, see ``ExplanationTable.to_html``."""
    known = table.require_encoded("to_html")
    groupings = _default_groupings(known) if groups is None else _add_grouping(table, known, groups)
    return {
        "kind": "table",
        "version": gbce.__version__,
        "n": len(table),
        "target": printable(known.target),
        "calls": int(table.n_model_calls),
        "asked": int(table.n_model_rows),
        "labels": [printable(str(label)) for label in table.diagnostics.index],
        **_pack_values(known),
        **_pack_decisions(table, known),
        **_pack_rows(table),
        "groups": [_compare_groups(table, known, grouping) for grouping in groupings],
    }


# --- rows and decisions ----------------------------------------------------------------------------------------------


def _pack_values(known: EncodedRows) -> dict[str, Any]:
    """Return the columns with the rows' values and the new values of answers and decisions, in order.

    Numbers are stored as they are; levels and dates as positions in a list of strings, -1 for missing.
    """
    space, places = known.space, np.concatenate([np.flatnonzero(known.answered), known.place])
    points = np.vstack([known.answers[known.answered], known.decisions])
    changed = space.changed(points, known.x0[places])
    features = []
    for j, feature in enumerate(space.features):
        values, moved = known.x0[:, j], changed[:, j]
        before, after = values[places[moved]], points[moved, j]
        column: dict[str, Any] = {
            "name": space.label(j),
            "digits": feature.digits,
            "unit": printable(feature.unit),
            "scale": float(feature.scale),
            "fixed": not feature.mutable,
            "follows": bool(space.is_computed[j]),
        }
        if feature.kind in ("real", "integer"):
            column |= {"kind": "number", "values": pack_array(values), "new": _pack_new(before, after)}
        else:
            seen = np.unique(np.concatenate([values, after]))
            seen = seen[~np.isnan(seen)]
            column |= {
                "kind": "level" if feature.leveled else "moment",
                "ordered": not feature.unordered,
                "levels": [printable(space.format(j, value, unit=False)) for value in seen],
                "at": [float(value) for value in seen],
                "values": pack_array(_find_positions(values, seen)),
                "new": pack_array(_find_positions(after, seen)),
            }
        features.append(column)
    return {
        "features": features,
        "changes": {"count": pack_array(changed.sum(axis=1)), "feature": pack_array(np.nonzero(changed)[1])},
    }


def _pack_new(before: Array, after: Array) -> dict[str, Any]:
    """Return new numbers ``(n,)`` in single precision; the few whose small changes need more are stored in full."""
    exact = pack_array(after)
    if exact["type"] != "f8":
        return exact
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.abs(after.astype(np.float32) - after)
        apart = ~(lost <= _SHOWN * np.abs(after - before)) & ~np.isnan(after)
    if apart.mean() > _MOST_APART or not np.isfinite(after[apart]).all():
        return exact
    packed = pack_array(np.where(apart, 0.0, after), precision=_ANY_ERROR)
    return packed | {"apart": {"at": np.flatnonzero(apart).tolist(), "values": after[apart].tolist()}}


def _find_positions(values: Array, seen: Array) -> Array:
    """Return the positions of values ``(n,)`` among those seen, -1 for missing."""
    return np.where(np.isnan(values), -1, np.searchsorted(seen, values))


def _pack_decisions(table: ExplanationTable, known: EncodedRows) -> dict[str, Any]:
    """Return the figures of answers, then of decisions, in the order of their changes."""
    rules = list(dict.fromkeys([*table.rules, *table.pointwise.index.get_level_values("rule")]))
    code = {rule: k + 1 for k, rule in enumerate(rules)}
    answers, points = table.answers[known.answered], table.pointwise
    figures = {"output": answers["output"], "cost": answers["cost"], "reached": answers["reached"].astype(float)}
    names = (*_DECISION_FIGURES, *(figure.name for figure in POINT_FIGURES))
    listed = points.assign(reached=points["reached"].astype(float))
    columns = {}
    for name in ("reached", *names):
        first = figures.get(name, pd.Series(np.nan, index=answers.index)).to_numpy(dtype=float)
        second = listed[name].to_numpy(dtype=float) if name in listed else np.full(len(points), np.nan)
        columns[name] = pack_array(np.concatenate([first, second]), precision=_ANY_ERROR)
    rule = [0] * len(answers) + [code[one] for one in points.index.get_level_values("rule")]
    return {
        "rules": [ANSWER, *map(printable, rules)],
        "decisions": {
            "row": pack_array(np.concatenate([np.flatnonzero(known.answered), known.place])),
            "rule": pack_array(np.array(rule)),
            **columns,
        },
        "meanings": {
            "output": "output of the first model",
            "cost": "all changes added up, in units, which the answer minimises",
            "loss": "penalty for missing the target",
            "distance": "Euclidean distance, in units",
            **{figure.name: figure.meaning for figure in POINT_FIGURES},
        },
    }


def _pack_rows(table: ExplanationTable) -> dict[str, Any]:
    """Return figures of each row, and its strings as positions in lists."""
    answers, numbers = table.answers, table.diagnostics
    strings = {
        "kind": _list_kinds(table),
        "status": numbers["status"],
        "sampling": numbers["sampling"],
        "posterior_note": numbers["posterior_note"],
        "sentence": answers["sentence"],
        "notes": numbers["notes"],
        "error": numbers["error"],
        "seed": numbers["seed"].astype(str),
    }
    shares = {name: answers[name] for name in ("reliability", "reliability_low", "reliability_high", "survival")}
    sampled = _find_sampled(table)
    figures = [name for name in _ROW_FIGURES if name in table.distribution and sampled.any()]
    columns = {
        **shares,
        **{one: table.distribution[one].where(sampled) for name in figures for one in (name, f"{name}_se")},
        **{name: numbers[name] for name in _DIAGNOSTICS},
    }
    return {
        "words": {name: _pack_strings(values) for name, values in strings.items()},
        "figures": {
            name: pack_array(values.to_numpy(dtype=float), precision=_ANY_ERROR) for name, values in columns.items()
        },
        "titles": {name: FIGURE_TITLES.get(name, name) for name in figures},
    }


def _find_sampled(table: ExplanationTable) -> Array:
    """Return which rows have draws of a posterior ``(n,)``; those of the others served to find an answer only."""
    facts = table.facts or (None,) * len(table)
    return np.array([one is None or one.sampled for one in facts], dtype=bool)


def _list_kinds(table: ExplanationTable) -> list[str]:
    """Return the kind of each row's answer, or else its status."""
    pairs = zip(table.answers["kind"], table.diagnostics["status"], strict=True)
    return [str(kind) or str(status) for kind, status in pairs]


def _pack_strings(values: Iterable[Any]) -> dict[str, Any]:
    """Return the distinct strings, and the position of each value among them."""
    listed = [printable(str(value)) for value in values]
    code = {string: k for k, string in enumerate(dict.fromkeys(listed))}
    return {"texts": list(code), "at": pack_array(np.array([code[string] for string in listed], dtype=float))}


# --- groups ----------------------------------------------------------------------------------------------------------


def _default_groupings(known: EncodedRows) -> list[Grouping]:
    """Group the rows by each column with few values."""
    found = [
        _group_by_column(known, j)
        for j, feature in enumerate(known.space.features)
        if feature.kind not in ("real", "datetime") and 2 <= len(np.unique(known.x0[:, j])) <= _MOST_LEVELS
    ]
    return found[:_MOST_GROUPINGS]


def _group_by_column(known: EncodedRows, j: int) -> Grouping:
    """Group the rows by a column, in the order of its values."""
    space, values = known.space, known.x0[:, j]
    names = {value: space.format(j, value, unit=False) for value in np.unique(values)}
    rows = [names[value] if value in names else space.format(j, value, unit=False) for value in values]
    return Grouping(space.label(j), rows, list(dict.fromkeys(names.values())))


def _add_grouping(table: ExplanationTable, known: EncodedRows, groups: Any) -> list[Grouping]:
    """Return the requested grouping, by a column or by the group of each row, followed by the default ones."""
    if isinstance(groups, str):
        if groups not in known.space.names:
            raise ValueError(f"groups: there is no column {groups!r}; the columns are {list(known.space.names)}")
        wanted = _group_by_column(known, known.space.names.index(groups))
    else:
        wanted = Grouping(str(getattr(groups, "name", None) or "groups"), groups, [])
    # raises if the groups do not fit the rows
    listed = label_groups(wanted.rows, table.diagnostics.index).unique()
    if len(listed) > _MOST_GROUPS:
        raise ValueError(
            f"groups: {len(listed)} groups are too many to compare side by side; {_MOST_GROUPS} is the limit. Use "
            "coarser ones, such as pd.cut(column, 5)."
        )
    return [wanted, *(own for own in _default_groupings(known) if own.name != wanted.name)]


def _compare_groups(table: ExplanationTable, known: EncodedRows, grouping: Grouping) -> dict[str, Any]:
    """Return costs and changes of each group, with intervals; changes where all rows have a posterior."""
    groups = grouping.rows
    rule = ANSWER if table.has_answers else POSTERIOR
    lines = group_costs(table, groups, rule=rule)
    order = [group for group in grouping.order if group in lines.index] or list(lines.index)
    lines = lines.loc[order]
    compared = (table.diagnostics["status"] == Status.ATTAINABLE).to_numpy()
    sampled = len(table.importance) and compared.any() and _find_sampled(table)[compared].all()
    moved = group_changes(table, groups) if sampled else None
    changes: Sequence[Mapping[str, Any]] = []
    if moved is not None:
        weight = moved["ratio"].groupby(level="feature", sort=False).max()
        top = weight[weight > 1].nlargest(_MOST_FEATURES).index
        changes = [
            {
                "feature": _name_with_unit(known, str(feature)),
                "lines": [_make_plain(line) for _, line in part.iterrows()],
            }
            for feature in top
            for part in [moved.xs(feature, level="feature").loc[order, ["change", "low", "high", "ratio"]]]
        ]
    return {
        "name": printable(grouping.name),
        "cost": "cost of the answer" if rule == ANSWER else "expected cost",
        "groups": [printable(str(group)) for group in lines.index],
        "lines": [_make_plain(line) for _, line in lines.iterrows()],
        "changes": list(changes),
    }


def _name_with_unit(known: EncodedRows, name: str) -> str:
    """Return the label of a feature, and the unit of its numbers."""
    j = known.space.names.index(name)
    unit = known.space.features[j].unit
    return printable(f"{known.space.label(j)}{f', in {unit}' if unit else ''}")


def _make_plain(line: pd.Series) -> dict[str, float | None]:
    """Return a line of numbers, None for those that are not finite."""
    return {str(name): float(value) if np.isfinite(value) else None for name, value in line.items()}


# --- page ------------------------------------------------------------------------------------------------------------


def table_page(table: ExplanationTable, *, groups: Any = None, policies: Any = None, lines: int = 100) -> str:
    """Return the page of a table with ``lines`` rows listed at first, see ``ExplanationTable.to_html``."""
    if not isinstance(table, ExplanationTable):
        raise TypeError(f"table must come from explainer.explain_many(...), not {table!r:.80}")
    if not is_count(lines):
        raise ValueError(f"lines must be an integer of at least 1, not {lines!r}")
    payload = table_payload(table, groups) | {"lines": int(lines), "policies": policy_sections(policies)}
    n = len(table)
    title = f"{n:,} row{'s' * (n != 1)} explained"
    return build_page(title, payload, _SCRIPTS, _STYLES, UNFILLED)
