"""The search of Section 3.1: FLAML AutoML, one run per estimator, its finds kept in files.

AutoML stops by the clock, so a second search need not find the same model. The clock here is that of the processor, so
that a busy machine takes longer instead of finding worse models. What a search found is kept: a JSON file per estimator
says which settings made it (versions, data, budget, seed) and which hyper-parameters won. The model itself is never
stored; it is fitted again from them, which takes seconds and gives the same bits each time.
"""

import hashlib
import json
import math
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

from experiments.models import ESTIMATORS, FOLDS, JOBS, STEADY, Leaderboard, Settled, checked, fitted, module, quiet
from gbce.base import Array

__all__ = ["automl"]

FORMAT = 2


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
        Seconds of processor time for each estimator; on a quiet machine the same as by the clock on the wall.
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
    X, y = checked(X, y)
    if not budget > 0:
        raise ValueError(f"budget must be a positive number of seconds, not {budget!r}")
    if not names or (unknown := [name for name in names if name not in ESTIMATORS]):
        raise ValueError(f"names must be some of {', '.join(ESTIMATORS)}; not {unknown if names else 'none of them'}")
    versions = {name: str(module(name).__version__) for name in ("flaml", "numpy", "sklearn", "lightgbm", "xgboost")}
    data = _fingerprint(X, y)
    settings: dict[str, dict[str, Any]] = {
        name: {
            "format": FORMAT, "estimator": name, "budget": float(budget), "seed": int(seed), "folds": FOLDS,
            "jobs": JOBS, "clock": "processor", "data": data, "versions": versions,
        }
        for name in names
    }  # fmt: skip
    paths = {name: Path(cache) / f"{name}-{_digest(settings[name])[:16]}.json" for name in settings}
    found = {name: _read(paths[name], settings[name]) for name in settings}
    missing = [name for name in settings if found[name] is None]
    for name, result in zip(missing, _searches(X, y, missing, budget, seed), strict=True):
        _write(paths[name], settings[name], result)
        found[name] = result
    return fitted({name: result for name, result in found.items() if result}, *_as_flaml_shuffles(X, y))


def _searches(X: Array, y: Array, names: list[str], budget: float, seed: int) -> Iterator[Settled]:
    """Yield what each search finds, in the order of ``names``; they run in processes of one thread each."""
    if not names:
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=JOBS, return_as="generator")
    results = pool(delayed(_search)(X, y, name, budget, seed) for name in names)
    yield from tqdm(results, desc="AutoML", total=len(names), disable=None)


def _search(X: Array, y: Array, name: str, budget: float, seed: int) -> Settled:
    """Return the best cross-validated MSE FLAML finds for one estimator, and the arguments that gave it."""
    run = module("flaml").AutoML()
    with quiet(), _processor_time():
        run.fit(
            X_train=X, y_train=y, task="regression", metric="mse", estimator_list=[name], time_budget=budget,
            eval_method="cv", n_splits=FOLDS, seed=seed, n_jobs=1, verbose=0,
        )  # fmt: skip
    if run.model is None or not math.isfinite(run.best_loss):
        raise RuntimeError(f"FLAML fitted no {ESTIMATORS[name]} within {budget} s: give it a larger budget")
    config = {key: getattr(value, "item", lambda value=value: value)() for key, value in run.model.params.items()}
    if config.get("penalty") == "None":  # FLAML's word for no penalty
        config["penalty"] = None
    return Settled(float(run.best_loss), config | (STEADY if name == "lgbm" else {}))


@contextmanager
def _processor_time() -> Iterator[None]:
    """Let FLAML, which asks ``time.time``, count what this process worked and not what it waited for others."""
    wall = time.time
    begun = wall() - time.process_time()
    time.time = lambda: begun + time.process_time()
    try:
        yield
    finally:
        time.time = wall


def _as_flaml_shuffles(X: Array, y: Array) -> tuple[Array, Array]:
    """Return the rows in the order in which FLAML fits its final model: bootstraps and SGD depend on it."""
    from sklearn.utils import shuffle

    rows: tuple[Array, Array] = shuffle(X, y, random_state=module("flaml.config").RANDOM_SEED)
    return rows


def _fingerprint(X: Array, y: Array) -> str:
    whole = hashlib.sha256(repr((X.shape, y.shape)).encode())
    whole.update(X.tobytes())
    whole.update(y.tobytes())
    return whole.hexdigest()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path, settings: dict[str, Any]) -> Settled | None:
    """Return what an earlier search found, or None if there is none, it is damaged, or its settings differ."""
    try:
        content = json.loads(path.read_text())
        claimed = content.pop("digest")
        intact = claimed == _digest(content) and content["settings"] == settings
        return Settled(content["mse"], content["config"]) if intact else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(path: Path, settings: dict[str, Any], found: Settled) -> None:
    """Write the file whole or not at all."""
    content = {"settings": settings, **found._asdict()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        partial.write_text(json.dumps(content | {"digest": _digest(content)}, indent=1))
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
