"""A look inside a fitted model: the columns its scores are made of, the scores, and what makes outputs of them.

What is read rests on the insides of other libraries, so it is believed only after it was seen to give the model's own
outputs; who uses it must check that. A model that cannot be read is no error: there is None.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from gbce.base import Array
from gbce.predictors._columns import as_numbers, in_order, made_by, map_in_turn
from gbce.predictors._estimators import input_maker
from gbce.predictors._frameworks import catboost_rows
from gbce.predictors._predictor import Classifier
from gbce.space import Space
from gbce.trees._read_boosters import read_catboost, read_lightgbm, read_xgboost
from gbce.trees._read_sklearn import read_sklearn_trees
from gbce.trees._scores import LinearScores, ReadTrees, TreeScores, as_matrix

__all__ = [
    "MORE_TERMS",
    "ModelStructure",
    "Unwrapped",
    "agrees",
    "finish",
    "n_terms",
    "read_structure",
    "same_output",
    "unwrap",
]

# --- estimators around others ----------------------------------------------------------------------------------------

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


# --- a look inside a fitted model ------------------------------------------------------------------------------------

_LINEAR_MODULES = ("sklearn.linear_model.", "sklearn.svm.", "sklearn.discriminant_analysis")
_LOG_LINKS = ("PoissonRegressor", "GammaRegressor")
_OTHER_LINKS = ("TweedieRegressor", "RANSACRegressor", "SVR", "SVC", "NuSVC", "NuSVR", "QuadraticDiscriminantAnalysis")


@dataclass(frozen=True, eq=False)
class ModelStructure:
    """What a model is made of.

    Parameters
    ----------
    columns : callable
        Encoded rows ``(n, d)`` to the columns ``(n, C)`` that the scores are made of.
    parts : TreeScores or LinearScores
        The scores of these columns.
    link : {"identity", "exp", "expm1", "logistic", "softmax", "sign"}
        What makes outputs of scores. One logistic score is that of the second class; the sign of zero is 1.
    classes : tuple, optional
        Of a classifier.
    stepwise : frozenset of int
        Features whose values are encoded as levels on the way, or are codes of categories.
    nonlinear : frozenset of int
        Features that go through functions that rise or fall all the way, but may be level for a while, end somewhere,
        or be rounded unevenly in the last digits.
    coded : frozenset of int
        Columns that hold codes of categories, or sides of sets of them: there is nothing between two of their values.
    """

    columns: Callable[[Array], Array]
    parts: TreeScores | LinearScores
    link: str
    classes: tuple[Any, ...] | None
    stepwise: frozenset[int]
    nonlinear: frozenset[int] = frozenset()
    coded: frozenset[int] = frozenset()

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
        if self.link in ("expm1", "sign"):
            return np.expm1(scores[:, 0]) if self.link == "expm1" else np.where(scores[:, 0] >= 0, 1.0, -1.0)
        return np.exp(scores[:, 0]) if self.link == "exp" else scores[:, 0]

    def by_thresholds(self) -> "ModelStructure":
        """Return the same model with thresholds only: each set of categories is a column of its own, 0 left, 1 right.

        Examples
        --------
        >>> from sklearn.ensemble import HistGradientBoostingRegressor
        >>> x = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
        >>> model = HistGradientBoostingRegressor(categorical_features=[0]).fit(x, x[:, 0] == 1)
        >>> inside = read_structure(model, Space.infer(x, kinds={"x1": "integer"}))
        >>> inside.parts.set_columns, inside.by_thresholds().parts.set_columns
        (array([0]), array([], dtype=int64))
        """
        parts, columns = self.parts, self.columns
        if not isinstance(parts, TreeScores) or not len(parts.set_columns):
            return self
        trees = parts
        n_columns = int(trees.column.max()) + 1

        def widened(x: Array) -> Array:
            made = columns(x)[:, :n_columns]
            return np.hstack([made, trees.sides(made)])

        plain = trees.by_thresholds(n_columns)
        coded = self.coded | set(range(n_columns, int(plain.column.max()) + 1))
        return replace(self, columns=widened, parts=plain, coded=frozenset(coded))


def read_structure(model: Any, space: Space) -> ModelStructure | None:
    """Return what a fitted model is made of, if it is a tree ensemble or a linear model, behind scalers and encoders.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]])
    >>> inside = read_structure(LinearRegression().fit(x, x.sum(axis=1)), Space.real(2))
    >>> inside.outputs(np.array([[3.0, 4.0]])).round(6)
    array([7.])
    """
    try:
        return _look(model, space)
    except Exception:  # what another library has inside is its own, and may change with any release
        return None


def _look(model: Any, space: Space) -> ModelStructure | None:
    classes: tuple[Any, ...] | None = None
    logits = False
    if isinstance(model, Classifier):
        model, classes, logits = model.model, model.classes, model.logits
    if made_by(model, "lightgbm", "Booster") or made_by(model, "xgboost", "Booster"):
        inside = _read_booster(model, space, classes)
    else:
        inside = _read_estimator(model, space, classes)
    if inside is None or not logits:
        return inside
    if inside.link != "identity":
        return None
    return replace(inside, link="logistic" if len(inside.parts.base) == 1 else "softmax")


def _read_estimator(model: Any, space: Space, classes: tuple[Any, ...] | None) -> ModelStructure | None:
    found = unwrap(model)
    read = None if found is None else _read_core(found.core)
    if found is None or read is None:
        return None
    finished = finish(found, read.scores, read.link)
    treated = map_in_turn(found.steps, range(space.n_columns))
    if finished is None or treated is None:
        return None
    own = getattr(model, "classes_", getattr(found.core, "classes_", None))
    if classes is None and own is not None and len(np.asarray(own)):
        classes = tuple(np.asarray(own).tolist())
    name, steps = type(model).__name__, found.steps
    as_input = catboost_rows(model, space, name) if made_by(model, "catboost") else input_maker(model, space, name)

    def columns(x: Array) -> Array:
        rows = as_input(x)
        for step in steps:
            rows = rows if step is None or isinstance(step, str) else step.transform(rows)
        return read.prepare(rows)

    coded = finished[0].set_columns if isinstance(finished[0], TreeScores) else np.zeros(0, dtype=int)
    levels = treated.levels
    if not steps:  # behind steps it is not known here which column is whose
        levels = levels | frozenset((coded if read.sources is None else read.sources[coded]).tolist())
    owner = _owners(getattr(model, "feature_names_in_", None), space)
    stepwise, nonlinear = (frozenset(owner[c] for c in some) for some in (levels, treated.bent))
    return ModelStructure(columns, *finished, classes, stepwise, nonlinear, frozenset(coded.tolist()))


class _Read(NamedTuple):
    """Scores, their link, and what makes columns of rows; see :class:`ReadTrees`."""

    scores: TreeScores | LinearScores
    link: str
    prepare: Callable[[Any], Array] = as_matrix
    sources: Array | None = None


def _read_core(core: Any) -> _Read | None:
    read: ReadTrees | None
    if made_by(core, "lightgbm"):
        read = read_lightgbm(core.booster_)
    elif made_by(core, "xgboost"):
        if not np.isnan(getattr(core, "missing", np.nan)):  # a number that stands for a gap is unlike its neighbours
            return None
        best = getattr(core, "best_iteration", None)  # where there was early stopping
        read = read_xgboost(core.get_booster(), None if best is None else best + 1)
    elif made_by(core, "catboost"):
        read = read_catboost(core)
    else:
        read = read_sklearn_trees(core)
    return _read_linear(core) if read is None else _Read(*read)


def _read_linear(core: Any) -> _Read | None:
    name = type(core).__name__
    if not type(core).__module__.startswith(_LINEAR_MODULES) or name in _OTHER_LINKS or not hasattr(core, "coef_"):
        return None
    classes = getattr(core, "classes_", None)
    weights = np.asarray(core.coef_, dtype=float)
    weights = weights[None, :] if weights.ndim == 1 else weights
    base = np.broadcast_to(np.asarray(core.intercept_, dtype=float), (len(weights),))
    scores = LinearScores(weights, base)
    if classes is not None:
        return _Read(scores, "logistic" if len(weights) == 1 else "softmax")
    return _Read(scores, "exp" if name in _LOG_LINKS else "identity") if len(weights) == 1 else None


def _read_booster(booster: Any, space: Space, classes: tuple[Any, ...] | None) -> ModelStructure | None:
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
    owner, coded = _owners(None if unnamed else wanted, space), frozenset(read.scores.set_columns.tolist())
    stepwise = frozenset(owner[c] for c in coded)
    return ModelStructure(lambda x: read.prepare(as_input(x)), read.scores, read.link, classes, stepwise, coded=coded)


def _owners(names: Any, space: Space) -> list[int]:
    """Return which feature each column of a model's rows is of, in the order of its names if it has any."""
    own = {str(label): j for j, codec in enumerate(space.codecs) for label in codec.labels}
    labels = [str(label) for label in space.labels]
    owner = [own.get(label, j) for j, label in enumerate(labels)]  # an array has one column for each feature
    wanted = labels if names is None else [str(one) for one in names]
    if space.columns is None or wanted in (labels, [label.replace(" ", "_") for label in labels]):
        return owner
    return [owner[labels.index(one)] for one in wanted]


