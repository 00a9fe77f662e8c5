"""gbce: its answer, its other decisions, and points of its frontier between cost and survival."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "Own", "OwnFrontier"]

N_REFITS = 12  # a frontier looks at each, for each candidate
SIGMA = 0.25  # the prior's, in ranges: about the standard deviation of a column that fills its range evenly
NOISE = 0.1  # standard deviation of execution noise in gbce's own units, its default
_NOT_COUNTED = "rows shown to models on the way along the frontier are not in its model rows"
# a model that counts them cannot be read, where gbce reads trees, so that counting would change what is counted
LEVELS = (0.5, 0.8, 0.95, 0.99)  # of the probability that one more refit agrees


@dataclass
class Own:
    """An explainer with nothing said but the space, and refits where they are asked for.

    Parameters
    ----------
    n_refits : int
        How many refits the answer is to survive; none for zero.
    by_ranges : bool
        Whether changes are priced by the ranges of the data, as they are judged here and as most rivals price them;
        otherwise by gbce's own units.
    """

    n_refits: int = 0
    by_ranges: bool = False

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Make the explainer; trees are read once."""
        refits = [one.inner for one in _refits(data, self.n_refits)] if self.n_refits else None
        told: dict[str, Any] = _in_ranges(space, data) if self.by_ranges else {"space": space}
        self.explainer = gbce.Explainer(model.inner, data.X, refits=refits, **told)
        self._model = model

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Explain, and hand over the answer and the decisions beside it."""
        explanation = self.explainer.explain(row, target.target, seed=seed)
        self._model.rows += int(explanation.diagnostics["n_model_rows"])
        answer = explanation.answer
        assert answer is not None  # there is a policy
        others = explanation.counterfactuals[list(row.columns)]
        own = others.index if self.n_refits == 0 else ()  # refits have a part in the answer only
        decisions = {str(label): others.loc[[label]] for label in own}
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
            model.inner, data.X, **_in_ranges(space, data), sampler=gbce.SMC(precision="quick"), policy=None
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
        return Found({name: point for name, point in found.items() if len(point)}, note=_NOT_COUNTED)


def _in_ranges(space: gbce.Space, data: Data) -> dict[str, Any]:
    """Return the space with the ranges of the data as units of numbers, and prior and noise on that scale."""
    x = space.encode(data.X)
    ranges = np.nanmax(x, axis=0) - np.nanmin(x, axis=0)
    features = [
        one if one.unordered or not size > 0 else replace(one, scale=float(size))
        for one, size in zip(space.features, ranges, strict=True)
    ]
    return {
        "space": replace(space, features=tuple(features)),
        "prior": gbce.Sparse(gbce.Gaussian(SIGMA)),
        "evaluation": gbce.Evaluation(noise=SIGMA * NOISE),
    }


def _refits(data: Data, n: int) -> list[CountedModel]:
    try:
        return data.refits(n)
    except ValueError as error:
        raise CannotRunError(f"needs refits: {error}") from None


METHODS = (
    Method("gbce", "defaults", Own, "own"),
    Method("gbce, refits", "defaults and refits", lambda: Own(N_REFITS), "own"),
    Method("gbce, ranges", "priced by ranges", lambda: Own(by_ranges=True), "own"),
    Method("gbce, refits, ranges", "refits, priced by ranges", lambda: Own(N_REFITS, by_ranges=True), "own"),
    Method("gbce frontier", "refits, priced by ranges", OwnFrontier, "own"),
)
