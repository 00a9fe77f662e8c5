"""The page about a run and the tables beside it: figures and sentences that are counted, not typed."""

import json
import platform
import textwrap
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._documents import markdown, read_csv, write_csv
from benchmarks.rivals._judge import N_NOISE, NOISE
from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._picture import CAPTION
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

__all__ = ["FILES", "facts_of", "page", "read_tables", "tables_of", "write_tables"]

FILES = "results/comparison"  # beside the page
PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "lightgbm", "cma", "pymoo", "dice-ml", "NICEx", "treecf")
_HEADS = {
    "valid": "valid", "kept": "keeps rules", "l1": "l1", "l2": "l2", "changed": "columns", "broken": "broken",
    "far": "far", "survival": "survival", "noise": "noise", "seconds": "seconds", "model_rows": "model rows",
}  # fmt: skip
_SHOWN = ("rows", "keeps rules", "l1", "survival", "seconds")  # on the page; all others are in the file
_KINDS = {
    "package": "the authors' package",
    "publication": "as published",
    "reconstruction": "reconstruction",
    "own": "this library",
}
_SHORT = """
All methods get the same rows, targets and what each column may become, as far as they can be told. *keeps rules*: share
of rows with an answer that the model's own `predict` accepts and that breaks no constraint. *l1*: sum of changes, in
ranges of the data. *survival*: share of refitted and retrained models, unseen by every method, that accept the answer.
*seconds* of one core per row. A reconstruction fills in what its publication leaves open; its figures are not the
authors'.
"""
_COLUMNS = f"""
A target is a class, or the model's current output raised or lowered by a fixed percentage. Constraints between columns
are given to gbce and, the linear ones, to the genetic search of treecf. A reconstruction fills in what its publication
leaves open; its figures are not the authors'.

all.csv, by-table.csv, by-model.csv: *valid*, share of rows with an answer that the model's own predict accepts; *keeps
rules*, and that breaks no rule; *l1*, sum of changes in ranges of the data (another level counts one, an ordinal its
steps as a share of all); *l2*, in standard deviations; *columns*, how many change; *broken*, rules that an answer
breaks (constraints between columns, immutable columns, impossible values); *far*, distance to the five nearest rows of
the data over what is usual among these; *survival*, share of changed models that accept the answer, unseen by every
method: refits on bootstraps, other seeds, a tenth of the rows deleted, a twentieth of the outcomes wrong, other
learners, the mean of these five (each by itself in survival.csv); *noise*, share of {N_NOISE} copies, each off by up to
{NOISE:.0%} of each range, that the model accepts. Means over rows with a valid answer, ± half of a 95% interval over
rows. *seconds* of one core and *model rows* are over all rows that a method was given, without fitting and refitting;
preparation for a target is in its first row. Methods that read trees need fewer model rows.

row-by-row.csv: among the rows in which the rival's answer is valid and keeps the rules, the share in which a point of
gbce costs no more (l1), survives no less and is better in one of the two; "beaten" is the share in which the rival's is
better in that sense. "some gbce decision" is any of them, the frontier included; "answer" is gbce's answer in its own
units, "ranges" priced by ranges as l1 is, "refits, ranges" also with refits to survive.

ahead.csv: where a rival is ahead of gbce's answer without refits, in the mean over the rows of a table that both were
asked about (valid, keeps rules, seconds, model rows) or have a valid answer to (all others), by more than half of the
95% interval of the mean difference.

distributions.csv: gbce beside the hierarchy of Raman et al. 2023 (population, subgroup, row), reconstructed, and beside
its lowest level alone, with the same number of draws. *reached*, share of draws; *coverage*, share of a reference set
of points that reach (rows of the data, and changes of few columns) with a reaching draw within a quarter of a range
(l1); *modes*, sets of changed columns with at least one reaching draw in a hundred; *cost* and *nearest*, mean and
least cost of reaching draws. How much the target weighs against the distance is not published: it is one here, and with
more weight more draws would reach. Seconds and rows are per row, without what the hierarchy needs for its population.

many-models.csv: an answer for one model may be refused by another. The average cost under the other is at most the cost
of the answer plus the share refused times the longest way on (reach), by the triangle inequality: a bound derived here,
in the spirit of Pawelczyk et al. 2020, whose theorem is another. *measured* is the least cost found under the other
model. *sparse* is the nearest point found, *data support* the nearest row of the data.

said.csv: what methods stated about their answers, without numbers. not-run.csv: what did not run, and why.
"""
_HELD_OUT = "All rows are held out from fitting."
_OWN_ROWS = "The rows are rows of the table, which the model may have been fitted on."
_HOW_TO_RUN = """
`make benchmark`, in minutes with `FLAGS=--fast`; on your own model and table with `FLAGS="--model model.joblib --data
table.csv --outcome class --label good"`.
"""
_BETTER = {"valid": 1, "kept": 1, "l1": -1, "l2": -1, "changed": -1, "broken": -1, "far": -1, "survival": 1, "noise": 1,
           "seconds": -1, "model_rows": -1}  # fmt: skip
