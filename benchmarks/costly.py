"""Answers within 100, 300 and 1,000 model rows, for models that charge for every row, beside DiCE with as many.

Ten real tables and four models (forest, boosting, linear, network), each hidden in a function, so that nothing can be
read; rows that have not got the wish. gbce is asked for its answer with ``max_model_rows``. DiCE, random and genetic,
cannot be limited: its answer is the cheapest of the rows it has asked by then that has the wish, which is more than it
would hand over.

Columns: *valid*, share of the questions whose answer the model's own ``predict`` grants, among those with an answer
without a limit; *cost* over that of an answer without a limit, in the median and at the 90th percentile of the valid
ones: *ratio* to the answer, which is reliable then, *to nearest* to the nearest point; *calls* and *rows* of the model,
and CPU *seconds*, in the median. Rows 0 to 4 of each table were looked at while settings were chosen.
"""

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from benchmarks import _answer_tables
from benchmarks._answer_tables import TABLES, Table, case_of, rows_of
from benchmarks._documents import add_docs_option, print_into
from benchmarks._peers import dice
from benchmarks._real_tables import Case
from gbce.metrics import costs

BUDGETS = (100, 300, 1_000)
PEERS = ("random", "genetic")


def network(table: Table) -> Any:
    """Return a small network behind a scaler and an encoder."""
    steps = make_column_transformer(
        (
            make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
            make_column_selector(dtype_include="number"),
        ),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
    )
    settings: dict[str, Any] = {"hidden_layer_sizes": (32,), "alpha": 0.01, "random_state": 0}
    if table.classes:
        return make_pipeline(steps, MLPClassifier(max_iter=60, **settings))
    scaled = TransformedTargetRegressor(MLPRegressor(max_iter=200, **settings), transformer=StandardScaler())
    return make_pipeline(steps, scaled)


MODELS = _answer_tables.MODELS | {"network": network}


class _SpentError(RuntimeError):
    """A peer has asked as many rows as it may."""


class Paid:
    """A model that keeps the rows it is asked, in order, and what it said; with a ``limit`` it ends there."""

    def __init__(self, case: Case, limit: int | None = None) -> None:
        self.inner, self.limit, self.calls = case.model, limit, 0
        self.asked: list[pd.DataFrame] = []
        if case.classification:
            self.classes_ = np.asarray(case.model.classes_)

    @property
    def rows(self) -> int:
        """How many rows it was asked."""
        return sum(map(len, self.asked))

    def __call__(self, frame: pd.DataFrame) -> Any:
        """Ask as a function of rows."""
        return self.predict_proba(frame) if hasattr(self, "classes_") else self.predict(frame)

    def predict(self, frame: pd.DataFrame) -> Any:
        """Return labels or numbers."""
        return self._ask(self.inner.predict, frame)

    def predict_proba(self, frame: pd.DataFrame) -> Any:
        """Return probabilities."""
        return self._ask(self.inner.predict_proba, frame)

    def _ask(self, method: Any, frame: pd.DataFrame) -> Any:
        self.calls += 1
        self.asked.append(frame)
        if self.limit is not None and self.rows >= self.limit:
            raise _SpentError
        return np.asarray(method(frame))


class Line(NamedTuple):
    """One answer; ``answer`` and ``nearest`` are the costs without a limit."""

    table: str
    model: str
    row: int
    method: str
    budget: int
    valid: bool
    cost: float
    answer: float
    nearest: float
    calls: int
    rows: int
    seconds: float


def run_case(table: str, model: str, first: int, last: int) -> Iterator[Line]:
    """Yield the answers to some rows of a table under one model."""
    case = case_of(TABLES[table](), model)
    for number, (_, row) in enumerate(rows_of(case, last).iloc[first:].iterrows(), start=first):
        asked = row.to_frame().T.astype(case.X.dtypes.to_dict())
        x0 = case.space.encode(asked)[0]
        free, _ = explain(case, asked, None)
        answer = free.answer
        if answer is None or not answer.reached:
            continue
        near = [d.x for d in free.decisions if d.reached[0]]
        nearest = float(costs(case.space, np.array(near), x0, "l1").min()) if near else answer.cost
        both = answer.cost, nearest
        for budget in BUDGETS:
            start = time.process_time()
            found, paid = explain(case, asked, budget)
            seconds = time.process_time() - start
            given = found.answer
            valid = given is not None and bool(grants(case, asked, given.row)[0])
            cost = given.cost if given is not None else np.inf
            yield Line(table, model, number, "gbce", budget, valid, cost, *both, paid.calls, paid.rows, seconds)
        for method in PEERS:
            yield from run_peer(case, asked, x0, method, (table, model, number), both)


