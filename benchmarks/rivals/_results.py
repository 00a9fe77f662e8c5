"""The lines of a run as one table, and what they add up to: means with intervals over rows, and who beats whom."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from benchmarks.rivals._judge import Judged
from benchmarks.rivals._measures import MEASURES
from benchmarks.rivals._methods import METHODS

__all__ = [
    "ANSWERS",
    "FIGURES",
    "beaten",
    "lines_of",
    "mean_interval",
    "measured",
    "notes_of",
    "sayings_of",
    "summed_up",
]

FIGURES = ("l1", "l2", "changed", "broken", "far", "survival", "bootstrap", "seed", "deletion", "label_noise",
           "other_learners", "noise", "seconds", "model_rows")  # fmt: skip
_LEVEL = 0.95  # of intervals
_CLOSE = 1e-6  # of a range or a share: what counts as equal


def _files(folder: Path) -> list[dict]:
    """Return what is on file, in the order of the list of methods."""
    order = {one.name: i for i, one in enumerate(METHODS)}
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / "cells").glob("*.json"))]
    return sorted(found, key=lambda one: order.get(one["method"], len(order)))


def lines_of(folder: Path) -> pd.DataFrame:
    """Return one line for each answer, and one for each row that a method has none for."""
    files = [one for one in _files(folder) if one["method"] not in MEASURES]
    found = [
        {"table": one["table"], "model": one["model"], "method": one["method"], **line}
        for one in files
        for line in _every_row(one["lines"], _answers_of(files, one["method"]))
    ]
    columns = ["table", "model", "method", "answer", "row", "seconds", "model_rows", *Judged.__annotations__]
    frame = pd.DataFrame(found, columns=columns)
    frame["valid"] = frame["valid"].astype("boolean").fillna(False).astype(bool)
    return frame.assign(name=[_name(*pair) for pair in zip(frame["method"], frame["answer"], strict=True)])


def _answers_of(files: Sequence[dict], method: str) -> list[str]:
    """Return the names of all answers that a method gave anywhere; its own, which has none, where it gave none."""
    given = [line["answer"] for one in files if one["method"] == method for line in one["lines"] if "valid" in line]
    return list(dict.fromkeys(given)) or [""]


def _every_row(lines: Sequence[dict], answers: Sequence[str]) -> list[dict]:
    """Return lines with one for each row and name of an answer: what was not found there counts as not valid."""
    facts = {line["row"]: {name: line.get(name) for name in ("row", "seconds", "model_rows")} for line in lines}
    given = {(line["row"], line["answer"]): line for line in lines if "valid" in line}
    return [given.get((row, name), {**fact, "answer": name}) for row, fact in facts.items() for name in answers]


def sayings_of(folder: Path) -> pd.DataFrame:
    """Return what methods said of their own answers, without its numbers, and of how many rows."""
    found: dict[tuple[str, str], set[tuple[str, str, int]]] = {}
    for one in _files(folder):
        for line in one["lines"]:
            words = re.sub(r"-?\d[\d.,]*(e[-+]?\d+)?", "…", line.get("said", ""))
            if words:
                found.setdefault((one["method"], words), set()).add((one["table"], one["model"], line["row"]))
    return pd.DataFrame([(*key, len(rows)) for key, rows in found.items()], columns=["method", "words", "rows"])


def measured(folder: Path, name: str) -> pd.DataFrame:
    """Return the lines of a measure, with the table and the model of each."""
    found = [one for one in _files(folder) if one["method"] == name]
    return pd.DataFrame(
        [{"table": one["table"], "learner": one["model"], **line} for one in found for line in one["lines"]]
    )


def _name(method: str, answer: str) -> str:
    labels = {one.name: one.label for one in METHODS}
    return labels.get(method, method) + (f": {answer}" if answer else "")


def notes_of(folder: Path) -> dict[tuple[str, str], list[str]]:
    """Return what methods could not do: method and note to the tables and models where."""
    notes: dict[tuple[str, str], list[str]] = {}
    for one in _files(folder):
        if one["note"]:
            notes.setdefault((one["method"], one["note"]), []).append(f"{one['table']}, {one['model']}")
    return notes


def mean_interval(values: Sequence[float]) -> tuple[float, float, int]:
    """Return the mean, the half width of its 95% interval by the spread over rows, and how many rows that is."""
    known = np.asarray([value for value in values if not np.isnan(value)], dtype=float)
    if len(known) == 0:
        return float("nan"), float("nan"), 0
    if len(known) == 1:
        return float(known[0]), float("nan"), 1
    quantile = stdtrit(len(known) - 1, 0.5 + _LEVEL / 2)  # Student's, since rows may be few
    return float(known.mean()), float(quantile * known.std(ddof=1) / np.sqrt(len(known))), len(known)


def summed_up(lines: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return for each group and answer how often it is valid, and how often it keeps the rules, too; means of the rest.

    Means and their half widths are over valid answers.

    Seconds and rows of the model are over all rows that the method came to.
    """
    groups = []
    for key, group in lines.groupby([*by, "name"], sort=False):
        valid = group[group["valid"]]
        line = dict(zip([*by, "name"], key if isinstance(key, tuple) else (key,), strict=True))
        line |= {
            "rows": len(group),
            "valid": float(group["valid"].mean()),
            "kept": float((valid["broken"] == 0).sum() / len(group)),
        }
        for figure in FIGURES:
            over = group if figure in ("seconds", "model_rows") else valid
            line[figure], line[f"{figure} ±"], _ = mean_interval(over[figure].to_list())
        groups.append(line)
    return pd.DataFrame(groups)


