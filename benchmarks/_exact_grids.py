"""Exact posteriors by summing over points: fine grids in one or two columns, and small discrete tables."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import gbce
from benchmarks._exact import Array, Case, Truth, Wish, from_points

Model = Callable[[Array], Array]


def combined(losses: Array, eta: float, combine: str) -> Array:
    """Return the potential of models of equal weight from their losses ``(n, k)``."""
    if combine == "all":
        return eta * losses.max(axis=1)
    if combine == "average":
        return eta * losses.mean(axis=1)
    return -logsumexp(-eta * losses, axis=1) + np.log(losses.shape[1])


def grid_truth(
    models: Sequence[Model],
    wish: Wish,
    row: Array,
    log_prior: Callable[[Array], Array],
    limits: Sequence[tuple[float, float]],
    *,
    eta: float = 1.0,
    combine: str = "any",
    steps: int = 1600,
) -> Truth:
    """Integrate over a grid of midpoints between ``limits``; units of change are one.

    The prior is ``exp(log_prior(x))`` inside the limits and nothing outside: they are bounds, or so far out that
    nothing is left.
    """
    axes = [low + (high - low) * (np.arange(steps) + 0.5) / steps for low, high in limits]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    outputs = np.stack([model(x) for model in models], axis=1)
    losses = wish.loss(outputs)
    return from_points(
        x,
        np.abs(x - row),
        log_prior(x),
        combined(losses, eta, combine),
        losses[:, 0],
        wish.reached(outputs[:, 0]),
        lumps=wish.low != wish.high,
    )


class Column(NamedTuple):
    """One column of a discrete table: its values, the row's own, and minus the log prior of each value."""

    values: tuple[Any, ...]
    now: Any
    cost: Array
    ordered: bool
    scale: float = 1.0

    def places(self, index: Array) -> Array:
        """Return coordinates ``(n, k)``: a number over its scale, or levels at distance one from each other."""
        if self.ordered:
            return np.array(self.values, dtype=float)[index][:, None] / self.scale
        return np.eye(len(self.values))[index] / np.sqrt(2.0)

    def change(self, index: Array) -> Array:
        """Return the size of the change of each of ``(n,)``."""
        if self.ordered:
            return np.abs(np.array(self.values, dtype=float) - self.now)[index]
        return np.array([v != self.now for v in self.values], dtype=float)[index]

    def sparse(self, change: float) -> "Column":
        """Return the column with the row's own value given the probability ``1 - change``."""
        own = np.array([value == self.now for value in self.values])
        others = logsumexp(-self.cost[~own])
        return self._replace(cost=np.where(own, -np.log1p(-change), self.cost + others - np.log(change)))


def whole(low: int, high: int, now: int, scale: float, sigma: float = 1.0) -> Column:
    """Return a column of whole numbers under a normal law of moves."""
    values = tuple(range(low, high + 1))
    cost = 0.5 * np.square((np.array(values) - now) / (sigma * scale))
    return Column(values, now, cost, True, scale)


def levels(data: pd.Series, now: Any, sigma: float = 1.0) -> Column:
    """Return a column of levels: a change costs one unit once, and goes to a level by its frequency plus one."""
    counts = data.value_counts().sort_index() + 1
    values = tuple(counts.index)
    own = np.array([value == now for value in values])
    share = counts.to_numpy(float) / counts.to_numpy(float)[~own].sum()
    return Column(values, now, np.where(own, 0.0, 0.5 / sigma**2 - np.log(share)), False)


class Lookup:
    """A model without structure: one number for every point of a discrete table."""

    def __init__(self, points: Sequence[tuple[Any, ...]], outputs: Array) -> None:
        self.outputs = dict(zip(points, outputs.tolist(), strict=True))

    def predict(self, frame: pd.DataFrame) -> Array:
        """Answer for the rows of a frame."""
        return np.array([self.outputs[line] for line in frame.itertuples(index=False, name=None)])


def table_case(
    data: pd.DataFrame,
    columns: dict[str, Column],
    outputs: Callable[[Array], Array],
    wish: Wish,
    *,
    eta: float,
    prior: Any,
) -> Case:
    """Enumerate a discrete table whose model answers ``outputs(index (n, d))``, from the values' positions."""
    kinds = list(columns.values())
    index = np.array(list(itertools.product(*(range(len(c.values)) for c in kinds))))
    points = [tuple(c.values[i] for c, i in zip(kinds, line, strict=True)) for line in index]
    answers = np.asarray(outputs(index), dtype=float)
    cost = np.sum([c.cost[index[:, j]] for j, c in enumerate(kinds)], axis=0)
    loss = wish.loss(answers)
    truth = from_points(
        np.concatenate([c.places(index[:, j]) for j, c in enumerate(kinds)], axis=1),
        np.stack([c.change(index[:, j]) for j, c in enumerate(kinds)], axis=1),
        -cost,
        eta * loss,
        loss,
        wish.reached(answers),
        lumps=True,
    )
    ordered = {name: c for name, c in columns.items() if c.ordered}
    space = gbce.Space.infer(
        data,
        bounds={name: (c.values[0], c.values[-1]) for name, c in ordered.items()},
        scale={name: c.scale for name, c in ordered.items()},
    )
    row = {name: c.now for name, c in columns.items()}
    return Case(Lookup(points, answers).predict, data, row, wish.target(), truth, space, prior, eta)