def explain(case: Case, row: pd.DataFrame, budget: int | None) -> tuple[gbce.Explanation, Paid]:
    """Return an answer of gbce with at most ``budget`` rows, and the model with what it was asked."""
    paid = Paid(case)
    model = gbce.classifier(paid, list(paid.classes_)) if case.classification else paid
    explainer = gbce.Explainer(model, case.X)
    return explainer.explain(row, case.target, seed=0, posterior=False, max_model_rows=budget), paid


def run_peer(
    case: Case, row: pd.DataFrame, x0: Any, method: str, where: tuple[str, str, int], both: tuple[float, float]
) -> Iterator[Line]:
    """Yield what DiCE has by each number of rows: the cheapest valid one of those asked."""
    paid, start = Paid(case, limit=BUDGETS[-1]), time.process_time()
    answer = None
    try:
        answer = dice(replace(case, model=paid), method)
        paid.asked.clear()  # rows of setting it up are a gift
        answer(row)
    except Exception as error:  # it may end as it likes, with what it has asked
        if not paid.asked:
            print(f"DiCE {method}: {type(error).__name__} {error!s:.80}")
    seconds = time.process_time() - start
    asked = pd.concat(paid.asked).iloc[: BUDGETS[-1]] if paid.asked else row.iloc[:0]
    asked = asked[list(case.X.columns)].astype(case.X.dtypes.to_dict())
    good = grants(case, row, asked) if len(asked) else np.zeros(0, dtype=bool)
    cost = np.full(len(asked), np.inf)
    if good.any():
        cost[good] = costs(case.space, case.space.encode(asked[good]), x0, "l1")
    for budget in BUDGETS:
        least = float(cost[:budget].min(initial=np.inf))
        rows = min(len(asked), budget)
        yield Line(*where, f"DiCE {method}", budget, bool(np.isfinite(least)), least, *both, paid.calls, rows, seconds)


def grants(case: Case, row: pd.DataFrame, answers: pd.DataFrame) -> Any:
    """Return which answers the model's own ``predict`` grants the wish ``(n,)``."""
    said = case.model.predict(answers[list(case.X.columns)])
    if case.classification:
        return said == case.wish
    return said >= case.threshold(row) if case.wish > 0 else said <= case.threshold(row)


def say(lines: list[Line]) -> None:
    """Print one line for each method and number of rows."""
    print("| rows | method | questions | valid | ratio | 90% | to nearest | 90% | calls | asked | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for budget in BUDGETS:
        for method in dict.fromkeys(line.method for line in lines):
            own = [one for one in lines if one.method == method and one.budget == budget]
            good = [one for one in own if one.valid]
            ratio = np.array([one.cost / one.answer for one in good])
            near = np.array([one.cost / one.nearest for one in good])
            shown = [
                f"{float(np.quantile(some, q)):.2f}" if len(some) else ""
                for some, q in ((ratio, 0.5), (ratio, 0.9), (near, 0.5), (near, 0.9))
            ]
            calls, rows, seconds = (np.median([getattr(one, n) for one in own]) for n in ("calls", "rows", "seconds"))
            valid = f"{len(good) / len(own):.3f}"
            shown = [
                f"{budget:,}",
                method,
                str(len(own)),
                valid,
                *shown,
                f"{calls:.0f}",
                f"{rows:.0f}",
                f"{seconds:.2f}",
            ]
            print("| " + " | ".join(shown) + " |")


def read_lines(path: str | None) -> list[Line]:
    """Return the answers that a file holds; none if there is no file."""
    if path is None or not Path(path).exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    kinds: dict[str, Any] = {"row": int, "budget": int, "valid": lambda word: word == "True", "calls": int, "rows": int}
    kinds |= dict.fromkeys(("cost", "answer", "nearest", "seconds"), float)
    read = [{name: kinds.get(name, str)(word) for name, word in zip(Line._fields, row, strict=True)} for row in rows]
    return [Line(**one) for one in read]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--first", type=int, default=4, help="row of each table")
    parser.add_argument("--rows", type=int, default=2, help="of each table")
    parser.add_argument("--csv", help="a file for all answers; questions that it holds are not asked again")
    add_docs_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # networks need not converge
    _answer_tables.MODELS.update(MODELS)
    lines = read_lines(options.csv)
    wanted = range(options.first, options.first + options.rows)
    for table in options.tables:
        for model in options.models:
            done = {line.row for line in lines if (line.table, line.model) == (table, model)}
            if done.issuperset(wanted):
                continue
            lines += run_case(table, model, options.first, options.first + options.rows)
            if options.csv:
                with open(options.csv, "w", newline="", encoding="utf-8") as file:
                    csv.writer(file).writerows([Line._fields, *lines])
    asked = [one for one in lines if one.table in options.tables and one.model in options.models and one.row in wanted]
    with print_into("costly", options.docs, __doc__):
        say(asked)


if __name__ == "__main__":
    main()
