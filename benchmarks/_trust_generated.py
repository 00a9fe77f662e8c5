"""Cases with exact answers that a generator with a fixed seed drew: nobody chose them."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

import gbce
from benchmarks._exact import Array, Build, Case, Wish, value
from benchmarks._exact_grids import levels, table_case, whole
from benchmarks._exact_mixtures import Bumps, LinearModels, LongBumps, Ridge
from benchmarks._exact_tables import Table, TableName, far_row, forest, score_constraints, table, tree, tree_case
from benchmarks._trust_cases import bumps, more_bumps

_SEED, _FRESH_SEED = 1731, 271_828  # the second for cases that are run once a change is made, to confirm it
_LOG_EVIDENCE = (-40.0, -0.3)  # neither hopeless nor trivial
_TRIES = 200
_COUNTS = {"tree of a random table": 9, "tree of a real table": 8, "few trees": 7, "bumps": 7, "ridge": 5, "models": 3,
           "discrete table": 4, "long bumps": 7}  # fmt: skip


def fresh() -> dict[str, Build]:
    """Return other cases of the same generator, and bumps of other settings."""
    return {f"fresh {name}": build for name, build in (_draw_all(_FRESH_SEED) | more_bumps()).items()}


def generated() -> dict[str, Build]:
    """Return cases drawn by a generator whose seed is fixed.

    These cases are a promise: no sampler, verdict or setting of gbce is tuned on them, nor are the generator, its seed
    or its ranges changed because of what gbce makes of a case. Whether a drawn question is kept hangs on its exact log
    evidence alone, never on a run of gbce.
    """
    return {f"generated {name}": build for name, build in _draw_all(_SEED).items()}


def _draw_all(seed: int) -> dict[str, Build]:
    return {
        f"{what} {i + 1}": partial(_drawn, what, (seed, position, i))
        for position, (what, count) in enumerate(_COUNTS.items())
        for i in range(count)
    }


def _drawn(what: str, seed: tuple[int, int, int]) -> Case:
    """Draw questions of one kind until the exact log evidence lies within the limits."""
    rng = np.random.default_rng(seed)
    for _ in range(_TRIES):
        case = _KINDS[what](rng)
        if _LOG_EVIDENCE[0] <= case.truth.log_evidence <= _LOG_EVIDENCE[1]:
            return case
    raise RuntimeError(f"no {what} within the limits")


def _random_table(rng: np.random.Generator, d: int, n: int = 600) -> Table:
    """Make up columns that go together, some of them skewed, and something curved to predict."""
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    skewed = rng.random(d) < 0.3
    x[:, skewed] = np.exp(0.5 * x[:, skewed])
    u = (x - x.mean(axis=0)) / x.std(axis=0)
    y = u @ rng.normal(size=d) + 2.0 * np.sin(u @ rng.normal(size=d)) + u[:, 0] * u[:, -1]
    return Table(x, y + 0.3 * rng.normal(size=n))


def _any_wish(rng: np.random.Generator, model: object, x: Array) -> Wish:
    share = float(rng.uniform(0.6, 0.995))
    wish = score_constraints(model, x, share if rng.random() < 0.6 else 1.0 - share)
    return Wish(wish.low, wish.high, wish.scale * float(rng.choice([1.0, 2.0, 4.0])))


def _question(rng: np.random.Generator, model: object, x: Array) -> Case:
    """Return a question to trees, with a random row, wish, width and eta."""
    wish = _any_wish(rng, model, x)
    row = far_row(model, x, wish, int(rng.integers(2**31)))
    sigma, eta = float(rng.choice([0.25, 0.5, 1.0])), float(np.exp(rng.uniform(np.log(0.1), np.log(10.0))))
    change = float(rng.uniform(0.1, 0.5)) if rng.random() < 0.2 else None
    law = rng.choice(["normal", "normal", "normal", "laplace"])
    return tree_case(
        model, x, row, wish, sigma=sigma, eta=eta, law="laplace" if law == "laplace" else "normal", change=change,
        within_data=bool(rng.random() < 0.2),
    )  # fmt: skip


def _tree_of_random(rng: np.random.Generator) -> Case:
    data = _random_table(rng, int(rng.integers(3, 31)))
    return _question(rng, tree(data, int(rng.integers(2, 9)), seed=int(rng.integers(1000))), data.x)


def _tree_of_real(rng: np.random.Generator) -> Case:
    names: tuple[TableName, ...] = ("diabetes", "breast cancer", "wine", "houses")
    data = table(names[rng.integers(len(names))])
    return _question(rng, tree(data, int(rng.integers(2, 9)), seed=int(rng.integers(1000))), data.x)


def _few_trees(rng: np.random.Generator) -> Case:
    data = _random_table(rng, int(rng.integers(2, 13)))
    model = forest(data, int(rng.integers(2, 4)), int(rng.integers(2, 5)), seed=int(rng.integers(1000)))
    return _question(rng, model, data.x)


def _bumps(rng: np.random.Generator) -> Case:
    """Draw bumps in random directions, far enough from each other."""
    d, k = int(rng.integers(2, 17)), int(rng.integers(1, 6))
    while True:
        direction = rng.normal(size=(k, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        centre = direction * rng.uniform(2.0, 4.0, size=(k, 1))
        width = rng.uniform(0.15, 0.35, size=k)
        height = rng.uniform(0.0, 3.0, size=k)
        case = Bumps(centre, width, height, threshold=0.4 * d)
        if case.apart() > 7.0 + np.sqrt(d):
            return bumps(case)
        k = max(k - 1, 1)


def _long_bumps(rng: np.random.Generator) -> Case:
    """Draw bumps that are long in random directions, far enough from each other."""
    d, k = int(rng.integers(3, 13)), int(rng.integers(2, 5))
    while True:
        direction = rng.normal(size=(k, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        centre = direction * rng.uniform(2.0, 4.0, size=(k, 1))
        axes = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
        width = np.exp(rng.uniform(np.log(0.15), np.log(0.6), size=(k, 1, d)))
        shape = (axes * width**2) @ axes.transpose(0, 2, 1)
        case = LongBumps(centre, shape, rng.uniform(0.0, 3.0, size=k), threshold=0.4 * d)
        if case.apart() > 7.0 + np.sqrt(d):
            return bumps(case)


def _ridge(rng: np.random.Generator) -> Case:
    d = int(rng.integers(2, 31))
    w, row, sigma = rng.normal(size=d), rng.normal(size=d), float(rng.choice([0.5, 1.0]))
    eta = float(np.exp(rng.uniform(np.log(0.1), np.log(200.0))))
    length = sigma * float(np.linalg.norm(w))
    y = float(w @ row + length * rng.uniform(0.5, 7.0))
    wish = value(y, length, 0.3 * length) if rng.random() < 0.6 else Wish(y, np.inf, length)
    case = Ridge(w, row, wish, eta, sigma)
    data, space = rng.normal(size=(100, d)), gbce.Space.real(d)
    return Case(case.predict, data, row, wish.target(), case.truth(), space, gbce.Gaussian(sigma), eta)


def _models(rng: np.random.Generator) -> Case:
    d, k = int(rng.integers(2, 9)), int(rng.integers(2, 8))
    w = rng.normal(size=(k, d))
    combine: Literal["any", "average"] = "any" if rng.random() < 0.6 else "average"
    wish, eta = value(float(rng.uniform(2.0, 8.0))), float(np.exp(rng.uniform(np.log(0.3), np.log(20.0))))
    case = LinearModels(w, rng.normal(size=k), rng.normal(size=d), wish, eta, combine)
    data, space = rng.normal(size=(100, d)), gbce.Space.real(d)
    return Case(case.models(), data, case.row, wish.target(), case.truth(), space, None, eta, combine)


def _discrete(rng: np.random.Generator) -> Case:
    """Draw a table of whole numbers and levels with one random number for every point."""
    n, sizes = 150, rng.integers(3, 9, size=int(rng.integers(1, 4)))
    data = pd.DataFrame({f"n{j}": rng.integers(0, size + 1, n) for j, size in enumerate(sizes)})
    columns = {
        f"n{j}": whole(0, int(size), int(data[f"n{j}"].iloc[0]), float(rng.uniform(1.0, 3.0)))
        for j, size in enumerate(sizes)
    }
    for j in range(int(rng.integers(1, 4))):
        data[f"c{j}"] = np.array(list("abcde"))[: int(rng.integers(2, 6))][np.arange(n) % 2]
        extra = rng.choice(np.array(list("abcde")), n)
        data[f"c{j}"] = np.where(rng.random(n) < 0.5, data[f"c{j}"], extra)
        columns[f"c{j}"] = levels(data[f"c{j}"], data[f"c{j}"].iloc[0])
    change = float(rng.uniform(0.1, 0.4)) if rng.random() < 0.5 else None
    if change is not None:
        columns = {name: column.sparse(change) for name, column in columns.items()}
    count = int(np.prod([len(column.values) for column in columns.values()]))
    outputs, eta = rng.normal(size=count), float(np.exp(rng.uniform(np.log(1.0), np.log(20.0))))
    prior = None if change is None else gbce.Sparse(gbce.Gaussian(), change=change)
    wish = value(float(np.quantile(outputs, 0.99)), 1.0, 0.3)
    return table_case(data, columns, lambda index: outputs, wish, eta=eta, prior=prior)


_KINDS: dict[str, Callable[[np.random.Generator], Case]] = {
    "tree of a random table": _tree_of_random,
    "tree of a real table": _tree_of_real,
    "few trees": _few_trees,
    "bumps": _bumps,
    "ridge": _ridge,
    "models": _models,
    "discrete table": _discrete,
    "long bumps": _long_bumps,
}
