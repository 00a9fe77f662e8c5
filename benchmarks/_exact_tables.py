"""Real and made-up tables with a column to predict, and questions to trees that were fitted to them."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import gbce
from benchmarks._exact import Array, Case, Wish
from benchmarks._exact_trees import Distribution, laplace, normal, spiked, trees_truth, truncated

TableName = Literal["diabetes", "breast cancer", "wine", "houses"]
_WORST_RADIUS, _ALCOHOL = 20, 0


class Table(NamedTuple):
    """Columns ``(n, d)``, and what is predicted from them."""

    x: Array
    y: Array


@cache
def table(name: TableName) -> Table:
    """Return a table by name: with 10, 29, 12 and 8 columns."""
    if name == "diabetes":
        return Table(*load_diabetes(return_X_y=True, scaled=False))
    if name == "houses":
        return _houses()
    whole = (load_breast_cancer if name == "breast cancer" else load_wine)(return_X_y=True)[0]
    j = _WORST_RADIUS if name == "breast cancer" else _ALCOHOL
    return Table(np.delete(whole, j, axis=1), whole[:, j])


def _houses(n: int = 2_000) -> Table:
    """Make up a table like that of the Californian houses: incomes, ages, rooms, people, and a place."""
    rng = np.random.default_rng(20)
    income, rooms = rng.gamma(4.0, 1.0, n), rng.normal(5.4, 1.2, n)
    age, people = rng.uniform(1.0, 52.0, n), rng.lognormal(7.0, 0.7, n)
    bedrooms, household = 0.2 * rooms + rng.normal(0.0, 0.1, n), rng.lognormal(1.0, 0.2, n)
    north, west = rng.uniform(32.0, 42.0, n), rng.uniform(-124.0, -114.0, n)
    coast = np.exp(-0.5 * np.square(north + west + 84.0))
    price = 0.45 * income + 0.01 * age - 0.3 * household + 1.2 * coast + 0.15 * rooms + rng.normal(0.0, 0.3, n)
    return Table(np.column_stack([income, age, rooms, bedrooms, people, household, north, west]), price)


def tree(data: Table, depth: int, seed: int = 0) -> DecisionTreeRegressor:
    """Fit one tree."""
    return DecisionTreeRegressor(max_depth=depth, min_samples_leaf=5, random_state=seed).fit(*data)


def boosted(data: Table, n: int, depth: int) -> GradientBoostingRegressor:
    """Fit a few trees, one after another."""
    return GradientBoostingRegressor(n_estimators=n, max_depth=depth, learning_rate=0.5, random_state=0).fit(*data)


def forest(data: Table, n: int, depth: int, seed: int = 0) -> RandomForestRegressor:
    """Fit a few trees side by side."""
    return RandomForestRegressor(n, max_depth=depth, min_samples_leaf=3, random_state=seed).fit(*data)


def trees_of(model: Any) -> list[Any]:
    """Return the trees whose outputs a model adds up."""
    if isinstance(model, DecisionTreeRegressor):
        return [model]
    return list(np.ravel(model.estimators_))


def spread(model: Any, x: Array) -> float:
    """Return a tenth of the standard deviation of the outputs: the scale of a loss where nobody gave one."""
    return 0.1 * float(np.std(model.predict(x)))


def score_constraints(model: Any, x: Array, share: float, *, scale: float | None = None) -> Wish:
    """Return the wish for at least this quantile of the outputs, or below one half for at most this quantile."""
    y = float(np.quantile(model.predict(x), share))
    unit = spread(model, x) if scale is None else scale
    return Wish(y, np.inf, unit) if share >= 0.5 else Wish(-np.inf, y, unit)


def far_row(model: Any, x: Array, wish: Wish, seed: int) -> Array:
    """Return a random row that does not meet the wish."""
    missed = np.flatnonzero(~wish.reached(model.predict(x)))
    return np.array(x[np.random.default_rng(seed).choice(missed)])


def tree_case(
    model: Any,
    x: Array,
    row: Array,
    wish: Wish,
    *,
    sigma: float = 1.0,
    eta: float = 1.0,
    law: Literal["normal", "laplace"] = "normal",
    change: float | None = None,
    within_data: bool = False,
) -> Case:
    """Return the question to a sum of trees, and its exact answer.

    Parameters
    ----------
    model : fitted tree, forest or boosted trees
        Of scikit-learn.
    x, row : arrays of shapes (n, d) and (d,)
        The data and the row.
    wish : Wish
        What is asked for.
    sigma, eta : float
        Width of the prior in standard deviations of the columns, and weight of the loss.
    law : {"normal", "laplace"}
        Of the prior.
    change : float, optional
        Probability that a column changes at all, under a sparse prior.
    within_data : bool
        Whether columns stay inside the range of the data.
    """
    names = [f"x{j + 1}" for j in range(x.shape[1])]
    space = gbce.Space.real(names, scale=x.std(axis=0).tolist())
    scale = x.std(axis=0)
    sd = sigma * scale
    bounds = (x.min(axis=0), x.max(axis=0)) if within_data else None
    if bounds is not None:
        features = zip(names, scale, *bounds, strict=True)
        space = gbce.Space(
            tuple(gbce.Feature(n, scale=float(s), low=float(a), high=float(b)) for n, s, a, b in features)
        )
    laws: Sequence[Distribution] = [normal if law == "normal" else laplace] * len(row)
    if bounds is not None:
        ends = zip(laws, (bounds[0] - row) / sd, (bounds[1] - row) / sd, strict=True)
        laws = [truncated(one, float(a), float(b)) for one, a, b in ends]
    prior: Any = gbce.Gaussian(sigma) if law == "normal" else gbce.Laplace(sigma)
    if change is not None:
        laws = [spiked(one, change) for one in laws]
        prior = gbce.Sparse(prior, change=change)
    truth = trees_truth(model, trees_of(model), wish, row, sd, scale, eta, laws)
    return Case(model, x, row, wish.target(), truth, space, prior, eta)
