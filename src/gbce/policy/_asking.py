"""Ask models about the answers of many rows: whether each point reaches the target, in batches."""

from typing import Any, NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.budget import budget_of
from gbce.predictors import Panel
from gbce.space import Space
from gbce.stress import OtherModels

__all__ = ["Verdicts", "ask_models"]


class Verdicts(NamedTuple):
    """What models return for points: outputs and whether they reach the target ``(K, n)``, and what it took."""

    outputs: Array
    reached: Array
    n_calls: int
    n_rows: int


def ask_models(models: Any, space: Space, target: Target, x: Array, data: Array) -> Verdicts:
    """Evaluate points ``(n, d)`` by models; ``data`` ``(m, d)`` are rows on which classifiers are compared."""
    budget = budget_of(None, None)
    predictors = OtherModels.of(models, space, data).prepare(target, budget)
    outputs, reached = [], []
    for predictor in predictors:
        read = target.read(Panel((predictor,), budget, use_predict=True).ask(x)[0])
        outputs.append(np.asarray(read.output, dtype=float))
        reached.append(np.asarray(read.reached, dtype=bool))
    calls, rows = (sum(getattr(one.meter, name) for one in predictors) for name in ("calls", "rows"))
    return Verdicts(np.array(outputs), np.array(reached), calls, rows)
