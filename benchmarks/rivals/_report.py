"""The page that a run writes: tables, and sentences that are counted, not typed."""

import platform
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._answer_sheet import markdown
from benchmarks.rivals._judge import N_NOISE, NOISE
from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._protocol import Method
from benchmarks.rivals._results import (
    ANSWERS,
    beaten,
    lines_of,
    mean_interval,
    measured,
    notes_of,
    sayings_of,
    summed_up,
)
from benchmarks.rivals.alibi import ENVIRONMENT

__all__ = ["page"]

PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "lightgbm", "cma", "pymoo", "dice-ml", "NICEx", "treecf")
_HEADS = {
    "valid": "valid", "kept": "keeps rules", "l1": "l1", "l2": "l2", "changed": "columns", "broken": "broken",
    "far": "far", "survival": "survival", "noise": "noise", "seconds": "seconds", "model_rows": "model rows",
}  # fmt: skip
_KINDS = {
    "package": "the authors' package",
    "publication": "as published",
    "reconstruction": "reconstruction",
    "own": "this library",
}
_MEANINGS = f"""
A wish is a class, or a number beyond what the model says now by a share of it. All methods are asked about the same
rows, and told the same: what each column can be, and what may change, as far as they can be told. Conditions between
columns are told to gbce and, the linear ones, to the genetic search of treecf. *valid*: the model's own `predict`
grants the wish. *keeps rules*: and it breaks no rule. *l1*: sum of changes in ranges of the data, another level is one,
of an ordinal its steps as a share of all. *l2*: in standard deviations. *broken*: rules that an answer breaks
(conditions between columns, columns that may not change, values that a column cannot have). *far*: distance to the five
nearest rows of the data, one is as usual among these. *survival*: share of changed models that still grant the wish,
which no method was shown: refits on bootstraps, other seeds, a tenth of the rows deleted, a twentieth of the outcomes
wrong, other learners; the mean of these five. *noise*: share of {N_NOISE} copies that miss the advice by up to
{NOISE:.0%} of each range to which the model still grants the wish. Means over rows with a valid answer, ± half of a 95%
interval over rows. *seconds* of one core and rows shown to models are over all rows that a method came to, without
fitting and refitting; what it prepares once it knows the wish is in its first row. Methods that read trees ask about
fewer rows.
"""
_HELD_OUT = "The rows that methods are asked about are none that the models were fitted on."
_OWN_ROWS = "The rows that methods are asked about are rows of the table, which the model may have been fitted on."
_DIFFERENT_ROWS = """
Means are over the rows with a valid answer of each method, so over different ones, here and in the tables further down:
a method that does not take a table or model, or ran out of time, is missing there. The next two sections compare the
same rows.
"""
_DUELS = """
The share of rows, among those in which the rival's answer is valid and keeps the rules, in which a point of gbce's
costs no more (l1) and survives no less, and is better in one of the two; beside each, the share in which the rival's is
better in that sense. In the remaining rows one is cheaper and the other survives more. *some gbce decision*: any of
them, the frontier included. Then the answer that gbce hands over: with its own units, priced by ranges as l1 is, and
priced by ranges with refits to survive.
"""
_DISTRIBUTIONS = """
The other method that gives a distribution is that of Raman et al. 2023, whose hierarchy of population, subgroup and row
is reconstructed here, beside its lowest level alone. Of each the same number of draws: the share that reaches; the
share of a reference set of points that reach (rows of the data, and changes of few columns) with a reaching draw within
a quarter of a range (l1); sets of changed columns with at least one reaching draw in a hundred; the mean cost of
reaching draws and the least (l1, in ranges). How much the wish weighs against the distance is not published: it is one
here, and with more of it more of its draws would reach. Seconds and rows are those of a row: what the hierarchy takes
for its population is not in them.
"""
_MULTIPLICITY = """
An answer for one model may be refused by another. The average cost under the other is at most the cost of the answer
plus the share refused times the longest way on from there (reach): a bound derived here, in the spirit of Pawelczyk et
al. 2020, whose theorem is another. It holds by the triangle inequality, since one can go by way of the answer;
*measured* is the least cost found under the other model, so that the two say how loose it is. *sparse* is the nearest
point found, *data support* the nearest row of the data.
"""
_BETTER = {"valid": 1, "kept": 1, "l1": -1, "l2": -1, "changed": -1, "broken": -1, "far": -1, "survival": 1, "noise": 1,
           "seconds": -1, "model_rows": -1}  # fmt: skip
"""Whether more of a figure is better, or less."""
_MOST_PLACES = 6  # that a note names before it counts the rest


