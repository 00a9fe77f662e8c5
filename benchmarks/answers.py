"""The first answer, beside peers: whether the model grants it, what it costs, and whether it can be.

Fifty rows of each of ten tables and three models, with nothing said about the columns. gbce is asked three times: as a
new user would (its answer, and the nearest point of the same explanation), for an answer without a posterior, and for
the nearest point alone, with ranges as units, which is the price that is measured. Peers are priced by ranges where
they take a price. All methods answer a row one after the other, so that their seconds, which are those of one core, can
be compared; rows that a method shows to the model are counted.

Columns: *valid* by the model's own ``predict``; *l1* in ranges of the data, medians over valid answers; *outside*,
values more than a tenth of the range beyond the data, or levels never seen; *fractions*, values that are no integers in
integer columns; *s*, CPU seconds; *s, ratio*, in units of those of ``gbce Nearest, ranges`` on the same row. ``gbce
answer`` and ``gbce Nearest`` come from one default explanation and cost the same; the answer is reliable under noise,
and pays for it. ``gbce answer alone`` is ``explain(..., posterior=False)``. ``gbce Nearest, ranges`` is the nearest
point by ranges, as NICE and treecf price it.
"""

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks._answer_judge import Columns, judge
from benchmarks._answer_methods import METHODS, PEERS, Answers, Given
from benchmarks._answer_report import per_group, summary
from benchmarks._answer_sheet import Sheet
from benchmarks._answer_tables import MODELS, TABLES, Table, case_of, rows_of
from benchmarks._clock import at_most
from benchmarks._documents import add_docs_option, current_commit, write_results
from benchmarks._peers import CannotRunError
from benchmarks._real_tables import Case
from benchmarks._wheels import MissingWheelError

USUAL = [name for name in METHODS if name != "treecf exact"]
PATIENCE = 60.0  # seconds of one core for a row
MOST_SECONDS = 120.0  # of one core, for a peer on a table and a model; one that needs more gets fewer rows


@dataclass(frozen=True)
class Line:
    """One answer of one method for one row."""

    table: str
    model: str
    row: int
    method: str
    answered: bool
    valid: bool
    l1: float
    changed: int
    outside: int
    fractions: int
    seconds: float
    model_rows: int
    note: str


class Patience(TimeoutError):
    """A row took too long."""


Note = tuple[str, str, str]  # what, on which table, and for which model and row of it
NAMES = {
    "gbce": ("gbce answer", "gbce Nearest"),
    "gbce without posterior": ("gbce answer alone",),
    "gbce by ranges": ("gbce Nearest, ranges",),
}


def answered(case: Case, columns: Columns, answers: Answers, row: pd.DataFrame, seed: int) -> dict[str, dict[str, Any]]:
    """Ask a method about a row, and judge what it gives."""
    start = time.process_time()
    with at_most(PATIENCE, Patience(f"a row was not done after {PATIENCE:g} s")):
        given = answers(row, seed)
    seconds = time.process_time() - start
    return {name: _judged(case, columns, one, row) | {"seconds": seconds} for name, one in given.items()}


def _judged(case: Case, columns: Columns, given: Given, row: pd.DataFrame) -> dict[str, Any]:
    found = {"model_rows": given.model_rows, "note": given.note}
    if given.answer is None:
        return _nothing() | found
    return {"answered": True} | asdict(judge(case, columns, given.answer, row)) | found


def _nothing(note: str = "") -> dict[str, Any]:
    return {
        "answered": False, "valid": False, "l1": float("nan"), "changed": 0, "outside": 0, "fractions": 0,
        "seconds": 0.0, "model_rows": 0, "note": note,
    }  # fmt: skip


def run(name: str, model: str, table: Table, methods: Sequence[str], n: int, sheet: Sheet) -> Iterator[Note]:
    """Ask all methods about the rows of a table; what went wrong comes back, and where."""
    case = case_of(table, model)
    columns = Columns.of(table.X)
    ready: dict[str, Answers] = {}
    for method in methods:
        try:
            ready[method] = METHODS[method](case)
        except CannotRunError as error:
            yield f"{method} {error}", name, model
        except Exception as error:  # a method that breaks is a finding, not the end of the run
            yield f"{method}: {_said(error)}", name, model
    rows = rows_of(case, n)
    done = {(line["row"], line["method"]) for line in sheet.where(table=name, model=model)}
    for i in range(len(rows)):
        row, label = rows.iloc[[i]], int(rows.index[i])
        for method, answers in ready.items():
            lines = NAMES.get(method, (method,))
            if all((label, one) in done for one in lines):
                continue
            if method in PEERS and _spent(sheet, name, model, method) >= MOST_SECONDS:
                continue
            start = time.process_time()
            try:
                found = answered(case, columns, answers, row, i)
            except Exception as error:
                took = time.process_time() - start
                found = {one: _nothing(_said(error)) | {"seconds": took} for one in lines}
                yield f"{method}: {_said(error)}", name, f"{model}, row {label}"
            for one, figures in found.items():
                sheet.add(Line(name, model, label, one, **figures))


def _spent(sheet: Sheet, table: str, model: str, method: str) -> float:
    return sum(line["seconds"] for line in sheet.where(table=table, model=model, method=method))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:150]}".replace("\n", " ")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", nargs="+", choices=[*TABLES], default=[*TABLES], help="which tables")
    parser.add_argument("--models", nargs="+", choices=[*MODELS], default=[*MODELS], help="which models")
    parser.add_argument("--methods", nargs="+", choices=[*METHODS], default=USUAL, help="which methods")
    parser.add_argument("--rows", type=int, default=50, help="rows of each table and model")
    parser.add_argument("--csv", type=Path, help="where each line is written as soon as it is there")
    parser.add_argument("--resume", action="store_true", help="go on from the lines in that file")
    parser.add_argument("--by", nargs="+", choices=["table", "model"], default=["table"], help="groups of the table")
    parser.add_argument("--only-report", action="store_true", help="the report of the lines in that file")
    add_docs_option(parser)
    options = parser.parse_args(arguments)
    sheet = Sheet(Line, options.csv, resume=options.resume or options.only_report)
    notes: list[Note] = []
    for name in () if options.only_report else options.tables:
        try:
            table = TABLES[name]()
        except MissingWheelError as error:
            notes.append((f"left out: {error}", name, ""))
            continue
        for model in options.models:
            notes += run(name, model, table, options.methods, options.rows, sheet)
    text = report(sheet.frame, options.by, notes)
    print(text)
    if options.docs:
        write_results("answers", f"{text}\n- Commit {current_commit()}.", __doc__)


def report(lines: pd.DataFrame, by: Sequence[str], notes: Sequence[Note] = ()) -> str:
    """Return everything that a run has to say."""
    where: dict[str, dict[str, list[str]]] = {}
    for note, table, place in notes:
        where.setdefault(note, {}).setdefault(table, []).append(place)
    said = [f"- {note}: " + "; ".join(_listed(*one) for one in places.items()) for note, places in where.items()]
    return "\n".join([per_group(lines, by), "", summary(lines), "", *said])


def _listed(table: str, places: Sequence[str]) -> str:
    """Return a table with the models and rows that a note is about, unless it is about all models."""
    return table if set(places) in ({""}, {*MODELS}) else f"{table} ({'; '.join(places)})"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
