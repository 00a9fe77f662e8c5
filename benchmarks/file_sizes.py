"""Bytes per row of a store, with and without the pool of evaluated points, for tables of 10 and 30 columns.

Everything at its defaults but the prior, with forests of scikit-learn on two tables that come with it.

Mean size of the files of rows in a store of ``explain_many``, with every evaluated point (``keep="pool"``) and with the
draws alone (``keep="draws"``).
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import gbce
from benchmarks._documents import add_docs_option, print_into

Case = tuple[Any, Any, Any, Any]  # model, data, rows, target


def diabetes(n: int) -> Case:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X, y)
    return model, X, X[model.predict(X) > 150].iloc[:n], gbce.AtMost(120)


def breast_cancer(n: int) -> Case:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = RandomForestClassifier(50, min_samples_leaf=5, random_state=0).fit(X, y)
    return model, X, X[model.predict(X) == 0].iloc[:n], gbce.Class(1)


CASES: dict[str, Callable[[int], Case]] = {"diabetes": diabetes, "breast cancer": breast_cancer}


def bytes_per_row(case: Case, prior: Any, pool: bool) -> float:
    """Explain the rows of a case into a store and return the mean size of its files."""
    model, data, rows, target = case
    explainer = gbce.Explainer(model, data, prior=prior)
    with tempfile.TemporaryDirectory() as folder:
        explainer.explain_many(
            rows, target, rules=["MAP"], seed=0, progress=False, store=Path(folder) / "run",
            keep="pool" if pool else "draws",
        )  # fmt: skip
        return float(np.mean([path.stat().st_size for path in Path(folder, "run", "draws").iterdir()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8, help="rows of each table")
    add_docs_option(parser)
    options = parser.parse_args()
    with print_into("file sizes", options.docs, __doc__):
        print(f"{'table':<15}{'columns':>8}{'prior':>12}{'with the pool':>16}{'without':>12}{'ratio':>8}")
        for name, make in CASES.items():
            case = make(options.rows)
            for prior in (gbce.Gaussian(), gbce.Sparse()):
                before, after = (bytes_per_row(case, prior, pool) for pool in (True, False))
                print(
                    f"{name:<15}{case[1].shape[1]:>8}{type(prior).__name__:>12}{before:>16,.0f}{after:>12,.0f}"
                    f"{before / after:>8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
