"""Refit learners on reweighted or resampled rows: Bayesian bootstrap, cross-validated risk and Rashomon sets.

Refits run in parallel, each with seeds of its own, so that results do not depend on the number of processes.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import joblib
import numpy as np

from gbce._numerics import seed_number
from gbce._validation import is_number, require_counts
from gbce.base import Array
from gbce.budget import progress_bar
from gbce.ensembles._posterior import Method, ModelPosterior, Question
from gbce.predictors import check_data, classifies, folds_of, rows_of
from gbce.targets import SMALLEST_PROBABILITY

RiskLoss = Callable[[Array, Array], Any]
_MOST_RESAMPLES = 100  # attempts at one with every class; by hand: a class of one row is in two resamples of three
_LARGEST_SEED = 2**31 - 1  # of signed 32 bits, which every learner accepts

# --- refits ----------------------------------------------------------------------------------------------------------


def learner_rng(seed: np.random.SeedSequence) -> np.random.Generator:
    """Return the generator of a learner's own randomness, apart from that of the weights."""
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1)))


def clone_with_seed(learner: Any, rng: np.random.Generator) -> Any:
    """Return an unfitted clone whose every ``random_state`` comes from ``rng``."""
    from sklearn.base import clone

    try:
        fresh = clone(learner)
    except TypeError:  # has no get_params
        fresh = copy.deepcopy(learner)
    if hasattr(fresh, "get_params") and hasattr(fresh, "set_params"):
        names = sorted(n for n in fresh.get_params(deep=True) if n.split("__")[-1] in ("random_state", "random_seed"))
        fresh.set_params(**{name: int(rng.integers(_LARGEST_SEED)) for name in names})
    return fresh


