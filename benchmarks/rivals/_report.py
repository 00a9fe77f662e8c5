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
from benchmarks.rivals._results import beaten, lines_of, measured, notes_of, sayings_of, summed_up

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
    "own": "",
}
_MEANINGS = f"""
All methods are asked about the same rows, which no model was fitted on, and told the same: what each column can be, and
what may change, as far as they can be told. *valid*: the model's own `predict` grants the wish. *keeps rules*: and it
breaks no rule. *l1*: sum of changes in ranges of the data, another level is one. *l2*: in standard deviations.
*broken*: rules that an answer breaks (conditions between columns, columns that may not change, values that a column
cannot have). *far*: distance to the five
nearest rows of the data, one is as usual among these. *survival*: share of changed models that still grant the wish,
which no method was shown: refits on bootstraps, other seeds, a tenth of the rows deleted, a twentieth of the outcomes
wrong, other learners; the mean of these five. *noise*: share of {N_NOISE} copies that miss the advice by up to
{NOISE:.0%} of each range to which the model still grants the wish. Means over rows with a valid answer, ± half of a 95%
interval over rows; seconds of one core and rows shown to models, fitting and refitting left out, over all rows.
"""
_DUELS = """
The share of rows with valid answers in which a point of gbce's costs no more (l1) and survives no less, and is better
in one of the two; in the last column the other way round. In the remaining rows one is cheaper and the other survives
more.
"""
_DISTRIBUTIONS = """
The other method that gives a distribution is that of Raman et al. 2023, whose hierarchy of population, subgroup and
row is reconstructed here, beside its lowest level alone. Of each the same number of draws: the share that reaches; the
share of a reference set of points that reach (rows of the data, and changes of few columns) with a reaching draw within
a quarter of a range (l1); sets of changed columns with at least one reaching draw in a hundred; the mean cost of
reaching draws and the least (l1, in ranges). Seconds and rows are those of a row: what the hierarchy takes for its
population is not in them.
"""
_MULTIPLICITY = """
An answer for one model may be refused by another. The average cost under the other is at most the cost of the answer
plus the share refused times the longest way on from there (reach): a bound derived here, in the spirit of Pawelczyk et
al. 2020, whose theorem is another. *sparse* is the nearest point found, *data support* the nearest row of the data.
"""
_ROUNDING = 1e-9
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
            *_about(lines, about), "",
            *_methods(lines), "",
            "## All tables and models", "",
            _wrapped("A method that does not take a table or model is missing there, so these means are over different "
                     "rows; the tables further down compare like with like."), "",
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


def _about(lines: pd.DataFrame, about: Mapping[str, Any]) -> list[str]:
    tables, models = lines["table"].unique(), lines["model"].unique()
    rows = len(lines.groupby(["table", "model", "row"]))
    known = ", ".join(f"{name} {_version(name)}" for name in PACKAGES if _version(name))
    return [
        _wrapped(
            f"{about['date']}, gbce at {about['commit']}, Python {platform.python_version()}, {known}. {rows} rows: "
            f"{', '.join(tables)}, each with {', '.join(models)}. It took {about['minutes']:.0f} minutes, "
            f"{about['jobs']} processes at a time."
        ),
        "",
        _wrapped(_MEANINGS),
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
    body = [[one.label, one.source, _KINDS[one.kind]] for one in METHODS if one.name in seen and one.kind != "own"]
    return [
        "## Methods",
        "",
        "A reconstruction fills in what its publication does not say; its figures are not the authors'.",
        "",
        markdown(["method", "publication", "here"], body),
    ]


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
    head = [
        "rival",
        "rows",
        "some gbce decision",
        "gbce's answer",
        "gbce's answer, refits",
        "rival beats gbce's answer",
    ]
    worst = duels.sort_values("some decision").iloc[0]
    winners = duels[duels["beaten"] > duels["answer"]]["name"].tolist()
    said = (
        f"Least often, in {worst['some decision']:.0%} of rows, some decision of gbce beats {worst['name']}. "
        + (f"gbce's answer without refits is beaten more often than it beats: {', '.join(winners)}." if winners else
           "No rival beats gbce's answer without refits more often than it is beaten by it.")
    )  # fmt: skip
    return [
        "## Cost and survival, row by row",
        "",
        _wrapped(_DUELS),
        "",
        markdown(head, body),
        "",
        _wrapped(said),
    ]


def _losses(lines: pd.DataFrame) -> list[str]:
    """Return in which tables and figures a rival is ahead of gbce's answer, by more than both intervals."""
    better = {
        "valid": 1,
        "kept": 1,
        "l1": -1,
        "changed": -1,
        "broken": -1,
        "far": -1,
        "survival": 1,
        "noise": 1,
        "seconds": -1,
    }
    own = {one.label for one in METHODS if one.kind == "own"}
    ahead: dict[str, dict[str, list[str]]] = {}
    for name, group in lines.groupby("table", sort=False):
        sums = summed_up(group, []).set_index("name")
        if "gbce" not in sums.index:
            continue
        mine = sums.loc["gbce"]
        for rival in [one for one in sums.index if one.split(": ")[0] not in own]:
            theirs = sums.loc[rival]
            for figure, sign in better.items():
                noise = 0.0 if figure in ("valid", "kept") else np.hypot(mine[f"{figure} ±"], theirs[f"{figure} ±"])
                if sign * (theirs[figure] - mine[figure]) > noise:
                    ahead.setdefault(figure, {}).setdefault(str(rival), []).append(str(name))
    said = [f"- {_HEADS[figure]}: " + "; ".join(f"{rival} ({_listed(where)})" for rival, where in rivals.items())
            for figure, rivals in ahead.items()]  # fmt: skip
    return [
        "## Where a rival is ahead of gbce's answer",
        "",
        "Without refits, in the mean over the rows of a table, by more than the intervals of both allow for.",
        "",
        *(said or ["Nowhere."]),
    ]


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
        holds = (group["measured"] <= group["bound"] + _ROUNDING).mean()
        cells = [f"{group[figure].mean():.2f}" for figure in figures]
        body.append([str(table), str(answer), str(len(group)), *cells, f"{holds:.0%}"])
    head = ["table", "answer", "pairs of models", *figures, "bound holds"]
    return ["## The cost of many models", "", _wrapped(_MULTIPLICITY), "", markdown(head, body), ""]


def _notes(folder: Path) -> list[str]:
    """Return what did not run, and why."""
    said = [f"- {method}: {note} ({_listed(places)})" for (method, note), places in notes_of(folder).items()]
    words = sayings_of(folder)
    spoken = [f"- {method}: {text} ({n:,} rows)" for method, text, n in words.itertuples(index=False)]
    return ["## What methods said of their answers", "", *(spoken or ["Nothing."]), "",
            "## Not run", "", *(said or ["Everything ran."])]  # fmt: skip


def _listed(places: Sequence[str]) -> str:
    more = len(places) - _MOST_PLACES
    return "; ".join(places[:_MOST_PLACES]) + (f"; and {more} more" if more > 0 else "")
