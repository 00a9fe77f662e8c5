"""Models of the data: FLAML AutoML as in Section 3.1, or fixed ones that fit in seconds.

AutoML stops by the clock, so a second search need not find the same model. What it found is therefore kept: a JSON
file per estimator says which settings made it (versions, data, budget, seed) and which hyper-parameters won. The model
itself is never stored; it is fitted again from them, which takes seconds and gives the same bits each time.
"""

import hashlib
import importlib
import json
import math
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from gbce._weights import Array

__all__ = ["ESTIMATORS", "Entry", "Leaderboard", "automl", "fixed"]

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
FORMAT = 1
FOLDS = 5
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
_STEADY = {"deterministic": True, "force_col_wise": True}  # else LightGBM times two ways of summing and picks one

# chosen once, by hand, so that the cross-validated MSEs come near the paper's leaderboard in 2-D and in 10-D
FIXED: dict[str, dict[str, Any]] = {
    "extra_tree": {"n_estimators": 100, "min_samples_split": 4, "n_jobs": 1},
    "xgb_limitdepth": {
        "n_estimators": 180, "max_depth": 6, "learning_rate": 0.05, "min_child_weight": 2.0, "subsample": 0.6,
        "colsample_bylevel": 0.6, "reg_lambda": 2.0, "max_bin": 512, "n_jobs": 1,
    },
    "lgbm": {
        "n_estimators": 160, "num_leaves": 16, "learning_rate": 0.06, "min_child_samples": 4, "reg_lambda": 1.0,
        "max_bin": 1023, "n_jobs": 1, "verbose": -1, **_STEADY,
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


def automl(
    X: Array,
    y: Array,
    *,
    budget: float = 25.0,
    seed: int = 42,
    names: Sequence[str] = tuple(ESTIMATORS),
    cache: Path,
) -> Leaderboard:
    """Search each estimator's hyper-parameters with FLAML, or take them from an earlier search with these settings.

    Each estimator has a run of its own, since the paper caps the time of each. ``eval_method`` is five-fold
    cross-validation, which is what FLAML's ``"auto"`` chooses for the paper's data and budget; with a shorter budget
    ``"auto"`` would turn to a holdout, whose MSE means something else.

    Parameters
    ----------
    X, y : ndarray of shape (n, d), and (n,)
        Training data.
    budget : float
        Seconds of search for each estimator.
    seed : int
        Of the search. (FLAML fixes the seeds of the estimators themselves.)
    names : sequence of str
        Which of `ESTIMATORS`.
    cache : Path
        Folder of the JSON files; made if it is not there. A file that is damaged or whose settings differ in
        anything is not used.

    Returns
    -------
    Leaderboard
        Sorted by cross-validated MSE.
    """
    X, y = _checked(X, y)
    if not budget > 0:
        raise ValueError(f"budget must be a positive number of seconds, not {budget!r}")
    if not names or (unknown := [name for name in names if name not in ESTIMATORS]):
        raise ValueError(f"names must be some of {', '.join(ESTIMATORS)}; not {unknown if names else 'none of them'}")
    versions = {name: str(_module(name).__version__) for name in ("flaml", "numpy", "sklearn", "lightgbm", "xgboost")}
    data = _fingerprint(X, y)
    settings: dict[str, dict[str, Any]] = {
        name: {
            "format": FORMAT, "estimator": name, "budget": float(budget), "seed": int(seed), "folds": FOLDS,
            "jobs": JOBS, "data": data, "versions": versions,
        }
        for name in names
    }  # fmt: skip
    paths = {name: Path(cache) / f"{name}-{_digest(settings[name])[:16]}.json" for name in settings}
    found = {name: _read(paths[name], settings[name]) for name in settings}
    missing = [name for name in settings if found[name] is None]
    for name, result in zip(missing, _searches(X, y, missing, budget, seed), strict=True):
        _write(paths[name], settings[name], result)
        found[name] = result
    return _fitted({name: result for name, result in found.items() if result}, *_as_flaml_shuffles(X, y))


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
    from sklearn.model_selection import KFold

    X, y = _checked(X, y)
    folds = list(KFold(FOLDS, shuffle=True, random_state=seed).split(X))
    configs = {name: chosen | {"random_state": seed} for name, chosen in FIXED.items()}
    tasks = [(name, train, test) for name in configs for train, test in folds]
    errors = Parallel(n_jobs=JOBS, prefer="threads")(
        delayed(_error)(_made(name, configs[name]), X, y, train, test) for name, train, test in tasks
    )
    mse = np.reshape(errors, (len(configs), FOLDS)).mean(axis=1).tolist()
    return _fitted(dict(zip(configs, zip(mse, configs.values(), strict=True), strict=True)), X, y)


def _fitted(found: dict[str, tuple[float, dict[str, Any]]], X: Array, y: Array) -> Leaderboard:
    """Fit each estimator on all rows with its MSE known, and sort."""
    with _quiet():
        models = Parallel(n_jobs=JOBS, prefer="threads")(
            delayed(_fit)(_made(name, config), X, y) for name, (_, config) in found.items()
        )
    entries = [
        Entry(name, ESTIMATORS[name], mse, config, model)
        for (name, (mse, config)), model in zip(found.items(), models, strict=True)
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

    module, kind = _CLASSES[name]
    estimator = getattr(_module(module), kind)(**config)
    return make_pipeline(Normalizer(), estimator) if name == "sgd" else estimator


def _searches(X: Array, y: Array, names: list[str], budget: float, seed: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield what each search finds, in the order of ``names``; they run in processes of one thread each."""
    if not names:
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=JOBS, return_as="generator")
    results = pool(delayed(_search)(X, y, name, budget, seed) for name in names)
    yield from tqdm(results, desc="AutoML", total=len(names), disable=None)


def _search(X: Array, y: Array, name: str, budget: float, seed: int) -> tuple[float, dict[str, Any]]:
    """Return the best cross-validated MSE FLAML finds for one estimator, and the arguments that gave it."""
    run = _module("flaml").AutoML()
    with _quiet():
        run.fit(
            X_train=X, y_train=y, task="regression", metric="mse", estimator_list=[name], time_budget=budget,
            eval_method="cv", n_splits=FOLDS, seed=seed, n_jobs=1, verbose=0,
        )  # fmt: skip
    if run.model is None or not math.isfinite(run.best_loss):
        raise RuntimeError(f"FLAML fitted no {ESTIMATORS[name]} within {budget} s: give it a larger budget")
    config = {key: getattr(value, "item", lambda value=value: value)() for key, value in run.model.params.items()}
    if config.get("penalty") == "None":  # FLAML's word for no penalty
        config["penalty"] = None
    return float(run.best_loss), config | (_STEADY if name == "lgbm" else {})


def _as_flaml_shuffles(X: Array, y: Array) -> tuple[Array, Array]:
    """Return the rows in the order in which FLAML fits its final model: bootstraps and SGD depend on it."""
    from sklearn.utils import shuffle

    rows: tuple[Array, Array] = shuffle(X, y, random_state=_module("flaml.config").RANDOM_SEED)
    return rows


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"the models of the paper need {name}: pip install 'gbce[paper]'") from error


def _quiet() -> Any:
    """Ignore that SGD or ElasticNet stopped at the limit of its steps: the search judges what came out."""
    from sklearn.exceptions import ConvergenceWarning

    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


def _checked(X: Array, y: Array) -> tuple[Array, Array]:
    X, y = np.ascontiguousarray(X, dtype=float), np.ascontiguousarray(y, dtype=float)
    if X.ndim != 2 or y.shape != (len(X),):
        raise ValueError(f"X must be (n, d) and y (n,), not {X.shape} and {y.shape}")
    if len(X) < 2 * FOLDS:
        raise ValueError(f"{len(X)} rows are too few for {FOLDS}-fold cross-validation")
    return X, y


def _fingerprint(X: Array, y: Array) -> str:
    whole = hashlib.sha256(repr((X.shape, y.shape)).encode())
    whole.update(X.tobytes())
    whole.update(y.tobytes())
    return whole.hexdigest()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path, settings: dict[str, Any]) -> tuple[float, dict[str, Any]] | None:
    """Return what an earlier search found, or None if there is none, it is damaged, or its settings differ."""
    try:
        content = json.loads(path.read_text())
        claimed = content.pop("digest")
        intact = claimed == _digest(content) and content["settings"] == settings
        return (content["mse"], content["config"]) if intact else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(path: Path, settings: dict[str, Any], found: tuple[float, dict[str, Any]]) -> None:
    """Write the file whole or not at all."""
    content = {"settings": settings, "mse": found[0], "config": found[1]}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        partial.write_text(json.dumps(content | {"digest": _digest(content)}, indent=1))
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
