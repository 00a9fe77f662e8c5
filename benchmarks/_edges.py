"""Rows at the very edges of a model's splits."""

from typing import Any

import numpy as np

TOGETHER = 0.3  # of the columns of a row, how many are moved to edges


def edge_values(parts: Any, column: int) -> np.ndarray:
    """Thresholds of a column, and the numbers next to them in double and in single precision."""
    cuts = np.unique(parts.threshold[(parts.column == column) & np.isfinite(parts.threshold)])
    with np.errstate(over="ignore"):  # a border between all numbers and what is missing
        single = cuts.astype(np.float32)
        near = [cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), single.astype(float)]
        near += [np.nextafter(single, np.float32(way)).astype(float) for way in (np.inf, -np.inf)]
        middle = (near[-2] + near[-3]) / 2  # where single precision rounds up or down
        near += [middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    values = np.concatenate(near)
    return values[np.abs(values) <= np.finfo(np.float32).max]


def at_edges(rows: np.ndarray, parts: Any, seed: int, missing: float = 0.0, small: bool = False) -> np.ndarray:
    """Rows of numbers with some columns at edges of splits, at zero and next to it, or missing."""
    rng, moved = np.random.default_rng(seed), rows.copy()
    for column in range(rows.shape[1]):
        values = edge_values(parts, column)
        if small:
            values = np.concatenate([values, [0.0, 1e-36, -1e-36, 1.1e-35, -1.1e-35, -0.0]])
        if len(values):
            chosen = rng.random(len(rows)) < TOGETHER
            moved[chosen, column] = rng.choice(values, chosen.sum())
    if missing:
        moved[rng.random(moved.shape) < missing] = np.nan
    return moved
