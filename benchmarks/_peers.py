"""Other libraries on the same rows, told as much of the rules as they take."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._real_tables import Case
from benchmarks.rivals._data import Data
from benchmarks.rivals._installed import require
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.dice import Dice

__all__ = ["PEERS", "CannotRunError", "require"]

Answer = Callable[[pd.DataFrame], pd.DataFrame | None]
_MARGIN = 1e-6  # of a probability, for a peer that aims at the edge
_NO_END = sys.maxsize  # here DiCE may ask as often as it likes


def dice(case: Case, method: str) -> Answer:
    """Give DiCE the columns that vary, ranges, and directions as ranges of each row; it takes no other conditions."""
    peer = Dice(method, case.ranges, most_calls=_NO_END)
    peer.fit(CountedModel(case.model), Data(case.X, case.y), case.space)

    def answer(row: pd.DataFrame) -> pd.DataFrame | None:
        return None if row.isna().any(axis=None) else peer.raw(row, _wish(case, row), seed=0)

    return answer


def _wish(case: Case, row: pd.DataFrame) -> Wish:
    """Return what is wanted of a row."""
    if case.classification:
        return Wish(case.wish)
    low, high = _beyond(case, row)
    return Wish(low=low, high=high)


def treecf(case: Case) -> Answer:
    """Give treecf columns that stay, ranges, directions and linear conditions; it takes trees on numbers only."""
    require("treecf", "treecf")
    if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in case.X.dtypes):
        raise CannotRunError("takes no text columns and no pipeline")
    from treecf import Counterfactual, Explainer, Freeze, Linear, Monotone, Range, Target

    rules: list[Any] = [Freeze(name) for name in case.immutable]
    rules += [Range(name, low, high) for name, (low, high) in case.ranges.items()]
    rules += [Monotone(f.name, f.direction) for f in case.space.features if f.direction != "any"]
    for constraint in case.space.constraints:
        rules += [Linear(weights, "<=", bound) for weights, bound in constraint.halfspaces()]
    explainer = Explainer(case.model, background=case.X.to_numpy(float), constraints=rules)

    def answer(row: pd.DataFrame) -> pd.DataFrame | None:
        if case.classification:
            first = case.model.classes_[1] == case.wish
            target = Target.raw(range=(0.5 + _MARGIN, 1.0) if first else (0.0, 0.5 - _MARGIN))
        else:
            low, high = _beyond(case, row)
            target = Target.raw(range=(low, high))
        found = explainer.explain(row.to_numpy(float)[0], target=target, seed=0)
        if not isinstance(found, Counterfactual):
            return None
        return pd.DataFrame(np.asarray(found.x_cf, float)[None, :], columns=case.X.columns)

    return answer


def _beyond(case: Case, row: pd.DataFrame) -> list[float]:
    """Return the outputs that grant the wish: from the threshold to what the data hold."""
    edge = case.threshold(row)
    return [edge, max(float(case.y.max()), 2 * edge)] if case.wish > 0 else [min(0.0, float(case.y.min())), edge]


PEERS: dict[str, Callable[[Case], Answer]] = {
    "DiCE random": lambda case: dice(case, "random"),
    "DiCE genetic": lambda case: dice(case, "genetic"),
    "treecf": treecf,
}
