"""Translate a scikit-learn learner to a posterior of coefficients: layers, likelihood, and the prior of its penalty."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from gbce.base import Array
from gbce.ensembles._posterior import Question
from gbce.ensembles._problem import Categorical, Likelihood, Net, NormalErrors, Problem, require_full_rank
from gbce.ensembles._refits import cross_val_risk
from gbce.predictors import rows_of

_MOST_PARAMETERS = 4000  # by hand: their covariance is a full matrix, here of 128 MB, and is factorised
# Prior standard deviation of the sum of the standardised inputs of a unit. By hand: wide enough for units to be
# nonlinear, and not so wide that most of them saturate.
NETWORK_SD = 2.0
_NOISE_FOLDS = 5  # of cross-validation, for the noise around a network; a convention
_NO_RESIDUAL = 1e-20  # share of the sum of squares: residuals of 1e-10 of y are rounding

# --- models at drawn coefficients ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DrawnModel:
    """A net at coefficients ``theta (p,)`` behind fitted preprocessing; linearised there if it has a ``step``."""

    net: Net
    theta: Array = field(repr=False)
    prepare: Any = field(default=None, repr=False)
    step: Array | None = field(default=None, repr=False)
    feature_names_in_: Array | None = field(default=None, repr=False)
    n_features_in_: int = 0

    def scores(self, X: Any) -> Array:
        """Return outputs ``(n, o)`` of rows ``(n, d)``."""
        rows = np.asarray(X if self.prepare is None else self.prepare.transform(X), dtype=float)
        if self.step is None:
            return self.net.outputs(self.theta, rows)
        return self.net.outputs_linearised(self.theta, self.step, rows)

    @property
    def coef_(self) -> Array:
        """Weights of the first layer, ``(d,)`` with one output, else ``(o, d)``."""
        weights = self.net.layers(self._whole)[0][0]
        return weights[:, 0] if weights.shape[1] == 1 else weights.T

    @property
    def intercept_(self) -> Any:
        """Biases of the first layer, a number with one output."""
        biases = self.net.layers(self._whole)[0][1]
        return float(biases[0]) if len(biases) == 1 else biases

    @property
    def _whole(self) -> Array:
        return self.theta if self.step is None else self.theta + self.step


@dataclass(frozen=True, eq=False)
class DrawnRegressor(DrawnModel):
    """Predicts one number per row."""

    def predict(self, X: Any) -> Array:
        """Return predictions ``(n,)``."""
        return self.scores(X)[:, 0]


@dataclass(frozen=True, eq=False)
class DrawnClassifier(DrawnModel):
    """Predicts probabilities of ``classes_``."""

    classes_: Array = field(default_factory=lambda: np.arange(2))

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities ``(n, classes)``."""
        scores = self.scores(X)
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row, ``(n,)``."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def build_model(net: Net, theta: Array, classes: Array | None, **options: Any) -> DrawnModel:
    """Build a regressor, or a classifier if there are classes."""
    if classes is None:
        return DrawnRegressor(net, theta, **options)
    return DrawnClassifier(net, theta, classes_=classes, **options)


# --- learners as posteriors of coefficients --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LearnerReading:
    """The posterior in (possibly standardised) units, and how its coefficients become a model in the user's units."""

    learner: Any
    problem: Problem
    classes: Array | None
    options: dict[str, Any]
    noise_sd: float
    prior_sd: float
    centre: Array
    scale: Array
    offset: float = 0.0
    unit: float = 1.0

    @property
    def network(self) -> bool:
        """Whether there are hidden layers."""
        return not self.problem.linear

    @property
    def facts(self) -> dict[str, float]:
        """Numbers for the facts of a posterior."""
        noise = {} if self.classes is not None else {"noise_sd": self.noise_sd}
        return {"n_parameters": self.problem.net.n_parameters, "prior_sd": self.prior_sd, **noise}

    def model(self, theta: Array, step: Array | None = None) -> DrawnModel:
        """Return the model at coefficients ``(p,)``."""
        net = self.problem.net
        layers = [(w.copy(), b.copy()) for w, b in net.layers(theta)]
        if self.network:
            w, b = layers[0]
            layers[0] = (w / self.scale[:, None], b - (self.centre / self.scale) @ w)
            layers[-1] = (layers[-1][0] * self.unit, layers[-1][1] * self.unit + self.offset)
        return build_model(net, net.pack(layers), self.classes, step=step, **self.options)


