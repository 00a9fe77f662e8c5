"""Models of the data: fitted, cross-validated, the best first; and fixed ones that need no search.

``experiments/automl.py`` searches for hyper-parameters as the paper does.
"""

import importlib
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from gbce.base import Array

__all__ = ["ESTIMATORS", "Entry", "Leaderboard", "Settled", "fixed", "refitted"]

ESTIMATORS = {
    "lgbm": "LightGBM",
    "xgboost": "XGBoost",
    "xgb_limitdepth": "XGBoost (depth-limited)",
    "histgb": "HistGradientBoosting",
    "rf": "Random Forest",
    "extra_tree": "ExtraTrees",
    "enet": "ElasticNet",
    "sgd": "SGD",
}  # FLAML's name: the paper's name
FOLDS = 5
REFITTED = 5
JOBS = 2  # fits at a time, each in one thread: threads of one small fit spend their time waiting for each other

_CLASSES = {
    "lgbm": ("lightgbm", "LGBMRegressor"),
    "xgboost": ("xgboost", "XGBRegressor"),
    "xgb_limitdepth": ("xgboost", "XGBRegressor"),
    "histgb": ("sklearn.ensemble", "HistGradientBoostingRegressor"),
    "rf": ("sklearn.ensemble", "RandomForestRegressor"),
    "extra_tree": ("sklearn.ensemble", "ExtraTreesRegressor"),
    "enet": ("sklearn.linear_model", "ElasticNet"),
    "sgd": ("sklearn.linear_model", "SGDRegressor"),
}
STEADY = {"deterministic": True, "force_col_wise": True}  # else LightGBM times two ways of summing and picks one

# chosen once, by hand, so that the cross-validated MSEs come near the paper's leaderboard in 2-D and in 10-D
FIXED: dict[str, dict[str, Any]] = {
    "extra_tree": {"n_estimators": 100, "min_samples_split": 4, "n_jobs": 1},
    "xgb_limitdepth": {
        "n_estimators": 180, "max_depth": 6, "learning_rate": 0.05, "min_child_weight": 2.0, "subsample": 0.6,
        "colsample_bylevel": 0.6, "reg_lambda": 2.0, "max_bin": 512, "n_jobs": 1,
    },
    "lgbm": {
        "n_estimators": 160, "num_leaves": 16, "learning_rate": 0.06, "min_child_samples": 4, "reg_lambda": 1.0,
        "max_bin": 1023, "n_jobs": 1, "verbose": -1, **STEADY,
    },
    "xgboost": {
        "n_estimators": 140, "max_depth": 0, "max_leaves": 12, "grow_policy": "lossguide", "tree_method": "hist",
        "learning_rate": 0.065, "min_child_weight": 2.0, "subsample": 0.7, "colsample_bylevel": 0.7,
        "reg_lambda": 2.0, "max_bin": 512, "n_jobs": 1,
    },
    "rf": {"n_estimators": 60, "min_samples_leaf": 2, "n_jobs": 1},
    "histgb": {
        "max_iter": 100, "max_leaf_nodes": 12, "learning_rate": 0.1, "min_samples_leaf": 5, "l2_regularization": 1.0,
        "early_stopping": False,
    },
}  # fmt: skip


class Settled(NamedTuple):
    """The error of an estimator's hyper-parameters, and these."""

    mse: float
    config: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Entry:
    """One fitted model of a leaderboard.

    Attributes
    ----------
    name, label : str
        FLAML's name of the estimator, and the paper's.
    mse : float
        Five-fold cross-validated mean squared error of these hyper-parameters.
    config : dict
        The arguments the estimator was made with.
    model : estimator
        Fitted on all rows; ``model.predict(x)`` takes an array ``(n, d)``.
    """

    name: str
    label: str
    mse: float
    config: dict[str, Any]
    model: Any


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Fitted models, the one of smallest MSE first."""

    entries: tuple[Entry, ...]

    @property
    def best(self) -> Entry:
        """The model of smallest MSE."""
        return self.entries[0]

    def top(self, k: int) -> tuple[Entry, ...]:
        """Return the ``k`` models of smallest MSE."""
        if not 1 <= k <= len(self.entries):
            raise ValueError(f"the leaderboard has {len(self.entries)} models, so k cannot be {k!r}")
        return self.entries[:k]

    def frame(self) -> pd.DataFrame:
        """Return the columns ``model`` and ``mse``, as in the paper's tables."""
        return pd.DataFrame({"model": [e.label for e in self.entries], "mse": [e.mse for e in self.entries]})


