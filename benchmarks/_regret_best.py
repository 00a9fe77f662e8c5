"""The best answers that there are to a question: by the boxes of a tree's leaves, or by a long search."""

from collections.abc import Callable
from typing import Any

import numpy as np

import gbce
from benchmarks._exact import Array
from benchmarks._exact_trees import Boxes, boxes_of
from benchmarks._regret_cases import Question

__all__ = ["MAP", "NEAREST", "best_by_boxes", "best_by_reading", "best_by_trying", "figures_of"]

NEAREST = ("l1", "l2", "changes")
MAP = "MAP"
_GENERATIONS, _KEPT, _TRIED = 200, 40, 10  # of a long search: points kept, and children of each
_WIDEST, _NARROWEST = 0.5, 1e-3  # of its steps, in scales


def figures_of(question: Question, x: Array, outputs: Array | None = None) -> dict[str, Array]:
    """Return what each rule makes small at points ``(n, d)``, infinite where it may not choose them.

    ``outputs`` ``(n,)`` are asked for where they are left out.
    """
    space, x0 = question.space, question.x0
    outputs = question.outputs(x) if outputs is None else outputs
    units = space.change(x, x0) / space.scale
    missed = np.where(question.wish.reached(outputs), 0.0, np.inf)
    count = space.changed(x, x0).sum(axis=1)
    summed = units.sum(axis=1)
    return {
        "l1": summed + missed,
        "l2": np.sqrt(np.square(units).sum(axis=1)) + missed,
        # a number of changes, and among as many the sum: by parts of one that never reach the next number
        "changes": count + summed / (1.0 + summed) + missed,
        MAP: question.eta * question.wish.loss(outputs) + question.cost_of_prior(x),
    }


def best_by_boxes(question: Question) -> dict[str, float]:
    """Return the least of each figure over the boxes of a tree's leaves: it is the same in all of a box."""
    boxes = boxes_of([question.fitted], len(question.x0))
    outputs = question.outputs(boxes.points(question.space.scale))  # inside: at its very edge rounding decides
    x, can = _nearest_in_boxes(question, boxes)
    figures = figures_of(question, x[can], outputs[can])
    return {name: float(own.min()) for name, own in figures.items()}


def _nearest_in_boxes(question: Question, boxes: Boxes) -> tuple[Array, Array]:
    """Return the point of each box that is nearest to the row, ``(n, d)``, and whether the row can get there."""
    space, x0 = question.space, question.x0
    low, high = space.limits(x0)
    free = space.free(x0)
    x, can = np.tile(x0, (len(boxes.low), 1)), np.ones(len(boxes.low), dtype=bool)
    for j, feature in enumerate(space.features):
        below, upto = boxes.low[:, j], boxes.high[:, j]
        inside = (below < x0[j]) & (x0[j] <= upto)
        if j not in free:
            can &= inside
        elif feature.unordered:
            codes = np.arange(len(feature.levels or ()), dtype=float)
            price = question.cost_of_prior(_with_values(x0, j, codes))
            within = (below[:, None] < codes) & (codes <= upto[:, None])
            x[:, j] = np.where(inside, x0[j], codes[np.where(within, price, np.inf).argmin(axis=1)])
            can &= within.any(axis=1)
        else:
            first, last = np.maximum(np.nextafter(below, np.inf), low[j]), np.minimum(upto, high[j])
            if feature.discrete:
                first, last = np.ceil(first), np.floor(last)
            x[:, j] = np.clip(x0[j], first, np.maximum(first, last))
            can &= first <= last
    return x, can


def _with_values(x0: Array, j: int, values: Array) -> Array:
    x = np.tile(x0, (len(values), 1))
    x[:, j] = values
    return x


def best_by_reading(question: Question) -> dict[str, float]:
    """Return the least of each figure that gbce finds where it may read the same trees; of sums with a proof."""
    rules: list[Any] = [gbce.Nearest(prove=True), gbce.Nearest("l2"), gbce.Nearest("changes"), gbce.MAP()]
    explainer = gbce.Explainer(
        question.fitted, question.frame, space=question.space, prior=question.prior, eta=question.eta
    )
    explanation = explainer.explain(question.row, question.wish.target(), rules=rules, posterior=False, seed=0)
    x = np.vstack([decision.x for decision in explanation.decisions])
    return {name: float(own.min()) for name, own in figures_of(question, x).items()}


def best_by_trying(question: Question, rng: np.random.Generator) -> dict[str, float]:
    """Return the least of each figure but the number of changes that a long evolution finds."""
    data = question.space.project(question.numbers(question.frame), question.x0)

    def figure(name: str) -> Callable[[Array], Array]:
        return lambda x: figures_of(question, x)[name]

    return {name: _evolve(question, rng, data, figure(name)) for name in ("l1", "l2", MAP)}


def _evolve(question: Question, rng: np.random.Generator, data: Array, figure: Callable[[Array], Array]) -> float:
    """Return the least figure after many generations of small moves, moves back to the row, and exchanged values."""
    space, x0 = question.space, question.x0
    value = figure(data)
    order = np.argsort(value, kind="stable")[:_KEPT]
    x, value = data[order], value[order]
    for sigma in np.geomspace(_WIDEST, _NARROWEST, _GENERATIONS):
        child = np.repeat(x, _TRIED, axis=0)
        n, d = child.shape
        moved = rng.random((n, d)) < rng.choice([1.0, 2.0, 4.0], size=(n, 1)) / d
        other = data[rng.integers(len(data), size=n)]
        step = child + sigma * space.scale * rng.standard_normal((n, d))
        part = rng.random((n, 1)) ** (1.0 / (1.0 + 1.0 / sigma))  # of the way from the row, most of it in the end
        drawn = x0 + part * (child - x0)
        kind = rng.choice(4, size=(n, 1), p=[0.5, 0.2, 0.15, 0.15])
        to = np.select([kind == 0, kind == 1, kind == 2], [step, np.broadcast_to(x0, step.shape), other], drawn)
        numbers = ~space.unordered
        child = np.where(moved & (numbers | (kind == 1) | (kind == 2)), to, child)
        child = space.project(child, x0)
        both, said = np.vstack([x, child]), np.append(value, figure(child))
        _, first = np.unique(both, axis=0, return_index=True)
        first = first[np.argsort(said[first], kind="stable")][:_KEPT]
        x, value = both[first], said[first]
    return float(value.min())