def read(
    question: Question,
    method: str,
    prior_sd: float | None,
    noise_sd: float | None,
    standardise: bool,
    learned_from: Array | None = None,
) -> LearnerReading:
    """Translate a learner, or the last step of a pipeline; noise and earlier steps are ``learned_from`` rows."""
    learner, X, names, options = _prepare(question, method, learned_from)
    kind = _classify_learner(learner, method)
    codes, classes, outputs = question.y, None, 1
    if question.classifies:
        classes, codes = np.unique(question.y, return_inverse=True)
        outputs = 1 if len(classes) == 2 else len(classes)
    hidden = tuple(np.atleast_1d(learner.hidden_layer_sizes).tolist()) if kind == "network" else ()
    activation = learner.activation if kind == "network" else "identity"
    net = Net((X.shape[1], *hidden, outputs), activation, kind == "network" or bool(learner.fit_intercept))
    if net.n_parameters > _MOST_PARAMETERS:
        raise ValueError(
            f"{type(learner).__name__} has {net.n_parameters:,} coefficients, and {method} takes up to "
            f"{_MOST_PARAMETERS:,}: use fewer hidden units, or gbce.BayesianBootstrap()"
        )
    d = X.shape[1]
    centre, scale, offset, unit = np.zeros(d), np.ones(d), 0.0, 1.0
    if standardise and kind == "network":
        centre, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        offset, unit = (0.0, 1.0) if classes is not None else (float(codes.mean()), float(codes.std()) or 1.0)
    seen = slice(None) if learned_from is None else learned_from
    noise = 1.0 if classes is not None else _estimate_noise(learner, kind, X[seen], codes[seen], noise_sd, method)
    likelihood: Likelihood = (
        NormalErrors((codes - offset) / unit, noise / unit) if classes is None else Categorical(codes)
    )
    sd = _implied_prior_sd(learner, kind, noise, standardise) if prior_sd is None else float(prior_sd)
    if kind != "network":
        weights = X[seen] if math.isinf(sd) else X[seen, :0]
        constant = np.ones((len(weights), int(net.bias)))
        require_full_rank(np.hstack([weights, constant]), [*names[: weights.shape[1]], *["the intercept"][: net.bias]])
    precision = _network_precision(net, sd, standardise) if kind == "network" else _precision(net, sd)
    problem = Problem(net, likelihood, (X - centre) / scale, precision)
    return LearnerReading(learner, problem, classes, options, noise, sd, centre, scale, offset, unit)


def _prepare(
    question: Question, method: str, learned_from: Array | None
) -> tuple[Any, Array, list[str], dict[str, Any]]:
    """Return the last learner of a pipeline, its input ``(n, d)``, names of its columns, and options of models."""
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    learner, X, prepare = question.learner, question.X, None
    if isinstance(learner, Pipeline):
        learner, before = question.learner.steps[-1][1], question.learner[:-1]
        if len(before.steps):
            prepare = clone(before)
            if learned_from is None:
                X = prepare.fit_transform(X, question.y)
            else:
                X = prepare.fit(rows_of(X, learned_from), question.y[learned_from]).transform(X)
    X = X.toarray() if hasattr(X, "toarray") else X
    try:
        X = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"{method} needs numbers, but X has other values: use a pipeline that encodes them before the learner"
        ) from None
    bad = ~np.isfinite(X).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{method}: X is missing or infinite in {int(bad.sum())} rows, first in row "
            f"{int(bad.argmax())}: impute it, for example by a pipeline with SimpleImputer"
        )
    columns = getattr(question.X, "columns", None)
    options = {"prepare": prepare, "n_features_in_": int(question.X.shape[1])}
    if columns is not None:
        options["feature_names_in_"] = np.asarray([str(column) for column in columns], dtype=object)
    return learner, X, _name_columns(columns, prepare, X.shape[1]), options


def _name_columns(columns: Any, prepare: Any, d: int) -> list[str]:
    """Return the names of the learner's columns: of the frame, of the pipeline's output, or by number."""
    if prepare is not None:
        try:
            columns = prepare.get_feature_names_out()
        except (AttributeError, ValueError):  # a step that has no names
            columns = None
    if columns is None or len(columns) != d:
        return [f"column {number}" for number in range(d)]
    return [repr(str(column)) for column in columns]


