"""The Rashomon set: all fits that predict about as well as the best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gbce._validation import is_number, require_counts
from gbce.base import Array
from gbce.ensembles._bootstrap import row_weights
from gbce.ensembles._fits import in_parallel, learner_rng, refit
from gbce.ensembles._posterior import ModelPosterior
from gbce.ensembles._question import Question
from gbce.ensembles._risk import RiskLoss, risk_of
from gbce.predictors import classifies, folds_of

__all__ = ["Rashomon"]


@dataclass(frozen=True, eq=False)
class Rashomon:
    """Keep every fit whose cross-validated risk is within a tolerance of the best one's, all of equal weight.

    Fits are tried in turn over the learner and the ``candidates``: each first on the data as they are, then with rows
    reweighted as in :class:`gbce.BayesianBootstrap`, each with a ``random_state`` of its own. The risk of a fit is
    measured on the same folds for all, its training rows counting by its own weights, held-out rows equally.

    Parameters
    ----------
    tolerance : float
        By how much of the best risk another may exceed it: with 0.05 a fit is kept up to 1.05 times the best; a
        negative best risk counts by its size.
    candidates : sequence of estimators
        Further learners, beside the one of the question.
    bootstrap : bool
        Whether rows are reweighted; otherwise fits differ by candidate and ``random_state`` only.
    cv : int
        Number of folds.
    loss : callable, optional
        As in :func:`gbce.cross_val_risk`.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.dummy import DummyRegressor
    >>> from sklearn.linear_model import LinearRegression, Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=100)
    >>> method = gbce.Rashomon(0.05, candidates=[Ridge(1.0), DummyRegressor()])
    >>> posterior = gbce.model_posterior(LinearRegression(), X, y, method, n_models=3)
    >>> [type(model).__name__ for model in posterior]
    ['LinearRegression', 'Ridge']
    """

    tolerance: float = 0.05
    candidates: Sequence[Any] = ()
    bootstrap: bool = True
    cv: int = 5
    loss: RiskLoss | None = None

    def __post_init__(self) -> None:
        if not is_number(self.tolerance) or not 0 <= self.tolerance < np.inf:
            raise ValueError(f"Rashomon: tolerance must be zero or a positive number, not {self.tolerance!r}")
        require_counts(self, "cv")
        for one in self.candidates:
            if not hasattr(one, "fit"):
                raise TypeError(f"Rashomon: candidates must have fit, and {type(one).__name__} has not")

    def draw(self, question: Question) -> ModelPosterior:
        """Return the fits that are good enough, the best first."""
        learners = [question.learner, *self.candidates]
        if any(classifies(one) != question.classifies for one in learners):
            raise TypeError("Rashomon: classifiers and regressors cannot be compared; give candidates of one kind")
        folds = folds_of(question.y, question.classifies, self.cv, question.seed)
        tasks = [
            (
                self,
                learners[k % len(learners)],
                question.X,
                question.y,
                folds,
                seed,
                self.bootstrap and k >= len(learners),
            )
            for k, seed in enumerate(question.children(question.n_models))
        ]
        fits = in_parallel(_try_fit, tasks, question.n_jobs, question.progress)
        risks = np.array([risk for _, risk in fits])
        limit = risks.min() + self.tolerance * abs(risks.min())
        kept = [k for k in np.argsort(risks, kind="stable") if risks[k] <= limit]
        facts = {"tried": len(fits), "best_risk": float(risks.min()), "limit": float(limit),
                 "risks": tuple(risks[kept].tolist())}  # fmt: skip
        return ModelPosterior.of([fits[k][0] for k in kept], self, facts)


def _try_fit(
    method: Rashomon,
    learner: Any,
    X: Any,
    y: Array,
    folds: Sequence[tuple[Array, Array]],
    seed: np.random.SeedSequence,
    reweighted: bool,
) -> tuple[Any, float]:
    weights = row_weights(learner, y, classifies(learner), seed) if reweighted else None
    risk = risk_of(learner, X, y, weights, folds, method.loss, seed)
    return refit(learner, X, y, weights, learner_rng(seed)), risk
