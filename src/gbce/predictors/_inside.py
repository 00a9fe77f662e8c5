"""A look inside a fitted model: the columns its scores are made of, the scores, and what makes outputs of them.

What is read rests on the insides of other libraries, so it is believed only after it was seen to give the model's own
outputs; who uses it must check that. A model that cannot be read is no error: there is None.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from gbce.base import Array
from gbce.predictors._classifier import Classifier
from gbce.predictors._columns import as_numbers, in_order, made_by
from gbce.predictors._columnwise import stepwise_inputs
from gbce.predictors._estimators import input_maker
from gbce.predictors._read_trees import ReadTrees, read_lightgbm, read_sklearn_trees, read_xgboost
from gbce.predictors._score_parts import LinearScores, TreeScores
from gbce.space import Space

__all__ = ["Inside", "look_inside"]

_LINEAR_MODULES = ("sklearn.linear_model.", "sklearn.svm.", "sklearn.discriminant_analysis")
_LOG_LINKS = ("PoissonRegressor", "GammaRegressor")
_OTHER_LINKS = ("TweedieRegressor", "RANSACRegressor", "SVR", "SVC", "NuSVC", "NuSVR", "QuadraticDiscriminantAnalysis")


@dataclass(frozen=True, eq=False)
class Inside:
    """What a model is made of.

    Parameters
    ----------
    columns : callable
        Encoded rows ``(n, d)`` to the columns ``(n, C)`` that the scores are made of.
    parts : TreeScores or LinearScores
        The scores of these columns.
    link : {"identity", "exp", "logistic", "softmax"}
        What makes outputs of scores. One logistic score is that of the second class.
    classes : tuple, optional
        Of a classifier.
    stepwise : frozenset of int
        Features whose values are encoded as levels on the way.
    """

    columns: Callable[[Array], Array]
    parts: TreeScores | LinearScores
    link: str
    classes: tuple[Any, ...] | None
    stepwise: frozenset[int]

    def outputs(self, x: Array) -> Array:
        """Return the outputs, ``(n,)`` or one column per class, of encoded rows ``(n, d)``."""
        return self.link_scores(self.parts.scores(self.columns(x)))

    def link_scores(self, scores: Array) -> Array:
        """Return the outputs, ``(n,)`` or one column per class, that scores ``(n, K)`` make."""
        if self.link == "softmax":
            return np.asarray(softmax(scores, axis=1))
        if self.link == "logistic":
            positive = expit(scores[:, 0])
            return np.column_stack([1.0 - positive, positive])
        if self.classes is not None:
            return scores
        return np.exp(scores[:, 0]) if self.link == "exp" else scores[:, 0]


def look_inside(model: Any, space: Space) -> Inside | None:
    """Return what a fitted model is made of, if it is a tree ensemble or a linear model, behind scalers and encoders.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]])
    >>> inside = look_inside(LinearRegression().fit(x, x.sum(axis=1)), Space.real(2))
    >>> inside.outputs(np.array([[3.0, 4.0]])).round(6)
    array([7.])
    """
    try:
        return _look(model, space)
    except Exception:  # what another library has inside is its own, and may change with any release
        return None


def _look(model: Any, space: Space) -> Inside | None:
    classes: tuple[Any, ...] | None = None
    if isinstance(model, Classifier):
        model, classes = model.model, model.classes
    if made_by(model, "lightgbm", "Booster") or made_by(model, "xgboost", "Booster"):
        return _look_at_booster(model, space, classes)
    core, steps = model, []
    while type(core).__name__ == "Pipeline" and type(core).__module__.startswith("sklearn."):
        steps += [one for _, one in core.steps[:-1]]
        core = core.steps[-1][1]
    read = _read_core(core)
    if read is None:
        return None
    parts, link = read
    own = getattr(core, "classes_", None)
    if classes is None and own is not None:
        classes = tuple(np.asarray(own).tolist())
    as_input = input_maker(model, space, type(model).__name__)
    stepwise = _stepwise_features(model, steps, space)
    if stepwise is None:
        return None

    def columns(x: Array) -> Array:
        rows = as_input(x)
        for step in steps:
            rows = rows if step is None or isinstance(step, str) else step.transform(rows)
        return _as_matrix(rows)

    return Inside(columns, parts, link, classes, stepwise)


def _read_core(core: Any) -> tuple[TreeScores | LinearScores, str] | None:
    read: ReadTrees | None
    if made_by(core, "lightgbm"):
        read = read_lightgbm(core.booster_)
    elif made_by(core, "xgboost"):
        best = getattr(core, "best_iteration", None) if getattr(core, "early_stopping_rounds", None) else None
        read = read_xgboost(core.get_booster(), None if best is None else best + 1)
    else:
        read = read_sklearn_trees(core)
    return _read_linear(core) if read is None else (read.scores, read.link)


def _read_linear(core: Any) -> tuple[LinearScores, str] | None:
    name = type(core).__name__
    if not type(core).__module__.startswith(_LINEAR_MODULES) or name in _OTHER_LINKS or not hasattr(core, "coef_"):
        return None
    classes = getattr(core, "classes_", None)
    weights = np.asarray(core.coef_, dtype=float)
    weights = weights[None, :] if weights.ndim == 1 else weights
    base = np.broadcast_to(np.asarray(core.intercept_, dtype=float), (len(weights),))
    scores = LinearScores(weights, base)
    if classes is not None:
        return scores, "logistic" if len(weights) == 1 else "softmax"
    return (scores, "exp" if name in _LOG_LINKS else "identity") if len(weights) == 1 else None


def _look_at_booster(booster: Any, space: Space, classes: tuple[Any, ...] | None) -> Inside | None:
    name = type(booster).__name__
    lightgbm = made_by(booster, "lightgbm")
    wanted = booster.feature_name() if lightgbm else booster.feature_names
    unnamed = wanted is None or wanted == [f"Column_{j}" for j in range(len(wanted))]
    read = read_lightgbm(booster) if lightgbm else read_xgboost(booster)
    if read is None:
        return None
    if unnamed and (wanted is None or space.columns is None or list(map(str, space.columns)) != wanted):
        as_input: Callable[[Array], Any] = as_numbers(space, name)
    else:
        as_input = in_order(wanted, space, name, frame=False, own=False)
    if classes is None and read.link in ("logistic", "softmax"):
        classes = tuple(range(max(2, len(read.scores.base))))
    return Inside(lambda x: _as_matrix(as_input(x)), read.scores, read.link, classes, frozenset())


def _stepwise_features(model: Any, steps: list[Any], space: Space) -> frozenset[int] | None:
    """Return the features whose columns are encoded as levels before the scores; None if not all is columnwise."""
    labels = [str(label) for label in space.labels]
    names = getattr(model, "feature_names_in_", None)
    order = labels if names is None or space.columns is None else [str(one) for one in names]
    owner = {str(label): j for j, codec in enumerate(space.codecs) for label in codec.labels}
    if space.columns is None:
        owner = {label: j for j, label in enumerate(labels)}
    found: set[int] = set()
    for number, step in enumerate(steps):
        own = stepwise_inputs(step, range(len(order)))
        if own is None:
            return None
        found |= own if number == 0 else set(range(len(order))) if own else set()
    return frozenset(owner[order[i]] for i in found)


def _as_matrix(rows: Any) -> Array:
    """Return rows as floats ``(n, C)``; refuse levels that only the model itself knows how to read."""
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    if isinstance(rows, pd.DataFrame):
        words = [label for label, kind in rows.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
        if words:
            raise TypeError(f"the columns {words} are no numbers")
        return rows.to_numpy(dtype=float, na_value=np.nan)
    array = np.asarray(rows)
    if array.dtype.kind not in "fiub":
        raise TypeError("text is no number")
    return array.astype(float)