def page(folder: Path, about: Mapping[str, Any]) -> str:
    """Return the page about a run.

    Parameters
    ----------
    folder : Path
        Of the run.
    about : mapping
        Its "command", "commit", "date" and "minutes".
    """
    lines = lines_of(folder)
    return "\n".join(
        [
            "# gbce beside other methods", "",
            "This page is written by the command below, sentences about results included.", "",
            "```", about["command"], "```", "",
            *_about(lines, about, "--model" in about["command"].split()), "",
            *_methods(lines), "",
            "## All tables and models", "",
            _wrapped(_DIFFERENT_ROWS), "",
            _table(summed_up(lines, [])), "",
            *_duels(lines), "",
            *_losses(lines), "",
            *(line for name, part in _parts(lines) for line in (f"## {name}", "", _table(part), "")),
            *_survivals(lines), "",
            *_distributions(folder),
            *_multiplicity(folder),
            *_notes(folder),
        ]
    ) + "\n"  # fmt: skip


def _about(lines: pd.DataFrame, about: Mapping[str, Any], own_table: bool) -> list[str]:
    """Return what was run where, and what the figures mean."""
    tables, models = lines["table"].unique(), lines["model"].unique()
    rows = len(lines.groupby(["table", "model", "row"]))
    known = ", ".join(f"{name} {_version(name)}" for name in PACKAGES if _version(name))
    alibi = ENVIRONMENT.version("alibi")
    known += f", alibi {alibi} in an environment of its own" if alibi else ""
    return [
        _wrapped(
            f"{about['date']}, gbce at {about['commit']}, Python {platform.python_version()}, {known}. {rows} rows: "
            f"{', '.join(tables)}, each with {', '.join(models)}. It took {about['minutes']:.0f} minutes, "
            f"{about['jobs']} processes at a time."
        ),
        "",
        _wrapped(f"{_OWN_ROWS if own_table else _HELD_OUT} {_MEANINGS}"),
    ]


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _methods(lines: pd.DataFrame) -> list[str]:
    """Return the list of methods that ran."""
    seen = set(lines["method"])
    body = [[one.label, one.source, _KINDS[one.kind], _refits_of(one)] for one in METHODS if one.name in seen]
    return [
        "## Methods",
        "",
        "A reconstruction fills in what its publication does not say; its figures are not the authors'.",
        "",
        markdown(["method", "publication", "here", "refits it looks at"], body),
    ]


def _refits_of(method: Method) -> str:
    """Return how many refits a method looks at, as its options have it."""
    options = vars(method.make())
    return str(next((options[name] for name in ("n_refits", "refits", "k") if options.get(name)), "-"))


def _table(sums: pd.DataFrame) -> str:
    """Return sums as Markdown."""
    body = []
    for line in sums.to_dict("records"):
        cells = [str(line["name"]), f"{line['rows']}", f"{line['valid']:.0%}", f"{line['kept']:.0%}"]
        cells += [_with_interval(line, figure) for figure in [*_HEADS][2:]]
        body.append(cells)
    return markdown(["method", "rows", *_HEADS.values()], body)


def _with_interval(line: dict[Any, Any], figure: str) -> str:
    value, half = line[figure], line[f"{figure} ±"]
    if np.isnan(value):
        return "-"
    if figure == "model_rows":
        return f"{value:,.0f}"
    if figure == "seconds":
        return f"{value:.2g}"
    digits = 1 if figure in ("changed", "far", "l2") else 2
    return f"{value:.{digits}f}" + ("" if np.isnan(half) else f" ± {half:.{digits}f}")


