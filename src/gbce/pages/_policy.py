"""Sections of a page for decisions about many rows: group actions, allocations, fairness, reviews and plans."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import pandas as pd

import gbce
from gbce._validation import printable
from gbce.explanation import Plan, Share, number_text
from gbce.pages._document import UNFILLED, build_page
from gbce.policy import Allocation, Fairness, GroupActions, Review

_MOST_LINES = 200  # of one table; the object itself has all, in .frame() or .to_json()


def policy_sections(policies: Any) -> list[dict[str, Any]]:
    """Return what was computed for many rows as sections: a title, sentences, and tables of text and intervals.

    ``policies`` is one of group actions, an allocation, fairness, a review or a mapping of row labels to plans, or
    several of them.
    """
    if isinstance(policies, (GroupActions, Allocation, Fairness, Review, Mapping)) or policies is None:
        listed = [] if policies is None else [policies]
    elif isinstance(policies, Sequence) and not isinstance(policies, str):
        listed = list(policies)
    else:
        raise TypeError(_describe_wrong(policies))
    return [{"id": f"policy-{k}"} | _make_section(one) for k, one in enumerate(listed, start=1)]


def _make_section(one: Any) -> dict[str, Any]:
    """Return the section of one object."""
    if isinstance(one, GroupActions):
        return _show_actions(one)
    if isinstance(one, Allocation):
        return _show_allocation(one)
    if isinstance(one, Fairness):
        return _show_fairness(one)
    if isinstance(one, Review):
        return _show_review(one)
    if isinstance(one, Mapping) and one and all(isinstance(plan, Plan) for plan in one.values()):
        return _show_plans(one)
    raise TypeError(_describe_wrong(one))


def _describe_wrong(given: Any) -> str:
    return (
        "policies must be results of gbce.policy.actions, allocate, fairness or review, or a mapping of row labels to "
        f"plans, not {given!r:.80}"
    )


def _section(
    title: str, sentences: Sequence[str], tables: Sequence[dict[str, Any]] = (), **more: Any
) -> dict[str, Any]:
    return {"title": title, "sentences": [printable(one) for one in sentences], "tables": list(tables)} | more


def _table(caption: str, heads: Sequence[str], lines: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a table of strings and intervals, cut to what a page can show."""
    left = len(lines) - _MOST_LINES
    return {
        "caption": printable(caption),
        "heads": list(heads),
        "lines": [
            [cell if isinstance(cell, dict) else printable(str(cell)) for cell in line] for line in lines[:_MOST_LINES]
        ],
        "more": f"{left:,} more lines are not shown." if left > 0 else "",
    }


def _text(value: float, digits: int = 3) -> str:
    return number_text(float(value), digits) if isfinite(value) else "–"


def _percent(value: float) -> str:
    return f"{value:.0%}" if isfinite(value) else "–"


def _share(value: float) -> str:
    """Return how often an answer works, rounded down as its sentence has it."""
    return f"{Share.of(value, 1).in_hundred}%" if isfinite(value) else "–"


def _interval(
    value: float, low: float, high: float, ends: tuple[float, float], *, percent: bool = False
) -> dict[str, Any]:
    """Return a cell that draws an interval and states it."""
    write = _percent if percent else _text
    text = f"{write(value)} ({write(low)} to {write(high)})" if isfinite(low) and isfinite(high) else write(value)
    shown = {"value": value, "low": low, "high": high, "least": ends[0], "most": ends[1]}
    return {"text": text} | {name: float(one) if isfinite(one) else None for name, one in shown.items()}


def _ends(*columns: pd.Series) -> tuple[float, float]:
    """Return the range of numbers, with zero in it."""
    known = pd.concat(columns).dropna()
    return min(float(known.min()), 0.0) if len(known) else 0.0, max(float(known.max()), 1e-9) if len(known) else 1.0


# --- one for each kind -----------------------------------------------------------------------------------------------


def _show_actions(found: GroupActions) -> dict[str, Any]:
    frame = found.frame()
    grouped = "group" in frame.columns
    lines = []
    for number, line in frame.iterrows():
        words = str(line["action"])
        who = f" ({line['group']})" if grouped and line["group"] is not None else ""
        lines.append(
            [
                f"{number}. {words[:1].upper()}{words[1:]}{who}", f"{line['rows']:,}", _text(line["mean_cost"]),
                _interval(
                    line["coverage_so_far"], line["coverage_so_far_low"], line["coverage_so_far_high"], (0.0, 1.0),
                    percent=True,
                ),
            ]
        )  # fmt: skip
    unit = f"mean cost, in {found.prices}" if found.prices else "mean cost"
    heads = ("action", "best for rows", unit, "reach the target by the actions so far")
    caption = "Actions, and what they promise for rows that took no part in the choice"
    return _section(
        "Actions for many", found.sentences[-2 - len(found.group_coverage) :], [_table(caption, heads, lines)]
    )


