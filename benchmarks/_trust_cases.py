"""Cases with exact answers, chosen by hand: what was known to be hard, and plain ones beside it."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

import gbce
from benchmarks._exact import Array, Build, Case, Wish, at_least, value
from benchmarks._exact_grids import grid_truth, levels, table_case, whole
from benchmarks._exact_mixtures import Bumps, LinearModels, LongBumps, Ridge
from benchmarks._exact_tables import (
    Table,
    TableName,
    boosted,
    far_row,
    forest,
    score_constraints,
    spread,
    table,
    tree,
    tree_case,
)
from benchmarks._exact_trees import Boxes, from_boxes, normal

_APART = 7.0  # widths between bumps: then what one adds next to another is too little to matter
_FAR = [(-6.5, 6.5), (-6.5, 6.5)]  # beyond it, less than 1e-6 of any posterior here is left


def _normal_prior(x: Array) -> Array:
    return np.asarray(-0.5 * np.square(x).sum(axis=1))


def _plain_data(d: int) -> Array:
    return np.random.default_rng(0).normal(size=(200, d))


def known_tree() -> Case:
    """Return the question in which SMC once found nothing: a rare leaf of a tree, row 358 of the diabetes data."""
    data = table("diabetes")
    model = tree(data, 5)
    return tree_case(model, data.x, data.x[358], at_least(280.0, spread(model, data.x)), sigma=0.5)


def real_tree(name: TableName, depth: int, sigma: float, share: float, **how: Any) -> Case:
    """Return a question to one tree of real data about a random row."""
    data = table(name)
    model = tree(data, depth)
    wish = score_constraints(model, data.x, share)
    return tree_case(model, data.x, far_row(model, data.x, wish, depth), wish, sigma=sigma, **how)


def few_trees(name: TableName, make: Callable[[Table], Any], sigma: float, share: float) -> Case:
    """Return a question to a sum of trees."""
    data = table(name)
    model = make(data)
    wish = score_constraints(model, data.x, share)
    return tree_case(model, data.x, far_row(model, data.x, wish, 1), wish, sigma=sigma)


def small_forest(d: int, n: int, depth: int, eta: float) -> Case:
    """Return a question to a forest in two or three columns: its cells."""
    rng = np.random.default_rng(d)
    x = rng.normal(size=(300, d))
    model = forest(Table(x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + 0.5 * x[:, -1]), n, depth)
    wish = score_constraints(model, x, 0.97)
    return tree_case(model, x, far_row(model, x, wish, 2), wish, eta=eta)


def far_step() -> Case:
    """Return a flat bulk, a step near it, and the wanted step far out."""
    edges = np.array([-np.inf, 0.8, 4.5, np.inf])
    boxes = Boxes(
        *(np.stack([side, np.full(3, end)], axis=1) for side, end in ((edges[:-1], -np.inf), (edges[1:], np.inf)))
    )
    wish, outputs, ones = value(3.0), np.array([0.0, 1.0, 3.0]), np.ones(2)
    truth = from_boxes(boxes, wish.loss(outputs), wish.reached(outputs), np.zeros(2), ones, ones, 5.0, [normal] * 2)
    data = np.random.default_rng(0).normal(size=(300, 2)) * 3
    return Case(_steps, data, np.zeros(2), wish.target(), truth, gbce.Space.real(2), eta=5.0)


def _steps(x: Array) -> Array:
    return np.where(x[:, 0] > 4.5, 3.0, np.where(x[:, 0] > 0.8, 1.0, 0.0))


def three_models(combine: str, eta: float, y: float = 2.5) -> Case:
    """Return three models that hardly agree, in two columns."""
    models = [
        lambda x: x[:, 0] + 0.5 * x[:, 1] ** 2,
        lambda x: x[:, 0] - 0.4 * x[:, 1],
        lambda x: np.sin(2 * x[:, 0]) + x[:, 1] + 1,
    ]
    wish = value(y)
    truth = grid_truth(models, wish, np.zeros(2), _normal_prior, _FAR, eta=eta, combine=combine, steps=1000)
    return Case(models, _plain_data(2), np.zeros(2), wish.target(), truth, gbce.Space.real(2), None, eta, combine)


def linear_models(k: int, d: int, combine: Literal["any", "average"], y: float, eta: float) -> Case:
    """Return many linear models that differ a little."""
    rng = np.random.default_rng(k + d)
    common = rng.normal(size=d)
    w = common / np.linalg.norm(common) + 0.3 * rng.normal(size=(k, d)) / np.sqrt(d)
    case = LinearModels(w, 0.2 * rng.normal(size=k), np.zeros(d), value(y), eta, combine)
    space = gbce.Space.real(d)
    return Case(case.models(), _plain_data(d), case.row, case.wish.target(), case.truth(), space, None, eta, combine)


def bumps(case: Bumps | LongBumps) -> Case:
    """Return the question to a model whose output is the loss."""
    if case.apart() < _APART:
        raise ValueError(f"bumps must lie {_APART} widths apart, not {case.apart():.1f}")
    d = case.centre.shape[1]
    target = gbce.Loss(_as_it_is, threshold=case.threshold)
    return Case(case.predict, _plain_data(d), np.zeros(d), target, case.truth(), gbce.Space.real(d))


def _as_it_is(loss: Array) -> Array:
    return loss


def bumps_on_axes(d: int, radii: list[float], width: float, threshold: float) -> Case:
    """Return one bump on each axis in turn, at these distances on alternating sides."""
    i = np.arange(len(radii))
    centre = np.zeros((len(i), d))
    centre[i, i % d] = np.array(radii) * np.where((i + i // d) % 2, -1.0, 1.0)
    return bumps(Bumps(centre, np.full(len(i), width), np.zeros(len(i)), threshold))


def ridge(
    d: int, y: float, eta: float, tolerance: float, link: Callable[[Array], Array] | None = None, side: str = "value"
) -> Case:
    """Return a linear model, or a function of one, with weights that fall from one to a tenth."""
    w = np.linspace(1.0, 0.1, d) * np.where(np.arange(d) % 2, -1.0, 1.0)
    wish = Wish(y, y if side == "value" else np.inf, 1.0, tolerance)
    case = Ridge(w, np.full(d, 0.2), wish, eta) if link is None else Ridge(w, np.full(d, 0.2), wish, eta, link=link)
    return Case(case.predict, _plain_data(d), case.row, wish.target(), case.truth(), gbce.Space.real(d), eta=eta)


def mixed_table(change: float | None, eta: float) -> Case:
    """Return whole numbers and categories with a model without structure; sparse where ``change`` is given."""
    rng = np.random.default_rng(5)
    data = pd.DataFrame(
        {
            "rooms": rng.integers(0, 9, 200),
            "floor": rng.integers(0, 6, 200),
            "town": rng.choice(["a", "b", "c", "d"], 200, p=[0.5, 0.3, 0.15, 0.05]),
            "owns": rng.random(200) < 0.3,
        }
    )
    columns = {
        "rooms": whole(0, 8, 3, 2.0),
        "floor": whole(0, 5, 1, 1.5),
        "town": levels(data["town"], "a"),
        "owns": levels(data["owns"], False),
    }
    if change is not None:
        columns = {name: column.sparse(change) for name, column in columns.items()}
    noise = np.random.default_rng(6).normal(size=9 * 6 * 4 * 2)
    prior = None if change is None else gbce.Sparse(gbce.Gaussian(), change=change)
    return table_case(data, columns, lambda index: noise, value(2.5, 1.0, 0.3), eta=eta, prior=prior)


def curved(prior: Any, log_prior: Callable[[Array], Array], reach: float, y: float, eta: float) -> Case:
    """Return a curved model in two columns under a prior that is not normal."""
    wish = value(y, 1.0, 0.4)
    limits = [(-reach, reach)] * 2
    truth = grid_truth([_curve], wish, np.zeros(2), log_prior, limits, eta=eta, steps=2000)
    return Case(_curve, _plain_data(2), np.zeros(2), wish.target(), truth, gbce.Space.real(2), prior, eta)


def _curve(x: Array) -> Array:
    return x[:, 0] * x[:, 1] + 0.5 * x[:, 0]


def bounded(y: float, eta: float) -> Case:
    """Return the curved model with bounds close to the row."""
    wish, limits = value(y, 1.0, 0.3), [(-0.5, 3.0), (-2.0, 1.5)]
    truth = grid_truth([_curve], wish, np.zeros(2), _normal_prior, limits, eta=eta, steps=1600)
    features = (gbce.Feature(f"x{j + 1}", low=low, high=high) for j, (low, high) in enumerate(limits))
    space = gbce.Space(tuple(features))
    data = np.random.default_rng(0).uniform([-0.5, -2.0], [3.0, 1.5], size=(200, 2))
    return Case(_curve, data, np.zeros(2), wish.target(), truth, space, eta=eta)


def hand() -> dict[str, Build]:
    """Return the cases by name, each built when it is asked for."""
    return {
        "tree: diabetes, row 358": known_tree,
        "tree: diabetes, depth 3, wide": partial(real_tree, "diabetes", 3, 1.0, 0.95),
        "tree: diabetes, depth 8": partial(real_tree, "diabetes", 8, 0.5, 0.95),
        "tree: diabetes, depth 8, rare": partial(real_tree, "diabetes", 8, 0.5, 0.995),
        "tree: breast cancer, depth 3": partial(real_tree, "breast cancer", 3, 0.5, 0.95),
        "tree: breast cancer, depth 5, narrow": partial(real_tree, "breast cancer", 5, 0.25, 0.75),
        "tree: breast cancer, depth 8": partial(real_tree, "breast cancer", 8, 0.5, 0.95),
        "tree: wine, depth 5, at most": partial(real_tree, "wine", 5, 0.5, 0.05),
        "tree: houses, depth 8": partial(real_tree, "houses", 8, 0.5, 0.95),
        "tree: diabetes, Laplace": partial(real_tree, "diabetes", 5, 0.5, 0.95, law="laplace"),
        "tree: diabetes, sparse": partial(real_tree, "diabetes", 5, 1.0, 0.95, change=0.3),
        "tree: houses, sparse, rare": partial(real_tree, "houses", 8, 0.5, 0.98, change=0.2),
        "tree: wine, bounds": partial(real_tree, "wine", 5, 1.0, 0.95, within_data=True),
        "trees: diabetes, 3 boosted": partial(few_trees, "diabetes", partial(boosted, n=3, depth=3), 0.5, 0.95),
        "trees: wine, 2 boosted": partial(few_trees, "wine", partial(boosted, n=2, depth=3), 0.25, 0.95),
        "trees: breast cancer, forest of 2": partial(
            few_trees, "breast cancer", partial(forest, n=2, depth=5), 0.5, 0.95
        ),
        "cells: forest of 8 in 2-D": partial(small_forest, 2, 8, 4, 1.0),
        "cells: forest of 4 in 3-D": partial(small_forest, 3, 4, 4, 3.0),
        "step: flat bulk, far step": far_step,
        "models: 3, all": partial(three_models, "all", 8.0),
        "models: 3, average": partial(three_models, "average", 4.0),
        "models: 3, any": partial(three_models, "any", 8.0, 4.5),
        "models: 24 linear, any": partial(linear_models, 24, 5, "any", 3.0, 3.0),
        "models: 24 linear, average": partial(linear_models, 24, 8, "average", 3.0, 3.0),
        "bumps: 4 unequal in 6-D": partial(bumps_on_axes, 6, [3.0, 3.1, 3.3, 4.0], 0.3, 3.0),
        "bumps: 3 in 2-D": partial(bumps_on_axes, 2, [2.5, 3.0, 3.2], 0.2, 1.0),
        "bumps: 2 in 12-D": partial(bumps_on_axes, 12, [3.0, 3.2], 0.4, 6.0),
        "bumps: 2 in 20-D": partial(bumps_on_axes, 20, [3.0, 3.1], 0.5, 10.0),
        "linear: 2-D, eta 0.1": partial(ridge, 2, 2.0, 0.1, 1.0),
        "linear: 10-D, eta 1": partial(ridge, 10, 4.0, 1.0, 0.6),
        "linear: 30-D, eta 200": partial(ridge, 30, 9.0, 200.0, 0.05),
        "linear: 10-D, log evidence -40": partial(ridge, 10, 17.0, 10.0, 0.25),
        "linear: 5-D, at least": partial(ridge, 5, 6.0, 5.0, 0.0, None, "at least"),
        "wave: 4-D": partial(ridge, 4, 2.2, 20.0, 0.2, _wave),
        "table: numbers and categories": partial(mixed_table, None, 2.0),
        "table: sparse, eta 10": partial(mixed_table, 0.2, 10.0),
        "curve: Laplace prior": partial(curved, gbce.Laplace(0.7), _laplace_prior, 22.0, 4.0, 3.0),
        "curve: normal prior, hard": partial(curved, None, _normal_prior, 9.0, 9.0, 10.0),
        "curve: bounds": partial(bounded, 2.8, 10.0),
    }


def more_bumps() -> dict[str, Build]:
    """Return bumps by name that nothing was tuned on, beside those of :func:`hand`."""
    return {
        "bumps: 2 in 3-D": partial(bumps_on_axes, 3, [2.4, 3.5], 0.15, 1.0),
        "bumps: 5 in 5-D": partial(bumps_on_axes, 5, [2.2, 2.8, 3.4, 3.4, 3.9], 0.25, 2.0),
        "bumps: 3 in 9-D": partial(bumps_on_axes, 9, [2.5, 2.6, 3.5], 0.35, 4.0),
        "bumps: 3 in 16-D": partial(bumps_on_axes, 16, [2.6, 3.0, 3.0], 0.45, 8.0),
    }


def _wave(t: Array) -> Array:
    return np.sin(2.0 * t) + 0.3 * t


def _laplace_prior(x: Array) -> Array:
    return np.asarray(-np.abs(x).sum(axis=1) / 0.7)
