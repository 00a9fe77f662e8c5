"""Whole tables: answers per second of ``explain_many(posterior=False)``, beside a loop, the bare model, and peers.

The first table is gbce alone, on California housing (a house of more than the median price) and German credit (a good
risk). Columns: *per s*, rows per CPU second of one core; *loop*, those of one ``explain(..., posterior=False)`` after
the other; *posterior*, those with draws; *share*, the part of the time that the model itself takes, as the user calls
it; *rows*, model rows per row; *reliable* answers. The second table asks peers about the same rows of four tables
under a forest, for one answer each: CPU seconds per row, the share that the model's own ``predict`` grants of all
rows, and the median of their l1 cost in ranges of the data.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from benchmarks._answer_judge import Columns, judge
from benchmarks._answer_methods import METHODS
from benchmarks._answer_tables import TABLES, case_of, rows_of
from benchmarks._clock import at_most
from benchmarks._documents import add_docs_option, current_commit, markdown, write_results
from benchmarks._real_tables import Case
from benchmarks._wheels import california, german_credit

MOST_ROWS = 8_000  # of California, so that a forest is grown in seconds
LEARNERS: dict[str, Callable[[], Any]] = {
    "forest, 100 trees": lambda: RandomForestClassifier(100, random_state=0),
    "LightGBM, 300 trees": lambda: LGBMClassifier(n_estimators=300, random_state=0, n_jobs=1, verbose=-1),
    "logistic": lambda: LogisticRegression(max_iter=1_000),
}
PEERS = ("DiCE random", "DiCE genetic", "NICE", "treecf")
FOUR_TABLES = ("german credit", "adult", "california", "diabetes")
PATIENCE = 60.0  # CPU seconds for a peer on a table; one that needs more gets fewer rows


class Timed:
    """A function of rows, with the CPU seconds that it took."""

    def __init__(self, model: Any) -> None:
        self.model, self.seconds = model, 0.0

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        """Return the probability of the last class."""
        start = time.process_time()
        found = self.model.predict_proba(rows)[:, -1]
        self.seconds += time.process_time() - start
        return np.asarray(found)


def asked(table: str, learner: str) -> tuple[pd.DataFrame, Any, pd.DataFrame]:
    """Return a table, a model fitted on it, encoders included, and the rows that it refuses."""
    wish: Any
    if table == "california":
        X = california().iloc[:MOST_ROWS].reset_index(drop=True)
        price = X.pop("MedHouseVal")
        y, wish = (price > price.median()).astype(int), 1
    else:
        X = german_credit()
        y, wish = X.pop("class"), "good"
    numbers = [name for name in X if pd.api.types.is_numeric_dtype(X[name])]
    words = [name for name in X if name not in numbers]
    model = LEARNERS[learner]()
    if words or learner == "logistic":
        spelled = (OneHotEncoder(handle_unknown="ignore"), words)
        model = make_pipeline(make_column_transformer(spelled, (StandardScaler(), numbers)), model)
    model.fit(X, y)
    return X, model, X[model.predict(X) != wish]


def own_line(table: str, learner: str, function: bool, n: int, n_draws: int) -> list[str]:
    """Time gbce on rows of a table."""
    X, model, rows = asked(table, learner)
    rows = rows.sample(min(n, len(rows)), random_state=1)
    timed = Timed(model)
    explainer = gbce.Explainer(timed if function else model, X)
    target: Any = gbce.AtLeast(0.5) if function else gbce.Class(model.classes_[-1])
    explainer.explain_many(rows.iloc[:5], target, posterior=False, seed=0, progress=False)  # compiles, reads
    timed.seconds, start = 0.0, time.process_time()
    found = explainer.explain_many(rows, target, posterior=False, seed=0, progress=False)
    many = time.process_time() - start
    share, start = f"{timed.seconds / many:.2f}" if function else "", time.process_time()
    some = rows.iloc[: max(len(rows) // 4, 1)]
    for i in range(len(some)):
        explainer.explain(some.iloc[[i]], target, posterior=False, seed=i)
    loop = (time.process_time() - start) / len(some)
    few = rows.iloc[:n_draws]
    start = time.process_time()
    explainer.explain_many(few, target, seed=0, progress=False)
    draws = (time.process_time() - start) / len(few)
    reliable = (found.answers["kind"].astype(str) == "reliable").mean()
    label = f"{learner}, as a function" if function else learner
    return [
        table, label, f"{len(rows) / many:.1f}", f"{1 / loop:.1f}", f"{1 / draws:.2f}", share,
        f"{found.n_model_rows / len(rows):,.0f}", f"{reliable:.2f}",
    ]  # fmt: skip


def peer_lines(table: str, n: int, notes: list[str]) -> list[list[str]]:
    """Time gbce and peers on the same rows of a table."""
    case = case_of(TABLES[table](), "forest")
    rows, columns = rows_of(case, n), Columns.of(case.X)
    explainer = gbce.Explainer(case.model, case.X)
    explainer.explain_many(rows.iloc[:3], case.target, posterior=False, seed=0, progress=False)
    start = time.process_time()
    found = explainer.explain_many(rows, case.target, posterior=False, seed=0, progress=False)
    seconds = (time.process_time() - start) / len(rows)
    seeds = found.diagnostics["seed"]  # explain gives the same answer for the same seed
    answers = []
    for i, seed in enumerate(seeds):
        again = explainer.explain(rows.iloc[[i]], case.target, posterior=False, seed=int(seed)).answer
        answers.append(None if again is None else again.row)
    lines = [_line(table, "gbce", seconds, answers, case, columns, rows)]
    for peer in PEERS:
        given, spent = [], 0.0
        try:
            method = METHODS[peer](case)
            method(rows.iloc[[0]], 0)
            for i in range(len(rows)):
                start = time.process_time()
                with at_most(PATIENCE - spent, TimeoutError(f"not done after {PATIENCE:g} s")):
                    given.append(next(iter(method(rows.iloc[[i]], i).values())).answer)
                spent += time.process_time() - start
        except Exception as error:  # a peer that breaks is a finding
            notes.append(f"{peer} on {table}: {type(error).__name__}: {str(error)[:120]}".replace("\n", " "))
        if given:
            lines.append(_line(table, peer, spent / len(given), given, case, columns, rows))
    return lines


def _line(
    table: str, method: str, seconds: float, answers: list[Any], case: Case, columns: Columns, rows: pd.DataFrame
) -> list[str]:
    """Judge answers to the first rows of a table."""
    judged = [None if one is None else judge(case, columns, one, rows.iloc[[i]]) for i, one in enumerate(answers)]
    valid = [one for one in judged if one is not None and one.valid]
    cost = f"{median(one.l1 for one in valid):.3f}" if valid else ""
    return [table, method, str(len(answers)), f"{seconds:.4f}", f"{len(valid) / len(answers):.2f}", cost]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000, help="rows of each table, answers alone")
    parser.add_argument("--draws", type=int, default=20, help="rows with draws")
    parser.add_argument("--peer-rows", type=int, default=20, help="rows of each table that peers are asked about")
    parser.add_argument("--no-peers", action="store_true", help="gbce alone")
    parser.add_argument("--only-peers", action="store_true", help="the second table alone")
    add_docs_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    notes: list[str] = []
    head = ["table", "model", "per s", "loop", "posterior", "share", "rows", "reliable"]
    cases = [("california", name, False) for name in LEARNERS] + [("german credit", name, False) for name in LEARNERS]
    own = []
    for table, learner, function in [] if options.only_peers else [*cases, ("california", "logistic", True)]:
        own.append(own_line(table, learner, function, options.rows, options.draws))
        print(" | ".join(own[-1]), flush=True)
    text = markdown(head, own)
    if not options.no_peers:
        lines: list[list[str]] = []
        for table in FOUR_TABLES:
            lines += peer_lines(table, options.peer_rows, notes)
            print("\n".join(" | ".join(line) for line in lines if line[0] == table), flush=True)
        text += "\n\n" + markdown(["table", "method", "rows", "s", "valid", "l1"], lines)
    notes.append(f"Up to {options.rows} rows, {options.draws} with draws, commit {current_commit()}.")
    text += "\n\n" + "\n".join(f"- {note}" for note in notes)
    print("\n".join(f"- {note}" for note in notes))
    if options.docs:
        write_results("many", text, __doc__)


if __name__ == "__main__":
    main()
