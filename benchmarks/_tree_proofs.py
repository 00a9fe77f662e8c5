"""How many optima are proved, and how soon: ``Nearest(prove=True)``'s branch and bound on tree ensembles."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import gbce
from gbce.metrics import costs
from gbce.predictors import look_inside
from gbce.search import prove_cheapest
from gbce.trees import read_cells

__all__ = ["Proving", "prove_rows", "summarise"]

_LIMIT = 1.0  # CPU seconds for one row
_EXACT = 1e-8  # share of the cost within which an optimum is proved


@dataclass(frozen=True)
class Proving:
    """A fitted model, its table and a wish.

    Parameters
    ----------
    name : str
        In the table.
    model : estimator
        A tree ensemble.
    X : array of shape (n, d)
        The training rows.
    rows : array of shape (k, d)
        To be explained.
    target : Target
        With its numbers filled in.
    """

    name: str
    model: Any
    X: Any
    rows: Any
    target: Any


def prove_rows(case: Proving, nearest: Any = None, limit: float = _LIMIT) -> pd.DataFrame:
    """Return one line per row: whether the optimum is proved, CPU seconds, boxes, the gap, and changes at least.

    ``nearest`` takes an encoded row ``(d,)`` and returns a cheap point that reaches, to start with; the nearest
    training row that reaches, if left out, which is a worse start.
    """
    space = gbce.Space.infer(case.X, bounds="none")
    x = space.encode(case.X)
    trees = read_cells(look_inside(case.model, space), space, x)
    assert trees is not None

    def accepts(rows: Any) -> Any:
        said = case.model.predict(space.decode(rows))
        if isinstance(case.target, gbce.Class):
            return said == case.target.label
        low, high = case.target.accepted()
        return (said >= low) & (said <= high)

    reached, lines = x[accepts(x)], []
    for x0 in space.encode(case.rows):
        known = reached[np.argmin(costs(space, reached, x0, "l1"))] if nearest is None else nearest(x0)
        start = time.process_time()
        is_late = partial(_is_late, start + limit)
        found = prove_cheapest(
            trees, space, x0, case.target, known, accepts, most_work=10**12,
            late=is_late,
        )  # fmt: skip
        seconds = time.process_time() - start
        assert found is not None
        best = known if found.x is None else found.x
        cost = float(costs(space, best[None, :], x0, "l1")[0])
        gap = 1.0 - found.lower / cost
        lines.append((case.name, gap <= _EXACT, seconds, found.boxes, gap, found.least_changes))
    return pd.DataFrame(lines, columns=["case", "proved", "seconds", "boxes", "gap", "least_changes"])


def _is_late(deadline: float) -> bool:
    return time.process_time() > deadline


def summarise(lines: pd.DataFrame) -> pd.DataFrame:
    """Return for each case the share of optima proved within 0.1 s and by the limit, and the usual effort."""
    return lines.groupby("case", sort=False).apply(
        lambda own: pd.Series(
            {
                "rows": len(own),
                "proved in 0.1 s": (own["proved"] & (own["seconds"] <= 0.1)).mean(),
                "proved by limit": own["proved"].mean(),
                "median s": own["seconds"].median(),
                "median boxes": own["boxes"].median(),
                "largest gap": own["gap"].clip(lower=0).max(),
            }
        ),
        include_groups=False,
    )
