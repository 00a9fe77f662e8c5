"""treecf by its own package, which reads tree ensembles instead of asking them.

Package ``treecf`` 0.3. Its two ways run here: a genetic search, and the exact one, which is given a time limit. It is
told which columns stay, their bounds and directions, which are whole numbers, and to price changes by the ranges of the
data; the genetic one also linear conditions between columns, which the exact one does not take. It reads trees on
columns of numbers, and takes no pipeline.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._installed import require
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._rows import kept
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "TreeCF"]

_MARGIN = 1e-6  # of a probability or a standard deviation: it aims at the edge
_WAYS = ("genetic", "exact")


@dataclass
class TreeCF:
    """One answer of treecf.

    Parameters
    ----------
    way : {"genetic", "exact"}
        How it searches.
    seconds : float
        For one row, at most.
    nodes : int
        That the exact one looks at, at most; without an end of its own it gives the best that it has.
    """

    way: str = "genetic"
    seconds: float = 10.0
    nodes: int = 2_000_000

    def __post_init__(self) -> None:
        """Refuse what is not wired up here."""
        if self.way not in _WAYS:
            raise ValueError(f"way is one of {', '.join(_WAYS)}, not {self.way!r}")

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Let it read the trees and the rules."""
        require("treecf", "treecf")
        if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in data.X.dtypes):
            raise CannotRunError("takes no text columns and no pipeline")
        from treecf import Explainer
        from treecf._errors import UnsupportedModelError

        self._model, self._codes = model, Codes(data.X, space)
        self._names = column_names(model.inner, data.X)
        ranges = data.X.max() - data.X.min()
        try:
            self._explainer = Explainer(
                model.inner,
                background=data.X.to_numpy(float),
                normalizers=ranges.where(ranges > 0, 1.0).to_numpy(float),
                constraints=self._rules(space),
                value_policy={self._names[f.name]: "integer" for f in space.features if f.discrete},
            )
        except UnsupportedModelError as error:
            raise CannotRunError(f"does not read this model: {error}") from error

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Return its answer."""
        from treecf import Counterfactual

        limit: dict[str, Any] = {"node_budget": self.nodes} if self.way == "exact" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self._explainer.explain(
                row.to_numpy(float)[0],
                target=interval_of(self._model.inner, target),
                seed=seed,
                backend=self.way,
                time_budget_s=self.seconds,
                **limit,
            )
        if not isinstance(found, Counterfactual):
            return Found(note="found nothing")
        answer = pd.DataFrame(np.asarray(found.x_cf, float)[None, :], columns=row.columns)
        return Found.one(kept(Question(self._model, self._codes, row, target), answer))

    def _rules(self, space: gbce.Space) -> list[Any]:
        """Return the rules of the columns, and those between them that are linear."""
        from treecf import Freeze, Linear, Monotone, Range

        rules: list[Any] = []
        for feature in space.features:
            name = self._names[feature.name]
            if not feature.mutable:
                rules.append(Freeze(name))
                continue
            low = -np.inf if feature.low is None else feature.low
            high = np.inf if feature.high is None else feature.high
            if np.isfinite(low) or np.isfinite(high):
                rules.append(Range(name, low, high))
            if feature.direction != "any":
                rules.append(Monotone(name, feature.direction))
        between = [side for constraint in space.constraints for side in constraint.halfspaces()]
        for weights, bound in between if self.way == "genetic" else []:
            rules.append(Linear({self._names[name]: weight for name, weight in weights.items()}, "<=", bound))
        return rules


def column_names(model: Any, X: pd.DataFrame) -> dict[str, str]:
    """Return the names that a model has for columns: LightGBM has its own where there are blanks."""
    booster = getattr(model, "booster_", None)
    return dict(zip(X.columns, X.columns if booster is None else booster.feature_name(), strict=True))


def interval_of(model: Any, target: Wish) -> Any:
    """Return the wish as treecf takes it, a bit away from the edge.

    Raises
    ------
    CannotRunError
        If there are more than two classes.
    """
    from treecf import Target

    if not target.classifies:
        margin = _MARGIN * target.unit
        return Target.raw(range=(target.low + margin, target.high - margin))
    if len(model.classes_) != 2:
        raise CannotRunError("takes two classes only")
    interval = (0.5 + _MARGIN, 1.0) if model.classes_[1] == target.label else (0.0, 0.5 - _MARGIN)
    forest = type(model).__name__.startswith("RandomForest")  # the raw score of a forest is a probability
    return Target.raw(range=interval) if forest else Target.probability(range=interval)


METHODS = (
    Method("treecf genetic", "treecf", lambda: TreeCF("genetic"), "package"),
    # a twentieth of the package's nodes, about a second: by nodes and not by the clock, so that answers come again
    Method("treecf exact", "treecf", lambda: TreeCF("exact", nodes=100_000), "package"),
)