def _show_allocation(found: Allocation) -> dict[str, Any]:
    frontier, rows = found.frame().reset_index(), found.rows
    ends = 0.0, max(float(frontier["likely_high"].max()), 1.0) if len(frontier) else 1.0
    money = [
        [_text(line["budget"], 4), f"{line['helped']:,.0f}", _text(line["spent"], 4),
         _interval(line["expected"], line["low"], line["high"], ends),
         f"{line['likely_low']:,.0f} to {line['likely_high']:,.0f}"]
        for _, line in frontier.iterrows()
    ]  # fmt: skip
    helped = rows[rows["helped"]]
    people = [
        [label, _text(line["cost"], 4), _share(line["reliability"]), line["changes"]]
        for label, line in helped.iterrows()
    ]
    heads = ("budget", "rows helped", "spent", "expected to reach", "likely number")
    tables = [
        _table("Rows reached against money", heads, money),
        _table("Rows to help, the best for their cost first", ("row", "cost", "reliability", "changes"), people),
    ]
    return _section("Whom to help first", found.sentences, tables)


def _show_fairness(found: Fairness) -> dict[str, Any]:
    groups, gaps, mass = found.groups, found.gaps, found.mass
    range_of = {"attainable": (0.0, 1.0), "cost": _ends(groups["cost_high"]), "chance": (0.0, 1.0)}
    lines = [
        [name, f"{line['rows']:,.0f}",
         *(_interval(line[f"{one}_pooled"], line[f"{one}_low"], line[f"{one}_high"], ends, percent=one != "cost")
           for one, ends in range_of.items())]
        for name, line in groups.iterrows()
    ]  # fmt: skip
    measured = ("measure and group", "gap", "p-value of equality")
    tables = [
        _table(f"Groups, pooled, with {mass:.0%} intervals",
               ("group", "rows", "have an answer", "cost of the answer", "chance that it works"), lines),
        _table(f"Gaps to {found.reference}, and tests of equal groups", measured, [
            [f"{measure}, {name}", _interval(line["gap"], line["low"], line["high"],
                                             _ends(gaps.loc[measure, "low"], gaps.loc[measure, "high"])),
             _text(found.tests.loc[measure, "p"], 2)]
            for (measure, name), line in gaps.iterrows()
        ]),
    ]  # fmt: skip
    if len(found.parts):
        ends = _ends(*(found.parts[name] for name in ("model_low", "model_high", "rows_low", "rows_high")))
        tables.append(
            _table("What of the gap in cost is the model's", ("group", "gap", "the model's part", "the rows' part"), [
                [name, _text(line["gap"]), *(_interval(line[one], line[f"{one}_low"], line[f"{one}_high"], ends)
                                             for one in ("model", "rows"))]
                for name, line in found.parts.iterrows()
            ])
        )  # fmt: skip
    if len(found.refits):
        tables.append(
            _table("Answers under refitted models", ("group", "accepted", "error from rows", "error from models"), [
                [name, _percent(line["chance"]), _text(line["se_rows"], 2), _text(line["se_models"], 2)]
                for name, line in found.refits.iterrows()
            ])
        )  # fmt: skip
    return _section("Fairness", found.sentences, tables)


def _show_review(found: Review) -> dict[str, Any]:
    counts = [[kind, f"{count:,}"] for kind, count in found.counts.items() if count]
    affected = [
        [label, line["kind"], _text(line["output_row"]), _text(line["output_answer"]), line["changes"] or "–"]
        for label, line in found.to_notify.iterrows()
    ]
    tables = [_table("What has become of the rows", ("kind", "rows"), counts)]
    if found.groups is not None:
        tables.append(
            _table("Answers that still hold, by group", ("group", "rows", "answers still needed", "still served"), [
                [name, f"{line['rows']:,.0f}", f"{line['needed']:,.0f}",
                 _interval(line["served"], line["low"], line["high"], (0.0, 1.0), percent=True)]
                for name, line in found.groups.iterrows()
            ])
        )  # fmt: skip
    if affected:
        heads = ("row", "kind", "output now", "output of the answer", "what the answer was")
        tables.append(_table("Who must be notified", heads, affected))
    return _section("Answers under today's model", found.sentences, tables)


def _show_plans(plans: Mapping[Any, Plan]) -> dict[str, Any]:
    listed = [
        {"name": printable(f"Row {label}: {len(plan)} step{'s' * (len(plan) != 1)}, cost {_text(plan.cost)}"),
         "steps": [printable(one) for one in plan.sentences], "note": printable(plan.note)}
        for label, plan in plans.items()
    ]  # fmt: skip
    return _section("Plans, step by step", [], plans=listed)


# --- page ------------------------------------------------------------------------------------------------------------


def policy_page(policies: Any) -> str:
    """Return a page of decisions about many rows alone, without the rows."""
    sections = policy_sections(policies)
    if not sections:
        raise ValueError(
            "there is nothing to show: give the result of gbce.policy.review, fairness, actions or allocate"
        )
    payload = {"kind": "policy", "version": gbce.__version__, "sections": sections}
    scripts, styles = ["common.js", "policy.js", "policy_page.js"], ["page.css", "table.css", "policy.css"]
    return build_page(sections[0]["title"], payload, scripts, styles, UNFILLED)
