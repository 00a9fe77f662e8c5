"""The mode of tree ensembles: on the cells of their splits, and by asking the model about points.

Each row is explained once; then MAP refines the same draws twice, with the trees read and without. Under a prior with
spikes MAP is the best point with as few changes as reach the target: fewer changes are better, then the objective.
Rows that check once per model whether it was read correctly are not counted.

Columns: *better*, *same* and *worse* compare numbers of changes, then objectives; *most worse* and *median* are
relative differences of objectives, negative where cells are better.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import gbce
from benchmarks._documents import add_docs_option, current_commit, markdown, write_results
from benchmarks.trees import TABLES
from gbce._numerics import DECIDING, stream
from gbce.base import Array, Prior
from gbce.budget import Budget
from gbce.draws import Scene
from gbce.posterior import GibbsPosterior

TIE = 1e-3  # of the objective, above one
MOST_ROWS = 4_000  # of a table, that models are fitted on
PRIORS: dict[str, Prior] = {"Gaussian": gbce.Gaussian(), "Laplace": gbce.Laplace(0.5), "Sparse": gbce.Sparse(moves=3)}
SAMPLER = gbce.SMC(n_candidates=2_000, n_draws=500, precision="quick")
MODELS = ("forest", "histogram boosting", "lightgbm")


HEAD = [
    "table", "model", "prior", "modes", "better", "same", "worse", "most worse", "median", "rows asked", "on cells",
    "ms asking", "ms on cells",
]  # fmt: skip


def fitted(kind: str, classes: bool) -> Any:
    """Return an ensemble that is still to be fitted."""
    if kind == "forest":
        make = RandomForestClassifier if classes else RandomForestRegressor
        return make(100, min_samples_leaf=2, random_state=0)
    if kind == "lightgbm":
        boost = LGBMClassifier if classes else LGBMRegressor
        return boost(n_estimators=100, random_state=0, n_jobs=1, verbose=-1)
    return (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(random_state=0)


def questions(table: str, kind: str, n: int) -> Iterator[tuple[Any, Array, Array, Any, float]]:
    """Yield a fitted model, its data, a row without what is wanted, the target and eta."""
    x, y, classes = TABLES[table]()
    some = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    x, y = x[some], y[some]
    model = fitted(kind, classes).fit(x, y)
    said = model.predict(x)
    high = float(np.quantile(y, 0.85))
    without = np.flatnonzero(said != 1 if classes else said < high)
    target, eta = (gbce.Class(1), 10.0) if classes else (gbce.AtLeast(high), 4.0)
    for i in np.random.default_rng(1).permutation(without)[:n]:
        yield model, x, x[i], target, eta


def mode(scene: Scene, posterior: GibbsPosterior) -> tuple[tuple[bool, int, float], int, float]:
    """Return the answer of MAP (missed, changes under spikes, objective), the rows asked and the seconds."""
    rows, start = posterior.n_rows, time.process_time()
    choice = gbce.MAP().choose(replace(scene, posterior=posterior))
    seconds, rows = time.process_time() - start, posterior.n_rows - rows
    said = posterior.evaluate(choice.x[:1])
    objective = float(posterior.objective(choice.x[:1], said.loss)[0])
    if not scene.query.sparse:
        return (False, 0, objective), rows, seconds
    changes = int(scene.space.changed(choice.x[:1], scene.x0).sum())
    return (not said.reached[0, 0], changes, objective), rows, seconds


def excess(one: tuple[bool, int, float], other: tuple[bool, int, float]) -> float:
    """Return by how much one answer is worse than another, relative above one; infinite for more changes."""
    if one[:2] != other[:2]:
        return np.inf if one[:2] > other[:2] else -np.inf
    return (one[2] - other[2]) / max(1.0, abs(other[2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", nargs="+", default=["diabetes", "breast cancer", "california"])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--rows", type=int, default=5, help="rows that are explained in each case")
    add_docs_option(parser)
    options = parser.parse_args()
    body: list[list[str]] = []
    lines = []
    for table in options.tables:
        for kind in options.models:
            asked = list(questions(table, kind, options.rows))
            for name, prior in PRIORS.items():
                found = []
                for number, (model, data, row, target, eta) in enumerate(asked):
                    explainer = gbce.Explainer(model, data, prior=prior, eta=eta, sampler=SAMPLER, policy=None)
                    explanation = explainer.explain(row, target, rules=[], seed=number)
                    posterior = explainer._session.posterior_of(explanation, Budget())
                    posterior.read_trees()
                    scene = Scene(explanation.query, explanation.draws, stream(number, DECIDING))
                    other, *asking = mode(scene, replace(posterior, readers=()))
                    one, *own = mode(scene, posterior)
                    found.append([excess(one, other), asking[0], own[0], 1e3 * asking[1], 1e3 * own[1]])
                worse, means = np.array(found)[:, 0], np.median(np.array(found)[:, 1:], axis=0)
                lines.append([len(worse), (worse < -TIE).sum(), (np.abs(worse) <= TIE).sum(), (worse > TIE).sum()])
                n, better, same, dearer = lines[-1]
                figures = [f"{worse.max():.4f}", f"{np.median(worse):.4f}"]
                spent = [f"{means[0]:,.0f}", f"{means[1]:,.0f}", f"{means[2]:.0f}", f"{means[3]:.0f}"]
                body.append([table, kind, name, *(str(k) for k in (n, better, same, dearer)), *figures, *spent])
                print(" | ".join(body[-1]), flush=True)
    n, better, same, dearer = np.sum(lines, axis=0)
    said = f"Of {n} modes the one on cells is better in {better}, the same in {same}, worse in {dearer}."
    text = "\n".join([markdown(HEAD, body), "", f"- {said}", f"- Commit {current_commit()}."])
    print(text)
    if options.docs:
        write_results("cell-modes", text, __doc__)


if __name__ == "__main__":
    main()
