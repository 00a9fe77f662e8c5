"""One measurement of ``rows.py`` in a process of its own: gbce, as PYTHONPATH has it, or a peer, on rows of one case.

It uses only names that old commits have as well, and prints one line of JSON.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from _real_tables import TABLES, Case
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import gbce

__all__ = ["CASES", "PRIORS"]

PRIORS: dict[str, Callable[[], Any]] = {"Gaussian": lambda: gbce.Gaussian(), "Sparse": lambda: gbce.Sparse()}
PEER_SECONDS = 20.0  # of one core, for all rows of a case; a peer that needs more gets fewer rows


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


def explained(case: Case, n: int) -> dict[str, list[dict[str, float]]]:
    """Explain rows with the defaults and each prior; count what models were asked and time the same rows bare."""
    rows = case.rows(n)
    ask = case.model.predict_proba if case.classification else case.model.predict
    found: dict[str, list[dict[str, float]]] = {}
    for label, prior in PRIORS.items():
        explainer = gbce.Explainer(case.model, case.X, space=case.space, prior=prior())
        explainer.explain(rows.iloc[[0]], case.target, seed=0)  # warm up: slow imports, what is computed once
        found[label] = []
        for i in range(len(rows)):
            start = time.process_time()
            explanation = explainer.explain(rows.iloc[[i]], case.target, seed=i)
            seconds = time.process_time() - start
            asked = int(explanation.diagnostics["n_model_rows"])
            # of the same kind: trees answer rows that repeat, or lie elsewhere, at another speed
            points = explanation.draws.pool.x
            batch = case.space.frame(points[np.arange(asked) % len(points)])
            start = time.process_time()
            ask(batch)
            bare = time.process_time() - start
            calls = int(explanation.diagnostics["n_model_calls"])
            found[label].append({"rows": asked, "calls": calls, "seconds": seconds, "bare": bare})
    return found


def answered(case: Case, peer: str, n: int) -> dict[str, list[dict[str, float]]]:
    """Time a peer on the same rows."""
    from _peers import PEERS

    rows = case.rows(n)
    answer = PEERS[peer](case)
    found: list[dict[str, float]] = []
    for i in range(len(rows)):
        start = time.process_time()
        given = answer(pd.DataFrame(rows.iloc[[i]]))
        found.append({"seconds": time.process_time() - start, "answers": float(given is not None)})
        if sum(one["seconds"] for one in found) > PEER_SECONDS:
            break
    return {peer: found}


def main() -> None:
    name, what, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore")
    case = CASES[name]()
    print(json.dumps(explained(case, n) if what == "gbce" else answered(case, what, n)))


if __name__ == "__main__":
    main()
