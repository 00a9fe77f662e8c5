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
        wish = gbce.AtLeast(float(np.quantile(y, 0.7)))
        yield "housing, boosting, 2 columns", model, x, ["MedInc", "AveOccup"], wish
        yield "housing, boosting, 3 columns", model, x, ["MedInc", "AveOccup", "HouseAge"], wish


def compare(name: str, model: Any, x: pd.DataFrame, free: list[str], wish: Any) -> dict[str, Any]:
    """Explain some rows with the default and by draws."""
    space = gbce.Space.infer(x, immutable=[column for column in x if column not in free])
    lines = []
    usual = gbce.Explainer(model, x, space=space, policy=None)
    drawing = gbce.Explainer(model, x, space=space, policy=None, sampler=gbce.SMC())
    rows = x.iloc[np.linspace(0, len(x) - 1, ROWS).astype(int)]
    first = time.perf_counter()
    usual.explain(rows.iloc[0], wish, rules=[], seed=0)  # reads the trees, once per explainer
    drawing.explain(rows.iloc[0], wish, rules=[], seed=0)
    first = time.perf_counter() - first
    for _, row in rows.iterrows():
        found = []
        for explainer in (usual, drawing):
            start = time.perf_counter()
            found.append((explainer.explain(row, wish, rules=[], seed=1), time.perf_counter() - start))
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
    options = parser.parse_args()
    table = pd.DataFrame([compare(*question) for question in questions(large=options.large)])
    head = ["question", "summed", "cells", "ms", "ms by SMC", "rows", "rows by SMC", "off"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for _, line in table.iterrows():
        cells = "-" if np.isnan(line["cells"]) else f"{line['cells']:,.0f}"
        times = f"{1e3 * line['seconds']:,.0f} | {1e3 * line['SMC seconds']:,.0f}"
        rows = f"{line['rows']:,.0f} | {line['SMC rows']:,.0f}"
        print(f"| {line['question']} | {line['summed']} | {cells} | {times} | {rows} | {line['off']:.1f} |")


if __name__ == "__main__":
    main()
