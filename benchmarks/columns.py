"""Cost of one explanation as columns are added: CPU seconds, model rows, memory, and the sizes of its page and file.

A table of independent standard normal columns, all of which a linear model uses: ridge and logistic regression, a
forest and histogram boosting of scikit-learn, all at the defaults of gbce. The row is at the fifth percentile of the
model's outputs; the target is the other class, or the 80th percentile. Each case runs in a process of its own; memory
is the peak of that process, its imports and the fit of the model (200 to 300 MB) included.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge

import gbce
from benchmarks._documents import add_docs_option, print_into

ROWS = 1_000  # of the table
MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=500),
    "ridge": Ridge,
    "forest": lambda: RandomForestRegressor(50, min_samples_leaf=5, max_features=0.1, random_state=0),
    "boosting": lambda: HistGradientBoostingRegressor(random_state=0),
}


def measure(name: str, d: int, eta: Any) -> dict[str, Any]:
    """Explain one row of a table of ``d`` columns, write its page and its file, and return what that took."""
    rng = np.random.default_rng(d)
    table = pd.DataFrame(rng.normal(size=(ROWS, d)), columns=[f"x{j}" for j in range(d)])
    score = table.to_numpy() @ rng.normal(size=d) / np.sqrt(d) + table.iloc[:, :5].sum(axis=1).to_numpy()
    classifies = name == "logistic"
    model = MODELS[name]().fit(table, (score > 0).astype(int) if classifies else score)
    outputs = model.predict_proba(table)[:, 1] if classifies else model.predict(table)
    target: Any = gbce.Class(1) if classifies else gbce.AtLeast(float(np.quantile(outputs, 0.8)))
    explainer = gbce.Explainer(model, table, eta=eta)
    start = time.process_time()
    explanation = explainer.explain(table.iloc[[int(np.argsort(outputs)[ROWS // 20])]], target, seed=0)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a large pool is left out of the file
        explanation.to_html(Path(folder) / "page.html")
        explanation.save(Path(folder) / "row.gbce")
        sizes = [(Path(folder) / one).stat().st_size / 1e6 for one in ("page.html", "row.gbce")]
    rows, ess = int(explanation.diagnostics["n_model_rows"]), float(explanation.draws.ess)
    return {"seconds": seconds, "rows": rows, "ess": ess, "MB": memory, "page": sizes[0], "file": sizes[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 300, 1_000])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--eta", default="auto", help='"auto", the default of tables, or a number')
    add_docs_option(parser)
    options = parser.parse_args()
    eta = options.eta if options.eta == "auto" else float(options.eta)
    with print_into("columns", options.docs, __doc__):
        print(f"{'model':<10}{'columns':>8}{'CPU s':>8}{'rows':>10}{'ess':>7}{'MB':>7}{'page MB':>9}{'file MB':>9}")
        for name in options.models:
            for d in options.columns:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    found = pool.apply(measure, (name, d, eta))
                print(
                    f"{name:<10}{d:>8}{found['seconds']:>8.1f}{found['rows']:>10,}{found['ess']:>7.0f}"
                    f"{found['MB']:>7,.0f}{found['page']:>9.2f}{found['file']:>9.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
