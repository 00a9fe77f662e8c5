"""How many optima are proved on tree ensembles, and how soon, and how wide the safe boxes are around them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gbce import Space
from gbce.base import Array, Target
from gbce.trees import CellTrees, find_safe_ranges, prove_cheapest

__all__ = ["LIMIT", "Proved", "box_width", "prove_row", "say_proofs", "share_of_range"]

LIMIT = 5.0  # CPU seconds for one row
_EXACT = 1e-8  # share of the cost within which an optimum is proved


class Proved(NamedTuple):
    """What came of one row: whether its optimum is proved, CPU seconds, boxes, and what could be saved at most."""

    proved: bool
    seconds: float
    boxes: int
    gap: float


def prove_row(
    trees: CellTrees,
    space: Space,
    x0: Array,
    target: Target,
    known: Array,
    accepts: Callable[[Array], Array],
    limit: float = LIMIT,
) -> Proved:
    """Prove that nothing is cheaper than a known point, or find what is, within a limit of CPU seconds."""
    start = time.process_time()
    found = prove_cheapest(
        trees, space, x0, target, known, accepts, most_work=10**12, late=partial(_is_late, start + limit)
    )
    seconds = time.process_time() - start
    assert found is not None
    best = known if found.x is None else found.x
    cost = float((space.change(best[None, :], x0) / space.scale)[0].sum())
    gap = 1.0 - found.lower / cost
    return Proved(gap <= _EXACT, seconds, found.boxes, max(gap, 0.0))


def _is_late(deadline: float) -> bool:
    return time.process_time() > deadline


def say_proofs(lines: Sequence[Proved]) -> list[str]:
    """Return rows, the shares that were proved within 0.1 s, 1 s and the limit, and the usual effort."""
    proved, seconds = np.array([one.proved for one in lines]), np.array([one.seconds for one in lines])
    shares = [f"{(proved & (seconds <= end)).mean():.0%}" for end in (0.1, 1.0, np.inf)]
    effort = [f"{np.median(seconds):.3f}", f"{np.median([one.boxes for one in lines]):.0f}"]
    return [str(len(lines)), *shares, *effort, f"{max(one.gap for one in lines):.1%}"]


def box_width(trees: CellTrees, space: Space, x0: Array, x: Array, target: Target, data: Array) -> float:
    """Return the mean width of the safe box around a point, all columns free, in shares of the data's ranges."""
    ends = np.vstack([data, x0, x])
    bounded = Space(
        tuple(
            replace(feature, low=float(low), high=float(high))
            for feature, low, high in zip(space.features, ends.min(axis=0), ends.max(axis=0), strict=True)
        )
    )
    found = find_safe_ranges(trees, bounded, x0, x, target, np.arange(len(x)))
    low, high = x.copy(), x.copy()
    if found is not None:
        low[found.features], high[found.features] = found.low, found.high
    return share_of_range(low, high, data)


def share_of_range(low: Any, high: Any, data: Array) -> float:
    """Return the mean width of a box in shares of the data's ranges; what lies beyond the data does not count."""
    first, last = data.min(axis=0), data.max(axis=0)
    inside = np.clip(high, first, last) - np.clip(low, first, last)
    return float(np.mean(inside / np.where(last > first, last - first, 1.0)))