def weight_name(learner: Any) -> str | None:
    """Return the parameter of ``fit`` for row weights, also through a pipeline; None without one."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    prefix = ""
    while isinstance(learner, Pipeline):
        step, learner = learner.steps[-1]
        prefix += f"{step}__"
    return f"{prefix}sample_weight" if has_fit_parameter(learner, "sample_weight") else None


def refit(learner: Any, X: Any, y: Array, weights: Array | None, rng: np.random.Generator) -> Any:
    """Return a fitted clone; for a learner that accepts no weights, integer ``weights`` are counts of rows."""
    model = clone_with_seed(learner, rng)
    name = weight_name(model)
    try:
        if weights is None:
            return model.fit(X, y)
        if name is not None:
            return model.fit(X, y, **{name: weights})
        index = np.repeat(np.arange(len(y)), weights.astype(int))
        return model.fit(rows_of(X, index), y[index])
    except ValueError as error:
        raise ValueError(f"{type(learner).__name__} cannot be fitted to these data: {error}") from error


def resample_counts(y: Array, classifies: bool, rng: np.random.Generator) -> Array:
    """Draw the counts ``(n,)`` of rows in a bootstrap resample that contains every class."""
    n = len(y)
    classes, codes = np.unique(y, return_inverse=True) if classifies else (np.zeros(1), np.zeros(n, dtype=int))
    for _ in range(_MOST_RESAMPLES):
        picked = rng.multinomial(n, np.full(n, 1.0 / n))
        if np.all(np.bincount(codes, weights=picked, minlength=len(classes)) > 0):
            return picked.astype(float)
    raise ValueError(
        "a class is so rare that resamples miss it: drop it, or use a learner whose fit accepts sample_weight"
    )


def in_parallel(
    task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], n_jobs: int | None, progress: bool
) -> list[Any]:
    """Run ``task`` on every tuple of arguments, in parallel, and return the results in order."""
    bar = progress_bar(total=len(arguments), desc="fitting", unit="model", disable=not progress)
    results = []
    with bar:
        if joblib.effective_n_jobs(n_jobs or 1) == 1 or len(arguments) == 1:
            stream = (_run_alone(task, *one) for one in arguments)
        else:
            pool = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
            stream = pool(joblib.delayed(_run_alone)(task, *one) for one in arguments)
        for result in stream:
            results.append(result)
            bar.update()
    return results


def _run_alone(task: Callable[..., Any], *arguments: Any) -> Any:
    with _thread_controller().limit(limits=1, user_api="blas"):  # same order of summation in every process
        return task(*arguments)


@cache
def _thread_controller() -> Any:
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()


# --- Bayesian bootstrap ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BayesianBootstrap:
    """Refit the learner with row weights ``n * Dirichlet(1, ..., 1)``, once per model.

    This is the posterior of whatever the learner estimates, under a nonparametric model of the data (Rubin 1981) and
    with the learner's own loss in place of a likelihood (the loss-likelihood bootstrap of Lyddon, Holmes and Walker
    2019); it needs no eta. A learner whose ``fit`` accepts no ``sample_weight`` is refitted on resampled rows (with
    multinomial counts). Each refit has its own ``random_state``, so that the spread includes a forest's randomness.

    Parameters
    ----------
    reseed : bool
        Whether every refit gets a ``random_state`` of its own; otherwise all get the same one.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> forest = RandomForestRegressor(5)
    >>> posterior = gbce.model_posterior(forest, X, X[:, 0], gbce.BayesianBootstrap(), n_models=4, seed=1)
    >>> np.std([model.predict(X[:1])[0] for model in posterior]) > 0
    np.True_
    """

    reseed: bool = True

    def draw(self, question: Question) -> ModelPosterior:
        """Return one refit per model, all of weight ``1 / n_models``."""
        seeds = question.children(question.n_models)
        tasks = [(question.learner, question.X, question.y, question.classifies, seed, self._learner_seed(seeds, k))
                 for k, seed in enumerate(seeds)]  # fmt: skip
        models = in_parallel(_refit_reweighted, tasks, question.n_jobs, question.progress)
        return ModelPosterior.of(models, self, {"weighted": float(weight_name(question.learner) is not None)})

    def _learner_seed(self, seeds: list[np.random.SeedSequence], k: int) -> np.random.SeedSequence:
        return seeds[k if self.reseed else 0]


def row_weights(learner: Any, y: Array, classifies: bool, seed: np.random.SeedSequence) -> Array:
    """Draw weights ``(n,)`` that sum to n: Dirichlet if ``fit`` accepts weights, else counts of a resample."""
    rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0)))
    if weight_name(learner) is None:
        return resample_counts(y, classifies, rng)
    return len(y) * rng.dirichlet(np.ones(len(y)))


def _refit_reweighted(
    learner: Any, X: Any, y: Array, classifies: bool, seed: np.random.SeedSequence, own: np.random.SeedSequence
) -> Any:
    return refit(learner, X, y, row_weights(learner, y, classifies, seed), learner_rng(own))


# --- cross-validated risk --------------------------------------------------------------------------------------------


def cross_val_risk(models: Any, X: Any, y: Any, cv: int = 5, loss: RiskLoss | None = None, seed: Any = 0) -> Array:
    """Estimate the risk R_k of each model by cross-validation, for :func:`gbce.weights_from_risk`.

    Parameters
    ----------
    models : estimator, or sequence of K
        Cloned and refitted on each fold; earlier fits do not matter.
    X, y : DataFrame or array of shape (n, d), and (n,)
        Training data.
    cv : int
        Number of folds, shuffled (and stratified for classifiers), the same for all models.
    loss : callable, optional
        ``loss(y, output)`` of held-out outcomes ``(m,)`` and the model's output, ``predict`` of a regressor or
        ``predict_proba (m, c)`` of a classifier; one number, or one per row. Squared error or log loss by default.
    seed : int, Generator or SeedSequence
        Seed of folds and refits.

    Returns
    -------
    array of shape (K,)
        Mean loss of a held-out row.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.dummy import DummyRegressor
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=200)
    >>> risk = gbce.cross_val_risk([LinearRegression(), DummyRegressor()], X, y)
    >>> gbce.weights_from_risk(risk, gamma=0.5).round(2)
    array([0.95, 0.05])
    """
    listed = [models] if hasattr(models, "fit") else list(models)
    if not listed:
        raise ValueError("models is empty; give at least one learner")
    for model in listed:
        if not hasattr(model, "fit"):
            raise TypeError(
                f"{type(model).__name__} has no fit and cannot be refitted on folds: compute its risk yourself"
            )
    number = seed_number(seed)
    risks = []
    for model in listed:
        rows, outcomes = check_data(model, X, y)
        folds = folds_of(outcomes, classifies(model), cv, number)
        risks.append(risk_of(model, rows, outcomes, None, folds, loss, np.random.SeedSequence(number)))
    return np.array(risks)


def risk_of(
    learner: Any,
    X: Any,
    y: Array,
    weights: Array | None,
    folds: Sequence[tuple[Array, Array]],
    loss: RiskLoss | None,
    seed: np.random.SeedSequence,
) -> float:
    """Return the mean loss of held-out rows; the training rows of each fold have ``weights``."""
    total = 0.0
    for train, held_out in folds:
        w = None if weights is None else weights[train]
        model = refit(learner, rows_of(X, train), y[train], w, learner_rng(seed))
        total += len(held_out) * _mean_loss(model, rows_of(X, held_out), y[held_out], loss)
    return total / len(y)


def _mean_loss(model: Any, X: Any, y: Array, loss: RiskLoss | None) -> float:
    if not classifies(model):
        outputs = np.asarray(model.predict(X), dtype=float).reshape(len(y))
        value = float(np.mean(np.square(outputs - y))) if loss is None else _user_loss(loss, y, outputs)
    else:
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"{type(model).__name__} has no predict_proba, and the risk of a classifier is its log loss: wrap it "
                "in sklearn.calibration.CalibratedClassifierCV"
            )
        shares = np.asarray(model.predict_proba(X))
        if loss is None:
            right = np.asarray(model.classes_)[None, :] == y[:, None]
            value = float(np.mean(-np.log(np.maximum((shares * right).sum(axis=1), SMALLEST_PROBABILITY))))
        else:
            value = _user_loss(loss, y, shares)
    return value


def _user_loss(loss: RiskLoss, y: Array, outputs: Array) -> float:
    value = float(np.mean(np.asarray(loss(y, outputs), dtype=float)))
    if not np.isfinite(value):
        raise ValueError(f"loss returned {value} on held-out rows: it must return finite numbers")
    return value


# --- Rashomon set ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rashomon:
    """Keep every fit whose cross-validated risk is within a tolerance of the best, all with equal weight.

    Fits alternate between the learner and the ``candidates``: each first on the data as they are, then with rows
    reweighted as in :class:`gbce.BayesianBootstrap`, each with a ``random_state`` of its own. Risks are estimated on
    the same folds, with the weights of the fit for training rows and equal weights for held-out rows.

    Parameters
    ----------
    tolerance : float
        Excess over the best risk, relative to its absolute value: with 0.05 a fit is kept up to 1.05 times the best.
    candidates : sequence of estimators
        Further learners.
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
                raise TypeError(f"Rashomon: candidates must have fit, which {type(one).__name__} lacks")

    def draw(self, question: Question) -> ModelPosterior:
        """Return the fits within the tolerance, the best first."""
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


# --- posteriors over models ------------------------------------------------------------------------------------------


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
    """Draw fitted models from a posterior over models, given a learner and its data.

    Averaging over them is the paper's FG-GBCE (Section 2.4): ``gbce.Explainer(posterior, data)`` with
    ``combine="any"`` approximates its integral over models by a sum over draws.

    Parameters
    ----------
    learner : estimator
        Has ``fit`` and ``predict``, such as a scikit-learn estimator or pipeline; it is cloned, never modified.
    X : DataFrame or array of shape (n, d)
        Training rows.
    y : array of shape (n,)
        Outcomes.
    method : BayesianBootstrap, CoefficientPosterior, LaplaceApproximation or Rashomon, optional
        ``BayesianBootstrap()`` by default, which accepts any learner.
    n_models : int
        Number of models to draw; for ``Rashomon``, number of fits to try.
    seed : int, Generator or SeedSequence, optional
        The same seed gives the same models, whatever ``n_jobs`` is.
    n_jobs : int, optional
        Processes for refits, as in joblib; one by default.
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
