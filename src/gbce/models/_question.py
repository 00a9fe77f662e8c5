"""What is asked of a method: a learner, checked data, how many models, from which seed."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from gbce._rows import unmasked
from gbce._seeds import seed_number
from gbce._weights import Array
from gbce.models._posterior import ModelPosterior

__all__ = ["Method", "Question", "classifies", "rows_of"]


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
        X, outcomes = checked_data(learner, X, y)
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


def classifies(learner: Any) -> bool:
    """Whether a learner predicts classes, by scikit-learn's word or by its methods."""
    from sklearn.base import BaseEstimator, is_classifier

    return bool(is_classifier(learner)) if isinstance(learner, BaseEstimator) else hasattr(learner, "predict_proba")


def checked_data(learner: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Return rows as given (lists as an array) and outcomes ``(n,)``, or say what is wrong with them."""
    X, y = unmasked(X), unmasked(y)
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2 or X.shape[0] < 2:
        raise ValueError(f"X must be a table with at least two rows, not of shape {tuple(X.shape)}")
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(
            f"y must be one outcome per row, shape (n,), not of shape {y.shape}: fit one outcome at a time"
        )
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} outcomes, but X has {X.shape[0]} rows")
    gaps = np.asarray(pd.isna(y))
    if gaps.any():
        raise ValueError(
            f"y is missing in {int(gaps.sum())} of {len(y)} rows, first in row {int(gaps.argmax())}: drop them"
        )
    name = type(learner).__name__
    if classifies(learner):
        if y.dtype.kind == "f" and np.any(y != np.round(y)):
            raise TypeError(
                f"{name} is a classifier, but y holds numbers such as {y[y != np.round(y)][0]}: use a regressor"
            )
        if len(set(y.tolist())) < 2:
            raise ValueError(f"y holds the single class {y.tolist()[0]!r}: there is nothing for {name} to learn")
    else:
        try:
            y = y.astype(float)
        except (TypeError, ValueError):
            raise TypeError(f"{name} is a regressor, but y holds {y.tolist()[0]!r}: use a classifier") from None
        if not np.isfinite(y).all():
            raise ValueError(f"y is infinite in row {int((~np.isfinite(y)).argmax())}: drop it or fill it in")
    return X, y


def rows_of(X: Any, index: Array) -> Any:
    """Return the rows ``index`` of a frame or an array."""
    return X.iloc[index] if hasattr(X, "iloc") else X[index]
