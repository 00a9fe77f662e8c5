"""Questions to models of which nothing can be read, drawn at random, each with its best answers.

Trees, small networks and LightGBM are fitted to real tables and hidden in a function. Rows, wishes, rules, priors and
eta come from a generator, one for each case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import gbce
from benchmarks import _wheels
from benchmarks._exact import Array, Wish

__all__ = ["KINDS", "Question", "draw_question"]

Kind = Literal["tree", "network", "LightGBM"]
KINDS: tuple[Kind, ...] = ("tree", "network", "LightGBM")
_TABLES = (
    "diabetes", "breast cancer", "wine", "digits", "california", "bikes", "german credit", "adult", "credit defaults",
    "apartments", "staff",
)  # fmt: skip
_MOST_ROWS = 2_000  # of a table
_SHARES = (0.6, 0.995)  # of the outputs that a wish leaves behind


@dataclass(frozen=True, eq=False)
class Question:
    """A row, a wish, and a model that can only be asked; ``fitted`` is what is hidden in it."""

    name: str
    kind: Kind
    frame: pd.DataFrame
    fitted: Any
    row: pd.Series
    wish: Wish
    space: gbce.Space
    prior: Any
    eta: float

    @cached_property
    def x0(self) -> Array:
        """The row as numbers; levels are their positions."""
        return _as_numbers(self.row.to_frame().T.astype(self.frame.dtypes))[0]

    def predict(self, frame: pd.DataFrame) -> Array:
        """Ask the model, as gbce does."""
        return self.outputs(_as_numbers(frame))

    def outputs(self, x: Array) -> Array:
        """Ask the model about numbers ``(n, d)``."""
        return np.asarray(self.fitted.predict(x), dtype=float)

    def numbers(self, frame: pd.DataFrame) -> Array:
        """Return an answer as numbers ``(n, d)``."""
        return _as_numbers(frame[self.frame.columns].astype(self.frame.dtypes))

    @cached_property
    def cost_of_prior(self) -> Callable[[Array], Array]:
        """What the prior adds to the objective at points ``(n, d)``."""
        return self.prior.at(self.space, self.x0).cost


def draw_question(seed: int, number: int, kind: Kind) -> Question:
    """Draw a question; whether it is kept hangs on the data alone, never on a run of gbce."""
    rng = np.random.default_rng((seed, number))
    while True:
        name = str(rng.choice(_TABLES))
        frame, y = _table(name)
        if kind == "LightGBM":  # which is read as well, and has no categories
            frame = frame.select_dtypes("number")
        fitted = _fit(rng, kind, _as_numbers(frame), y)
        outputs = np.asarray(fitted.predict(_as_numbers(frame)), dtype=float)
        wish = _wish(rng, outputs)
        missed = np.flatnonzero(~wish.reached(outputs))
        if 0 < len(missed) < len(frame):
            break
    row = frame.iloc[int(rng.choice(missed))]
    prior = gbce.Laplace if rng.random() < 0.4 else gbce.Gaussian
    return Question(
        name, kind, frame, fitted, row, wish, _space(rng, frame), prior(float(rng.choice([0.2, 0.5, 1.0]))),
        float(np.exp(rng.uniform(np.log(0.3), np.log(30.0)))),
    )  # fmt: skip


def _wish(rng: np.random.Generator, outputs: Array) -> Wish:
    share, scale = float(rng.uniform(*_SHARES)), 0.1 * float(outputs.std())
    low, high = np.quantile(outputs, [1.0 - share, share])
    if rng.random() < 0.1:
        return Wish(float(np.quantile(outputs, 0.5 * share)), float(high), scale)
    return Wish(float(high), np.inf, scale) if rng.random() < 0.6 else Wish(-np.inf, float(low), scale)


def _space(rng: np.random.Generator, frame: pd.DataFrame) -> gbce.Space:
    """Return a space in which, now and then, columns stay or move one way only."""
    if rng.random() < 0.5:
        return gbce.Space.infer(frame)
    numbers = [name for name in frame.columns if frame[name].dtype != "category" and frame[name].nunique() > 2]
    what = {name: rng.choice(["free", "immutable", "increase", "decrease"], p=[0.7, 0.1, 0.1, 0.1]) for name in numbers}
    still, up, down = ([n for n, own in what.items() if own == rule] for rule in ("immutable", "increase", "decrease"))
    bounds: Any = "data" if rng.random() < 0.5 else None
    return gbce.Space.infer(frame, bounds=bounds, immutable=still, increase=up, decrease=down)


def _fit(rng: np.random.Generator, kind: Kind, x: Array, y: Array) -> Any:
    seed = int(rng.integers(1_000))
    if kind == "tree":
        depth, leaf = int(rng.integers(3, 11)), int(rng.choice([1, 5, 20]))
        return DecisionTreeRegressor(max_depth=depth, min_samples_leaf=leaf, random_state=seed).fit(x, y)
    if kind == "network":
        width = int(rng.choice([8, 16, 32]))
        layers = (width,) * int(rng.integers(1, 3))
        net = MLPRegressor(hidden_layer_sizes=layers, solver="lbfgs", max_iter=60, random_state=seed)
        return make_pipeline(StandardScaler(), net).fit(x, (y - y.mean()) / y.std())
    n, leaves = int(rng.choice([10, 30, 100])), int(rng.choice([4, 8, 31]))
    return LGBMRegressor(n_estimators=n, num_leaves=leaves, random_state=seed, verbose=-1, n_jobs=1).fit(x, y)


def _as_numbers(frame: pd.DataFrame) -> Array:
    columns = [own.cat.codes if own.dtype == "category" else own for _, own in frame.items()]
    return np.column_stack([np.asarray(own, dtype=float) for own in columns])


@cache
def _table(name: str) -> tuple[pd.DataFrame, Array]:
    """Return a table and the outcome as numbers: whole rows only, texts as categories."""
    frame, outcome = _raw(name)
    frame = frame.dropna().sample(frac=1.0, random_state=0).iloc[:_MOST_ROWS].reset_index(drop=True)
    y = frame.pop(outcome)
    texts = [label for label in frame.columns if not pd.api.types.is_numeric_dtype(frame[label])]
    frame[texts] = frame[texts].astype("category")
    y = y if pd.api.types.is_numeric_dtype(y) else y.astype("category").cat.codes
    return frame, np.asarray(y, dtype=float)


def _raw(name: str) -> tuple[pd.DataFrame, str]:
    """Return a whole table and the name of its outcome."""
    if name in ("diabetes", "breast cancer", "wine", "digits"):
        if name == "diabetes":
            frame, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
        else:
            load = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name]
            frame, y = load(return_X_y=True, as_frame=True)
        return frame.assign(outcome=y), "outcome"
    read, outcome = {
        "california": (_wheels.california, "MedHouseVal"),
        "bikes": (_wheels.bikes, "count"),
        "german credit": (_wheels.german_credit, "class"),
        "adult": (_wheels.adult, "class"),
        "credit defaults": (_wheels.give_me_some_credit, "SeriousDlqin2yrs"),
        "apartments": (_wheels.apartments, "m2_price"),
        "staff": (_wheels.staff, "status"),
    }[name]
    return read(), outcome
