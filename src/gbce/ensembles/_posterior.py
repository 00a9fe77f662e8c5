"""The result: fitted models and their weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gbce._validation import is_number
from gbce.base import Array

__all__ = ["ModelPosterior", "as_models"]


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
