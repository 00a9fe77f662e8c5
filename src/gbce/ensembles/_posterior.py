"""What is asked of a method: a learner, checked data, how many models, from which seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gbce._numerics import seed_number
from gbce._validation import is_number
from gbce.base import Array
from gbce.predictors import check_data, classifies

__all__ = ["Method", "ModelPosterior", "Question", "as_models"]

# --- the result ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class ModelPosterior(Sequence[Any]):
    """Fitted models with weights, as :func:`gbce.model_posterior` returns them; ``gbce.Explainer`` takes it as it is.

    Parameters
    ----------
    models : tuple of K models
        Each with ``predict``, and with ``predict_proba`` and ``classes_`` where classes are predicted.
    weights : array of shape (K,)
        They sum to one.
    method : str
        How the models came about.
    facts : mapping
        Plain numbers about it, such as ``eta`` or ``r_hat``.

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


# --- what is asked of a method ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Question:
    """A learner, its data and what a method may use; ``y`` is ``(n,)``, ``X`` stays what the user gave."""

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
        """Check everything once."""
        if isinstance(learner, type):
            raise TypeError(f"learner is the class {learner.__name__}; pass an instance of it, {learner.__name__}()")
        if not hasattr(learner, "fit") or not hasattr(learner, "predict"):
            raise TypeError(
                f"learner must have fit and predict, and {type(learner).__name__} has not: give a scikit-learn "
                "estimator or pipeline, or fit models yourself and give gbce.Explainer the list"
            )
        if not isinstance(n_models, (int, np.integer)) or isinstance(n_models, bool) or n_models < 1:
            raise ValueError(f"n_models must be a whole number of at least 1, not {n_models!r}")
        X, outcomes = check_data(learner, X, y)
        return cls(learner, X, outcomes, int(n_models), seed_number(seed), n_jobs, progress)

    @property
    def name(self) -> str:
        """The learner's, for messages."""
        return type(self.learner).__name__

    @property
    def classifies(self) -> bool:
        """Whether classes are predicted."""
        return classifies(self.learner)

    def children(self, n: int) -> list[np.random.SeedSequence]:
        """Return independent seeds, the same however they are used."""
        return np.random.SeedSequence(self.seed).spawn(n)


class Method(Protocol):
    """A way from a question to models."""

    def draw(self, question: Question) -> ModelPosterior:
        """Return weighted models."""
        ...
