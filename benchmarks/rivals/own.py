"""gbce: its answer, its other decisions, and points of its frontier between cost and survival."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "Own", "OwnFrontier"]

N_REFITS = 12  # a frontier looks at each, for each candidate
LEVELS = (0.5, 0.8, 0.95, 0.99)  # of the probability that one more refit agrees


@dataclass
class Own:
    """An explainer with nothing said but the space, and refits where they are asked for.

    Parameters
    ----------
    n_refits : int
        How many refits the answer is to survive; none for zero.
    """

    n_refits: int = 0

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Make the explainer; trees are read once."""
        refits = [one.inner for one in _refits(data, self.n_refits)] if self.n_refits else None
        self.explainer = gbce.Explainer(model.inner, data.X, space=space, refits=refits)
        self._model = model

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Explain, and hand over the answer and the decisions beside it."""
        explanation = self.explainer.explain(row, target.target, seed=seed)
        self._model.rows += int(explanation.diagnostics["n_model_rows"])
        answer = explanation.answer
        assert answer is not None  # there is a policy
        others = explanation.counterfactuals[list(row.columns)]
        decisions = {str(label): others.loc[[label]] for label in others.index}
        return Found({"": answer.row, **decisions}, note=str(answer.kind))


@dataclass
class OwnFrontier:
    """The cheapest points at several probabilities that one more refit agrees.

    Parameters
    ----------
    n_refits : int
        That it looks at.
    """

    n_refits: int = N_REFITS

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Make the explainer, whose own sample is only a start here."""
        self._refits: list[Any] = [one.inner for one in _refits(data, self.n_refits)]
        self.explainer = gbce.Explainer(
            model.inner, data.X, space=space, sampler=gbce.SMC(precision="quick"), policy=None
        )
        self._model = model

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Explain without rules, and walk along the frontier."""
        explanation = self.explainer.explain(row, target.target, rules=["Nearest"], seed=seed)
        front = self.explainer.frontier(
            explanation, models=self._refits, reliability="next", distance="l1", levels=LEVELS
        )
        self._model.rows += int(explanation.diagnostics["n_model_rows"])
        points = front[front["reached"]][list(row.columns)]
        names = [f"at {level:g}" for level in LEVELS]
        found = {name: points[points.index >= level - 1e-9].iloc[:1] for name, level in zip(names, LEVELS, strict=True)}
        return Found({name: point for name, point in found.items() if len(point)})


def _refits(data: Data, n: int) -> list[CountedModel]:
    try:
        return data.refits(n)
    except ValueError as error:
        raise CannotRunError(f"needs refits: {error}") from None


METHODS = (
    Method("gbce", "defaults", Own, "own"),
    Method("gbce, refits", "defaults and refits", lambda: Own(N_REFITS), "own"),
    Method("gbce frontier", "refits", OwnFrontier, "own"),
)
