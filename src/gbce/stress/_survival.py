"""Survival: whether decisions and draws still succeed under models that the method never saw."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._numerics import JUDGING, stream
from gbce.base import Array, Outputs
from gbce.budget import Budget, BudgetSpentError, budget_of
from gbce.decisions import answers_among, stack_points
from gbce.explanation import Explanation, require_explanation
from gbce.metrics import survival_table
from gbce.predictors import Panel
from gbce.stress._other_models import OtherModels

if TYPE_CHECKING:
    from gbce.explainer import Explainer

__all__ = ["explainer_survival", "survival"]


def survival(
    explanation: Explanation,
    models: Any,
    *,
    max_model_rows: int | None = None,
    time_budget: float | None = None,
) -> pd.DataFrame:
    """Evaluate an explanation under models that it has not seen, such as refits, and see whether the answer holds.

    Parameters
    ----------
    explanation : Explanation
        Fresh or loaded from a file.
    models : estimator, callable, list of them, or ModelPosterior
        Fitted for the same table; the weights of a posterior over models count.
    max_model_rows, time_budget : optional
        What may be spent, as in :meth:`gbce.Explainer.explain`: rows over all models, seconds. Decisions come first;
        then as many draws as the rest allows, picked at random, which ``se`` takes into account.

    Returns
    -------
    DataFrame
        By rule, and for the ``posterior``: ``before`` (success under the first model), ``survival`` (share of
        ``models`` under which it succeeds), its 95% interval ``low`` to ``high`` over models, ``all`` (success
        under all of them), Monte Carlo error ``se``, ``n_models``. The line of the posterior is NaN where the budget
        does not allow a single draw.

    Raises
    ------
    BudgetSpentError
        If the budget does not even allow the decisions.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> y = X @ [1.0, 2.0] + np.random.default_rng(1).normal(size=50)
    >>> explainer = gbce.Explainer(LinearRegression().fit(X, y), X)
    >>> explanation = explainer.explain(X[0], gbce.AtLeast(2.0), rules=gbce.Mean(), seed=0)
    >>> refits = gbce.model_posterior(LinearRegression(), X, y, gbce.BayesianBootstrap(), 20, seed=0)
    >>> table = gbce.metrics.survival(explanation, refits)
    >>> table.index.tolist(), table["n_models"].tolist()
    (['Mean', 'posterior'], [20, 20])
    """
    pool = require_explanation(explanation).draws.pool
    others = OtherModels.of(models, explanation.space, pool.x[np.isfinite(pool.log_correction)])
    return _evaluate_survival(explanation, others, budget_of(max_model_rows, time_budget))


def explainer_survival(
    explainer: "Explainer",
    explanation: Explanation,
    models: Any,
    *,
    max_model_rows: int | None = None,
    time_budget: float | None = None,
) -> pd.DataFrame:
    """Evaluate an explanation under models that it has not seen; see :func:`gbce.metrics.survival`.

    Asked about the same models again, an explainer does not prepare them a second time.
    """
    budget = budget_of(max_model_rows, time_budget)
    explainer.own_posterior(explanation, budget)
    return _evaluate_survival(explanation, explainer.other_models.wrap(models), budget)


def _evaluate_survival(explanation: Explanation, others: OtherModels, budget: Budget) -> pd.DataFrame:
    """Evaluate decisions and draws under other models; see :func:`gbce.metrics.survival`."""
    draws, decisions, target = explanation.draws, answers_among(explanation.decisions), explanation.target
    predictors = others.prepare(target, budget)

    def reached(said: list[Outputs]) -> Array:
        return np.column_stack([target.read(outputs).reached for outputs in said])

    decided = np.zeros((0, len(predictors)), dtype=bool)
    if decisions:
        x = stack_points(decisions, len(explanation.space))
        decided = reached(Panel(predictors, budget, use_predict=True).ask(x))
    # in a random order, so that those the budget allows are like the others
    where, drawn = draws.distinct[0], np.zeros((0, len(predictors)), dtype=bool)
    order = (
        stream(explanation.seed, JUDGING, explanation.query.key).permutation(len(where))
        if budget.limited
        else np.arange(len(where))
    )
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