def _classify_learner(learner: Any, method: str) -> str:
    """Return "linear", "logistic" or "network", or raise for a learner that is not supported."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    name = type(learner).__name__
    if type(learner) in (MLPClassifier, MLPRegressor):
        if getattr(learner, "loss", "squared_error") not in ("squared_error", "log_loss"):
            raise ValueError(f"{method} supports squared errors and log loss, not loss={learner.loss!r} of {name}")
        return "network"
    if type(learner) not in (LinearRegression, Ridge, LogisticRegression):
        raise TypeError(
            f"{method} supports LinearRegression, Ridge, LogisticRegression, MLPRegressor and "
            f"MLPClassifier, not {name}: use gbce.BayesianBootstrap(), which takes any learner"
        )
    if getattr(learner, "positive", False):
        raise ValueError(f"{method} does not support positivity constraints on coefficients: set positive=False")
    if type(learner) is LogisticRegression:
        if learner.penalty in ("l1", "elasticnet") or (learner.l1_ratio or 0) > 0:
            raise ValueError(f"{method} supports an L2 penalty only, as a normal prior: use l1_ratio=0")
        if learner.class_weight is not None:
            raise ValueError(f"{method} weighs all rows equally: set class_weight=None")
        return "logistic"
    if np.size(getattr(learner, "alpha", 0.0)) != 1:
        raise ValueError(f"{method} takes one alpha for all columns, not {learner.alpha!r}")
    return "linear"


def _estimate_noise(learner: Any, kind: str, X: Array, y: Array, given: float | None, method: str) -> float:
    """Return the residual standard deviation: as given, or estimated."""
    if given is not None:
        return float(given)
    n = len(y)
    if kind == "network":
        return math.sqrt(float(cross_val_risk(learner, X, y, cv=min(_NOISE_FOLDS, n))[0]))
    X, y = (X - X.mean(axis=0), y - y.mean()) if learner.fit_intercept else (X, y)
    u, s, _ = np.linalg.svd(X, full_matrices=False)
    alpha = float(getattr(learner, "alpha", 0.0))
    s = np.where(s > s[0] * max(X.shape) * np.finfo(float).eps, s, 0.0)  # as numpy.linalg.matrix_rank has it
    shrunk = np.divide(s**2, s**2 + alpha, out=np.zeros_like(s), where=s > 0)
    left = n - float(shrunk.sum()) - bool(learner.fit_intercept)
    residual = y - u @ (shrunk * (u.T @ y))
    if left < 1 or not residual @ residual > _NO_RESIDUAL * (y @ y):
        raise ValueError(
            f"{method} cannot estimate the noise of y, since {type(learner).__name__} fits {n} rows without error: "
            "give noise_sd"
        )
    return math.sqrt(float(residual @ residual) / left)


def _implied_prior_sd(learner: Any, kind: str, noise: float, standardise: bool) -> float:
    """Return the standard deviation of the normal prior that the penalty implies; infinite without a penalty."""
    if kind == "logistic":
        return math.inf if learner.penalty is None else math.sqrt(learner.C)
    if kind == "network" and standardise:
        return NETWORK_SD
    alpha = float(getattr(learner, "alpha", 0.0))
    return noise / math.sqrt(alpha) if alpha > 0 else math.inf


def _precision(net: Net, sd: float) -> Array:
    """Return the prior precision; biases have a flat prior, as scikit-learn does not penalise them."""
    o = net.sizes[-1]
    weights = np.full(net.sizes[0] * o, sd**-2)
    precision = np.diag(np.concatenate([weights, np.zeros(o)]) if net.bias else weights)
    if o > 1:  # a constant added to all scores has no effect: flat priors are fixed in that direction only
        for start in range(0, len(precision), o):
            if precision[start, start] == 0:
                precision[start : start + o, start : start + o] += 1.0 / o
    return precision


def _network_precision(net: Net, sd: float, standardised: bool) -> Array:
    """Return the precision of independent priors; standardised, the input of a unit has sd ``sd`` (Neal 1996)."""
    parts = []
    for i, o in zip(net.sizes[:-1], net.sizes[1:], strict=True):
        parts += [np.full(i * o, (i if standardised else 1) / sd**2), np.full(o, sd**-2)]
    return np.diag(np.concatenate(parts))
