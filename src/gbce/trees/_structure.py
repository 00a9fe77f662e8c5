"""Structure of a fitted model: the function from rows to columns, the scores of these columns, and the link to outputs.

Reading relies on internals of other libraries, so a structure must be checked against the model's own outputs before
use (:func:`agrees`). A model that cannot be read gives None, not an error.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from gbce._numerics import ROUNDING
from gbce.base import Array
from gbce.predictors import Classifier, as_numbers, catboost_rows, in_order, input_maker, made_by, map_in_turn
from gbce.space import Space
from gbce.trees._read_boosters import read_catboost, read_lightgbm, read_xgboost
from gbce.trees._scores import LinearScores, ReadTrees, TreeScores, as_matrix, read_sklearn_trees

# The rounding error of a sum of n numbers is below n * epsilon times the sum of their sizes, whatever their order
# (Higham, Accuracy and Stability of Numerical Algorithms, 4.2); this many more terms account for what follows the sum.
MORE_TERMS = 10
# Multiples of the rounding error of a sum, in double and in single precision, above which outputs were read wrongly;
# hand-tuned.
_SAME_OUTPUT, _SAME_IN_SINGLE = 1e3, 30.0
_LINEAR_MODULES = ("sklearn.linear_model.", "sklearn.svm.", "sklearn.discriminant_analysis")
_LOG_LINKS = ("PoissonRegressor", "GammaRegressor")
_OTHER_LINKS = ("TweedieRegressor", "RANSACRegressor", "SVR", "SVC", "NuSVC", "NuSVR", "QuadraticDiscriminantAnalysis")
_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
_THRESHOLDS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
_AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
# Classifiers whose decision_function, if any, is the score that is read.
_SCORED = ("HistGradientBoostingClassifier", "GradientBoostingClassifier", "AdaBoostClassifier")

Parts = TreeScores | LinearScores

# --- wrappers --------------------------------------------------------------------------------------------------------


class Unwrapped(NamedTuple):
    """The inner estimator, the fitted steps before it, and the wrapper that transforms its output."""

    core: Any
    steps: list[Any]
    around: Any = None


def unwrap(model: Any) -> Unwrapped | None:
    """Remove wrappers around an estimator; None if the output combines several estimators."""
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
            else:  # a mean of probabilities is not a function of summed scores
                return None
        else:
            break
    return Unwrapped(core, steps, around)


def apply_wrapper(found: Unwrapped, parts: Parts, link: str) -> tuple[Parts, str] | None:
    """Return the scores and link of an estimator including its wrapper; None if that is not possible."""
    if found.around is None:
        return parts, link
    if type(found.around).__name__ == "TransformedTargetRegressor":
        return _transform_target(found.around, parts) if link == "identity" else None
    return _calibrate(found, parts, link)


def _transform_target(around: Any, parts: Parts) -> tuple[Parts, str] | None:
    """Return the scores and link of a regressor with a transformed target."""
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
    return _rescale(parts, ends[1] - ends[0], ends[0]), "identity"


def _calibrate(found: Unwrapped, parts: Parts, link: str) -> tuple[Parts, str] | None:
    """Return the scores and link of one classifier with a Platt sigmoid on its score or probability."""
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
    return _rescale(parts, -slope, -shift), "logistic"


def _is_scored(core: Any, parts: Parts) -> bool:
    """Whether the calibrator applies to the score that is read."""
    if isinstance(parts, LinearScores):
        return hasattr(core, "decision_function")
    return type(core).__name__ in _SCORED and getattr(core, "loss", "") != "exponential"


def _rescale(parts: Parts, factor: float, shift: float) -> Parts:
    """Multiply scores by a factor and shift them."""
    base = factor * parts.base + shift
    if isinstance(parts, TreeScores):
        return replace(parts, value=factor * parts.value, base=base)
    return replace(parts, weights=factor * parts.weights, base=base)


# --- reading a model -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ModelStructure:
    """A fitted model: ``columns`` maps encoded rows ``(n, d)`` to columns ``(n, C)``, and ``parts`` these to scores.

    ``link``, one of identity, exp, expm1, logistic, softmax and sign, maps scores to outputs: a single logistic score
    is that of the second class, and the sign of zero is 1. ``stepwise`` features are encoded as levels on the way, or
    are category codes; ``nonlinear`` ones pass through monotone functions which may be flat in places, be clipped, or
    be rounded unevenly in the last digits.
    """

    columns: Callable[[Array], Array]
    parts: TreeScores | LinearScores
    link: str
    classes: tuple[Any, ...] | None
    stepwise: frozenset[int]
    nonlinear: frozenset[int] = frozenset()

    def outputs(self, x: Array) -> Array:
        """Return the outputs, ``(n,)`` or one column per class, of encoded rows ``(n, d)``."""
        return self.link_scores(self.parts.scores(self.columns(x)))

    def link_scores(self, scores: Array) -> Array:
        """Return the outputs, ``(n,)`` or one column per class, of scores ``(n, K)``."""
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


def read_structure(model: Any, space: Space) -> ModelStructure | None:
    """Return the structure of a tree ensemble or linear model, also behind scalers and encoders; None for others."""
    try:
        return _read_model(model, space)
    except Exception:  # internals of other libraries may change with any release
        return None


def _read_model(model: Any, space: Space) -> ModelStructure | None:
    """Read a model; unlike :func:`read_structure` this may raise."""
    classes: tuple[Any, ...] | None = None
    logits = False
    if isinstance(model, Classifier):
        model, classes, logits = model.model, model.classes, model.logits
    if made_by(model, "lightgbm", "Booster") or made_by(model, "xgboost", "Booster"):
        structure = _read_booster(model, space, classes)
    else:
        structure = _read_estimator(model, space, classes)
    if structure is None or not logits:
        return structure
    if structure.link != "identity":
        return None
    return replace(structure, link="logistic" if len(structure.parts.base) == 1 else "softmax")


def _read_estimator(model: Any, space: Space, classes: tuple[Any, ...] | None) -> ModelStructure | None:
    """Read a scikit-learn compatible estimator or pipeline."""
    found = unwrap(model)
    read = None if found is None else _read_core(found.core)
    if found is None or read is None:
        return None
    wrapped = apply_wrapper(found, read.scores, read.link)
    column_map = map_in_turn(found.steps, range(space.n_columns))
    if wrapped is None or column_map is None:
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

    coded = wrapped[0].set_columns if isinstance(wrapped[0], TreeScores) else np.zeros(0, dtype=int)
    levels = column_map.levels
    if not steps:  # behind steps, the feature of a column is not known here
        levels = levels | frozenset((coded if read.sources is None else read.sources[coded]).tolist())
    owner = _find_owners(getattr(model, "feature_names_in_", None), space)
    stepwise, nonlinear = (frozenset(owner[c] for c in some) for some in (levels, column_map.bent))
    return ModelStructure(columns, *wrapped, classes, stepwise, nonlinear)


class _CoreScores(NamedTuple):
    """Scores, their link, and the function from rows to columns; see :class:`ReadTrees`."""

    scores: TreeScores | LinearScores
    link: str
    prepare: Callable[[Any], Array] = as_matrix
    sources: Array | None = None


def _read_core(core: Any) -> _CoreScores | None:
    """Read the inner estimator."""
    read: ReadTrees | None
    if made_by(core, "lightgbm"):
        read = read_lightgbm(core.booster_)
    elif made_by(core, "xgboost"):
        if not np.isnan(getattr(core, "missing", np.nan)):
            return None  # a number that encodes missing values differs from its neighbours
        best = getattr(core, "best_iteration", None)  # after early stopping
        read = read_xgboost(core.get_booster(), None if best is None else best + 1)
    elif made_by(core, "catboost"):
        read = read_catboost(core)
    else:
        read = read_sklearn_trees(core)
    return _read_linear(core) if read is None else _CoreScores(*read)


def _read_linear(core: Any) -> _CoreScores | None:
    """Read a linear model; None for other links than identity, exp, logistic and softmax."""
    name = type(core).__name__
    if not type(core).__module__.startswith(_LINEAR_MODULES) or name in _OTHER_LINKS or not hasattr(core, "coef_"):
        return None
    classes = getattr(core, "classes_", None)
    weights = np.asarray(core.coef_, dtype=float)
    weights = weights[None, :] if weights.ndim == 1 else weights
    base = np.broadcast_to(np.asarray(core.intercept_, dtype=float), (len(weights),))
    scores = LinearScores(weights, base)
    if classes is not None:
        return _CoreScores(scores, "logistic" if len(weights) == 1 else "softmax")
    return _CoreScores(scores, "exp" if name in _LOG_LINKS else "identity") if len(weights) == 1 else None


def _read_booster(booster: Any, space: Space, classes: tuple[Any, ...] | None) -> ModelStructure | None:
    """Read a plain LightGBM or XGBoost booster."""
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
    owner = _find_owners(None if unnamed else wanted, space)
    stepwise = frozenset(owner[c] for c in read.scores.set_columns.tolist())
    return ModelStructure(lambda x: read.prepare(as_input(x)), read.scores, read.link, classes, stepwise)


def _find_owners(names: Any, space: Space) -> list[int]:
    """Return the feature of each column of a model's rows, in the order of the model's names if it has any."""
    own = {str(label): j for j, codec in enumerate(space.codecs) for label in codec.labels}
    labels = [str(label) for label in space.column_labels]
    owner = [own.get(label, j) for j, label in enumerate(labels)]  # an array has one column per feature
    wanted = labels if names is None else [str(one) for one in names]
    if space.columns is None or wanted in (labels, [label.replace(" ", "_") for label in labels]):
        return owner
    return [owner[labels.index(one)] for one in wanted]


# --- agreement with the model ----------------------------------------------------------------------------------------


def n_terms(structure: ModelStructure) -> int:
    """Return the number of terms in one score, plus a few for what comes after the sum."""
    parts = structure.parts
    return MORE_TERMS + (len(parts.roots) if isinstance(parts, TreeScores) else parts.weights.shape[1])


def same_output(structure: ModelStructure, outputs: Array) -> float:
    """Return the tolerance within which two outputs are equal up to rounding."""
    size = max(1.0, float(np.abs(outputs).max(initial=0.0)))
    epsilon = structure.parts.epsilon
    is_single = epsilon > ROUNDING
    return (_SAME_IN_SINGLE if is_single else _SAME_OUTPUT) * n_terms(structure) * epsilon * size


def agrees(structure: ModelStructure, x: Array, outputs: Array, label: object = None) -> bool:
    """Whether a structure reproduces a model's own outputs, up to rounding; false also if it fails on a row.

    ``outputs`` are of rows ``x`` ``(n, d)``: all classes ``(n, c)``, or ``(n,)``, of a classifier those of ``label``.
    """
    try:
        own_outputs = structure.outputs(x)
    except Exception:  # the model's own preprocessing may raise anything
        return False
    if label is not None:
        classes = list(structure.classes or ())
        if label not in classes:
            return False
        own_outputs = own_outputs[:, classes.index(label)]
    outputs = np.asarray(outputs, dtype=float)
    return own_outputs.shape == outputs.shape and bool(
        np.all(np.abs(own_outputs - outputs) <= same_output(structure, outputs))
    )