"""Whether more of a figure is better, or less."""
_MOST_NAMES = 3  # that a sentence names before it counts the rest

Tables = dict[str, pd.DataFrame]
"""Tables of strings, by the names of their files."""


def tables_of(folder: Path) -> Tables:
    """Return all tables about a run."""
    lines = lines_of(folder)
    found = {
        "methods": _methods(lines),
        "all": _sums(summed_up(lines, [])),
        "by-table": _grouped(lines, "table"),
        "by-model": _grouped(lines, "model"),
        "row-by-row": _duels(lines),
        "ahead": _ahead(lines),
        "survival": _survivals(lines),
        "distributions": _distributions(folder),
        "many-models": _multiplicity(folder),
        "said": _sayings(folder),
        "not-run": _notes(folder),
    }
    return {name: table for name, table in found.items() if len(table)}


def facts_of(folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was run where: the "command", "commit", "date", "minutes" and "jobs" of a run, and its size."""
    lines = lines_of(folder)
    known = {name: _version(name) for name in PACKAGES if _version(name)}
    alibi = ENVIRONMENT.version("alibi")
    return {
        **about,
        "rows": len(lines.groupby(["table", "model", "row"])),
        "tables": lines["table"].unique().tolist(),
        "models": lines["model"].unique().tolist(),
        "versions": {"Python": platform.python_version(), **known, **({"alibi": alibi} if alibi else {})},
    }


def write_tables(folder: Path, tables: Tables, facts: Mapping[str, Any]) -> None:
    """Write tables as CSV files, the facts of the run and the meaning of all columns."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.csv"):
        stale.unlink()
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", list(table.columns), table.to_numpy().tolist())
    (folder / "about.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    paragraphs = [_wrapped(part) for part in _COLUMNS.strip().split("\n\n")]
    (folder / "columns.txt").write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")


def read_tables(folder: Path) -> tuple[Tables, dict[str, Any]]:
    """Return the tables and the facts that ``write_tables`` wrote."""
    tables = {path.stem: pd.DataFrame(read_csv(path)) for path in folder.glob("*.csv")}
    return tables, json.loads((folder / "about.json").read_text(encoding="utf-8"))


def page(tables: Tables, facts: Mapping[str, Any], picture: str) -> str:
    """Return the page about a run, from its tables and facts alone.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Of ``tables_of`` or ``read_tables``.
    facts : mapping
        Of ``facts_of``.
    picture : str
        Where the picture is, seen from the page.
    """
    own_table = "--model" in facts["command"].split()
    rivals = sum(tables["methods"]["here"] != _KINDS["own"])
    return "\n".join(
        [
            "# gbce beside other methods", "",
            _wrapped(f"What does an answer cost, does it keep the rules, and does it survive a change of the model? "
                     f"gbce and {rivals} other methods on the same rows. This page is written, sentences about "
                     "results included, by:"), "",
            "```", facts["command"], "```", "",
            _wrapped(f"{facts['date']}, gbce at {facts['commit']}, versions in [about.json]({FILES}/about.json). "
                     f"{facts['rows']} rows: {', '.join(facts['tables'])}, each with {', '.join(facts['models'])}; "
                     f"{facts['minutes']:.0f} minutes."), "",
            _wrapped(f"{_OWN_ROWS if own_table else _HELD_OUT} {_SHORT}"), "",
            f"![Cost against survival]({picture})", "", _wrapped(CAPTION), "",
            "## All tables and models", "",
            _wrapped(f"First answers; means over each method's own valid ones, so over different rows. All answers, "
                     f"columns and intervals: [all.csv]({FILES}/all.csv)."), "",
            _overview(tables["all"]), "",
            *_row_by_row(tables), "",
            *_where_ahead(tables, facts), "",
            "## All tables", "",
            _wrapped(f"CSV files in `docs/{FILES}`; [columns.txt]({FILES}/columns.txt) explains their "
                     "columns."), "",
            "## How to run it", "",
            _wrapped(_HOW_TO_RUN),
        ]
    ) + "\n"  # fmt: skip


def _overview(sums: pd.DataFrame) -> str:
    """Return the first answer of each method as Markdown, without intervals."""
    first = sums[~sums["method"].str.split(": ").str[0].duplicated()]
    shown = first[["method", *_SHOWN]].map(lambda cell: cell.split(" ± ")[0])
    return markdown(list(shown.columns), shown.to_numpy().tolist())


def _row_by_row(tables: Tables) -> list[str]:
    """Return sentences on who beats whom in cost and survival."""
    if "row-by-row" not in tables:
        return []
    duels = tables["row-by-row"]
    best = duels.assign(share=[_share(cell) for cell in duels["some gbce decision"]]).sort_values("share")
    least, most = best.iloc[0], best.iloc[-1]
    said = [
        f"Some decision of gbce wins in {least['share']:.0%} ({least['rival']}) to {most['share']:.0%} "
        f"({most['rival']}) of rows."
    ]
    for what in ANSWERS:
        pairs = zip(duels["rival"], duels[what], duels[f"{what} beaten"], strict=True)
        winners = [rival for rival, won, lost in pairs if _share(lost) > _share(won)]
        which = {"answer": "gbce's answer"}.get(what, f"gbce's answer ({what})")
        said.append(f"{which} loses to {len(winners)} of {len(duels)} more often than it wins{_named(winners)}.")
    return [
        "## Cost and survival, row by row",
        "",
        _wrapped(f"A point wins if it costs no more, survives no less and is better in one of the two "
                 f"([row-by-row.csv]({FILES}/row-by-row.csv))."),
        "",
        *(f"- {one}" for one in said),
    ]  # fmt: skip


def _share(cell: str) -> float:
    return float("nan") if cell == "-" else float(cell.removesuffix("%")) / 100


def _named(names: Sequence[str]) -> str:
    """Return the first few names after a colon, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return (": " if names else "") + "; ".join(names[:_MOST_NAMES]) + (f"; {more} more" if more > 0 else "")


def _where_ahead(tables: Tables, facts: Mapping[str, Any]) -> list[str]:
    """Return sentences on the figures in which rivals are ahead of gbce's answer."""
    head = ["## Where a rival is ahead of gbce's answer", ""]
    if "ahead" not in tables:
        return [*head, "Nowhere."]
    half = len(facts["tables"]) / 2
    said = []
    for figure, group in tables["ahead"].groupby("figure", sort=False):
        mostly = [rival for rival, where in zip(group["rival"], group["tables"], strict=True)
                  if len(where.split("; ")) > half]  # fmt: skip
        said.append(f"- {figure}: {len(group)} on some, {len(mostly)} on most{_named(mostly)}")
    lead = (
        f"Answers of rivals that are better in the mean over the same rows, on some of the {len(facts['tables'])} "
        f"tables and on more than half ([ahead.csv]({FILES}/ahead.csv)):"
    )
    return [*head, _wrapped(lead), "", *said]


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _methods(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the methods that ran."""
    seen = set(lines["method"])
    body = [[one.label, one.source, _KINDS[one.kind], _refits_of(one)] for one in METHODS if one.name in seen]
    return pd.DataFrame(body, columns=["method", "publication", "here", "refits"])


def _refits_of(method: Method) -> str:
    """Return how many refits a method uses, as its options have it."""
    options = vars(method.make())
    return str(next((options[name] for name in ("n_refits", "refits", "k") if options.get(name)), "-"))


def _sums(sums: pd.DataFrame) -> pd.DataFrame:
    """Return sums as strings."""
    body = []
    for line in sums.to_dict("records"):
        cells = [str(line["name"]), f"{line['rows']}", f"{line['valid']:.0%}", f"{line['kept']:.0%}"]
        cells += [_with_interval(line, figure) for figure in [*_HEADS][2:]]
        body.append(cells)
    return pd.DataFrame(body, columns=["method", "rows", *_HEADS.values()])


def _with_interval(line: dict[Any, Any], figure: str) -> str:
    value, half = line[figure], line[f"{figure} ±"]
    if np.isnan(value):
        return "-"
    if figure == "model_rows":
        return f"{value:.0f}"
    if figure == "seconds":
        return f"{value:.2g}"
    digits = 1 if figure in ("changed", "far", "l2") else 2
    return f"{value:.{digits}f}" + ("" if np.isnan(half) else f" ± {half:.{digits}f}")


def _grouped(lines: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return sums for each table or model."""
    parts = []
    for name, group in lines.groupby(by, sort=False):
        part = _sums(summed_up(group, []))
        part.insert(0, by, str(name))
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _duels(lines: pd.DataFrame) -> pd.DataFrame:
    """Return who beats whom in cost and survival, row by row."""
    duels = beaten(lines)
    shares = duels.drop(columns=["name", "rows"]).map(lambda share: "-" if np.isnan(share) else f"{share:.0%}")
    shares = shares.rename(columns={"some decision": "some gbce decision"})
    shares.insert(0, "rival", duels["name"].astype(str))
    shares.insert(1, "rows", duels["rows"].astype(str))
    return shares


def _ahead(lines: pd.DataFrame) -> pd.DataFrame:
    """Return in which figures and tables a rival is ahead of gbce's answer, over the rows that both have."""
    own = {one.name for one in METHODS if one.kind == "own"}
    mine = lines[lines["name"] == "gbce"]
    ahead: dict[str, dict[str, list[str]]] = {figure: {} for figure in _BETTER}
    for (name, rival), theirs in lines[~lines["method"].isin(own)].groupby(["table", "name"], sort=False):
        both = mine.merge(theirs, on=["table", "model", "row"], suffixes=("", " theirs"))
        for figure, sign in _BETTER.items():
            gain, half, _ = mean_interval((sign * _difference(both, figure)).to_list())
            if gain > half:
                ahead[figure].setdefault(str(rival), []).append(str(name))
    body = [
        [_HEADS[figure], rival, "; ".join(where)] for figure, rivals in ahead.items() for rival, where in rivals.items()
    ]
    return pd.DataFrame(body, columns=["figure", "rival", "tables"])


def _difference(both: pd.DataFrame, figure: str) -> pd.Series:
    """Return by how much a figure of the rival exceeds gbce's, in the rows in which it is one of both."""
    if figure in ("valid", "kept"):
        mine, theirs = (
            both[f"valid{whose}"] & ((both[f"broken{whose}"] == 0) | (figure == "valid")) for whose in ("", " theirs")
        )
        return theirs.astype(float) - mine.astype(float)
    over = both if figure in ("seconds", "model_rows") else both[both["valid"] & both["valid theirs"]]
    return over[f"{figure} theirs"].astype(float) - over[figure].astype(float)


def _survivals(lines: pd.DataFrame) -> pd.DataFrame:
    """Return survival by the kind of change."""
    kinds = ["bootstrap", "seed", "deletion", "label_noise", "other_learners"]
    sums = summed_up(lines, [])
    body = [[str(line["name"]), *(_with_interval(line, kind) for kind in kinds)] for line in sums.to_dict("records")]
    return pd.DataFrame(body, columns=["method", *(kind.replace("_", " ") for kind in kinds)])


def _distributions(folder: Path) -> pd.DataFrame:
    """Return the distributions of the same rows side by side."""
    lines = measured(folder, "distributions")
    body = []
    for (table, name), group in lines.groupby(["table", "name"], sort=False) if len(lines) else ():
        cells = [f"{group[figure].mean():.2f}" for figure in ("reached", "coverage", "modes", "cost", "nearest")]
        body.append([str(table), str(name), str(len(group)), *cells, f"{group['ess'].median():.0f}",
                     f"{group['seconds'].mean():.2g}", f"{group['rows'].mean():.0f}"])  # fmt: skip
    head = ["table", "method", "rows", "reached", "coverage", "modes", "cost", "nearest", "effective draws", "seconds",
            "model rows"]  # fmt: skip
    return pd.DataFrame(body, columns=head)


def _multiplicity(folder: Path) -> pd.DataFrame:
    """Return the bound on the cost under another model beside what was measured."""
    lines = measured(folder, "multiplicity")
    lines = lines[lines["bound"].notna()] if "bound" in lines else lines[:0]
    figures, body = ["cost", "refused", "reach", "bound", "measured"], []
    for (table, answer), group in lines.groupby(["table", "answer"], sort=False) if len(lines) else ():
        cells = [f"{group[figure].mean():.2f}" for figure in figures]
        body.append([str(table), str(answer), str(len(group)), *cells])
    return pd.DataFrame(body, columns=["table", "answer", "pairs of models", *figures])


def _sayings(folder: Path) -> pd.DataFrame:
    """Return what methods stated about their answers."""
    return sayings_of(folder).astype(str)


def _notes(folder: Path) -> pd.DataFrame:
    """Return what did not run, and why."""
    body = [[method, note, "; ".join(places)] for (method, note), places in notes_of(folder).items()]
    return pd.DataFrame(body, columns=["method", "note", "where"])
