"""What is read of tree ensembles beside what they say themselves, and how long reading a large forest takes.

Each model is asked about random rows and about as many rows with columns at the very edges of its splits (the threshold
and the numbers next to it, in double and single precision), with missing values where it takes them. Counted are class
decisions that differ, and the largest difference of an output, absolute or relative where outputs are above one.
CatBoost takes part where it is installed. Run as ``python -m benchmarks.reading``.

An isolation forest outputs 1 or -1, so that a difference would be 2.
"""

import argparse
import importlib.util
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier

import gbce
from benchmarks._documents import add_docs_option, print_into
from benchmarks._edges import at_edges
from gbce.predictors import as_predictor
from gbce.trees import TreeScores, read_cells, read_structure

LIGHT: dict[str, Any] = {"n_estimators": 60, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
EXTREME: dict[str, Any] = {"n_estimators": 60, "max_depth": 5, "n_jobs": 1, "enable_categorical": True}
LARGE = (20_640, 8)  # rows and columns of the California housing data
Make = Callable[[], Any]


def table(n: int, seed: int, gaps: bool, words: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """Return made-up rows, some with zeros, gaps and words, and scores of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6))
    x[:, 5] = np.where(rng.random(n) < 0.4, 0.0, x[:, 5])
    score = 2 * x[:, 0] + np.sin(3 * x[:, 1]) + x[:, 2] * x[:, 3] + (x[:, 5] == 0)
    if gaps:
        x[rng.random(x.shape) < 0.1] = np.nan
    frame = pd.DataFrame(x, columns=list("abcdef"))
    if words:
        frame["word"] = pd.Categorical(rng.choice([f"w{i}" for i in range(40)], n))
        score += frame["word"].cat.codes.to_numpy() % 3
    return frame, score


def cases() -> Iterator[tuple[str, Make, str]]:
    """Return names, models and what their rows have beside numbers: gaps, words, or both."""
    two = ("", "gaps")
    for extra in two:
        yield "forest, full depth", lambda: RandomForestClassifier(60, random_state=0), extra
        yield "forest, leaves of five", lambda: RandomForestClassifier(60, min_samples_leaf=5, random_state=0), extra
        yield "extra trees", lambda: ExtraTreesClassifier(60, random_state=0), extra
        yield "bagging", lambda: BaggingClassifier(n_estimators=30, max_features=4, random_state=0), extra
    yield "single tree", lambda: DecisionTreeClassifier(min_samples_leaf=3, random_state=0), ""
    yield "isolation forest", lambda: IsolationForest(n_estimators=60, random_state=0), ""
    yield "gradient boosting", lambda: GradientBoostingClassifier(n_estimators=60, random_state=0), ""
    yield "AdaBoost", lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=30), ""
    for extra in (*two, "gaps words"):
        yield "histogram boosting", lambda: HistGradientBoostingClassifier(max_iter=60), extra
        yield "LightGBM", lambda: lightgbm.LGBMClassifier(**LIGHT), extra
        yield "LightGBM, zero as missing", lambda: lightgbm.LGBMClassifier(**LIGHT, zero_as_missing=True), extra
        yield "LightGBM, dropout", lambda: lightgbm.LGBMClassifier(**LIGHT, boosting_type="dart"), extra
        yield "XGBoost", lambda: xgboost.XGBClassifier(**EXTREME), extra
        yield "XGBoost, dropout", lambda: xgboost.XGBClassifier(**EXTREME, booster="dart", rate_drop=0.3), extra
    forest: dict[str, Any] = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
    yield "LightGBM, forest", lambda: lightgbm.LGBMClassifier(**LIGHT, **forest), "gaps words"
    yield "XGBoost, forest", lambda: xgboost.XGBRFClassifier(**EXTREME), "gaps words"
    yield "histogram boosting, numbers", lambda: HistGradientBoostingRegressor(max_iter=60), "gaps words"
    yield "LightGBM, Poisson", lambda: lightgbm.LGBMRegressor(**LIGHT, objective="poisson"), "gaps words"
    yield "XGBoost, numbers", lambda: xgboost.XGBRegressor(**EXTREME), "gaps words"
    if importlib.util.find_spec("catboost"):
        import catboost

        quiet = {"iterations": 60, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
        for policy in ("SymmetricTree", "Depthwise", "Lossguide"):
            options = quiet | {"grow_policy": policy, "one_hot_max_size": 50}
            yield f"CatBoost, {policy}", partial(catboost.CatBoostClassifier, **options), "gaps"
            words = options | {"cat_features": ["word"]}
            yield f"CatBoost, {policy}", partial(catboost.CatBoostClassifier, **words), "gaps words"


def compare(make: Make, extra: str, n: int, n_classes: int) -> tuple[int, int, float]:
    """Return how many rows were asked about, how many decisions differ, and the largest difference."""
    gaps, words = "gaps" in extra, "words" in extra
    frame, score = table(2_000, 0, gaps, words)
    model = make()
    numbers = not hasattr(model, "predict_proba")
    cuts = [0.0] if n_classes == 2 else [-1.0, 1.5]
    model.fit(frame, np.abs(score) if numbers else np.digitize(score, cuts))
    space = gbce.Space.infer(frame)
    inside, predictor = read_structure(model, space), as_predictor(model, space)
    assert inside is not None
    x = space.encode(table(n, 1, gaps, words)[0])
    edges = at_edges(x, _in_place(inside, space), 2, 0.05 if gaps else 0.0, small=True)
    if words:
        edges[:, -1] = x[:, -1]
    both = np.vstack([x, edges])
    said, read = predictor(both), inside.outputs(both)
    worst = float((np.abs(read - said.values) / np.maximum(1.0, np.abs(said.values))).max())
    differ = 0 if said.classes is None else int((read.argmax(axis=1) != said.decided).sum())
    return len(both), differ, worst


def _in_place(inside: Any, space: gbce.Space) -> Any:
    """Return the trees with the columns in the order of the features; histogram boosting puts words first."""
    parts = inside.parts
    if inside.coded == {0} and len(space) > 1:
        from dataclasses import replace

        return replace(parts, column=np.where(parts.column == 0, len(space) - 1, parts.column - 1))
    return parts


def large() -> None:
    """Time the reading of a forest of a hundred full trees, and the memory it takes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=LARGE)
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + rng.normal(size=LARGE[0]) * 0.3
    model = RandomForestRegressor(100, random_state=0, n_jobs=-1).fit(x, y)
    space = gbce.Space.infer(x)
    start = time.perf_counter()
    inside = read_structure(model, space)
    middle = time.perf_counter()
    cells = read_cells(inside, space, x[:1_000])
    end = time.perf_counter()
    tracemalloc.start()
    read_structure(model, space)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert inside is not None
    parts = inside.parts
    assert isinstance(parts, TreeScores)
    sizes = sum(value.nbytes for value in vars(parts).values() if isinstance(value, np.ndarray))
    print(
        f"\nforest of {len(parts.roots)} full trees, {int((parts.column < 0).sum()):,} leaves: read in "
        f"{middle - start:.2f} s, {sizes / 1e6:.0f} MB kept, {most / 1e6:.0f} MB at most on the way; cells in "
        f"{end - middle:.1f} s, {0 if cells is None else cells.first.nbytes * 2 / 1e6:.0f} MB of ends of boxes"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="random rows, and rows at edges, for each model")
    add_docs_option(parser)
    options = parser.parse_args()
    with print_into("reading", options.docs, __doc__):
        print(
            f"{'model':<30}{'rows with':<14}{'classes':>8}{'rows':>9}{'decisions differ':>18}{'largest difference':>20}"
        )
        for name, make, extra in cases():
            numbers = not hasattr(make(), "predict_proba")
            for n_classes in (0,) if numbers else (2, 3):
                n, differ, worst = compare(make, extra, options.rows, n_classes)
                print(f"{name:<30}{extra or 'numbers':<14}{n_classes:>8}{n:>9,}{differ:>18}{worst:>20.1e}", flush=True)
        large()


if __name__ == "__main__":
    main()
