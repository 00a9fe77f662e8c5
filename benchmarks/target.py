"""Whether the posterior speaks about the target: success, trust, model rows and CPU seconds at the eta that is chosen.

Rows of ten tables are explained under a forest, boosting, a linear pipeline and a small network, with ``eta="auto"``
(or another eta, ``--eta``), nothing else said. Run with another source tree on PYTHONPATH it measures that one, and
writes its results under the name of its commit (``--name``); rules that older commits lack can be named, such as
``--eta 0.9`` for ``SuccessProbability(0.9)``.

Columns: *SP*, the median success probability; *SP low*, the share of rows below 0.88; *trusted*, the share whose
sampling is called trustworthy; *rows* and *most*, model rows in the median and at most; *s* and *most s*, CPU seconds
of one core; *alternatives*, the number of those listed (at most five a row), and how many of them the model's own
``predict`` confirms, are reliable, and differ from the others of their row in the columns they change or the direction.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.neural_network import MLPClassifier, MLPRegressor

import gbce
from benchmarks._answer_tables import MODELS, TABLES, Table, case_of, rows_of
from benchmarks._documents import add_docs_option, print_into
from benchmarks._real_tables import Case
from benchmarks._wheels import MissingWheelError

HEAD = ["table", "model", "n", "SP", "SP low", "trusted", "rows", "most", "s", "most s", "alternatives", "confirmed",
        "reliable", "distinct"]  # fmt: skip
LOW = 0.88  # below it a posterior that was to reach the target with probability 0.9 does not


def network(table: Table) -> BaseEstimator:
    """Return the linear pipeline with a network of twenty units in place of the regression."""
    pipeline: Any = MODELS["linear"](table)
    kind = MLPClassifier if table.classes else MLPRegressor
    pipeline.steps[-1] = ("network", kind(hidden_layer_sizes=(20,), max_iter=400, random_state=0))
    return pipeline


@dataclass
class Measured:
    """What one row took and gave."""

    success: float
    trusted: bool
    rows: int
    seconds: float
    alternatives: int
    confirmed: int
    reliable: int
    distinct: int


def measure(case: Case, n: int, eta: Any, first: bool) -> Iterator[Measured]:
    """Explain rows of one case; the ``first`` one of a process also pays for imports, which do not count."""
    explainer = gbce.Explainer(case.model, case.X, space=case.space, eta=eta)
    rows = rows_of(case, n)
    # models are read first; older commits take long, and refuse a goal without a posterior, so by another explainer
    known = eta in ("auto", 1)
    reader = explainer if known else gbce.Explainer(case.model, case.X, space=case.space, eta=1)
    reader.explain(rows.iloc[[0]], case.target, seed=0, progress=False, posterior=first or known)
    for i in range(len(rows)):
        begun = time.process_time()
        explanation = explainer.explain(rows.iloc[[i]], case.target, seed=0, progress=False)
        seconds = time.process_time() - begun
        said = explanation.diagnostics
        listed = _count_alternatives(case, explanation, rows.iloc[[i]])
        yield Measured(
            float(explanation.distribution["success_probability"]), said["sampling"] == "trustworthy",
            int(said["n_model_rows"]), seconds, *listed,
        )  # fmt: skip


def _count_alternatives(case: Case, explanation: Any, row: pd.DataFrame) -> tuple[int, int, int, int]:
    """Return the number of alternatives, and how many are confirmed by the model, reliable, and distinct."""
    try:
        table = explanation.alternatives(5).table
    except ValueError:  # too few effective draws
        return 0, 0, 0, 0
    if len(table) == 0:
        return 0, 0, 0, 0
    own = table.rename(columns=lambda name: name.removesuffix(" (column)"))[[*case.X.columns]]
    confirmed = int(np.sum(case.valid(own.astype(case.X.dtypes.to_dict()), row)))
    x, x0 = explanation.space.encode(own), explanation.x0
    moved = explanation.space.changed(x, x0)
    moves = {tuple(np.where(moved[i], np.sign(np.nan_to_num(x[i] - x0)), 0.0)) for i in range(len(x))}
    reliable = int(table["reliable"].sum()) if "reliable" in table else 0  # older commits do not tell
    return len(own), confirmed, reliable, len(moves)


def summarise(name: str, model: str, found: list[Measured]) -> list[str]:
    """Return one line of the table."""
    frame = pd.DataFrame([vars(one) for one in found])
    return [
        name, model, str(len(frame)), f"{frame.success.median():.3f}", f"{(frame.success < LOW).mean():.2f}",
        f"{frame.trusted.mean():.2f}", f"{frame.rows.median():,.0f}", f"{frame.rows.max():,.0f}",
        f"{frame.seconds.median():.2f}", f"{frame.seconds.max():.2f}", str(frame.alternatives.sum()),
        *(str(frame[name].sum()) for name in ("confirmed", "reliable", "distinct")),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=15, help="rows of each table")
    parser.add_argument("--tables", nargs="+", choices=[*TABLES], default=[*TABLES])
    parser.add_argument("--models", nargs="+", choices=[*MODELS, "network"], default=[*MODELS, "network"])
    parser.add_argument("--eta", default="auto", help='"auto", 1, or a success probability below one')
    parser.add_argument("--name", help="of the result files, after target-; the eta by default")
    add_docs_option(parser)
    options = parser.parse_args()
    number = None if options.eta == "auto" else float(options.eta)
    eta = "auto" if number is None else gbce.SuccessProbability(number) if number < 1 else number
    everything: list[Measured] = []
    left_out: list[str] = []
    with print_into(f"target-{options.name or options.eta}", options.docs, __doc__, source=Path(gbce.__file__).parent):
        print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD), flush=True)
        for name in options.tables:
            try:
                table = TABLES[name]()
            except MissingWheelError as error:
                left_out.append(f"- {name}: {error}")
                continue
            for model in options.models:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = list(measure(_make_case(table, model), options.rows, eta, not everything))
                everything += found
                print("| " + " | ".join(summarise(name, model, found)) + " |", flush=True)
        print("| " + " | ".join(summarise("all", "all", everything)) + " |", *left_out, sep="\n")


def _make_case(table: Table, model: str) -> Case:
    if model != "network":
        return case_of(table, model)
    made = network(table).fit(table.X, table.y)
    return Case(table.X, table.y, made, gbce.Space.infer(table.X), (), lambda answers, row: {}, table.wish, {})


if __name__ == "__main__":
    main()
