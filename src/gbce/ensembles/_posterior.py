"""Weighted fitted models as a posterior, and the checked request (learner, data, seed) that a method draws it from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gbce._numerics import seed_number
from gbce._validation import is_number
from gbce.base import Array
from gbce.predictors import check_data, classifies

# --- weighted models -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class ModelPosterior(Sequence[Any]):
    """Fitted models with weights, as returned by :func:`gbce.model_posterior` and accepted by ``gbce.Explainer``.

    Parameters
    ----------
    models : tuple of K models
        Each with ``predict``, and with ``predict_proba`` and ``classes_`` where classes are predicted.
    weights : array of shape (K,)
        Weights that sum to one.
    method : str
        Name of the method that drew the models.
    facts : mapping
        Numbers reported by the method, such as ``eta`` or ``r_hat``.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> posterior = gbce.model_posterior(LinearRegression(), X, X @ [1.0, 2.0], gbce.BayesianBootstrap(), 3, seed=0)
    >>> len(posterior), posterior.method, posterior.weights.round(2).tolist()
    (3, 'BayesianBootstrap', [0.33, 0.33, 0.33])
    >>> explainer = gbce.Explainer(posterior, X, combine="any")
    """

    models: tuple[Any, ...]
    weights: Array
    method: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        weights = np.array(self.weights, dtype=float)
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        if weights.shape != (len(self.models),):
            raise ValueError(f"weights must have one number per model: {len(self.models)}, not shape {weights.shape}")

    @classmethod
    def of(cls, models: Sequence[Any], method: Any, facts: Mapping[str, Any]) -> "ModelPosterior":
        """Return models of equal weight."""
        return cls(tuple(models), np.full(len(models), 1.0 / len(models)), type(method).__name__, dict(facts))

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, index: Any) -> Any:
        return self.models[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.models)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value:.4g}" for name, value in self.facts.items() if is_number(value))
        return f"ModelPosterior({len(self)} models by {self.method}{': ' + numbers if numbers else ''})"


def as_models(given: Any, what: str) -> tuple[Any, ...]:
    """Return one model, several or a posterior over models as a tuple of at least one; ``what`` names the argument."""
    listed = tuple(given) if isinstance(given, (list, tuple, ModelPosterior)) else (given,)
    if not listed:
        raise ValueError(f"{what} is an empty list; give at least one fitted model")
    return listed


# --- requests to methods ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Question:
    """A checked request for models: learner, training data (``X`` as given, ``y (n,)``), number of models and seed."""

    learner: Any
    X: Any
    y: Array
    n_models: int
    seed: int
    n_jobs: int | None = None
    progress: bool = False

    @classmethod
    def of(
        cls, learner: Any, X: Any, y: Any, n_models: int, seed: Any, n_jobs: int | None, progress: bool
    ) -> "Question":
        """Check the arguments and build the request."""
        if isinstance(learner, type):
            raise TypeError(f"learner is the class {learner.__name__}; pass an instance of it, {learner.__name__}()")
        if not hasattr(learner, "fit") or not hasattr(learner, "predict"):
            raise TypeError(
                f"learner must have fit and predict, which {type(learner).__name__} lacks: pass a scikit-learn "
                "estimator or pipeline, or fit models yourself and pass the list to gbce.Explainer"
            )
        if not isinstance(n_models, (int, np.integer)) or isinstance(n_models, bool) or n_models < 1:
            raise ValueError(f"n_models must be an integer of at least 1, not {n_models!r}")
        X, outcomes = check_data(learner, X, y)
        return cls(learner, X, outcomes, int(n_models), seed_number(seed), n_jobs, progress)

    @property
    def name(self) -> str:
        """Class name of the learner, for messages."""
        return type(self.learner).__name__

    @property
    def classifies(self) -> bool:
        """Whether the learner predicts classes."""
        return classifies(self.learner)

    def children(self, n: int) -> list[np.random.SeedSequence]:
        """Spawn independent seeds."""
        return np.random.SeedSequence(self.seed).spawn(n)


class Method(Protocol):
    """A method that draws models."""

    def draw(self, question: Question) -> ModelPosterior:
        """Draw weighted models."""
        ...