def _parts(lines: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    """Return sums for each table: with one that only takes trees, over trees, beside it."""
    for name, group in lines.groupby("table", sort=False):
        yield str(name), summed_up(group, [])
    if lines["model"].nunique() > 1:
        for name, group in lines.groupby("model", sort=False):
            yield f"All tables, {name}", summed_up(group, [])


def _duels(lines: pd.DataFrame) -> list[str]:
    """Return who beats whom in cost and survival, row by row."""
    duels = beaten(lines)
    if not len(duels):
        return []
    shown = duels.drop(columns=["name", "rows"]).map(lambda share: "-" if np.isnan(share) else f"{share:.0%}")
    body = [[str(name), str(n), *cells] for name, n, cells in
            zip(duels["name"], duels["rows"], shown.to_numpy().tolist(), strict=True)]  # fmt: skip
    head = ["rival", "rows", "some gbce decision", *(one for what in ANSWERS for one in (what, "is beaten"))]
    worst = duels.sort_values("some decision").iloc[0]
    said = [f"Least often, in {worst['some decision']:.0%} of rows, some decision of gbce beats {worst['name']}."]
    for what in ANSWERS:
        winners = duels[duels[f"{what} beaten"] > duels[what]]["name"].tolist()
        which = {"answer": "gbce's answer"}.get(what, f"gbce's answer ({what})")
        said.append(f"{which} is beaten by a rival more often than it beats it: {', '.join(winners) or 'by none'}.")
    return [
        "## Cost and survival, row by row",
        "",
        _wrapped(_DUELS),
        "",
        markdown(head, body),
        "",
        *(f"- {one}" for one in said),
    ]


def _losses(lines: pd.DataFrame) -> list[str]:
    """Return in which tables and figures a rival is ahead of gbce's answer, over the rows that both have."""
    own = {one.name for one in METHODS if one.kind == "own"}
    mine = lines[lines["name"] == "gbce"]
    ahead: dict[str, dict[str, list[str]]] = {}
    for (name, rival), theirs in lines[~lines["method"].isin(own)].groupby(["table", "name"], sort=False):
        both = mine.merge(theirs, on=["table", "model", "row"], suffixes=("", " theirs"))
        for figure, sign in _BETTER.items():
            gain, half, _ = mean_interval((sign * _difference(both, figure)).to_list())
            if gain > half:
                ahead.setdefault(figure, {}).setdefault(str(rival), []).append(str(name))
    said = []
    for figure in [one for one in _BETTER if one in ahead]:
        rivals = [f"{rival} ({_listed(where)})" for rival, where in ahead[figure].items()]
        said.append(f"- {_HEADS[figure]}: {'; '.join(rivals)}")
    return [
        "## Where a rival is ahead of gbce's answer",
        "",
        _wrapped("Without refits, in the mean over the rows of a table that both were asked about (of *valid*, *keeps "
                 "rules*, *seconds* and *model rows*) or have a valid answer to (of the rest), by more than half of "
                 "the 95% interval of the mean difference."),
        "",
        *(said or ["Nowhere."]),
    ]  # fmt: skip


def _difference(both: pd.DataFrame, figure: str) -> pd.Series:
    """Return by how much a figure of the rival exceeds gbce's, in the rows in which it is one of both."""
    if figure in ("valid", "kept"):
        mine, theirs = (
            both[f"valid{whose}"] & ((both[f"broken{whose}"] == 0) | (figure == "valid")) for whose in ("", " theirs")
        )
        return theirs.astype(float) - mine.astype(float)
    over = both if figure in ("seconds", "model_rows") else both[both["valid"] & both["valid theirs"]]
    return over[f"{figure} theirs"].astype(float) - over[figure].astype(float)


def _survivals(lines: pd.DataFrame) -> list[str]:
    """Return survival by the kind of change."""
    kinds = ["bootstrap", "seed", "deletion", "label_noise", "other_learners"]
    sums = summed_up(lines, [])
    body = [[str(line["name"]), *(_with_interval(line, kind) for kind in kinds)] for line in sums.to_dict("records")]
    return ["## Survival by the kind of change", "", markdown(["method", *(k.replace("_", " ") for k in kinds)], body)]


def _distributions(folder: Path) -> list[str]:
    """Return the distributions of the same rows side by side."""
    lines = measured(folder, "distributions")
    if not len(lines):
        return []
    body = []
    for (table, name), group in lines.groupby(["table", "name"], sort=False):
        cells = [f"{group[figure].mean():.2f}" for figure in ("reached", "coverage", "modes", "cost", "nearest")]
        body.append([str(table), str(name), str(len(group)), *cells, f"{group['ess'].median():,.0f}",
                     f"{group['seconds'].mean():.2g}", f"{group['rows'].mean():,.0f}"])  # fmt: skip
    head = ["table", "method", "rows", "reached", "coverage", "modes", "cost", "nearest", "effective draws", "seconds",
            "model rows"]  # fmt: skip
    return ["## Distributions", "", _wrapped(_DISTRIBUTIONS), "", markdown(head, body), ""]


def _multiplicity(folder: Path) -> list[str]:
    """Return the bound on the cost under another model beside what was measured."""
    lines = measured(folder, "multiplicity")
    if not len(lines) or "bound" not in lines:
        return []
    lines = lines[lines["bound"].notna()]
    figures, body = ["cost", "refused", "reach", "bound", "measured"], []
    for (table, answer), group in lines.groupby(["table", "answer"], sort=False):
        cells = [f"{group[figure].mean():.2f}" for figure in figures]
        body.append([str(table), str(answer), str(len(group)), *cells])
    head = ["table", "answer", "pairs of models", *figures]
    return ["## The cost of many models", "", _wrapped(_MULTIPLICITY), "", markdown(head, body), ""]


def _notes(folder: Path) -> list[str]:
    """Return what did not run, and why."""
    said = [f"- {method}: {note} ({_listed(places)})" for (method, note), places in notes_of(folder).items()]
    words = sayings_of(folder)
    spoken = [
        f"- {method}: {text} ({n:,} {'row' if n == 1 else 'rows'})" for method, text, n in words.itertuples(index=False)
    ]
    return ["## What methods said of their answers", "", *(spoken or ["Nothing."]), "",
            "## Not run", "", *(said or ["Everything ran."])]  # fmt: skip


def _listed(places: Sequence[str]) -> str:
    more = len(places) - _MOST_PLACES
    return "; ".join(places[:_MOST_PLACES]) + (f"; and {more} more" if more > 0 else "")
