"""Questions at random for coordinate draws: trees that are read, beside leaf boxes and sums over all cells.

Of every three cases one is a question of :mod:`benchmarks._unseen_cases`, one a single deep tree on all 64 pixels of
digits or on 5 to 30 columns of other tables, and one a table of two or three free columns with categories, whole
numbers, missing values and bounds under one or two small ensembles, summed over all of its cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import gbce
from benchmarks._unseen_cases import TABLES, Case, Random, make_case
from benchmarks._unseen_exact import Exact

__all__ = ["make_coordinate_case"]

TOGETHER = ("DistancePrior", "Gaussian cov")  # priors that move columns together, or may: nothing to draw from


def make_coordinate_case(seed: int, index: int, tables: Sequence[str] = tuple(TABLES)) -> "Case | Enumerated":
    """Return the case of a seed and an index; every second one has its own eta, the others that of the default."""
    if index % 3 == 2:
        return _make_enumerated(np.random.default_rng([seed, index]))
    wide = [name for name in tables if name in ("digits", "breast cancer", "diabetes", "footballers")] or [*tables]
    for attempt in range(1_000):
        case = make_case(seed, 1_000 * index + attempt, tables if index % 3 == 0 else wide, every_column=index % 3 == 1)
        deep = index % 3 == 0 or case.facts["model"].startswith("tree")
        if deep and case.facts["free"] and not case.facts["prior"].startswith(TOGETHER):
            return replace(case, wrapped=False, facts=case.facts | {"wrapped": False})
    raise ValueError(f"none of the tables {tables} has a case")


@dataclass(frozen=True, eq=False)
class Enumerated:
    """A question with so few cells that gbce can sum over all of them; the sums are exact."""

    facts: dict[str, Any]
    data: pd.DataFrame
    row: pd.Series
    models: list[Any]
    target: Any
    options: dict[str, Any]
    eta: float
    seed: int

    def explain(self, eta: Any = None, sampler: Any = None) -> gbce.Explanation:
        """Put the question to gbce, at the case's own eta or at another."""
        models = self.models if len(self.models) > 1 else self.models[0]
        explainer = gbce.Explainer(models, self.data, sampler=sampler, policy=None, eta=eta or self.eta, **self.options)
        return explainer.explain(self.row, self.target, rules=[], seed=self.seed, progress=False)

    def solve(self, eta: float | None = None) -> Exact:
        """Return the exact figures, at the case's own eta or at another."""
        exact = self.explain(eta, gbce.ExactTrees(n_draws=20_000))
        said, draws = exact.distribution, exact.draws
        loss = np.sort(draws.loss[:, 0])
        change = np.abs(np.nan_to_num(draws.x - exact.x0))
        return Exact(
            log_evidence=float(exact.diagnostics["log_evidence"]),
            success_probability=float(said["success_probability"]),
            expected_loss=float(said["expected_loss"]),
            loss_sd=float(loss.std()),
            stability=float(said["stability"]),
            importance=exact.importance["change"].to_numpy(),
            importance_sd=change.std(axis=0),
            losses=loss,
            shares=(1.0 + np.arange(len(loss))) / len(loss),
        )


def _make_enumerated(rng: Random) -> Enumerated:
    frame, y = _make_table(rng)
    classify = bool(rng.random() < 0.5)
    y = y > y.quantile(0.6) if classify else y
    several = not classify and rng.random() < 0.3
    models = [_fit(frame, y, classify, rng) for _ in range(2 if several else 1)]
    outputs = np.asarray(models[0].predict_proba(frame)[:, 1] if classify else models[0].predict(frame))
    at = int(rng.choice(np.flatnonzero(outputs <= np.quantile(outputs, 0.5))))
    target: Any = True
    if not classify:
        target = gbce.AtLeast(float(np.quantile(outputs, rng.uniform(0.6, 0.97))), scale=float(rng.uniform(0.2, 1)))
    options: dict[str, Any] = {"combine": str(rng.choice(["average", "all"]))} if several else {}
    how: dict[str, Any] = {}
    if rng.random() < 0.4:
        how["bounds"] = {"a": (float(min(-1.0, frame["a"].iloc[at])), float(max(1.5, frame["a"].iloc[at])))}
    if rng.random() < 0.3:
        how["immutable"] = [str(frame.columns[-1])]
    prior = str(rng.choice(["default", "Gaussian", "Laplace", "Sparse"]))
    if prior != "default":
        options["prior"] = {"Gaussian": gbce.Gaussian(1.0), "Laplace": gbce.Laplace(0.7),
                            "Sparse": gbce.Sparse(change=0.3)}[prior]  # fmt: skip
    facts = {
        "table": "enumerated", "rows": len(frame), "columns": frame.shape[1], "model": type(models[0]).__name__,
        "wrapped": False, "space": "frame", "prior": prior, "rules": "none", "target": str(target),
        "free": frame.shape[1] - len(how.get("immutable", [])), "eta": float(np.exp(rng.uniform(-1, np.log(30.0)))),
    }  # fmt: skip
    return Enumerated(
        facts, frame, frame.iloc[at], models, target, options | {"space": gbce.Space.infer(frame, **how)},
        facts["eta"], int(rng.integers(2**31)),
    )  # fmt: skip


def _make_table(rng: Random) -> tuple[pd.DataFrame, pd.Series]:
    """Return a number, possibly with missing values, a whole number, and a category or another number."""
    n = 300
    a, b = rng.normal(size=n).round(2), rng.integers(0, 9, n)
    columns: dict[str, Any] = {"a": np.where(rng.random(n) < rng.choice([0.0, 0.2]), np.nan, a), "b": b}
    y = np.nan_to_num(columns["a"], nan=-1.0) + 0.3 * b + 0.1 * rng.normal(size=n)
    if rng.random() < 0.5:
        columns["c"] = pd.Categorical(rng.choice(["u", "v", "w", "x"], n, p=[0.5, 0.3, 0.15, 0.05]))
        y = y + 1.5 * (columns["c"] == "w")
    elif rng.random() < 0.7:
        columns["c"] = rng.normal(size=n).round(2)
        y = y + np.sin(3 * columns["c"]) * np.where(b > 4, 1.0, -1.0)
    return pd.DataFrame(columns), pd.Series(y)


def _fit(frame: pd.DataFrame, y: pd.Series, classify: bool, rng: Random) -> Any:
    seed = int(rng.integers(2**31))
    if rng.random() < 0.4 and not isinstance(frame.iloc[:, -1].dtype, pd.CategoricalDtype):
        forest = RandomForestClassifier if classify else RandomForestRegressor
        return forest(int(rng.integers(3, 12)), max_depth=int(rng.integers(2, 5)), random_state=seed).fit(frame, y)
    booster = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    leaves = int(rng.integers(3, 10))
    return booster(max_iter=int(rng.integers(3, 25)), max_leaf_nodes=leaves, random_state=seed).fit(frame, y)