def fixed(X: Array, y: Array, seed: int = 42) -> Leaderboard:
    """Fit six estimators with hyper-parameters chosen once, without a search: seconds instead of minutes.

    Parameters
    ----------
    X, y : ndarray of shape (n, d), and (n,)
        Training data.
    seed : int
        Of the folds and of the estimators.

    Returns
    -------
    Leaderboard
        Sorted by five-fold cross-validated MSE (rows shuffled).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> fixed(X, X[:, 0] ** 2).frame().columns.tolist()
    ['model', 'mse']
    """
    return _cross_validated({name: chosen | {"random_state": seed} for name, chosen in FIXED.items()}, X, y, seed)


def refitted(board: Leaderboard, X: Array, y: Array, seed: int) -> Leaderboard:
    """Fit the settings of a leaderboard to other rows with another seed, and rank them by their errors there.

    Parameters
    ----------
    board : Leaderboard
        Whose settings; of its models the best few, since a later one hardly comes among the three that are used.
    X, y : ndarray of shape (n, d), and (n,)
        Other training data of the same law.
    seed : int
        Of the folds and of the estimators.

    Returns
    -------
    Leaderboard
        Sorted by five-fold cross-validated MSE (rows shuffled).
    """
    few = board.entries[:REFITTED]
    return _cross_validated({entry.name: entry.config | {"random_state": seed} for entry in few}, X, y, seed)


def _cross_validated(configs: dict[str, dict[str, Any]], X: Array, y: Array, seed: int) -> Leaderboard:
    from sklearn.model_selection import KFold

    X, y = checked(X, y)
    folds = list(KFold(FOLDS, shuffle=True, random_state=seed).split(X))
    tasks = [(name, train, test) for name in configs for train, test in folds]
    with quiet():
        errors = Parallel(n_jobs=JOBS, prefer="threads")(
            delayed(_error)(_made(name, configs[name]), X, y, train, test) for name, train, test in tasks
        )
    mse = np.reshape(errors, (len(configs), FOLDS)).mean(axis=1).tolist()
    return fitted({name: Settled(mse[i], config) for i, (name, config) in enumerate(configs.items())}, X, y)


def fitted(found: dict[str, Settled], X: Array, y: Array) -> Leaderboard:
    """Fit each estimator on all rows with its MSE known, and sort."""
    with quiet():
        models = Parallel(n_jobs=JOBS, prefer="threads")(
            delayed(_fit)(_made(name, settled.config), X, y) for name, settled in found.items()
        )
    entries = [
        Entry(name, ESTIMATORS[name], *settled, model)
        for (name, settled), model in zip(found.items(), models, strict=True)
    ]
    return Leaderboard(tuple(sorted(entries, key=lambda entry: entry.mse)))


def _error(model: Any, X: Array, y: Array, train: Array, test: Array) -> float:
    predicted = _fit(model, X[train], y[train]).predict(X[test])
    return float(np.mean((predicted - y[test]) ** 2))


def _fit(model: Any, X: Array, y: Array) -> Any:
    with threadpool_limits(1, user_api="openmp"):  # HistGradientBoosting has no n_jobs
        return model.fit(X, y)


def _made(name: str, config: dict[str, Any]) -> Any:
    """Return the unfitted estimator. FLAML's SGD sees rows scaled to length one, so that is a step before it."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    home, kind = _CLASSES[name]
    estimator = getattr(module(home), kind)(**config)
    return make_pipeline(Normalizer(), estimator) if name == "sgd" else estimator


def module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"the models of the paper need {name}: pip install 'gbce[paper]'") from error


def quiet() -> Any:
    """Ignore that SGD or ElasticNet stopped at the limit of its steps: the search judges what came out."""
    from sklearn.exceptions import ConvergenceWarning

    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


def checked(X: Array, y: Array) -> tuple[Array, Array]:
    X, y = np.ascontiguousarray(X, dtype=float), np.ascontiguousarray(y, dtype=float)
    if X.ndim != 2 or y.shape != (len(X),):
        raise ValueError(f"X must be (n, d) and y (n,), not {X.shape} and {y.shape}")
    if len(X) < 2 * FOLDS:
        raise ValueError(f"{len(X)} rows are too few for {FOLDS}-fold cross-validation")
    return X, y
