"""One measurement of ``rows.py`` in a process of its own: gbce, as PYTHONPATH has it, or a peer, on rows of one case.

It uses only names that old commits have as well, and answers on its standard output, line by line.
"""

import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import gbce
from benchmarks._real_tables import TABLES, Case

__all__ = ["CASES", "PRIORS"]

PRIORS: dict[str, Callable[[], Any]] = {"Gaussian": lambda: gbce.Gaussian(), "Sparse": lambda: gbce.Sparse()}


def _free_diabetes(model: Any) -> Case:
    """Return diabetes without any rule: what may change and how far is read off the data."""
    case = TABLES["diabetes"]()
    space = gbce.Space.infer(case.X)
    return replace(case, model=model.fit(case.X, case.y), space=space, immutable=(), ranges={})


CASES: dict[str, Callable[[], Case]] = {
    **TABLES,
    "diabetes, forest": lambda: _free_diabetes(RandomForestRegressor(100, min_samples_leaf=5, random_state=0)),
    "diabetes, LightGBM": lambda: _free_diabetes(LGBMRegressor(random_state=0, n_jobs=1, verbose=-1)),
    "diabetes, histogram boosting": lambda: _free_diabetes(HistGradientBoostingRegressor(random_state=0)),
}


class Explained:
    """gbce with its defaults on rows of a case."""

    def __init__(self, case: Case, n: int) -> None:
        self._case, self._rows = case, case.rows(n)
        self._explainers = {
            label: gbce.Explainer(case.model, case.X, space=case.space, prior=prior())
            for label, prior in PRIORS.items()
        }
        self._alone: dict[str, Any] = {"posterior": False}
        # old commits do not give an answer alone
        self._knows_alone = "posterior" in inspect.signature(gbce.Explainer.explain).parameters
        for explainer in self._explainers.values():  # warm up: slow imports, what is computed once
            explainer.explain(self._rows.iloc[[0]], case.target, seed=0)

    def __len__(self) -> int:
        return len(self._rows)

    def measure(self, label: str, i: int) -> dict[str, float]:
        """Explain one row; count what the model was asked, and time as many rows bare."""
        case = self._case
        start = time.process_time()
        explanation = self._explainers[label].explain(self._rows.iloc[[i]], case.target, seed=i)
        seconds = time.process_time() - start
        asked = int(explanation.diagnostics["n_model_rows"])
        # of the same kind: trees answer rows that repeat, or lie elsewhere, at another speed
        points = explanation.draws.pool.x
        batch = case.space.frame(points[np.arange(asked) % len(points)])
        ask = case.model.predict_proba if case.classification else case.model.predict
        start = time.process_time()
        ask(batch)
        bare = time.process_time() - start
        calls = int(explanation.diagnostics["n_model_calls"])
        found = {"rows": asked, "calls": calls, "seconds": seconds, "bare": bare}
        if self._knows_alone:
            start = time.process_time()
            answer = self._explainers[label].explain(self._rows.iloc[[i]], case.target, seed=i, **self._alone)
            found["alone seconds"] = time.process_time() - start
            found["alone rows"] = int(answer.diagnostics["n_model_rows"])
        return found


class Answered:
    """A peer on the same rows."""

    def __init__(self, case: Case, peer: str, n: int) -> None:
        from benchmarks._peers import PEERS

        self._rows, self._answer = case.rows(n), PEERS[peer](case)

    def __len__(self) -> int:
        return len(self._rows)

    def measure(self, label: str, i: int) -> dict[str, float]:
        """Time one answer."""
        start = time.process_time()
        given = self._answer(pd.DataFrame(self._rows.iloc[[i]]))
        return {"seconds": time.process_time() - start, "answers": float(given is not None)}


def main() -> None:
    """Say how many rows there are, then answer every line ``label<TAB>row`` with a line of JSON."""
    name, what, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore")
    case = CASES[name]()
    measured: Explained | Answered = Explained(case, n) if what == "gbce" else Answered(case, what, n)
    print(json.dumps(len(measured)), flush=True)
    for line in sys.stdin:
        label, i = line.rstrip("\n").split("\t")
        print(json.dumps(measured.measure(label, int(i))), flush=True)


if __name__ == "__main__":
    main()
