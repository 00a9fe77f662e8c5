"""An explanation put to models that it was not made with: what survives a refit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from gbce._asking import Panel
from gbce._budget import Budget, BudgetSpentError
from gbce._reference import Reference
from gbce._seeds import JUDGING, stream
from gbce._weights import Array
from gbce.explanation import Explanation
from gbce.metrics import survival_table
from gbce.models import ModelPosterior, listed_models
from gbce.posterior import GibbsPosterior, as_weights
from gbce.predictors import Predictor, as_predictor
from gbce.space import Space
from gbce.targets import Class, Outputs, Target

__all__ = ["OtherModels", "survived", "with_models"]


@dataclass(frozen=True)
class OtherModels:
    """Models of the same table that an explainer does not have.

    Parameters
    ----------
    models : tuple of K models
        As they were given.
    predictors : tuple of Predictor
        The same, wrapped.
    weights : array of shape (K,)
        They sum to one.
    reference : Reference
        Rows on which classifiers are looked at once.
    """

    models: tuple[Any, ...]
    predictors: tuple[Predictor, ...]
    weights: Array
    reference: Reference

    @classmethod
    def of(cls, models: Any, space: Space, data: Array) -> "OtherModels":
        """Wrap one model, a list of them or a posterior over models; ``data`` ``(n, d)`` is encoded."""
        listed = listed_models(models, "models")
        predictors = tuple(as_predictor(model, space) for model in listed)
        return cls(listed, predictors, _weights_of(models, len(listed)), Reference.of(data, space.discrete))

    def again(self, models: Any) -> "OtherModels | None":
        """Return these with the weights that ``models`` have now, if they are the very same ones."""
        listed = listed_models(models, "models")
        if len(listed) != len(self.models) or any(a is not b for a, b in zip(listed, self.models, strict=True)):
            return None
        return replace(self, weights=_weights_of(models, len(listed)))

    def ready(self, target: Target, budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors, for a target that asks for a class as classifiers."""
        if isinstance(target, Class):
            return self.reference.as_classifiers(self.predictors, budget)
        return tuple(predictor.metered() for predictor in self.predictors)


def _weights_of(models: Any, n: int) -> Array:
    return models.weights if isinstance(models, ModelPosterior) else as_weights(None, n)


def survived(explanation: Explanation, others: OtherModels, budget: Budget) -> pd.DataFrame:
    """Put decisions and draws to other models; see :func:`gbce.metrics.survival`."""
    draws, decisions, target = explanation.draws, explanation.decisions, explanation.target
    predictors = others.ready(target, budget)

    def reached(said: list[Outputs]) -> Array:
        return np.column_stack([target.read(outputs).reached for outputs in said])

    decided = np.zeros((0, len(predictors)), dtype=bool)
    if decisions:
        x = np.array([decision.x for decision in decisions])
        decided = reached(Panel(predictors, budget, own_decision=True).ask(x))
    # in a random order, so that those the budget allows are like the others
    where, drawn = draws.distinct[0], np.zeros((0, len(predictors)), dtype=bool)
    order = stream(explanation.seed, JUDGING).permutation(len(where)) if budget.limited else np.arange(len(where))
    try:
        drawn = reached(Panel(predictors, budget).ask_some(draws.pool.x[where[order]]))
    except BudgetSpentError:
        if not budget.limited:  # a limit of a model's own
            raise
    which = order[: len(drawn)]
    labels = tuple(decision.label for decision in decisions)
    table = survival_table(labels, decided, draws, drawn[np.argsort(which)], others.weights, np.sort(which))
    before = [float(decision.reached[0]) for decision in decisions]
    table.insert(0, "before", [*before, float(explanation.distribution["success_probability"])])
    return table.assign(n_models=len(predictors))


def with_models(posterior: GibbsPosterior, predictors: Sequence[Predictor], weights: Array) -> GibbsPosterior:
    """Return the posterior's question put to other models."""
    return replace(posterior, predictors=tuple(predictors), mixture=replace(posterior.mixture, weights=weights))