# --- whether what was read of a model says what the model itself says ------------------------------------------------

# Of rounding errors: the error of a sum of n numbers is below n * epsilon times the sum of their sizes, whatever their
# order (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). So many more are for what comes after the sum.
MORE_TERMS = 10
# Times the rounding error of a sum, in double and in single precision: outputs that differ by more were read wrongly;
# by hand.
_SAME_OUTPUT, _SAME_IN_SINGLE = 1e3, 30.0
_COARSE = 1e-12  # a rounding error above this is that of single precision


def n_terms(inside: ModelStructure) -> int:
    """Return how many numbers are added up to one score, and a few more."""
    parts = inside.parts
    return MORE_TERMS + (len(parts.roots) if isinstance(parts, TreeScores) else parts.weights.shape[1])


def same_output(inside: ModelStructure, outputs: Array) -> float:
    """Return by how much two outputs may differ that are the same but for rounding."""
    size = max(1.0, float(np.abs(outputs).max(initial=0.0)))
    epsilon = inside.parts.epsilon
    return (_SAME_IN_SINGLE if epsilon > _COARSE else _SAME_OUTPUT) * n_terms(inside) * epsilon * size


def agrees(inside: ModelStructure, x: Array, outputs: Array, label: object = None) -> bool:
    """Whether what was read gives a model's own outputs, but for rounding.

    Parameters
    ----------
    inside : Inside
        What was read.
    x : array of shape (n, d)
        Encoded rows.
    outputs : array of shape (n,) or (n, c)
        What the model said of them: of a classifier all classes, or the probability of one.
    label : object, optional
        The class that ``outputs`` of one column are of.

    Returns
    -------
    bool
        False, too, if what was read has no answer to a row.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce.predictors import read_structure
    >>> from gbce.space import Space
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> model = DecisionTreeRegressor().fit(x, [1.0, 5.0, 2.0])
    >>> inside = read_structure(model, Space.real(1))
    >>> agrees(inside, x, model.predict(x)), agrees(inside, x, model.predict(x) + 0.1)
    (True, False)
    """
    try:
        said = inside.outputs(x)
    except Exception:  # the model's own preparation, which may not take a row in any way of its own
        return False
    if label is not None:
        classes = list(inside.classes or ())
        if label not in classes:
            return False
        said = said[:, classes.index(label)]
    outputs = np.asarray(outputs, dtype=float)
    return said.shape == outputs.shape and bool(np.all(np.abs(said - outputs) <= same_output(inside, outputs)))
