"""Estimators around others: pipelines, searches, thresholds, calibration and transformed targets, taken off in turn."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gbce.predictors._score_parts import LinearScores, TreeScores

__all__ = ["Unwrapped", "finish", "unwrap"]

_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
_THRESHOLDS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
_AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
# Classifiers whose decision_function, where they have one, is the score that is read.
_SCORED = ("HistGradientBoostingClassifier", "GradientBoostingClassifier", "AdaBoostClassifier")

Parts = TreeScores | LinearScores


class Unwrapped(NamedTuple):
    """The estimator inside, the fitted steps before it, and what is done to its answer by the one around it."""

    core: Any
    steps: list[Any]
    around: Any = None


def unwrap(model: Any) -> Unwrapped | None:
    """Take off what is around an estimator; None where its answer is made of several."""
    core, steps, around = model, [], None
    while type(core).__module__.startswith("sklearn."):
        name = type(core).__name__
        if name == "Pipeline":
            steps += [one for _, one in core.steps[:-1]]
            core = core.steps[-1][1]
        elif name in _SEARCHES:
            core = core.best_estimator_
        elif name in _THRESHOLDS:
            core = core.estimator_
        elif name == "FrozenEstimator":
            core = core.estimator
        elif name in ("CalibratedClassifierCV", "TransformedTargetRegressor"):
            if around is not None:
                return None
            around = core
            if name == "TransformedTargetRegressor":
                core = core.regressor_
            elif len(core.calibrated_classifiers_) == 1:
                core = core.calibrated_classifiers_[0].estimator
            else:  # a mean of probabilities is none of scores
                return None
        else:
            break
    return Unwrapped(core, steps, around)


def finish(found: Unwrapped, parts: Parts, link: str) -> tuple[Parts, str] | None:
    """Return scores and link of an estimator with what is around it."""
    if found.around is None:
        return parts, link
    if type(found.around).__name__ == "TransformedTargetRegressor":
        return _transformed(found.around, parts) if link == "identity" else None
    return _calibrated(found, parts, link)


def _transformed(around: Any, parts: Parts) -> tuple[Parts, str] | None:
    """Return scores and link of a regressor of a transformed target."""
    back = around.transformer_
    if len(parts.base) != 1 or around._training_dim != 1:
        return None
    if type(back).__name__ == "FunctionTransformer":
        inverse = back.inverse_func
        link = "exp" if inverse is np.exp else "expm1" if inverse is np.expm1 else "identity" if inverse is None else ""
        return (parts, link) if link else None
    if type(back).__name__ not in _AFFINE or not type(back).__module__.startswith("sklearn."):
        return None
    ends = np.asarray(back.inverse_transform(np.array([[0.0], [1.0]])), dtype=float)[:, 0]
    return _stretched(parts, ends[1] - ends[0], ends[0]), "identity"


def _calibrated(found: Unwrapped, parts: Parts, link: str) -> tuple[Parts, str] | None:
    """Return scores and link of one classifier with Platt's sigmoid around its score or its probability."""
    calibrators = found.around.calibrated_classifiers_[0].calibrators
    if (
        len(found.around.classes_) != 2
        or len(calibrators) != 1
        or type(calibrators[0]).__name__ != "_SigmoidCalibration"
    ):
        return None
    if link == "identity" and isinstance(parts, TreeScores) and len(parts.base) == 2:
        parts = replace(parts, value=parts.value[:, 1:], base=parts.base[1:])
    elif link != "logistic" or not _is_scored(found.core, parts):
        return None
    slope, shift = float(calibrators[0].a_), float(calibrators[0].b_)
    return _stretched(parts, -slope, -shift), "logistic"


def _is_scored(core: Any, parts: Parts) -> bool:
    if isinstance(parts, LinearScores):
        return hasattr(core, "decision_function")
    return type(core).__name__ in _SCORED and getattr(core, "loss", "") != "exponential"


def _stretched(parts: Parts, factor: float, shift: float) -> Parts:
    """Return scores times a factor, and shifted."""
    base = factor * parts.base + shift
    if isinstance(parts, TreeScores):
        return replace(parts, value=factor * parts.value, base=base)
    return replace(parts, weights=factor * parts.weights, base=base)
