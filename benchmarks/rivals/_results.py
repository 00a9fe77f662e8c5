"""The lines of a run as one table, and what they add up to: means with intervals over rows, and who beats whom."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.rivals._judge import Judged
from benchmarks.rivals._measures import MEASURES
from benchmarks.rivals._methods import METHODS

__all__ = ["FIGURES", "beaten", "lines_of", "mean_interval", "measured", "notes_of", "sayings_of", "summed_up"]

FIGURES = ("l1", "l2", "changed", "broken", "far", "survival", "bootstrap", "seed", "deletion", "label_noise",
           "other_learners", "noise", "seconds", "model_rows")  # fmt: skip
_Z = 1.96  # intervals of 95%
_CLOSE = 1e-6  # of a range or a share: what counts as equal


def _files(folder: Path) -> list[dict]:
    """Return what is on file, in the order of the list of methods."""
    order = {one.name: i for i, one in enumerate(METHODS)}
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / "cells").glob("*.json"))]
    return sorted(found, key=lambda one: order.get(one["method"], len(order)))


def lines_of(folder: Path) -> pd.DataFrame:
    """Return one line for each answer, and one for each row that a method has none for."""
    found = [
        {"table": one["table"], "model": one["model"], "method": one["method"], **line}
        for one in _files(folder)
        if one["method"] not in MEASURES
        for line in one["lines"]
    ]
    columns = ["table", "model", "method", "answer", "row", "seconds", "model_rows", *Judged.__annotations__]
    frame = pd.DataFrame(found, columns=columns)
    frame["valid"] = frame["valid"].astype("boolean").fillna(False).astype(bool)
    return frame.assign(name=[_name(*pair) for pair in zip(frame["method"], frame["answer"], strict=True)])


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
    half = _Z * known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else float("nan")
    return float(known.mean()), float(half), len(known)


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


def beaten(lines: pd.DataFrame, price: str = "l1") -> pd.DataFrame:
    """Return for each rival's answer the share of rows in which gbce beats it in cost and survival, and is beaten.

    A point beats another if it is at least as good in both and better in one; rows are those in which the rival's
    answer is valid and gbce has a valid one. "some gbce decision" is any of gbce's decisions and frontier points,
    "the answer" the one that gbce hands over, without refits and with them.
    """
    own = {one.name for one in METHODS if one.kind == "own"}
    good = lines[lines["valid"] & lines["survival"].notna()]
    places = ["table", "model", "row"]
    ours = {key: group for key, group in good[good["method"].isin(own)].groupby(places)}
    found = []
    for name, group in good[~good["method"].isin(own)].groupby("name", sort=False):
        won: dict[str, list[bool]] = {"some decision": [], "answer": [], "answer, refits": [], "beaten": []}
        for place, theirs in zip(group[places].itertuples(index=False, name=None), group.itertuples(), strict=True):
            if place not in ours:
                continue
            mine = ours[place]
            better = _beats(mine[price], mine["survival"], getattr(theirs, price), theirs.survival)
            won["some decision"].append(bool(better.any()))
            for what, method in (("answer", "gbce"), ("answer, refits", "gbce, refits")):
                is_answer = (mine["method"] == method) & (mine["answer"] == "")
                if is_answer.any():
                    won[what].append(bool(better[is_answer].any()))
            is_answer = (mine["method"] == "gbce") & (mine["answer"] == "")
            if is_answer.any():
                one = mine[is_answer].iloc[0]
                won["beaten"].append(bool(_beats(getattr(theirs, price), theirs.survival, one[price], one["survival"])))
        line = {"name": name, "rows": len(won["some decision"])}
        found.append(line | {what: float(np.mean(each)) if each else float("nan") for what, each in won.items()})
    return pd.DataFrame(found, columns=["name", "rows", "some decision", "answer", "answer, refits", "beaten"])


def _beats(cost, survival, other_cost, other_survival):  # type: ignore[no-untyped-def]
    """Whether points are at least as good in both, and better in one."""
    no_worse = (cost <= other_cost + _CLOSE) & (survival >= other_survival - _CLOSE)
    return no_worse & ((cost < other_cost - _CLOSE) | (survival > other_survival + _CLOSE))
