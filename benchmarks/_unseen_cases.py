"""Questions at random, of real tables and trees, whose posteriors are known exactly.

Each is made from a seed and an index alone, so that any one of them can be put again by itself. Tables are those of
scikit-learn and of wheels; models are single trees of depth 3 to 10 or sums of two or three small ones; three in four
are hidden in a function, so that they can only be asked. Left out, because sums over boxes do not have them:
``NearData`` and ``Gower``, correlated moves, columns of texts and categories, missing values, constraints.
``DistancePrior`` is here with a distance that is a sum over columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gbce
from benchmarks import _wheels
from benchmarks._exact import Array
from benchmarks._exact_trees import boxes_of
from benchmarks._unseen_exact import Column, Exact, sum_over_boxes

__all__ = ["TABLES", "Case", "make_case"]

ROWS = 1_500  # most rows of a table that a case uses, picked at random
SMALL = ("iris", "linnerud", "apartments", "staff")  # three or four columns: asked about half as often as others
Random = np.random.Generator


def _numbers(frame: pd.DataFrame, outcome: str) -> tuple[pd.DataFrame, pd.Series]:
    known = frame.dropna()
    return known.drop(columns=outcome).select_dtypes("number"), known[outcome]


def _bundled(load: Callable[..., Any], **options: Any) -> Callable[[], tuple[pd.DataFrame, pd.Series]]:
    def table() -> tuple[pd.DataFrame, pd.Series]:
        X, y = load(return_X_y=True, as_frame=True, **options)
        return X, y

    return table


def _linnerud() -> tuple[pd.DataFrame, pd.Series]:
    X, y = datasets.load_linnerud(return_X_y=True, as_frame=True)
    return X, y["Waist"]


def _footballers() -> tuple[pd.DataFrame, pd.Series]:
    X, y = _numbers(_wheels.footballers(), "value_eur")
    return X, np.log10(y.clip(lower=1e4))


# By name: is it a classification, and the columns and the outcome.
TABLES: dict[str, tuple[bool, Callable[[], tuple[pd.DataFrame, pd.Series]]]] = {
    "diabetes": (False, _bundled(datasets.load_diabetes, scaled=False)),
    "breast cancer": (True, _bundled(datasets.load_breast_cancer)),
    "wine": (True, _bundled(datasets.load_wine)),
    "iris": (True, _bundled(datasets.load_iris)),
    "digits": (True, _bundled(datasets.load_digits)),
    "linnerud": (False, _linnerud),
    "california": (False, lambda: _numbers(_wheels.california(), "MedHouseVal")),
    "bikes": (False, lambda: _numbers(_wheels.bikes(), "count")),
    "adult": (True, lambda: _numbers(_wheels.adult(), "class")),
    "german credit": (True, lambda: _numbers(_wheels.german_credit(), "class")),
    "apartments": (False, lambda: _numbers(_wheels.apartments(), "m2_price")),
    "staff": (True, lambda: _numbers(_wheels.staff(), "status")),
    "dragons": (False, lambda: _numbers(_wheels.dragons(), "life_length")),
    "footballers": (False, _footballers),
}


@cache
def load_table(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return columns and outcome of a table."""
    return TABLES[name][1]()