ANSWERS = {"answer": "gbce", "ranges": "gbce, ranges", "refits, ranges": "gbce, refits, ranges"}
"""Which answers of gbce's are set against a rival's, by the method that gives them."""


def beaten(lines: pd.DataFrame, price: str = "l1") -> pd.DataFrame:
    """Return for each rival's answer the share of rows in which gbce beats it in cost and survival, and is beaten.

    A point beats another if it is at least as good in both and better in one. Rows are those in which the rival's
    answer is valid and keeps the rules, and gbce was asked, too: where gbce has no such answer it beats nobody, and is
    beaten. "some decision" is any of gbce's decisions and frontier points; of its answers there is one with its
    own units, one priced by ranges, and one priced by ranges that is to survive refits.
    """
    own = {one.name for one in METHODS if one.kind == "own"}
    judged = lines[lines["survival"].notna() | ~lines["valid"]]
    judged = judged.assign(usable=judged["valid"] & (judged["broken"] == 0))
    places = ["table", "model", "row"]
    ours = {key: group for key, group in judged[judged["method"].isin(own)].groupby(places)}
    rivals = judged[judged["usable"] & ~judged["method"].isin(own)]
    found = []
    for name, group in rivals.groupby("name", sort=False):
        won: dict[str, list[bool]] = {"some decision": []}
        for place, theirs in zip(group[places].itertuples(index=False, name=None), group.itertuples(), strict=True):
            if place not in ours:
                continue
            mine = ours[place]
            cost, survival = getattr(theirs, price), theirs.survival
            better = mine["usable"] & _beats(mine[price], mine["survival"], cost, survival)
            worse = ~mine["usable"] | _beats(cost, survival, mine[price], mine["survival"])
            won["some decision"].append(bool(better.any()))
            for what, method in ANSWERS.items():
                is_answer = (mine["method"] == method) & (mine["answer"] == "")
                if is_answer.any():
                    won.setdefault(what, []).append(bool(better[is_answer].any()))
                    won.setdefault(f"{what} beaten", []).append(bool(worse[is_answer].any()))
        line = {"name": name, "rows": len(won["some decision"])}
        found.append(line | {what: float(np.mean(each)) if each else float("nan") for what, each in won.items()})
    each = [column for what in ANSWERS for column in (what, f"{what} beaten")]
    return pd.DataFrame(found, columns=["name", "rows", "some decision", *each])


def _beats(cost: Any, survival: Any, other_cost: Any, other_survival: Any) -> Any:
    """Whether points are at least as good in both, and better in one."""
    no_worse = (cost <= other_cost + _CLOSE) & (survival >= other_survival - _CLOSE)
    return no_worse & ((cost < other_cost - _CLOSE) | (survival > other_survival + _CLOSE))
