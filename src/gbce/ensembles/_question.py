"""What is asked of a method: a learner, checked data, how many models, from which seed."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gbce._numerics import seed_number
from gbce.base import Array
from gbce.ensembles._posterior import ModelPosterior
from gbce.predictors import check_data, classifies

__all__ = ["Method", "Question"]


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