@dataclass(frozen=True, eq=False)
class Case:
    """One question with all that its exact answer takes.

    Parameters
    ----------
    facts : dict
        What it is, in words and numbers.
    data, row : frame or array of shape (n, d), and one row of it
        As gbce gets them.
    model, trees : estimator, and the trees that it adds up
        Fitted on ``data``.
    wrapped : bool
        Whether gbce gets a function instead of the model.
    space, prior, eta, target, rules, seed
        What gbce is asked with; a ``prior`` or ``rules`` of None are gbce's own.
    columns : sequence of d Columns
        The same prior, column by column.
    """

    facts: dict[str, Any]
    data: Any
    row: Any
    model: Any
    trees: Sequence[Any]
    wrapped: bool
    space: gbce.Space
    prior: Any
    eta: float
    target: Any
    rules: Any
    seed: int
    columns: Sequence[Column]

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """Labels of a classifier."""
        return tuple(self.model.classes_.tolist()) if hasattr(self.model, "classes_") else None

    def given_model(self) -> Any:
        """Return the model as gbce gets it."""
        if not self.wrapped:
            return self.model
        if self.classes is None:
            return lambda rows: self.model.predict(rows)
        return gbce.classifier(lambda rows: self.model.predict_proba(rows), list(self.classes))

    def explain(self, eta: Any = None, sampler: Any = None) -> gbce.Explanation:
        """Put the question to gbce, at the case's own eta or at another."""
        how: dict[str, Any] = {} if self.rules is None else {"policy": None}
        explainer = gbce.Explainer(
            self.given_model(), self.data, space=self.space, prior=self.prior, eta=eta or self.eta, sampler=sampler,
            **how,
        )  # fmt: skip
        return explainer.explain(self.row, self.target, rules=self.rules, seed=self.seed, progress=False)

    def read(self, points: Array) -> gbce.base.Reading:
        """Return output, loss and verdict at points ``(n, d)``."""
        rows = pd.DataFrame(points, columns=self.data.columns) if isinstance(self.data, pd.DataFrame) else points
        return _read(self.model, rows, self.target)

    def solve(self, eta: float | None = None) -> Exact:
        """Return the exact figures, at the case's own eta or at another."""
        boxes = boxes_of(self.trees, len(self.columns))
        read = self.read(boxes.points(self.space.scale))
        return sum_over_boxes(boxes, read.loss, read.reached, self.columns, self.space.scale, eta or self.eta)


def _read(model: Any, rows: Any, target: Any) -> Any:
    if not hasattr(model, "classes_"):
        return target.read(gbce.base.Outputs(model.predict(rows)))
    p = model.predict_proba(rows)
    said = gbce.base.Outputs(p, classes=tuple(model.classes_.tolist()), decided=p.argmax(axis=1))
    return target.read(said)


def make_case(seed: int, index: int, tables: Sequence[str] = tuple(TABLES), *, every_column: bool = False) -> Case:
    """Return the case of a seed and an index; other ``tables`` make other cases, as does ``every_column`` of them."""
    rng = np.random.default_rng([seed, index])
    often = np.array([0.5 if name in SMALL else 1.0 for name in tables])
    name = str(rng.choice(tables, p=often / often.sum()))
    X, y = _pick_table(name, every_column, rng)
    classify = TABLES[name][0]
    frame = bool(rng.random() < 0.5)
    standard = not frame and bool(rng.random() < 0.5)  # a Space.real has units of one
    if standard:
        X = X / X.std().replace(0.0, 1.0)
    data = X if frame else X.to_numpy(dtype=float)
    model, trees, kind = _pick_model(data, y, classify, rng)
    target, wish = _pick_target(model, data, classify, rng)
    at = _pick_row(model, data, target, rng)
    space, style = _pick_space(X, data, at, standard, rng)
    row = X.iloc[at] if frame else data[at]
    x0 = space.encode(row if not frame else X.iloc[[at]])[0]
    prior, columns, said = _pick_prior(space, x0, frame, rng)
    facts: dict[str, Any] = {
        "table": name, "model": kind, "space": style, "prior": said, "target": wish, "rows": len(X),
        "columns": len(columns), "free": len(space.free(x0)), "wrapped": bool(rng.random() < 0.75),
        "eta": float(np.exp(rng.uniform(np.log(0.1), np.log(200.0)))),
        "rules": "default" if rng.random() < 0.5 else "none",
    }  # fmt: skip
    return Case(
        facts, data, row, model, trees, facts["wrapped"], space, prior, facts["eta"], target,
        None if facts["rules"] == "default" else [], int(rng.integers(2**31)), columns,
    )  # fmt: skip


def _pick_table(name: str, every_column: bool, rng: Random) -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_table(name)
    some = rng.permutation(len(X))[:ROWS]
    X, y = X.iloc[some].reset_index(drop=True), y.iloc[some].reset_index(drop=True)
    if every_column:
        return X, y
    names = list(X.columns[X.std() > (1.0 if name == "digits" else 0.0)])
    most = 20 if name == "digits" else len(names)
    if name == "digits" or rng.random() < 0.3:
        names = [names[i] for i in np.sort(rng.permutation(len(names))[: rng.integers(min(2, most), most + 1)])]
    return X[names], y


