"""What users call: a learner and its data in, a posterior over models out."""

from typing import Any

from gbce.ensembles._bootstrap import BayesianBootstrap
from gbce.ensembles._posterior import ModelPosterior
from gbce.ensembles._question import Method, Question

__all__ = ["model_posterior"]


def model_posterior(
    learner: Any,
    X: Any,
    y: Any,
    method: Method | None = None,
    n_models: int = 50,
    seed: Any = 0,
    *,
    n_jobs: int | None = None,
    progress: bool = False,
) -> ModelPosterior:
    """Draw models from a posterior over what a learner may make of its data.

    Averaging over them is the paper's FG-GBCE (Section 2.4): ``gbce.Explainer(posterior, data)`` with
    ``combine="any"`` is its integral over models, as a sum over draws.

    Parameters
    ----------
    learner : estimator
        With ``fit`` and ``predict``, such as a scikit-learn estimator or pipeline; it is cloned, never changed.
    X : DataFrame or array of shape (n, d)
        Training rows.
    y : array of shape (n,)
        Outcomes.
    method : BayesianBootstrap, CoefficientPosterior, LaplaceApproximation or Rashomon, optional
        ``BayesianBootstrap()`` when left out, which takes any learner.
    n_models : int
        How many to draw; for ``Rashomon``, how many to try.
    seed : int, Generator or SeedSequence, optional
        The same seed gives the same models, whatever ``n_jobs`` is.
    n_jobs : int, optional
        Processes for refits, as in joblib; one when left out.
    progress : bool
        Whether to show a progress bar over refits.

    Returns
    -------
    ModelPosterior
        A sequence of fitted models with ``weights (K,)``, ``method`` and ``facts``.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> posterior = gbce.model_posterior(Ridge(0.1), X, y, gbce.CoefficientPosterior(), n_models=20, seed=0)
    >>> explainer = gbce.Explainer(posterior, X)
    >>> explanation = explainer.explain(X.iloc[0], gbce.AtMost(150), rules=[], seed=0)
    >>> explanation.draws.loss.shape[1]
    20
    """
    question = Question.of(learner, X, y, n_models, seed, n_jobs, progress)
    method = BayesianBootstrap() if method is None else method
    if isinstance(method, type) or not hasattr(method, "draw"):
        raise TypeError(
            f"method must be an object such as gbce.BayesianBootstrap(), gbce.CoefficientPosterior(), "
            f"gbce.LaplaceApproximation() or gbce.Rashomon(0.05), not {method!r}"
        )
    return method.draw(question)
