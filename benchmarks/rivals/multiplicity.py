"""What it costs that there are several models: a measure, not a method.

Pawelczyk, Broelemann, Kasneci, 2020: On Counterfactual Explanations under Predictive Multiplicity. Read: the abstract.
It bounds the cost under another model by how far two models disagree, and says that answers supported by data transfer
better and cost more. The formula of its theorem is not known here.

The bound below is ours and not theirs. Let d be a metric, x_f the answer for a model f, C = d(x, x_f), and D the
largest distance from a refused answer to a point that another model g grants. The way over x_f gives cost_g <= C if g
grants x_f, and cost_g <= C + D if not, so that E[cost_g] <= E[C] + D P(g refuses x_f).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._question import Question
from benchmarks.rivals._search import Pool, distance, lacking, make_codes, panel, search
from benchmarks.rivals._wish import Wish

__all__ = ["Bound", "bound", "compare"]


@dataclass(frozen=True)
class Bound:
    """The bound and what it is made of.

    Parameters
    ----------
    cost : float
        Average cost of the answers for one model.
    refused : float
        Share of them that another model refuses.
    reach : float
        Largest distance from a refused answer to what the other model grants.
    """

    cost: float
    refused: float
    reach: float

    @property
    def value(self) -> float:
        """What the average cost under the other model is at most."""
        return self.cost + self.reach * self.refused


def bound(costs: Any, refused: Any, reaches: Any) -> Bound:
    """Return the bound on the average cost under another model.

    Parameters
    ----------
    costs : ndarray of shape (n,)
        Distance of each answer to its row.
    refused : ndarray of shape (n,)
        Whether the other model refuses it.
    reaches : ndarray of shape (n,)
        Distance of each refused answer to a point that the other model grants; the rest is not looked at.

    Examples
    --------
    One model grants x > 0, another x > 0.3, the row is -1: the answer 0 is refused, and 0.3 away.

    >>> bound([1.0], [True], [0.3]).value
    1.3
    """
    costs, refused, reaches = np.asarray(costs, float), np.asarray(refused, bool), np.asarray(reaches, float)
    if not (costs.shape == refused.shape == reaches.shape and costs.ndim == 1 and len(costs)):
        raise ValueError(
            f"costs, refused and reaches have shapes {costs.shape}, {refused.shape} and {reaches.shape}: "
            "each has one entry for each row, and there is at least one row"
        )
    return Bound(float(costs.mean()), float(refused.mean()), float(np.where(refused, reaches, 0.0).max()))


def compare(
    model: CountedModel,
    data: Data,
    space: gbce.Space,
    rows: pd.DataFrame,
    wishes: Sequence[Wish],
    *,
    refits: int = 2,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the bound beside what is measured, over all ordered pairs of a model and its refits.

    The sparse answer is the nearest point found, the one with data support the nearest row of the data that the model
    grants, with the columns kept that may not change. Distances are l1, in ranges.

    Parameters
    ----------
    model, data, space :
        As methods get them.
    rows : DataFrame
        Rows to be explained.
    wishes : sequence of Wish
        One for each row.
    refits : int
        Models beside the original one.
    seed : int
        Of the search.

    Returns
    -------
    DataFrame
        A line for each kind of answer and pair of models: how many rows had all answers, ``cost``, ``refused``,
        ``reach``, ``bound``, and ``measured``, the average of the smallest cost found under the other model.
    """
    models = panel(model, data, refits)
    codes = make_codes(data, space)
    pools = [Pool(each, data, codes) for each in models]
    asked = [_Row(models, pools, Question(model, codes, rows.iloc[[i]], wishes[i]), seed + i) for i in range(len(rows))]
    lines = []
    for kind in ("sparse", "data support"):
        for f, g in permutations(range(len(models)), 2):
            every = [row.compare(kind, f, g) for row in asked]
            told = [each for each in every if each is not None]
            line: dict[str, Any] = {"answer": kind, "model": f, "other": g, "rows": len(told)}
            if told:
                costs, refused, reaches, measured = map(np.array, zip(*told, strict=True))
                made = bound(costs, refused, reaches)
                line |= {"cost": made.cost, "refused": made.refused, "reach": made.reach, "bound": made.value}
                line["measured"] = float(measured.mean())
            lines.append(line)
    return pd.DataFrame(lines)


class _Row:
    """One row with its answers for each model."""

    def __init__(self, models: list[CountedModel], pools: list[Pool], question: Question, seed: int) -> None:
        self._models, self._pools, self._question, self._seed = models, pools, question, seed
        each = range(len(models))
        self._answers = {"sparse": [self._nearest(k) for k in each], "data support": [self._support(k) for k in each]}

    def compare(self, kind: str, f: int, g: int) -> tuple[float, bool, float, float] | None:
        """Return cost, whether refused, reach and smallest cost under the other model; none where an answer lacks."""
        answer, direct = self._answers[kind][f], self._answers["sparse"][g]
        if answer is None or direct is None:
            return None
        start = self._question.start
        cost = float(distance(answer, start)[0])
        other = float(distance(direct, start)[0])
        if self._question.granted(answer, self._models[g])[0]:
            return cost, False, 0.0, min(cost, other)
        there = self._nearest(g, answer)
        if there is None:
            there = direct
        return cost, True, float(distance(there, answer)[0]), min(other, float(distance(there, start)[0]))

    def _nearest(self, k: int, origin: Any = None) -> Any:
        """Return the nearest point to the row, or another origin, that a model grants."""
        starts, rng = self._pools[k].nearest(self._question), np.random.default_rng(self._seed)
        conditions = [lambda m: lacking(m[0])]
        [(point, lacks)] = search(self._question, [self._models[k]], conditions, starts, rng, origin)
        return point if lacks == 0.0 else None

    def _support(self, k: int) -> Any:
        """Return the nearest row of the data that a model grants, the row's own fixed columns kept."""
        near = self._pools[k].nearest(self._question)
        if not len(near):
            return None
        granted = np.flatnonzero(self._question.granted(near, self._models[k]))
        return near[granted[0]] if len(granted) else None