def _pick_row(model: Any, data: Any, target: Any, rng: Random) -> int:
    """Return the position of a row: in four of five cases one that has not reached the target, if there are any."""
    open_rows = np.flatnonzero(~_read(model, data, target).reached)
    if len(open_rows) and rng.random() < 0.8:
        return int(rng.choice(open_rows))
    return int(rng.integers(len(data)))


def _pick_model(data: Any, y: pd.Series, classify: bool, rng: Random) -> tuple[Any, list[Any], str]:
    """Return a model, its trees and its name."""
    leaf = int(rng.choice([1, 1, 3, 10, 30]))
    how = {"min_samples_leaf": min(leaf, len(y) // 8), "random_state": int(rng.integers(2**31))}
    if rng.random() < 0.7 or (classify and y.nunique() > 3):  # ten trees a stage have too many boxes
        depth = int(rng.integers(3, 11))
        single = (DecisionTreeClassifier if classify else DecisionTreeRegressor)(max_depth=depth, **how).fit(data, y)
        return single, [single], f"tree of depth {depth}"
    stages, depth = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    if classify and y.nunique() == 3:  # a tree for each class: 4**6 boxes at most
        stages, depth = 2, 2
    boosting = GradientBoostingClassifier if classify else GradientBoostingRegressor
    rate = float(rng.uniform(0.3, 1.0))
    model = boosting(n_estimators=stages, max_depth=depth, learning_rate=rate, **how).fit(data, y)
    return model, list(model.estimators_.ravel()), f"{stages} stages of depth {depth}"


def _pick_space(X: pd.DataFrame, data: Any, at: int, standard: bool, rng: Random) -> tuple[gbce.Space, str]:
    """Return what may change, and the way in which it is said."""
    d = X.shape[1]
    if standard and rng.random() < 0.5:
        return gbce.Space.real(d), "real"
    row = X.iloc[at]
    fixed = rng.random(d) < rng.choice([0.0, 0.2, 0.5])
    fixed[rng.integers(d)] = False
    way: Any = rng.choice(["any", "increase", "decrease"], size=d, p=[0.8, 0.1, 0.1])
    bounded = rng.random(d) < rng.choice([0.0, 0.3])
    ends = [
        (float(min(row.iloc[j], X.iloc[:, j].quantile(rng.uniform(0, 0.2)))) if rng.random() < 0.7 else None,
         float(max(row.iloc[j], X.iloc[:, j].quantile(rng.uniform(0.8, 1)))) if rng.random() < 0.7 else None)
        for j in range(d)
    ]  # fmt: skip
    if standard:
        features = tuple(
            gbce.Feature(f"x{j + 1}", low=ends[j][0] if bounded[j] else None, high=ends[j][1] if bounded[j] else None,
                         mutable=not fixed[j], direction=way[j].item())
            for j in range(d)
        )  # fmt: skip
        return gbce.Space(features), "features"
    frame = isinstance(data, pd.DataFrame)
    names = [str(name) for name in X.columns] if frame else [f"x{j + 1}" for j in range(d)]
    free = [name for name, stays in zip(names, fixed, strict=True) if not stays]
    twofold = [name for j, name in enumerate(names) if X.iloc[:, j].nunique() <= 2]
    space = gbce.Space.infer(
        data,
        immutable=[name for name in names if name not in free],
        increase=[name for name, go in zip(names, way, strict=True) if go == "increase" and name in free],
        decrease=[name for name, go in zip(names, way, strict=True) if go == "decrease" and name in free],
        bounds={name: ends[j] for j, name in enumerate(names) if bounded[j]},
        kinds={name: "integer" if _is_whole(X.iloc[:, names.index(name)]) else "real" for name in twofold},
    )
    return space, "frame" if frame else "array"


def _is_whole(values: pd.Series) -> bool:
    return bool((values == values.round()).all())


def _pick_prior(space: gbce.Space, x0: Array, frame: bool, rng: Random) -> tuple[Any, list[Column], str]:
    """Return a prior for gbce, the same column by column, and its name."""
    kind = str(rng.choice(
        ["default", "Gaussian", "Gaussian each", "Gaussian cov", "Laplace", "Sparse Gaussian", "Sparse Laplace",
         "DistancePrior"],
        p=[0.12, 0.18, 0.08, 0.08, 0.18, 0.15, 0.15, 0.06],
    ))  # fmt: skip
    d, wide = len(x0), float(np.exp(rng.uniform(np.log(0.1), np.log(3.0))))
    each = np.full(d, wide)
    change: float | None = None
    prior: Any = None
    if kind == "default":
        each[:] = 1.0
        change = min(3.0 / max(len(space.free(x0)), 1), 0.5) if frame else None
    elif kind.startswith("Sparse"):
        change = float(rng.uniform(0.05, 0.6))
        prior = gbce.Sparse(gbce.Gaussian(wide) if kind == "Sparse Gaussian" else gbce.Laplace(wide), change=change)
    elif kind == "Gaussian":
        prior = gbce.Gaussian(wide)
    elif kind == "Gaussian each":
        each = np.exp(rng.uniform(np.log(0.1), np.log(3.0), size=d))
        prior = gbce.Gaussian(each.tolist())
    elif kind == "Gaussian cov":
        each = np.exp(rng.uniform(np.log(0.1), np.log(3.0), size=d))
        prior = gbce.Gaussian(cov=np.diag(np.square(each)))
    elif kind == "Laplace":
        prior = gbce.Laplace(wide)
    else:
        unit = wide * space.scale
        prior = gbce.DistancePrior(lambda x, row: (np.abs(x - row) / unit).sum(axis=1))
    low, high = space.limits(x0)
    shape: Any = "laplace" if "Laplace" in kind or kind == "DistancePrior" else "normal"
    stay = Column(0.0, 0.0, 0.0, 1.0)
    columns = [
        replace(stay, row=float(x0[j]), low=float(low[j]), high=float(high[j]), shape=shape,
                deviation=float(each[j] * space.scale[j]), whole=bool(space.discrete[j]), change=change)
        for j in range(d)
    ]  # fmt: skip
    detail = "" if kind == "default" else f" {wide:.2g}" if "each" not in kind and "cov" not in kind else ""
    return prior, columns, kind + detail + (f" change {change:.2f}" if change is not None else "")


def _pick_target(model: Any, data: Any, classify: bool, rng: Random) -> tuple[Any, str]:
    """Return a wish and its name."""
    if classify:
        label = model.classes_.tolist()[rng.integers(len(model.classes_))]
        chance = rng.random()
        if chance < 0.5:
            return gbce.Class(label), f"Class({label!r})"
        if chance < 0.85:
            p = round(float(rng.uniform(0.3, 0.95)), 2)
            return gbce.Class(label, probability=p), f"Class({label!r}, {p})"
        low, high = np.sort(rng.uniform(0.05, 0.95, size=2)).round(2).tolist()
        return gbce.Class(label, probability=(low, high)), f"Class({label!r}, ({low}, {high}))"
    outputs = np.asarray(model.predict(data), dtype=float)
    sd = float(outputs.std()) or 1.0
    scale = sd * float(rng.choice([0.1, 0.1, 0.3, 1.0]))
    style = str(rng.choice(["Value", "Range", "AtLeast", "AtMost"]))
    rare = rng.random() < 0.4
    if style == "AtLeast":
        y = float(np.quantile(outputs, rng.uniform(0.95, 1) if rare else rng.uniform(0, 1)))
        return gbce.AtLeast(y, scale=scale, tolerance=0.0), f"AtLeast({y:.4g}, scale={scale:.3g})"
    if style == "AtMost":
        y = float(np.quantile(outputs, rng.uniform(0, 0.05) if rare else rng.uniform(0, 1)))
        return gbce.AtMost(y, scale=scale, tolerance=0.0), f"AtMost({y:.4g}, scale={scale:.3g})"
    # any leaf alike when rare, in proportion to its rows when not
    y = float(rng.choice(np.unique(outputs) if rare else outputs))
    if style == "Value":
        shape: Any = "absolute" if rng.random() < 0.2 else "squared"
        tolerance = 0.1 * sd
        said = f"Value({y:.4g}, scale={scale:.3g}, tolerance={tolerance:.3g}, {shape})"
        return gbce.Value(y, scale=scale, tolerance=tolerance, loss=shape), said
    half = float(rng.uniform(0.02, 0.5)) * sd
    said = f"Range({y - half:.4g}, {y + half:.4g}, scale={scale:.3g})"
    return gbce.Range(y - half, y + half, scale=scale, tolerance=0.0), said
