"""Exact sums over cells of tree ensembles beside draws: rows, seconds and figures, side by side in one run.

A table has many columns, and a question lets two or three of them change, as users do with ``immutable``. Each line is
the default on such a question, which sums the cells if they are few, and ``sampler=gbce.SMC()`` on the same question.
Rules are left out: rows and seconds are those of the posterior. *off* is how many of its own standard errors SMC's
success probability and log evidence lie from the exact ones, the larger of both.
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_california_housing, load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import gbce
from benchmarks._answer_sheet import markdown
from benchmarks._documents import current_commit, write_between_marks

HEAD = ["question", "summed", "cells", "ms", "ms by SMC", "rows", "rows by SMC", "off"]
ROWS = 5  # of each question that are explained


def _diabetes() -> tuple[pd.DataFrame, Any]:
    return load_diabetes(return_X_y=True, as_frame=True, scaled=False)


def _cancer() -> tuple[pd.DataFrame, Any]:
    return load_breast_cancer(return_X_y=True, as_frame=True)


def _housing() -> tuple[pd.DataFrame, Any]:
    x, y = fetch_california_housing(return_X_y=True, as_frame=True)
    return x[:4000], y[:4000]


def questions(*, large: bool) -> Iterator[tuple[str, Any, pd.DataFrame, list[str], Any]]:
    """Yield a name, a fitted model, its table, the columns that may change, and a wish."""
    x, y = _diabetes()
    forest = RandomForestRegressor(100, random_state=0).fit(x, y)
    small = RandomForestRegressor(100, max_depth=6, random_state=0).fit(x, y)
    boosted = GradientBoostingRegressor(n_estimators=300, random_state=0).fit(x, y)
    wish: gbce.AtMost | gbce.AtLeast = gbce.AtMost(float(np.quantile(y, 0.3)))
    for name, model in (("forest", forest), ("forest, depth 6", small), ("boosting, 300 trees", boosted)):
        yield f"diabetes, {name}, 2 columns", model, x, ["bmi", "bp"], wish
        yield f"diabetes, {name}, 3 columns", model, x, ["bmi", "bp", "s5"], wish
    x, y = _cancer()
    voting = RandomForestClassifier(100, random_state=0).fit(x, y)
    yield "breast cancer, forest, 2 columns", voting, x, ["worst area", "worst concave points"], gbce.Class(1)
    three = ["worst area", "worst concave points", "worst texture"]
    yield "breast cancer, forest, 3 columns", voting, x, three, gbce.Class(1)
    if large:
        x, y = _housing()
        model = GradientBoostingRegressor(n_estimators=300, max_depth=5, random_state=0).fit(x, y)
        more = gbce.AtLeast(float(np.quantile(y, 0.7)))
        yield "housing, boosting, 2 columns", model, x, ["MedInc", "AveOccup"], more
        yield "housing, boosting, 3 columns", model, x, ["MedInc", "AveOccup", "HouseAge"], more


def compare(name: str, model: Any, x: pd.DataFrame, free: list[str], wish: Any) -> dict[str, Any]:
    """Explain some rows with the default and by draws."""
    space = gbce.Space.infer(x, immutable=[column for column in x if column not in free])
    lines = []
    usual = gbce.Explainer(model, x, space=space, policy=None)
    drawing = gbce.Explainer(model, x, space=space, policy=None, sampler=gbce.SMC())
    rows = x.iloc[np.linspace(0, len(x) - 1, ROWS).astype(int)]
    first = time.process_time()
    usual.explain(rows.iloc[0], wish, rules=[], seed=0)  # reads the trees, once per explainer
    drawing.explain(rows.iloc[0], wish, rules=[], seed=0)
    first = time.process_time() - first
    for _, row in rows.iterrows():
        found = []
        for explainer in (usual, drawing):
            start = time.process_time()
            found.append((explainer.explain(row, wish, rules=[], seed=1), time.process_time() - start))
        (exact, seconds), (drawn, drawn_seconds) = found
        off = [
            (exact.distribution["success_probability"] - drawn.distribution["success_probability"])
            / max(drawn.distribution["success_probability_se"], 1e-12),
            (exact.diagnostics["log_evidence"] - drawn.diagnostics["log_evidence"])
            / max(drawn.diagnostics["log_evidence_se"], 1e-12),
        ]
        lines.append(
            {
                "sums": exact.diagnostics["sampler"] == "ExactTrees",
                "cells": exact.diagnostics.get("cells", np.nan),
                "seconds": seconds,
                "SMC seconds": drawn_seconds,
                "rows": exact.n_model_rows,
                "SMC rows": drawn.n_model_rows,
                "off": float(np.max(np.abs(off))),
            }
        )
    table = pd.DataFrame(lines)
    return {"question": name, "summed": f"{table['sums'].sum()} of {len(table)}"} | table.drop(
        columns="sums"
    ).median().to_dict()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--large", action="store_true", help="also California housing, which is fetched")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    table = pd.DataFrame([compare(*question) for question in questions(large=options.large)])
    body = []
    for _, line in table.iterrows():
        cells = "-" if np.isnan(line["cells"]) else f"{line['cells']:,.0f}"
        times = [f"{1e3 * line[name]:,.0f}" for name in ("seconds", "SMC seconds")]
        rows = [f"{line[name]:,.0f}" for name in ("rows", "SMC rows")]
        body.append([line["question"], line["summed"], cells, *times, *rows, f"{line['off']:.1f}"])
    text = "\n".join([markdown(HEAD, body), "", f"- Medians over {ROWS} rows, commit {current_commit()}."])
    print(text)
    if options.docs:
        write_between_marks("exact", text)


if __name__ == "__main__":
    main()
